"""Timing the parts of a step."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from eva.experiments.beyond.scaling import BRUTE, FIT, PROJECTED
from eva.experiments.timing.random_play import random_play
from eva.experiments.timing.scaling_costs import PARTS, Bench, measure, spectrum, synthetic_embeddings
from eva.types import EnvironmentSpec, Ints, StepOutcome


def test_synthetic_embeddings_have_the_spectrum_of_real_ones() -> None:
    variances = torch.tensor(spectrum()["variances"], dtype=torch.float64)
    embeddings = synthetic_embeddings(20_000, 64, seed=3).double()
    found = torch.linalg.eigvalsh(embeddings.T @ embeddings / len(embeddings)).flip(0)
    torch.testing.assert_close(found[:16], variances[:16], rtol=0.1, atol=0.0)
    assert not torch.equal(synthetic_embeddings(10, 64, seed=1), synthetic_embeddings(10, 64, seed=2))


def test_a_step_is_measured_part_by_part_with_either_search() -> None:
    bench = Bench(1_000)  # what the learner waits for
    for search in (BRUTE, PROJECTED):
        taken = bench.measure(search)
        assert set(taken) == set(PARTS)
        assert all(each > 0 for part, each in taken.items() if part != FIT)
        assert (taken[FIT] > 0) == (search == PROJECTED)
    query = synthetic_embeddings(1, 64, seed=5)
    found = []
    for search in (BRUTE, PROJECTED):
        bench._search, bench._queries = search, iter([query])
        found.append(bench._nearest(query, 10))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])


def test_quick_scaling_measures_every_size_in_every_round() -> None:
    content = measure(is_quick=True)
    for parts in content["microseconds"].values():
        assert set(parts) == set(PARTS)
        assert all(np.shape(rounds) == (2, 2) for rounds in parts.values())
    assert len(content["fallbacks"]) == 2


class Counting:
    """Environments whose observations tell time and environment."""

    spec = EnvironmentSpec(2, 3, (1,), np.dtype(np.float32))

    def __init__(self) -> None:
        self.time = 0

    def reset(self) -> np.ndarray[Any, Any]:
        return np.array([[0.0], [1.0]], np.float32)

    def step(self, actions: Ints) -> StepOutcome:
        self.time += 10
        seen = self.reset() + self.time
        ends = np.array([False, self.time == 20])
        return StepOutcome(seen, seen[:, 0], ends, np.zeros(2, np.bool_), seen)


def test_random_play_is_stored_lane_by_lane() -> None:
    state = random_play(Counting(), 7)  # type: ignore[arg-type]
    assert state["observations"][:, 0].tolist() == [0.0, 10.0, 20.0, 1.0, 11.0, 21.0]
    assert state["rewards"].tolist() == [10.0, 20.0, 30.0, 11.0, 21.0, 31.0]
    assert state["discounts"].tolist() == [0.99, 0.99, 0.99, 0.99, 0.0, 0.99]
    assert state["born"].tolist() == [0, 2, 4, 1, 3, 5]
    assert state["lane_counts"].tolist() == [3, 3]
