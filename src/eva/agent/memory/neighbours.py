"""Exact nearest neighbours under the Euclidean distance, ties newest first."""

import numpy as np
import torch
from torch import Tensor

from eva.agent.tensors import check_shapes, restore, to_device
from eva.types import Bools, Floats, Ints, State

_UNIT_ROUNDOFFS = {"highest": 2.0**-24, "high": 2.0**-11, "medium": 2.0**-8}  # of a product in float32, TF32, bfloat16
SHORTEST, LONGEST = 1e-14, 1e18  # products of shorter vectors underflow in float32, of longer ones they overflow
_LARGEST = float(np.finfo(np.float32).max)  # a larger limit cannot be compared with scores
_MARGIN = 8  # of the lowest scores that are looked at before all are
_CHUNK = 1 << 15  # keys read at a time: bounds memory use when all keys are candidates or new


class NeighbourIndex:
    """A table of N = `capacity` keys of size D that is overwritten in place and searched exactly.

    Keys are on the device; the order in which they were written (`born`) is on the host. Writes are more frequent than
    searches, so norms are updated when a search needs them.
    """

    BYTES_PER_SKETCH = 0  # what `ProjectedIndex` stores for each key in addition to it

    def __init__(self, capacity: int, key_size: int, device: torch.device) -> None:
        self.keys = torch.zeros(capacity, key_size, device=device)
        self.born = np.full(capacity, -1)  # number of keys written before this one; -1 if there is none
        self.admitted = np.zeros(capacity, np.bool_)  # which keys a search can find
        self.num_written = 0
        self._norms = torch.full((capacity,), torch.inf, device=device)  # squared; inf if not admitted
        self._stale = np.zeros(capacity, np.bool_)  # which norms are out of date
        self._longest = SHORTEST  # the length of the longest key so far
        self._scores = torch.empty(capacity, 0, device=device)

    def write(self, places: Ints, keys: Tensor) -> None:
        """Write n keys to n places, the newest last; searches do not find them before `admit`."""
        self.keys.index_copy_(0, self._on_device(places), keys)
        self.born[places] = np.arange(self.num_written, self.num_written + len(places))
        self.num_written += len(places)
        self.admitted[places] = False
        self._stale[places] = True

    def admit(self, places: Ints) -> None:
        """Let searches find the keys at these places."""
        self.admitted[places] = True
        self._stale[places] = True

    def replace(self, places: Ints, keys: Tensor) -> None:
        """Replace the keys at n places; their order, and what searches can find, stay as they are.

        If a place occurs twice, its last key counts.
        """
        places, from_the_end = np.unique(places[::-1], return_index=True)
        rows = len(keys) - 1 - from_the_end
        self.keys.index_copy_(0, self._on_device(places), keys[self._on_device(rows)])
        self._stale[places] = True

    def state_dict(self) -> State:
        """Return the keys, (N, D), and their order, (N,); the owner admits keys again after loading."""
        return {"keys": self.keys, "born": self.born}

    def load_state_dict(self, state: State) -> None:
        """Restore keys and order; `state` may hold other names too. Call `admit` afterwards."""
        check_shapes(tuple(self.keys.shape), keys=state["keys"])
        self.keys.copy_(torch.as_tensor(state["keys"]))
        restore(self.born, state["born"])
        self.num_written = int(self.born.max(initial=-1)) + 1  # the newest key is always there
        self.admitted.fill(False)
        self._stale.fill(True)

    def search_state(self) -> State:
        """Return what the speed of later searches depends on besides the keys: here nothing."""
        return {}

    def load_search_state(self, state: State) -> None:
        """Restore what `search_state` returned, after keys and order."""

    def metrics(self) -> dict[str, float]:
        """Return statistics of the searches: here none."""
        return {}

    def search(self, queries: Tensor, k: int) -> tuple[Ints, Floats]:
        """Return places and squared distances, (Q, k) each, of the k keys nearest to each query, (Q, D), nearest first.

        Distances are sums of squared differences in float64. Keys at the same distance are ordered newest first. The
        result equals that of brute force. At least k keys must be admitted.
        """
        if k == 0:
            return np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0))
        queries64 = queries.cpu().numpy().astype(np.float64)
        rows, places = self._candidates(queries, queries64, k)
        distances = self._squared_distances(queries64, rows, places)
        order = np.lexsort((-self.born[places], distances, rows))
        firsts = rows[order].searchsorted(np.arange(len(queries)))
        nearest = order[firsts[:, None] + np.arange(k)]
        return places[nearest], distances[nearest]

    def _candidates(self, queries: Tensor, queries64: Floats, k: int) -> tuple[Ints, Ints]:
        """Return pairs of a query and a key that may be one of its k nearest: rows of queries and places, (n,) each.

        The score of a key x is |x|^2 - 2 x.q, its squared distance less |q|^2. One matrix product computes all scores,
        but rounding changes the order of near-duplicates. So every key is a candidate whose score is within rounding
        error of the k-th lowest. If scores are not finite, all keys are. `queries64` are on the host, in float64.
        """
        self._refresh()
        lengths = self._longest + np.sqrt(np.square(queries64).sum(axis=1))
        if (lengths < LONGEST).all():
            scores = self._score(queries)
            lowest = scores.topk(min(k + _MARGIN, len(scores)), dim=0, largest=False)
            values = lowest.values.cpu().numpy()
            limits = self._limits(lengths, values[k - 1])
            if (limits < _LARGEST).all():
                if (values[-1] > limits).all():  # no others are as low
                    ranks, rows = (values <= limits).nonzero()
                    return rows, lowest.indices.cpu().numpy()[ranks, rows]
                near = scores <= self._on_device(limits.astype(np.float32))
                places, rows = near.cpu().numpy().nonzero()
                return rows, places
        (found,) = self.admitted.nonzero()
        return np.repeat(np.arange(len(queries)), len(found)), np.tile(found, len(queries))

    def _score(self, queries: Tensor) -> Tensor:
        """Return the scores of all keys, (N, Q); the transposed product, (Q, N), takes far longer."""
        if self._scores.shape[1] != len(queries):
            self._scores = self._norms.new_empty(len(self._norms), len(queries))
        return torch.addmm(self._norms[:, None], self.keys, queries.T, alpha=-2, out=self._scores)

    def _limits(self, lengths: Floats, kth: Floats) -> Floats:
        """Return the highest score, (Q,), that one of the k nearest keys can have in spite of rounding.

        The error of a float32 product of D terms is at most about D u |x| |q|, in any order of summation. The error of
        |x|^2 is bounded in the same way. The subtraction adds a few u, the rounding of the limit one u, and the float64
        distance a negligible error. So the error of a score is less than (D + 9) u (|x| + |q|)^2. It counts twice: for
        the k-th score and for the key's own. `lengths`, (Q,), are |x| + |q| with the longest key x, and `kth`, (Q,),
        are the k-th lowest scores.
        """
        relative = 1.01 * (self.keys.shape[1] + 9) * unit_roundoff()
        limits: Floats = kth + 2 * relative * lengths * lengths
        return limits

    def _squared_distances(self, queries: Floats, rows: Ints, places: Ints) -> Floats:
        """Return the squared distance from each query, by its row, to the key at each place, (n,), in float64."""
        distances = np.empty(len(places))
        for first in range(0, len(places), _CHUNK):
            some = slice(first, first + _CHUNK)
            differences = self.keys.index_select(0, self._on_device(places[some])).cpu().double().numpy()
            differences -= queries[rows[some]]
            np.square(differences, out=differences).sum(axis=1, out=distances[some])
        return distances

    def _refresh(self) -> None:
        """Update the norms of the keys that changed."""
        if not self._stale.any():
            return
        (stale,) = self._stale.nonzero()
        self._stale[stale] = False
        for first in range(0, len(stale), _CHUNK):
            places = stale[first : first + _CHUNK]
            indices = self._on_device(places)
            lengths = torch.linalg.vector_norm(self.keys[indices], dim=1)
            self._norms[indices] = torch.where(self._on_device(self.admitted[places]), lengths.square(), torch.inf)
            self._longest = max(self._longest, float(lengths.nan_to_num().max()))  # max() of a NaN would be NaN

    def _on_device(self, array: Ints | Bools | Floats) -> Tensor:
        return to_device(array, self.keys.device)


def unit_roundoff() -> float:
    """Return the unit roundoff u of a product in the precision that torch is set to."""
    try:
        return _UNIT_ROUNDOFFS[torch.get_float32_matmul_precision()]
    except RuntimeError:  # the precision was set for each backend (torch.backends.*.fp32_precision)
        return max(_UNIT_ROUNDOFFS.values())
