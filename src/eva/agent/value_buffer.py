"""The value buffer L: a small ring of planned values; reading it returns the mean of the K nearest (Algorithm 1)."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from eva.agent.memory.neighbours import NeighbourIndex
from eva.agent.tensors import restore
from eva.types import Floats, Ints, State


@dataclass(frozen=True)
class Recall:
    """The result of E queries."""

    q_np: Floats  # (E, A) the mean over the K neighbours
    entries: Ints  # (E, K) indices of entries, nearest first
    squared_distances: Floats  # (E, K) float64


class ValueBuffer:
    """A ring of (h, Q_NP): embeddings of remembered states, and the values that were planned for them last.

    A query returns the mean of the K = `num_neighbours` nearest entries (P3). Embeddings are on the network's `device`.
    """

    def __init__(
        self, capacity: int, num_neighbours: int, embedding_size: int, num_actions: int, device: torch.device
    ) -> None:
        self.num_neighbours = num_neighbours
        self.index = NeighbourIndex(capacity, embedding_size, device)
        self.values = np.zeros((capacity, num_actions), np.float32)
        self.origins = np.zeros((capacity, 3), np.int64)  # see `append`

    @property
    def oldest_round(self) -> int:
        """The oldest planning round with an entry in the buffer; 0 if the buffer is empty."""
        oldest = (self.index.num_written - len(self)) % len(self.values)
        return int(self.origins[oldest, 0]) if len(self) > 0 else 0

    def __len__(self) -> int:
        return min(self.index.num_written, len(self.values))

    def append(self, embeddings: Tensor, q_np: Floats, origins: Ints) -> None:
        """Append n entries, (n, D) and (n, A), in order, overwriting the oldest.

        `origins`, (n, 3), are the number of the planning round, and row and column in its trajectories.
        """
        capacity = len(self.values)
        kept = slice(max(0, len(embeddings) - capacity), None)  # of a round larger than the ring, keep the last entries
        embeddings, q_np, origins = embeddings[kept], q_np[kept], origins[kept]
        first = self.index.num_written
        places = np.arange(first, first + len(embeddings)) % capacity
        self.index.write(places, embeddings)
        self.index.admit(places)
        self.values[places] = q_np
        self.origins[places] = origins

    def read(self, embeddings: Tensor, num_returned: int | None = None) -> Recall | None:
        """Average the K nearest entries of each query, (E, D), with equal weights (P10).

        Returns None while the buffer has fewer than K entries (P24). `num_returned` is the number of nearest entries to
        return with the mean, by default K; if there are fewer, all are returned.
        """
        k = self.num_neighbours
        if len(self) < k:
            return None
        n = k if num_returned is None else num_returned
        entries, squared_distances = self.index.search(embeddings, min(max(k, n), len(self)))
        q_np = self.values[entries[:, :k]].sum(axis=1) / k
        return Recall(q_np, entries[:, :n], squared_distances[:, :n])

    def state_dict(self) -> State:
        """Return all entries and their order."""
        return {
            **self.index.state_dict(),
            "num_written": self.index.num_written,
            "values": self.values,
            "origins": self.origins,
        }

    def load_state_dict(self, state: State) -> None:
        """Restore the entries."""
        restore(self.values, state["values"])
        restore(self.origins, state["origins"])
        self.index.load_state_dict(state)
        self.index.admit(np.arange(len(self)))
