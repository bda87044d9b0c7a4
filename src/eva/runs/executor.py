"""Many runs on this machine: a process for each, with one thread, so many at a time.

Another executor can stand beside this one: see `eva.runs.jobs.Executor`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

from eva.files import refusing_kindly
from eva.runs.display import Display
from eva.runs.jobs import Job, Outcome, read_status
from eva.runs.stopping import StoppedError, StopRequest

_POLL_SECONDS = 0.1
_SECONDS_BETWEEN_LINES = 60.0


class LocalExecutor:
    """Carries out jobs in processes of this machine.

    A job's output goes to a file beside its run directory, with the suffix `.log`.

    Args:
        num_processes: At a time.
        title: What the display calls the whole.
        stream: Where progress goes; by default standard error.
    """

    def __init__(self, num_processes: int, title: str = "runs", stream: TextIO | None = None) -> None:
        self._num_processes = num_processes
        self._title = title
        self._stream = stream

    def execute(self, jobs: Sequence[Job], on_outcome: Callable[[Outcome], None]) -> list[Outcome]:
        """Carry out all jobs; `on_outcome` is called as soon as each one ends. A failed job stops no other.

        Raises:
            StoppedError: After all processes have stopped, if this one was asked to stop.
        """
        waiting, running, outcomes = list(jobs), list[_Process](), list[Outcome]()
        steps = sum(job.config.steps for job in jobs)
        display = Display(self._title, steps, self._stream or sys.stderr, seconds_between_lines=_SECONDS_BETWEEN_LINES)
        with StopRequest() as stop, display:
            progress = _Progress(jobs, display)
            try:
                while running or (waiting and stop.received is None):
                    while waiting and len(running) < self._num_processes and stop.received is None:
                        running.append(_Process(waiting.pop(0)))
                    if stop.received is not None:
                        _stop(running)
                    for process in [process for process in running if process.ended]:
                        running.remove(process)
                        outcome = process.outcome(stopping=stop.received is not None)
                        outcomes.append(outcome)
                        on_outcome(outcome)
                        display.say(f"{_sentence(outcome)} ({len(outcomes)} of {len(jobs)})")
                    progress.show()
                    time.sleep(_POLL_SECONDS)
            finally:  # also when `on_outcome` fails: leave nothing running
                _stop(running)
                for process in running:
                    process.wait()
        if stop.received is not None:
            raise StoppedError(stop.received)
        return outcomes


class _Process:
    """A process that carries out a job."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._asked_to_stop = False
        self._log = job.directory.with_name(f"{job.directory.name}.log")
        with refusing_kindly(self._log):
            self._log.parent.mkdir(parents=True, exist_ok=True)
            output = self._log.open("wb")
        with output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "eva.runs.worker"],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=os.environ | {"OMP_NUM_THREADS": "1", "TTY_COMPATIBLE": "0"},
                start_new_session=True,  # Ctrl-C is for us: a process that gets two signals ends at once
            )
        assert self._process.stdin is not None
        self._lifeline = self._process.stdin  # it ends when this process does, and the worker with it
        try:
            self._lifeline.write(f"{job.to_json()}\n".encode())
            self._lifeline.flush()
        except BrokenPipeError:  # dead already: its exit code and log say why
            pass

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def stop(self) -> None:
        """Ask it once to checkpoint and end; a second signal would end it at once."""
        if not self._asked_to_stop and not self.ended:
            self._asked_to_stop = True
            self._process.send_signal(signal.SIGTERM)

    def wait(self) -> int:
        """Return the exit code, when there is one."""
        code = self._process.wait()
        self._lifeline.close()
        return code

    def outcome(self, stopping: bool) -> Outcome:
        code = self.wait()
        if code == 0:
            return Outcome(self.job, "finished")
        if stopping and code in (-signal.SIGTERM, 128 + signal.SIGTERM):
            return Outcome(self.job, "stopped")
        return Outcome(self.job, "failed", f"{_last_line(self._log, code)} (see {self._log})")


class _Progress:
    """Transitions over all jobs."""

    def __init__(self, jobs: Sequence[Job], display: Display) -> None:
        self._jobs = jobs
        self._display = display
        self._begun = self._next = time.monotonic()
        self._before = self._shown = self._transitions()

    def show(self) -> None:
        """Look at the run directories, once a second."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + 1
        transitions = self._transitions()
        if transitions > self._shown:
            self._shown = transitions
            self._display.show({"step": transitions}, (transitions - self._before) / (now - self._begun))

    def _transitions(self) -> int:
        return sum(min(job.config.steps, read_status(job.directory).step) for job in self._jobs)


def _stop(processes: Sequence[_Process]) -> None:
    for process in processes:
        process.stop()


def _sentence(outcome: Outcome) -> str:
    told = f"{outcome.job.directory} {'has failed' if outcome.state == 'failed' else f'is {outcome.state}'}"
    return told if outcome.error is None else f"{told}: {outcome.error}"


def _last_line(log: Path, code: int) -> str:
    """Return what a worker said last, or which signal ended it before it could."""
    if code < 0:
        return f"ended by {signal.Signals(-code).name}"
    lines = log.read_text(errors="replace").split("\n")
    return next((line.removeprefix("eva: ") for line in reversed(lines) if line), f"ended with exit code {code}")
