"""Kept records of finished runs, small enough to commit: `results/NAME/runs/`.

A kept run has the files that a report reads, under the same names, the long ones compressed.
"""

from pathlib import Path

from eva.files import read_either, refusing_kindly, write_packed, write_whole
from eva.runs.record.columns import EVALUATIONS
from eva.runs.sweep.jobs import Job

_COPIED = ("config.json", "provenance.json", "status.json")
_COMPRESSED = ("episodes.csv", "timing.jsonl", EVALUATIONS)


class Records:
    """The finished runs of one experiment.

    Args:
        results: Folder of all results; runs kept by other experiments are found too.
        name: The experiment's folder.
    """

    def __init__(self, results: Path, name: str) -> None:
        self._results = results
        self.folder = results / name / "runs"

    def find(self, job: Job) -> Path | None:
        """Return the folder in which the finished run of a job is kept, or None."""
        others = sorted(self._results.glob("*/runs"))
        for folder in (self.folder, *others):
            if job.is_done_in(folder / job.directory):
                return folder / job.directory
        return None

    def keep(self, job: Job, directory: Path) -> None:
        """Copy the records of a finished run from `directory`."""
        target = self.folder / job.directory
        if directory == target:
            return
        with refusing_kindly(target):
            target.mkdir(parents=True, exist_ok=True)
        contents = {}
        for name in (*_COMPRESSED, *_COPIED):  # the status comes last: it marks the record as finished
            if name == EVALUATIONS and job.config.evaluation.period_transitions is None:
                continue
            with refusing_kindly(directory / name, ("read", "restore it, or delete its folder and run it again")):
                contents[name] = read_either(directory / name)
        for name, content in contents.items():
            (write_packed if name in _COMPRESSED else write_whole)(target / name, content)
