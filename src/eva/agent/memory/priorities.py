"""Proportional prioritised replay (Schaul et al., 2016): transitions with large errors are drawn more often."""

from itertools import pairwise

import numpy as np

from eva.agent.exploration import LinearSchedule
from eva.types import Floats, Ints, State

_BRANCHES = 32  # entries in a row: with fewer, the tree has more levels; with more, rows are longer
_LARGEST_ERROR = 1e38  # replaces larger, infinite and NaN errors, so that the sums stay finite


class Priorities:
    """A sum tree over the slots of a replay buffer, which draws slot i with probability P(i) = p_i^a / sum_j p_j^a.

    The priority of slot i is p_i = |delta_i| + epsilon, where delta_i is the temporal-difference error when i was last
    learned from (P76). The lowest level of the tree holds p_i^a of each slot, or 0 if the slot holds no complete
    transition. An entry of a higher level is the sum of a row of the level below; the top level is a single row. Sums
    are always computed from their whole row, not updated by differences: so rounding errors do not accumulate, and the
    sums can be restored from the lowest level to the bit.

    `priority_exponent` is a (alpha in the paper; 0 draws uniformly), `priority_floor` is epsilon > 0, and
    `importance_exponent` is beta, a schedule over the number of transitions added so far (P78).
    """

    BYTES_PER_SLOT = 9  # one float64, and its share of the sums

    def __init__(
        self, num_slots: int, *, priority_exponent: float, priority_floor: float, importance_exponent: LinearSchedule
    ) -> None:
        self.num_added = 0
        self.largest = 1.0  # largest p_i^a so far; the first transitions have p = 1
        self._exponent = priority_exponent
        self._floor = priority_floor
        self._importance_exponent = importance_exponent
        self._levels = [np.zeros((-(-num_slots // _BRANCHES), _BRANCHES))]
        while len(self._levels[-1]) > 1:
            self._levels.append(np.zeros((-(-len(self._levels[-1]) // _BRANCHES), _BRANCHES)))
        self.values = self._levels[0].reshape(-1)[:num_slots]  # p_i^a, (N,)

    def add(self, slots: Ints) -> None:
        """Add transitions with the largest priority so far, because their errors are unknown (P77)."""
        self.num_added += len(slots)
        self._set(slots, self.largest)

    def remove(self, slots: Ints) -> None:
        """Stop drawing these slots."""
        self._set(slots, 0.0)

    def update(self, slots: Ints, absolute_errors: Floats) -> None:
        """Set priorities from the errors, (B,), of a batch; if a slot occurs twice, its last error counts."""
        errors = np.fmin(absolute_errors, _LARGEST_ERROR, dtype=np.float64)
        values = (errors + self._floor) ** self._exponent
        self.largest = max(self.largest, float(values.max()))
        self._set(slots, values)

    def sample(self, generator: np.random.Generator, batch_size: int) -> Ints:
        """Split the sum of all priorities into B equal ranges and draw one slot from each (P79); returns slots, (B,).

        At least one priority must be above 0. A slot with priority 0 is never drawn, in spite of rounding: each point
        is kept below the last cumulative sum of its row, and the first cumulative sum above the point is that of an
        entry above 0.
        """
        total = self._levels[-1].sum()
        points = (np.arange(batch_size) + generator.random(batch_size)) * (total / batch_size)
        draws, entries = np.arange(batch_size), np.zeros(batch_size, np.int64)
        for level in reversed(self._levels):
            ends = level.take(entries, axis=0).cumsum(axis=1)
            points = np.minimum(points, np.nextafter(ends[:, -1], 0))
            branches = (ends > points[:, None]).argmax(axis=1)
            points -= np.where(branches > 0, ends[draws, branches - 1], 0)
            entries = entries * _BRANCHES + branches
        return entries

    def importance_weights(self, slots: Ints) -> Floats:
        """Return w_i = (N P(i))^-beta / max_j w_j over a batch, (B,); N and the sum of priorities cancel out (P78)."""
        values = self.values[slots]
        weights: Floats = (values.min() / values) ** self._importance_exponent(self.num_added)
        return weights

    def state_dict(self) -> State:
        """Return priorities and counters, as arrays."""
        return {
            "priorities": self.values,
            "largest_priority": np.array(self.largest),
            "num_prioritised": np.array(self.num_added),
        }

    def load_state_dict(self, state: State) -> None:
        """Restore a state that `state_dict` returned."""
        self.num_added, self.largest = int(state["num_prioritised"]), float(state["largest_priority"])
        self.values[:] = state["priorities"]
        for below, above in pairwise(self._levels):
            above.reshape(-1)[: len(below)] = below.sum(axis=1)

    def _set(self, slots: Ints, values: Floats | float) -> None:
        """Set entries of the lowest level, then compute the sums of their rows level by level."""
        self.values[slots] = values
        for below, above in pairwise(self._levels):
            slots = slots // _BRANCHES
            above.reshape(-1)[slots] = below.take(slots, axis=0).sum(axis=1)
