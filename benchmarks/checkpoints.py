"""Size, saving time and loading time of a checkpoint, for a full memory of the maze and for one like Atari's."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from benchmarks.command_line import parser
from benchmarks.full_memory import fill
from eva.presets import preset
from eva.runs.checkpoint.state import pack
from eva.runs.checkpoint.store import Checkpoint, CheckpointStore, load
from eva.runs.loop import Training

ROUNDS = 5
FRAMES = 100_000


def main(argv: Sequence[str] | None = None) -> None:
    parser(__doc__).parse_args(argv)
    torch.set_num_threads(1)
    print(f"{'median of ' + str(ROUNDS):34} {'in memory':>10} {'on disk':>10} {'save':>8} {'load':>8}")
    for name, make in (("maze, 50,000 states", maze), (f"frames of 84 x 84, {FRAMES:,}", frames)):
        _measure(name, make())


def maze() -> Checkpoint:
    """Return the checkpoint of a maze run whose memory is full of random play."""
    config = preset("maze-1-coin")
    training = Training(config)
    fill(training.agent, training.environment, config.replay.replay_capacity)
    for _, _ in zip(range(200), training.steps(), strict=False):
        pass
    training.agent.replay.embeddings.normal_()  # no two are equal, as in a run whose network learns
    arrays, plain = pack(training.state_dict())
    return Checkpoint(training.agent.transitions, config.identity, plain, arrays)


def frames() -> Checkpoint:
    """Return frames of sprites that move over a fixed, textured background, which change about as much as a game's."""
    rng = np.random.default_rng(0)
    background = np.kron(rng.integers(0, 256, (12, 12), np.uint8), np.ones((7, 7), np.uint8))
    images = np.broadcast_to(background, (FRAMES, 84, 84)).copy()
    for _ in range(8):
        sprite = rng.integers(0, 256, (8, 8), np.uint8)
        rows, columns = (np.cumsum(rng.integers(-2, 3, FRAMES)) % 76 for _ in range(2))
        for y in range(8):
            for x in range(8):
                images[np.arange(FRAMES), rows + y, columns + x] = sprite[y, x]
    return Checkpoint(FRAMES, {}, {}, {"replay/observations": images})


def _measure(name: str, checkpoint: Checkpoint) -> None:
    saves, loads = [], []
    with tempfile.TemporaryDirectory() as folder:
        store = CheckpointStore(Path(folder), keep=1)
        for _ in range(ROUNDS):
            start = time.perf_counter()
            path = store.save(checkpoint)
            saves.append(time.perf_counter() - start)
            start = time.perf_counter()
            load(path, checkpoint.identity)
            loads.append(time.perf_counter() - start)
        on_disk = sum(file.stat().st_size for file in path.iterdir())
    in_memory = sum(array.nbytes for array in checkpoint.arrays.values())
    seconds = f"{statistics.median(saves):6.2f} s {statistics.median(loads):6.2f} s"
    print(f"{name:34} {in_memory / 1e6:7.0f} MB {on_disk / 1e6:7.1f} MB {seconds}")


if __name__ == "__main__":
    main()
