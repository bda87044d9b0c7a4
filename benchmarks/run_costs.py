"""Transitions per CPU second and peak memory of one Atari run on one thread.

Each weight runs in its own process with a full memory of 500,000 states, as it is during 99% of a run of the paper. The
estimates of `eva sweep --plan` are based on these figures.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.atari_memory import pong
from benchmarks.command_line import parser
from eva.presets import preset
from eva.runs.checkpoint.state import pack
from eva.runs.checkpoint.store import Checkpoint, CheckpointStore
from eva.runs.loop import interact
from eva.runs.sweep.cost import required_resources

WARM_UP_STEPS, TIMED_STEPS = 100, 1_000


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser(__doc__)
    arguments.add_argument("weight", nargs="?", type=float, help="only measure this weight and print JSON")
    options = arguments.parse_args(argv)
    if options.weight is not None:
        print(json.dumps(measure(options.weight)))
        return
    print(f"{'Pong, 500,000 states':22} {'transitions/s':>14} {'peak GB':>8}")
    for weight in (0.0, 0.4):
        command = [sys.executable, "-m", "benchmarks.run_costs", str(weight)]
        measured = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        print(f"{f'weight {weight:g}':22} {measured['speed']:14.0f} {measured['peak_gb']:8.2f}")
    print(f"memory that a sweep reserves: {required_resources(preset('atari')).memory_bytes / 1e9:.2f} GB")


def measure(weight: float) -> dict[str, float]:
    """Train with a full memory, then write a checkpoint."""
    torch.set_num_threads(1)
    agent, environment = pong(weight, 500_000, "compressed")
    steps = interact(agent, environment)
    for _ in range(WARM_UP_STEPS):
        next(steps)
    before = time.process_time()
    for _ in range(TIMED_STEPS):
        next(steps)
    speed = TIMED_STEPS * environment.spec.num_environments / (time.process_time() - before)
    with tempfile.TemporaryDirectory() as folder:
        arrays, plain = pack(agent.state_dict())
        CheckpointStore(Path(folder), keep=1).save(Checkpoint(agent.transitions, {}, plain, arrays))
    return {"speed": speed, "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9}


if __name__ == "__main__":
    main()
