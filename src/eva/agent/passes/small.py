"""The passes of small networks for images on the CPU, without autograd; `QNetwork` uses them where they fit.

In a network like the maze's, recording a graph, starting oneDNN's convolutions and allocating results take about as
long as the arithmetic (docs/performance.md). Values and gradients are autograd's up to rounding.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from eva.agent.passes.layers import Buffers, Convolution, FullyConnected

_MOST_PRODUCTS = 1 << 19  # in a forward pass of one state; with more, oneDNN's convolutions are faster


class SmallPasses:
    """Rectified convolutions, rectified fully connected layers, the last of which is h, and Q_theta = W h + b."""

    def __init__(
        self,
        image_shape: tuple[int, int, int],
        convolutions: Sequence[tuple[Tensor, Tensor, tuple[int, ...]]],
        fully_connected: Sequence[tuple[Tensor, Tensor]],
        head: tuple[Tensor, Tensor],
        white: float,
    ) -> None:
        self._convolutions: list[Convolution] = []
        for weight, bias, stride in convolutions:
            layer = Convolution(weight, bias, stride[0], image_shape, 1.0 if self._convolutions else white)
            self._convolutions.append(layer)
            image_shape = layer.output_shape
        self._fully_connected = [FullyConnected(*parameters) for parameters in fully_connected]
        self._head = FullyConnected(*head, rectifies=False)
        self._layers = [*self._convolutions, *self._fully_connected, self._head]
        self._buffers = Buffers()

    @property
    def suits(self) -> bool:
        """Whether these passes fit the network, and are faster than autograd's."""
        is_small = sum(layer.num_products for layer in self._layers) <= _MOST_PRODUCTS
        return len(self._convolutions) > 0 and is_small and all(layer.suits for layer in self._convolutions)

    @torch.no_grad()
    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return Q_theta, (B, A), and the embedding, (B, D), of images, (B, height, width, channels)."""
        with torch.inference_mode():
            x = self._buffers("images", *images.shape).copy_(images)
            for convolution in self._convolutions:
                x = convolution.forward(x)
            num, (height, width, depth) = len(x), x.shape[1:]
            channels_first = self._buffers("h", num, depth, height, width).copy_(x.permute(0, 3, 1, 2))
            h = channels_first.view(num, depth * height * width)
            for layer in self._fully_connected:
                h = layer.forward(h)
            q = self._head.forward(h)
        return q.clone(), h.clone()

    def backward(self, gradient: Tensor) -> None:
        """Overwrite the gradients of all parameters, given that of Q_theta in the last `forward`, (B, A)."""
        for layer in self._layers:
            layer.allocate_gradients()
        self._backward(gradient)

    @torch.inference_mode()
    def _backward(self, gradient: Tensor) -> None:
        gradient = self._head.backward(gradient)
        for layer in reversed(self._fully_connected):
            gradient = layer.backward(gradient)
        num, (height, width, depth) = len(gradient), self._convolutions[-1].output_shape
        images = self._buffers("gradient", num, height, width, depth)
        gradient = images.copy_(gradient.view(num, depth, height, width).permute(0, 2, 3, 1))
        for convolution in reversed(self._convolutions):
            gradient = convolution.backward(gradient, wants_inputs=convolution is not self._convolutions[0])
