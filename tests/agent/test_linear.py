"""Large layers are computed by oneDNN, and equal those of `functional.linear` up to rounding."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

import eva
from eva.agent import linear as module
from eva.agent.linear import linear

ONEDNN = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="a torch without oneDNN")


def layer(batch_size: int, num_inputs: int, num_outputs: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Return inputs, weights and bias; integers, so that sums are exact in any order."""
    generator = torch.Generator().manual_seed(seed)
    shapes = ((batch_size, num_inputs), (num_outputs, num_inputs), (num_outputs,))
    inputs, weight, bias = (torch.randint(-3, 4, shape, generator=generator).float() for shape in shapes)
    return inputs.requires_grad_(), weight.requires_grad_(), bias.requires_grad_()


def assert_same(parameters: tuple[Tensor, Tensor, Tensor]) -> None:
    """Compare the layer and its derivatives, to the bit."""
    mine, torchs = linear(*parameters), functional.linear(*parameters)
    assert torch.equal(mine, torchs)
    gradient = torch.randint(-3, 4, mine.shape, generator=torch.Generator().manual_seed(1)).float()
    for a, b in zip(
        torch.autograd.grad(mine, parameters, gradient), torch.autograd.grad(torchs, parameters, gradient), strict=True
    ):
        assert torch.equal(a, b)


@pytest.fixture
def products(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """Return what oneDNN computes from now on."""
    computed: list[Tensor] = []
    product = module._product

    def noted(*args: Any) -> Tensor:
        computed.append(product(*args))
        return computed[-1]

    monkeypatch.setattr(module, "_product", noted)
    return computed


@settings(max_examples=30)
@given(st.integers(0, 97), st.integers(1, 70), st.integers(1, 70), st.integers(0, 10**6))
def test_any_shape_equals_torchs(batch_size: int, num_inputs: int, num_outputs: int, seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_MANY_WEIGHTS", 0)
        assert_same(layer(batch_size, num_inputs, num_outputs, seed))


@ONEDNN
@pytest.mark.parametrize("batch_size", [1, 4, 48])
def test_the_papers_layer_is_computed_by_onednn(batch_size: int, products: list[Tensor]) -> None:
    assert_same(layer(batch_size, 1568, 256))
    assert [tuple(product.shape) for product in products] == [(batch_size, 256), (batch_size, 1568), (256, 1568)]


@ONEDNN
def test_inputs_without_requires_grad_get_no_gradient(products: list[Tensor]) -> None:
    inputs, weight, bias = layer(2, 1568, 256)
    linear(inputs.detach(), weight, bias).sum().backward()
    assert weight.grad is not None
    assert torch.equal(weight.grad, inputs.sum(dim=0).expand(256, -1))
    assert len(products) == 2


@pytest.mark.parametrize(
    ("batch_size", "num_inputs", "dtype", "with_onednn"),
    [
        (4, 384, torch.float32, True),  # the maze's, which is small
        (0, 1568, torch.float32, True),
        (4, 1568, torch.float64, True),
        (4, 1568, torch.float32, False),
    ],
)
def test_other_layers_are_torchs(
    batch_size: int,
    num_inputs: int,
    dtype: torch.dtype,
    with_onednn: bool,
    products: list[Tensor],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: with_onednn)
    inputs, weight, bias = (x.detach().to(dtype) for x in layer(batch_size, num_inputs, 256))
    assert torch.equal(linear(inputs, weight, bias), functional.linear(inputs, weight, bias))
    assert products == []


def test_layers_within_autocast_are_torchs(products: list[Tensor]) -> None:
    inputs, weight, bias = layer(4, 1568, 256)
    with torch.autocast("cpu", torch.bfloat16):
        low = inputs @ torch.eye(1568)
        assert torch.equal(linear(low, weight, bias), functional.linear(low, weight, bias))
    assert products == []


@pytest.mark.parametrize(
    ("where", "name", "value"), [(torch.backends.mkldnn, "enabled", False), (module, "_linear_pointwise", None)]
)
def test_without_onednn_layers_are_torchs(
    where: Any, name: str, value: Any, products: list[Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is switched off, or this version of torch lacks the private function."""
    monkeypatch.setattr(where, name, value)
    assert_same(layer(4, 1568, 256))
    assert products == []


def test_no_other_module_calls_private_functions_of_torch() -> None:
    sources = {path: path.read_text() for path in Path(eva.__file__).parent.rglob("*.py")}
    callers = {path.name for path, source in sources.items() if re.search(r"torch\.(ops\b|_\w|\w+\._\w)", source)}
    assert callers == {"linear.py"}
