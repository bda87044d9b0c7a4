from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eva.agent.value_buffer import ValueBuffer
from tests.helpers.reference.neighbours import nearest
from tests.helpers.reference.value_buffer import ReferenceValueBuffer
from tests.helpers.strategies import CPU, generators, numbers

EMBEDDING_SIZE, NUM_ACTIONS = 2, 3


class ValueBufferCase:
    """The same entries in a value buffer and in the oracle; each carries the number of its round and its own."""

    def __init__(self, capacity: int, k: int, generator: np.random.Generator) -> None:
        self.capacity, self.k, self.generator = capacity, k, generator
        self.buffer = ValueBuffer(capacity, k, EMBEDDING_SIZE, NUM_ACTIONS, CPU)
        self.reference, self.origins = ReferenceValueBuffer(capacity, k), []
        self.num_rounds = self.num_entries = 0

    def append(self, num: int) -> None:
        embeddings, q_np = self._embeddings(num), numbers(self.generator, (num, NUM_ACTIONS), coarse=True)
        self.num_rounds += 1
        origins = [[self.num_rounds, self.num_entries + i, 7] for i in range(num)]
        self.num_entries += num
        self.buffer.append(embeddings, np.float32(q_np), np.array(origins, np.int64).reshape(-1, 3))
        self.origins = (self.origins + origins)[-self.capacity :]
        for embedding, values in zip(embeddings.tolist(), q_np.tolist(), strict=True):
            self.reference.append(embedding, values)

    def assert_equal(self, num_queries: int) -> None:
        entries = self.reference.entries
        assert len(self.buffer) == len(entries)
        assert self.buffer.oldest_round == (self.origins[0][0] if entries else 0)
        queries = self._embeddings(num_queries)
        recall = self.buffer.read(queries)
        if recall is None:
            assert len(entries) < self.k
            return
        keys = [embedding for embedding, _ in entries]
        for e, query in enumerate(queries.tolist()):
            assert recall.q_np[e].tolist() == pytest.approx(self.reference.read(query), rel=1e-6, abs=1e-6)
            found = nearest(keys, list(range(len(keys))), query, self.k)
            assert recall.squared_distances[e].tolist() == [distance for _, distance in found]
            assert self.buffer.origins[recall.entries[e]].tolist() == [self.origins[i] for i, _ in found]
            assert self.buffer.index.keys[recall.entries[e]].tolist() == [keys[i] for i, _ in found]

    def _embeddings(self, num: int) -> torch.Tensor:
        return torch.tensor(self.generator.integers(4, size=(num, EMBEDDING_SIZE)), dtype=torch.float32)


operations = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 20)),
    st.tuples(st.just("append"), st.integers(0, 3)),
    st.tuples(st.just("read"), st.integers(1, 3)),
)


@settings(max_examples=200)
@given(capacity=st.integers(1, 9), data=st.data(), generator=generators)
def test_value_buffer_matches_the_paper(capacity: int, data: st.DataObject, generator: np.random.Generator) -> None:
    case = ValueBufferCase(capacity, data.draw(st.integers(1, capacity)), generator)
    for operation, num in data.draw(st.lists(operations, max_size=12)):
        if operation == "append":
            case.append(num)
        else:
            case.assert_equal(num)
    case.assert_equal(2)


def test_the_mean_is_over_k_neighbours() -> None:
    """All K neighbours have equal weights (P10): (6 + 0)/2, not (6 + 0 + 3)/2 nor (6 + 0 + 3)/3."""
    buffer = ValueBuffer(4, 2, 1, 1, CPU)
    q_np = np.array([[6.0], [3.0], [0.0]], np.float32)
    buffer.append(torch.tensor([[0.0], [5.0], [1.0]]), q_np, np.zeros((3, 3), np.int64))
    recall = buffer.read(torch.tensor([[0.0]]))
    assert recall.q_np.tolist() == [[3.0]]
    assert recall.entries.tolist() == [[0, 2]]
    assert recall.squared_distances.tolist() == [[0.0, 1.0]]


def test_fewer_than_k_entries_are_not_read() -> None:
    """With fewer than K entries nothing is read (P24)."""
    buffer = ValueBuffer(4, 2, 1, 1, CPU)
    for expected in (True, True, False):
        assert (buffer.read(torch.zeros(1, 1)) is None) == expected
        buffer.append(torch.zeros(1, 1), np.zeros((1, 1), np.float32), np.zeros((1, 3), np.int64))
