"""The roll of a sweep: a file that says which runs belong to it and which failed, for whoever asks, on any machine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from eva.errors import BusyError, UserError
from eva.files import locked, refusing_kindly, write_whole
from eva.runs.record.formatting import aligned
from eva.runs.record.status import read_status
from eva.runs.sweep.jobs import Executor, Job, Outcome
from eva.runs.sweep.progress import Entry, Progress, as_table, look, summary

_SUFFIX = ".sweep.json"


@dataclass(frozen=True)
class Roll:
    """A sweep, as told to others.

    Attributes:
        name: Of the sweep.
        folder: The folder of its run directories; directories in the file are relative to it.
        entries: Its runs.
        failed: The error of each run directory that failed, in one line.
    """

    name: str
    folder: Path
    entries: tuple[Entry, ...]
    failed: dict[Path, str] = field(default_factory=dict)

    def write(self) -> None:
        """Write NAME.sweep.json."""
        runs = [
            {"directory": str(each.directory.relative_to(self.folder)), "steps": each.steps, "plays": each.plays}
            for each in self.entries
        ]
        failed = {str(directory.relative_to(self.folder)): error for directory, error in self.failed.items()}
        content = {"name": self.name, "runs": runs, "failed": failed}
        write_whole(self.folder / f"{self.name}{_SUFFIX}", (json.dumps(content, indent=1) + "\n").encode())

    @classmethod
    def read(cls, path: Path) -> Roll:
        """Read what `write` wrote."""
        folder = path.parent
        try:
            content = json.loads(path.read_text())
            entries = tuple(
                Entry(folder / _relative(run["directory"]), int(run["steps"]), tuple(run["plays"]))
                for run in content["runs"]
            )
            failed = {folder / directory: str(error) for directory, error in content["failed"].items()}
            failed = {each: error for each, error in failed.items() if not _finished_since(each, path)}
            return cls(str(content["name"]), folder, entries, failed)
        except (OSError, ValueError, OverflowError, RecursionError, KeyError, TypeError, AttributeError):
            raise UserError(f"cannot read {path}: start the sweep again, and it writes it anew.") from None


def conduct(name: str, folder: Path, jobs: Sequence[Job], executor: Executor) -> str:
    """Carry out the jobs that are not done, and keep the roll; returns what to tell, or raises UserError if one fails.

    Args:
        name: Of the sweep.
        folder: The folder of its run directories.
        jobs: All of them, done or not.
        executor: Who carries them out.
    """
    with refusing_kindly(folder):
        folder.mkdir(parents=True, exist_ok=True)
    lock = locked(folder / f".{name}{_SUFFIX}.lock")
    if lock is None:
        raise BusyError(f"another process carries out the sweep {name} in {folder}: see eva sweep --status {folder}.")
    with lock:
        roll = Roll(name, folder, tuple(map(Entry.of, jobs)))
        roll.write()
        left = [job for job in jobs if not job.is_done_in(job.directory)]
        failures = []

        def note(outcome: Outcome) -> None:
            if outcome.state == "failed":
                failures.append(outcome)
                roll.failed[outcome.job.directory] = f"{outcome.error} (see {outcome.job.log})"
                roll.write()

        if left:
            executor.execute(left, note)
    if failures:
        rows = [[str(each.job.directory), str(each.error), str(each.job.log)] for each in failures]
        print(aligned(["failed run", "error", "log"], rows))
        raise UserError(f"{len(failures)} of {len(jobs)} runs failed: the same command tries them again.")
    return f"{len(jobs)} runs are done, {len(jobs) - len(left)} of them before: {folder}"


def status(folder: Path) -> str:
    """Return how far the sweeps in a folder are: all together, and the runs that are running or failed."""
    paths = sorted(folder.glob(f"*{_SUFFIX}"))
    if not paths:
        raise UserError(f"there is no sweep in {folder}: give the folder of its runs.")
    return "\n\n".join(_told(Roll.read(path)) for path in paths)


def _finished_since(directory: Path, roll: Path) -> bool:
    """Whether a run has been finished after the roll was written, by whomever."""
    status = directory / "status.json"
    return read_status(directory).state == "finished" and status.stat().st_mtime > roll.stat().st_mtime


def _relative(directory: str) -> Path:
    """Return a directory that the file tells relative to its own, as `write` does; ValueError else."""
    if Path(directory).is_absolute():
        raise ValueError(f"{directory} is absolute")
    return Path(directory)


def _told(roll: Roll) -> str:
    found = look(roll.entries, roll.failed)
    parts = [f"{roll.name}: {len(found)} runs", as_table(summary(found))]
    rows = [_row(roll, entry, each) for entry, each in zip(roll.entries, found, strict=True)]
    shown = [row for row in rows if row[1] in ("running", "failed")]
    if shown:
        parts.append(aligned(["run", "state", "transitions", "steps/s", "error"], shown))
    return "\n\n".join(parts)


def _row(roll: Roll, entry: Entry, progress: Progress) -> list[str]:
    return [
        str(entry.directory.relative_to(roll.folder)),
        progress.state,
        f"{progress.step:,}",
        f"{progress.steps_per_second:,.0f}",
        roll.failed.get(entry.directory, "") if progress.state == "failed" else "",
    ]
