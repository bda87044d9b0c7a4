"""When to save a checkpoint, how to resume from one, and when a run has diverged."""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eva.errors import UserError, first_line
from eva.runs.checkpoint.state import pack, unpack
from eva.runs.checkpoint.store import Checkpoint, CheckpointStore
from eva.runs.record.directory import RunDirectory, checked_records
from eva.runs.record.status import read_status
from eva.runs.stopping import StoppedError

if TYPE_CHECKING:
    from eva.runs.loop import Training

_CHECK_ENVIRONMENT = "check that the environment's rewards and observations are finite"
_DIVERGENCE_FACTOR = 10.0  # a run has diverged if |Q| exceeds this many times r_max / (1 - gamma)


class Checkpointer:
    """Save and resume a run: agent, environments and the sizes of the records in its directory."""

    def __init__(self, training: Training, directory: RunDirectory) -> None:
        config = directory.config.run
        self._training = training
        self._directory = directory
        self._store = CheckpointStore(directory.path / "checkpoints", config.checkpoints_kept)
        self._period_seconds = 60 * config.checkpoint_period_minutes
        self._period_transitions = config.checkpoint_period_transitions or math.inf
        self._saved_seconds = time.monotonic()
        self._saved_transitions = 0
        self._resumed_step: int | None = None  # of the checkpoint that the run goes on from

    def start(self, provenance: Mapping[str, Any], report: Callable[[str], None], *, restart: bool = False) -> None:
        """Resume from the newest good checkpoint, or begin the run if there is none or `restart` is true."""
        path = self._directory.path
        if restart:
            self._directory.reopen()  # first: a run without checkpoints that is not finished starts from scratch
            self._store.clear()
        checkpoint, warnings = self._store.load_newest(self._directory.config.identity)
        for warning in warnings:
            report(warning)
        if checkpoint is None:
            status = read_status(path)
            if not restart and status.state in ("finished", "stopped"):  # these runs did save a checkpoint
                raise UserError(
                    f"{path} is {status.state} after {status.step:,} transitions and has no checkpoint to go on from: "
                    "restore it, choose another --out, or pass --restart to start over."
                )
            self._directory.begin(provenance)
            return
        step = checkpoint.step
        try:
            state = unpack(checkpoint.arrays, checkpoint.plain)
            warning_of_environment = self._training.load_state_dict(state["training"])  # before any file changes
            records = checked_records(state["records"])
        except UserError:
            raise
        except Exception as error:  # a checkpoint that was made up, with valid checksums
            raise UserError(
                f"the checkpoint of {path} after {step:,} transitions does not fit the run ({type(error).__name__}: "
                f"{first_line(error)}): restore it from a backup, or pass --restart to start over."
            ) from error
        self._directory.resume(records, {"step": step, **provenance})
        report(f"{path} goes on from {step:,} transitions.")
        if warning_of_environment is not None:
            report(warning_of_environment)
        self._saved_transitions = self._resumed_step = step

    @contextmanager
    def doubting(self) -> Iterator[None]:
        """Turn errors that a forged checkpoint may have caused into a UserError: not all content can be checked."""
        try:
            yield
        except (UserError, StoppedError, OSError, MemoryError):
            raise
        except Exception as error:
            if self._resumed_step is None:
                raise
            *_, where = traceback.extract_tb(error.__traceback__)
            raise UserError(
                f"the run failed after it went on from {self._resumed_step:,} transitions ({type(error).__name__}: "
                f"{first_line(error)}, in {Path(where.filename).name}, line {where.lineno}): if the checkpoint in "
                f"{self._directory.path} is not your own, pass --restart to start over; otherwise report this error."
            ) from error

    def save_if_due(self) -> Path | None:
        """Save a checkpoint if the period in minutes or in transitions has passed; returns its path."""
        elapsed = self._training.agent.transitions - self._saved_transitions
        if elapsed >= self._period_transitions or time.monotonic() - self._saved_seconds >= self._period_seconds:
            return self.save()
        return None

    def save(self) -> Path:
        """Save a checkpoint now and return its path; raises UserError if the run has diverged."""
        self.check_divergence()
        path = self._write(self._store.save)
        self._saved_seconds = time.monotonic()
        self._saved_transitions = self._training.agent.transitions
        return path

    def check_divergence(self, loss: float | None = None) -> None:
        """Raise UserError if loss, values or parameters have diverged; first save diverged-step-N for inspection."""
        agent = self._training.agent
        message = self.divergence_message
        if loss is not None and not math.isfinite(loss):
            problem, remedy = f"the loss is {loss}", _CHECK_ENVIRONMENT
        elif not math.isfinite(agent.monitor.largest_abs_q):
            problem, remedy = str(message), _CHECK_ENVIRONMENT
        elif message is not None and self._directory.config.run.stop_when_diverged:
            problem, remedy = f"{message}, more than rewards allow", "go on with --run.no-stop-when-diverged"
        elif not all(parameter.isfinite().all() for parameter in agent.learner.network.parameters()):
            problem, remedy = "a parameter of the network is infinite or NaN", _CHECK_ENVIRONMENT
        else:
            return
        path = self._write(self._store.save_diverged)
        raise UserError(
            f"the run diverged at {agent.transitions:,} transitions: {problem}; lower learner.learning_rate, "
            f"{remedy}, or examine {path}."
        )

    @property
    def divergence_message(self) -> str | None:
        """A sentence if |Q| has exceeded 10 r_max / (1 - gamma) or is not finite, else None."""
        learner = self._directory.config.learner
        value = self._training.agent.monitor.largest_abs_q
        max_reward = 1.0 if learner.clip_rewards else self._training.environment.spec.reward_bound
        limit = math.inf
        if max_reward is not None and learner.discount < 1:
            limit = _DIVERGENCE_FACTOR * max_reward / (1 - learner.discount)
        return None if math.isfinite(value) and value <= limit else f"|Q| has reached {value:g}"

    def _write(self, save: Callable[[Checkpoint], Path]) -> Path:
        try:
            arrays, plain = pack({"training": self._training.state_dict(), "records": self._directory.get_state()})
            return save(Checkpoint(self._training.agent.transitions, self._directory.config.identity, plain, arrays))
        except (ValueError, RecursionError) as error:  # only an environment's own get_state can return such data
            raise UserError(
                f"the run cannot be saved ({error}): let the environment's get_state return arrays and plain data."
            ) from None
