"""Exact nearest neighbours under the Euclidean distance, ties newest first."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from eva.types import Bools, Floats, Ints

_UNIT_ROUNDOFFS = {"highest": 2.0**-24, "high": 2.0**-11, "medium": 2.0**-8}  # of a product in float32, TF32, bfloat16
_SHORTEST = 1e-14  # a length below which the products are too small for float32
_CHUNK = 1 << 15  # rows compared directly at a time: bounds the memory when everything is a duplicate


class NeighbourIndex:
    """A table of keys that is overwritten in place and searched exactly.

    Args:
        capacity: N, places in the table.
        key_size: D.
        device: Where keys live and queries come from.
    """

    def __init__(self, capacity: int, key_size: int, device: torch.device) -> None:
        self.keys = torch.zeros(capacity, key_size, device=device)
        self.norms = torch.full((capacity,), torch.inf, device=device)  # squared; infinity: not to be found
        self.born = torch.full((capacity,), -1, dtype=torch.int64, device=device)  # the larger the newer
        self.num_written = 0
        self._longest = torch.full((), _SHORTEST, device=device)  # the length of the longest key so far

    def write(self, places: Tensor, keys: Tensor) -> None:
        """Put n keys at n places, the last one the newest; they cannot be found yet."""
        born = torch.arange(self.num_written, self.num_written + len(places), device=places.device)
        self.num_written += len(places)
        self.keys.index_copy_(0, places, keys)
        self.born.index_copy_(0, places, born)
        self.norms.index_fill_(0, places, torch.inf)

    def admit(self, places: Tensor) -> None:
        """Let the keys at these places be found from now on."""
        lengths = torch.linalg.vector_norm(self.keys[places], dim=1)
        self.norms.index_copy_(0, places, lengths.square())
        if len(places) > 0:
            self._longest = torch.maximum(self._longest, lengths.amax())

    def restore(self, keys: Tensor | Floats, born: Tensor | Ints, num_written: int, admitted: Bools) -> None:
        """Take over keys, (N, D), born, (N,), and which of them can be found, (N,)."""
        self.clear()
        self.keys.copy_(torch.as_tensor(keys))
        self.born.copy_(torch.as_tensor(born))
        self.num_written = num_written
        self.admit(torch.as_tensor(admitted.nonzero()[0], device=self.keys.device))

    def clear(self) -> None:
        """Let nothing be found."""
        self.norms.fill_(torch.inf)

    def search(self, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Find the k keys closest to each query.

        `|x|^2 - 2 x.q` takes one matrix product for all queries but loses digits on near-duplicates, so it only
        proposes candidates: all keys that rounding could have kept out of the first k. Their order is that of the
        directly subtracted distance in float64, the newest first among equals. The answer is brute force's, always.

        Args:
            queries: (E, D) float32.
            k: How many; at least so many keys must be there to be found.

        Returns:
            Places and squared distances (float64), nearest first, (E, k) each.
        """
        with torch.autocast(queries.device.type, enabled=False):
            scores = torch.addmm(self.norms, queries, self.keys.T, alpha=-2)  # (E, N): squared distance less |q|^2
        near = scores <= self._limits(queries, self._kth_smallest(scores, k))
        found = [
            self._order(query, row.nonzero()[:, 0], k)
            for query, row in zip(queries.double().cpu().numpy(), near, strict=True)
        ]
        places, distances = (np.stack(each) for each in zip(*found, strict=True))
        return torch.as_tensor(places, device=near.device), torch.as_tensor(distances, device=near.device)

    @staticmethod
    def _kth_smallest(scores: Tensor, k: int) -> Tensor:
        if k == 0:
            return scores.new_full((len(scores), 1), -torch.inf)
        return scores.topk(k, dim=1, largest=False).values[:, -1:]

    def _limits(self, queries: Tensor, kth: Tensor) -> Tensor:
        """Return the scores, (E, 1), beyond which rounding cannot have kept a key out of the first k.

        A float32 product of D terms is off by at most about D u |x| |q| in whatever order it is summed, |x|^2 likewise;
        the subtraction adds a few u, the direct distance in float64 next to nothing. So each score is off by less than
        (D + 8) u (|x| + |q|)^2.

        Args:
            queries: (E, D).
            kth: The k-th smallest score of each, (E, 1).
        """
        relative = 1.01 * (queries.shape[1] + 8) * _UNIT_ROUNDOFFS[torch.get_float32_matmul_precision()]
        lengths = self._longest + torch.linalg.vector_norm(queries, dim=1, keepdim=True)
        return torch.addcmul(kth, lengths, lengths, value=2 * relative)

    def _order(self, query: Floats, candidates: Tensor, k: int) -> tuple[Ints, Floats]:
        """Sort candidates by their distance in float64, ties newest first, and keep k. They are few: on the host."""
        distances = np.concatenate(
            [np.square(self.keys[chunk].cpu().numpy() - query).sum(axis=1) for chunk in candidates.split(_CHUNK)]
        )
        order = np.lexsort((-self.born[candidates].cpu().numpy(), distances))[:k]
        return candidates.cpu().numpy()[order], distances[order]
