"""Figures that several experiments draw."""

import numpy as np

from eva.experiments.framework.evidence import Evidence
from eva.experiments.framework.measures import GREEDY
from eva.report.curves import Task
from eva.report.format import number
from eva.report.plots import Chart, Drawing, Line
from eva.report.statistics import mean_interval


def level_of(task: Task) -> tuple[str, float] | None:
    """Return label and height of the line at the optimum, if it is known."""
    return None if task.optimum is None else (f"optimum {number(task.optimum)}", task.optimum)


def greedy_curves(evidence: Evidence) -> dict[str, Drawing]:
    """Draw each arm's mean greedy return over training with its 95% CI, one figure for each task."""
    return {
        ("greedy" if i == 0 else f"greedy-{i + 1}"): _chart(evidence, name) for i, name in enumerate(evidence.tasks)
    }


def _chart(evidence: Evidence, name: str) -> Chart:
    task, lines = evidence.tasks[name], []
    for label in evidence.labels(name):
        returns = evidence.evaluations(name, label, GREEDY).mean(axis=1).T  # (seeds, evaluations)
        steps = task.groups[0].runs[0].planned * np.arange(1, returns.shape[1] + 1) / returns.shape[1]
        lines.append(Line(label, steps, returns.mean(axis=0), *mean_interval(returns)))
    title = f"transitions ({name}; band: 95% CI over n = {returns.shape[0]} seeds)"
    return Chart(title, "mean greedy return", lines, level=level_of(task), markers=False)
