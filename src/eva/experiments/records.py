"""What is kept of finished runs, small enough to be committed: `results/NAME/runs/`.

A kept run has the files of its run directory that a report reads, under the same names, the long ones compressed.
"""

from __future__ import annotations

import gzip
from pathlib import Path

from eva.files import refusing_kindly, write_whole
from eva.runs.jobs import Job

_COPIED = ("config.json", "provenance.json", "status.json")
_COMPRESSED = ("episodes.csv", "timing.jsonl")


class Records:
    """The finished runs of one experiment.

    Args:
        results: The folder of all results; runs that other experiments keep there count too.
        name: The experiment's folder.
    """

    def __init__(self, results: Path, name: str) -> None:
        self._results = results
        self.folder = results / name / "runs"

    def find(self, job: Job) -> Path | None:
        """Return where the finished run of a job is kept, or None; its directory is relative."""
        others = sorted(self._results.glob("*/runs"))
        for folder in (self.folder, *others):
            if job.is_done_in(folder / job.directory):
                return folder / job.directory
        return None

    def keep(self, job: Job, directory: Path) -> None:
        """Copy what is to be kept of a run that is finished in `directory`, or kept there already."""
        target = self.folder / job.directory
        if directory == target:
            return
        with refusing_kindly(target):
            target.mkdir(parents=True, exist_ok=True)
            contents = {name: _read(directory / name) for name in (*_COMPRESSED, *(play.file for play in job.plays))}
            # The status comes last: it makes the record a finished run's.
            contents |= {name: (directory / name).read_bytes() for name in _COPIED}
        for name, content in contents.items():
            if name in _COMPRESSED:
                write_whole(target / f"{name}.gz", gzip.compress(content, mtime=0))
            else:
                write_whole(target / name, content)


def _read(path: Path) -> bytes:
    """Return the content of a file, or of its compressed form."""
    packed = path.with_name(f"{path.name}.gz")
    return gzip.decompress(packed.read_bytes()) if packed.exists() else path.read_bytes()
