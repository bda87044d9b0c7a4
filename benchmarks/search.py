"""Brute-force search compared with the projected search of a large memory, on embeddings like those of an Atari game.

One measurement covers the time between two plans: 20 steps of 4 environments are stored, then 4 queries are searched.
The queries are states of the memory that are hidden from the search. Every result is compared with brute force. With
one thread it measures CPU time, which equals the time on an idle machine.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from benchmarks.command_line import parser
from benchmarks.medians import microseconds
from eva.agent.memory.neighbours import NeighbourIndex
from eva.agent.memory.projected import ProjectedIndex
from eva.agent.memory.replay import EMPTY
from eva.runs.loading import load_run
from eva.types import Ints

SIZES = (50_000, 100_000, 250_000, 500_000)
K, NUM_ENVIRONMENTS, STEPS = 10, 4, 20
ROUNDS, REPEATS = 9, 3
NUM_QUERIES = NUM_ENVIRONMENTS * 50
CPU = torch.device("cpu")
Index = TypeVar("Index", bound=NeighbourIndex)


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--threads", type=int, default=1, help="threads of torch (default: %(default)s)")
    arguments.add_argument(
        "--memory", type=Path, metavar="RUN", help="embeddings of a finished run, instead of synthetic ones"
    )
    options = arguments.parse_args(argv)
    torch.set_num_threads(options.threads)
    if options.memory is not None:
        replay = load_run(options.memory)[1].replay
        memories = [replay.embeddings[replay.kinds != EMPTY]]
    else:
        memories = [walks(size) for size in SIZES]
    print(
        f"{options.threads} thread(s); variance in 8, 16, 32, 64 directions:",
        *map("{:.2%}".format, spectrum(memories[-1])),
    )
    print("      N     D   brute ms   projected ms   ratio   candidates: median, 98%, most   fallbacks   fit ms")
    for keys in memories:
        compare(keys)


def walks(num: int, size: int = 256, num_latents: int = 64, episode: int = 2_000) -> Tensor:
    """Return synthetic embeddings, (num, size), in the order of time.

    Eight leading features follow a slow random walk in two dimensions, the others are independent noise; a ReLU layer
    with mostly dead units mixes them. The scales reproduce the spectrum of 410,000 states of Pong, and how many keys
    are nearer than the tenth neighbour in 16 and in 32 directions.
    """
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(num_latents, size, generator=generator)
    weights *= torch.arange(1, num_latents + 1)[:, None] ** -1.4
    biases = 2 * torch.randn(size, generator=generator)
    biases[torch.randperm(size, generator=generator)[96:]] = -100
    frequencies = torch.randn(2, 8, generator=generator)
    phases = 2 * torch.pi * torch.rand(8, generator=generator)
    position = torch.randn(-(-num // episode), 2, generator=generator)  # of each episode
    embeddings = torch.empty(len(position), episode, size)
    for t in range(episode):
        position = 0.99**0.5 * position + 0.1 * torch.randn(position.shape, generator=generator)
        slow = 2**0.5 * torch.cos(position @ frequencies + phases)
        fast = torch.randn(len(position), num_latents - 8, generator=generator)
        embeddings[:, t] = torch.cat([slow, fast], dim=1) @ weights + biases
    return embeddings.relu_().flatten(0, 1)[:num]


def spectrum(keys: Tensor) -> list[float]:
    """Return the share of the variance in the 8, 16, 32 and 64 leading directions."""
    sample = keys[:: max(1, len(keys) // 8192)].double()
    variances = torch.linalg.eigvalsh(sample.T.cov()).flip(0).cumsum(0)
    return [float(variances[min(num, len(variances)) - 1] / variances[-1]) for num in (8, 16, 32, 64)]


def compare(keys: Tensor) -> None:
    """Measure both searches on one memory and print a row."""
    generator = np.random.default_rng(0)
    hidden = generator.choice(len(keys), NUM_QUERIES, replace=False)
    queries = keys[hidden].split(NUM_ENVIRONMENTS)
    capacity, size = keys.shape
    brute = filled(NeighbourIndex(capacity, size, CPU), keys, hidden)
    projected = filled(ProjectedIndex(capacity, size, CPU), keys, hidden)
    start = time.perf_counter()
    projected.search(queries[0], K)
    fit = time.perf_counter() - start
    kept = np.setdiff1d(np.arange(len(keys)), hidden)
    median = microseconds(
        {"brute": period(brute, keys, kept, queries), "projected": period(projected, keys, kept, queries)},
        ROUNDS,
        REPEATS,
        time.process_time if torch.get_num_threads() == 1 else time.perf_counter,
    )
    num_searches, num_fallbacks = projected.num_searches, projected.num_fallbacks
    candidates: list[int] = []
    for each in queries:
        for found, expected in zip(projected.search(each, K), brute.search(each, K), strict=True):
            np.testing.assert_array_equal(found, expected)
        before = projected.num_fallbacks
        rows, _ = projected._candidates(each, each.double().numpy(), K)
        if projected.num_fallbacks == before:  # otherwise they come from brute force
            candidates += np.bincount(rows).tolist()
    half, most = np.quantile(candidates, [0.5, 0.98])
    print(
        f"{len(keys):7,} {keys.shape[1]:5} {median['brute'] / 1e3:10.2f} {median['projected'] / 1e3:14.2f}"
        f" {median['brute'] / median['projected']:7.1f} {half:20.0f} {most:5.0f} {max(candidates):6}"
        f" {num_fallbacks:6} of {num_searches} {fit * 1e3:7.0f}"
    )


def filled(index: Index, keys: Tensor, hidden: Ints) -> Index:
    """Write the keys into the index, with those at `hidden` excluded from the search."""
    admitted = np.ones(len(keys), np.bool_)
    admitted[hidden] = False
    index.load_state_dict({"keys": keys, "born": np.arange(len(keys))})
    index.admit(admitted.nonzero()[0])
    return index


def period(index: NeighbourIndex, keys: Tensor, kept: Ints, queries: tuple[Tensor, ...]) -> Callable[[], object]:
    """Return the work between two plans: write some keys (unchanged ones), then search."""
    generator = np.random.default_rng(0)
    next_queries = itertools.cycle(queries)

    def once() -> None:
        for _ in range(STEPS):
            places = kept[generator.integers(len(kept), size=NUM_ENVIRONMENTS)]
            index.write(places, keys[torch.from_numpy(places)])
            index.admit(places)
        index.search(next(next_queries), K)

    return once


if __name__ == "__main__":
    main()
