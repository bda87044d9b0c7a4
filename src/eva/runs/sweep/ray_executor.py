"""The executor for Ray clusters: the only module that imports Ray.

A job is a plain Ray task that starts the same worker process as the local executor. Ray chooses the node, and restarts
the task on another one when a node or a Ray worker is lost. The content of run directories does not depend on Ray.
"""

import logging
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from eva.errors import UserError, first_line
from eva.runs.sweep.cost import required_resources
from eva.runs.sweep.dashboard import Dashboard
from eva.runs.sweep.executor import run_in_process, run_jobs
from eva.runs.sweep.jobs import Job, Outcome

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # send no usage statistics
try:
    import ray
    from ray.exceptions import RayError, RayTaskError, TaskCancelledError
except ImportError as error:
    raise UserError(
        f'Ray needs a package that is missing ({error}): run pip install "ephemeral-value-adjustments[ray]".'
    ) from None

_CONNECT_SECONDS = 10.0
_SECONDS_BETWEEN_CHECKS = 5.0
_MAX_CHECKS = 3  # of the head node that fail one after the other before it counts as lost; Ray itself aborts after 60 s
_LOST = "the head node of the Ray cluster is lost: start a cluster, then the same command"
_MAX_LOSSES = 20  # of nodes and Ray workers, per job; they do not count as failures of the job


@dataclass(frozen=True)
class RayExecutor:
    """Runs jobs on a Ray cluster whose nodes all have access to the run directories, under the same paths."""

    title: str = "runs"
    stream: TextIO | None = None  # for progress; standard error by default
    address: str | None = None  # by default the cluster of this machine, or else a new local one
    num_retries: int = 0
    gpu_share: float = 1.0  # fraction of a GPU for each run with `run.device` cuda

    def execute(self, jobs: Sequence[Job], on_outcome: Callable[[Outcome], None]) -> list[Outcome]:
        """Run all jobs: see `eva.runs.sweep.jobs.Executor`."""
        try:
            _connect(self.address)
            self._check_placeable(jobs)
            dashboard, head = Dashboard(self.title, jobs, self.stream), _Head(ray.get_runtime_context().gcs_address)
            start = partial(self._start, head=head)
            return run_jobs(jobs, on_outcome, dashboard, self.num_retries, start)  # Ray queues all of them
        finally:
            ray.shutdown()

    def _check_placeable(self, jobs: Sequence[Job]) -> None:
        """Raise a `UserError` for a job that no node can run: Ray would let it wait forever."""
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        for job in jobs:
            required = required_resources(job.config, self.gpu_share)
            amounts = {"CPU": required.num_cpus, "GPU": required.num_gpus, "memory": required.memory_bytes}
            if not any(all(node.get(name, 0) >= amount for name, amount in amounts.items()) for node in nodes):
                raise UserError(
                    f"{job.directory} asks for {required.num_cpus} CPUs, {required.num_gpus:g} GPUs and "
                    f"{required.memory_bytes / 1e9:.1f} GB, which no node of the Ray cluster has: add such a node, or "
                    "lower run.threads, --gpu-share or replay.replay_capacity."
                )

    def _start(self, job: Job, head: "_Head") -> "_RayTask":
        if head.is_lost:
            raise UserError(f"{_LOST}.")
        required = required_resources(job.config, self.gpu_share)
        remote = ray.remote(run_in_process).options(
            name=str(job.directory),
            num_cpus=required.num_cpus,
            num_gpus=required.num_gpus,
            memory=required.memory_bytes,
            max_retries=_MAX_LOSSES,
            scheduling_strategy="SPREAD",
        )
        here = Path.cwd()
        task = remote.remote(replace(job, directory=here / job.directory), here, required.num_gpus > 0)
        return _RayTask(job, task, head)


class _Head:
    """The head node of a cluster, which Ray's calls would wait for if it is lost."""

    def __init__(self, address: str) -> None:
        self.is_lost = False
        self._address = address
        self._num_failed = 0
        self._next = 0.0

    def check(self) -> None:
        """Connect to it every few seconds; `is_lost` stays true after several failures in a row."""
        if self.is_lost or time.monotonic() < self._next:
            return
        try:
            _reach(self._address)
            self._num_failed = 0
        except OSError:
            self._num_failed += 1
        self.is_lost = self._num_failed >= _MAX_CHECKS
        self._next = time.monotonic() + _SECONDS_BETWEEN_CHECKS


class _RayTask:
    """A job that was submitted to Ray."""

    def __init__(self, job: Job, reference: Any, head: _Head) -> None:
        self.job = job
        self._head = head
        self._reference = reference
        self._future = reference.future()
        self._stop_requested = False

    @property
    def has_ended(self) -> bool:
        self._head.check()
        return bool(self._future.done()) or self._head.is_lost

    def stop(self) -> None:
        if not self._stop_requested and not self._head.is_lost:
            self._stop_requested = True
            ray.cancel(self._reference)  # raises KeyboardInterrupt in the task

    def outcome(self) -> Outcome:
        if self._head.is_lost and not self._future.done():
            return Outcome(self.job, "failed", _LOST)
        try:
            outcome: Outcome = ray.get(self._reference)
        except TaskCancelledError:
            return Outcome(self.job, "stopped")
        except RayError as error:
            cause = error.cause if isinstance(error, RayTaskError) else error
            return Outcome(self.job, "failed", f"{type(cause).__name__}: {first_line(cause)}")
        return replace(outcome, job=self.job)


def _reach(address: str) -> None:
    """Connect to HOST:PORT; raises OSError if nothing answers. Ray itself retries for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()


@contextmanager
def _elsewhere() -> Iterator[None]:
    """Leave the working directory: Ray puts it first on the path of its workers, before the standard library."""
    here = Path.cwd()
    os.chdir("/")
    try:
        yield
    finally:
        os.chdir(here)


def _connect(address: str | None) -> None:
    try:
        _reach(address or "")
        with _elsewhere():
            ray.init(address, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, RuntimeError, ValueError) as error:
        reason = first_line(error).rstrip(".")
        raise UserError(
            f"cannot use the Ray cluster at {address or 'its default address'} ({reason}): start one with "
            "`ray start --head`, or give its --address."
        ) from None
