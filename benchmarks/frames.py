"""Memory per state and time to store and read the frames of Atari games, raw and compressed.

The frames of random play are repeated until the memory is full. Each memory is filled in its own process and measured
as the growth of that process; it is filled twice to see whether it grows again. Times are CPU times.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from benchmarks.command_line import parser
from benchmarks.medians import microseconds
from eva.agent.memory.frames import CompressedFrames, RawFrames
from eva.agent.memory.observations import StackedObservations
from eva.agent.memory.replay import ReplayBuffer
from eva.envs.atari import AtariGame
from eva.games import GAME_SETS
from eva.types import Bools, Observations

GAMES = ("pong", "breakout", "qbert")
KINDS = {"raw": RawFrames, "compressed": CompressedFrames}
CAPACITY, NUM_LANES, EMBEDDING_SIZE, BATCH_SIZE = 500_000, 4, 256, 48
NUM_FRAMES = 20_000  # different ones
NUM_FRAMES_OF_ALL = 4_000  # per game, with the argument `games`
ROUNDS, REPEATS = 15, 20


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser(__doc__)
    arguments.add_argument(
        "games", nargs="?", choices=["games"], help="only print the bytes per compressed frame of the paper's 55 games"
    )
    options = arguments.parse_args(argv)
    torch.set_num_threads(1)
    if options.games:
        compare_games()
    else:
        compare_kinds()


def compare_games() -> None:
    sizes = {game: compressed_size(game) for game in GAME_SETS["paper-55"]}
    for game in sorted(sizes, key=sizes.__getitem__):
        print(f"{game:20} {sizes[game]:6.0f} bytes, {84 * 84 / sizes[game]:5.1f} times smaller than raw")


def compare_kinds() -> None:
    print(f"{CAPACITY:,} states           GB   twice  bytes/state  us to append {NUM_LANES}")
    for game in GAMES:
        for kind in KINDS:
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                once, twice, append = pool.apply(memory, (game, kind))
            figures = f"{once / 1e9:8.2f} {twice / 1e9:7.2f} {once / CAPACITY:12.0f} {append:16.0f}"
            print(f"{game:10} {kind:12} {figures}", flush=True)
    print(f"us to read {BATCH_SIZE} transitions     raw  compressed")
    for game in GAMES:
        times = reading(game)
        print(f"{game:24} {times['raw']:8.0f} {times['compressed']:11.0f}", flush=True)


def memory(game: str, kind: str) -> tuple[int, int, float]:
    """Return the bytes of a full memory, the bytes after overwriting every state, and the microseconds of an append."""
    torch.set_num_threads(1)
    frames, starts = play(game)
    before = resident_bytes()
    replay = empty(kind, CAPACITY)
    begin = time.process_time()
    fill(replay, frames, starts)
    seconds = time.process_time() - begin
    once = resident_bytes() - before
    fill(replay, frames, starts)
    return once, resident_bytes() - before, seconds / replay.lane_capacity * 1e6


def reading(game: str) -> dict[str, float]:
    """Return the microseconds that reading a batch takes from each kind of memory."""
    np.ones(1 << 24, np.uint8)  # from now on the C library keeps freed memory, as after an update
    frames, starts = play(game)
    generator = np.random.default_rng(0)
    replays = {kind: empty(kind, NUM_FRAMES) for kind in KINDS}
    for replay in replays.values():
        fill(replay, frames, starts)
    measures = {
        kind: lambda replay=replay: replay.batch(replay.sample(generator, BATCH_SIZE))
        for kind, replay in replays.items()
    }
    return microseconds(measures, ROUNDS, REPEATS, time.process_time)


def compressed_size(game: str) -> float:
    """Return the mean bytes of a compressed frame."""
    frames, _ = play(game, NUM_FRAMES_OF_ALL)
    kept = CompressedFrames(1, len(frames), frames.shape[1:], frames.dtype)
    for place, frame in enumerate(frames):
        kept.write(np.array([place]), frame[None])
    return float(kept.state_dict()["frames"].size / len(frames))


def play(game: str, num_frames: int = NUM_FRAMES) -> tuple[Observations, Bools]:
    """Play at random and return frames, (n, 84, 84), and whether each starts an episode."""
    emulator, generator = AtariGame(game, seed=0), np.random.default_rng(0)
    frames, starts = np.empty((num_frames, 84, 84), np.uint8), np.zeros(num_frames, np.bool_)
    is_over = True
    for i in range(num_frames):
        starts[i] = is_over
        if is_over:
            emulator.begin()
            is_over = False
        else:
            _, terminated, truncated = emulator.step(int(generator.integers(len(emulator.action_names))))
            is_over = terminated or truncated
        frames[i] = emulator.stack[-1]
    return frames, starts


def empty(kind: str, capacity: int) -> ReplayBuffer:
    """Return an empty memory for stacks of four frames."""
    shape, dtype = (4, 84, 84), np.dtype(np.uint8)
    store = StackedObservations(NUM_LANES, capacity // NUM_LANES, shape, dtype, KINDS[kind])
    return ReplayBuffer(capacity, NUM_LANES, store, EMBEDDING_SIZE, 0.99, torch.device("cpu"))


def fill(replay: ReplayBuffer, frames: Observations, starts: Bools) -> None:
    """Write every slot once; each lane starts at a different frame."""
    embeddings, nothing = torch.ones(NUM_LANES, EMBEDDING_SIZE), np.zeros(NUM_LANES)
    first = np.arange(NUM_LANES) * (NUM_FRAMES // NUM_LANES)
    for step in range(replay.lane_capacity):
        now = (first + step) % NUM_FRAMES
        stacks = np.repeat(frames[now][:, None], 4, axis=1)
        terminated = starts[(now + 1) % NUM_FRAMES]
        replay.append(stacks, nothing.astype(int), nothing, terminated, embeddings)


def resident_bytes() -> int:
    """Return the resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


if __name__ == "__main__":
    main()
