"""Callbacks: objects that follow a run. They receive read-only records, so that they cannot change its results."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from eva.config import Config
from eva.errors import UserError, described
from eva.runs.record.episodes import Episode, Evaluation
from eva.types import StepOutcome


@dataclass(frozen=True)
class StepRecord:
    """One step of all E environments."""

    rewards: tuple[float, ...]  # (E,)
    terminated: tuple[bool, ...]  # (E,) the task ended
    truncated: tuple[bool, ...]  # (E,) a time limit ended the episode


@dataclass(frozen=True)
class MetricsRecord:
    """A line of metrics.jsonl and the line of timing.jsonl beside it."""

    values: Mapping[str, float | None]  # by name, read-only; None where there is nothing to average
    seconds: float  # of training so far, without evaluations
    steps_per_second: float


@dataclass(frozen=True)
class EndRecord:
    """How training ended; a stopped or failed run can be resumed."""

    state: Literal["finished", "stopped", "failed"]
    reason: str | None = None  # why it stopped or failed


class Run:
    """A run in progress, as callbacks see it."""

    def __init__(self, path: Path, config: Config) -> None:
        self._path = path
        self._config = config
        self._step = 0
        self._stop_reason: str | None = None

    @property
    def path(self) -> Path:
        """The run directory."""
        return self._path

    @property
    def config(self) -> Config:
        """The configuration."""
        return self._config

    @property
    def step(self) -> int:
        """Transitions so far, over all environments."""
        return self._step

    @property
    def stop_reason(self) -> str | None:
        """The reason of the first `stop`, or None."""
        return self._stop_reason

    def stop(self, reason: str) -> None:
        """Let the run save a checkpoint and end after this step, in state "stopped"; the same call resumes it.

        Without effect at the last step: the run is finished then.
        """
        self._stop_reason = self._stop_reason or str(reason) or "no reason given"


class Callback:
    """Base class of callbacks: override the events that you need.

    At one step they come in the order below. `run.step` is the number of transitions at each event.
    """

    def start(self, run: Run) -> None:
        """Respond to the start of training; `run.step` is 0, or the transitions that a resumed run goes on from."""

    def step(self, run: Run, step: StepRecord) -> None:
        """Respond to a step of all environments."""

    def episode(self, run: Run, episode: Episode) -> None:
        """Respond to an episode that ended at this step."""

    def metrics(self, run: Run, metrics: MetricsRecord) -> None:
        """Respond to metrics, every `run.metrics_period_transitions`."""

    def evaluation(self, run: Run, evaluation: Evaluation) -> None:
        """Respond to an evaluation with one weight and epsilon, every `evaluation.period_transitions`."""

    def checkpoint(self, run: Run, path: Path) -> None:
        """Respond to a checkpoint that was saved."""

    def end(self, run: Run, end: EndRecord) -> None:
        """Respond to the end of training: once after `start`, also after an error."""


class Callbacks:
    """All callbacks of a run, called in order: its own first, then the user's."""

    def __init__(self, run: Run, own: Sequence[Callback], users: Sequence[Callback]) -> None:
        self.run = run
        self._all = (*own, *users)
        self._users = users
        self._started: list[Callback] = []

    def start(self, step: int) -> None:
        """Report the start of training after `step` transitions."""
        self.run._step = step
        for callback in self._all:
            self._call(callback, "start", lambda each: each.start(self.run))
            self._started.append(callback)

    def step(self, step: int, outcome: StepOutcome) -> None:
        """Report a step of all environments, after which there have been `step` transitions."""
        self.run._step = step
        lists = (outcome.rewards.tolist(), outcome.terminated.tolist(), outcome.truncated.tolist())
        record = StepRecord(*map(tuple, lists))
        self._call_all("step", lambda each: each.step(self.run, record))

    def episode(self, episode: Episode) -> None:
        """Report the end of an episode."""
        self._call_all("episode", lambda each: each.episode(self.run, episode))

    def metrics(self, values: Mapping[str, float | None], seconds: float, steps_per_second: float) -> None:
        """Report metrics."""
        record = MetricsRecord(MappingProxyType(dict(values)), seconds, steps_per_second)
        self._call_all("metrics", lambda each: each.metrics(self.run, record))

    def evaluation(self, evaluation: Evaluation) -> None:
        """Report an evaluation."""
        self._call_all("evaluation", lambda each: each.evaluation(self.run, evaluation))

    def checkpoint(self, path: Path) -> None:
        """Report a checkpoint."""
        self._call_all("checkpoint", lambda each: each.checkpoint(self.run, path))

    def end(self, end: EndRecord) -> UserError | None:
        """Report the end of training to every callback that has started; returns the first error."""
        first_error = None
        started, self._started = self._started, []
        for callback in started:
            try:
                self._call(callback, "end", lambda each: each.end(self.run, end))
            except UserError as error:  # noqa: PERF203
                first_error = first_error or error
        return first_error

    def _call_all(self, event: str, call: Callable[[Callback], None]) -> None:
        for callback in self._all:
            self._call(callback, event, call)

    def _call(self, callback: Callback, event: str, call: Callable[[Callback], None]) -> None:
        """Call one; turn exceptions of the user's code into a `UserError` with its class, file and line."""
        try:
            call(callback)
        except (Exception, SystemExit) as error:
            if callback not in self._users:
                raise
            name = type(callback).__name__
            raise UserError(f"the callback {name} failed in `{event}` ({described(error)}): fix it.") from error


def checked(callbacks: Sequence[Callback]) -> tuple[Callback, ...]:
    """Return the callbacks; raises UserError if one is something else."""
    for each in callbacks:
        if not isinstance(each, Callback):
            raise UserError(f"callbacks are objects of subclasses of eva.Callback, but one is {each!r}: change it.")
    return tuple(callbacks)
