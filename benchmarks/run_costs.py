"""What one Atari run takes on one thread: transitions for each second of processor time, and memory.

Each weight has a process of its own, with the paper's memory of 500,000 states, full, as it is for 99% of a run. What
`eva sweep --plan` counts on comes from here.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from benchmarks.atari_memory import pong
from eva.presets import preset
from eva.runs.checkpoint.state import pack
from eva.runs.checkpoint.store import Checkpoint, CheckpointStore
from eva.runs.loop import interact
from eva.runs.sweep.resources import need

WARM_UP_STEPS, TIMED_STEPS = 100, 1_000


def main() -> None:
    if len(sys.argv) > 1:
        print(json.dumps(measure(float(sys.argv[1]))))
        return
    print(f"{'Pong, 500,000 states':22} {'transitions/s':>14} {'peak GB':>8}")
    for weight in (0.0, 0.4):
        command = [sys.executable, "-m", "benchmarks.run_costs", str(weight)]
        told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        print(f"{f'weight {weight:g}':22} {told['speed']:14.0f} {told['peak_gb']:8.2f}")
    print(f"asked for: {need(preset('atari')).memory_bytes / 1e9:.2f} GB")


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
        arrays, plain = pack(agent.get_state())
        CheckpointStore(Path(folder), keep=1).save(Checkpoint(agent.transitions, {}, plain, arrays))
    return {"speed": speed, "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9}


if __name__ == "__main__":
    main()
