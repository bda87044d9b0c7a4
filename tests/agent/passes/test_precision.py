"""Updates in bfloat16: as precise as its 8 bits allow, and float32 everywhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from eva.agent.learner import Learner
from eva.agent.network import QNetwork, differentiate
from eva.agent.optimisers import OPTIMISERS
from eva.types import Batch
from tests.agent.test_learner import RATE
from tests.helpers.agents import ran, tiny
from tests.helpers.strategies import generators

ROUNDOFF = 2.0**-8  # the largest relative error of rounding to 8 bits


def build(num_convolutions: int = 3) -> QNetwork:
    return QNetwork(
        (4, 36, 36),
        3,
        channels=(4, 8, 8)[:num_convolutions],
        filter_sizes=(8, 4, 3)[:num_convolutions],
        strides=(4, 2, 1)[:num_convolutions],
        hidden_sizes=(),
        embedding_size=16,
        white=255,
        generator=np.random.default_rng(0),
    )


def learner(precision: torch.dtype, **fields: Any) -> Learner:
    network = build()
    optimiser = OPTIMISERS["adam"](network.named_parameters())
    given_fields = {"error": "huber", "target_period_updates": 2, "double": False, **fields}
    return Learner(network, optimiser, learning_rate=RATE, precision=precision, **given_fields)


def batch(seed: int, num: int = 6) -> Batch:
    generator = np.random.default_rng(seed)
    images = torch.tensor(generator.integers(256, size=(2, num, 4, 36, 36), dtype=np.uint8))
    floats = torch.tensor(generator.random((2, num)), dtype=torch.float32)
    return Batch(images[0], torch.tensor(generator.integers(3, size=num)), floats[0], floats[1], images[1])


def passes(
    network: QNetwork, images: Tensor, gradient: Tensor, dtype: torch.dtype
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Return Q_theta, embeddings and gradients."""
    network.zero_grad()
    q, h, backward = differentiate(network, images, dtype)
    backward(gradient)
    return q, h, [parameter.grad for parameter in network.parameters() if parameter.grad is not None]


@settings(max_examples=20, deadline=None)
@given(generator=generators, num_convolutions=st.integers(0, 3), num=st.integers(1, 5))
def test_errors_are_bounded_by_the_number_of_roundings(
    generator: np.random.Generator, num_convolutions: int, num: int
) -> None:
    """Where all terms are positive, a rounding changes a result by at most its relative error.

    Each layer rounds its parameters and its result, forwards and backwards; the gradient of the values is rounded once.
    Bytes are exact.
    """
    network = build(num_convolutions)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.abs_()
    images = torch.tensor(generator.integers(256, size=(num, 4, 36, 36), dtype=np.uint8))
    gradient = torch.tensor(generator.random((num, 3)), dtype=torch.float32)
    low, exact = (passes(network, images, gradient, dtype) for dtype in (torch.bfloat16, torch.float32))
    roundings = 2 * (num_convolutions + 1) + 3
    limit = (1 + ROUNDOFF) ** roundings - 1
    for mine, expected in zip((*low[:2], *low[2]), (*exact[:2], *exact[2]), strict=True):
        assert mine.dtype == torch.float32
        assert ((mine - expected).abs() <= limit * expected.abs() + 1e-12).all()
    assert not torch.equal(low[1], exact[1])


def test_everything_but_the_layers_stays_in_float32() -> None:
    mine = learner(torch.bfloat16)
    for seed in range(3):
        update = mine.update(batch(seed))
    assert {update.loss.dtype, update.errors.dtype, update.embeddings.dtype} == {torch.float32}
    assert mine.targets(batch(3)).dtype == torch.float32
    tensors = [*mine.network.parameters(), *mine.target_network.parameters()]
    tensors += [tensor for state in mine.optimiser.state_dict().values() for tensor in state.values()]
    assert {tensor.dtype for tensor in tensors} == {torch.float32}
    before = [parameter.clone() for parameter in mine.network.parameters()]
    mine.optimiser.step(1e-6)  # far below what bfloat16 can add to a weight
    assert any(not torch.equal(p, old) for p, old in zip(mine.network.parameters(), before, strict=True))


@pytest.mark.parametrize("double", [False, True])
def test_both_networks_compute_in_bfloat16(double: bool) -> None:
    low, high = (learner(dtype, double=double) for dtype in (torch.bfloat16, torch.float32))
    first = batch(0)
    targets = [each.targets(first) for each in (low, high)]
    assert not torch.equal(*targets)
    torch.testing.assert_close(*targets, rtol=0.05, atol=0.01)
    updates = [each.update(first) for each in (low, high)]
    assert not torch.equal(updates[0].embeddings, updates[1].embeddings)
    torch.testing.assert_close(updates[0].errors, updates[1].errors, rtol=0.05, atol=0.02)


def test_updates_in_float32_are_those_of_plain_torch_to_the_bit() -> None:
    network = QNetwork(
        (4, 84, 84),
        3,
        channels=(16, 32),
        filter_sizes=(8, 4),
        strides=(4, 2),
        hidden_sizes=(),
        embedding_size=16,
        white=1,
        generator=np.random.default_rng(0),
    )
    assert network.passes is None
    layers = nn.Sequential(*network.torso, network.head)
    images = torch.tensor(np.random.default_rng(0).integers(256, size=(5, 4, 84, 84), dtype=np.uint8))
    gradient = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    layers(images.to(torch.float32, memory_format=torch.channels_last)).backward(gradient)
    expected = [parameter.grad for parameter in network.parameters()]
    for mine, theirs in zip(passes(network, images, gradient, torch.float32)[2], expected, strict=True):
        assert torch.equal(mine, theirs)


def test_agents_act_and_remember_in_float32() -> None:
    """Before the first update they are the same; the learner's precision matters only there."""
    low, high = (ran(tiny(learner={"precision": name}), 16) for name in ("bfloat16", "float32"))
    assert torch.equal(low.replay.embeddings, high.replay.embeddings)
    assert low.replay.embeddings.dtype == torch.float32
    low, high = (ran(tiny(learner={"precision": name}), 40) for name in ("bfloat16", "float32"))
    assert not torch.equal(low.learner.network.head.weight, high.learner.network.head.weight)
