"""Exact nearest neighbours under the Euclidean distance, ties newest first."""

import numpy as np
import torch
from torch import Tensor

from eva.agent.tensors import to_device
from eva.types import Bools, Floats, Ints, State

_UNIT_ROUNDOFFS = {"highest": 2.0**-24, "high": 2.0**-11, "medium": 2.0**-8}  # of a product in float32, TF32, bfloat16
SHORTEST, LONGEST = 1e-14, 1e18  # lengths below and above which products are too small or too large for float32
_LARGEST = float(np.finfo(np.float32).max)  # beyond it, scores cannot be compared with a limit
_CHUNK = 1 << 15  # keys read at a time: bounds memory use when all are candidates, or new


class NeighbourIndex:
    """A table of N = `capacity` keys of size D that is overwritten in place and searched exactly.

    Keys live on the device; their ages (`born`) on the host. Every step writes and few search, so norms are updated
    when a search needs them.
    """

    BYTES_PER_SKETCH = 0  # kept for each key in addition to it

    def __init__(self, capacity: int, key_size: int, device: torch.device) -> None:
        self.keys = torch.zeros(capacity, key_size, device=device)
        self.born = np.full(capacity, -1)  # the larger the newer
        self.admitted = np.zeros(capacity, np.bool_)  # those that can be found
        self.num_written = 0
        self._norms = torch.full((capacity,), torch.inf, device=device)  # squared; inf if not admitted
        self._stale = np.zeros(capacity, np.bool_)  # places whose norm is not up to date
        self._longest = SHORTEST  # the length of the longest key so far
        self._scores = torch.empty(capacity, 0, device=device)

    def write(self, places: Ints, keys: Tensor) -> None:
        """Put n keys at n places, the last one the newest; they are not admitted yet."""
        self.keys.index_copy_(0, self._on_device(places), keys)
        self.born[places] = np.arange(self.num_written, self.num_written + len(places))
        self.num_written += len(places)
        self.admitted[places] = False
        self._stale[places] = True

    def admit(self, places: Ints) -> None:
        """Let the keys at these places be found from now on."""
        self.admitted[places] = True
        self._stale[places] = True

    def state_dict(self) -> State:
        """Return the keys, (N, D), and their order, (N,); the owner knows which of them are admitted."""
        return {"keys": self.keys, "born": self.born}

    def load_state_dict(self, state: State) -> None:
        """Restore keys and order, found among other names; then call `admit`."""
        self.keys.copy_(torch.as_tensor(state["keys"]))
        np.copyto(self.born, state["born"])
        self.num_written = int(self.born.max(initial=-1)) + 1  # the newest key is always there
        self.admitted.fill(False)
        self._stale.fill(True)

    def search_state(self) -> State:
        """Return what the cost of later searches depends on besides the keys: here nothing."""
        return {}

    def load_search_state(self, state: State) -> None:
        """Restore what `search_state` returned, after keys and order."""

    def metrics(self) -> dict[str, float]:
        """Return statistics of the searches: here none."""
        return {}

    def search(self, queries: Tensor, k: int) -> tuple[Ints, Floats]:
        """Return places and squared distances of the k keys closest to each query, (E, D), nearest first, (E, k) each.

        Candidates are ordered by directly subtracted distance in float64, the newest first at the same distance. The
        result always equals that of brute force. At least k keys must be admitted.
        """
        if k == 0:
            return np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0))
        directly = queries.cpu().numpy().astype(np.float64)
        rows, places = self._candidates(queries, directly, k)
        distances = self._squared_distances(directly, rows, places)
        order = np.lexsort((-self.born[places], distances, rows))
        firsts = rows[order].searchsorted(np.arange(len(queries)))
        nearest = order[firsts[:, None] + np.arange(k)]
        return places[nearest], distances[nearest]

    def _candidates(self, queries: Tensor, directly: Floats, k: int) -> tuple[Ints, Ints]:
        """Return which keys may be among the k nearest of which query: rows of queries and places, (n,) each.

        `|x|^2 - 2 x.q` takes one matrix product for all queries but loses digits on near-duplicates. So candidates are
        all keys that rounding could have kept out of the first k, or all keys if these products are not finite.
        `directly` are the queries in float64 on the host.
        """
        self._refresh()
        lengths = self._longest + np.sqrt(np.square(directly).sum(axis=1))
        if (lengths < LONGEST).all():
            scores = self._score(queries)
            kth = scores.topk(k, dim=0, largest=False).values[-1].cpu().numpy()
            limits = self._limits(lengths, kth)
            if (limits < _LARGEST).all():
                near = scores <= self._on_device(limits.astype(np.float32))
                places, rows = near.cpu().numpy().nonzero()
                return rows, places
        (found,) = self.admitted.nonzero()
        return np.repeat(np.arange(len(queries)), len(found)), np.tile(found, len(queries))

    def _score(self, queries: Tensor) -> Tensor:
        """Return the squared distances of all keys, less |q|^2, (N, E); the product (E, N) takes far longer."""
        if self._scores.shape[1] != len(queries):
            self._scores = self._norms.new_empty(len(self._norms), len(queries))
        return torch.addmm(self._norms[:, None], self.keys, queries.T, alpha=-2, out=self._scores)

    def _limits(self, lengths: Floats, kth: Floats) -> Floats:
        """Return the scores, (E,), beyond which rounding cannot have kept a key out of the first k.

        A float32 product of D terms is off by at most about D u |x| |q| in whatever order it is summed, |x|^2 likewise;
        the subtraction adds a few u, the direct distance in float64 next to nothing, the limit's own rounding one u.
        So (D + 9) u (|x| + |q|)^2 is more than each score is off by. `lengths`, (E,), are |x| + |q| for the longest
        key, and `kth`, (E,), the k-th smallest scores.
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
            self._longest = max(self._longest, float(lengths.nan_to_num().max()))  # a NaN must not hide the others

    def _on_device(self, array: Ints | Bools | Floats) -> Tensor:
        return to_device(array, self.keys.device)


def unit_roundoff() -> float:
    """Return the unit roundoff u of a product in the precision that torch is set to."""
    try:
        return _UNIT_ROUNDOFFS[torch.get_float32_matmul_precision()]
    except RuntimeError:  # the precision was set for each backend (torch.backends.*.fp32_precision)
        return max(_UNIT_ROUNDOFFS.values())
