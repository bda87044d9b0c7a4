"""Carry out one job in this process.

As a program it reads the job from the first line of its standard input, and stops, in order, when that input ends:
nothing goes on once the process that asked for it is gone.
"""

from __future__ import annotations

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

_PATIENCE_SECONDS = 180.0  # with whoever was at it before: a file server keeps a lost machine's locks for about 90
_SECONDS_BETWEEN_TRIES = 1.0


def work(job: Job) -> None:
    """Train and play what is not yet trained and played; does nothing where the job is done."""
    for play in job.plays:
        played = job.directory / play.file
        try:
            if not played.exists():
                _train(job, play.steps)
                _play(job, play)
        except UserError:
            if not played.exists():  # or another process has done it meanwhile, and gone on
                raise
    _train(job, job.config.steps)


def _train(job: Job, steps: int) -> None:
    config = replace(job.config, steps=steps)
    give_up = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            importlib.import_module(job.trainer).train(config, job.directory)
            break
        except BusyError as error:
            if time.monotonic() > give_up:
                raise
            print(f"waiting: {error}", file=sys.stderr)
            time.sleep(_SECONDS_BETWEEN_TRIES)
    finished = read_status(job.directory).step  # `train` has returned: the run is finished
    if finished - steps >= config.environment.num_environments:
        raise UserError(
            f"{job.directory} has been trained for {finished:,} transitions, beyond the {steps:,} asked for: "
            "move it away or choose another place for the runs."
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
    """Carry out the job on standard input; returns the exit code. The last line printed says what went wrong."""
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
    while os.read(0, 1024):  # not through sys.stdin, whose lock this thread would hold when the process ends
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    raise SystemExit(main())
