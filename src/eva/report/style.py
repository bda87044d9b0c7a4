"""What the pages look like: colours for light and dark, and the report's style sheet."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

# Okabe and Ito's hues, safe for the colour-blind: darker where they are pale on white, lighter for dark pages.
LIGHT = {"paper": "#ffffff", "ink": "#1c2530", "muted": "#5c6873", "rule": "#dfe3e8", "optimum": "#30363d"} | {
    f"series-{i}": c for i, c in enumerate(("#0072b2", "#d55e00", "#009e73", "#b5548b", "#b98600", "#3a9bd1"))
}
DARK = {"paper": "#12171d", "ink": "#e8ecf1", "muted": "#9aa7b4", "rule": "#2b333d", "optimum": "#ccd3da"} | {
    f"series-{i}": c for i, c in enumerate(("#5cb3ee", "#ff9552", "#2fcca0", "#ea94c4", "#f0bf4c", "#9ad8ff"))
}
NUM_COLOURS = sum(name.startswith("series-") for name in LIGHT)
_FONT = "--font:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif"


def _variables(colours: Mapping[str, str]) -> str:
    return f":root{{{_FONT};{';'.join(f'--{name}:{colour}' for name, colour in colours.items())}}}"


COLOURS = f"{_variables(LIGHT)}@media(prefers-color-scheme:dark){{{_variables(DARK)}}}"
"""The colours and the font as variables of CSS."""

STYLE = """
*{box-sizing:border-box}
a{color:inherit}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.55 var(--font)}
main{max-width:60rem;margin:0 auto;padding:2.5rem 1.25rem 4rem}
h1{font-size:1.9rem;line-height:1.2;margin:0 0 1rem;letter-spacing:-.02em;overflow-wrap:anywhere}
h2{font-size:1.15rem;margin:2.75rem 0 .75rem}
.eyebrow,figcaption,.small{color:var(--muted);font-size:.875rem}
.eyebrow{margin:0 0 .25rem}
.verdict{font-size:1.15rem;margin:.6rem 0;padding:.1rem 0 .1rem 1rem;border-left:4px solid var(--series-1)}
.verdict strong{display:block;font-size:.875rem}
figure{margin:2rem 0 0}
figcaption{margin-top:.75rem}
svg{display:block;width:100%;height:auto;stroke-linejoin:round}
.narrow{display:none}
.scroll{overflow-x:auto;margin-bottom:1.25rem}
table{border-collapse:collapse;width:100%;font-size:.9rem;font-variant-numeric:tabular-nums}
.small{margin:0 0 .3rem}
th,td{text-align:left;vertical-align:top;padding:.45rem .9rem .45rem 0;border-bottom:1px solid var(--rule)}
thead th{color:var(--muted);font-weight:500;vertical-align:bottom}
tbody th{min-width:10rem}
.n{text-align:right;white-space:nowrap}
.keep{white-space:nowrap}
.seed{display:inline-block;white-space:nowrap;margin-right:.75rem}
.seed i{color:var(--muted);font-style:normal;font-size:.8rem}
.flag{color:var(--paper);background:var(--muted);border-radius:.6rem;padding:0 .45rem;font-size:.72rem}
.dot{display:inline-block;width:.7rem;height:.7rem;border-radius:50%;margin-right:.5rem}
.facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(17rem,1fr));gap:0 2rem;margin:0;font-size:.85rem}
.facts div{display:flex;justify-content:space-between;gap:1rem;border-bottom:1px solid var(--rule);padding:.25rem 0}
dt{color:var(--muted);flex:none;max-width:85%;overflow-wrap:anywhere}dd{margin:0;text-align:right;overflow-wrap:anywhere}
code{display:block;min-width:18rem;font:.82rem/1.5 ui-monospace,Menlo,Consolas,monospace;overflow-wrap:anywhere}
@media(max-width:38rem){main{padding-top:1.5rem}h1{font-size:1.5rem}.wide{display:none}.narrow{display:block}}
"""


def facts(fields: Mapping[str, str], kind: str = "facts") -> str:
    """Lay out names and values, as many side by side as there is room for; `kind` is their class of CSS."""
    rows = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in fields.items())
    return f'<dl class="{kind}">{rows}</dl>'
