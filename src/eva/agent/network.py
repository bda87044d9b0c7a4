"""The parametric value function: torso -> embedding h -> Q_theta. It always returns both."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import skip_init

from eva.agent.linear import linear
from eva.agent.passes.small import SmallPasses
from eva.agent.passes.vector import join


class QNetwork(nn.Module):
    """Q_theta(s, .) = W h(s) + b, with h the rectified activations before the last layer (P21).

    Images, (height, width, channels) or (channels, height, width), pass convolutions; vectors pass fully connected
    layers of `hidden_sizes`. `white` is the pixel value scaled to 1.0, 255 for bytes: the first filters are divided
    by it, which is cheaper than dividing every pixel. `generator` draws the initial parameters.

    `forward` uses the parameters without calling the modules that own them: that would take 1.5 times as long for one
    state of the maze. So hooks on the network are called, but hooks on its inner modules are not.
    """

    def __init__(
        self,
        observation_shape: tuple[int, ...],
        num_actions: int,
        *,
        channels: Sequence[int],
        filter_sizes: Sequence[int],
        strides: Sequence[int],
        hidden_sizes: Sequence[int],
        embedding_size: int,
        white: float,
        generator: np.random.Generator,
    ) -> None:
        super().__init__()
        self._is_image = len(observation_shape) == 3
        self._white = white
        layers: list[nn.Module] = []
        if self._is_image:
            self._channels_last = is_channels_last(observation_shape)
            self._image_shape = height, width, depth = image_shape(observation_shape)
            for out, filter_size, stride in zip(channels, filter_sizes, strides, strict=True):
                layers += [skip_init(nn.Conv2d, depth, out, filter_size, stride=stride), nn.ReLU()]
                depth = out
            layers.append(nn.Flatten())
            size = convolved_size(height, filter_sizes, strides) * convolved_size(width, filter_sizes, strides) * depth
        else:
            size = math.prod(observation_shape)
            for out in hidden_sizes:
                layers += [skip_init(nn.Linear, size, out), nn.ReLU()]
                size = out
        self.torso = nn.Sequential(*layers, skip_init(nn.Linear, size, embedding_size), nn.ReLU())
        self.head = skip_init(nn.Linear, embedding_size, num_actions)
        self.num_actions = num_actions
        self._passes: SmallPasses | None = None
        self._listed: list[int] = []
        _initialise(self, generator)
        self._list_parameters()
        if self._passes is not None:
            join(list(self.parameters()))
        # `load_state_dict(assign=True)` replaces them
        self.register_load_state_dict_post_hook(QNetwork._list_parameters)  # type: ignore[no-untyped-call]

    def _list_parameters(self, _: object = None) -> None:
        modules = list(self.torso)
        convolutions = [module for module in modules if isinstance(module, nn.Conv2d)]
        self._convolutions = [(m.weight, m.get_parameter("bias"), m.stride) for m in convolutions]
        self._fully_connected = [(m.weight, m.bias) for m in modules if isinstance(m, nn.Linear)]
        self._head = (self.head.weight, self.head.bias)
        listed = [id(parameter) for parameter in self.parameters()]
        if self._is_image and listed != self._listed:
            passes = SmallPasses(self._image_shape, self._convolutions, self._fully_connected, self._head, self._white)
            self._passes, self._listed = passes if passes.suits else None, listed

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Return Q_theta, (B, A), and the embedding, (B, D), of observations (B, ...)."""
        if not torch.is_grad_enabled() and (passes := self.passes) is not None:
            return passes.forward(observations if self._channels_last else observations.permute(0, 2, 3, 1))
        return self.forward_in(torch.float32, observations)

    def forward_in(self, dtype: torch.dtype, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Return what `forward` returns, in float32; all layers but the last compute in `dtype`."""
        h = self._as_input(observations, dtype)
        for i, (weight, bias, stride) in enumerate(self._convolutions):
            filters = weight / self._white if i == 0 else weight
            h = torch.conv2d(h, filters.to(dtype), bias.to(dtype), stride).relu_()
        h = h.flatten(start_dim=1)
        for weight, bias in self._fully_connected:
            h = linear(h, weight.to(dtype), bias.to(dtype)).relu_()
        h = h.float()
        return self.values(h), h

    @property
    def passes(self) -> SmallPasses | None:
        """Passes without autograd, if they suit this network, for as long as it is on the CPU in float32."""
        weight = self._head[0]
        return self._passes if weight.device.type == "cpu" and weight.dtype == torch.float32 else None

    def values(self, embeddings: Tensor) -> Tensor:
        """Return Q_theta of states known by their embeddings (P6), (..., D) -> (..., A)."""
        return functional.linear(embeddings, *self._head)

    def _as_input(self, observations: Tensor, dtype: torch.dtype) -> Tensor:
        if not self._is_image:
            return observations.to(dtype).flatten(start_dim=1)
        if self._channels_last:
            observations = observations.permute(0, 3, 1, 2)  # a view: in memory it stays channels-last
        pixels = observations.to(dtype, memory_format=torch.channels_last)
        return pixels if self._convolutions else pixels / self._white  # the first filters divide them


def evaluate(network: nn.Module, observations: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return Q_theta, (B, A), and the embeddings, (B, D), computed in `dtype`; a user's network knows float32 alone."""
    if isinstance(network, QNetwork) and dtype != torch.float32:
        return network.forward_in(dtype, observations)
    q, h = network(observations)
    return q, h


def differentiate(
    network: nn.Module, observations: Tensor, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor, Callable[[Tensor], None]]:
    """Return what `evaluate` returns, and a function that sets all gradients, given Q_theta's.

    Call the function before the network's next forward pass.
    """
    if dtype == torch.float32 and isinstance(network, QNetwork) and network.passes is not None:
        with torch.no_grad():
            return *network(observations), network.passes.backward
    with torch.enable_grad():
        q, h = evaluate(network, observations, dtype)
    return q.detach(), h.detach(), q.backward


def is_channels_last(shape: tuple[int, ...]) -> bool:
    """Return whether a shape has its channels, the smaller end, last: (height, width, channels)."""
    return shape[2] <= shape[0]


def image_shape(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Return height, width and number of channels of an image observation."""
    return (shape[0], shape[1], shape[2]) if is_channels_last(shape) else (shape[1], shape[2], shape[0])


def convolved_size(size: int, filter_sizes: Sequence[int], strides: Sequence[int]) -> int:
    """Return what unpadded convolutions leave of a side of `size` pixels; below 1 they do not fit."""
    for filter_size, stride in zip(filter_sizes, strides, strict=True):
        size = (size - filter_size) // stride + 1
    return size


@torch.no_grad()
def _initialise(network: nn.Module, generator: np.random.Generator) -> None:
    """Draw weights and biases uniformly within 1 / sqrt(fan-in), as DQN does, from our own generator."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            bound = 1 / math.sqrt(module.weight[0].numel())
            for parameter in module.parameters():
                drawn = generator.uniform(-bound, bound, tuple(parameter.shape))
                parameter.copy_(torch.from_numpy(drawn))
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
