"""How far many runs are, as told by their run directories: the same from any machine that reaches them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from eva.runs.record.formatting import aligned, duration
from eva.runs.record.status import read_status
from eva.runs.sweep.jobs import Job

_SECONDS_OF_SILENCE = 300.0  # after which a run no longer counts as running
_LONGEST_LINE = 200  # bytes of timing.jsonl


@dataclass(frozen=True)
class Entry:
    """A run that is looked at.

    Attributes:
        directory: The run directory.
        steps: Transitions in all.
        plays: Files that are there when all is played.
    """

    directory: Path
    steps: int
    plays: tuple[str, ...] = ()

    @classmethod
    def of(cls, job: Job) -> Entry:
        """Return the run of a job."""
        return cls(job.directory, job.config.steps, tuple(play.file for play in job.plays))


@dataclass(frozen=True)
class Progress:
    """How far one run is; it is waiting if it has not begun, was stopped, or has not been heard of for long."""

    state: Literal["running", "waiting", "done", "failed"]
    step: int
    steps: int
    steps_per_second: float


def progress_of(entry: Entry, has_failed: bool) -> Progress:
    """Look at a run directory."""
    status = read_status(entry.directory)
    step = min(status.step, entry.steps)
    is_done = step == entry.steps and all((entry.directory / name).exists() for name in entry.plays)
    if has_failed:  # although another run may be finished there
        return Progress("failed", step, entry.steps, 0.0)
    if status.state == "finished" and is_done:
        return Progress("done", step, entry.steps, 0.0)
    if status.state in ("running", "finished") and _seconds_of_silence(entry.directory) < _SECONDS_OF_SILENCE:
        return Progress("running", step, entry.steps, last_speed(entry.directory) or 0.0)
    return Progress("waiting", step, entry.steps, 0.0)


def last_speed(directory: Path) -> float | None:
    """Return the steps per second that a run wrote down last, if any."""
    try:
        with (directory / "timing.jsonl").open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LONGEST_LINE))
            return float(json.loads(file.read().splitlines()[-1])["steps_per_second"])
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None


def summary(found: Sequence[Progress]) -> list[tuple[str, str]]:
    """Return the columns of the table on all runs together: running, waiting, done, failed, speed, time left."""
    states = [each.state for each in found]
    speed = sum(each.steps_per_second for each in found)
    left = sum(each.steps - each.step for each in found if each.state != "failed")
    return [
        *((state, str(states.count(state))) for state in ("running", "waiting", "done", "failed")),
        ("transitions", f"{sum(each.step for each in found):,} of {sum(each.steps for each in found):,}"),
        ("steps/s in all", f"{speed:,.0f}"),
        ("time left", duration(left / speed) if speed else "-"),
    ]


def look(entries: Sequence[Entry], failed: Collection[Path]) -> list[Progress]:
    """Look at all run directories."""
    return [progress_of(entry, entry.directory in failed) for entry in entries]


def as_table(columns: Sequence[tuple[str, str]]) -> str:
    """Return a summary as a table of one row."""
    return aligned([head for head, _ in columns], [[cell for _, cell in columns]])


def _seconds_of_silence(directory: Path) -> float:
    try:
        return time.time() - (directory / "status.json").stat().st_mtime
    except OSError:
        return float("inf")
