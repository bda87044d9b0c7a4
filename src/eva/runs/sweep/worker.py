"""Run one job in this process.

`python -m eva.runs.sweep.worker` reads the job from the first line of standard input. It writes a checkpoint and stops
when standard input closes, so no worker outlives the process that started it.
"""

import importlib
import json
import os
import signal
import sys
import threading
import time
import traceback
from dataclasses import replace

from eva.errors import BusyError, UserError, first_line
from eva.files import write_whole
from eva.runs.record.status import read_status
from eva.runs.stopping import StoppedError
from eva.runs.sweep.jobs import Job, Play

_MAX_WAIT_SECONDS = 180.0  # for the lock: a file server keeps the locks of a lost machine for about 90 s
_SECONDS_BETWEEN_TRIES = 1.0


def work(job: Job) -> None:
    """Train the run and play its evaluation episodes, and skip what is already done."""
    for play in job.plays:
        result = job.directory / play.file
        try:
            if not result.exists():
                _train(job, play.steps)
                _play(job, play)
        except UserError:
            if not result.exists():  # otherwise another process has played it in the meantime
                raise
    _train(job, job.config.steps)


def _train(job: Job, steps: int) -> None:
    config = replace(job.config, steps=steps)
    deadline = time.monotonic() + _MAX_WAIT_SECONDS
    while True:
        try:
            importlib.import_module(job.trainer).train(config, job.directory)
            break
        except BusyError as error:
            if time.monotonic() > deadline:
                raise
            print(f"waiting: {error}", file=sys.stderr)
            time.sleep(_SECONDS_BETWEEN_TRIES)
    finished = read_status(job.directory).step
    if finished - steps >= config.environment.num_environments:
        raise UserError(
            f"{job.directory} was trained for {finished:,} transitions, more than the requested {steps:,}: "
            "move it away or choose another folder for the runs."
        )


def _play(job: Job, play: Play) -> None:
    from eva.runs.evaluate import evaluate

    played = [
        {
            "weight": each.nonparametric_weight,
            "returns": [round(value, 6) for value in each.episode_returns.tolist()],
            "lengths": each.episode_lengths.tolist(),
            "changed_share": each.changed_share,
        }
        for each in evaluate(job.directory, play.weights, play.num_episodes, seed=play.seed, epsilon=play.epsilon)
    ]
    content = {"step": play.steps, "seed": play.seed, "epsilon": play.epsilon, "played": played}
    write_whole(job.directory / play.file, (json.dumps(content) + "\n").encode())


def main() -> int:
    """Run the job from standard input and return the exit code. On an error, the last line printed describes it."""
    job = Job.from_json(sys.stdin.readline())
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    sys.argv = list(job.command) or sys.argv
    try:
        work(job)
    except UserError as error:
        print(f"eva: {error}", file=sys.stderr)
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


if __name__ == "__main__":
    raise SystemExit(main())
