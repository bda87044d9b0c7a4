"""The executor for Ray clusters: the only module that imports Ray.

A job is a plain Ray task that starts the same worker process as the local executor. Ray chooses the node, and restarts
the task on another one when a node or a Ray worker is lost. The content of run directories does not depend on Ray.
"""

import logging
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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
            dashboard = Dashboard(self.title, jobs, self.stream)
            return run_jobs(jobs, on_outcome, dashboard, self.num_retries, self._start)  # Ray queues all of them
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

    def _start(self, job: Job) -> "_RayTask":
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
        return _RayTask(job, remote.remote(replace(job, directory=here / job.directory), here, required.num_gpus > 0))


class _RayTask:
    """A job that was submitted to Ray."""

    def __init__(self, job: Job, reference: Any) -> None:
        self.job = job
        self._reference = reference
        self._future = reference.future()
        self._stop_requested = False

    @property
    def has_ended(self) -> bool:
        return bool(self._future.done())

    def stop(self) -> None:
        if not self._stop_requested:
            self._stop_requested = True
            ray.cancel(self._reference)  # raises KeyboardInterrupt in the task

    def outcome(self) -> Outcome:
        try:
            outcome: Outcome = ray.get(self._reference)
        except TaskCancelledError:
            return Outcome(self.job, "stopped")
        except RayError as error:
            cause = error.cause if isinstance(error, RayTaskError) else error
            return Outcome(self.job, "failed", f"{type(cause).__name__}: {first_line(cause)}")
        return replace(outcome, job=self.job)


def _connect(address: str | None) -> None:
    host, _, port = (address or "").rpartition(":")
    try:
        if host and port.isdigit():
            socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()  # Ray itself retries for minutes
        ray.init(address, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, RuntimeError, ValueError) as error:
        reason = first_line(error).rstrip(".")
        raise UserError(
            f"cannot use the Ray cluster at {address or 'its default address'} ({reason}): start one with "
            "`ray start --head`, or give its --address."
        ) from None
