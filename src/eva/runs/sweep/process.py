"""A process that carries out one job: what every executor starts, on whatever machine."""

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
    """A process that carries out a job with `eva.runs.sweep.worker`, and says in the job's log what there is to say.

    Args:
        job: What is carried out.
        place: The working directory, where a user's own modules are found; by default this process's.
        sees_gpus: Whether it may use the GPUs that this process sees.
    """

    def __init__(self, job: Job, place: Path | None = None, *, sees_gpus: bool = True) -> None:
        self.job = job
        self._asked_to_stop = False
        with refusing_kindly(job.log):
            job.log.parent.mkdir(parents=True, exist_ok=True)
            output = job.log.open("ab")
        with output:
            self._log_begin = output.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "eva.runs.sweep.worker"],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=place,
                env=os.environ
                | {"OMP_NUM_THREADS": "1", "TTY_COMPATIBLE": "0"}
                | ({} if sees_gpus else {"CUDA_VISIBLE_DEVICES": ""}),
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
    def has_ended(self) -> bool:
        """Whether there is an exit code."""
        return self._process.poll() is not None

    def stop(self) -> None:
        """Ask it once to checkpoint and end; a second signal would end it at once."""
        if not self._asked_to_stop and not self.has_ended:
            self._asked_to_stop = True
            self._process.send_signal(signal.SIGTERM)

    def outcome(self) -> Outcome:
        """Return what became of the job, when the process has ended."""
        code = self._process.wait()
        with suppress(BrokenPipeError):  # it never read its job
            self._lifeline.close()
        if code == 0:
            return Outcome(self.job, "finished")
        if self._asked_to_stop and code in (-signal.SIGTERM, 128 + signal.SIGTERM):
            return Outcome(self.job, "stopped")
        return Outcome(self.job, "failed", self._last_line(code))

    def _last_line(self, code: int) -> str:
        """Return what the worker said last, or which signal ended it before it could."""
        if code < 0:
            names = {each.value: each.name for each in signal.Signals}
            return f"ended by {names.get(-code, f'signal {-code}')}"
        try:
            lines = self.job.log.read_bytes()[self._log_begin :].decode(errors="replace").split("\n")
        except OSError:  # somebody took it away
            lines = []
        return next((line.removeprefix("eva: ") for line in reversed(lines) if line), f"ended with exit code {code}")


def carry_out_here(job: Job, place: Path, sees_gpus: bool) -> Outcome:
    """Carry out a job in a process of this machine; KeyboardInterrupt stops it in order. For the main thread.

    Args:
        job: What is carried out.
        place: The working directory, where this machine has it.
        sees_gpus: Whether it may use the GPUs that this process sees.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what a script starts in the background ignores it
    process = WorkerProcess(job, place if place.is_dir() else None, sees_gpus=sees_gpus)
    try:
        while not process.has_ended:
            time.sleep(POLL_SECONDS)
    finally:
        process.stop()
        outcome = process.outcome()
    return outcome
