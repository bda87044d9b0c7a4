"""Run jobs in worker processes: the scheduling loop that all executors share, and the executor of this machine.

The executor for Ray clusters is in `eva.runs.sweep.ray_executor`.
"""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TextIO

from eva.errors import UserError
from eva.files import Folder, as_user_errors
from eva.runs.stopping import StoppedError, StopRequest
from eva.runs.sweep.dashboard import Dashboard
from eva.runs.sweep.jobs import Job, Outcome

_POLL_SECONDS = 0.1
# Without the working directory on the path: the user's files must not replace modules of the standard library.
_WORKER = (
    "import sys; sys.path[:] = filter(None, sys.path); from eva.runs.sweep.worker import main; raise SystemExit(main())"
)


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


class WorkerProcess:
    """A running job: a process of `eva.runs.sweep.worker`, whose output goes to the job's log.

    Users' own modules are imported from the working directory, `directory`. `sees_gpus` is whether the worker may use
    the GPUs that this process sees.
    """

    def __init__(self, job: Job, directory: Path | None = None, *, sees_gpus: bool = True) -> None:
        self.job = job
        self._stop_requested = False
        environment = {"OMP_NUM_THREADS": "1", "TTY_COMPATIBLE": "0"}
        if not sees_gpus:
            environment["CUDA_VISIBLE_DEVICES"] = ""
        with as_user_errors(job.log):
            job.log.parent.mkdir(parents=True, exist_ok=True)
            with Folder(job.log.parent) as folder:
                output = folder.open(job.log.name, "ab")
        with output:
            self._log_start = output.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-c", _WORKER],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=directory,
                env=os.environ | environment,
                start_new_session=True,  # Ctrl-C must not reach it: `stop` signals it, and two signals kill it
            )
        assert self._process.stdin is not None
        self._stdin = self._process.stdin  # stays open: the worker stops when it closes, also if this process dies
        with suppress(BrokenPipeError):  # the worker died already: `outcome` reports why
            self._stdin.write(f"{job.to_json()}\n".encode())
            self._stdin.flush()

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended."""
        return self._process.poll() is not None

    def stop(self) -> None:
        """Ask the worker to write a checkpoint and end. Signals only once: a second signal kills it."""
        if not self._stop_requested and not self.has_ended:
            self._stop_requested = True
            self._process.send_signal(signal.SIGTERM)

    def outcome(self) -> Outcome:
        """Wait until the process ends and return the outcome of the job."""
        code = self._process.wait()
        with suppress(BrokenPipeError):  # the worker ended before it read its job
            self._stdin.close()
        if code == 0:
            return Outcome(self.job, "finished")
        if self._stop_requested and code in (-signal.SIGTERM, 128 + signal.SIGTERM):
            return Outcome(self.job, "stopped")
        return Outcome(self.job, "failed", self._error(code))

    def _error(self, code: int) -> str:
        """Return the signal that killed the worker, or the last line that it printed."""
        if code < 0:
            names = {each.value: each.name for each in signal.Signals}
            return f"ended by {names.get(-code, f'signal {-code}')}"
        try:
            lines = self.job.log.read_bytes()[self._log_start :].decode(errors="replace").split("\n")
        except OSError:  # the log was deleted
            lines = []
        return next((line.removeprefix("eva: ") for line in reversed(lines) if line), f"ended with exit code {code}")


def run_in_process(job: Job, directory: Path, sees_gpus: bool) -> Outcome:
    """Run a job in a worker process; KeyboardInterrupt stops it with a checkpoint. Call from the main thread."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background processes of a shell script ignore SIGINT
    process = WorkerProcess(job, directory if directory.is_dir() else None, sees_gpus=sees_gpus)
    try:
        while not process.has_ended:
            time.sleep(_POLL_SECONDS)
    finally:
        process.stop()
        outcome = process.outcome()
    return outcome


def run_jobs(
    jobs: Sequence[Job],
    on_outcome: Callable[[Outcome], None],
    dashboard: Dashboard,
    num_retries: int,
    start: Callable[[Job], RunningJob],
    has_capacity: Callable[[Job, Sequence[RunningJob]], bool] = lambda _, __: True,
) -> list[Outcome]:
    """Run all jobs as `eva.runs.sweep.jobs.Executor.execute` specifies, and retry failed ones.

    `has_capacity` returns whether a job can start beside the running ones.
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
            dashboard.failed.add(job.directory)
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
                    for each in running:
                        each.stop()
                time.sleep(_POLL_SECONDS)
                for ended in [each for each in running if each.has_ended]:
                    running.remove(ended)
                    finish(ended.outcome())
                dashboard.refresh()
        finally:  # leave no job running, also when `on_outcome` raises
            for each in running:
                each.stop()
            for each in running:
                each.outcome()
    if stop.received is not None:
        raise StoppedError(stop.received)
    return outcomes


@dataclass(frozen=True)
class LocalExecutor:
    """Runs jobs in processes on this machine."""

    num_threads: int  # maximum over all running jobs; a job that needs more runs alone
    title: str = "runs"
    stream: TextIO | None = None  # for progress; standard error by default
    num_retries: int = 0

    def execute(self, jobs: Sequence[Job], on_outcome: Callable[[Outcome], None]) -> list[Outcome]:
        """Run all jobs: see `eva.runs.sweep.jobs.Executor`."""
        dashboard = Dashboard(self.title, jobs, self.stream)
        return run_jobs(jobs, on_outcome, dashboard, self.num_retries, WorkerProcess, self.has_capacity)

    def has_capacity(self, job: Job, running: Sequence[RunningJob]) -> bool:
        """Return whether the threads of `job` are free beside the running jobs."""
        used = sum(self._threads(each.job) for each in running)
        return not running or used + self._threads(job) <= self.num_threads

    def _threads(self, job: Job) -> int:
        return job.config.run.threads or self.num_threads  # 0 means all cores
