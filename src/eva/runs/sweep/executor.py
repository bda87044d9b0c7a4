"""The scheduling loop that all executors share, and the executor for processes on this machine.

The executor for Ray clusters is in `eva.runs.sweep.ray_executor`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol, TextIO

from eva.errors import UserError
from eva.runs.stopping import StoppedError, StopRequest
from eva.runs.sweep.dashboard import Dashboard
from eva.runs.sweep.jobs import Job, Outcome
from eva.runs.sweep.process import POLL_SECONDS, WorkerProcess


class RunningJob(Protocol):
    """A job that was started."""

    @property
    def job(self) -> Job:
        """The job."""

    @property
    def has_ended(self) -> bool:
        """Whether `outcome` returns without waiting."""

    def stop(self) -> None:
        """Ask the job to write a checkpoint and end. Further calls have no effect."""

    def outcome(self) -> Outcome:
        """Wait until the job ends and return its outcome."""


def run_jobs(
    jobs: Sequence[Job],
    on_outcome: Callable[[Outcome], None],
    dashboard: Dashboard,
    num_retries: int,
    start: Callable[[Job], RunningJob],
    has_capacity: Callable[[Job, Sequence[RunningJob]], bool] = lambda _, __: True,
) -> list[Outcome]:
    """Run all jobs as `eva.runs.sweep.jobs.Executor.execute` specifies, and retry failed ones.

    Args:
        jobs: The jobs.
        on_outcome: Called when a job ends.
        dashboard: Shows the progress.
        num_retries: Maximum number of retries per job.
        start: Starts a job.
        has_capacity: Returns whether a job can start beside the running ones.
    """
    waiting, running, outcomes = list(jobs), list[RunningJob](), list[Outcome]()
    num_failures: Counter[Job] = Counter()

    def finish(outcome: Outcome) -> None:
        job = outcome.job
        if outcome.state == "failed":
            num_failures[job] += 1
            if num_failures[job] <= num_retries and stop.received is None:
                waiting.append(job)
                dashboard.print(f"{outcome.sentence}; retry {num_failures[job]} of {num_retries}")
                return
            dashboard.mark_failed(job)
        outcomes.append(outcome)
        on_outcome(outcome)
        dashboard.print(f"{outcome.sentence} ({len(outcomes)} of {len(jobs)})")

    with StopRequest() as stop, dashboard:
        try:
            while running or (waiting and stop.received is None):
                while waiting and stop.received is None and has_capacity(waiting[0], running):
                    job = waiting.pop(0)
                    try:
                        running.append(start(job))
                    except UserError as error:
                        finish(Outcome(job, "failed", str(error)))
                if stop.received is not None:
                    _stop(running)
                time.sleep(POLL_SECONDS)
                for ended in [each for each in running if each.has_ended]:
                    running.remove(ended)
                    finish(ended.outcome())
                dashboard.refresh()
        finally:  # leave no job running, also when `on_outcome` raises
            _stop(running)
            for each in running:
                each.outcome()
    if stop.received is not None:
        raise StoppedError(stop.received)
    return outcomes


def _stop(running: Sequence[RunningJob]) -> None:
    for each in running:
        each.stop()


class LocalExecutor:
    """Runs jobs in processes on this machine.

    Args:
        num_threads: Maximum number of threads over all running jobs. A job that needs more runs alone.
        title: Title of the progress display.
        stream: Where progress is printed; standard error by default.
        num_retries: Maximum number of retries of a failed job.
    """

    def __init__(
        self, num_threads: int, title: str = "runs", stream: TextIO | None = None, *, num_retries: int = 0
    ) -> None:
        self._num_threads = num_threads
        self._title = title
        self._stream = stream
        self._num_retries = num_retries

    def execute(self, jobs: Sequence[Job], on_outcome: Callable[[Outcome], None]) -> list[Outcome]:
        """Run all jobs: see `eva.runs.sweep.jobs.Executor`."""
        dashboard = Dashboard(self._title, jobs, self._stream)
        return run_jobs(jobs, on_outcome, dashboard, self._num_retries, WorkerProcess, self.has_capacity)

    def has_capacity(self, job: Job, running: Sequence[RunningJob]) -> bool:
        """Return whether the threads of `job` are free beside the running jobs."""
        used = sum(self._threads(each.job) for each in running)
        return not running or used + self._threads(job) <= self._num_threads

    def _threads(self, job: Job) -> int:
        return job.config.run.threads or self._num_threads  # 0 means all cores
