"""Write `report.html`, one page that needs nothing but itself, and `report.png` beside it."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from urllib.parse import quote

import numpy as np

from eva.files import refusing_kindly, write_whole
from eva.report import plots
from eva.report.curves import (
    BOOTSTRAP_SEEDS,
    FINAL_SHARE,
    WINDOW_SHARE,
    Task,
    Variant,
    differing,
    final_return,
    flatten,
    group_tasks,
    series_numbers,
)
from eva.report.reading import RunRecord, find_runs
from eva.report.style import COLOURS, NUM_COLOURS, STYLE, facts
from eva.report.verdict import caveats, number, verdict
from eva.runs.record.columns import INSPECTOR_PAGE


@dataclass(frozen=True)
class ReportResult:
    """Where the report went, and its verdict: one line per task."""

    html: Path
    png: Path
    verdict: str


def write_report(paths: Sequence[Path], out: Path | None = None) -> ReportResult:
    """Write `report.html` and `report.png` on all runs in or under `paths`.

    They go to `out`, else to the folder that was given, or that the runs have in common if there are several.
    """
    runs = find_runs(paths)
    root = Path(os.path.commonpath([run.path for run in runs]))
    tasks = group_tasks(runs)
    verdicts = [verdict(task.variants, task.optimum) for task in tasks]
    names = {run.path: os.path.relpath(run.path, root if len(runs) > 1 else root.parent) for run in runs}
    folder = out or (paths[0] if len(paths) == 1 else root)
    html, png = folder / "report.html", folder / "report.png"
    text, picture = page(tasks, verdicts, names, folder), plots.png(tasks)
    with refusing_kindly(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_whole(html, text.encode(errors="replace"))
    write_whole(png, picture)
    lines = verdicts if len(tasks) == 1 else [f"{t.name}: {line}" for t, line in zip(tasks, verdicts, strict=True)]
    return ReportResult(html, png, "\n".join(lines))


def page(tasks: Sequence[Task], verdicts: Sequence[str], names: Mapping[Path, str], folder: Path) -> str:
    """Return the page for `folder`; `names` says what to call each run's directory."""
    title = ", ".join(task.name for task in tasks)
    headline = "".join(
        f'<p class="verdict">{f"<strong>{escape(task.name)}</strong>" if len(tasks) > 1 else ""}{escape(line)}</p>'
        for task, line in zip(tasks, verdicts, strict=True)
    )
    notes = "".join(f"<li>{escape(note)}</li>" for note in caveats(tasks))
    numbers = series_numbers(tasks)
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>EVA report: {escape(title)}</title>
<style>{COLOURS}{STYLE}</style></head>
<body><main>
<header><p class="eyebrow">Ephemeral Value Adjustments: report on {len(names)} run{"s" * (len(names) > 1)}</p>
<h1>{escape(title)}</h1>{headline}</header>
<figure><div role="img" aria-label="{escape("Learning curves. " + " ".join(verdicts))}">
<div class="wide">{plots.svg(tasks, narrow=False)}</div><div class="narrow">{plots.svg(tasks, narrow=True)}</div></div>
<figcaption>{_caption(tasks)}</figcaption></figure>
<section><h2>Final performance</h2>{"".join(_results(task, numbers, folder) for task in tasks)}</section>
{f'<section><h2>Read with care</h2><ul class="small">{notes}</ul></section>' if notes else ""}
<section><h2>Configuration</h2>{_configuration(tasks)}</section>
<section><h2>Provenance</h2>{_provenance(tasks, names)}</section>
</main></body></html>
"""


def _caption(tasks: Sequence[Task]) -> str:
    enough = {len(variant.counted) >= BOOTSTRAP_SEEDS for task in tasks for variant in task.variants}
    interval = "the 95% bootstrap interval of the mean"
    mixed = f"minimum to maximum, or from {BOOTSTRAP_SEEDS} seeds on {interval}"
    band = mixed if len(enough) > 1 else interval if True in enough else "minimum to maximum"
    levels = [
        what
        for what, values in (
            ("the optimal return, computed exactly", [task.optimum for task in tasks]),
            ("the return of random play", [task.chance for task in tasks]),
        )
        if any(value is not None for value in values)
    ]
    dashed = f" Dashed: {', and '.join(levels)}." if levels else ""
    dotted = " Dotted: unfinished." if any(not run.finished for task in tasks for run in task.runs) else ""
    return (
        "Thick: mean over seeds, where every seed has a value. Thin: each seed, unless there are many. A seed's curve "
        f"is at each point the mean return of the episodes that finished in the last {WINDOW_SHARE:.0%} of the planned "
        "transitions before it, or of the latest episode if none did; nothing before the first. "
        f"Band: over seeds, {band}.{dotted}{dashed}"
    )


def _results(task: Task, numbers: Mapping[str, int], folder: Path) -> str:
    optimum = "" if task.optimum is None else f" Optimal return: {number(task.optimum)}."
    caption = f"{task.name}: mean return of the episodes that finished in the last {FINAL_SHARE:.0%} of a run.{optimum}"
    heads = ["Variant", "Seeds", "Each seed", "Mean", "Of optimum", "Transitions", "Steps/s"]
    rows = [_result_row(variant, task.optimum, numbers[variant.label], folder) for variant in task.variants]
    return _table(heads, rows, caption, numeric=(1, 3, 4, 5, 6))


def _result_row(variant: Variant, optimum: float | None, series: int, folder: Path) -> list[str]:
    colour = f"var(--series-{series % NUM_COLOURS})"
    seeds = " ".join(
        f'<span class="seed"><i>{run.seed}:</i> {_or_dash(final_return(run), number)}'
        f"{'' if run.finished else ' <span class=flag>unfinished</span>'}{_inspector_link(run, folder)}</span>"
        for run in variant.runs
    )
    mean = float(np.mean(variant.finals)) if variant.finals else math.nan
    share = mean / optimum if optimum is not None and optimum > 0 else math.nan
    speeds = [run.steps_per_second for run in variant.runs if not math.isnan(run.steps_per_second)]
    lengths = sorted({run.transitions for run in variant.runs})
    return [
        f'<span class="dot" style="background:{colour}"></span>{escape(variant.label)}',
        " of ".join(map(str, dict.fromkeys((len(variant.counted), len(variant.runs))))),
        seeds,
        f"<strong>{_or_dash(mean, number)}</strong>",
        _or_dash(share, "{:.0%}".format),
        " to ".join(f"{length:,}" for length in dict.fromkeys((lengths[0], lengths[-1]))),
        _or_dash(float(np.median(speeds)) if speeds else math.nan, "{:,.0f}".format),
    ]


def _inspector_link(run: RunRecord, folder: Path) -> str:
    """Link to the page that `eva inspect` wrote for a run, if it did."""
    if not (run.path / INSPECTOR_PAGE).exists():
        return ""
    target = quote(os.path.relpath(run.path / INSPECTOR_PAGE, folder.resolve()))
    return f' <a href="{target}" aria-label="What seed {run.seed} remembers">inspect</a>'


def _configuration(tasks: Sequence[Task]) -> str:
    labelled = [(f"{t.name}: {v.label}" if len(tasks) > 1 else v.label, v.fields) for t in tasks for v in t.variants]
    return _comparison("Variant", labelled, "What differs; everything else is the same for all.")


def _provenance(tasks: Sequence[Task], names: Mapping[Path, str]) -> str:
    runs = [run for task in tasks for run in task.runs]
    heads = ["Run", "Seed", "State", "Started", "Command"]
    rows = [[escape(names[run.path]), str(run.seed), escape(run.state), *_origin(run)] for run in runs]
    hidden = ("argv", "started")
    origins = [{k: v for k, v in run.provenance.items() if k not in hidden} for run in runs]
    labelled = [(names[run.path], flatten(origin)) for run, origin in zip(runs, origins, strict=True)]
    return _table(heads, rows, "How each run was made.", (1,)) + _comparison("Run", labelled, "What differs.")


def _origin(run: RunRecord) -> list[str]:
    argv = run.provenance.get("argv")
    command = shlex.join(map(str, argv)) if isinstance(argv, list) else "unknown"
    started = escape(str(run.provenance.get("started", "unknown")))
    return [f'<span class="keep">{started}</span>', f"<code>{escape(command)}</code>"]


def _comparison(head: str, labelled: Sequence[tuple[str, Mapping[str, str]]], caption: str) -> str:
    """Show the fields that all share once, and the others in a table, one row per label."""
    varied = differing([fields for _, fields in labelled])
    shared = {name: value for name, value in labelled[0][1].items() if name not in varied}
    rows = [[escape(label), *(escape(fields.get(name, "absent")) for name in varied)] for label, fields in labelled]
    return (_table([head, *map(escape, varied)], rows, caption) if varied else "") + facts(shared)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], caption: str, numeric: Sequence[int] = ()) -> str:
    """Lay out cells that are HTML already; the first of each row is its header."""
    aligned = [' class="n"' if column in numeric else "" for column in range(len(heads))]
    head = "".join(f'<th scope="col"{a}>{text}</th>' for text, a in zip(heads, aligned, strict=True))
    body = ""
    for first, *cells in rows:
        data = "".join(f"<td{a}>{cell}</td>" for cell, a in zip(cells, aligned[1:], strict=True))
        body += f'<tr><th scope="row">{first}</th>{data}</tr>'
    return (
        f'<p class="small">{escape(caption)}</p><div class="scroll" role="region" tabindex="0" '
        f'aria-label="{escape(caption)}"><table aria-label="{escape(caption)}">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _or_dash(value: float, form: Callable[[float], str]) -> str:
    return "&ndash;" if math.isnan(value) else form(value)
