"""The value buffer of Algorithm 1."""

from __future__ import annotations

import math

from tests.helpers.reference.neighbours import Embedding, nearest
from tests.helpers.reference.traces import QValues


class ReferenceValueBuffer:
    """The last `capacity` pairs (h, Q_NP), oldest first."""

    def __init__(self, capacity: int, k: int) -> None:
        self.capacity = capacity
        self.k = k
        self.entries: list[tuple[Embedding, QValues]] = []

    def append(self, embedding: Embedding, q_np: QValues) -> None:
        """Add a pair, and forget the oldest when there are too many."""
        self.entries.append((embedding, q_np))
        del self.entries[: -self.capacity]

    def read(self, query: Embedding) -> QValues | None:
        """Return the mean Q_NP of the k nearest entries, ties newest first; None if there are fewer than k."""
        if len(self.entries) < self.k:
            return None  # P24
        keys = [embedding for embedding, _ in self.entries]
        found = [self.entries[i][1] for i, _ in nearest(keys, list(range(len(keys))), query, self.k)]
        return [math.fsum(values) / self.k for values in zip(*found, strict=True)]  # P10
