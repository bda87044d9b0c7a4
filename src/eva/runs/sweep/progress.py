"""The progress of many runs, read from their run directories, so that it is the same from every machine."""

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from eva.digests import read_manifest
from eva.files import Folder
from eva.runs.record.formatting import aligned, duration
from eva.runs.record.status import read_status
from eva.runs.sweep.jobs import Job

_MAX_SILENT_SECONDS = 300.0  # a run that wrote nothing for longer does not count as running
_TIMES, _MAX_LINE_BYTES = "timing.jsonl", 200
_SLOWEST, _FASTEST = 0.1, 1e9  # steps per second: one decimal is recorded


@dataclass(frozen=True)
class TrackedRun:
    """A run whose progress is read."""

    directory: Path
    steps: int  # transitions of the complete run

    @classmethod
    def of(cls, job: Job) -> "TrackedRun":
        """Return the run of a job."""
        return cls(job.directory, job.config.steps)

    def progress(self, has_failed: bool) -> "Progress":
        """Read the run directory. A failed run stays failed even if the directory holds a finished run."""
        status, speed = read_status(self.directory), 0.0
        step = min(status.step, self.steps)
        state: Literal["running", "waiting", "done", "failed"] = "waiting"
        if has_failed or status.state == "damaged":
            state = "failed"
        elif status.state == "finished" and step == self.steps:
            state = "done"
        elif status.state in ("running", "finished") and time.time() - status.written < _MAX_SILENT_SECONDS:
            state, speed = "running", last_speed(self.directory) or 0.0
        return Progress(state, step, self.steps, speed)


@dataclass(frozen=True)
class Progress:
    """The progress of one run. "waiting": it has not started, was stopped, or has written nothing for a long time."""

    state: Literal["running", "waiting", "done", "failed"]
    step: int
    steps: int
    steps_per_second: float


def last_speed(directory: Path) -> float | None:
    """Return the last steps per second that a run recorded, or None if there are none or they make no sense."""
    try:
        with Folder(directory) as folder, folder.open(_TIMES) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _MAX_LINE_BYTES))
            speed = float(json.loads(file.read().splitlines()[-1])["steps_per_second"])
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None
    return speed if _SLOWEST <= speed <= _FASTEST else None


def has_intact_times(directory: Path) -> bool:
    """Return false if a run has a manifest, and its timing.jsonl differs from it."""
    try:
        entry = read_manifest(directory).get(_TIMES)
        if entry is not None:
            with Folder(directory) as folder, folder.open(_TIMES) as file:
                entry.check(file)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False
    return True


def summary(progress: Sequence[Progress]) -> list[tuple[str, str]]:
    """Return (head, cell) of each column of the summary of all runs."""
    states = [each.state for each in progress]
    speed = sum(each.steps_per_second for each in progress)
    left = sum(each.steps - each.step for each in progress if each.state != "failed")
    return [
        *((state, str(states.count(state))) for state in ("running", "waiting", "done", "failed")),
        ("transitions", f"{sum(each.step for each in progress):,} of {sum(each.steps for each in progress):,}"),
        ("steps/s in all", f"{speed:,.0f}"),
        ("time left", duration(left / speed) if speed else "-"),
    ]


def as_table(columns: Sequence[tuple[str, str]]) -> str:
    """Return a summary as a table with one row."""
    return aligned([head for head, _ in columns], [[cell for _, cell in columns]])
