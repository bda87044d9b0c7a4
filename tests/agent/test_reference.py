"""The oracles on cases small enough to compute by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import pytest

from tests.helpers.reference.agent import (
    double_q_learning_target,
    each,
    epsilon_greedy,
    huber,
    mean_loss,
    mix,
    plan,
    q_learning_target,
    squared_error,
)
from tests.helpers.reference.kbrl import distribution, kernel_based_rl
from tests.helpers.reference.neighbours import nearest, squared_distance
from tests.helpers.reference.priorities import ReferencePriorities
from tests.helpers.reference.traces import Trajectory, n_step, trajectory_centric_planning
from tests.helpers.reference.trajectories import ReferenceMemory, Transition
from tests.helpers.reference.value_buffer import ReferenceValueBuffer

# --- Algorithms 2 and 3 -------------------------------------------------------------------------------------------

OneTrace = Callable[[Trajectory, list[list[float]]], list[list[float]]]

THREE_STEPS = Trajectory(actions=[0, 1, 0], rewards=[1.0, 2.0, 4.0], discounts=[0.5, 0.5, 0.5])
THREE_STEPS_Q_THETA = [[7.0, 3.0], [20.0, 6.0], [5.0, 1.0], [8.0, 16.0]]


def test_n_step_follows_the_trajectory_even_where_another_action_is_better() -> None:
    # V(s3) = max(8, 16) = 16
    # Q(s2, 0) = 4 + 16/2 = 12; V = 12
    # Q(s1, 1) = 2 + 12/2 = 8;  V = 8, although Q_theta(s1, 0) = 20
    # Q(s0, 0) = 1 + 8/2 = 5
    assert n_step(THREE_STEPS, THREE_STEPS_Q_THETA) == [[5.0, 3.0], [20.0, 8.0], [12.0, 1.0]]


def test_trajectory_centric_planning_leaves_the_trajectory_for_a_better_action() -> None:
    # as above to V(s1) = max(20, 8) = 20
    # Q(s0, 0) = 1 + 20/2 = 11
    assert trajectory_centric_planning(THREE_STEPS, THREE_STEPS_Q_THETA) == [[11.0, 3.0], [20.0, 8.0], [12.0, 1.0]]


def test_traces_agree_where_the_trajectory_is_the_best_known_policy() -> None:
    # Q_theta(s1, 0) = 0: V(s1) = 8 in both
    q_theta = [[7.0, 3.0], [0.0, 6.0], [5.0, 1.0], [8.0, 16.0]]
    assert n_step(THREE_STEPS, q_theta) == [[5.0, 3.0], [0.0, 8.0], [12.0, 1.0]]
    assert trajectory_centric_planning(THREE_STEPS, q_theta) == [[5.0, 3.0], [0.0, 8.0], [12.0, 1.0]]


@pytest.mark.parametrize("trace", [n_step, trajectory_centric_planning])
def test_a_termination_has_no_value(trace: OneTrace) -> None:
    # Q(s1, 1) = 2 + 0 * 16 = 2; V = 2 in n-step and max(-1, 2) = 2 in TCP; Q(s0, 0) = 1 + 2/2 = 2
    trajectory = Trajectory(actions=[0, 1], rewards=[1.0, 2.0], discounts=[0.5, 0.0])
    assert trace(trajectory, [[7.0, 3.0], [-1.0, 6.0], [8.0, 16.0]]) == [[2.0, 3.0], [-1.0, 2.0]]


@pytest.mark.parametrize("trace", [n_step, trajectory_centric_planning])
@pytest.mark.parametrize(("discount", "value"), [(0.5, 9.0), (0.0, 1.0)])
def test_one_transition_is_a_trajectory(trace: OneTrace, discount: float, value: float) -> None:
    # Q(s0, 1) = 1 + discount * max(16, 8); Q(s0, 0) = Q_theta
    trajectory = Trajectory(actions=[1], rewards=[1.0], discounts=[discount])
    assert trace(trajectory, [[7.0, 3.0], [16.0, 8.0]]) == [[7.0, value]]


# --- Algorithm 4 --------------------------------------------------------------------------------------------------

QUARTER = math.sqrt(1 / (2 * math.log(4)))  # the bandwidth with kappa = exp(-d^2 log 4) = 4^(-d^2): 1/4 at distance 1


def test_distribution_over_origin_states_and_pseudo_state() -> None:
    # kappa = 4^0 = 1, 4^-1 = 1/4; C = 3/4; their sum is 2
    assert distribution([0.0], [[0.0], [1.0]], QUARTER, 0.75) == pytest.approx([0.5, 0.125, 0.375], rel=1e-14)


def test_distribution_keeps_its_digits_among_the_smallest_numbers() -> None:
    # C = 2^-1074 is the smallest float above 0 and kappa = 1.25 C would round to it; 1.25/2.25 = 5/9, 1/2.25 = 4/9
    distance = math.sqrt(2 * (1074 * math.log(2) - math.log(1.25)))
    assert distribution([0.0], [[distance]], 1.0, 5e-324) == pytest.approx([5 / 9, 4 / 9], rel=1e-11)


@pytest.mark.parametrize(("num_sweeps", "value"), [(0, 1.2), (1, 2.2), (2, 2.45)])
def test_kbrl_sweeps_from_zero(num_sweeps: int, value: float) -> None:
    # s0 = 0 and s1 = 1; kappa(s1, s0) = 1/4 = C
    # Q(s1, 0) = [(1 + V/2)/4 + 4/4] / (1/4 + 1/4) = 2.5 + V/4; Q(s1, 1) = Q_theta = 1
    # V: 0, then 2.5 + 0 = 2.5, then 2.5 + 0.625 = 3.125
    # Q(s0, 0) = [1 + V/2 + 2/4] / (1 + 1/4) = (1.5 + V/2) / 1.25 = 1.2, 2.2, 2.45; Q(s0, 1) = Q_theta = 3
    trajectory = Trajectory(actions=[0], rewards=[1.0], discounts=[0.5])
    (q_np,) = kernel_based_rl([trajectory], [[[0.0], [1.0]]], [[[2.0, 3.0], [4.0, 1.0]]], QUARTER, 0.25, num_sweeps)
    assert q_np == [pytest.approx([value, 3.0], rel=1e-13)]


def test_kbrl_on_three_states_with_two_actions() -> None:
    # s = 0, 1, 2: action 0 at 0 (reward 1), action 1 at 1 (reward 2, terminal); C = 1/4; kappa = 1, 1/4, 1/256; d = 1/2
    # s1: Q(s1, 0) = [(1 + V/2)/4 + 8/4] / (1/2) = 4.5 + V/4;  Q(s1, 1) = [2 + 0/4] / (5/4) = 1.6
    # V(s1): 4.5 in sweep 1, 4.5 + 1.125 = 5.625 in sweep 2, 4.5 + 1.40625 = 5.90625 in sweep 3; V(s2) is never used
    # Q(s0, 0) = [1 + 2.953125 + 4/4] / (5/4) = 3.9625;        Q(s0, 1) = [2/4 + 12/4] / (1/2) = 7
    # Q(s1, 0) = 4.5 + 5.90625/4 = 5.9765625
    trajectory = Trajectory(actions=[0, 1], rewards=[1.0, 2.0], discounts=[0.5, 0.0])
    states = [[[0.0], [1.0], [2.0]]]
    (q_np,) = kernel_based_rl([trajectory], states, [[[4.0, 12.0], [8.0, 0.0], [99.0, 99.0]]], QUARTER, 0.25, 3)
    assert q_np[0] == pytest.approx([3.9625, 7.0], rel=1e-13)
    assert q_np[1] == pytest.approx([5.9765625, 1.6], rel=1e-13)


def test_kbrl_merges_trajectories_that_meet() -> None:
    # 0 --a0, 0--> 10 and, in another trajectory, 10 --a1, 8--> end; C = 1, Q_theta = 0, no other overlap
    # Q(10, 1) = (8 + 0) / 2 = 4, so V(10) = 4; Q(0, 0) = (0 + 4/2 + 0) / 2 = 1; TCP knows nothing of the 8
    reach = Trajectory(actions=[0], rewards=[0.0], discounts=[0.5])
    score = Trajectory(actions=[1], rewards=[8.0], discounts=[0.0])
    states, q_theta = [[[0.0], [10.0]], [[10.0], [0.0]]], [[[0.0, 0.0]] * 2] * 2
    assert kernel_based_rl([reach, score], states, q_theta, 1e-4, 1.0, 2) == [[[1.0, 0.0]], [[0.0, 4.0]]]
    assert trajectory_centric_planning(reach, q_theta[0]) == [[0.0, 0.0]]


def test_kbrl_averages_duplicates() -> None:
    # the same state and action, rewards 0 and 6, C = 1, Q_theta = 3: (0 + 6 + 3) / 3 = 3 in both; action 1: Q_theta
    zero, six = (Trajectory(actions=[0], rewards=[reward], discounts=[0.0]) for reward in (0.0, 6.0))
    states, q_theta = [[[5.0], [0.0]]] * 2, [[[3.0, 1.0], [0.0, 0.0]]] * 2
    assert kernel_based_rl([zero, six], states, q_theta, 1e-4, 1.0, 2) == [[pytest.approx([3.0, 1.0])]] * 2


def test_kbrl_is_trajectory_centric_planning_in_the_limit() -> None:
    terminal = Trajectory(actions=[1, 1], rewards=[-1.0, 3.0], discounts=[0.5, 0.0])
    trajectories = [THREE_STEPS, terminal]
    states = [[[0.0], [1.0], [2.0], [3.0]], [[4.0], [5.0], [6.0]]]
    q_theta = [THREE_STEPS_Q_THETA, [[1.0, 0.0], [2.0, 9.0], [50.0, 50.0]]]
    # TCP of the second: Q(s1, 1) = 3, V = max(2, 3) = 3, Q(s0, 1) = -1 + 3/2 = 0.5
    expected = [[[11.0, 3.0], [20.0, 8.0], [12.0, 1.0]], [[1.0, 0.5], [2.0, 3.0]]]
    assert [trajectory_centric_planning(x, q) for x, q in zip(trajectories, q_theta, strict=True)] == expected
    assert kernel_based_rl(trajectories, states, q_theta, 1e-4, 1e-300, num_sweeps=4) == expected
    # the bootstrap moves back by one state in each sweep: after one, V(s3) = 16 but still V(s2) = max(4 + 0/2, 1) = 4,
    # so that Q(s1, 1) = 2 + 4/2 = 4
    assert kernel_based_rl(trajectories, states, q_theta, 1e-4, 1e-300, num_sweeps=1)[0][1] == [20.0, 4.0]


def test_kbrl_far_from_the_data_is_parametric() -> None:
    # kappa(1, 0) = exp(-1 / 2e-8) underflows; V(s1) = Q_theta = 1.25e-20 exactly, though C * Q_theta is subnormal
    trajectory = Trajectory(actions=[0], rewards=[0.0], discounts=[1.0])
    q_theta = [[[0.0, -5.0], [1.25e-20, -3.0]]]
    assert kernel_based_rl([trajectory], [[[0.0], [1.0]]], q_theta, 1e-4, 1e-300, 2) == [[[1.25e-20, -5.0]]]
    # far from everything and C large: even the own transition yields to Q_theta
    q_theta = [[[7.0, -5.0], [100.0, 100.0]]]
    assert kernel_based_rl([trajectory], [[[0.0], [1.0]]], q_theta, 1e-4, 1e30, 2) == [[[pytest.approx(7.0), -5.0]]]


def test_kbrl_weighs_a_tiny_similarity_against_a_tiny_kernel() -> None:
    # kappa(s1, s0) = exp(-log 1e300) = C, so that Q(s1, 0) = [(2 + 0) + 10] / 2 = 6 after the one sweep
    # Q(s0, 0) = 2 + 6/2 = 5
    distance = 1e-4 * math.sqrt(2 * math.log(1e300))
    trajectory = Trajectory(actions=[0], rewards=[2.0], discounts=[0.5])
    (q_np,) = kernel_based_rl([trajectory], [[[0.0], [distance]]], [[[1.0], [10.0]]], 1e-4, 1e-300, 1)
    assert q_np == [[pytest.approx(5.0, rel=1e-11)]]


# --- Memory -------------------------------------------------------------------------------------------------------


def remember(
    memory: ReferenceMemory, environment: int, observation_id: int, discount: float = 0.5, terminated: bool = False
) -> None:
    """Append a moment whose action, reward and embedding follow from its observation id."""
    memory.append(
        environment,
        action=observation_id % 2,
        reward=float(observation_id),
        discount=discount,
        terminated=terminated,
        observation_id=observation_id,
        embedding=[10.0 * observation_id],
    )


def test_the_newest_moment_is_only_a_bootstrap_state() -> None:
    memory = ReferenceMemory(num_environments=1, lane_capacity=5)
    assert memory.starts() == []
    remember(memory, 0, 1)
    assert memory.starts() == []
    remember(memory, 0, 2)
    remember(memory, 0, 3)
    assert memory.starts() == [(0, 0), (0, 1)]
    trajectory = memory.trajectory(0, 0, length=50)
    assert trajectory.actions == [1, 0]
    assert trajectory.rewards == [1.0, 2.0]
    assert trajectory.discounts == [0.5, 0.5]
    assert trajectory.observation_ids == [1, 2, 3]
    assert trajectory.embeddings == [[10.0], [20.0], [30.0]]
    assert memory.transition(0, 1) == Transition(2, 0, 2.0, 0.5, next_observation_id=3)
    with pytest.raises(AssertionError):
        memory.trajectory(0, 2, length=50)


def test_a_trajectory_has_at_most_its_length() -> None:
    memory = ReferenceMemory(num_environments=1, lane_capacity=9)
    for observation_id in range(6):
        remember(memory, 0, observation_id)
    trajectory = memory.trajectory(0, 1, length=2)
    assert trajectory.rewards == [1.0, 2.0]
    assert trajectory.observation_ids == [1, 2, 3]


def test_a_termination_is_complete_and_ends_its_trajectory() -> None:
    memory = ReferenceMemory(num_environments=1, lane_capacity=9)
    remember(memory, 0, 1)
    remember(memory, 0, 2, discount=0.0, terminated=True)
    assert memory.starts() == [(0, 0), (0, 1)]
    assert memory.transition(0, 1) == Transition(2, 0, 2.0, 0.0, next_observation_id=None)
    before = memory.trajectory(0, 0, length=50)
    assert before.discounts == [0.5, 0.0]
    assert before.observation_ids == [1, 2, None]
    assert before.embeddings == [[10.0], [20.0], None]
    remember(memory, 0, 3)  # the next episode
    assert memory.trajectory(0, 0, length=50) == before
    assert memory.trajectory(0, 0, length=2) == before
    assert memory.starts() == [(0, 0), (0, 1)]


def test_a_truncation_bootstraps_from_its_closing_moment() -> None:
    memory = ReferenceMemory(num_environments=1, lane_capacity=9)
    remember(memory, 0, 1)
    remember(memory, 0, 2)
    memory.close(0, observation_id=3, embedding=[30.0])
    assert memory.starts() == [(0, 0), (0, 1)]
    before = memory.trajectory(0, 0, length=50)
    assert before.rewards == [1.0, 2.0]
    assert before.discounts == [0.5, 0.5]
    assert before.observation_ids == [1, 2, 3]
    assert before.embeddings == [[10.0], [20.0], [30.0]]
    remember(memory, 0, 4)  # the next episode
    remember(memory, 0, 5)
    assert memory.trajectory(0, 0, length=50) == before
    assert memory.starts() == [(0, 0), (0, 1), (0, 3)]
    assert memory.trajectory(0, 3, length=50).observation_ids == [4, 5]


def test_the_oldest_moments_are_forgotten() -> None:
    memory = ReferenceMemory(num_environments=1, lane_capacity=3)
    for observation_id in range(5):
        remember(memory, 0, observation_id)
    # 0 and 1 are overwritten; 2, 3, 4 survive in ring slots 2, 0, 1; 4 has no successor
    assert memory.starts() == [(0, 2), (0, 3)]
    assert [memory.slot(0, index) for index in (2, 3, 4)] == [2, 0, 1]
    assert memory.trajectory(0, 2, length=50).observation_ids == [2, 3, 4]
    with pytest.raises(AssertionError):
        memory.trajectory(0, 1, length=50)


def test_environments_do_not_mix() -> None:
    memory = ReferenceMemory(num_environments=2, lane_capacity=3)
    for observation_id in range(4):
        remember(memory, 0, observation_id)
        remember(memory, 1, 10 + observation_id)
    remember(memory, 1, 14, discount=0.0, terminated=True)
    # environment 0 keeps 1, 2, 3; environment 1 keeps 12, 13, 14, of which the last terminated
    assert memory.starts() == [(0, 1), (0, 2), (1, 2), (1, 3), (1, 4)]
    assert memory.trajectory(0, 1, length=50).observation_ids == [1, 2, 3]
    assert memory.trajectory(1, 2, length=50).observation_ids == [12, 13, 14, None]
    assert [memory.slot(*start) for start in memory.starts()] == [1, 2, 5, 3, 4]
    assert [memory.born(*start) for start in memory.starts()] == [2, 4, 5, 7, 8]
    assert memory.embedding(1, 3) == [130.0]


def test_closing_moments_are_born_and_take_a_slot() -> None:
    memory = ReferenceMemory(num_environments=1, lane_capacity=2)
    remember(memory, 0, 1)
    memory.close(0, observation_id=2, embedding=[20.0])
    assert memory.starts() == [(0, 0)]
    remember(memory, 0, 3)
    assert memory.starts() == []  # the closing moment and the newest one survive
    assert memory.born(0, 2) == 2
    assert memory.slot(0, 2) == 0


# --- Neighbours and the value buffer ------------------------------------------------------------------------------


def test_squared_distance() -> None:
    assert squared_distance([1.0, 2.0], [4.0, -2.0]) == 25.0  # 9 + 16
    with pytest.raises(ValueError, match="zip"):
        squared_distance([1.0, 2.0], [4.0])


def test_nearest_comes_first_and_ties_newest_first() -> None:
    keys = [[0.0, 3.0], [1.0, 0.0], [0.0, 0.0], [-1.0, 0.0], [0.0, 1.0]]
    born = [9, 4, 0, 8, 6]
    # squared distances to the origin: 9, 1, 0, 1, 1; the ties 1, 3, 4 were born at 4, 8, 6
    assert nearest(keys, born, [0.0, 0.0], 3) == [(2, 0.0), (3, 1.0), (4, 1.0)]
    assert nearest(keys, born, [0.0, 0.0], 9) == [(2, 0.0), (3, 1.0), (4, 1.0), (1, 1.0), (0, 9.0)]
    assert nearest([], [], [0.0, 0.0], 3) == []


def test_value_buffer_averages_the_k_nearest() -> None:
    value_buffer = ReferenceValueBuffer(capacity=3, k=2)
    value_buffer.append([0.0], [1.0, 10.0])
    assert value_buffer.read([0.0]) is None
    value_buffer.append([5.0], [3.0, 20.0])
    assert value_buffer.read([0.0]) == [2.0, 15.0]  # both
    value_buffer.append([1.0], [5.0, 60.0])
    assert value_buffer.read([0.0]) == [3.0, 35.0]  # keys 0 and 1: (1 + 5)/2, (10 + 60)/2
    assert value_buffer.read([4.0]) == [4.0, 40.0]  # keys 5 and 1: (3 + 5)/2, (20 + 60)/2


def test_value_buffer_forgets_the_oldest() -> None:
    value_buffer = ReferenceValueBuffer(capacity=2, k=1)
    for key in (0.0, 1.0, 2.0):
        value_buffer.append([key], [key])
    assert value_buffer.entries == [([1.0], [1.0]), ([2.0], [2.0])]
    assert value_buffer.read([0.0]) == [1.0]


def test_value_buffer_breaks_ties_newest_first() -> None:
    value_buffer = ReferenceValueBuffer(capacity=3, k=2)
    for value in (1.0, 2.0, 4.0):
        value_buffer.append([7.0], [value])
    assert value_buffer.read([0.0]) == [3.0]  # (2 + 4)/2


# --- Algorithm 1 --------------------------------------------------------------------------------------------------


def test_the_weight_is_on_q_np() -> None:
    assert mix([1.0, 2.0], [5.0, -2.0], 0.0) == [1.0, 2.0]
    assert mix([1.0, 2.0], [5.0, -2.0], 1.0) == [5.0, -2.0]
    assert mix([1.0, 2.0], [5.0, -2.0], 0.25) == [2.0, 1.0]  # 0.75 + 1.25, 1.5 - 0.5
    assert mix([1.0, 2.0], None, 0.25) == [1.0, 2.0]


def test_epsilon_greedy() -> None:
    q = [1.0, 3.0, 3.0]
    assert epsilon_greedy(q, epsilon=0.1, uniform_draw=0.0999, random_action=2) == 2
    assert epsilon_greedy(q, epsilon=0.1, uniform_draw=0.1, random_action=2) == 1
    assert epsilon_greedy(q, epsilon=0.0, uniform_draw=0.0, random_action=2) == 1


def test_q_learning_target() -> None:
    assert q_learning_target(1.0, 0.5, [4.0, 6.0]) == 4.0  # 1 + 6/2
    assert q_learning_target(1.0, 0.0, [4.0, 6.0]) == 1.0


def test_double_q_learning_target() -> None:
    # Q_theta prefers action 0, which Q~ values at 4
    assert double_q_learning_target(1.0, 0.5, [3.0, 2.0], [4.0, 6.0]) == 3.0  # 1 + 4/2
    assert double_q_learning_target(1.0, 0.0, [3.0, 2.0], [4.0, 6.0]) == 1.0


@pytest.mark.parametrize(
    ("error", "squared", "clipped"),
    [(0.5, 0.25, 0.125), (-1.0, 1.0, 0.5), (3.0, 9.0, 2.5), (-3.0, 9.0, 2.5)],  # 3 - 1/2
)
def test_losses(error: float, squared: float, clipped: float) -> None:
    assert squared_error(error) == squared
    assert huber(error) == clipped


def test_huber_is_linear_beyond_delta() -> None:
    assert huber(1.5, delta=2.0) == 1.125  # 2.25/2
    assert huber(3.0, delta=2.0) == 4.0  # 2 (3 - 1)


def test_mean_loss() -> None:
    predictions, targets = [1.0, 5.0], [1.5, 2.0]  # errors -0.5 and 3
    assert mean_loss(squared_error, predictions, targets) == 4.625  # (0.25 + 9)/2
    assert mean_loss(huber, predictions, targets) == 1.3125  # (0.125 + 2.5)/2
    assert mean_loss(squared_error, predictions, targets, [1.0, 0.5]) == 2.375  # (0.25 + 9/2)/2


def final_layer(embedding: list[float]) -> list[float]:
    """Return Q_theta = (h, 2)."""
    return [embedding[0], 2.0]


def two_episodes() -> ReferenceMemory:
    """Remember 1 -> 2 -> 3 (truncated) and 4 -> 5 (terminated), at embeddings ten times that, discount 1/2."""
    memory = ReferenceMemory(num_environments=1, lane_capacity=9)
    remember(memory, 0, 1)
    remember(memory, 0, 2)
    memory.close(0, observation_id=3, embedding=[30.0])
    remember(memory, 0, 4)
    remember(memory, 0, 5, discount=0.0, terminated=True)
    return memory


# The starts nearest to 35 are 40 (25) and 50 (225, as 20, but newer); the closing state at 30 (25) is none.
#   40: V(end) = 0; Q(50, 1) = 5, V = max(50, 5) = 50; action 0 at 40: 4 + 50/2 = 29, the other 2
#   50: the same end: action 1 gives 5, the other Q_theta = 50
# Then comes 20: V(30) = max(30, 2) = 30; action 0: 2 + 30/2 = 17, the other 2.
PLANNED = [([40.0], [29.0, 2.0]), ([50.0], [50.0, 5.0]), ([50.0], [50.0, 5.0]), ([20.0], [17.0, 2.0])]


def test_plan_appends_every_step_of_every_trajectory() -> None:
    value_buffer = ReferenceValueBuffer(capacity=9, k=1)
    plan([35.0], two_episodes(), value_buffer, final_layer, each(trajectory_centric_planning), 3, 50)
    assert value_buffer.entries == PLANNED


def test_plan_may_append_only_the_starts() -> None:
    value_buffer = ReferenceValueBuffer(capacity=9, k=1)
    tcp = each(trajectory_centric_planning)
    plan([35.0], two_episodes(), value_buffer, final_layer, tcp, 3, 50, start_only=True)
    assert value_buffer.entries == [PLANNED[0], PLANNED[2], PLANNED[3]]


def test_plan_stops_at_the_trajectory_length() -> None:
    # one step: action 0 at 40: 4 + max(50, 2)/2 = 29
    value_buffer = ReferenceValueBuffer(capacity=9, k=1)
    plan([35.0], two_episodes(), value_buffer, final_layer, each(trajectory_centric_planning), 1, 1)
    assert value_buffer.entries == [([40.0], [29.0, 2.0])]


def test_plan_with_the_other_traces() -> None:
    # n-step: V(50) = 5, so that action 0 at 40 gives 4 + 5/2 = 6.5
    value_buffer = ReferenceValueBuffer(capacity=9, k=1)
    plan([35.0], two_episodes(), value_buffer, final_layer, each(n_step), 1, 50)
    assert value_buffer.entries == [([40.0], [6.5, 2.0]), ([50.0], [50.0, 5.0])]
    # KBRL as TCP, with T + 1 sweeps
    value_buffer = ReferenceValueBuffer(capacity=9, k=1)
    kbrl = partial(kernel_based_rl, bandwidth=1e-4, parametric_similarity=1e-300, num_sweeps=51)
    plan([35.0], two_episodes(), value_buffer, final_layer, kbrl, 3, 50)
    assert value_buffer.entries == PLANNED


def test_plan_may_recompute_what_it_retrieves_but_searches_what_is_stored() -> None:
    # new embeddings are -id: Q_theta = (-id, 2); still 40 is found
    # action 1 at -5: 5, so V = 5; action 0 at -4: 4 + 5/2 = 6.5
    value_buffer = ReferenceValueBuffer(capacity=9, k=1)
    tcp = each(trajectory_centric_planning)
    plan([35.0], two_episodes(), value_buffer, final_layer, tcp, 1, 50, recompute=lambda o: [-float(o)])
    assert value_buffer.entries == [([-4.0], [6.5, 2.0]), ([-5.0], [-5.0, 5.0])]


def test_plan_without_memories_does_nothing() -> None:
    value_buffer = ReferenceValueBuffer(capacity=9, k=1)
    kbrl = partial(kernel_based_rl, bandwidth=1e-4, parametric_similarity=1e-2, num_sweeps=51)
    for trace in (each(n_step), kbrl):
        plan([35.0], ReferenceMemory(1, 9), value_buffer, final_layer, trace, 3, 50)
    assert value_buffer.entries == []


# --- Prioritised replay -------------------------------------------------------------------------------------------


def test_priorities_lie_one_after_the_other() -> None:
    priorities = ReferencePriorities(alpha=0.5, epsilon=1.0)
    priorities.add([2, 5, 9])
    priorities.update([2, 9], [3.0, -8.0])
    priorities.remove([5])
    assert priorities.values == {2: 2.0, 9: 3.0}  # the roots of 3 + 1 and 8 + 1
    # Halves of 5: 0.25 and 0.75 of the first are 0.625 and 1.875; of the second 3.125 and 4.375
    assert priorities.sample([0.25, 0.25]) == [2, 9]
    assert priorities.sample([0.75, 0.75]) == [2, 9]
    assert priorities.sample([0.8125, 0.0]) == [9, 9]  # 2.03125 and 2.5
    priorities.add([7])
    assert priorities.values[7] == 3.0


def test_importance_weights() -> None:
    priorities = ReferencePriorities(alpha=1.0, epsilon=1.0)
    priorities.add([0, 1, 2])
    priorities.update([1, 2], [1.0, 4.0])
    # P = 1/8, 2/8, 5/8; (3 P)^-1 = 8/3, 8/6, 8/15
    assert priorities.importance_weights([0, 1, 2], beta=1.0) == pytest.approx([1.0, 0.5, 0.2])
    assert priorities.importance_weights([1, 2], beta=1.0) == pytest.approx([1.0, 0.4])
    assert priorities.importance_weights([0, 1], beta=0.5) == pytest.approx([1.0, math.sqrt(0.5)])
