from __future__ import annotations

import dataclasses
import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from eva.agent.kbrl import kernel_based_rl
from eva.agent.traces import trajectory_centric_planning
from eva.types import Trajectories
from tests.helpers.reference import kbrl as reference
from tests.helpers.strategies import TrajectoryCase, trajectory_cases

BANDWIDTHS = [1e-4, 1e-2, 1.0, 10.0]
bandwidths_and_cases = st.sampled_from(BANDWIDTHS).flatmap(
    lambda b: st.tuples(st.just(b), trajectory_cases(spreads=(b, 10 * b, 40 * b)))
)
similarities = st.sampled_from([1e-300, 1e-100, 1e-2, 1.0, 10.0])


def expected_q_np(case: TrajectoryCase, bandwidth: float, similarity: float) -> np.ndarray:
    """Ask the oracle for one plan at a time."""
    num, length = case.trajectories.actions.shape
    result: list[np.ndarray] = [np.empty(0)] * num
    for plan in set(case.trajectories.plans.tolist()):
        places = case.of_plan(plan)
        remembered, embeddings, q_theta = (
            [x[m] for m in places] for x in (case.remembered, case.embedding_lists, case.q_theta_lists)
        )
        q_np = reference.kernel_based_rl(remembered, embeddings, q_theta, bandwidth, similarity, length + 1)
        for m, values in zip(places, q_np, strict=True):
            result[m] = case.padded(values)
    return np.stack(result)


@settings(max_examples=400)
@given(bandwidth_and_case=bandwidths_and_cases, similarity=similarities)
def test_kbrl_matches_the_paper(bandwidth_and_case: tuple[float, TrajectoryCase], similarity: float) -> None:
    bandwidth, case = bandwidth_and_case
    valid, before = case.trajectories.valid, [x.tobytes() for x in case.arrays()]
    q_np = kernel_based_rl(
        case.trajectories, case.q_theta, case.embeddings, bandwidth=bandwidth, parametric_similarity=similarity
    )
    np.testing.assert_allclose(q_np[valid], expected_q_np(case, bandwidth, similarity)[valid], rtol=1e-10, atol=1e-10)
    assert [x.tobytes() for x in case.arrays()] == before


@settings(max_examples=40)
@given(case=trajectory_cases(dtype=np.float32, spreads=(1e-4,)), similarity=similarities)
def test_kbrl_accepts_single_precision(case: TrajectoryCase, similarity: float) -> None:
    valid = case.trajectories.valid
    q_np = kernel_based_rl(
        case.trajectories, case.q_theta, case.embeddings, bandwidth=1e-4, parametric_similarity=similarity
    )
    assert q_np.dtype == np.float32
    np.testing.assert_allclose(q_np[valid], expected_q_np(case, 1e-4, similarity)[valid], rtol=1e-5, atol=1e-5)


def test_subnormal_similarity() -> None:
    # kappa(s1, s0) = 1.25 C, which would round to C: Q(s1) = [1.25 (2 + 0) + 10] / 2.25 = 50/9 in the first sweep and
    # [1.25 (2 + 25/9) + 10] / 2.25 = 575/81 in the second, so that Q(s0) = 2 + 575/162
    distance = math.sqrt(2 * (1074 * math.log(2) - math.log(1.25)))
    trajectory = Trajectories(
        plans=np.zeros(1, np.int64),
        slots=np.zeros((1, 2), np.int64),
        actions=np.zeros((1, 1), np.int64),
        rewards=np.full((1, 1), 2.0),
        discounts=np.full((1, 1), 0.5),
        valid=np.ones((1, 1), np.bool_),
    )
    q_theta, embeddings = np.array([[[1.0], [10.0]]]), np.array([[[0.0], [distance]]])
    q_np = kernel_based_rl(trajectory, q_theta, embeddings, bandwidth=1.0, parametric_similarity=2.0**-1074)
    np.testing.assert_allclose(q_np, [[[2 + 575 / 162]]], rtol=1e-11)


@settings(max_examples=40)
@given(case=trajectory_cases(), similarity=similarities)
def test_plans_are_independent(case: TrajectoryCase, similarity: float) -> None:
    def q_np(rows: list[int]) -> np.ndarray:
        trajectories = Trajectories(**{name: x[rows] for name, x in vars(case.trajectories).items()})
        return kernel_based_rl(
            trajectories, case.q_theta[rows], case.embeddings[rows], bandwidth=1.0, parametric_similarity=similarity
        )[trajectories.valid]

    together = q_np(list(range(len(case.remembered))))
    plans = np.repeat(case.trajectories.plans, case.trajectories.valid.sum(axis=1))
    for plan in set(plans.tolist()):
        np.testing.assert_array_equal(together[plans == plan], q_np(case.of_plan(plan)))


@settings(max_examples=40)
@given(case=trajectory_cases())
def test_kbrl_of_distinct_states_is_trajectory_centric_planning(case: TrajectoryCase) -> None:
    apart = np.arange(case.embeddings.size, dtype=np.float64).reshape(case.embeddings.shape)
    q_np = kernel_based_rl(case.trajectories, case.q_theta, apart, bandwidth=1e-4, parametric_similarity=1e-300)
    valid = case.trajectories.valid
    expected = trajectory_centric_planning(case.trajectories, case.q_theta)
    np.testing.assert_allclose(q_np[valid], expected[valid], rtol=1e-12, atol=1e-12)


def test_kbrl_at_the_papers_size() -> None:
    generator = np.random.default_rng(0)
    num, length, num_actions, embedding_size = 10, 50, 4, 64
    trajectories = Trajectories(
        plans=np.zeros(num, np.int64),
        slots=np.zeros((num, length + 1), np.int64),
        actions=generator.integers(num_actions, size=(num, length)),
        rewards=generator.standard_normal((num, length), dtype=np.float32),
        discounts=np.full((num, length), 0.99, np.float32),
        valid=np.ones((num, length), np.bool_),
    )
    q_theta = generator.standard_normal((num, length + 1, num_actions), dtype=np.float32)
    embeddings = generator.standard_normal((num, length + 1, embedding_size), dtype=np.float32)
    # no two states are alike, so that every kernel but a state's own is lost beside C = 1e-2:
    # Q(s_t, a_t) = (r_t + 0.99 V(s_{t+1}) + C Q_theta) / (1 + C), Q(s_t, a) = Q_theta elsewhere
    q_theta_taken = np.take_along_axis(q_theta[:, :-1], trajectories.actions[:, :, None], axis=2)[:, :, 0]
    mixed = dataclasses.replace(
        trajectories,
        rewards=(trajectories.rewards + 0.01 * q_theta_taken) / 1.01,
        discounts=trajectories.discounts / 1.01,
    )
    q_np = kernel_based_rl(trajectories, q_theta, embeddings, bandwidth=1e-4, parametric_similarity=1e-2)
    assert np.isfinite(q_np).all()
    np.testing.assert_allclose(q_np, trajectory_centric_planning(mixed, q_theta), rtol=1e-4, atol=1e-4)
