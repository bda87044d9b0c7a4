"""Exact nearest neighbours in a large memory: short sketches of the keys select the keys to read."""

import numpy as np
import torch
from torch import Tensor

from eva.agent.memory.neighbours import SHORTEST, NeighbourIndex, unit_roundoff
from eva.agent.tensors import restore
from eva.types import Bools, Floats, Ints, State

_NUM_DIRECTIONS = 22
_MARGIN = 16  # keys proposed in addition to k; with more, the k-th exact distance is smaller
_SAMPLE = 4_096  # minimum number of keys to fit the directions to
_GROUPS = 64  # groups in a block; the sketches of a block are contiguous and multiplied by one thread
_CHUNK = 1_024  # keys sketched at a time: they stay in the processor's cache


class ProjectedIndex(NeighbourIndex):
    """A `NeighbourIndex` that reads d + 2 numbers of each key instead of D, and finds the same neighbours.

    Let m be the mean of the keys and P their d leading principal directions. For a key x and a query q, let c = x - m
    and p = q - m, and let c' = c - P P^T c and p' = p - P P^T p be their components orthogonal to the directions. As
    c'.p' <= |c'| |p'| (Cauchy-Schwarz),

        |x - q|^2 = |p|^2 + |c|^2 - 2 c.p >= |p|^2 + |c|^2 - 2 (P^T c).(P^T p) - 2 |c'| |p'|

    Each key is stored with its sketch (P^T c, |c'|, |c|^2). A search takes four steps:

    1. Compute the score of each key, the product of its sketch and (-2 P^T p, -2 |p'|, 1). Score plus |p|^2 is the
       lower bound above.
    2. Propose the k + 16 keys with the lowest scores.
    3. Compute the exact distances of the proposed keys, and let r be the k-th smallest. The k nearest keys are not
       farther away than r.
    4. Keep all keys with a score of at most r^2 - |p|^2 plus rounding error: no other key can be nearer than r. The
       candidates that are kept are compared by their exact distances.

    If step 4 keeps more than `largest_share` of the keys, or the limit is not finite, brute force is used instead.

    The directions, d = min(`num_directions`, D / 4), are fitted again when the number of keys ever written has doubled
    or grown by N / 4. This changes the number of candidates but not the result. Keys are in groups of `group_size`;
    step 4 skips a group if its lowest score is above the limit.
    """

    BYTES_PER_SKETCH = 4 * (_NUM_DIRECTIONS + 2) + 1

    def __init__(
        self,
        capacity: int,
        key_size: int,
        device: torch.device,
        num_directions: int = _NUM_DIRECTIONS,
        group_size: int = 64,
        largest_share: float = 1 / 32,
    ) -> None:
        super().__init__(capacity, key_size, device)
        self.num_searches = 0
        self.num_fallbacks = 0  # searches that used brute force
        self._group_size = group_size
        self._block_size = _GROUPS * group_size
        self._largest_share = largest_share
        self._mean = torch.zeros(key_size, dtype=torch.float64, device=device)
        num_directions = max(1, min(num_directions, key_size // 4))
        self._directions = torch.zeros(key_size, num_directions, dtype=torch.float64, device=device)
        num_blocks = -(-capacity // self._block_size)
        self._nothing = torch.zeros(num_directions + 2, device=device)  # the sketch of a key that is not admitted
        self._nothing[-1] = torch.inf
        self._sketches = self._nothing[:, None].repeat(num_blocks, 1, self._block_size)
        self._unsketched = np.zeros(capacity, np.bool_)  # which sketches are out of date
        self._farthest = 0.0  # largest distance from the mean of the keys sketched since it was fitted
        self._next_fit = 0  # the directions are fitted when this number of keys has been written
        self._projected_scores = torch.empty(num_blocks, 0, self._block_size, device=device)

    def write(self, places: Ints, keys: Tensor) -> None:
        """Write n keys to n places, the newest last; searches do not find them before `admit`."""
        super().write(places, keys)
        self._unsketched[places] = True

    def admit(self, places: Ints) -> None:
        """Let searches find the keys at these places."""
        super().admit(places)
        self._unsketched[places] = True

    def replace(self, places: Ints, keys: Tensor) -> None:
        """Replace the keys at n places; if a place occurs twice, its last key counts."""
        super().replace(places, keys)
        self._unsketched[places] = True

    def load_state_dict(self, state: State) -> None:
        """Restore keys and order; the next search fits the directions."""
        super().load_state_dict(state)
        self._next_fit = 0

    def search_state(self) -> State:
        """Return sketches and directions: recomputed ones could differ in their last bits."""
        return {
            "sketches": self._sketches,
            "unsketched": self._unsketched,
            "mean": self._mean,
            "directions": self._directions,
            "farthest": self._farthest,
            "next_fit": self._next_fit,
            "num_searches": self.num_searches,
            "num_fallbacks": self.num_fallbacks,
        }

    def load_search_state(self, state: State) -> None:
        """Restore what `search_state` returned, after keys and order."""
        self._sketches.copy_(torch.as_tensor(state["sketches"]))
        restore(self._unsketched, state["unsketched"])
        self._mean.copy_(torch.as_tensor(state["mean"]))
        self._directions.copy_(torch.as_tensor(state["directions"]))
        self._farthest, self._next_fit = state["farthest"], state["next_fit"]
        self.num_searches, self.num_fallbacks = state["num_searches"], state["num_fallbacks"]

    def metrics(self) -> dict[str, float]:
        """Return the number of searches and the number of those that used brute force."""
        return {"searches": self.num_searches, "search_fallbacks": self.num_fallbacks}

    def _candidates(self, queries: Tensor, queries64: Floats, k: int) -> tuple[Ints, Ints]:
        """Return pairs of a query and a key that may be one of its k nearest: steps 1 to 4, or brute force."""
        self.num_searches += 1
        self._update_sketches()
        sketches = self._sketch(queries)
        scores = self._score_sketches(sketches)
        minima = scores.amin(dim=3).transpose(0, 1).flatten(1)  # (Q, groups)
        places, is_found = self._proposals(scores, minima, min(k + _MARGIN, len(self.keys)))
        rows = np.arange(len(queries)).repeat(places.shape[1])
        distances = self._squared_distances(queries64, rows, places.ravel()).reshape(places.shape)
        kth = np.sort(np.where(is_found, distances, np.inf), axis=1)[:, k - 1 : k]  # r^2
        limits = self._score_limits(sketches, self._on_device(kth))
        if limits.isfinite().all():
            found, groups = (minima > limits).logical_not_().nonzero().unbind(1)  # negated so that NaN counts as near
            hits, offsets = (_members(scores, found, groups) > limits[found]).logical_not_().nonzero().unbind(1)
            if len(hits) <= self._largest_share * len(self.keys) * len(queries):
                return found[hits].cpu().numpy(), (groups[hits] * self._group_size + offsets).cpu().numpy()
        self.num_fallbacks += 1
        return super()._candidates(queries, queries64, k)

    def _score_sketches(self, sketches: Tensor) -> Tensor:
        """Return the scores of all keys, (blocks, Q, groups, keys), for the queries' sketches, (Q, d + 2)."""
        num_blocks, num = len(self._sketches), len(sketches)
        if self._projected_scores.shape[1] != num:
            self._projected_scores = self._sketches.new_empty(num_blocks, num, self._block_size)
        factors = -2 * sketches
        factors[:, -1] = 1
        torch.bmm(factors.float().expand(num_blocks, -1, -1), self._sketches, out=self._projected_scores)
        return self._projected_scores.view(num_blocks, num, _GROUPS, self._group_size)

    def _proposals(self, scores: Tensor, minima: Tensor, num: int) -> tuple[Ints, Bools]:
        """Return the places of the `num` lowest scores, (Q, num), and which of them hold an admitted key.

        These scores are in the `num` groups with the lowest minima, (Q, groups).
        """
        groups = minima.topk(min(num, minima.shape[1]), dim=1, largest=False).indices
        rows = torch.arange(len(minima), device=groups.device)[:, None]
        smallest = _members(scores, rows, groups).flatten(1).topk(num, dim=1, largest=False)
        nth, offsets = smallest.indices // self._group_size, smallest.indices % self._group_size
        places = groups.gather(1, nth) * self._group_size + offsets
        is_found = (smallest.values < torch.inf).cpu().numpy()
        return np.where(is_found, places.cpu().numpy(), 0), is_found

    def _score_limits(self, sketches: Tensor, distances: Tensor) -> Tensor:
        """Return the highest scores, (Q, 1), of keys within these squared distances, (Q, 1), in spite of rounding.

        Sketches are computed in float64, with a negligible error, and rounded to float32. The absolute values of the
        d + 2 terms of a score add up to less than (|c| + |p|)^2. Rounding the two factors of each term, and summing the
        terms in any order, gives an error of at most (d + 4) u times this sum; rounding the limit adds one u. So
        (d + 10) u is enough. If a score might overflow, its limit is infinite.
        """
        squared_lengths = sketches[:, -1:]
        lengths = 1.01 * (max(self._farthest, SHORTEST) + squared_lengths.sqrt())
        roundings = self._sketches.shape[1] + 8  # d + 10: a sketch has d + 2 numbers
        error = roundings * unit_roundoff() * lengths.square().float()
        return (distances - squared_lengths + error).float()

    def _update_sketches(self) -> None:
        """Fit the directions if due, and sketch the keys that changed."""
        if self.num_written >= self._next_fit:
            self._fit()
        (changed,) = self._unsketched.nonzero()
        self._unsketched[changed] = False
        found = self.admitted[changed]
        gone, places = self._on_device(changed[~found]), changed[found]
        self._sketches[gone // self._block_size, :, gone % self._block_size] = self._nothing
        farthest = self._mean.new_full((), self._farthest)  # on the device, so that the loop does not wait for it
        for first in range(0, len(places), _CHUNK):
            indices = self._on_device(places[first : first + _CHUNK])
            sketches = self._sketch(self.keys[indices])
            self._sketches[indices // self._block_size, :, indices % self._block_size] = sketches.float()
            farthest = torch.maximum(farthest, sketches[:, -1].max().sqrt())  # NaN stays
        self._farthest = float(farthest)

    def _fit(self) -> None:
        """Fit mean and principal directions to a sample of the keys, evenly spaced over the places."""
        (places,) = self.admitted.nonzero()
        some = self._on_device(places[:: max(1, len(places) // _SAMPLE)])
        sample = torch.nan_to_num(self.keys[some].double(), 0.0, 0.0, 0.0)
        self._mean.copy_(sample.mean(dim=0))
        sample -= self._mean
        _, vectors = torch.linalg.eigh(sample.T @ sample)  # ascending
        self._directions.copy_(vectors[:, -self._directions.shape[1] :])
        self._farthest = 0.0
        self._unsketched.fill(True)
        self._next_fit = self.num_written + max(1, min(self.num_written, len(self.keys) // 4))

    def _sketch(self, points: Tensor) -> Tensor:
        """Return (P^T c, |c'|, |c|^2) of points, (n, D), in float64, (n, d + 2)."""
        centred = points.double() - self._mean
        coordinates = centred @ self._directions
        missed = torch.linalg.vector_norm(centred - coordinates @ self._directions.T, dim=1, keepdim=True)
        return torch.cat([coordinates, missed, centred.square().sum(dim=1, keepdim=True)], dim=1)


def _members(scores: Tensor, rows: Tensor, groups: Tensor) -> Tensor:
    """Return the scores of the keys in `groups`, (..., keys), each for the query of the same place in `rows`."""
    return scores[groups // _GROUPS, rows, groups % _GROUPS]
