"""The slow system: Q-learning with a target network (Section 2), exactly as in DQN, or its double form."""

import copy
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

import torch
from torch import Tensor, nn

from eva.agent.exploration import LinearSchedule
from eva.agent.network import QNetwork, differentiate, evaluate
from eva.agent.optimisers import Optimiser
from eva.agent.own_network import OwnNetwork
from eva.types import Batch, State


def squared(errors: Tensor) -> tuple[Tensor, Tensor]:
    """Return x^2 and its derivative."""
    return errors.square(), 2 * errors


def huber(errors: Tensor) -> tuple[Tensor, Tensor]:
    """Return x^2 / 2, or |x| - 1/2 beyond 1, and its derivative: DQN's error clipped to [-1, 1] (P15)."""
    clipped = errors.clamp(-1, 1)
    return clipped * (errors - clipped / 2), clipped


ERRORS: dict[str, Callable[[Tensor], tuple[Tensor, Tensor]]] = {"squared": squared, "huber": huber}


@dataclass(frozen=True)
class Update:
    """What one gradient step computed, with the parameters before it."""

    loss: Tensor  # ()
    errors: Tensor  # (B,) Q_theta(s, a) - y
    embeddings: Tensor  # (B, D) of the states s


@dataclass(eq=False)
class Learner:
    """Minimise the error between Q_theta(s, a) and y = r + gamma max_a' Q~(s', a').

    Double DQN (van Hasselt et al., 2016) lets Q_theta choose a' and Q~ value it.
    """

    network: QNetwork | OwnNetwork  # Q_theta, trained in place
    optimiser: Optimiser  # of the network's parameters
    _: KW_ONLY
    learning_rate: LinearSchedule  # by the number of updates made
    error: str  # a name in ERRORS
    target_period_updates: int  # the target network Q~ is a copy of Q_theta, refreshed at this period
    double: bool  # Double DQN (P75)
    max_gradient_norm: float | None = None  # gradients with a larger Euclidean norm are scaled down to it
    precision: torch.dtype = torch.float32  # of the layers in an update; parameters, targets and the rest are float32

    def __post_init__(self) -> None:
        self.target_network = copy.deepcopy(self.network).requires_grad_(False)
        self.num_updates = 0
        self._floats = torch.empty(0, dtype=self.precision)  # scratch buffer of `_as_floats`

    def state_dict(self) -> State:
        """Return both networks, the optimiser's averages and the number of updates."""
        return {
            "network": self.network.state_dict(),
            "target_network": self.target_network.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "num_updates": self.num_updates,
        }

    def load_state_dict(self, state: State) -> None:
        """Restore a state that `state_dict` returned."""
        for name in ("network", "target_network"):
            parameters = {key: torch.as_tensor(value) for key, value in state[name].items()}
            getattr(self, name).load_state_dict(parameters)
        self.optimiser.load_state_dict(state["optimiser"])
        self.num_updates = state["num_updates"]

    @torch.no_grad()
    def targets(self, batch: Batch) -> Tensor:
        """Return y = r + gamma max_a Q~(s', a), or r + gamma Q~(s', argmax_a Q_theta(s', a)) if double, (B,)."""
        next_observations = self._as_floats(batch.next_observations)
        next_q, _ = evaluate(self.target_network, next_observations, self.precision)
        if self.double:
            chosen = evaluate(self.network, next_observations, self.precision)[0].argmax(dim=1, keepdim=True)
            next_values = next_q.gather(1, chosen)[:, 0]
        else:
            next_values = next_q.amax(dim=1)
        targets: Tensor = batch.rewards + batch.discounts * next_values
        return targets

    def update(self, batch: Batch) -> Update:
        """Take one gradient step; nothing waits for the device."""
        targets = self.targets(batch)
        q, h, backward = differentiate(self.network, self._as_floats(batch.observations), self.precision)
        loss, gradient, errors = self._loss(q, targets, batch)
        self.optimiser.zero_grad()
        backward(gradient)
        if self.max_gradient_norm is not None:
            nn.utils.clip_grad_norm_(self.network.parameters(), self.max_gradient_norm)
        self.optimiser.step(self.learning_rate(self.num_updates))
        self.num_updates += 1
        if self.num_updates % self.target_period_updates == 0:
            self.target_network.load_state_dict(self.network.state_dict())
        return Update(loss, errors, h)

    def _as_floats(self, observations: Tensor) -> Tensor:
        """Return bytes as floats, valid until the next call: one scratch buffer, which stays in the caches."""
        if observations.dtype != torch.uint8:
            return observations
        if self._floats.shape != observations.shape:
            self._floats = torch.empty_like(observations, dtype=self.precision)
        return self._floats.copy_(observations)

    def _loss(self, q: Tensor, targets: Tensor, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Return the mean loss, its derivative with respect to q, (B, A), and the errors Q_theta(s, a) - y, (B,).

        The derivative is written down: letting torch derive it takes as long as a layer of a small network.
        """
        actions = batch.actions[:, None]
        errors = q.gather(1, actions)[:, 0] - targets
        losses, slopes = ERRORS[self.error](errors)
        if batch.importance_weights is not None:
            losses, slopes = batch.importance_weights * losses, batch.importance_weights * slopes
        gradient = torch.zeros_like(q).scatter_(1, actions, (slopes / len(slopes))[:, None])
        return losses.mean(), gradient, errors
