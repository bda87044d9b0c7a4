"""A worker process that runs one job: every executor starts these."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from eva.files import refusing_kindly
from eva.runs.sweep.jobs import Job, Outcome

POLL_SECONDS = 0.1


class WorkerProcess:
    """A process of `eva.runs.sweep.worker` that runs a job. Its output goes to the job's log.

    Args:
        job: The job.
        directory: The working directory, from which users' own modules are imported; by default this process's.
        sees_gpus: Whether it may use the GPUs that this process sees.
    """

    def __init__(self, job: Job, directory: Path | None = None, *, sees_gpus: bool = True) -> None:
        self.job = job
        self._stop_requested = False
        with refusing_kindly(job.log):
            job.log.parent.mkdir(parents=True, exist_ok=True)
            output = job.log.open("ab")
        with output:
            self._log_start = output.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "eva.runs.sweep.worker"],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=directory,
                env=os.environ
                | {"OMP_NUM_THREADS": "1", "TTY_COMPATIBLE": "0"}
                | ({} if sees_gpus else {"CUDA_VISIBLE_DEVICES": ""}),
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
    """Run a job in a worker process; KeyboardInterrupt stops it with a checkpoint. Call from the main thread.

    Args:
        job: The job.
        directory: The working directory, if this machine has it.
        sees_gpus: Whether the worker may use the GPUs that this process sees.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background processes of a shell script ignore SIGINT
    process = WorkerProcess(job, directory if directory.is_dir() else None, sees_gpus=sees_gpus)
    try:
        while not process.has_ended:
            time.sleep(POLL_SECONDS)
    finally:
        process.stop()
        outcome = process.outcome()
    return outcome
