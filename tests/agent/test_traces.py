from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings

from eva.agent import traces
from tests.helpers.reference import traces as reference
from tests.helpers.strategies import TrajectoryCase, trajectory_cases

BOTH = pytest.mark.parametrize("name", ["n_step", "trajectory_centric_planning"])


def trace_and_oracle(name: str) -> tuple[Callable, Callable]:
    return getattr(traces, name), getattr(reference, name)


def expected_q_np(case: TrajectoryCase, oracle: Callable) -> np.ndarray:
    """Ask the oracle for one trajectory at a time."""
    return np.stack(
        [case.padded(oracle(x, q_theta)) for x, q_theta in zip(case.remembered, case.q_theta_lists, strict=True)]
    )


@BOTH
@settings(max_examples=300)
@given(case=trajectory_cases())
def test_traces_match_the_paper(name: str, case: TrajectoryCase) -> None:
    trace, oracle = trace_and_oracle(name)
    valid = case.trajectories.valid
    q_np = trace(case.trajectories, case.q_theta)
    assert q_np.shape == (*valid.shape, case.q_theta.shape[2])
    assert q_np.dtype == np.float64
    np.testing.assert_allclose(q_np[valid], expected_q_np(case, oracle)[valid], rtol=1e-12, atol=1e-12)


@BOTH
@settings(max_examples=50)
@given(case=trajectory_cases(dtype=np.float32))
def test_traces_keep_single_precision(name: str, case: TrajectoryCase) -> None:
    trace, oracle = trace_and_oracle(name)
    valid = case.trajectories.valid
    q_np = trace(case.trajectories, case.q_theta)
    assert q_np.dtype == np.float32
    np.testing.assert_allclose(q_np[valid], expected_q_np(case, oracle)[valid], rtol=1e-5, atol=1e-5)


@BOTH
@settings(max_examples=50)
@given(case=trajectory_cases(dtype=np.float32))
def test_actions_not_taken_keep_q_theta_to_the_bit(name: str, case: TrajectoryCase) -> None:
    trace, _ = trace_and_oracle(name)
    q_np = trace(case.trajectories, case.q_theta)
    not_taken = case.trajectories.actions[:, :, None] != np.arange(q_np.shape[2])
    assert q_np[not_taken].tobytes() == case.q_theta[:, :-1][not_taken].tobytes()


@BOTH
@settings(max_examples=50)
@given(case=trajectory_cases())
def test_traces_do_not_change_their_arguments(name: str, case: TrajectoryCase) -> None:
    trace, _ = trace_and_oracle(name)
    before = [x.tobytes() for x in case.arrays()]
    q_np = trace(case.trajectories, case.q_theta)
    q_np[...] = 7.0  # nor is the result a view of them
    assert [x.tobytes() for x in case.arrays()] == before
