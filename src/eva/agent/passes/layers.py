"""Rectified layers with their derivatives written out, as matrix products that write to buffers allocated once."""

import math

import torch
from torch import Tensor

_MOST_BUFFERS = 24  # of one layer: enough for four batch sizes


class Buffers:
    """Memory for results, allocated at their first use."""

    def __init__(self) -> None:
        self._tensors: dict[tuple[str, tuple[int, ...]], Tensor] = {}

    def __call__(self, name: str, *shape: int) -> Tensor:
        """Return the buffer of this name and shape."""
        key = name, shape
        if key not in self._tensors:
            if len(self._tensors) == _MOST_BUFFERS:
                self._tensors.clear()
            with torch.inference_mode(False):  # tensors of inference mode could not be changed outside of it
                self._tensors[key] = torch.empty(shape)
        return self._tensors[key]


class FullyConnected:
    """y = max(0, x W^T + b) of rows x, (n, I); without the maximum if not `rectifies`.

    Results are valid until the next call with as many rows.
    """

    def __init__(self, weight: Tensor, bias: Tensor, *, rectifies: bool = True) -> None:
        self._weight = weight
        self._bias = bias
        self._rectifies = rectifies
        self._buffers = Buffers()
        self.num_products = weight.numel()  # of one row

    def forward(self, rows: Tensor) -> Tensor:
        """Return y, (n, O)."""
        matrix = self._matrix()
        y = torch.addmm(self._bias, rows, matrix.T, out=self._buffers("y", len(rows), len(matrix)))
        self._rows, self._y = rows, y.relu_() if self._rectifies else y
        return self._y

    def allocate_gradients(self) -> None:
        """Give the parameters gradients of any values, unless they have some."""
        for parameter in (self._weight, self._bias):
            if parameter.grad is None:
                parameter.grad = torch.empty_like(parameter)

    def backward(self, gradient: Tensor, *, wants_inputs: bool = True) -> Tensor:
        """Overwrite the parameters' gradients, given that of y in the last `forward`; return that of x, (n, I)."""
        if self._rectifies:
            is_active = torch.sign(self._y, out=self._buffers("is active", *self._y.shape))  # 0 or 1
            gradient = torch.mul(gradient, is_active, out=is_active)
        assert self._weight.grad is not None
        assert self._bias.grad is not None
        torch.mm(gradient.T, self._rows, out=self._as_matrix(self._weight.grad))
        torch.sum(gradient, dim=0, out=self._bias.grad)
        if not wants_inputs:
            return gradient
        return torch.mm(gradient, self._matrix(), out=self._buffers("dx", *self._rows.shape))

    def _matrix(self) -> Tensor:
        """Return W, (O, I)."""
        return self._weight

    def _as_matrix(self, gradient: Tensor) -> Tensor:
        """Return the weight's gradient as a view, (O, I)."""
        return gradient


class Convolution(FullyConnected):
    """An unpadded convolution of images, (n, height, width, channels): a fully connected layer of their patches.

    A patch is (filter height, filter width, channels). The filters are divided by `white`.
    """

    def __init__(self, weight: Tensor, bias: Tensor, stride: int, shape: tuple[int, int, int], white: float) -> None:
        super().__init__(weight, bias)
        num_filters, _, size, _ = weight.shape
        pixels = torch.arange(math.prod(shape)).view(shape)
        patches = pixels.unfold(0, size, stride).unfold(1, size, stride).permute(0, 1, 3, 4, 2)
        self._pixels = patches.flatten()  # the pixel of an image that each value of a patch is copied from
        self._shape, self._size, self._stride, self._white = shape, size, stride, white
        self.output_shape = (patches.shape[0], patches.shape[1], num_filters)
        self.num_products *= patches.shape[0] * patches.shape[1]

    @property
    def suits(self) -> bool:
        """Whether the filters are in memory as patches are: channels last."""
        return self._weight.permute(0, 2, 3, 1).is_contiguous()

    def forward(self, images: Tensor) -> Tensor:
        """Return y, (n, *output_shape)."""
        num = len(images)
        patches = self._buffers("x", num, len(self._pixels))
        torch.index_select(images.view(num, math.prod(self._shape)), 1, self._pixels, out=patches)
        y = super().forward(patches.view(-1, self._size**2 * self._shape[2]))
        return y.view(num, *self.output_shape)

    def backward(self, gradient: Tensor, *, wants_inputs: bool = True) -> Tensor:
        """Overwrite the parameters' gradients, given that of y; return that of the images."""
        patches = super().backward(gradient.view(-1, gradient.shape[-1]), wants_inputs=wants_inputs)
        if self._white != 1 and self._weight.grad is not None:
            self._weight.grad /= self._white
        if not wants_inputs:
            return patches
        num, size, stride, (height, width, depth) = len(gradient), self._size, self._stride, self._shape
        images = self._buffers("images", num, height, width, depth).zero_()
        patches = patches.view(num, *self.output_shape[:2], size, size * depth)
        for y in range(size):
            for x in range(0, size, stride):  # of neighbouring patches, `stride` columns do not overlap
                columns = slice(x * depth, min(x + stride, size) * depth)
                strides = (height * width * depth, stride * width * depth, stride * depth, 1)
                parts = patches[:, :, :, y, columns]
                images.as_strided(parts.shape, strides, (y * width + x) * depth).add_(parts)
        return images

    def _matrix(self) -> Tensor:
        matrix = self._as_matrix(self._weight)
        return matrix if self._white == 1 else matrix / self._white

    def _as_matrix(self, weight: Tensor) -> Tensor:
        return weight.permute(0, 2, 3, 1).view(len(weight), -1)
