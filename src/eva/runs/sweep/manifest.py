"""The manifest of a sweep: NAME.sweep.json lists its runs and its failures, so that any machine can read its status."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from eva.digests import parse_size, sealed, unsealed_if_sealed
from eva.errors import BusyError, UserError, printable
from eva.files import as_user_errors, locked, read_file, write_whole
from eva.runs.record.formatting import aligned
from eva.runs.record.status import read_status
from eva.runs.sweep.jobs import Executor, Job, Outcome
from eva.runs.sweep.progress import TrackedRun, as_table, summary

_SUFFIX = ".sweep.json"


@dataclass(frozen=True)
class Manifest:
    """The runs of a sweep."""

    name: str
    folder: Path  # of the run directories; the file contains paths relative to it
    runs: tuple[TrackedRun, ...]
    failed: dict[Path, str] = field(default_factory=dict)  # the error of each failed run, by its directory

    def write(self) -> None:
        """Write NAME.sweep.json."""
        runs = [{"directory": str(run.directory.relative_to(self.folder)), "steps": run.steps} for run in self.runs]
        failed = {str(directory.relative_to(self.folder)): error for directory, error in self.failed.items()}
        content = {"name": self.name, "runs": runs, "failed": failed}
        write_whole(self.folder / f"{self.name}{_SUFFIX}", sealed(json.dumps(content, indent=1).encode()))

    @classmethod
    def read(cls, path: Path) -> "Manifest":
        """Read a manifest, without failures of runs that another process has finished since it was written."""
        folder = path.parent
        try:
            content = unsealed_if_sealed(read_file(path))
            runs = tuple(
                TrackedRun(_inside(folder, run["directory"]), parse_size(run["steps"])) for run in content["runs"]
            )
            failed = {_inside(folder, directory): str(error) for directory, error in content["failed"].items()}
            written = path.stat().st_mtime
            for status, each in [(read_status(each), each) for each in failed]:
                if status.state == "finished" and status.written > written:
                    del failed[each]
            return cls(str(content["name"]), folder, runs, failed)
        except (OSError, ValueError, OverflowError, RecursionError, KeyError, TypeError, AttributeError):
            raise UserError(f"cannot read {path}: start the sweep again to rewrite it.") from None

    def status(self) -> str:
        """Return a summary of all runs, and a table of those that are running or failed."""
        progress = [run.progress(run.directory in self.failed) for run in self.runs]
        rows = []
        for run, each in zip(self.runs, progress, strict=True):
            if each.state in ("running", "failed"):
                name = str(run.directory.relative_to(self.folder))
                error = self.failed.get(run.directory, "status.json is damaged" if each.state == "failed" else "")
                rows.append([name, each.state, f"{each.step:,}", f"{each.steps_per_second:,.0f}", error])
        parts = [f"{self.name}: {len(self.runs)} runs", as_table(summary(progress))]
        if rows:
            parts.append(aligned(["run", "state", "transitions", "steps/s", "error"], rows))
        return "\n\n".join(parts)


def _inside(folder: Path, directory: str) -> Path:
    """Return the path of a run directory; raises ValueError if it is not in the folder."""
    if Path(directory).is_absolute() or ".." in Path(directory).parts:
        raise ValueError(f"{directory!r} is outside")
    return folder / directory


def run_sweep(name: str, folder: Path, jobs: Sequence[Job], executor: Executor) -> str:
    """Run those of all `jobs` that are not done, and keep the manifest in `folder` up to date.

    Returns a closing sentence; raises UserError if a job failed.
    """
    with as_user_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    lock = locked(folder / f".{name}{_SUFFIX}.lock")
    if lock is None:
        raise BusyError(f"the sweep {name} in {folder} is locked by another process: see eva sweep --status {folder}.")
    with lock:
        manifest = Manifest(name, folder, tuple(map(TrackedRun.of, jobs)))
        manifest.write()
        left = [job for job in jobs if not job.is_done_in(job.directory)]
        failures = []

        def record_failure(outcome: Outcome) -> None:
            if outcome.state == "failed":
                failures.append(outcome)
                manifest.failed[outcome.job.directory] = f"{outcome.error} (see {outcome.job.log})"
                manifest.write()

        if left:
            executor.execute(left, record_failure)
    if failures:
        rows = [[str(each.job.directory), str(each.error), str(each.job.log)] for each in failures]
        print(printable(aligned(["failed run", "error", "log"], rows)))
        raise UserError(f"{len(failures)} of {len(jobs)} runs failed: run the same command to try them again.")
    return f"{len(jobs)} runs are done, {len(jobs) - len(left)} of them were done before: {folder}"


def sweep_status(folder: Path) -> str:
    """Return the status of all sweeps in a folder."""
    paths = sorted(folder.glob(f"*{_SUFFIX}"))
    if not paths:
        raise UserError(f"there is no sweep in {folder}: give the folder of its runs.")
    return "\n\n".join(Manifest.read(path).status() for path in paths)
