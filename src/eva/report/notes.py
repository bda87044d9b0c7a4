"""What makes the numbers of a report less comparable than they look."""

from __future__ import annotations

from collections.abc import Sequence

from eva.report.curves import FINAL_SHARE, Group, Task, differing


def notes(tasks: Sequence[Task]) -> list[str]:
    """Return one sentence for each."""
    found = []
    for task in tasks:
        for group in task.groups:
            found += _of_group(f"{task.name}, {group.label}" if len(tasks) > 1 else group.label, group)
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


def _of_group(name: str, group: Group) -> list[str]:
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
        found.append(f"{name}: a run without an episode in its last {FINAL_SHARE:.0%} is not in the mean.")
    return found
