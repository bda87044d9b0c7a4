"""Proportional prioritised replay (Schaul et al., 2016): transitions with large errors are drawn more often."""

from itertools import pairwise

import numpy as np

from eva.agent.exploration import LinearSchedule
from eva.types import Floats, Ints, State

_BRANCHES = 32  # entries in a row: fewer make more levels, more make longer rows
_LARGEST_ERROR = 1e38  # larger, infinite and NaN errors count as this: the sums stay finite


class Priorities:
    """A sum tree over the slots of a replay buffer, which draws slot i with probability P(i) = p_i^a / sum_j p_j^a.

    p_i = |delta_i| + epsilon, with delta_i the temporal-difference error when i was last learned from (P76). The lowest
    level holds p_i^a of each slot, and 0 where there is no complete transition. Each row of a level is summed up in one
    entry of the level above; the top level is a single row. A sum is taken of its whole row, never adjusted by a
    difference: rounding errors do not add up, and the lowest level determines all sums to the bit.

    The priority exponent is a (alpha in the paper; 0 draws uniformly), the floor is epsilon > 0, and the importance
    exponent is beta, over the transitions added so far (P78).
    """

    BYTES_PER_SLOT = 9  # one float64, and its share of the sums

    def __init__(
        self, num_slots: int, *, priority_exponent: float, priority_floor: float, importance_exponent: LinearSchedule
    ) -> None:
        self.num_added = 0
        self.largest = 1.0  # of p_i^a, ever; a first transition has p = 1
        self._exponent = priority_exponent
        self._floor = priority_floor
        self._importance_exponent = importance_exponent
        self._levels = [np.zeros((-(-num_slots // _BRANCHES), _BRANCHES))]
        while len(self._levels[-1]) > 1:
            self._levels.append(np.zeros((-(-len(self._levels[-1]) // _BRANCHES), _BRANCHES)))
        self.values = self._levels[0].reshape(-1)[:num_slots]  # p_i^a, (N,)

    def add(self, slots: Ints) -> None:
        """Let transitions be drawn from now on, with the largest priority so far (P77)."""
        self.num_added += len(slots)
        self._set(slots, self.largest)

    def remove(self, slots: Ints) -> None:
        """Stop drawing these slots."""
        self._set(slots, 0.0)

    def update(self, slots: Ints, absolute_errors: Floats) -> None:
        """Set priorities from errors, (B,), of transitions that were just learned from; a slot's last one counts."""
        errors = np.fmin(absolute_errors, _LARGEST_ERROR, dtype=np.float64)
        values = (errors + self._floor) ** self._exponent
        self.largest = max(self.largest, float(values.max()))
        self._set(slots, values)

    def sample(self, generator: np.random.Generator, batch_size: int) -> Ints:
        """Draw a slot from each of B equal parts of the sum of all (P79); returns them, (B,). One must be above 0.

        A slot of priority 0 is never drawn, however sums and points are rounded: a point stays below the last of its
        row's running sums, and the first running sum above it adds an entry above 0.
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
        """Return w_i = (N P(i))^-beta / max_j w_j over a batch, (B,): in the quotient N and the sum cancel (P78)."""
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
        """Change entries of the lowest level, then sum up their rows, level by level."""
        self.values[slots] = values
        for below, above in pairwise(self._levels):
            slots = slots // _BRANCHES
            above.reshape(-1)[slots] = below.take(slots, axis=0).sum(axis=1)
