"""The passes of small networks give autograd's values and gradients: exactly where nothing is rounded."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from eva.agent.network import QNetwork, convolved_size, differentiate
from tests.helpers.strategies import generators

MAZE, MINATAR, ATARI = (7, 15, 3), (10, 10, 7), (4, 84, 84)


def build(
    shape: tuple[int, ...] = MAZE,
    channels: tuple[int, ...] = (16, 32),
    filter_sizes: tuple[int, ...] = (3, 3),
    strides: tuple[int, ...] = (1, 2),
    embedding_size: int = 64,
    white: float = 255,
) -> QNetwork:
    return QNetwork(
        shape,
        4,
        channels=channels,
        filter_sizes=filter_sizes,
        strides=strides,
        hidden_sizes=(6,),
        embedding_size=embedding_size,
        white=white,
        generator=np.random.default_rng(0),
    )


def images(shape: tuple[int, ...], num: int = 5, seed: int = 0) -> Tensor:
    return torch.tensor(np.random.default_rng(seed).integers(256, size=(num, *shape), dtype=np.uint8))


def by_autograd(network: QNetwork, observations: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Return Q_theta, embeddings and the gradients of all parameters."""
    other = copy.deepcopy(network)
    other.zero_grad()
    q, h = other(observations)
    q.backward(gradient)
    return q.detach(), h.detach(), gradients(other)


def gradients(network: QNetwork) -> list[Tensor]:
    found = [parameter.grad for parameter in network.parameters() if parameter.grad is not None]
    assert len(found) == len(list(network.parameters()))
    return found


@settings(max_examples=60)
@given(
    generator=generators,
    layers=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 3)), min_size=1, max_size=2),
    extra=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    depth=st.integers(1, 3),
    channels_last=st.booleans(),
    num=st.integers(0, 7),
)
def test_values_and_gradients_are_autograds(
    generator: np.random.Generator,
    layers: list[tuple[int, int, int]],
    extra: tuple[int, int],
    depth: int,
    channels_last: bool,
    num: int,
) -> None:
    """All numbers are integers, or quarters, small enough for float32: every order of summation gives the same."""
    channels, sizes, strides = zip(*layers, strict=True)
    side = depth + (not channels_last)
    while convolved_size(side, sizes, strides) < 1:
        side += 1
    height, width = (side + more for more in extra)
    shape = (height, width, depth) if channels_last else (depth, height, width)
    network = build(shape, channels, sizes, strides, 5, white=4)
    assert network.passes is not None
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.tensor(generator.integers(-1, 2, tuple(parameter.shape))))
    observations = torch.tensor(generator.integers(4, size=(num, *shape), dtype=np.uint8))
    gradient = torch.tensor(generator.integers(-2, 3, (num, 4)), dtype=torch.float32)
    q, h, backward = differentiate(network, observations)
    backward(gradient)
    expected_q, expected_h, expected = by_autograd(network, observations, gradient)
    assert torch.equal(q, expected_q)
    assert torch.equal(h, expected_h)
    assert all(map(torch.equal, gradients(network), expected))


@pytest.mark.parametrize("shape", [MAZE, MINATAR])
def test_rounding_differs_in_the_last_digits_only(shape: tuple[int, ...]) -> None:
    network, observations = build(shape), images(shape, 48)
    gradient = torch.randn(48, 4, generator=torch.Generator().manual_seed(0))
    q, h, backward = differentiate(network, observations)
    backward(gradient)
    expected_q, expected_h, expected = by_autograd(network, observations, gradient)
    for mine, autograds in ((q, expected_q), (h, expected_h), *zip(gradients(network), expected, strict=True)):
        torch.testing.assert_close(mine, autograds, rtol=1e-5, atol=1e-6 * float(autograds.abs().max()))


def test_results_are_kept_and_gradients_are_those_of_the_last_pass() -> None:
    """Buffers are used again, also for batches of other sizes in between."""
    network = build()
    first, second = images(MAZE, 5, seed=1), images(MAZE, 5, seed=2)
    gradient = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    kept = differentiate(network, first)[:2]
    q, h, backward = differentiate(network, second)
    backward(gradient)
    with torch.no_grad():
        for mine, again in zip(kept, network(first), strict=True):
            assert torch.equal(mine, again)
        network(images(MAZE, 3))
    assert not torch.equal(kept[0], q)
    before = [g.clone() for g in gradients(network)]
    differentiate(network, second)[2](gradient)
    assert all(map(torch.equal, gradients(network), before))
    assert not any(x.requires_grad or x.is_inference() for x in (q, h, *before))


def test_only_small_networks_for_images_in_float32_have_passes() -> None:
    assert build().passes is not None
    assert build(MINATAR, (16,), (3,), (1,), 128, white=1).passes is not None
    assert build(ATARI, (16, 32, 32), (8, 4, 3), (4, 2, 1), 256).passes is None
    assert build((5,)).passes is None
    assert build(channels=(), filter_sizes=(), strides=()).passes is None
    assert build().double().passes is None


@pytest.mark.parametrize("assign", [False, True])
def test_loaded_parameters_are_used(assign: bool) -> None:
    network, other, observations = build(), build(embedding_size=64, white=255), images(MAZE)
    with torch.no_grad():
        other.torso[0].weight += 1
        network(observations)
        network.load_state_dict(copy.deepcopy(other.state_dict()), assign=assign)
        assert torch.equal(network(observations)[0], other(observations)[0])


def test_other_layouts_of_filters_are_left_to_autograd() -> None:
    network = build()
    contiguous = {name: tensor.contiguous() for name, tensor in network.state_dict().items()}
    network.load_state_dict(contiguous, assign=True)
    assert network.passes is None
    q, _, backward = differentiate(network, images(MAZE))
    backward(torch.ones_like(q))
    assert len(gradients(network)) == 8


def test_copies_do_not_share_buffers() -> None:
    network, observations = build(), images(MAZE)
    q, _, backward = differentiate(network, observations)
    copied = copy.deepcopy(network)
    with torch.no_grad():
        copied(images(MAZE, seed=3))
    backward(torch.ones_like(q))
    expected = by_autograd(network, observations, torch.ones_like(q))[2]
    for mine, autograds in zip(gradients(network), expected, strict=True):
        torch.testing.assert_close(mine, autograds, rtol=1e-4, atol=1e-5)
