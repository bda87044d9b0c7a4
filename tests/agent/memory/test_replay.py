from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from eva.agent.memory.observations import WholeObservations
from eva.agent.memory.replay import ReplayBuffer
from tests.helpers.reference.neighbours import nearest
from tests.helpers.strategies import CPU, STEP, TERMINATE, TRUNCATE, MemoryCase, memory_cases

NOTHING = WholeObservations(0, (0,), np.dtype(np.uint8))


def shown(replay: ReplayBuffer, slots: np.ndarray) -> list[int]:
    """Return which observations lie in `slots`."""
    return replay.observations_at(slots)[:, 0].tolist()


@settings(max_examples=200)
@given(case=memory_cases())
def test_the_complete_transitions_are_those_that_survive(case: MemoryCase) -> None:
    replay = case.replay
    starts, slots = case.starts()
    assert np.flatnonzero(replay.complete).tolist() == sorted(slots)
    assert replay.num_complete == len(starts)
    assert replay.index.born[slots].tolist() == [case.reference.born(*start) for start in starts]
    assert replay.embeddings[slots].tolist() == [case.reference.embedding(*start) for start in starts]


@settings(max_examples=100)
@given(case=memory_cases(max_steps=8))
def test_replay_is_full_when_every_lane_is(case: MemoryCase) -> None:
    capacity = case.reference.lane_capacity
    assert case.replay.is_full == all(len(history) >= capacity for history in case.reference.histories)


def test_shares_are_equal_and_rounded_down() -> None:
    """Each environment gets replay_capacity // E slots (P37)."""
    replay = ReplayBuffer(11, 3, NOTHING, 2, 0.99, CPU)
    assert (replay.lane_capacity, len(replay.kinds), len(replay.embeddings)) == (3, 9, 9)


@settings(max_examples=250)
@given(case=memory_cases(), length=st.integers(1, 6))
def test_trajectories_from_every_start(case: MemoryCase, length: int) -> None:
    starts, slots = case.starts()
    assume(starts)
    replay = case.replay
    trajectories = replay.trajectories(np.array(slots)[:, None], length)
    assert trajectories.plans.tolist() == list(range(len(starts)))
    assert trajectories.slots.shape == (len(starts), length + 1)
    for m, start in enumerate(starts):
        expected = case.reference.trajectory(*start, length)
        first = length - len(expected.actions)
        assert trajectories.valid[m].tolist() == [t >= first for t in range(length)]
        assert trajectories.actions[m, first:].tolist() == expected.actions
        assert trajectories.rewards[m, first:].tolist() == expected.rewards
        assert trajectories.discounts[m, first:].tolist() == expected.discounts
        num_states = len(expected.actions) + (expected.observation_ids[-1] is not None)
        states = trajectories.slots[m, first : first + num_states]
        assert shown(replay, states) == expected.observation_ids[:num_states]
        assert replay.embeddings[states].tolist() == expected.embeddings[:num_states]


def test_trajectories_are_numbered_by_the_plan_that_found_them() -> None:
    case = MemoryCase(1, 8, np.random.default_rng(0))
    for _ in range(7):
        case.remember([STEP])
    trajectories = case.replay.trajectories(np.array([[0, 1, 2], [3, 4, 5]]), 2)
    assert trajectories.plans.tolist() == [0, 0, 0, 1, 1, 1]
    assert trajectories.slots[:, 0].tolist() == [0, 1, 2, 3, 4, 5]


@settings(max_examples=100)
@given(case=memory_cases())
def test_a_batch_shows_states_and_successors(case: MemoryCase) -> None:
    starts, slots = case.starts()
    assume(starts)
    batch = case.replay.batch(np.array(slots))
    transitions = [case.reference.transition(*start) for start in starts]
    assert batch.observations.tolist() == [[x.observation_id] for x in transitions]
    assert batch.actions.tolist() == [x.action for x in transitions]
    assert batch.rewards.tolist() == [x.reward for x in transitions]
    assert batch.discounts.tolist() == [x.discount for x in transitions]
    successors = zip(transitions, batch.next_observations.tolist(), strict=True)
    assert all(shows == [x.next_observation_id] for x, shows in successors if x.next_observation_id is not None)


@settings(max_examples=150)
@given(case=memory_cases(), num_queries=st.integers(1, 3), k=st.integers(1, 12))
def test_search_is_brute_force_over_the_complete_transitions(case: MemoryCase, num_queries: int, k: int) -> None:
    starts, slots = case.starts()
    assume(starts)
    queries = case.queries(num_queries)
    found, squared_distances = case.replay.search(queries, k)
    keys = [case.reference.embedding(*start) for start in starts]
    born = [case.reference.born(*start) for start in starts]
    expected = [nearest(keys, born, query, k) for query in queries.tolist()]
    assert found.tolist() == [[slots[i] for i, _ in row] for row in expected]
    assert squared_distances.tolist() == [[distance for _, distance in row] for row in expected]


@settings(max_examples=50)
@given(case=memory_cases(), seed=st.integers(0, 99))
def test_samples_are_complete(case: MemoryCase, seed: int) -> None:
    assume(case.replay.num_complete > 0)
    drawn = case.replay.sample(np.random.default_rng(seed), 32)
    assert drawn.shape == (32,)
    assert case.replay.complete[drawn].all()


def unequal_lanes() -> MemoryCase:
    """Fill lanes of 8 slots to 4, 8 and 5, with closing slots among them; the first lane's newest is not complete."""
    case = MemoryCase(3, 8, np.random.default_rng(0))
    for last_event in (STEP, TRUNCATE, STEP, TERMINATE):
        case.remember([STEP, TRUNCATE, last_event])
    return case


def test_samples_are_uniform() -> None:
    case, num_drawn = unequal_lanes(), 12_000
    _, slots = case.starts()
    assert [len(history) for history in case.reference.histories] == [4, 8, 5]
    assert slots == [0, 1, 2, 8, 10, 12, 14, 16, 17, 19, 20]
    generator = np.random.default_rng(1)
    drawn = np.concatenate([case.replay.sample(generator, 48) for _ in range(num_drawn // 48)])
    counts = np.bincount(drawn, minlength=24)
    assert counts.sum() == counts[slots].sum() == num_drawn
    expected = num_drawn / len(slots)
    chi_square = ((counts[slots] - expected) ** 2 / expected).sum()
    assert chi_square < 29.6  # 10 degrees of freedom: exceeded once in 1000


def test_samples_repeat_with_the_generator() -> None:
    replay = unequal_lanes().replay
    one, other = (replay.sample(np.random.default_rng(5), 64) for _ in range(2))
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("embedding_size", [1, 16, 64])
def test_the_bytes_of_a_slot(embedding_size: int) -> None:
    num_slots = 12
    replay = ReplayBuffer(num_slots, 3, NOTHING, embedding_size, 0.99, CPU)
    zeros, h = np.zeros(3, np.int64), torch.zeros(3, embedding_size)
    replay.append(None, zeros, zeros, np.ones(3, np.bool_), h)
    replay.search(h, 1)
    parts = [*vars(replay).values(), *vars(replay.index).values()]
    arrays = [x for x in parts if isinstance(x, np.ndarray | torch.Tensor) and x.shape[:1] == (num_slots,)]
    scores = num_slots * 3 * 4
    expected = num_slots * ReplayBuffer.bytes_per_slot(embedding_size, 3)
    assert sum(x.nbytes for x in arrays) == expected - scores, "for those by projection"


def test_search_and_planning_work_without_observations() -> None:
    replay = ReplayBuffer(6, 2, NOTHING, 1, 0.99, CPU)
    for step in range(2):
        embeddings = torch.tensor([[step], [10.0 + step]])
        replay.append(None, np.array([0, 1]), np.ones(2), np.zeros(2, np.bool_), embeddings)
    replay.close(np.array([1]), None, torch.tensor([[12.0]]))
    slots, squared_distances = replay.search(torch.tensor([[11.0]]), 2)
    assert slots.tolist() == [[4, 3]]
    assert squared_distances.tolist() == [[0.0, 1.0]]
    assert replay.trajectories(slots, 2).slots.tolist()[1] == [3, 4, 5]


def test_search_of_empty_memory_is_empty() -> None:
    slots, squared_distances = MemoryCase(2, 4, np.random.default_rng(0)).replay.search(torch.zeros(3, 2), 5)
    assert slots.shape == squared_distances.shape == (3, 0)


def test_sampling_without_complete_transitions_raises() -> None:
    with pytest.raises(ValueError, match="no transition is complete"):
        MemoryCase(1, 4, np.random.default_rng(0)).replay.sample(np.random.default_rng(0), 3)
