"""Exact nearest neighbours under the Euclidean distance, ties newest first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from eva.agent.device import to_device
from eva.types import Bools, Floats, Ints, State

_UNIT_ROUNDOFFS = {"highest": 2.0**-24, "high": 2.0**-11, "medium": 2.0**-8}  # of a product in float32, TF32, bfloat16
SHORTEST, LONGEST = 1e-14, 1e18  # lengths below and above which products are too small or too large for float32
_MARGIN, _LARGEST_MARGIN = 43, 344  # scores beyond the k-th that are looked at, at first and at most
_CHUNK = 1 << 15  # rows looked at directly at a time: bounds the memory when everything is a duplicate, or new


class NeighbourIndex:
    """A table of keys that is overwritten in place and searched exactly.

    Keys live on the device; what only orders them lives on the host. Writing is done every step and searching seldom,
    so norms are brought up to date when a search needs them.

    Args:
        capacity: N, places in the table.
        key_size: D.
        device: Where keys live and queries come from.
    """

    BYTES_PER_SKETCH = 0  # of what is kept of each key besides

    def __init__(self, capacity: int, key_size: int, device: torch.device) -> None:
        self.keys = torch.zeros(capacity, key_size, device=device)
        self.born = np.full(capacity, -1)  # the larger the newer
        self.admitted = np.zeros(capacity, np.bool_)  # those that can be found
        self.num_written = 0
        self._norms = torch.full((capacity,), torch.inf, device=device)  # squared; infinity: not to be found
        self._stale = np.zeros(capacity, np.bool_)  # places whose norm is not up to date
        self._longest = SHORTEST  # the length of the longest key so far
        self._scores = torch.empty(capacity, 0, device=device)
        self._margin = _MARGIN  # it decides how long a search takes, and nothing else

    def write(self, places: Ints, keys: Tensor) -> None:
        """Put n keys at n places, the last one the newest; they cannot be found yet."""
        self.keys.index_copy_(0, self._indices(places), keys)
        self.born[places] = np.arange(self.num_written, self.num_written + len(places))
        self.num_written += len(places)
        self.admitted[places] = False
        self._stale[places] = True

    def admit(self, places: Ints) -> None:
        """Let the keys at these places be found from now on."""
        self.admitted[places] = True
        self._stale[places] = True

    def restore(self, keys: Tensor | Floats, born: Ints, num_written: int, admitted: Bools) -> None:
        """Take over keys, (N, D), born, (N,), and which of them can be found, (N,)."""
        self.keys.copy_(torch.as_tensor(keys))
        np.copyto(self.born, born)
        np.copyto(self.admitted, admitted)
        self.num_written = num_written
        self._stale.fill(True)

    def get_search_state(self) -> State:
        """Return what later searches depend on besides the keys: nothing."""
        return {}

    def set_search_state(self, state: State) -> None:
        """Continue with what `get_search_state` returned, after `restore`."""

    def metrics(self) -> dict[str, float]:
        """Return what there is to tell of the searches: nothing."""
        return {}

    def search(self, queries: Tensor, k: int) -> tuple[Ints, Floats]:
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
        if k == 0:
            return np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0))
        self._refresh()
        directly = on_host(queries)
        lengths = self._longest + np.sqrt(np.square(directly).sum(axis=1))
        if not (lengths < LONGEST).all():
            (places,) = self.admitted.nonzero()
            return stacked([self._ordered_by_chunks(query, places, k) for query in directly])
        all_scores = self._score(queries)
        best = all_scores.topk(min(k + self._margin, len(self.keys)), dim=0, largest=False)
        scores, proposed = best.values.cpu().numpy().T, best.indices.cpu().numpy().T  # (E, n) sorted
        limits = self._limits(lengths, scores[:, k - 1])
        near = slice(max(k, np.count_nonzero(scores <= limits[:, None], axis=1).max()))
        places, distances = self._ordered(directly, proposed[:, near], np.isfinite(scores[:, near]), k)
        if scores.shape[1] == len(self.keys):
            return places, distances
        (unproven,) = (scores[:, -1] <= limits).nonzero()  # there may be more within the limit
        for e in unproven:
            within = (all_scores[:, e] <= float(limits[e])).nonzero()[:, 0].cpu().numpy()
            places[e], distances[e] = self._ordered_by_chunks(directly[e], within, k)
        if len(unproven) > 0:
            self._margin = min(2 * self._margin, _LARGEST_MARGIN)  # the next search will find keys as close as these
        return places, distances

    def _score(self, queries: Tensor) -> Tensor:
        """Return the squared distances of all keys, less |q|^2, (N, E); the product (E, N) takes far longer."""
        if self._scores.shape[1] != len(queries):
            self._scores = self._norms.new_empty(len(self._norms), len(queries))
        return torch.addmm(self._norms[:, None], self.keys, queries.T, alpha=-2, out=self._scores)

    def _limits(self, lengths: Floats, kth: Floats) -> Floats:
        """Return the scores, (E,), beyond which rounding cannot have kept a key out of the first k.

        A float32 product of D terms is off by at most about D u |x| |q| in whatever order it is summed, |x|^2 likewise;
        the subtraction adds a few u, the direct distance in float64 next to nothing. So each score is off by less than
        (D + 8) u (|x| + |q|)^2.

        Args:
            lengths: |x| + |q| for the longest key, (E,).
            kth: The k-th smallest score of each, (E,).
        """
        relative = 1.01 * (self.keys.shape[1] + 8) * unit_roundoff()
        limits: Floats = kth + 2 * relative * lengths * lengths
        return limits

    def _ordered(self, queries: Floats, candidates: Ints, real: Bools, k: int) -> tuple[Ints, Floats]:
        """Sort candidates, (E, n), by their distance in float64, ties newest first; keep k of those that are real."""
        keys = self.keys.index_select(0, self._indices(candidates.ravel())).cpu().numpy()
        differences = keys.reshape(*candidates.shape, -1) - queries[:, None]
        distances = np.where(real, np.square(differences, out=differences).sum(axis=2), np.inf)
        order = np.lexsort((-self.born[candidates], distances))[:, :k]
        rows = np.arange(len(queries))[:, None]
        return candidates[rows, order], distances[rows, order]

    def _ordered_by_chunks(self, query: Floats, candidates: Ints, k: int) -> tuple[Ints, Floats]:
        """Do the same for one query, (D,), and candidates, (n,), so many that they are compared by and by."""
        best = candidates[:0]
        for first in range(0, len(candidates), _CHUNK):
            some = np.concatenate([best, candidates[first : first + _CHUNK]])[None]
            (best,), (distances,) = self._ordered(query[None], some, np.ones_like(some, np.bool_), k)
        return best, distances

    def _refresh(self) -> None:
        """Bring the norms of the keys that changed up to date."""
        (stale,) = self._stale.nonzero()
        self._stale[stale] = False
        for first in range(0, len(stale), _CHUNK):
            places = stale[first : first + _CHUNK]
            indices = self._indices(places)
            lengths = torch.linalg.vector_norm(self.keys[indices], dim=1)
            self._norms[indices] = torch.where(self._indices(self.admitted[places]), lengths.square(), torch.inf)
            self._longest = max(self._longest, float(lengths.max()))

    def _indices(self, array: Ints | Bools) -> Tensor:
        return to_device(array, self.keys.device)


def stacked(found: Sequence[tuple[Ints, Floats]]) -> tuple[Ints, Floats]:
    """Return the places and distances of each query as one array each, (E, k)."""
    places, distances = (np.stack(each) for each in zip(*found, strict=True))
    return places, distances


def unit_roundoff() -> float:
    """Return the unit roundoff u of a product in the precision that torch was asked for."""
    try:
        return _UNIT_ROUNDOFFS[torch.get_float32_matmul_precision()]
    except RuntimeError:  # it was asked backend by backend (torch.backends.*.fp32_precision), and cannot tell
        return max(_UNIT_ROUNDOFFS.values())


def on_host(queries: Tensor) -> Floats:
    """Return queries for direct comparison, in float64."""
    return queries.cpu().numpy().astype(np.float64)
