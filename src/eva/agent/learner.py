"""The slow system: Q-learning with a target network (Section 2), exactly as in DQN, or its double form."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from eva.agent.network import QNetwork
from eva.types import Batch, State, Update

ERRORS: dict[str, Callable[..., Tensor]] = {
    "squared": functional.mse_loss,
    "huber": functional.huber_loss,  # delta 1: the gradient of DQN's error clipped to [-1, 1] (P15)
}


class Learner:
    """Minimise the error between Q_theta(s, a) and y = r + gamma max_a' Q~(s', a').

    Double DQN (van Hasselt et al., 2016) lets Q_theta choose a' and Q~ value it.

    Args:
        network: Q_theta, trained in place.
        learning_rate: Of Adam.
        error: A name in ERRORS.
        target_period_updates: The target network Q~ is a copy of Q_theta, made anew after this many updates.
        double: Double DQN (P75).
    """

    def __init__(
        self, network: QNetwork, *, learning_rate: float, error: str, target_period_updates: int, double: bool
    ) -> None:
        self.network = network
        self.target_network = copy.deepcopy(network).requires_grad_(False)
        self._parameters = list(network.parameters())
        self.optimiser = torch.optim.Adam(self._parameters, lr=learning_rate, fused=True)
        self.num_updates = 0
        self._error = ERRORS[error]
        self._target_period_updates = target_period_updates
        self._double = double

    def get_state(self) -> State:
        """Return both networks, the optimiser's averages and the number of updates."""
        averages = self.optimiser.state
        return {
            "network": self.network.state_dict(),
            "target_network": self.target_network.state_dict(),
            "optimiser": {name: dict(averages[p]) for name, p in self.network.named_parameters() if p in averages},
            "num_updates": self.num_updates,
        }

    @torch.no_grad()
    def set_state(self, state: State) -> None:
        """Continue from there."""
        for name in ("network", "target_network"):
            parameters = {key: torch.as_tensor(value) for key, value in state[name].items()}
            getattr(self, name).load_state_dict(parameters)
        for name, parameter in self.network.named_parameters():
            for key, value in state["optimiser"].get(name, {}).items():
                # Averages lie in memory like their parameter: the fused step walks through both side by side.
                like = parameter[(0,) * parameter.dim()] if key == "step" else parameter
                self.optimiser.state[parameter][key] = torch.empty_like(like).copy_(torch.as_tensor(value))
        self.num_updates = state["num_updates"]

    @torch.no_grad()
    def targets(self, batch: Batch) -> Tensor:
        """Return y = r + gamma max_a Q~(s', a), or r + gamma Q~(s', argmax_a Q_theta(s', a)) if double, (B,)."""
        next_q, _ = self.target_network(batch.next_observations)
        if self._double:
            chosen = self.network(batch.next_observations)[0].argmax(dim=1, keepdim=True)
            next_values = next_q.gather(1, chosen)[:, 0]
        else:
            next_values = next_q.amax(dim=1)
        targets: Tensor = batch.rewards + batch.discounts * next_values
        return targets

    def update(self, batch: Batch) -> Update:
        """Take one step of Adam; nothing waits for the device."""
        targets = self.targets(batch)
        q, _ = self.network(batch.observations)
        values = q.gather(1, batch.actions[:, None])[:, 0]
        if batch.importance_weights is None:
            loss, absolute_errors = self._error(values, targets), None
        else:
            loss = (batch.importance_weights * self._error(values, targets, reduction="none")).mean()
            absolute_errors = (targets - values.detach()).abs()
        for parameter in self._parameters:  # as zero_grad does, without its bookkeeping
            parameter.grad = None
        loss.backward()
        self.optimiser.step()
        self.num_updates += 1
        if self.num_updates % self._target_period_updates == 0:
            self.target_network.load_state_dict(self.network.state_dict())
        return Update(loss.detach(), absolute_errors)
