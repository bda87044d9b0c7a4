"""What an agent reports: means over its decisions and updates, and whether its values are finite."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from eva.errors import UserError
from eva.types import Bools, Floats, State


class DivergedError(UserError):
    """The network's values are infinite or NaN."""


class RunningMeans:
    """Means since the last `take`; sums of tensors stay on their device until then."""

    def __init__(self) -> None:
        self._sums: dict[str, Tensor | float] = {}
        self._counts: dict[str, int] = {}

    def add(self, name: str, values: Tensor | Floats | Bools) -> None:
        """Add each of `values` to the mean called `name`."""
        total = values.sum(dtype=torch.float64) if isinstance(values, Tensor) else float(values.sum(dtype=float))
        self._sums[name] = self._sums.get(name, 0.0) + total
        self._counts[name] = self._counts.get(name, 0) + math.prod(values.shape)

    def take(self) -> dict[str, float]:
        """Return the mean of each name and reset."""
        means = {name: float(self._sums[name]) / count for name, count in self._counts.items()}
        self._sums, self._counts = {}, {}
        return means

    def state_dict(self) -> State:
        """Return sums and counts."""
        return {name: {"sum": self._sums[name], "count": count} for name, count in self._counts.items()}

    def load_state_dict(self, state: State) -> None:
        """Restore sums and counts."""
        sums = {name: each["sum"] for name, each in state.items()}
        self._sums = {name: x if isinstance(x, float) else torch.as_tensor(x) for name, x in sums.items()}
        self._counts = {name: each["count"] for name, each in state.items()}


class Monitor:
    """Watches the values that an agent decides by."""

    def __init__(self) -> None:
        self.means = RunningMeans()
        self.largest_value = 0.0  # max abs(Q_theta) over all states acted in

    def check(self, q_theta: Floats) -> None:
        """Record the largest value; raise DivergedError if a value, (E, A), is infinite or NaN."""
        self.largest_value = max(float(np.abs(q_theta).max()), self.largest_value)  # max() returns a NaN first argument
        if not math.isfinite(self.largest_value):
            raise DivergedError(
                "the network's values are infinite or NaN: check that the observations are finite, and train the run "
                "again if they are."
            )

    def add_decisions(self, q_theta: Floats, q_eva: Floats, is_adjusted: bool) -> None:
        """Record one decision of every environment, from values (E, A)."""
        if is_adjusted:
            self.means.add("changed_share", q_eva.argmax(axis=1) != q_theta.argmax(axis=1))
        self.means.add("value", q_theta.max(axis=1))

    def state_dict(self) -> State:
        """Return the means so far and the largest value."""
        return {"means": self.means.state_dict(), "largest_value": self.largest_value}

    def load_state_dict(self, state: State) -> None:
        """Restore them, found among other names."""
        self.means.load_state_dict(state["means"])
        self.largest_value = state["largest_value"]
