"""What the finished runs of an experiment say, arm by arm."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from eva.errors import UserError
from eva.experiments.framework.definition import Arm
from eva.experiments.framework.records import Records
from eva.report.curves import Task, Variant, levels
from eva.report.reading import RunRecord, read_run
from eva.report.statistics import FloatArray
from eva.runs.sweep.jobs import Job, Play

MEASURED = "measured.json"
"""The file of an experiment's results that keeps what was measured besides the runs."""


class Evidence:
    """The runs that an experiment keeps; all of them must be finished.

    Args:
        arms: Of the experiment.
        records: Where its runs are kept.

    Attributes:
        tasks: The arms as variants, task by task.
    """

    def __init__(self, arms: Sequence[Arm], records: Records) -> None:
        self._folder = records.folder.parent
        self._arms = arms
        self._paths = {(arm.task, arm.label): [_kept(records, job) for job in arm.jobs] for arm in arms}
        self.tasks = tuple(self._task(name) for name in dict.fromkeys(arm.task for arm in arms))

    @property
    def runs(self) -> list[RunRecord]:
        """All runs, task by task and arm by arm."""
        return [run for task in self.tasks for run in task.runs]

    @property
    def measured(self) -> dict[str, Any]:
        """What was measured besides the runs, and its provenance."""
        with _naming(self._folder / MEASURED) as path:
            content: dict[str, Any] = json.loads(path.read_text())
        return content

    def plays(self, label: str) -> tuple[Play, ...]:
        """Return the occasions on which each of an arm's runs played."""
        return self._arm(label).jobs[0].plays

    def played(self, label: str, occasion: int, weight: float) -> FloatArray:
        """Return the returns of the single episodes that an arm's runs played on an occasion, (episodes, seeds)."""
        arm = self._arm(label)
        columns = []
        for job, path in zip(arm.jobs, self._paths[arm.task, arm.label], strict=True):
            with _naming(path / job.plays[occasion].file) as file:
                played = {each["weight"]: each["returns"] for each in json.loads(file.read_text())["played"]}
                columns.append(played[weight])
        returns: FloatArray = np.array(columns).T
        return returns

    def _arm(self, label: str) -> Arm:
        (arm,) = [arm for arm in self._arms if arm.label == label]
        return arm

    def _task(self, name: str) -> Task:
        variants = []
        for arm in self._arms:
            if arm.task == name:
                runs = tuple(read_run(path) for path in self._paths[arm.task, arm.label])
                variants.append(Variant(arm.label, (), runs))
        return Task(name, *levels(variants[0].runs[0].config), tuple(variants))


def variant(task: Task, label: str) -> Variant:
    """Return the variant of a task that is called `label`."""
    return next(each for each in task.variants if each.label == label)


@contextmanager
def _naming(path: Path) -> Iterator[Path]:
    """Name a file in which something is not as it should be."""
    try:
        yield path
    except (OSError, ValueError, RecursionError, KeyError, TypeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise UserError(f"cannot read {path} ({reason}): delete it, and the same command makes it anew.") from error


def _kept(records: Records, job: Job) -> Path:
    path = records.find(job)
    if path is None:
        raise UserError(f"{job.directory} is not finished: run the experiment first.")
    return path
