"""The projected search equals brute force, and counts its fallbacks."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from eva.agent.agent import EVAAgent
from eva.agent.memory.neighbours import NeighbourIndex
from eva.agent.memory.projected import ProjectedIndex
from eva.build import build_environment
from eva.types import Bools, State
from eva.wiring.memory import build_replay
from tests.helpers.agents import ran, same_learning, tiny, watch
from tests.helpers.keys import KeysCase
from tests.helpers.strategies import CPU, generators

SIZE = 8
NOW, NEVER = 0, 10**9


def points(generator: np.random.Generator, num: int, rank: int, kind: str) -> np.ndarray:
    """Draw points of few dimensions, or the worst ones for a projection; all numbers are multiples of 1/2."""
    if kind == "zeros":
        return np.zeros((num, SIZE))
    if kind == "off the directions":  # equal in all that varies elsewhere
        return np.concatenate([np.ones((num, rank)), generator.integers(-4, 5, (num, SIZE - rank)) / 2], axis=1)
    if kind == "far away":
        return 1000.0 + generator.integers(-4, 5, (num, SIZE)) / 2
    return np.concatenate([generator.integers(-8, 9, (num, rank)), np.zeros((num, SIZE - rank))], axis=1)


KINDS = ["few dimensions", "few dimensions", "few dimensions", "zeros", "off the directions", "far away"]


class Ring(KeysCase):
    """A projected index that is overwritten like a ring, with all numbers scaled."""

    def __init__(self, index: ProjectedIndex, scale: float) -> None:
        super().__init__(index)
        self.scale = scale

    def scaled(self, points: np.ndarray) -> Tensor:
        return torch.tensor(self.scale * points, dtype=torch.float32)

    def append(self, points: np.ndarray, admitted: np.ndarray) -> None:
        """Write keys to the next places; some of them can be found."""
        places = np.arange(self.num_written, self.num_written + len(points)) % len(self.index.keys)
        self.write(places, self.scaled(points))
        self.admit(places[admitted])


@settings(max_examples=200)
@given(st.data(), generators)
def test_a_ring_is_overwritten_and_its_keys_replaced_while_directions_are_fitted(
    data: st.DataObject, generator: np.random.Generator
) -> None:
    rank, num_directions = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 2))
    scale = 2.0 ** data.draw(st.sampled_from([0, 0, 0, 40, -40, -76]))
    capacity, group_size = data.draw(st.integers(4, 40)), data.draw(st.sampled_from([1, 2, 7, 64]))
    largest_share = data.draw(st.sampled_from([0.0, 0.5, 1.0, 1.0, 1.0]))  # of candidates; beyond it, brute force
    index = ProjectedIndex(capacity, SIZE, CPU, num_directions, group_size, largest_share)
    ring = Ring(index, scale)
    for _ in range(data.draw(st.integers(1, 6))):
        num, kind = data.draw(st.integers(1, capacity)), data.draw(st.sampled_from(KINDS))
        if ring.keys and data.draw(st.booleans()):
            ring.replace(generator.choice(list(ring.keys), num), ring.scaled(points(generator, num, rank, kind)))
        else:
            share = data.draw(st.sampled_from([0.3, 1.0, 1.0]))
            ring.append(points(generator, num, rank, kind), generator.random(num) < share)
        if index.num_searches > 0:
            index._next_fit = data.draw(st.sampled_from([index._next_fit, NOW, NEVER]))
        if ring.admitted:
            queries = points(generator, 3, rank, data.draw(st.sampled_from(KINDS)))
            num_found = len(ring.admitted)
            ring.assert_brute_force(ring.scaled(queries), data.draw(st.sampled_from([1, min(3, num_found), num_found])))


def low_rank(num: int, noise: float, seed: int = 0) -> Tensor:
    """Return keys of 64 numbers that vary in 5 directions, far from the origin, with a little noise."""
    generator = np.random.default_rng(seed)
    directions = np.random.default_rng(0).standard_normal((5, 64))
    keys = 20 + generator.standard_normal((num, 5)) @ directions + noise * generator.standard_normal((num, 64))
    return torch.tensor(keys, dtype=torch.float32)


def restore(index: NeighbourIndex, state: State, admitted: Bools) -> None:
    index.load_state_dict(state)
    index.admit(admitted.nonzero()[0])


def filled(index: NeighbourIndex, keys: Tensor) -> Any:
    restore(index, {"keys": keys, "born": np.arange(len(keys))}, np.ones(len(keys), np.bool_))
    return index


def both(keys: Tensor) -> tuple[NeighbourIndex, ProjectedIndex]:
    return filled(NeighbourIndex(*keys.shape, CPU), keys), filled(ProjectedIndex(*keys.shape, CPU), keys)


def assert_same(one: NeighbourIndex, other: NeighbourIndex, queries: Tensor, k: int) -> None:
    for a, b in zip(one.search(queries, k), other.search(queries, k), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("noise", [0.0, 1e-3, 0.1])
def test_few_keys_are_read(noise: float) -> None:
    brute, projected = both(low_rank(5_000, noise))
    read: list[int] = []
    watch(projected, "_candidates", lambda found, *_: read.extend(np.bincount(found[0])))
    assert_same(brute, projected, low_rank(40, noise, seed=1), 10)
    assert projected.metrics() == {"searches": 1, "search_fallbacks": 0}
    assert 10 <= min(read) <= max(read) < 500
    assert np.mean(read) < 40


def test_keys_without_directions_are_searched_by_brute_force() -> None:
    keys, queries = (torch.tensor(np.random.default_rng(n).standard_normal((n, 64))).float() for n in (3_000, 4))
    brute, projected = both(keys)
    assert_same(brute, projected, queries, 10)
    assert_same(brute, projected, queries, 3)
    assert projected.metrics() == {"searches": 2, "search_fallbacks": 2}


def test_keys_written_after_the_fit_are_found() -> None:
    """They are orthogonal to all directions, and nearer to each other than to other keys."""
    generator = np.random.default_rng(0)
    brute, projected = both(low_rank(4_000, 1e-3))
    queries = 500 + torch.tensor(generator.standard_normal((4, 64))).float()
    assert_same(brute, projected, queries, 10)
    places = generator.choice(4_000, 100, replace=False)
    keys = 500 + torch.tensor(generator.standard_normal((100, 64))).float()
    for index in (brute, projected):
        index.write(places, keys)
        index.admit(places[:60])
    fitted = projected._next_fit
    assert_same(brute, projected, queries, 20)
    assert projected._next_fit == fitted
    assert set(projected.search(queries, 20)[0].flat) <= set(places[:60])


def test_nan_keys_are_not_found() -> None:
    keys = low_rank(500, 1e-3)
    keys[7], keys[8, 0] = torch.nan, torch.inf
    brute, projected = both(keys)
    assert_same(brute, projected, low_rank(3, 1e-3, seed=1), 10)
    assert projected.num_fallbacks == 1


def test_removed_nan_keys_are_not_found() -> None:
    """The sketch of an overwritten NaN key must not make its successor, which is not admitted, a candidate."""
    keys = low_rank(4_096, 1e-3)
    brute, projected = both(keys)
    query, hidden = low_rank(1, 1e-3, seed=1), np.array([17])
    for index in (brute, projected):
        index.write(hidden, torch.full((1, 64), torch.nan))
        index.admit(hidden)
        index.search(query, 3)
        index.write(hidden, query)
        restore(index, copy.deepcopy(index.state_dict()), index.admitted.copy())  # refits
    assert_same(brute, projected, query, 3)
    assert 17 not in projected.search(query, 3)[0]


@pytest.mark.parametrize("odd", [torch.nan, torch.inf, 1e20])
@pytest.mark.parametrize("num_keys", [4_096, 4_000])  # whole blocks, and room to spare
def test_nan_queries_find_only_admitted_keys(num_keys: int, odd: float) -> None:
    """With enough queries that the NaN query's candidates, which are all keys, stay below the largest share."""
    brute, projected = both(low_rank(num_keys, 1e-3))
    last = np.arange(num_keys - 10, num_keys)
    for index in (brute, projected):
        index.write(last, brute.keys[last].clone())
    queries = low_rank(64, 1e-3, seed=1)
    queries[5, 0] = odd
    assert_same(brute, projected, queries, 3)
    assert projected.search(queries, 3)[0].max() < num_keys - 10


def test_a_key_whose_distance_from_the_mean_overflows_when_squared() -> None:
    keys = torch.tensor([[1e19, 0.0]] * 20 + [[-1e19, 0.0], [0.4e19, 1.45e19]])
    index = filled(ProjectedIndex(22, 2, CPU, largest_share=1.0), keys)
    assert index.search(torch.tensor([[0.4e19, 0.0]]), 21)[0].tolist() == [[*reversed(range(20)), 20]]


def test_restoring_overwrites_an_index() -> None:
    brute, projected = both(low_rank(300, 0.1))
    assert_same(brute, projected, low_rank(3, 0.1, seed=2), 5)
    keys = low_rank(300, 0.1, seed=1).flip(1)
    for index in (brute, projected):
        restore(index, {"keys": keys, "born": np.arange(300)[::-1]}, np.arange(300) < 200)
    assert_same(brute, projected, keys[150:250], 5)
    assert projected.num_fallbacks == 0


def test_the_directions_are_fitted_as_the_memory_doubles_and_then_by_quarters() -> None:
    keys, capacity, fits = low_rank(1, 1.0), 80, []
    index = ProjectedIndex(capacity, 64, CPU)
    watch(index, "_fit", lambda _: fits.append(index.num_written))
    for i in range(2 * capacity):
        index.write(np.array([i % capacity]), keys)
        index.admit(np.array([i % capacity]))
        if i > 2:
            index.search(keys, 1)
    assert fits == [4, 8, 16, 32, 52, 72, 92, 112, 132, 152]


def live(index: ProjectedIndex, first: int, last: int) -> None:
    """Overwrite and replace keys, and search now and then, near and far."""
    keys, queries = low_rank(last, 0.3, seed=1), low_rank(last, 3.0, seed=2)
    for i in range(first, last):
        place = np.array([i % len(index.keys)])
        index.write(place, keys[i : i + 1])
        index.admit(place)
        if i % 6 == 1:
            index.replace((place + np.array([100, 200])) % len(index.keys), keys[i - 1 : i + 1])
        if i % 6 == 0:
            index.search((keys if i % 12 == 0 else queries)[i : i + 4], 5)


def test_restored_index_continues_to_the_bit() -> None:
    one, other = (ProjectedIndex(400, 64, CPU, 4, largest_share=0.2) for _ in range(2))
    live(filled(one, low_rank(400, 0.3)), 0, 50)
    state = copy.deepcopy(one.search_state())
    assert state["unsketched"].sum() == 3
    restore(other, copy.deepcopy(one.state_dict()), one.admitted)
    assert other.num_written == one.num_written
    other.load_search_state(state)
    for first, last in ((50, 60), (60, 400)):
        for index in (one, other):
            live(index, first, last)
        for (name, mine), its in zip(one.search_state().items(), other.search_state().values(), strict=True):
            np.testing.assert_array_equal(mine, its, err_msg=name)
    assert 20 < one.num_fallbacks < one.num_searches - 20


# --- In an agent ---------------------------------------------------------------------------------------------------


def searching(search: str) -> EVAAgent:
    """Return an agent whose memory has been filled and partly overwritten."""
    return ran(tiny(4, replay={"search": search, "replay_capacity": 320}), 100)


def test_projected_search_gives_the_same_agent() -> None:
    one, other = searching("brute"), searching("projected")
    assert same_learning(one.learner, other.learner)
    for name, array in one.replay.state_dict().items():
        np.testing.assert_array_equal(array, other.replay.state_dict()[name], err_msg=name)
    mine, its = one.metrics(), other.metrics()
    assert its.pop("searches") > its.pop("search_fallbacks") > 0
    assert mine == its


def test_large_memories_are_projected() -> None:
    def kind(search: str, capacity: int) -> type:
        config = tiny(replay={"search": search, "replay_capacity": capacity}, network={"embedding_size": 256})
        return type(build_replay(config, build_environment(config).spec, CPU).index)

    assert [kind("auto", n) for n in (32_767, 32_768)] == [NeighbourIndex, ProjectedIndex]
    assert [kind(search, 80) for search in ("auto", "brute", "projected")] == [
        NeighbourIndex,
        NeighbourIndex,
        ProjectedIndex,
    ]
    assert kind("brute", 32_768) is NeighbourIndex
