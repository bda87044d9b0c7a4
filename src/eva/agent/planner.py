"""Planning over memories: find what resembles the present, follow what came next, propagate the values back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from eva.agent.memory.replay import ReplayBuffer
from eva.types import Bools, Floats, Ints, Trajectories

Trace = Callable[[Trajectories, Floats, Floats], Floats]
"""(trajectories, q_theta (B, T + 1, A), embeddings (B, T + 1, D)) -> q_np (B, T, A)."""

Evaluate = Callable[[Ints], tuple[Tensor, Tensor]]
"""Slots of remembered states (n,) -> their Q_theta (n, A) and embeddings (n, D)."""


@dataclass(frozen=True)
class Plans:
    """One round of planning, and which of its states enter the value buffer: by plan, trajectory and time."""

    trajectories: Trajectories
    q_np: Floats  # (B, T, A)
    embeddings: Tensor  # (B, T + 1, D)
    rows: Ints  # (n,) of the states that enter
    columns: Ints  # (n,)


class Planner:
    """Plan for all queries in one search and one trace.

    Args:
        replay: The memory.
        trace: The trace computation.
        evaluate: Gives Q_theta and embedding of remembered states (P6: stored, or recomputed).
        num_trajectories: M, how many are retrieved for each query (P3).
        trajectory_length: T.
        keep_all: Whether all steps of a trajectory enter the value buffer, or its first only (P2).
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
    def plan(self, queries: Tensor) -> Plans:
        """Plan for each query, the embedding of a present state, (E, D); the memory must not be empty."""
        starts, _ = self._replay.search(queries, self._num_trajectories)
        trajectories = self._replay.trajectories(starts, self._trajectory_length)
        num, states = trajectories.slots.shape
        flat_q, flat_h = self._evaluate(trajectories.slots.reshape(-1))
        q_theta, embeddings = flat_q.reshape(num, states, -1), flat_h.reshape(num, states, -1)
        q_np = self._trace(trajectories, q_theta.cpu().numpy(), embeddings.cpu().numpy())
        rows, columns = (trajectories.valid if self._keep_all else _first_valid(trajectories.valid)).nonzero()
        return Plans(trajectories, q_np, embeddings, rows, columns)


def _first_valid(valid: Bools) -> Bools:
    first: Bools = valid & (valid.cumsum(axis=1) == 1)
    return first
