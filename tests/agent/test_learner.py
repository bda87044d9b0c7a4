from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from eva.agent.exploration import LinearSchedule
from eva.agent.learner import Learner
from eva.agent.network import QNetwork
from eva.agent.optimisers import OPTIMISERS
from eva.types import Batch
from tests.helpers.agents import same_learning
from tests.helpers.reference.agent import double_q_learning_target, huber, mean_loss, q_learning_target, squared_error
from tests.helpers.strategies import generators

RATE = LinearSchedule(0.01, 0.01)
BOTH_RULES = pytest.mark.parametrize("double", [False, True], ids=["single", "double"])
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
        self,
        generator: np.random.Generator,
        error: str = "squared",
        target_period_updates: int = 100,
        double: bool = False,
        learning_rate: LinearSchedule = RATE,
        optimiser: str = "adam",
        epsilon: float = 1e-8,
        max_gradient_norm: float | None = None,
    ) -> None:
        self.generator = generator
        self.double = double
        network = LinearNetwork(torch.tensor(generator.standard_normal((3, 2))))
        self.learner = Learner(
            network,
            OPTIMISERS[optimiser](network.named_parameters(), epsilon),
            max_gradient_norm=max_gradient_norm,
            learning_rate=learning_rate,
            error=error,
            target_period_updates=target_period_updates,
            double=double,
        )
        with torch.no_grad():  # so that it matters which network a value or a choice comes from
            self.learner.target_network.weight += torch.tensor(1 + generator.standard_normal((3, 2)))

    def batch(self, size: int, weighted: bool = False) -> Batch:
        draw = self.generator.standard_normal
        return Batch(
            observations=torch.tensor(draw((size, 2))),
            actions=torch.tensor(self.generator.integers(3, size=size)),
            rewards=torch.tensor(draw(size)),
            discounts=torch.tensor(self.generator.choice([0.0, 0.99], size)),
            next_observations=torch.tensor(draw((size, 2))),
            importance_weights=torch.tensor(self.generator.random(size)) if weighted else None,
        )

    def expected_targets(self, batch: Batch) -> list[float]:
        rewards, discounts = batch.rewards.tolist(), batch.discounts.tolist()
        target_q = (batch.next_observations @ self.learner.target_network.weight.T).tolist()
        online_q = (batch.next_observations @ self.learner.network.weight.T).tolist()
        if self.double:
            return list(map(double_q_learning_target, rewards, discounts, online_q, target_q))
        return list(map(q_learning_target, rewards, discounts, target_q))

    def predictions(self, batch: Batch) -> list[float]:
        q = (batch.observations @ self.learner.network.weight.T).tolist()
        return [row[action] for row, action in zip(q, batch.actions.tolist(), strict=True)]


@BOTH_RULES
@settings(max_examples=50)
@given(generator=generators, size=st.integers(1, 6))
def test_targets_match_the_paper(double: bool, generator: np.random.Generator, size: int) -> None:
    case = LearnerCase(generator, double=double)
    batch = case.batch(size)
    targets = case.learner.targets(batch)
    assert not targets.requires_grad
    assert targets.tolist() == pytest.approx(case.expected_targets(batch), rel=1e-12)


@BOTH_RULES
def test_after_a_termination_the_next_observation_is_ignored(double: bool) -> None:
    case = LearnerCase(np.random.default_rng(0), double=double)
    batch = replace(case.batch(4), discounts=torch.zeros(4, dtype=torch.float64))
    assert case.learner.targets(batch).tolist() == batch.rewards.tolist()


@LOSSES
@settings(max_examples=50)
@given(generator=generators, size=st.integers(1, 6))
def test_losses_match_the_paper(
    error: str, loss: Callable[[float], float], generator: np.random.Generator, size: int
) -> None:
    case = LearnerCase(generator, error)
    batch = case.batch(size)
    expected = mean_loss(loss, case.predictions(batch), case.expected_targets(batch))
    assert case.learner.update(batch).loss.item() == pytest.approx(expected, rel=1e-12)


@LOSSES
@BOTH_RULES
@settings(max_examples=25)
@given(generator=generators, size=st.integers(1, 6))
def test_weights_scale_the_losses_and_errors_are_returned(
    error: str, loss: Callable[[float], float], double: bool, generator: np.random.Generator, size: int
) -> None:
    case = LearnerCase(generator, error, double=double)
    batch = case.batch(size, weighted=True)
    predictions, targets = case.predictions(batch), case.expected_targets(batch)
    expected = mean_loss(loss, predictions, targets, batch.importance_weights.tolist())
    update = case.learner.update(batch)
    assert update.loss.item() == pytest.approx(expected, rel=1e-12)
    errors = [prediction - target for prediction, target in zip(predictions, targets, strict=True)]
    assert update.errors.tolist() == pytest.approx(errors, rel=1e-9)


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


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("error", ["squared", "huber"])
@settings(max_examples=25)
@given(generator=generators, size=st.integers(1, 5))
def test_updates_are_steps_of_adam(error: str, weighted: bool, generator: np.random.Generator, size: int) -> None:
    case = LearnerCase(generator, error)
    weight = case.learner.network.weight.tolist()
    adams = [[ReferenceAdam() for _ in row] for row in weight]
    for _ in range(3):
        batch = case.batch(size, weighted)
        gradient = np.zeros((3, 2))
        importance = batch.importance_weights.tolist() if weighted else [1.0] * size
        states, actions = batch.observations.tolist(), batch.actions.tolist()
        for s, a, target, share in zip(states, actions, case.expected_targets(batch), importance, strict=True):
            prediction = sum(w * x for w, x in zip(weight[a], s, strict=True))
            gradient[a] += share * slope(error, prediction - target) * np.array(s) / size
        weight = [
            [adams[a][i].step(w, float(gradient[a, i])) for i, w in enumerate(row)] for a, row in enumerate(weight)
        ]
        case.learner.update(batch)
        np.testing.assert_allclose(case.learner.network.weight.tolist(), weight, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("name", "torchs"),
    [
        ("adam", partial(torch.optim.Adam, fused=True)),
        ("rmsprop", partial(torch.optim.RMSprop, alpha=0.95, centered=True)),
    ],
)
def test_optimisers_are_bit_identical_to_torch(name: str, torchs: Callable[..., torch.optim.Optimizer]) -> None:
    generator = torch.Generator().manual_seed(0)
    shapes = [(4, 3, 2, 2), (4,), (1,)]
    ours, theirs = ([nn.Parameter(torch.ones(shape)) for shape in shapes] for _ in range(2))
    optimisers = (
        OPTIMISERS[name]((str(i), parameter) for i, parameter in enumerate(ours)),
        torchs(theirs, 0.1),
    )
    for rate in (0.1, 0.1, 0.02):
        for our, their in zip(ours, theirs, strict=True):
            our.grad = torch.randn(our.shape, generator=generator)
            their.grad = our.grad.clone()
        optimisers[0].step(rate)
        optimisers[1].param_groups[0]["lr"] = rate
        optimisers[1].step()
        assert all(map(torch.equal, ours, theirs))
    optimisers[0].zero_grad()
    assert all(parameter.grad is None for parameter in ours)


@settings(max_examples=25)
@given(generator=generators, epsilon=st.sampled_from([1e-8, 1e-2]))
def test_rmsprop_is_centred_with_dqns_decay(generator: np.random.Generator, epsilon: float) -> None:
    case = LearnerCase(generator, optimiser="rmsprop", epsilon=epsilon)
    parameter = case.learner.network.weight
    expected, square, mean = parameter.detach().clone(), torch.zeros(3, 2), torch.zeros(3, 2)
    for _ in range(3):
        case.learner.update(case.batch(4))
        gradient = parameter.grad
        square = 0.95 * square + 0.05 * gradient**2
        mean = 0.95 * mean + 0.05 * gradient
        expected = expected - 0.01 * gradient / ((square - mean**2).sqrt() + epsilon)
        torch.testing.assert_close(parameter.detach(), expected)


def test_adam_adds_its_epsilon_to_the_denominator() -> None:
    parameters = [nn.Parameter(torch.ones(3)) for _ in range(2)]
    ours = OPTIMISERS["adam"]([("w", parameters[0])], 0.5)
    theirs = torch.optim.Adam([parameters[1]], 0.1, eps=0.5, fused=True)
    for parameter in parameters:
        parameter.grad = torch.tensor([1.0, -2.0, 0.1])
    ours.step(0.1)
    theirs.step()
    assert torch.equal(*parameters)


@pytest.mark.parametrize("optimiser", list(OPTIMISERS))
def test_restored_optimisers_continue_bit_identically(optimiser: str) -> None:
    first, second = (LearnerCase(np.random.default_rng(seed), optimiser=optimiser) for seed in (0, 1))
    for _ in range(3):
        first.learner.update(first.batch(4))
    second.learner.load_state_dict(first.learner.state_dict())
    for batch in [first.batch(4) for _ in range(3)]:
        first.learner.update(batch)
        second.learner.update(batch)
    assert same_learning(first.learner, second.learner)


@given(generator=generators, limit=st.floats(0.01, 10))
def test_large_gradients_are_clipped_to_the_maximal_norm(generator: np.random.Generator, limit: float) -> None:
    seed = int(generator.integers(2**31))
    free, limited = (LearnerCase(np.random.default_rng(seed), max_gradient_norm=norm) for norm in (None, limit))
    batch = free.batch(4)
    for case in (free, limited):
        case.learner.update(batch)
    gradient, clipped = free.learner.network.weight.grad, limited.learner.network.weight.grad
    scale = min(1.0, limit / float(gradient.norm()))
    torch.testing.assert_close(clipped, gradient * scale, rtol=1e-4, atol=1e-9)


def test_the_learning_rate_decays_by_updates() -> None:
    case = LearnerCase(np.random.default_rng(0), learning_rate=LinearSchedule(0.01, 0.001, duration=3))
    learner, rates = case.learner, []
    step = learner.optimiser.step
    learner.optimiser.step = lambda rate: (rates.append(rate), step(rate))[-1]  # type: ignore[method-assign]
    for _ in range(5):
        learner.update(case.batch(4))
    assert rates == pytest.approx([0.01, 0.007, 0.004, 0.001, 0.001])


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


def test_target_network_starts_as_a_copy() -> None:
    network = LinearNetwork(torch.ones(3, 2, dtype=torch.float64))
    learner = Learner(
        network,
        OPTIMISERS["adam"](network.named_parameters()),
        learning_rate=RATE,
        error="squared",
        target_period_updates=2,
        double=False,
    )
    assert learner.network is network
    assert torch.equal(learner.target_network.weight, network.weight)
    assert learner.target_network.weight.data_ptr() != network.weight.data_ptr()


def test_update_does_not_change_its_batch() -> None:
    case = LearnerCase(np.random.default_rng(0))
    batch = case.batch(5, weighted=True)
    before = {name: x.clone() for name, x in vars(batch).items()}
    case.learner.update(batch)
    assert all(torch.equal(x, before[name]) and not x.requires_grad for name, x in vars(batch).items())


@BOTH_RULES
def test_update_returns_the_embeddings_of_its_forward_pass(double: bool) -> None:
    """They are those of the states, not of their successors, by the parameters before the step; gradients end there."""
    learner, generator = image_learner(double), np.random.default_rng(0)
    images = torch.tensor(generator.integers(256, size=(2, 5, 4, 9, 8), dtype=np.uint8))
    ones = torch.ones(5)
    batch = Batch(images[0], torch.tensor(generator.integers(3, size=5)), ones, ones, images[1])
    before, passes = copy.deepcopy(learner.network), []
    learner.network.register_forward_hook(lambda *_: passes.append("network"))
    update = learner.update(batch)
    with torch.no_grad():
        expected, now = (network(batch.observations.float())[1] for network in (before, learner.network))
    assert torch.equal(update.embeddings, expected)
    assert not torch.equal(update.embeddings, now)
    assert passes == ["network"] * (2 + double)  # once for the values, for now, and to choose the next actions
    assert not any(x.requires_grad for x in vars(update).values())


@BOTH_RULES
def test_learning_from_bytes_equals_learning_from_floats(double: bool) -> None:
    """One scratch buffer serves all batches; channels last in memory, and the last batch is smaller."""
    generator = np.random.default_rng(0)
    from_bytes, from_floats = (image_learner(double) for _ in range(2))
    buffers = []
    for size in (5, 5, 5, 3):
        images = torch.tensor(generator.integers(256, size=(2, size, 9, 8, 4), dtype=np.uint8)).permute(0, 1, 4, 2, 3)
        batch = Batch(
            observations=images[0],
            actions=torch.tensor(generator.integers(3, size=size)),
            rewards=torch.ones(size),
            discounts=torch.ones(size),
            next_observations=images[1],
        )
        from_bytes.update(batch)
        from_floats.update(replace(batch, observations=images[0].float(), next_observations=images[1].float()))
        assert same_learning(from_bytes, from_floats)
        buffers.append((from_bytes._floats.data_ptr(), len(from_bytes._floats)))
    assert buffers[0] == buffers[1] == buffers[2] == (buffers[0][0], 5)
    assert buffers[3][1] == 3


def image_learner(double: bool) -> Learner:
    network = QNetwork(
        (4, 9, 8),
        3,
        channels=(5,),
        filter_sizes=(3,),
        strides=(2,),
        hidden_sizes=(),
        embedding_size=6,
        white=255,
        generator=np.random.default_rng(1),
    )
    return Learner(
        network,
        OPTIMISERS["adam"](network.named_parameters()),
        learning_rate=RATE,
        error="huber",
        target_period_updates=2,
        double=double,
    )
