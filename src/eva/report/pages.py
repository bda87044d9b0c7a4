"""Write `report.html`, one self-contained page, and `report.png` beside it."""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
import numpy as np

from eva.files import as_user_errors, write_whole
from eva.report import curves, plots
from eva.report.curves import Group, Task, applicable, differing, flatten, group_tasks
from eva.report.format import interval, number, signed
from eva.report.reading import RunRecord, read_runs
from eva.report.statistics import difference, verdict
from eva.report.style import CSS_DASHES, NUM_COLOURS, STYLE
from eva.runs.record.columns import INSPECTOR_PAGE

_MOST_NAMES = 3  # in the title
_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("eva.report", "."),
    extensions=["jinja2.ext.do"],
    trim_blocks=True,
    lstrip_blocks=True,
    autoescape=True,
    undefined=jinja2.StrictUndefined,
)
_TEMPLATES.globals.update(curves=curves, number=number, style=STYLE, num_colours=NUM_COLOURS, dashes=CSS_DASHES)
_TEMPLATES.filters.update(mean=np.mean, median=np.median)


@dataclass(frozen=True)
class ReportResult:
    """Where the report was written, and a line for each comparison of EVA with DQN."""

    html: Path
    png: Path
    comparisons: str
    left_out: list[str]  # a sentence for each run that cannot be read


def write_report(paths: Sequence[Path], out: Path | None = None) -> ReportResult:
    """Write `report.html` and `report.png` on all runs in or under `paths`.

    They go to the folder `out`, or get its name if it ends in `.html`. By default they go to the folder that was given,
    or to the common parent of the runs if there are several.
    """
    runs, left_out = read_runs(paths)
    root = Path(os.path.commonpath([run.path for run in runs]))
    tasks = group_tasks(runs)
    names = {run.path: os.path.relpath(run.path, root if len(runs) > 1 else root.parent) for run in runs}
    html = (out or (paths[0] if len(paths) == 1 else root)) / "report.html"
    if out is not None and out.suffix == ".html":
        html = out
    folder, png = html.parent, html.with_suffix(".png")
    text, (_, picture) = page(tasks, names, folder, left_out), plots.files(plots.LearningCurves(tasks))
    with as_user_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_whole(html, text.encode(errors="replace"))
    write_whole(png, picture)
    return ReportResult(html, png, "\n".join("  ".join(row) for row in comparisons(tasks)), left_out)


def comparisons(tasks: Sequence[Task]) -> list[tuple[str, ...]]:
    """Compare every EVA with every DQN of its task by final return: what, difference, 95% CI, n, verdict."""
    rows: list[tuple[str, ...]] = []
    for task in tasks:
        where = f"{task.name}: " if len(tasks) > 1 else ""
        with_finals = [group for group in task.groups if group.finals.size]
        for eva in (group for group in with_finals if group.kind == "EVA"):
            for dqn in (group for group in with_finals if group.kind == "DQN"):
                gain = difference(eva.finals, dqn.finals)
                name, ci = f"{where}{eva.label} - {dqn.label}", interval(gain) or "one seed"
                rows.append((name, signed(gain.value), ci, str(gain.n), verdict(gain, task.margin)))
    return rows


def page(tasks: Sequence[Task], names: Mapping[Path, str], folder: Path, left_out: Sequence[str] = ()) -> str:
    """Return the page for `folder`; `names` are the displayed names of run directories, `left_out` more notes."""

    def inspector(run: RunRecord) -> str | None:
        """Return the address of the run's inspector page, if it has one."""
        target = run.path / INSPECTOR_PAGE
        return quote(os.path.relpath(target, folder.resolve())) if target.exists() else None

    runs = [run for task in tasks for run in task.runs]
    arms = {
        f"{task.name}: " * (len(tasks) > 1) + group.label: applicable(group.fields)
        for task in tasks
        for group in task.groups
    }
    origins = {
        names[run.path]: flatten({k: v for k, v in run.provenance.items() if k not in ("argv", "started")})
        for run in runs
    }
    return _TEMPLATES.get_template("report.html.j2").render(
        title=_title([task.name for task in tasks]),
        tasks=tasks,
        names=names,
        series=curves.arms(tasks),
        comparisons=comparisons(tasks),
        wide=plots.svg(tasks, narrow=False),
        narrow=plots.svg(tasks, narrow=True),
        runs=runs,
        notes=[*notes(tasks), *(f"Left out: {each}" for each in left_out)],
        configuration=_compare(arms),
        provenance=_compare(origins),
        inspector=inspector,
        command=_command,
    )


def notes(tasks: Sequence[Task]) -> list[str]:
    """Return a sentence for each thing that makes the numbers less comparable than they look."""
    found = []
    for task in tasks:
        for group in task.groups:
            found += _group_notes(f"{task.name}, {group.label}" if len(tasks) > 1 else group.label, group)
        if len({run.planned for run in task.runs}) > 1:
            found.append(f"{task.name}: the runs were planned with different numbers of transitions.")
        fields = differing([group.fields for group in task.groups])
        others = [name for name in fields if name not in ("name", "eva.nonparametric_weight")]
        if others and len({group.kind for group in task.groups}) > 1:
            found.append(f"{task.name}: the arms differ in more than the weight ({', '.join(others)}).")
    provenances = [each for task in tasks for run in task.runs for each in run.provenances]
    if len({str(each.get("commit")) for each in provenances}) > 1:
        found.append("The runs were made by different commits.")
    if any(each.get("dirty") for each in provenances):
        found.append("Some runs were made with uncommitted changes.")
    return found


def _group_notes(name: str, group: Group) -> list[str]:
    found = []
    unfinished = [run for run in group.runs if not run.finished]
    if unfinished:
        seeds = ", ".join(f"seed {run.seed} ({run.state} at {run.transitions:,})" for run in unfinished)
        effect = "shown as they stand" if len(unfinished) == len(group.runs) else "shown, but not in mean and band"
        found.append(f"{name}: unfinished runs, {effect}: {seeds}.")
    if len({run.seed for run in group.runs}) < len(group.runs):
        found.append(f"{name}: a seed occurs more than once; the longest of its runs counts.")
    found += [f"{name}: seed {run.seed} diverged: {run.diverged}." for run in group.runs if run.diverged]
    if len(group.finals) < len(group.counted):
        found.append(f"{name}: a run without an episode in its last {curves.FINAL_SHARE:.0%} is not in the mean.")
    return found


def _title(names: Sequence[str]) -> str:
    """Return all names, or, if they are many, their number and the first two."""
    if len(names) <= _MOST_NAMES:
        return ", ".join(names)
    return f"{len(names)} tasks: {', '.join(names[:2])} and {len(names) - 2} more"


def _command(run: RunRecord) -> str:
    argv = run.provenance.get("argv")
    return shlex.join(map(str, argv)) if isinstance(argv, list) else "unknown"


def _compare(fields: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """Return the names of the fields that differ, a row of them for each label, and the fields that all share."""
    varied = differing(list(fields.values()))
    rows = [[label, *(each.get(name, "absent") for name in varied)] for label, each in fields.items()]
    shared = {name: value for name, value in next(iter(fields.values())).items() if name not in varied}
    return {"varied": varied, "rows": rows, "shared": shared}
