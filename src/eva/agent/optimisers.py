"""The optimisers that a learner may use: Adam (Kingma and Ba, 2015) and centred RMSProp (as in DQN).

They call the public functions beneath torch's optimiser classes: the bookkeeping of these classes would make a step of
maze-2-coins take 7% longer (one thread, 95% CI [6%, 9%]). Results are bit-identical.
"""

from collections.abc import Callable, Iterable
from functools import partial

import torch
from torch import Tensor, nn
from torch.optim.adam import adam
from torch.optim.rmsprop import rmsprop

from eva.agent.passes.vector import joined, parts
from eva.agent.tensors import check_shapes
from eva.types import State


class Optimiser:
    """Train parameters in place with `apply`, torch's function that updates parameters and averages.

    `averages` are torch's names of the two running averages of each gradient; `epsilon` is added to the denominator.
    Joined parameters are updated as one vector, and `zero_grad` gives them gradients that are parts of another.
    """

    def __init__(
        self,
        apply: Callable[..., None],
        averages: tuple[str, str],
        parameters: Iterable[tuple[str, nn.Parameter]],
        epsilon: float = 1e-8,
    ) -> None:
        named = dict(parameters)
        self._apply = apply
        self._names = list(named)
        self._parameters: list[Tensor] = list(named.values())
        vector = joined(self._parameters)
        self._updated = self._parameters if vector is None else [vector]
        self._gradient = None if vector is None else torch.zeros_like(vector)
        self._gradients = None if self._gradient is None else parts(self._gradient, self._parameters)
        self._steps = [torch.zeros((), device=tensor.device) for tensor in self._updated]
        self._averages = {name: [torch.zeros_like(tensor) for tensor in self._updated] for name in averages}
        self._epsilon = epsilon

    def zero_grad(self) -> None:
        """Clear gradients; call it before each backward pass."""
        if self._gradient is not None:
            self._gradient.zero_()
        for i, parameter in enumerate(self._parameters):
            parameter.grad = None if self._gradients is None else self._gradients[i]

    @torch.no_grad()
    def step(self, learning_rate: float) -> None:
        """Apply the gradients; every parameter must have one."""
        gradients = [p.grad for p in self._parameters] if self._gradient is None else [self._gradient]
        averages = self._averages.values()
        self._apply(self._updated, gradients, *averages, [], self._steps, lr=learning_rate, eps=self._epsilon)

    def state_dict(self) -> State:
        """Return the number of steps and the running averages by parameter name."""
        tensors = {"step": self._steps, **self._averages}
        if self._gradient is not None:
            averages = {name: parts(vector, self._parameters) for name, (vector,) in self._averages.items()}
            tensors = {"step": self._steps * len(self._names), **averages}
        return {name: {key: tensors[key][i] for key in tensors} for i, name in enumerate(self._names)}

    @torch.no_grad()
    def load_state_dict(self, state: State) -> None:
        """Restore a state that `state_dict` returned."""
        mine = self.state_dict()
        for name, tensors in state.items():
            for key, tensor in tensors.items():
                check_shapes(tuple(mine[name][key].shape), **{key: tensor})
                mine[name][key].copy_(torch.as_tensor(tensor))


_adam = partial(adam, fused=True, amsgrad=False, beta1=0.9, beta2=0.999, weight_decay=0.0, maximize=False)
_centred_rmsprop = partial(rmsprop, alpha=0.95, weight_decay=0.0, momentum=0.0, centered=True)  # Mnih et al., 2015

OPTIMISERS: dict[str, Callable[..., Optimiser]] = {
    "adam": partial(Optimiser, _adam, ("exp_avg", "exp_avg_sq")),
    "rmsprop": partial(Optimiser, _centred_rmsprop, ("square_avg", "grad_avg")),
}
