"""Run one job in this process.

`main` reads the job from the first line of standard input. It writes a checkpoint and stops when standard input closes,
so no worker outlives the process that started it.
"""

import importlib
import os
import signal
import sys
import threading
import time
import traceback

from eva.errors import BusyError, UserError, first_line, printable
from eva.runs.record.status import read_status
from eva.runs.stopping import StoppedError
from eva.runs.sweep.jobs import Job

_MAX_WAIT_SECONDS = 180.0  # for the lock: a file server keeps the locks of a lost machine for about 90 s
_SECONDS_BETWEEN_TRIES = 1.0


def work(job: Job) -> None:
    """Train the run, or what is left of it; raises UserError if the directory holds a longer or unevaluated run."""
    deadline = time.monotonic() + _MAX_WAIT_SECONDS
    while True:
        try:
            importlib.import_module(job.trainer).train(job.config, job.directory)
            break
        except BusyError as error:
            if time.monotonic() > deadline:
                raise
            print(f"waiting: {error}", file=sys.stderr)
            time.sleep(_SECONDS_BETWEEN_TRIES)
    finished, steps = read_status(job.directory).step, job.config.steps
    remedy = "move it away or choose another folder for the runs."
    if finished - steps >= job.config.environment.num_environments:
        raise UserError(
            f"{job.directory} was trained for {finished:,} transitions, more than the requested {steps:,}: {remedy}"
        )
    if not job.is_evaluated_in(job.directory):
        raise UserError(f"{job.directory} was trained without the requested evaluations: {remedy}")


def main() -> int:
    """Run the job from standard input and return the exit code. On an error, the last line printed describes it."""
    job = Job.from_json(sys.stdin.readline())
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    sys.argv = list(job.command) or sys.argv
    try:
        work(job)
    except UserError as error:
        print(f"eva: {printable(str(error))}", file=sys.stderr)
        return 2
    except StoppedError as stopped:
        print(f"eva: {stopped}", file=sys.stderr)
        return stopped.exit_code
    except Exception as error:
        traceback.print_exc()
        print(f"eva: {type(error).__name__}: {first_line(error)}", file=sys.stderr)
        return 1
    return 0


def _stop_with_parent() -> None:
    while os.read(0, 1024):  # not sys.stdin: this thread would hold its lock when the process exits
        pass
    os.kill(os.getpid(), signal.SIGTERM)
