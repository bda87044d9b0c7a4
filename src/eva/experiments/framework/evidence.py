"""The finished runs of an experiment: kept as `results/NAME/runs/`, small enough to commit, and read arm by arm.

A kept run has the files that a report reads, under the same names, the long ones compressed.
"""

import functools
import json
import operator
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from eva.digests import MANIFEST
from eva.errors import UserError
from eva.files import as_user_errors, read_either, write_packed, write_whole
from eva.report.curves import Group, Task, levels
from eva.report.reading import read_parsed, read_run
from eva.report.statistics import FloatArray
from eva.runs.record.columns import ACCURACY, EVALUATIONS, evaluation_records
from eva.runs.sweep.jobs import Job

if TYPE_CHECKING:
    from eva.experiments.framework.definition import Arm

MEASURED = "measured.json"
"""What was measured besides the runs."""
REMEDY = "delete it and run the same command again."
_COPIED = ("config.json", "provenance.json", MANIFEST, "status.json")
_COMPRESSED = ("episodes.csv", "timing.jsonl", EVALUATIONS, ACCURACY)


class Records:
    """The finished runs of the experiment `name`; runs that other experiments keep in `results` are found too."""

    def __init__(self, results: Path, name: str) -> None:
        self._results = results
        self.folder = results / name / "runs"

    def find(self, job: Job) -> Path | None:
        """Return the folder in which the finished run of a job is kept, or None."""
        folders = (self.folder, *sorted(self._results.glob("*/runs")))
        return next((each / job.directory for each in folders if job.is_done_in(each / job.directory)), None)

    def keep(self, job: Job, directory: Path) -> None:
        """Copy the records of a finished run from `directory`."""
        target = self.folder / job.directory
        if directory == target:
            return
        with as_user_errors(target):
            target.mkdir(parents=True, exist_ok=True)
        contents = {}
        unwanted = {EVALUATIONS, ACCURACY} - set(evaluation_records(job.config.evaluation))
        for name in (*_COMPRESSED, *_COPIED):  # the status comes last: it marks the record as finished
            if name in unwanted:
                continue
            if name == MANIFEST and not (directory / name).exists():  # of an older run
                continue
            with as_user_errors(directory / name, ("read", "restore it, or delete its folder and run it again")):
                contents[name] = read_either(directory / name)
        for name, content in contents.items():
            (write_packed if name in _COMPRESSED else write_whole)(target / name, content)


class Evidence:
    """The kept runs of an experiment's arms; raises UserError if one is not finished.

    With `task_by_task`, tasks with such a run are left out instead, and listed in `unfinished`.
    """

    def __init__(self, arms: "Sequence[Arm]", records: Records, *, task_by_task: bool = False) -> None:
        self._folder = records.folder.parent
        self.unfinished: tuple[str, ...] = ()
        if task_by_task:
            left = [arm.task for arm in arms if any(records.find(job) is None for job in arm.jobs)]
            self.unfinished = tuple(dict.fromkeys(left))
            arms = [arm for arm in arms if arm.task not in left]
        self.arms = {(arm.task, arm.label): arm for arm in arms}
        found = {job.directory: records.find(job) for arm in arms for job in arm.jobs}
        for directory, path in found.items():
            if path is None:
                raise UserError(f"{directory} is not finished: run the experiment first.")
        runs = {directory: read_run(path) for directory, path in found.items() if path is not None}
        self._groups = {
            key: Group(key[1], (), tuple(runs[job.directory] for job in arm.jobs))
            for key, arm in self.arms.items()
            if arm.jobs
        }
        self.runs = list(runs.values())  # every run once
        self.tasks: dict[str, Task] = {}
        for name in dict.fromkeys(task for task, _ in self._groups):
            groups = tuple(group for (task, _), group in self._groups.items() if task == name)
            self.tasks[name] = Task(name, *levels(groups[0].runs[0].config), groups)

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

    def evaluations(self, task: str, label: str, epsilon: float | None = None) -> FloatArray:
        """Return the returns of every evaluation with the arm's weight, (evaluations, episodes, seeds).

        `epsilon` is by default the first of the configuration. Runs may have been evaluated only from some point on:
        the evaluations returned are the last ones, those that every seed has.
        """
        arm, columns = self.arms[task, label], []
        for job, run in zip(arm.jobs, self.group(task, label).runs, strict=True):
            evaluation = job.config.evaluation
            assert evaluation.period_transitions is not None, f"{label} has no evaluations"
            weight = job.config.eva.nonparametric_weight if arm.evaluated_weight is None else arm.evaluated_weight
            wanted = (evaluation.epsilons[0] if epsilon is None else epsilon, weight)
            period, number = evaluation.period_transitions, job.config.steps // evaluation.period_transitions
            parse = partial(_returns, wanted=wanted, period=period, number=number)
            columns.append(read_parsed(run.path / EVALUATIONS, parse, REMEDY))
        common = min(map(len, columns))
        return np.stack([each[-common:] for each in columns], axis=-1)

    def accuracies(self, task: str, label: str, *keys: str | int) -> FloatArray:
        """Return a number of every comparison with exact values, (seeds, comparisons), by its keys in accuracy.jsonl.

        NaN where it is the mean over no states.
        """
        way, runs = self.arms[task, label].way, self.group(task, label).runs
        parse = partial(_numbers, way=way, keys=keys)
        return np.stack([read_parsed(run.path / ACCURACY, parse, REMEDY) for run in runs])


def _numbers(text: str, way: str | None, keys: tuple[str | int, ...]) -> FloatArray:
    lines = [line for line in map(json.loads, text.splitlines()) if line["way"] == way]
    numbers: FloatArray = np.array([functools.reduce(operator.getitem, keys, line) for line in lines], np.float64)
    return numbers


def _returns(text: str, wanted: tuple[float, float], period: int, number: int) -> FloatArray:
    """Return the returns with an epsilon and weight, (evaluations, episodes).

    Raises ValueError unless the evaluations are the last ones of `number`, without a gap. Several environments may
    overshoot a multiple of the period.
    """
    lines = [line for line in map(json.loads, text.splitlines()) if (line["epsilon"], line["weight"]) == wanted]
    if not lines or [line["step"] // period for line in lines] != list(range(number + 1)[-len(lines) :]):
        raise ValueError(f"evaluations with epsilon and weight {wanted} are missing")
    returns: FloatArray = np.array([line["returns"] for line in lines], np.float64)
    if returns.ndim != 2 or not np.isfinite(returns).all():
        raise ValueError("returns are not lists of finite numbers")
    return returns
