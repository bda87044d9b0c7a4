"""The finished runs of an experiment, arm by arm."""

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
from eva.report.curves import Group, Task, levels
from eva.report.reading import RunRecord, read_run
from eva.report.statistics import FloatArray
from eva.runs.sweep.jobs import Job

MEASURED = "measured.json"
"""What was measured besides the runs."""


class Evidence:
    """The runs of an experiment; all must be finished.

    Args:
        arms: Of the experiment.
        records: Where its runs are kept.

    Attributes:
        arms: The same, by task and label.
        tasks: The runs of all arms, by task.
    """

    def __init__(self, arms: Sequence[Arm], records: Records) -> None:
        self._folder = records.folder.parent
        self.arms = {(arm.task, arm.label): arm for arm in arms}
        self._paths = {key: [_kept(records, job) for job in arm.jobs] for key, arm in self.arms.items()}
        runs = {path: read_run(path) for path in {path for paths in self._paths.values() for path in paths}}
        groups = {
            key: Group(key[1], (), tuple(runs[path] for path in paths)) for key, paths in self._paths.items() if paths
        }
        self.tasks: dict[str, Task] = {}
        for name in dict.fromkeys(task for task, _ in groups):
            mine = tuple(group for (task, _), group in groups.items() if task == name)
            self.tasks[name] = Task(name, *levels(mine[0].runs[0].config), mine)
        self._groups = groups

    @property
    def runs(self) -> list[RunRecord]:
        """Every run once."""
        return list({run.path: run for group in self._groups.values() for run in group.runs}.values())

    @property
    def measured(self) -> dict[str, Any]:
        """What was measured besides the runs, with its provenance."""
        with _naming(self._folder / MEASURED) as path:
            content: dict[str, Any] = json.loads(path.read_text())
        return content

    @property
    def has_measured(self) -> bool:
        """Whether anything was measured besides the runs."""
        return (self._folder / MEASURED).exists()

    def group(self, task: str, label: str) -> Group:
        """Return the runs of an arm."""
        return self._groups[task, label]

    def labels(self, task: str) -> list[str]:
        """Return the labels of a task's arms."""
        return [label for each, label in self.arms if each == task]

    def played(self, task: str, label: str, occasion: int) -> FloatArray:
        """Return the returns of single episodes, (episodes, seeds), played with the arm's weight on an occasion."""
        arm = self.arms[task, label]
        columns = []
        for job, path in zip(arm.jobs, self._paths[task, label], strict=True):
            with _naming(path / job.plays[occasion].file) as file:
                played = {each["weight"]: each["returns"] for each in json.loads(file.read_text())["played"]}
                columns.append(played[job.config.eva.nonparametric_weight if arm.weight is None else arm.weight])
        returns: FloatArray = np.array(columns).T
        return returns


@contextmanager
def _naming(path: Path) -> Iterator[Path]:
    """Name the file if its content is not as expected."""
    try:
        yield path
    except (OSError, ValueError, RecursionError, KeyError, TypeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise UserError(f"cannot read {path} ({reason}): delete it and run the same command again.") from error


def _kept(records: Records, job: Job) -> Path:
    path = records.find(job)
    if path is None:
        raise UserError(f"{job.directory} is not finished: run the experiment first.")
    return path
