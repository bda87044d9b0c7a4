from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from eva.agent.exploration import LinearSchedule
from eva.agent.memory.priorities import Priorities
from tests.helpers.agents import frozen, same
from tests.helpers.reference.priorities import ReferencePriorities
from tests.helpers.strategies import MemoryCase, generators, memory_cases

BELOW_ONE = float(np.nextafter(1, 0))
Event = tuple[str, list[int], list[float]]  # what happens, to which slots, with which errors
History = tuple[int, list[Event]]


class Scripted:
    """A generator that returns given numbers."""

    def __init__(self, uniforms: Sequence[float]) -> None:
        self.uniforms = np.array(uniforms)

    def random(self, size: int) -> np.ndarray:
        assert size == len(self.uniforms)
        return self.uniforms.copy()


def make(num_slots: int, alpha: float = 1.0, epsilon: float = 1.0, beta: float = 0.4, anneal: int = 0) -> Priorities:
    schedule = LinearSchedule(beta, 1.0 if anneal else beta, 0, anneal)
    return Priorities(num_slots, priority_exponent=alpha, priority_floor=epsilon, importance_exponent=schedule)


def with_values(values: Sequence[float]) -> Priorities:
    """Return a tree with these priorities."""
    priorities = make(len(values))
    state = {"priorities": np.array(values, float), "largest_priority": np.array(1.0), "num_prioritised": np.array(0)}
    priorities.load_state_dict(state)
    return priorities


@st.composite
def histories(draw: st.DrawFn, errors: st.SearchStrategy[float]) -> History:
    """Draw a number of slots, for one to three levels, and what happens to some of them; slots may come twice."""
    num_slots = draw(st.sampled_from([1, 2, 31, 32, 33, 100, 1024, 1025, 2000]))
    slots = st.lists(st.integers(0, num_slots - 1), min_size=1, max_size=8)
    events = []
    for name in ["add", *draw(st.lists(st.sampled_from(["add", "remove", "update"]), max_size=12))]:
        chosen = draw(slots)
        events.append((name, chosen, draw(st.lists(errors, min_size=len(chosen), max_size=len(chosen)))))
    return num_slots, events


def lived(
    num_slots: int, events: list[Event], alpha: float, beta: float = 0.4
) -> tuple[Priorities, ReferencePriorities]:
    """Apply the same changes to the tree and to the oracle; only stored transitions are updated."""
    tree, reference = make(num_slots, alpha, beta=beta), ReferencePriorities(alpha, 1.0)
    for name, slots, errors in events:
        if name == "update":
            there = [(slot, error) for slot, error in zip(slots, errors, strict=True) if slot in reference.values]
            if not there:
                continue
            slots, errors = ([pair[i] for pair in there] for i in (0, 1))
            tree.update(np.array(slots), np.array(errors, np.float32))
            reference.update(slots, errors)
        else:
            getattr(tree, name)(np.array(slots))
            getattr(reference, name)(slots)
    return tree, reference


@settings(max_examples=150)
@given(history=histories(st.integers(0, 9).map(float)), sixteenths=st.lists(st.integers(0, 15), min_size=8, max_size=8))
def test_draws_are_those_of_brute_force_prefix_sums(history: History, sixteenths: list[int]) -> None:
    """With alpha 1 and whole errors every sum, and with 8 parts every point, is exact."""
    tree, reference = lived(*history, alpha=1.0)
    assert {slot: tree.values[slot] for slot in np.flatnonzero(tree.values)} == reference.values
    assume(reference.values)
    uniforms = [n / 16 for n in sixteenths]
    assert tree.sample(Scripted(uniforms), 8).tolist() == reference.sample(uniforms)


@settings(max_examples=100)
@given(
    history=histories(st.floats(0, 100, width=32)),
    alpha=st.sampled_from([0.0, 0.6, 1.0]),
    beta=st.sampled_from([0.0, 0.4, 1.0]),
)
def test_priorities_and_importance_weights_match_the_paper(history: History, alpha: float, beta: float) -> None:
    tree, reference = lived(*history, alpha=alpha, beta=beta)
    slots = sorted(reference.values)
    assert np.flatnonzero(tree.values).tolist() == slots
    assert tree.values[slots].tolist() == pytest.approx([reference.values[slot] for slot in slots], rel=1e-12)
    assert tree.largest == pytest.approx(max(reference.seen), rel=1e-12)
    assume(slots)
    batch = slots[::2] + slots[:1]
    weights = tree.importance_weights(np.array(batch))
    assert weights.tolist() == pytest.approx(reference.importance_weights(batch, beta), rel=1e-9)
    assert weights.max() == 1.0


@settings(max_examples=100)
@given(history=histories(st.floats(0, 1e6, width=32)), generator=generators)
def test_sums_never_drift_and_a_restored_tree_is_the_same_to_the_bit(
    history: History, generator: np.random.Generator
) -> None:
    tree, reference = lived(*history, alpha=0.6)
    restored = make(history[0], alpha=0.6)
    restored.add(np.arange(history[0]))  # nothing of what was there before may be left
    restored.load_state_dict(frozen(tree.state_dict()))
    assert same(restored._levels, tree._levels)
    assert same(restored.state_dict(), tree.state_dict())
    assume(reference.values)
    state = generator.bit_generator.state
    drawn = tree.sample(generator, 16)
    generator.bit_generator.state = state
    assert same(restored.sample(generator, 16), drawn)


def test_expected_counts_are_exactly_proportional() -> None:
    """One draw from the middle of each unit of the total: each slot is drawn as often as its priority says."""
    generator = np.random.default_rng(0)
    expected = generator.integers(0, 7, size=1_500) * (generator.random(1_500) < 0.7)
    total = int(expected.sum())
    drawn = with_values(expected).sample(Scripted([0.5] * total), total)
    np.testing.assert_array_equal(np.bincount(drawn, minlength=1_500), expected)


def test_draws_are_proportional_and_independent_of_their_part() -> None:
    values, num_batches = np.array([3.0, 0.0, 1.0, 0.5, 2.5, 0.0]), 4_000
    tree, generator = with_values(values), np.random.default_rng(1)
    drawn = np.stack([tree.sample(generator, 3) for _ in range(num_batches)])
    # Parts of 7 / 3: the first lies within slot 0, the second over slots 0, 2, 3 and 4, the last within slot 4.
    assert (drawn[:, 0] == 0).all()
    assert (drawn[:, 2] == 4).all()
    width = 7 / 3
    shares = np.array([3 - width, 0, 1, 0.5, 2 * width - 4.5, 0]) / width
    counts, expected = np.bincount(drawn[:, 1], minlength=6), shares * num_batches
    positive = expected > 0
    assert counts[~positive].sum() == 0
    chi_square = ((counts - expected)[positive] ** 2 / expected[positive]).sum()
    assert chi_square < 16.3  # 3 degrees of freedom: exceeded once in 1000


@pytest.mark.parametrize("batch_size", [1, 2, 7, 48, 1_000])
@pytest.mark.parametrize("uniform", [0.0, 0.5, BELOW_ONE])
@pytest.mark.parametrize("num_slots", [2, 32, 40, 1_100, 40_000])
def test_an_edge_never_falls_on_a_slot_without_priority(batch_size: int, uniform: float, num_slots: int) -> None:
    """A draw just below 1 rounds the last point up to the total, which is beyond all slots."""
    values = np.zeros(num_slots)
    values[1::7] = 0.1
    drawn = with_values(values).sample(Scripted([uniform] * batch_size), batch_size)
    assert (values[drawn] > 0).all()
    assert (np.diff(drawn) >= 0).all()
    if uniform == 0.0:
        assert drawn[0] == 1
    if uniform == BELOW_ONE:
        assert drawn[-1] == np.flatnonzero(values)[-1]


@settings(max_examples=200)
@given(
    values=st.lists(
        st.sampled_from([0.0, 0.0, 0.0, 5e-324, 1e-300, 1e-16, 0.1, 1 / 3, 1.0, 1e16, 1e38]), min_size=1, max_size=80
    ),
    uniforms=st.lists(st.sampled_from([0.0, 5e-324, 1 / 3, 0.5, BELOW_ONE]) | st.floats(0, BELOW_ONE), min_size=1),
    stretch=st.sampled_from([1, 40, 1_000]),
)
def test_slots_without_priority_are_never_drawn(values: list[float], uniforms: list[float], stretch: int) -> None:
    """Sums that round away small parts, and points on all edges."""
    assume(any(values))
    spread = np.zeros(len(values) * stretch)
    spread[::stretch] = values
    drawn = with_values(spread).sample(Scripted(uniforms), len(uniforms))
    assert (spread[drawn] > 0).all()


def test_new_transitions_have_the_largest_priority() -> None:
    tree = make(10, epsilon=0.5)
    tree.add(np.array([0, 1]))
    assert tree.values[:3].tolist() == [1.0, 1.0, 0.0]
    tree.update(np.array([0, 1, 0]), np.array([4.0, 0.0, 1.0]))
    assert tree.values[:2].tolist() == [1.5, 0.5]  # of slot 0 the last error counts
    tree.remove(np.array([0]))
    tree.add(np.array([0, 2]))
    assert tree.values[:3].tolist() == [4.5, 0.5, 4.5]  # even though no such priority was left


def test_beta_moves_to_one_with_the_transitions_added() -> None:
    tree = make(10, beta=0.4, anneal=6)
    for added, beta in [(1, 0.5), (2, 0.7), (3, 1.0), (2, 1.0)]:
        tree.add(np.arange(added))
        tree.values[:2] = [1.0, 4.0]
        assert tree.importance_weights(np.array([0, 1])).tolist() == pytest.approx([1.0, 4**-beta])


@pytest.mark.parametrize("error", [np.inf, np.nan])
def test_nan_errors_leave_the_sums_finite(error: float) -> None:
    tree = make(5)
    tree.add(np.arange(5))
    tree.update(np.array([3]), np.array([error], np.float32))
    assert np.isfinite(tree.values).all()
    assert tree.sample(Scripted([0.5] * 4), 4).tolist() == [3, 3, 3, 3]


def test_the_bytes_of_a_slot() -> None:
    tree = make(100_000)
    assert 8 < sum(level.nbytes for level in tree._levels) / 100_000 < Priorities.BYTES_PER_SLOT


@settings(max_examples=100)
@given(case=memory_cases(prioritised=True), generator=generators)
def test_the_complete_transitions_have_priorities(case: MemoryCase, generator: np.random.Generator) -> None:
    replay, priorities = case.replay, case.replay.priorities
    assert np.array_equal(priorities.values > 0, replay.complete)
    ever = [(e, i) for e, history in enumerate(case.reference.histories) for i in range(len(history))]
    assert priorities.num_added == sum(case.reference.is_complete(e, i) for e, i in ever)
    assume(replay.num_complete > 0)
    drawn = replay.sample(generator, 32)
    assert replay.complete[drawn].all()
    replay.prioritise(drawn, torch.from_numpy(generator.random(32)))
    weights = replay.batch(drawn).importance_weights
    assert weights.tolist() == pytest.approx(priorities.importance_weights(drawn).tolist())
