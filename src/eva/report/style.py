"""The style sheet that all pages share, and its colours for figures."""

import re
from collections.abc import Mapping
from html import escape
from importlib.resources import files

STYLE = (files("eva.report") / "style.css").read_text("utf-8")
LIGHT = dict(re.findall(r"--([\w-]+):(#\w{6})", STYLE.partition("@media")[0]))
"""The colours of light pages by their names in the style sheet."""
NUM_COLOURS = sum(name.startswith("series-") for name in LIGHT)


def facts(fields: Mapping[str, str], kind: str = "facts") -> str:
    """Return names and values as an HTML list with the CSS class `kind`."""
    rows = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in fields.items())
    return f'<dl class="{kind}">{rows}</dl>'
