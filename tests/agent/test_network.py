from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from eva.agent.network import QNetwork, convolved_size, image_shape

CHANNELS_LAST, CHANNELS_FIRST, VECTOR, SCALAR_ROWS = (7, 15, 3), (4, 12, 10), (5,), (2, 3)
SHAPES = pytest.mark.parametrize("shape", [CHANNELS_LAST, CHANNELS_FIRST, VECTOR, SCALAR_ROWS])


def build(shape: tuple[int, ...], seed: int = 0, white: float = 255, num_convolutions: int = 2) -> QNetwork:
    return QNetwork(
        shape,
        4,
        channels=(6, 8)[:num_convolutions],
        filter_sizes=(3, 2)[:num_convolutions],
        strides=(1, 2)[:num_convolutions],
        hidden_sizes=(9,),
        embedding_size=16,
        white=white,
        generator=np.random.default_rng(seed),
    )


def observe(shape: tuple[int, ...], num: int = 6) -> torch.Tensor:
    """Return bytes for images, numbers for vectors."""
    generator = np.random.default_rng(1)
    if len(shape) == 3:
        return torch.tensor(generator.integers(256, size=(num, *shape), dtype=np.uint8))
    return torch.tensor(generator.standard_normal((num, *shape), dtype=np.float32))


@SHAPES
def test_values_are_linear_in_the_embedding(shape: tuple[int, ...]) -> None:
    network = build(shape)
    q, h = network(observe(shape))
    assert q.shape == (6, 4)
    assert h.shape == (6, 16)
    assert torch.equal(q, network.head(h))
    assert torch.equal(q, network.values(h))
    by_hand = h.detach().double() @ network.head.weight.double().T + network.head.bias.double()
    np.testing.assert_allclose(q.detach(), by_hand.detach(), rtol=1e-5, atol=1e-6)


@SHAPES
def test_the_embedding_is_rectified(shape: tuple[int, ...]) -> None:
    """The embedding is taken after the rectifier (P21): some activations are 0, others are not."""
    _, h = build(shape)(observe(shape, num=64))
    assert (h >= 0).all()
    assert 0.1 < (h == 0).double().mean() < 0.9


def test_values_of_any_number_of_embeddings() -> None:
    network = build(VECTOR)
    h = torch.rand(2, 3, 16, generator=torch.Generator().manual_seed(0))
    assert network.values(h).shape == (2, 3, 4)
    torch.testing.assert_close(network.values(h)[1, 2], network.values(h[1, 2]))


def by_hand(network: QNetwork, image: torch.Tensor) -> torch.Tensor:
    """Return the embedding of one byte image (channels, height, width), one product at a time."""
    x = image.double() / 255
    for layer in (module for module in network.torso if isinstance(module, nn.Conv2d)):
        (size, _), (stride, _) = layer.kernel_size, layer.stride
        patches = x.unfold(1, size, stride).unfold(2, size, stride)  # (C, H', W', size, size)
        x = torch.einsum("chwij,ocij->ohw", patches, layer.weight.double()) + layer.bias.double()[:, None, None]
        x = x.clamp(min=0)
    linear = network.torso[-2]
    return (linear.weight.double() @ x.flatten() + linear.bias.double()).clamp(min=0)


@pytest.mark.parametrize("shape", [CHANNELS_LAST, CHANNELS_FIRST])
def test_images_are_bytes_scaled_to_one_and_convolved(shape: tuple[int, ...]) -> None:
    network, observations = build(shape), observe(shape)
    _, h = network(observations)
    images = observations.permute(0, 3, 1, 2) if shape == CHANNELS_LAST else observations
    expected = torch.stack([by_hand(network, image) for image in images])
    np.testing.assert_allclose(h.detach(), expected.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("num_convolutions", [0, 2])
def test_float_pixels_are_not_scaled(num_convolutions: int) -> None:
    bytes_, floats = (build(CHANNELS_FIRST, white=white, num_convolutions=num_convolutions) for white in (255, 1))
    observations = observe(CHANNELS_FIRST)
    for one, other in zip(bytes_(observations), floats(observations / 255), strict=True):
        torch.testing.assert_close(one, other)
    bytes_(observations)[0].sum().backward()
    floats(observations / 255)[0].sum().backward()
    for one, other in zip(bytes_.parameters(), floats.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)


def test_both_image_layouts_give_the_same_values() -> None:
    first, last = build((3, 7, 15)), build((7, 15, 3))
    observations = observe((7, 15, 3))
    for one, other in zip(first(observations.permute(0, 3, 1, 2)), last(observations), strict=True):
        torch.testing.assert_close(one, other)
    assert image_shape((3, 7, 15)) == image_shape((7, 15, 3)) == (7, 15, 3)


def test_vectors_are_not_scaled() -> None:
    network, observations = build(VECTOR), observe(VECTOR)
    _, h = network(observations)
    hidden, embedding = (module for module in network.torso if isinstance(module, nn.Linear))
    assert torch.equal(h, embedding(hidden(observations).relu()).relu())


@SHAPES
def test_parameters_depend_on_the_generator_alone(shape: tuple[int, ...]) -> None:
    before = torch.get_rng_state()
    one, same, other = build(shape), build(shape), build(shape, seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    parameters = zip(one.parameters(), same.parameters(), other.parameters(), strict=True)
    assert all(torch.equal(x, y) and not torch.equal(x, z) for x, y, z in parameters)


@SHAPES
def test_parameters_lie_within_the_root_of_the_fan_in(shape: tuple[int, ...]) -> None:
    for module in build(shape).modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            bound = 1 / math.sqrt(module.weight[0].numel())
            assert 0.8 * bound < module.weight.abs().max() <= bound
            assert module.bias.abs().max() <= bound


@SHAPES
def test_assigned_parameters_are_used(shape: tuple[int, ...]) -> None:
    network, other = build(shape), build(shape, seed=1)
    network.load_state_dict(other.state_dict(), assign=True)
    for mine, theirs in zip(network(observe(shape)), other(observe(shape)), strict=True):
        assert torch.equal(mine, theirs)


def test_hooks_on_the_network_are_called_and_those_on_its_modules_are_not() -> None:
    network, called = build(VECTOR), []
    for module in network.modules():
        module.register_forward_hook(lambda module, *_: called.append(module))
    network(observe(VECTOR))
    assert called == [network]


@pytest.mark.parametrize(("size", "left"), [(7, 2), (15, 6), (4, 1), (3, 0)])
def test_size_after_convolutions(size: int, left: int) -> None:
    # filters 3 and 2, strides 1 and 2: 7 -> 5 -> 2, 15 -> 13 -> 6, 4 -> 2 -> 1, 3 -> 1 -> 0
    assert convolved_size(size, (3, 2), (1, 2)) == left
