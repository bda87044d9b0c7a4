"""EphemeralValueAdjuster: the fast system, for any value-based agent (Section 3, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from eva.agent.planner import Planner
from eva.agent.value_buffer import ValueBuffer
from eva.types import Bools


def mix(q_theta: Tensor, q_np: Tensor, nonparametric_weight: float) -> Tensor:
    """Return Q_EVA = (1 - w) Q_theta + w Q_NP (Eq. 1; P1: the weight is on Q_NP, so 0 is DQN)."""
    return (1 - nonparametric_weight) * q_theta + nonparametric_weight * q_np


class EphemeralValueAdjuster:
    """Memory search, planner, value buffer and mixing, joined.

    Before each action, `adjust` shifts the network's values by what was planned for states like the present one.
    After it, and before the present state is stored (P22), `plan` refreshes those plans when they are due.

    Args:
        planner: Searches the memory and plans.
        value_buffers: One shared by all environments, or one for each (P8).
        plan_period_steps: Plan at the first step and then every so many (P4); the clock runs on across episodes.
        plan_at_episode_start: Plan at each episode's first step too (P23).
    """

    def __init__(
        self,
        planner: Planner,
        value_buffers: Sequence[ValueBuffer],
        *,
        plan_period_steps: int,
        plan_at_episode_start: bool,
    ) -> None:
        self.value_buffers = tuple(value_buffers)
        self.num_steps = 0
        self._planner = planner
        self._plan_period_steps = plan_period_steps
        self._plan_at_episode_start = plan_at_episode_start

    def adjust(self, q_theta: Tensor, embeddings: Tensor, nonparametric_weight: float) -> Tensor:
        """Return Q_EVA of the present states; Q_theta where nothing is planned yet (P24).

        Args:
            q_theta: The network's values, (E, A).
            embeddings: Of the same states, (E, D).
            nonparametric_weight: Of Q_NP.

        Returns:
            Q_EVA, (E, A): use it for this decision and drop it.
        """
        q_eva = q_theta.clone()
        for buffer, mine in self._buffers_and_environments():
            recall = buffer.read(embeddings[mine])
            if recall is not None:
                q_eva[mine] = mix(q_theta[mine], recall.q_np, nonparametric_weight)
        return q_eva

    def plan(self, embeddings: Tensor, episode_starts: Bools) -> None:
        """Advance the clock by one step and plan for the environments whose plans are due.

        Args:
            embeddings: Of the present states, (E, D).
            episode_starts: Whether each is its episode's first, (E,).
        """
        due = np.full(len(episode_starts), self.num_steps % self._plan_period_steps == 0)
        if self._plan_at_episode_start:
            due |= episode_starts
        self.num_steps += 1
        if not due.any():
            return
        environments = torch.as_tensor(due.nonzero()[0], device=embeddings.device)
        plans = self._planner.plan(embeddings[environments])
        planned_for = environments[plans.plans]
        for buffer, mine in self._buffers_and_environments():
            entries = slice(None) if mine == slice(None) else planned_for == mine.start
            buffer.append(plans.embeddings[entries], plans.q_np[entries], plans.slots[entries])

    def _buffers_and_environments(self) -> list[tuple[ValueBuffer, slice]]:
        if len(self.value_buffers) == 1:
            return [(self.value_buffers[0], slice(None))]
        return [(buffer, slice(e, e + 1)) for e, buffer in enumerate(self.value_buffers)]
