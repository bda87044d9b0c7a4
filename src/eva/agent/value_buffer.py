"""The value buffer: a small ring of planned values, read as the mean of the nearest (Algorithm 1: KNN in L, mean)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from eva.agent.memory.neighbours import NeighbourIndex
from eva.types import Floats, Ints, State


@dataclass(frozen=True)
class Recall:
    """What E queries found in the value buffer."""

    q_np: Floats  # (E, A) the mean over the K neighbours
    entries: Ints  # (E, K) where they lie in the buffer, nearest first
    squared_distances: Floats  # (E, K) float64


class ValueBuffer:
    """A ring of (h, Q_NP), the last planned values of states near the current one.

    Args:
        value_buffer_capacity: How many entries the ring holds.
        num_neighbours: K, how many entries one reading averages (P3).
        embedding_size: D.
        num_actions: A.
        device: Where embeddings live: the network's device.
    """

    def __init__(
        self,
        value_buffer_capacity: int,
        num_neighbours: int,
        embedding_size: int,
        num_actions: int,
        device: torch.device,
    ) -> None:
        self.num_neighbours = num_neighbours
        self.index = NeighbourIndex(value_buffer_capacity, embedding_size, device)
        self.values = np.zeros((value_buffer_capacity, num_actions), np.float32)
        self.origins = np.zeros((value_buffer_capacity, 3), np.int64)  # round, row and column: see `append`

    @property
    def oldest_round(self) -> int:
        """The oldest round of planning of which an entry is left; 0 while there is none."""
        oldest = (self.index.num_written - len(self)) % len(self.values)
        return int(self.origins[oldest, 0]) if len(self) > 0 else 0

    def __len__(self) -> int:
        return min(self.index.num_written, len(self.values))

    def get_state(self) -> State:
        """Return all entries and their order."""
        return {
            "keys": self.index.keys,
            "born": self.index.born,
            "num_written": self.index.num_written,
            "values": self.values,
            "origins": self.origins,
        }

    def set_state(self, state: State) -> None:
        """Continue with the entries that `get_state` returned."""
        np.copyto(self.values, state["values"])
        np.copyto(self.origins, state["origins"])
        born = state["born"]
        self.index.restore(state["keys"], born, state["num_written"], born >= 0)

    def append(self, embeddings: Tensor, q_np: Floats, origins: Ints) -> None:
        """Add n entries, in order; the oldest give way.

        Args:
            embeddings: (n, D).
            q_np: (n, A).
            origins: (n, 3), what was planned: the round, and the entry's row and column among its trajectories.
        """
        capacity = len(self.values)
        kept = slice(max(0, len(embeddings) - capacity), None)  # of a round larger than the ring, the end
        embeddings, q_np, origins = embeddings[kept], q_np[kept], origins[kept]
        first = self.index.num_written
        places = np.arange(first, first + len(embeddings)) % capacity
        self.index.write(places, embeddings)
        self.index.admit(places)
        self.values[places] = q_np
        self.origins[places] = origins

    def read(self, embeddings: Tensor, num_told: int | None = None) -> Recall | None:
        """Average the K nearest entries of each query (P10), (E, D); None while there are fewer than K (P24).

        It tells of these K, or of `num_told`, or of all if there are fewer.
        """
        k = self.num_neighbours
        if len(self) < k:
            return None
        n = k if num_told is None else num_told
        entries, squared_distances = self.index.search(embeddings, min(max(k, n), len(self)))
        q_np = self.values[entries[:, :k]].sum(axis=1) / k
        return Recall(q_np, entries[:, :n], squared_distances[:, :n])
