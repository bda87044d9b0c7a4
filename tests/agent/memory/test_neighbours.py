from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from eva.agent.memory.neighbours import NeighbourIndex
from eva.agent.memory.projected import ProjectedIndex
from eva.types import Floats, Ints
from tests.helpers.agents import watch
from tests.helpers.keys import KeysCase
from tests.helpers.reference.neighbours import nearest as brute_force
from tests.helpers.strategies import CPU, generators

Make = Callable[..., NeighbourIndex]
EACH_INDEX = pytest.mark.parametrize(
    "make",
    [NeighbourIndex, partial(ProjectedIndex, num_directions=1, group_size=3, largest_share=1.0)],
    ids=["brute", "projected"],
)


def single(x: np.ndarray) -> Tensor:
    return torch.tensor(x, dtype=torch.float32)


def build(make: Make, keys: Tensor, born: np.ndarray, admitted: list[int] | None = None) -> NeighbourIndex:
    """Write keys in the order of `born`, in two parts, and admit some of them, or all."""
    index = make(len(keys), keys.shape[1], CPU)
    for places in np.array_split(born.argsort(), 2):
        index.write(places, keys[places])
    index.admit(np.array(range(len(keys)) if admitted is None else admitted))
    return index


def search(make: Make, keys: Tensor, born: np.ndarray, queries: Tensor, k: int) -> tuple[Ints, Floats]:
    """Search among all keys."""
    return build(make, keys, born).search(queries, k)


def assert_brute_force(make: Make, keys: Tensor, born: np.ndarray, queries: Tensor, k: int) -> None:
    """Compare indices and distances to the bit."""
    indices, squared_distances = search(make, keys, born, queries, k)
    assert indices.dtype == np.int64
    assert squared_distances.dtype == np.float64
    expected = [brute_force(keys.tolist(), born.tolist(), query, k) for query in queries.tolist()]
    assert indices.tolist() == [[i for i, _ in row] for row in expected]
    assert squared_distances.tolist() == [[distance for _, distance in row] for row in expected]


@EACH_INDEX
@settings(max_examples=300)
@given(st.data(), generators)
def test_ties_and_duplicates(make: Make, data: st.DataObject, generator: np.random.Generator) -> None:
    """Integers have exact distances, so that ties are exact; at other scales squares under- or overflow."""
    num_keys, size = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 5))
    num_queries, k = data.draw(st.integers(1, 4)), data.draw(st.integers(1, num_keys))
    highest = data.draw(st.sampled_from([0, 1, 3, 100]))
    scale = 2.0 ** data.draw(st.sampled_from([0, 0, 40, 70, -76, -80]))
    keys, queries = (scale * single(generator.integers(0, highest + 1, (n, size))) for n in (num_keys, num_queries))
    assert_brute_force(make, keys, generator.permutation(num_keys), queries, k)


@EACH_INDEX
@settings(max_examples=150)
@given(st.data(), generators)
def test_wide_ranges(make: Make, data: st.DataObject, generator: np.random.Generator) -> None:
    """The sum of two squares is rounded once in any order, so that distances are comparable to the bit."""
    num_keys, scale = data.draw(st.integers(2, 20)), 2.0 ** data.draw(st.integers(-110, 30))
    k, size = data.draw(st.integers(1, num_keys)), data.draw(st.integers(1, 2))
    keys, queries = (
        scale * generator.choice([-1.0, 1.0], (n, size)) * 2.0 ** generator.integers(-30, 31, (n, size))
        for n in (num_keys, 3)
    )
    keys[0, 0] = scale * 2.0**30
    queries[0] = keys[-1]
    assert_brute_force(make, single(keys), generator.permutation(num_keys), single(queries), k)


@EACH_INDEX
@pytest.mark.parametrize("apart", [1e-4, 1e-5, 1e-6, 1e-7])
def test_near_duplicates_far_from_the_origin(make: Make, apart: float) -> None:
    generator = np.random.default_rng(0)
    place = generator.uniform(100, 200, 64)
    keys = single(place * (1 + apart * generator.standard_normal((40, 64))))
    query = single(place)
    born, k = generator.permutation(40), 5
    assert_brute_force(make, keys, born, query[None], k)
    index = build(make, keys, born)
    (expected,) = index.search(query[None], k)[0].tolist()
    expanded = keys.square().sum(dim=1) - 2 * keys @ query  # what rounding makes of these distances
    assert expanded.topk(k, largest=False).indices.tolist() != expected
    index.write(np.array([expected[-1]]), torch.zeros(1, 64))  # the last key is a short one
    index.admit(np.array([expected[-1]]))
    assert index.search(query[None], k - 1)[0].tolist() == [expected[:-1]]


def test_only_keys_within_rounding_error_are_compared_directly() -> None:
    """100 of 1,000 keys are so close together that the matrix product cannot order them."""
    generator = np.random.default_rng(0)
    place = generator.uniform(1, 2, 64)
    close = place * (1 + 1e-6 * generator.standard_normal((100, 64)))
    keys = single(np.concatenate([close, generator.uniform(1, 2, (900, 64))]))
    born, queries = generator.permutation(1000), single(np.stack([place, 10 * generator.uniform(1, 2, 64)]))
    index = build(NeighbourIndex, keys, born)
    compared: list[int] = []
    watch(index, "_candidates", lambda found, *_: compared.extend(np.bincount(found[0])))
    expected = [[i for i, _ in brute_force(keys.tolist(), born.tolist(), query, 5)] for query in queries.tolist()]
    assert index.search(queries, 5)[0].tolist() == expected
    assert compared == [100, 5]


@EACH_INDEX
@settings(max_examples=100)
@given(st.data(), generators)
def test_keys_that_are_not_admitted_are_not_found(
    make: Make, data: st.DataObject, generator: np.random.Generator
) -> None:
    num_keys = data.draw(st.integers(1, 15))
    included = data.draw(st.lists(st.integers(0, num_keys - 1), min_size=1, unique=True).map(sorted))
    k = data.draw(st.integers(1, len(included)))
    keys, queries = (single(generator.integers(0, 3, (n, 2))) for n in (num_keys, 2))
    born = generator.permutation(num_keys)
    indices, _ = build(make, keys, born, included).search(queries, k)
    expected = [brute_force(keys[included].tolist(), born[included].tolist(), query, k) for query in queries.tolist()]
    assert indices.tolist() == [[included[i] for i, _ in row] for row in expected]


@EACH_INDEX
@settings(max_examples=60)
@given(st.data(), generators)
def test_queries_do_not_influence_each_other(make: Make, data: st.DataObject, generator: np.random.Generator) -> None:
    num_keys, size = data.draw(st.integers(1, 300)), data.draw(st.sampled_from([1, 3, 16, 64]))
    offset, k = data.draw(st.sampled_from([0.0, 1000.0])), data.draw(st.integers(1, min(10, num_keys)))
    keys, queries = (single(offset + generator.standard_normal((n, size))) for n in (num_keys, 5))
    born = generator.permutation(num_keys)
    indices, squared_distances = search(make, keys, born, queries, k)
    for e in range(len(queries)):
        alone = search(make, keys, born, queries[e : e + 1], k)
        np.testing.assert_array_equal(alone[0], indices[e : e + 1])
        np.testing.assert_array_equal(alone[1], squared_distances[e : e + 1])


@EACH_INDEX
@pytest.mark.parametrize("offset", [0.0, 300.0])
def test_a_large_memory(make: Make, offset: float) -> None:
    generator = np.random.default_rng(0)
    keys, queries = (single(offset + generator.standard_normal((n, 64))) for n in (20_000, 4))
    indices, squared_distances = search(make, keys, np.arange(20_000), queries, 10)
    for e, query in enumerate(queries):
        expected = ((keys.double() - query.double()) ** 2).sum(dim=1).numpy()
        np.testing.assert_array_equal(indices[e], expected.argsort()[:10])
        np.testing.assert_allclose(squared_distances[e], np.sort(expected)[:10], rtol=1e-14)


@EACH_INDEX
def test_a_memory_of_duplicates(make: Make) -> None:
    """More keys than one chunk."""
    num_keys = 70_000
    born = np.random.default_rng(0).permutation(num_keys)
    indices, squared_distances = search(make, torch.ones(num_keys, 2), born, torch.tensor([[0.0, 0.0], [4.0, 1.0]]), 7)
    np.testing.assert_array_equal(indices, [(-born).argsort()[:7]] * 2)
    assert squared_distances.tolist() == [[2.0] * 7, [9.0] * 7]


@EACH_INDEX
@settings(max_examples=200)
@given(st.data(), generators)
def test_keys_are_written_admitted_and_replaced_in_place(
    make: Make, data: st.DataObject, generator: np.random.Generator
) -> None:
    """In any order; a replaced key keeps its age, and is found if and only if its place is admitted."""
    capacity = data.draw(st.integers(1, 6))
    case = KeysCase(make(capacity, 1, CPU))
    for action in data.draw(st.lists(st.sampled_from(["write", "admit", "admit", "replace"]), max_size=16)):
        keys = single(generator.integers(0, 4, (int(generator.integers(1, 2 * capacity)), 1)))
        if action == "write":
            places = generator.permutation(capacity)[: len(keys)]
            case.write(places, keys[: len(places)])
        elif action == "admit" and case.keys:
            case.admit(generator.choice(list(case.keys), len(keys)))
        elif action == "replace" and case.keys:
            case.replace(generator.choice(list(case.keys), len(keys)), keys)
        if case.admitted and generator.random() < 0.7:
            case.assert_brute_force(single([[1.0], [2.5]]), int(generator.integers(1, len(case.admitted) + 1)))
        assert case.index.num_written == case.num_written
        assert {place: case.index.born[place] for place in case.keys} == case.born
        assert set(case.index.admitted.nonzero()[0].tolist()) == case.admitted


@EACH_INDEX
def test_nan_keys_come_and_go(make: Make) -> None:
    index = build(make, torch.tensor([[torch.nan], [3.0], [1.0]]), np.arange(3))
    query = torch.tensor([[0.0]])
    assert index.search(query, 3)[0].tolist() == [[2, 1, 0]]
    index.replace(np.array([0]), torch.tensor([[0.5]]))
    assert index.search(query, 2)[0].tolist() == [[0, 2]]
    index.replace(np.array([0, 2, 0]), torch.tensor([[0.25], [torch.nan], [2.0]]))
    assert index.search(query, 3)[0].tolist() == [[0, 1, 2]]


@EACH_INDEX
def test_nan_keys_come_last(make: Make) -> None:
    """Also where the k-th score is NaN, or infinite because that key is not admitted."""
    keys = torch.tensor([[torch.nan], [3.0], [torch.nan], [1.0], [2.0]])
    index = build(make, keys, np.arange(5), admitted=[0, 1, 2, 3])
    for k in range(1, 5):
        (places,), (distances,) = index.search(torch.tensor([[0.0]]), k)
        assert places.tolist() == [3, 1, 2, 0][:k]
        np.testing.assert_array_equal(distances, [1.0, 9.0, np.nan, np.nan][:k])


@EACH_INDEX
@pytest.mark.parametrize("seed", range(6))
def test_nan_keys_do_not_hide_the_longest_key(make: Make, seed: int) -> None:
    """All other keys are at nearly the same distance from the origin: the product alone would often be wrong."""
    generator = np.random.default_rng(seed)
    keys = single(generator.uniform(100, 200, 64) * (1 + 1e-6 * generator.standard_normal((200, 64))))
    index = build(make, torch.cat([keys, torch.full((1, 64), torch.nan)]), np.arange(201))
    origin = torch.zeros(1, 64)
    expected = [i for i, _ in brute_force(keys.tolist(), list(range(200)), origin[0].tolist(), 5)]
    assert index.search(origin, 5)[0].tolist() == [expected]


@EACH_INDEX
def test_distances_that_tie_in_float64_go_to_the_newest(make: Make) -> None:
    """A query so far away that the keys' differences are lost in rounding."""
    indices, _ = search(make, torch.tensor([[1e-20], [2e-20]]), np.array([1, 0]), torch.tensor([[1.0]]), 1)
    assert indices.tolist() == [[0]]


@EACH_INDEX
@pytest.mark.parametrize("precision", ["high", "medium"])
def test_search_is_exact_with_low_matmul_precision(make: Make, precision: str) -> None:
    generator = np.random.default_rng(0)
    keys, queries = (single(30 + generator.standard_normal((n, 32))) for n in (500, 3))
    torch.set_float32_matmul_precision(precision)
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert_brute_force(make, keys, generator.permutation(500), queries, 7)
    finally:
        torch.set_float32_matmul_precision("highest")


def test_limit_beyond_float32_returns_only_admitted_keys() -> None:
    """In bfloat16, such products may be off by more than the largest float32."""
    keys = torch.zeros(3, 60_000)
    keys[:, 0] = 4.9e17
    index = build(NeighbourIndex, keys, np.arange(3), admitted=[0, 1])
    torch.set_float32_matmul_precision("medium")
    try:
        assert index.search(keys[:1], 2)[0].tolist() == [[1, 0]]
    finally:
        torch.set_float32_matmul_precision("highest")


@EACH_INDEX
@pytest.mark.parametrize("backend", [torch.backends.mkldnn.matmul, torch.backends.cuda.matmul])
def test_search_is_exact_with_low_backend_precision(make: Make, backend: Any) -> None:
    """torch then raises when asked for its precision."""
    generator = np.random.default_rng(0)
    keys, queries = (single(30 + generator.standard_normal((n, 32))) for n in (500, 3))
    before = backend.fp32_precision
    backend.fp32_precision = "tf32"
    try:
        with pytest.raises(RuntimeError):
            torch.get_float32_matmul_precision()
        assert_brute_force(make, keys, generator.permutation(500), queries, 7)
    finally:
        backend.fp32_precision = before
        assert torch.get_float32_matmul_precision() == "highest"
