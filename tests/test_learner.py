from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from eva.agent.learner import Learner
from eva.types import Batch
from tests.reference.agent import huber, mean_loss, q_learning_target, squared_error
from tests.strategies import generators

LOSSES = pytest.mark.parametrize(("error", "loss"), [("squared", squared_error), ("huber", huber)])


class LinearNetwork(nn.Module):
    """Q_theta(s, .) = W s, in double precision."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight.clone())

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        return observations @ self.weight.T, observations


class LearnerCase:
    """A learner of W, and batches of two coordinates and three actions."""

    def __init__(
        self, generator: np.random.Generator, error: str = "squared", target_period_updates: int = 100
    ) -> None:
        self.generator = generator
        self.learner = Learner(
            LinearNetwork(torch.tensor(generator.standard_normal((3, 2)))),
            learning_rate=0.01,
            error=error,
            target_period_updates=target_period_updates,
        )
        with torch.no_grad():
            self.learner.target_network.weight += 1  # so that it matters which network a value comes from

    def batch(self, size: int) -> Batch:
        draw = self.generator.standard_normal
        return Batch(
            observations=torch.tensor(draw((size, 2))),
            actions=torch.tensor(self.generator.integers(3, size=size)),
            rewards=torch.tensor(draw(size)),
            discounts=torch.tensor(self.generator.choice([0.0, 0.99], size)),
            next_observations=torch.tensor(draw((size, 2))),
        )

    def expected_targets(self, batch: Batch) -> list[float]:
        next_q = (batch.next_observations @ self.learner.target_network.weight.T).tolist()
        return [
            q_learning_target(*x) for x in zip(batch.rewards.tolist(), batch.discounts.tolist(), next_q, strict=True)
        ]


@settings(max_examples=50)
@given(generator=generators, size=st.integers(1, 6))
def test_targets_are_the_papers(generator: np.random.Generator, size: int) -> None:
    case = LearnerCase(generator)
    batch = case.batch(size)
    targets = case.learner.targets(batch)
    assert not targets.requires_grad
    assert targets.tolist() == pytest.approx(case.expected_targets(batch), rel=1e-12)


def test_after_a_termination_the_next_observation_is_ignored() -> None:
    case = LearnerCase(np.random.default_rng(0))
    batch = replace(case.batch(4), discounts=torch.zeros(4, dtype=torch.float64))
    assert case.learner.targets(batch).tolist() == batch.rewards.tolist()


@LOSSES
@settings(max_examples=50)
@given(generator=generators, size=st.integers(1, 6))
def test_losses_are_the_papers(
    error: str, loss: Callable[[float], float], generator: np.random.Generator, size: int
) -> None:
    case = LearnerCase(generator, error)
    batch = case.batch(size)
    q = (batch.observations @ case.learner.network.weight.T).tolist()
    predictions = [row[action] for row, action in zip(q, batch.actions.tolist(), strict=True)]
    expected = mean_loss(loss, predictions, case.expected_targets(batch))
    assert case.learner.update(batch).item() == pytest.approx(expected, rel=1e-12)


class ReferenceAdam:
    """Adam for one number, as published: rate 0.01, decays 0.9 and 0.999, epsilon 1e-8."""

    def __init__(self) -> None:
        self.m = self.v = 0.0
        self.num_steps = 0

    def step(self, parameter: float, gradient: float) -> float:
        self.num_steps += 1
        self.m = 0.9 * self.m + 0.1 * gradient
        self.v = 0.999 * self.v + 0.001 * gradient**2
        m, v = self.m / (1 - 0.9**self.num_steps), self.v / (1 - 0.999**self.num_steps)
        return parameter - 0.01 * m / (v**0.5 + 1e-8)


def slope(error: str, difference: float) -> float:
    """Return the derivative of the loss."""
    return 2 * difference if error == "squared" else max(-1.0, min(1.0, difference))


@pytest.mark.parametrize("error", ["squared", "huber"])
@settings(max_examples=25)
@given(generator=generators, size=st.integers(1, 5))
def test_updates_are_steps_of_adam(error: str, generator: np.random.Generator, size: int) -> None:
    case = LearnerCase(generator, error)
    weight = case.learner.network.weight.tolist()
    adams = [[ReferenceAdam() for _ in row] for row in weight]
    for _ in range(3):
        batch = case.batch(size)
        gradient = np.zeros((3, 2))
        rows = zip(batch.observations.tolist(), batch.actions.tolist(), case.expected_targets(batch), strict=True)
        for s, a, target in rows:
            prediction = sum(w * x for w, x in zip(weight[a], s, strict=True))
            gradient[a] += slope(error, prediction - target) * np.array(s) / size
        weight = [
            [adams[a][i].step(w, float(gradient[a, i])) for i, w in enumerate(row)] for a, row in enumerate(weight)
        ]
        case.learner.update(batch)
        np.testing.assert_allclose(case.learner.network.weight.tolist(), weight, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("period", [1, 3])
def test_the_target_network_is_copied_after_every_period(period: int) -> None:
    case = LearnerCase(np.random.default_rng(0), target_period_updates=period)
    learner = case.learner
    expected = learner.target_network.weight.clone()
    for update in range(1, 8):
        learner.update(case.batch(4))
        assert learner.num_updates == update
        if update % period == 0:
            expected = learner.network.weight.detach().clone()
        assert torch.equal(learner.target_network.weight, expected)


def test_at_first_the_target_network_is_a_copy() -> None:
    network = LinearNetwork(torch.ones(3, 2, dtype=torch.float64))
    learner = Learner(network, learning_rate=0.01, error="squared", target_period_updates=2)
    assert learner.network is network
    assert torch.equal(learner.target_network.weight, network.weight)
    assert learner.target_network.weight.data_ptr() != network.weight.data_ptr()


def test_an_update_leaves_its_batch_alone() -> None:
    case = LearnerCase(np.random.default_rng(0))
    batch = case.batch(5)
    before = {name: x.clone() for name, x in vars(batch).items()}
    loss = case.learner.update(batch)
    assert not loss.requires_grad
    assert all(torch.equal(x, before[name]) and not x.requires_grad for name, x in vars(batch).items())
