from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eva.agent.exploration import EpsilonGreedy, LinearSchedule
from tests.helpers.reference.agent import epsilon_greedy
from tests.helpers.strategies import generators

shares = st.floats(0, 1)
counts = st.integers(0, 10**7)


@pytest.mark.parametrize(
    ("transitions", "value"), [(0, 1.0), (99, 1.0), (100, 1.0), (125, 0.875), (150, 0.75), (199, 0.505), (200, 0.5)]
)
def test_a_schedule_is_a_straight_line(transitions: int, value: float) -> None:
    schedule = LinearSchedule(1.0, 0.5, begin=100, duration=100)
    assert schedule(transitions) == pytest.approx(value, rel=1e-15)


@given(start=shares, end=shares, begin=counts, duration=counts, after=counts)
def test_a_schedule_is_exact_outside_its_duration(
    start: float, end: float, begin: int, duration: int, after: int
) -> None:
    schedule = LinearSchedule(start, end, begin, duration)
    assert schedule(begin + duration + after) == end
    assert schedule(begin - 1) == start
    if duration > 0:
        assert schedule(begin) == start


@given(start=shares, end=shares, begin=counts, duration=st.integers(1, 10**7), data=st.data())
def test_a_schedule_stays_between_its_ends(
    start: float, end: float, begin: int, duration: int, data: st.DataObject
) -> None:
    value = LinearSchedule(start, end, begin, duration)(begin + data.draw(st.integers(0, duration)))
    assert min(start, end) - 1e-15 <= value <= max(start, end) + 1e-15


def test_a_schedule_may_jump() -> None:
    schedule = LinearSchedule(0.4, 0.0, begin=10)
    assert [schedule(transitions) for transitions in (0, 9, 10, 11)] == [0.4, 0.4, 0.0, 0.0]


@given(value=shares, begin=counts, duration=counts, transitions=counts)
def test_a_constant_is_exactly_constant(value: float, begin: int, duration: int, transitions: int) -> None:
    assert LinearSchedule(value, value, begin, duration)(transitions) == value


@settings(max_examples=50)
@given(
    generator=generators,
    seed=st.integers(0, 99),
    epsilon=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    num_environments=st.integers(1, 8),
)
def test_epsilon_greedy_matches_the_paper(
    generator: np.random.Generator, seed: int, epsilon: float, num_environments: int
) -> None:
    explore = EpsilonGreedy(3, LinearSchedule(epsilon, epsilon), np.random.default_rng(seed))
    draws = np.random.default_rng(seed)
    for transitions in range(3):
        q = generator.integers(3, size=(num_environments, 3))  # with ties
        actions = explore(q.argmax(axis=1), transitions)
        uniform, random_actions = draws.random(num_environments), draws.integers(3, size=num_environments)
        assert actions.tolist() == [
            epsilon_greedy(*x)
            for x in zip(
                q.tolist(), [epsilon] * num_environments, uniform.tolist(), random_actions.tolist(), strict=True
            )
        ]


def test_random_draws_do_not_depend_on_the_greedy_actions() -> None:
    rows = []
    for greedy in (0, 1, 2):
        explore = EpsilonGreedy(4, LinearSchedule(0.5, 0.5), np.random.default_rng(0))
        rows.append(np.concatenate([explore(np.full(10, greedy), 0) for _ in range(20)]))
    explored = rows[0] == rows[1]  # although the greedy actions differ
    assert 50 < explored.sum() < 150
    np.testing.assert_array_equal(rows[2], np.where(explored, rows[0], 2))


def test_epsilon_follows_its_schedule() -> None:
    explore = EpsilonGreedy(2, LinearSchedule(1.0, 0.0, 0, 1000), np.random.default_rng(0))
    greedy = np.zeros(4000, np.int64)
    shares_of_one = [explore(greedy, transitions).mean() for transitions in (0, 500, 1000)]
    assert shares_of_one == pytest.approx([0.5, 0.25, 0.0], abs=0.03)
    assert shares_of_one[2] == 0


def test_environments_explore_independently() -> None:
    """Each action's frequency is epsilon / A, and the greedy one has 1 - epsilon more."""
    explore = EpsilonGreedy(4, LinearSchedule(0.5, 0.5), np.random.default_rng(0))
    actions = explore(np.full(20_000, 2), 0)  # one step of many environments
    assert np.bincount(actions, minlength=4) / 20_000 == pytest.approx([0.125, 0.125, 0.625, 0.125], abs=0.012)
