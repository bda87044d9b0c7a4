"""Jobs: the unit of work of a sweep. A job trains one run and plays evaluation episodes with it.

A job is idempotent and resumable: it can be interrupted at any moment, and any process that starts it again continues
from the last checkpoint. This module does not import torch, so that listing jobs is fast.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, Protocol

from eva.config import Config, find_config
from eva.runs.record.columns import PLAYED
from eva.runs.record.status import read_status

EPSILON = 0.05  # exploration in single evaluation episodes (P28)


@dataclass(frozen=True)
class Play:
    """Evaluation episodes that are played during training, with the network and memory at that step."""

    steps: int  # training transitions after which they are played
    weights: tuple[float, ...]  # weights of Q_NP to compare; 0 is the network alone
    num_episodes: int  # per weight
    seed: int = 0  # of start states and exploration
    epsilon: float = EPSILON  # probability of a random action

    @property
    def file(self) -> str:
        """Name of the result file in the run directory."""
        return PLAYED.format(self.steps)


@dataclass(frozen=True)
class Job:
    """One run and its evaluation episodes."""

    directory: Path
    config: Config
    plays: tuple[Play, ...] = ()  # in ascending order of steps, the last at the end of training or earlier
    command: tuple[str, ...] = ()  # to record in the run's provenance
    trainer: str = "eva.runs.loop"  # the module whose `train(config, directory)` trains the run

    @property
    def log(self) -> Path:
        """The log file of the worker process, beside the run directory."""
        return self.directory.with_name(f"{self.directory.name}.log")

    def to_json(self) -> str:
        """Return the job as one line of JSON."""
        plain = {"directory": str(self.directory), "config": self.config.to_json(), "command": self.command}
        return json.dumps({**plain, "plays": [asdict(play) for play in self.plays], "trainer": self.trainer})

    @classmethod
    def from_json(cls, text: str) -> Job:
        """Return the job that `to_json` wrote."""
        plain = json.loads(text)
        plays = tuple(Play(**{**play, "weights": tuple(play["weights"])}) for play in plain["plays"])
        directory, config = Path(plain["directory"]), Config.from_json(plain["config"])
        return cls(directory, config, plays, tuple(plain["command"]), plain["trainer"])

    def is_done_in(self, directory: Path) -> bool:
        """Return whether `directory`, the run directory or a copy of its records, holds all results of this job."""
        status, config = read_status(directory), find_config(directory)
        return (
            status.state == "finished"
            and config is not None
            and config.identity == self.config.identity
            and 0 <= status.step - self.config.steps < self.config.environment.num_environments
            and all((directory / play.file).exists() for play in self.plays)
        )


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
