"""Adam (Kingma and Ba, 2015)."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from eva.types import State

_BETA_1, _BETA_2, _EPSILON = 0.9, 0.999, 1e-8


class Adam:
    """What `torch.optim.Adam(fused=True)` computes, to the bit.

    Calling torch's kernel directly spares its optimiser's bookkeeping, which takes longer than the arithmetic where the
    network is small.

    Args:
        parameters: By name; trained in place.
    """

    def __init__(self, parameters: Iterable[tuple[str, nn.Parameter]]) -> None:
        named = dict(parameters)
        self._names = list(named)
        self._parameters: list[Tensor] = list(named.values())
        self._steps = [torch.zeros((), device=parameter.device) for parameter in self._parameters]
        self._means = [torch.zeros_like(parameter) for parameter in self._parameters]
        self._mean_squares = [torch.zeros_like(parameter) for parameter in self._parameters]

    def forget_gradients(self) -> None:
        """Let the next backward pass begin at nothing."""
        for parameter in self._parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self, learning_rate: float) -> None:
        """Move along the gradients; every parameter must have one."""
        gradients: list[Tensor] = [parameter.grad for parameter in self._parameters]  # type: ignore[misc]
        torch._foreach_add_(self._steps, 1)
        torch._fused_adam_(
            self._parameters,
            gradients,
            self._means,
            self._mean_squares,
            [],
            self._steps,
            lr=learning_rate,
            beta1=_BETA_1,
            beta2=_BETA_2,
            weight_decay=0.0,
            eps=_EPSILON,
            amsgrad=False,
            maximize=False,
        )

    def get_state(self) -> State:
        """Return the running averages by the parameters' names."""
        averages = zip(self._names, self._steps, self._means, self._mean_squares, strict=True)
        return {name: {"step": step, "exp_avg": mean, "exp_avg_sq": square} for name, step, mean, square in averages}

    @torch.no_grad()
    def set_state(self, state: State) -> None:
        """Continue from there."""
        for name, mine in self.get_state().items():
            for key, average in mine.items():
                average.copy_(torch.as_tensor(state[name][key]))
