"""Many runs at a time: the loop that every executor shares, and the executor of this machine's processes.

Ray's is `eva.runs.sweep.ray_executor`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol, TextIO, TypeVar

from eva.errors import UserError
from eva.runs.stopping import StoppedError, StopRequest
from eva.runs.sweep.dashboard import Board
from eva.runs.sweep.jobs import Job, Outcome
from eva.runs.sweep.process import POLL_SECONDS, WorkerProcess


class Task(Protocol):
    """A job on its way."""

    @property
    def job(self) -> Job:
        """What is carried out."""

    def stop(self) -> None:
        """Ask it to checkpoint and end; asking again makes no difference."""

    def outcome(self) -> Outcome:
        """Return what became of the job, when it has ended."""


TaskT = TypeVar("TaskT", bound=Task)


class Crew(Protocol[TaskT]):
    """Those who carry out jobs."""

    def has_room(self, job: Job, running: Sequence[TaskT]) -> bool:
        """Whether the job can be started beside those that run."""

    def start(self, job: Job) -> TaskT:
        """Start a job."""

    def ended(self, running: Sequence[TaskT]) -> list[TaskT]:
        """Wait for a moment; returns which have ended."""


def carry_out(
    jobs: Sequence[Job], crew: Crew[TaskT], board: Board, num_retries: int, on_outcome: Callable[[Outcome], None]
) -> list[Outcome]:
    """Carry out all jobs: see `eva.runs.sweep.jobs.Executor`. One that fails is tried again so many times."""
    waiting, running, outcomes = list(jobs), list[TaskT](), list[Outcome]()
    num_failures: Counter[Job] = Counter()

    def settle(outcome: Outcome) -> None:
        job = outcome.job
        if outcome.state == "failed":
            num_failures[job] += 1
            if num_failures[job] <= num_retries and stop.received is None:
                waiting.append(job)
                board.say(f"{outcome.sentence}; retry {num_failures[job]} of {num_retries}")
                return
            board.fail(job)
        outcomes.append(outcome)
        on_outcome(outcome)
        board.say(f"{outcome.sentence} ({len(outcomes)} of {len(jobs)})")

    with StopRequest() as stop, board:
        try:
            while running or (waiting and stop.received is None):
                while waiting and stop.received is None and crew.has_room(waiting[0], running):
                    job = waiting.pop(0)
                    try:
                        running.append(crew.start(job))
                    except UserError as error:
                        settle(Outcome(job, "failed", str(error)))
                if stop.received is not None:
                    _stop(running)
                for task in crew.ended(running):
                    running.remove(task)
                    settle(task.outcome())
                board.show()
        finally:  # also when `on_outcome` fails: leave nothing running
            _stop(running)
            for task in running:
                task.outcome()
    if stop.received is not None:
        raise StoppedError(stop.received)
    return outcomes


class LocalExecutor:
    """Carries out jobs in processes of this machine.

    Args:
        num_threads: At a time, over all runs; one that asks for more has the machine to itself.
        title: What the display calls the whole.
        stream: Where progress goes; by default standard error.
        num_retries: How often a job that fails is tried again.
    """

    def __init__(
        self, num_threads: int, title: str = "runs", stream: TextIO | None = None, *, num_retries: int = 0
    ) -> None:
        self._num_threads = num_threads
        self._title = title
        self._stream = stream
        self._num_retries = num_retries

    def execute(self, jobs: Sequence[Job], on_outcome: Callable[[Outcome], None]) -> list[Outcome]:
        """Carry out all jobs; `on_outcome` is called as soon as each one ends. A failed job stops no other.

        Raises:
            StoppedError: After all processes have stopped, if this one was asked to stop.
        """
        board = Board(self._title, jobs, self._stream)
        return carry_out(jobs, _Processes(self._num_threads), board, self._num_retries, on_outcome)


class _Processes:
    """Processes of this machine, as long as their threads find room."""

    def __init__(self, num_threads: int) -> None:
        self._num_threads = num_threads

    def has_room(self, job: Job, running: Sequence[WorkerProcess]) -> bool:
        taken = sum(self._threads(process.job) for process in running)
        return not running or taken + self._threads(job) <= self._num_threads

    def start(self, job: Job) -> WorkerProcess:
        return WorkerProcess(job)

    def ended(self, running: Sequence[WorkerProcess]) -> list[WorkerProcess]:
        time.sleep(POLL_SECONDS)
        return [process for process in running if process.has_ended]

    def _threads(self, job: Job) -> int:
        return job.config.run.threads or self._num_threads  # 0 is all cores


def _stop(tasks: Sequence[Task]) -> None:
    for task in tasks:
        task.stop()
