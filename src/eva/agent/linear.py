"""Large fully connected layers, on the CPU by oneDNN: the only module that calls a private function of torch.

torch leaves float32 to MKL, which does not use AVX-512 on processors that are not Intel's. There oneDNN, which computes
torch's convolutions, takes half the time: a step of Atari takes 0.4 ms (6%) less (docs/performance.md). Where torch
has no such function, or oneDNN is switched off, `functional.linear` is used.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

_linear_pointwise = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
_MANY_WEIGHTS = 1 << 17  # with fewer, oneDNN takes longer to start than to compute


def linear(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return x W^T + b, (B, O), for inputs x, (B, I), and weights W, (O, I)."""
    if not _suits_onednn(inputs, weight):
        return functional.linear(inputs, weight, bias)
    outputs: Tensor = _Linear.apply(inputs, weight, bias)  # type: ignore[no-untyped-call]
    return outputs


def _suits_onednn(inputs: Tensor, weight: Tensor) -> bool:
    return (
        weight.numel() >= _MANY_WEIGHTS
        and weight.device.type == "cpu"
        and inputs.dtype == weight.dtype == torch.float32  # not so within autocast
        and len(inputs) > 0
        and _linear_pointwise is not None
        and torch.backends.mkldnn.is_available()
        and bool(torch.backends.mkldnn.enabled)
    )


class _Linear(torch.autograd.Function):
    """The layer and its derivative."""

    @staticmethod
    def forward(context: Any, inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        context.save_for_backward(inputs, weight)
        return _product(inputs, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        inputs, weight = context.saved_tensors
        return (
            _product(gradient, weight.T) if context.needs_input_grad[0] else None,
            _product(gradient.T, inputs.T),
            gradient.sum(dim=0),
        )


def _product(a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return a b^T, (m, n), of (m, i) and (n, i), and a bias, (n,), if there is one."""
    assert _linear_pointwise is not None
    product: Tensor = _linear_pointwise(a, b, bias, "none", [], "")
    return product
