"""The value buffer: a small ring of planned values, read as the mean of the nearest (Algorithm 1, lines 4 and 5)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eva.agent.neighbours import nearest, squared_norms


@dataclass(frozen=True)
class Recall:
    """What E queries found in the value buffer."""

    q_np: Tensor  # (E, A) the mean over the K neighbours
    entries: Tensor  # (E, K) where they lie in the buffer, nearest first
    squared_distances: Tensor  # (E, K) float64


class ValueBuffer:
    """A ring of (h, Q_NP), the last planned values of states near the current one.

    Args:
        value_buffer_capacity: How many entries the ring holds.
        num_neighbours: K, how many entries one reading averages (P3).
        embedding_size: D.
        num_actions: A.
        device: Where the ring lives: the network's device.
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
        self.keys = torch.zeros(value_buffer_capacity, embedding_size, device=device)
        self.norms = torch.full((value_buffer_capacity,), torch.inf, device=device)  # infinity: empty
        self.values = torch.zeros(value_buffer_capacity, num_actions, device=device)
        self.slots = torch.full((value_buffer_capacity,), -1, dtype=torch.int64, device=device)
        self.born = torch.zeros(value_buffer_capacity, dtype=torch.int64, device=device)
        self.num_appended = 0

    def __len__(self) -> int:
        return min(self.num_appended, len(self.keys))

    def clear(self) -> None:
        """Forget everything."""
        self.norms.fill_(torch.inf)
        self.num_appended = 0

    def append(self, embeddings: Tensor, q_np: Tensor, slots: Tensor) -> None:
        """Add n entries, in order; the oldest give way.

        Args:
            embeddings: (n, D).
            q_np: (n, A).
            slots: (n,) the replay slots of the remembered states.
        """
        kept = slice(max(0, len(embeddings) - len(self.keys)), None)  # a round larger than the ring: its end
        born = torch.arange(self.num_appended, self.num_appended + len(embeddings), device=self.keys.device)[kept]
        places = born % len(self.keys)
        self.keys[places] = embeddings[kept]
        self.norms[places] = squared_norms(embeddings[kept])
        self.values[places] = q_np[kept]
        self.slots[places] = slots[kept]
        self.born[places] = born
        self.num_appended += len(embeddings)

    def read(self, embeddings: Tensor) -> Recall | None:
        """Average the K nearest entries of each query (P10), (E, D); None while there are fewer than K (P24)."""
        if len(self) < self.num_neighbours:
            return None
        entries, squared_distances = nearest(self.keys, self.norms, self.born, embeddings, self.num_neighbours)
        return Recall(self.values[entries].mean(dim=1), entries, squared_distances)
