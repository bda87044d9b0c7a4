"""Keeping a run safe: when to checkpoint, how to go on from one, and when to stop for good."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from eva.errors import UserError
from eva.runs.checkpoint.state import pack, unpack
from eva.runs.checkpoint.store import Checkpoint, CheckpointStore
from eva.runs.record.directory import RunDirectory

if TYPE_CHECKING:
    from eva.runs.loop import Training

_LOOK_AT_THE_ENVIRONMENT = "see that the environment's rewards and observations are finite numbers"
_TOO_LARGE = 10.0  # times the largest value that rewards allow


@contextmanager
def _refusing_unplain() -> Iterator[None]:
    """Say whose fault it is that a state cannot be saved: all but the environments' are ours."""
    try:
        yield
    except (ValueError, RecursionError) as error:
        sentence = f"the run cannot be saved ({error}): let the environment's get_state return arrays and plain data."
        raise UserError(sentence) from None


class Safety:
    """The checkpoints of a run.

    Args:
        training: What is saved and restored.
        directory: Whose records are saved and cut back with it.
    """

    def __init__(self, training: Training, directory: RunDirectory) -> None:
        config = directory.config.run
        self._training = training
        self._directory = directory
        self._store = CheckpointStore(directory.path / "checkpoints", config.checkpoints_kept)
        self._period_seconds = 60 * config.checkpoint_period_minutes
        self._period_transitions = config.checkpoint_period_transitions or math.inf
        self._stops_when_diverged = config.stop_when_diverged
        self._saved_seconds = time.monotonic()
        self._saved_transitions = 0

    def resume(self, provenance: Mapping[str, Any], say: Callable[[str], None]) -> bool:
        """Go on from the newest good checkpoint; False where there is none."""
        loaded = self._store.load_newest(self._directory.config.identity)
        for warning in loaded.warnings:
            say(warning)
        if loaded.checkpoint is None:
            return False
        state = unpack(loaded.checkpoint.arrays, loaded.checkpoint.plain)
        sentence = self._training.set_state(state["training"])  # first: it may refuse, and then nothing has changed
        self._directory.resume(state["records"], {"step": loaded.checkpoint.step, **provenance})
        say(f"{self._directory.path} goes on from {loaded.checkpoint.step:,} transitions.")
        if sentence is not None:
            say(sentence)
        self._saved_transitions = loaded.checkpoint.step
        return True

    def discard(self) -> None:
        """Remove all checkpoints."""
        self._store.clear()

    def save_if_due(self) -> None:
        """Checkpoint when a period is over."""
        elapsed = self._training.agent.transitions - self._saved_transitions
        if elapsed >= self._period_transitions or time.monotonic() - self._saved_seconds >= self._period_seconds:
            self.save()

    def save(self) -> None:
        """Checkpoint now, unless it would be of no use: see `check`."""
        self.check({})
        with _refusing_unplain():
            self._store.save(self._checkpoint())
        self._saved_seconds = time.monotonic()
        self._saved_transitions = self._training.agent.transitions

    def check(self, metrics: Mapping[str, float | None]) -> None:
        """Stop a run whose loss or values have left all bounds, with a checkpoint apart from the good ones."""
        trouble = self._trouble(metrics.get("loss"))
        if trouble is None:
            return
        what, remedy = trouble
        with _refusing_unplain():
            path = self._store.save_apart(self._checkpoint(), "diverged")
        raise UserError(
            f"the run diverged at {self._training.agent.transitions:,} transitions: {what}; lower "
            f"learner.learning_rate, {remedy}, or examine {path}."
        )

    @property
    def excess(self) -> str | None:
        """What has been beyond all that rewards allow, so far."""
        value = self._training.agent.largest_value
        is_sensible = math.isfinite(value) and value <= self._largest_sensible_value()
        return None if is_sensible else f"|Q| has reached {value:g}"

    def _trouble(self, loss: float | None) -> tuple[str, str] | None:
        """Return what is wrong, and what to do about it."""
        agent = self._training.agent
        if loss is not None and not math.isfinite(loss):
            return f"the loss is {loss}", _LOOK_AT_THE_ENVIRONMENT
        excess = self.excess
        if excess is not None and not math.isfinite(agent.largest_value):
            return excess, _LOOK_AT_THE_ENVIRONMENT
        if excess is not None and self._stops_when_diverged:
            return f"{excess}, beyond any sensible value", "go on with --run.no-stop-when-diverged"
        if not all(parameter.isfinite().all() for parameter in agent.learner.network.parameters()):
            # and no state has been valued by it yet
            return "a parameter of the network is infinite or not a number", _LOOK_AT_THE_ENVIRONMENT
        return None

    def _largest_sensible_value(self) -> float:
        learner = self._directory.config.learner
        reward_bound = 1.0 if learner.clip_rewards else self._training.environment.spec.reward_bound
        if reward_bound is None or learner.discount == 1:
            return math.inf
        return _TOO_LARGE * reward_bound / (1 - learner.discount)

    def _checkpoint(self) -> Checkpoint:
        state = {"training": self._training.get_state(), "records": self._directory.get_state()}
        arrays, plain = pack(state)
        return Checkpoint(self._training.agent.transitions, self._directory.config.identity, plain, arrays)
