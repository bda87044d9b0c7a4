"""Time the parts of a step as the memory grows."""

import itertools
import json
import time
from collections.abc import Callable, Iterator
from importlib import resources
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eva.agent.memory.neighbours import NeighbourIndex
from eva.experiments.beyond.scaling import BRUTE, FIT, PROJECTED, SEARCH, SIZES, UPDATE
from eva.experiments.timing.random_play import random_play
from eva.presets import preset
from eva.runs.loop import Training
from eva.schema import changed
from eva.types import Floats, Ints

ROUNDS = 15  # each of one planning period with each search
QUICK_SIZES, QUICK_ROUNDS = (1_000, 2_000), 2
PLAY = 10_000  # transitions of random play, repeated to fill the memory
PARTS = (SEARCH, UPDATE, "rest", FIT)
"""Parts of a step. FIT is the time of one fit, spread over the steps from one fit to the next."""


def measure(is_quick: bool) -> dict[str, Any]:
    """Return microseconds of a step by search, part, size and round, and the share of fallbacks.

    All sizes and both searches are measured in turn.
    """
    sizes, rounds = (QUICK_SIZES, QUICK_ROUNDS) if is_quick else (SIZES, ROUNDS)
    benches = {size: Bench(size) for size in sorted(sizes, reverse=True)}  # the largest needs most memory while built
    costs: dict[str, dict[str, list[list[float]]]] = {
        search: {part: [[] for _ in sizes] for part in PARTS} for search in (BRUTE, PROJECTED)
    }
    for number, (place, size), search in itertools.product(range(rounds + 1), enumerate(sizes), costs):
        taken = benches[size].measure(search)
        if number > 0:  # the first warms up
            for part, time_taken in taken.items():
                costs[search][part][place].append(round(time_taken, 2))
    return {"sizes": sizes, "microseconds": costs, "fallbacks": [benches[size].fallback_share for size in sizes]}


class Bench:
    """The maze's agent over a full memory of synthetic embeddings, which one index searches in both ways.

    Queries are synthetic too. For brute force, the index with a projection runs the search of its base class over the
    same keys.
    """

    def __init__(self, size: int) -> None:
        fields = {"replay.replay_capacity": size, "replay.search": "projected", "run.device": "cpu"}
        config = changed(preset("maze-2-coins"), fields)
        self._period = config.eva.plan_period_steps
        self._training = Training(config)
        self._search, self._seconds = PROJECTED, dict.fromkeys((SEARCH, UPDATE), 0.0)
        agent = self._training.agent
        play = random_play(self._training.environment, min(PLAY, size))
        slots = np.arange(size) % len(play["actions"])
        memory = {name: play[name][slots] for name in ("observations", "actions", "rewards", "discounts", "kinds")}
        memory |= {"lane_counts": np.array([size]), "born": np.arange(size)}
        memory["embeddings"] = synthetic_embeddings(size, config.network.embedding_size, seed=0)
        agent.replay.load_state_dict(memory)
        del memory  # as large as the replay buffer
        agent.transitions = size
        self._index = agent.replay.index
        self._queries = _queries(config.network.embedding_size)
        start = time.process_time()
        self._index.search(next(self._queries), 1)
        self._fit = time.process_time() - start
        NeighbourIndex.search(self._index, next(self._queries), 1)  # computes all norms, once
        agent.replay.search = self._timed(SEARCH, self._nearest)  # type: ignore[method-assign]
        agent.learner.update = self._timed(UPDATE, agent.learner.update)  # type: ignore[method-assign]
        self._steps = self._training.steps()

    @property
    def fallback_share(self) -> float:
        """Share of the projected searches that fell back to brute force."""
        metrics = self._index.metrics()
        return metrics["search_fallbacks"] / metrics["searches"]

    def measure(self, search: str) -> dict[str, float]:
        """Return the microseconds of a step's parts, over one planning period with one of the searches."""
        self._search, self._seconds = search, dict.fromkeys(self._seconds, 0.0)
        start = time.process_time()
        for _ in range(self._period):
            next(self._steps)
        whole = time.process_time() - start
        seconds = {**self._seconds, "rest": whole - sum(self._seconds.values())}
        fit = self._fit / (len(self._index.keys) / 4) if search == PROJECTED else 0.0
        return {**{part: each / self._period * 1e6 for part, each in seconds.items()}, FIT: fit * 1e6}

    def _timed(self, part: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a call so that its CPU time counts for a part."""

        def timed(*arguments: Any) -> Any:
            start = time.process_time()
            outcome = call(*arguments)
            self._seconds[part] += time.process_time() - start
            return outcome

        return timed

    def _nearest(self, _: Tensor, k: int) -> tuple[Ints, Floats]:
        query = next(self._queries)
        return NeighbourIndex.search(self._index, query, k) if self._search == BRUTE else self._index.search(query, k)


def synthetic_embeddings(num: int, size: int, seed: int) -> Tensor:
    """Return embeddings, (num, size), normally distributed in random directions with the spectrum of real ones."""
    generator = torch.Generator().manual_seed(seed)
    directions, _ = torch.linalg.qr(torch.randn(size, size, generator=torch.Generator().manual_seed(0)))
    deviations = torch.tensor(spectrum()["variances"]).sqrt()
    embeddings = torch.empty(num, size)
    for part in embeddings.split(100_000):
        torch.mm(torch.randn(part.shape, generator=generator) * deviations, directions, out=part)
    return embeddings


def spectrum() -> dict[str, Any]:
    """Return the spectrum of a real memory's embeddings, with its source."""
    content: dict[str, Any] = json.loads((resources.files("eva") / "data" / "maze_spectrum.json").read_text())
    return content


def _queries(size: int) -> Iterator[Tensor]:
    """Yield embeddings, (1, size), that are not in the memory."""
    for seed in itertools.count(1):
        yield from synthetic_embeddings(1_000, size, seed).split(1)
