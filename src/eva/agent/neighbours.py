"""Exact nearest neighbours under the Euclidean distance, ties newest first."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from eva.types import Bools, Floats, Ints

_UNIT_ROUNDOFF = 2.0**-24  # of float32
_UNDERFLOW = 1e-34  # what products too small for float32 can add up to
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
        self._largest_norm = torch.zeros((), device=device)  # of all norms so far

    def write(self, places: Tensor, keys: Tensor) -> None:
        """Put n keys at n places, the last one the newest; they cannot be found yet."""
        born = torch.arange(self.num_written, self.num_written + len(places), device=places.device)
        self.num_written += len(places)
        self.keys.index_copy_(0, places, keys)
        self.born.index_copy_(0, places, born)
        self.norms.index_fill_(0, places, torch.inf)

    def admit(self, places: Tensor) -> None:
        """Let the keys at these places be found from now on."""
        norms = self.keys[places].double().square().sum(dim=1).float()
        self.norms.index_copy_(0, places, norms)
        if len(places) > 0:
            self._largest_norm = torch.maximum(self._largest_norm, norms.max())

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
        scores = torch.addmm(self.norms, queries, self.keys.T, alpha=-2)  # (E, N): the squared distance less |q|^2
        limits = self._kth_smallest(scores, k) + 2 * self._rounding_margin(queries)
        found = [
            self._order(query, (row <= limit).nonzero()[:, 0], k)
            for query, row, limit in zip(queries, scores, limits, strict=True)
        ]
        return torch.stack([places for places, _ in found]), torch.stack([distances for _, distances in found])

    @staticmethod
    def _kth_smallest(scores: Tensor, k: int) -> Tensor:
        if k == 0:
            return scores.new_full((len(scores),), -torch.inf)
        return scores.topk(k, dim=1, largest=False).values.amax(dim=1)

    def _rounding_margin(self, queries: Tensor) -> Tensor:
        """Bound the error of each query's scores, (E,).

        A float32 product of D terms is off by at most about D u |x| |q| in whatever order it is summed; the norms and
        the final subtraction add a few u |x|^2. The direct distance itself is rounded, to float64.
        """
        terms = 1.01 * (queries.shape[1] + 8)
        lengths = queries.norm(dim=1)
        products = self._largest_norm + 2 * self._largest_norm.sqrt() * lengths
        margin: Tensor = terms * (_UNIT_ROUNDOFF * products + _UNIT_ROUNDOFF**2 * lengths**2) + _UNDERFLOW
        return margin

    def _order(self, query: Tensor, candidates: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Sort candidates by their distance in float64, ties newest first, and keep k."""
        query = query.double()
        distances = torch.cat([(self.keys[chunk] - query).square().sum(dim=1) for chunk in candidates.split(_CHUNK)])
        order = np.lexsort((-self.born[candidates].cpu().numpy(), distances.cpu().numpy()))[:k]
        first = torch.as_tensor(order, device=candidates.device)
        return candidates[first], distances[first]
