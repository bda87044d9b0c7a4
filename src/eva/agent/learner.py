"""The slow system: Q-learning with a target network (Section 2), exactly as in DQN."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from eva.agent.network import QNetwork
from eva.types import Batch, State

ERRORS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "squared": functional.mse_loss,
    "huber": functional.huber_loss,  # delta 1: the gradient of DQN's error clipped to [-1, 1] (P15)
}


class Learner:
    """Minimise the error between Q_theta(s, a) and y = r + gamma max_a' Q~(s', a').

    Args:
        network: Q_theta, trained in place.
        learning_rate: Of Adam.
        error: A name in ERRORS.
        target_period_updates: The target network Q~ is a copy of Q_theta, made anew after this many updates.
    """

    def __init__(self, network: QNetwork, *, learning_rate: float, error: str, target_period_updates: int) -> None:
        self.network = network
        self.target_network = copy.deepcopy(network).requires_grad_(False)
        self._parameters = list(network.parameters())
        self.optimiser = torch.optim.Adam(self._parameters, lr=learning_rate, fused=True)
        self.num_updates = 0
        self._error = ERRORS[error]
        self._target_period_updates = target_period_updates

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
        """Return y = r + gamma max_a Q~(s', a), (B,)."""
        next_q, _ = self.target_network(batch.next_observations)
        targets: Tensor = batch.rewards + batch.discounts * next_q.amax(dim=1)
        return targets

    def update(self, batch: Batch) -> Tensor:
        """Take one step of Adam; returns the loss, a scalar left on the device."""
        targets = self.targets(batch)
        q, _ = self.network(batch.observations)
        loss = self._error(q.gather(1, batch.actions[:, None])[:, 0], targets)
        for parameter in self._parameters:  # as zero_grad does, without its bookkeeping
            parameter.grad = None
        loss.backward()
        self.optimiser.step()
        self.num_updates += 1
        if self.num_updates % self._target_period_updates == 0:
            self.target_network.load_state_dict(self.network.state_dict())
        return loss.detach()
