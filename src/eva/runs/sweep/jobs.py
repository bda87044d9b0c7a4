"""Jobs: the unit of work of a sweep. A job trains one run.

A job is idempotent and resumable: it can be interrupted at any moment, and any process that starts it again continues
from the last checkpoint. This module does not import torch, so that listing jobs is fast.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from eva.config import Config, find_config
from eva.files import exists_either
from eva.runs.record.columns import evaluation_records
from eva.runs.record.status import read_status


@dataclass(frozen=True)
class Job:
    """One run."""

    directory: Path
    config: Config
    command: tuple[str, ...] = ()  # to record in the run's provenance
    trainer: str = "eva.runs.loop"  # the module whose `train(config, directory)` trains the run

    @property
    def log(self) -> Path:
        """The log file of the worker process, beside the run directory."""
        return self.directory.with_name(f"{self.directory.name}.log")

    def to_json(self) -> str:
        """Return the job as one line of JSON."""
        plain = {"directory": str(self.directory), "config": self.config.to_json()}
        return json.dumps({**plain, "command": self.command, "trainer": self.trainer})

    @classmethod
    def from_json(cls, text: str) -> "Job":
        """Return the job that `to_json` wrote."""
        plain = json.loads(text)
        directory, config = Path(plain["directory"]), Config.from_json(plain["config"])
        return cls(directory, config, tuple(plain["command"]), plain["trainer"])

    def is_done_in(self, directory: Path) -> bool:
        """Return whether `directory`, the run directory or a copy of its records, holds all results of this job."""
        status, config = read_status(directory), find_config(directory)
        return (
            status.state == "finished"
            and config is not None
            and config.identity == self.config.identity
            and 0 <= status.step - self.config.steps < self.config.environment.num_environments
            and self.is_evaluated_in(directory)
        )

    def is_evaluated_in(self, directory: Path) -> bool:
        """Return whether `directory` holds the evaluations that this job asks for, if any."""
        return all(exists_either(directory / name) for name in evaluation_records(self.config.evaluation))


@dataclass(frozen=True)
class Outcome:
    """How a job ended; "stopped" means that it wrote a checkpoint on request, from which the same job continues."""

    job: Job
    state: Literal["finished", "failed", "stopped"]
    error: str | None = None  # in one line, if the job failed

    @property
    def sentence(self) -> str:
        """The outcome as a sentence."""
        if self.state != "failed":
            return f"{self.job.directory} is {self.state}"
        return f"{self.job.directory} has failed: {str(self.error).rstrip('.')} (see {self.job.log})"


class Executor(Protocol):
    """Runs jobs on machines that all have access to the run directories."""

    def execute(self, jobs: Sequence[Job], on_outcome: Callable[[Outcome], None]) -> list[Outcome]:
        """Run all jobs and call `on_outcome`, in this process, when a job ends. The others continue if one fails.

        After a stop signal to this process, raises StoppedError once all jobs have stopped.
        """
