"""Write `report.html`, one self-contained page, and `report.png` beside it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import jinja2
import numpy as np

from eva.files import refusing_kindly, write_whole
from eva.report import curves, plots
from eva.report.curves import Task, differing, flatten, group_tasks, series_numbers
from eva.report.format import interval, number, signed
from eva.report.notes import notes
from eva.report.reading import RunRecord, find_runs
from eva.report.statistics import Verdict, difference, verdict
from eva.report.style import NUM_COLOURS, STYLE, facts
from eva.runs.record.columns import INSPECTOR_PAGE

_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("eva.report", "."),
    extensions=["jinja2.ext.do"],
    trim_blocks=True,
    lstrip_blocks=True,
    autoescape=True,
    undefined=jinja2.StrictUndefined,
)
_TEMPLATES.globals.update(curves=curves, facts=facts, number=number, style=STYLE, num_colours=NUM_COLOURS)
_TEMPLATES.filters.update(mean=np.mean, median=np.median)


@dataclass(frozen=True)
class ReportResult:
    """Where the report was written, and a line for each comparison of EVA with DQN."""

    html: Path
    png: Path
    comparisons: str


class Comparison(NamedTuple):
    """EVA compared with DQN by final return, as text."""

    compared: str
    difference: str
    ci: str
    n: str
    verdict: Verdict


def write_report(paths: Sequence[Path], out: Path | None = None) -> ReportResult:
    """Write `report.html` and `report.png` on all runs in or under `paths`.

    They go to `out`; by default to the folder that was given, or to the common parent of the runs if there are several.
    """
    runs = find_runs(paths)
    root = Path(os.path.commonpath([run.path for run in runs]))
    tasks = group_tasks(runs)
    names = {run.path: os.path.relpath(run.path, root if len(runs) > 1 else root.parent) for run in runs}
    folder = out or (paths[0] if len(paths) == 1 else root)
    html, png = folder / "report.html", folder / "report.png"
    text, (_, picture) = page(tasks, names, folder), plots.files(plots.LearningCurves(tasks))
    with refusing_kindly(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_whole(html, text.encode(errors="replace"))
    write_whole(png, picture)
    return ReportResult(html, png, "\n".join("  ".join(row) for row in comparisons(tasks)))


def comparisons(tasks: Sequence[Task]) -> list[Comparison]:
    """Compare every EVA with every DQN of its task by final return."""
    rows = []
    for task in tasks:
        where = f"{task.name}: " if len(tasks) > 1 else ""
        with_finals = [group for group in task.groups if group.finals.size]
        for eva in (group for group in with_finals if group.kind == "EVA"):
            for dqn in (group for group in with_finals if group.kind == "DQN"):
                gain = difference(eva.finals, dqn.finals)
                name, found = f"{where}{eva.label} - {dqn.label}", verdict(gain, task.margin)
                rows.append(Comparison(name, signed(gain.value), interval(gain) or "one seed", str(gain.n), found))
    return rows


def page(tasks: Sequence[Task], names: Mapping[Path, str], folder: Path) -> str:
    """Return the page for `folder`; `names` are the displayed names of run directories."""

    def inspector(run: RunRecord) -> str | None:
        """Return the address of the run's inspector page, if it has one."""
        target = run.path / INSPECTOR_PAGE
        return quote(os.path.relpath(target, folder.resolve())) if target.exists() else None

    return _TEMPLATES.get_template("report.html.j2").render(
        title=", ".join(task.name for task in tasks),
        tasks=tasks,
        names=names,
        series=series_numbers(tasks),
        comparisons=comparisons(tasks),
        wide=plots.svg(tasks, narrow=False),
        narrow=plots.svg(tasks, narrow=True),
        runs=[run for task in tasks for run in task.runs],
        notes=notes(tasks),
        configuration=_compare_configurations(tasks),
        provenance=_compare_provenances(tasks, names),
        inspector=inspector,
        command=_command,
    )


def _command(run: RunRecord) -> str:
    argv = run.provenance.get("argv")
    return shlex.join(map(str, argv)) if isinstance(argv, list) else "unknown"


def _compare_configurations(tasks: Sequence[Task]) -> dict[str, Any]:
    labels = [f"{task.name}: " * (len(tasks) > 1) + group.label for task in tasks for group in task.groups]
    return _compare(labels, [group.fields for task in tasks for group in task.groups])


def _compare_provenances(tasks: Sequence[Task], names: Mapping[Path, str]) -> dict[str, Any]:
    runs = [run for task in tasks for run in task.runs]
    origins = [{k: v for k, v in run.provenance.items() if k not in ("argv", "started")} for run in runs]
    return _compare([names[run.path] for run in runs], [flatten(origin) for origin in origins])


def _compare(labels: Sequence[str], fields: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Return the names of the fields that differ, a row of them for each label, and the fields that all share."""
    varied = differing(fields)
    rows = [[label, *(each.get(name, "absent") for name in varied)] for label, each in zip(labels, fields, strict=True)]
    return {"varied": varied, "rows": rows, "shared": {k: v for k, v in fields[0].items() if k not in varied}}
