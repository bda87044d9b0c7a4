"""Planning over memories: find similar states, follow what happened next, propagate values back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from eva.agent.memory.replay import ReplayBuffer
from eva.agent.tensors import to_device
from eva.types import Bools, Floats, Ints, Trajectories

Trace = Callable[[Trajectories, Floats, Floats], Floats]
"""(trajectories, q_theta (B, T + 1, A), embeddings (B, T + 1, D)) -> q_np (B, T, A)."""

Evaluate = Callable[[Ints], tuple[Tensor, Tensor]]
"""Slots of remembered states (n,) -> their Q_theta (n, A) and embeddings (n, D): one of the two functions below, with
`functools.partial`. A closure would keep the old memory after a deepcopy."""


def stored_values(replay: ReplayBuffer, values: Callable[[Tensor], Tensor], slots: Ints) -> tuple[Tensor, Tensor]:
    """Apply the network's last layer to the embeddings stored when the states were seen (P6)."""
    h = replay.embeddings[to_device(slots, replay.embeddings.device)]
    return values(h).float(), h


def recomputed_values(
    replay: ReplayBuffer, network: Callable[[Tensor], tuple[Tensor, Tensor]], slots: Ints
) -> tuple[Tensor, Tensor]:
    """Apply the whole network to the stored observations (P6)."""
    return network(replay.gather(slots))


@dataclass(frozen=True)
class PlanningRound:
    """One round of planning; n of its states enter the value buffer, ordered by query, trajectory and time."""

    trajectories: Trajectories
    q_np: Floats  # (B, T, A)
    embeddings: Tensor  # (B, T + 1, D)
    rows: Ints  # (n,)
    columns: Ints  # (n,)

    @property
    def queries(self) -> Ints:
        """The query that each entry was planned for, (n,)."""
        return self.trajectories.plans[self.rows]

    def entries(self, number: int) -> tuple[Tensor, Floats, Ints]:
        """Return embeddings, (n, D), Q_NP, (n, A), and origins, (n, 3): `number`, row and column."""
        rows, columns = (to_device(x, self.embeddings.device) for x in (self.rows, self.columns))
        origins = np.stack([np.full_like(self.rows, number), self.rows, self.columns], axis=1)
        return self.embeddings[rows, columns], self.q_np[self.rows, self.columns], origins


class Planner:
    """Plan for all queries with one search and one trace computation.

    Args:
        replay: The memory.
        trace: The trace computation.
        evaluate: Returns Q_theta and embeddings of remembered states.
        num_trajectories: M, trajectories retrieved for each query (P3).
        trajectory_length: T.
        keep_all: Whether all states of a trajectory enter the value buffer, or only its first (P2).
    """

    def __init__(
        self,
        replay: ReplayBuffer,
        trace: Trace,
        evaluate: Evaluate,
        *,
        num_trajectories: int,
        trajectory_length: int,
        keep_all: bool,
    ) -> None:
        self._replay = replay
        self._trace = trace
        self._evaluate = evaluate
        self._num_trajectories = num_trajectories
        self._trajectory_length = trajectory_length
        self._keep_all = keep_all

    @torch.no_grad()
    def plan(self, queries: Tensor) -> PlanningRound:
        """Plan for each query, the embedding of a present state, (E, D); the memory must not be empty."""
        starts, _ = self._replay.search(queries, self._num_trajectories)
        trajectories = self._replay.trajectories(starts, self._trajectory_length)
        num, states = trajectories.slots.shape
        flat_q, flat_h = self._evaluate(trajectories.slots.reshape(-1))
        q_theta, embeddings = flat_q.reshape(num, states, -1), flat_h.reshape(num, states, -1)
        q_np = self._trace(trajectories, q_theta.cpu().numpy(), embeddings.cpu().numpy())
        rows, columns = (trajectories.valid if self._keep_all else _first_valid(trajectories.valid)).nonzero()
        return PlanningRound(trajectories, q_np, embeddings, rows, columns)


def _first_valid(valid: Bools) -> Bools:
    first: Bools = valid & (valid.cumsum(axis=1) == 1)
    return first
