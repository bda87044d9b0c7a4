"""The finished runs of an experiment, arm by arm."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from eva.errors import UserError
from eva.experiments.framework.records import Records
from eva.report.curves import Group, Task, levels
from eva.report.reading import RunRecord, read_parsed, read_run
from eva.report.statistics import FloatArray
from eva.runs.record.columns import EVALUATIONS
from eva.runs.sweep.jobs import Job

if TYPE_CHECKING:
    from eva.experiments.framework.definition import Arm

MEASURED = "measured.json"
"""What was measured besides the runs."""
REMEDY = "delete it and run the same command again."


class Evidence:
    """The kept runs of an experiment's arms; raises UserError if one is not finished.

    Attributes:
        arms: Arms by task and label.
        tasks: The runs of all arms, by task.
    """

    def __init__(self, arms: Sequence[Arm], records: Records) -> None:
        self._folder = records.folder.parent
        self.arms = {(arm.task, arm.label): arm for arm in arms}
        self._paths = {key: [_kept(records, job) for job in arm.jobs] for key, arm in self.arms.items()}
        runs = {path: read_run(path) for path in {path for paths in self._paths.values() for path in paths}}
        self._groups = {
            key: Group(key[1], (), tuple(runs[path] for path in paths)) for key, paths in self._paths.items() if paths
        }
        self.tasks: dict[str, Task] = {}
        for name in dict.fromkeys(task for task, _ in self._groups):
            groups = tuple(group for (task, _), group in self._groups.items() if task == name)
            self.tasks[name] = Task(name, *levels(groups[0].runs[0].config), groups)

    @property
    def runs(self) -> list[RunRecord]:
        """Every run once."""
        return list({run.path: run for group in self._groups.values() for run in group.runs}.values())

    @property
    def measured(self) -> dict[str, Any]:
        """What was measured besides the runs, with its provenance."""
        return read_parsed(self._folder / MEASURED, json.loads, REMEDY)

    def group(self, task: str, label: str) -> Group:
        """Return the runs of an arm."""
        return self._groups[task, label]

    def labels(self, task: str) -> list[str]:
        """Return the labels of a task's arms."""
        return [label for each, label in self.arms if each == task]

    def evaluation(self, task: str, label: str, periods_before_end: int = 0) -> FloatArray:
        """Return the returns of an evaluation, (episodes, seeds), with the arm's weight; 0 is the last evaluation."""
        arm, columns = self.arms[task, label], []
        for job, path in zip(arm.jobs, self._paths[task, label], strict=True):
            config = job.config
            period = config.evaluation.period_transitions
            assert period is not None, f"{label} has no evaluations"
            step = config.steps // period * period - periods_before_end * period
            weight = config.eva.nonparametric_weight if arm.evaluated_weight is None else arm.evaluated_weight
            wanted = (step, config.evaluation.epsilons[0], weight)
            columns.append(read_parsed(path / EVALUATIONS, partial(_returns, wanted=wanted, period=period), REMEDY))
        returns: FloatArray = np.array(columns).T
        return returns


def _returns(text: str, wanted: tuple[int, float, float], period: int) -> list[float]:
    """Return the returns with a step, epsilon and weight. Several environments may be a few transitions late."""
    lines = map(json.loads, text.splitlines())
    returns = {(x["step"] // period * period, x["epsilon"], x["weight"]): x["returns"] for x in lines}
    found: list[float] = returns[wanted]
    return found


def _kept(records: Records, job: Job) -> Path:
    path = records.find(job)
    if path is None:
        raise UserError(f"{job.directory} is not finished: run the experiment first.")
    return path
