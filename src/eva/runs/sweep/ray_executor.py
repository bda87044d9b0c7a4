"""Many runs on a Ray cluster: the only place where Ray is used.

A job is a plain Ray task, which starts the same process as the executor of one machine does. So Ray places it, and
carries it on elsewhere when its node or its worker is lost; what a run leaves in its directory does not depend on Ray.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from eva.errors import UserError, first_line
from eva.runs.sweep.dashboard import Board
from eva.runs.sweep.executor import carry_out
from eva.runs.sweep.jobs import Job, Outcome
from eva.runs.sweep.process import carry_out_here
from eva.runs.sweep.resources import Need, need

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing here calls home
try:
    import ray
    from ray.exceptions import RayError, RayTaskError, TaskCancelledError
except ImportError as error:
    raise UserError(
        f'Ray needs a package that is missing ({error}): run pip install "ephemeral-value-adjustments[ray]".'
    ) from None

_POLL_SECONDS = 0.2
_SECONDS_TO_ANSWER = 10.0
_NUM_LOSSES = 20  # of nodes and workers for one run: they are not the run's fault, and do not count as its failures


class RayExecutor:
    """Carries out jobs on a Ray cluster whose nodes all reach the run directories, under the same paths.

    Args:
        title: What the display calls the whole.
        stream: Where progress goes; by default standard error.
        address: Of the cluster; by default the one that this machine belongs to, or else a new one of this machine.
        num_retries: How often a job that fails is tried again.
        gpu_share: Of a GPU, for each run with `run.device` cuda.
    """

    def __init__(
        self,
        title: str = "runs",
        stream: TextIO | None = None,
        *,
        address: str | None = None,
        num_retries: int = 0,
        gpu_share: float = 1.0,
    ) -> None:
        self._title = title
        self._stream = stream
        self._address = address
        self._num_retries = num_retries
        self._gpu_share = gpu_share

    def execute(self, jobs: Sequence[Job], on_outcome: Callable[[Outcome], None]) -> list[Outcome]:
        """Carry out all jobs; `on_outcome` is called as soon as each one ends. A failed job stops no other.

        Raises:
            StoppedError: After all tasks have stopped, if this process was asked to stop.
        """
        needs = {job: need(job.config, self._gpu_share) for job in jobs}
        board = Board(self._title, jobs, self._stream)
        try:
            _connect(self._address)
            _refuse_unplaceable(needs)
            return carry_out(jobs, _Tasks(needs), board, self._num_retries, on_outcome)
        finally:
            ray.shutdown()


class _Task:
    """A job that Ray was given."""

    def __init__(self, job: Job, reference: Any) -> None:
        self.job = job
        self.reference = reference
        self._asked_to_stop = False

    def stop(self) -> None:
        if not self._asked_to_stop:
            self._asked_to_stop = True
            ray.cancel(self.reference)  # where it runs, this is a KeyboardInterrupt

    def outcome(self) -> Outcome:
        try:
            outcome: Outcome = ray.get(self.reference)
        except TaskCancelledError:
            return Outcome(self.job, "stopped")
        except RayError as error:
            cause = error.cause if isinstance(error, RayTaskError) else error
            return Outcome(self.job, "failed", f"{type(cause).__name__}: {first_line(cause)}")
        return replace(outcome, job=self.job)


class _Tasks:
    """The cluster; it queues what finds no room yet."""

    def __init__(self, needs: dict[Job, Need]) -> None:
        self._needs = needs
        self._place = Path.cwd()

    def has_room(self, job: Job, running: Sequence[_Task]) -> bool:
        return True

    def start(self, job: Job) -> _Task:
        asked = self._needs[job]
        remote = ray.remote(carry_out_here).options(
            name=str(job.directory),
            num_cpus=asked.num_cpus,
            num_gpus=asked.num_gpus,
            memory=asked.memory_bytes,
            max_retries=_NUM_LOSSES,
            scheduling_strategy="SPREAD",
        )
        placed = replace(job, directory=self._place / job.directory)
        return _Task(job, remote.remote(placed, self._place, asked.num_gpus > 0))

    def ended(self, running: Sequence[_Task]) -> list[_Task]:
        references = [task.reference for task in running]
        ready = set(ray.wait(references, num_returns=len(references), timeout=_POLL_SECONDS)[0])
        return [task for task in running if task.reference in ready]


def _connect(address: str | None) -> None:
    host, _, port = (address or "").rpartition(":")
    try:
        if host and port.isdigit():
            socket.create_connection((host, int(port)), _SECONDS_TO_ANSWER).close()  # Ray itself tries for minutes
        ray.init(address, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, RuntimeError, ValueError) as error:
        reason = first_line(error).rstrip(".")
        raise UserError(
            f"cannot use the Ray cluster at {address or 'its default address'} ({reason}): start one with "
            "`ray start --head`, or give its --address."
        ) from None


def _refuse_unplaceable(needs: dict[Job, Need]) -> None:
    """Refuse a job that no node could ever take: Ray would let it wait for ever."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    for job, asked in needs.items():
        resources = {"CPU": asked.num_cpus, "GPU": asked.num_gpus, "memory": asked.memory_bytes}
        if not any(all(node.get(name, 0) >= amount for name, amount in resources.items()) for node in nodes):
            raise UserError(
                f"{job.directory} asks for {asked.num_cpus} CPUs, {asked.num_gpus:g} GPUs and "
                f"{asked.memory_bytes / 1e9:.1f} GB, which no node of the Ray cluster has: add such a node, or lower "
                "run.threads, --gpu-share or replay.replay_capacity."
            )
