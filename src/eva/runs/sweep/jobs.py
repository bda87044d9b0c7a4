"""The unit of work of many runs: a run directory, what is trained in it, and what is then played with it.

A job is idempotent and resumable: whoever carries it out, here or elsewhere, may be stopped at any moment, and the next
one goes on from there. Needs no torch, so that jobs can be listed at once.
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

EPSILON = 0.05  # of single episodes (P28)


@dataclass(frozen=True)
class Play:
    """Single episodes to be played with what a run has learned and remembers by then (P28).

    Attributes:
        steps: Transitions of training after which they are played.
        weights: Of Q_NP; 0 is the network alone.
        num_episodes: For each weight.
        seed: Of start states and exploration.
        epsilon: Probability of a random action.
    """

    steps: int
    weights: tuple[float, ...]
    num_episodes: int
    seed: int = 0
    epsilon: float = EPSILON

    @property
    def file(self) -> str:
        """Where in the run directory the outcome is written."""
        return PLAYED.format(self.steps)


@dataclass(frozen=True)
class Job:
    """One run directory, what is trained in it, and what is played with it.

    Attributes:
        directory: The run directory.
        config: The run.
        plays: By ascending steps; the last may come at the end of training.
        command: What the run's provenance says was typed.
        trainer: The module whose `train(config, directory)` makes the run.
    """

    directory: Path
    config: Config
    plays: tuple[Play, ...] = ()
    command: tuple[str, ...] = ()
    trainer: str = "eva.runs.loop"

    @property
    def log(self) -> Path:
        """Where output goes of whoever carries it out: beside the run directory, with the suffix `.log`."""
        return self.directory.with_name(f"{self.directory.name}.log")

    def to_json(self) -> str:
        """Return one line that `from_json` reads back."""
        plain = {"directory": str(self.directory), "config": self.config.to_json(), "command": self.command}
        return json.dumps({**plain, "plays": [asdict(play) for play in self.plays], "trainer": self.trainer})

    @classmethod
    def from_json(cls, text: str) -> Job:
        """Read what `to_json` wrote."""
        plain = json.loads(text)
        plays = tuple(Play(**{**play, "weights": tuple(play["weights"])}) for play in plain["plays"])
        directory, config = Path(plain["directory"]), Config.from_json(plain["config"])
        return cls(directory, config, plays, tuple(plain["command"]), plain["trainer"])

    def is_done_in(self, directory: Path) -> bool:
        """Whether this very run is finished and played with in `directory`: its own, or a copy of its records."""
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
    """What became of a job.

    Attributes:
        state: "stopped" if it was asked to, in order; the same job then goes on from there.
        error: One line, if it failed.
    """

    job: Job
    state: Literal["finished", "failed", "stopped"]
    error: str | None = None

    @property
    def sentence(self) -> str:
        """What became of it, in words."""
        if self.state != "failed":
            return f"{self.job.directory} is {self.state}"
        return f"{self.job.directory} has failed: {str(self.error).rstrip('.')} (see {self.job.log})"


class Executor(Protocol):
    """Carries out jobs, anywhere that reaches their run directories."""

    def execute(self, jobs: Sequence[Job], on_outcome: Callable[[Outcome], None]) -> list[Outcome]:
        """Carry out all jobs; `on_outcome` is called here, as soon as each one ends. A failed job stops no other.

        Raises:
            StoppedError: After all work has stopped, if this process was asked to stop.
        """
