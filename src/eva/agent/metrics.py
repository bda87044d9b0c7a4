"""What an agent reports: means over its decisions and updates, and whether its values are finite."""

import math

import numpy as np
import torch
from torch import Tensor

from eva.errors import UserError
from eva.types import Bools, Floats, State


class DivergedError(UserError):
    """The network's values are infinite or NaN."""


class Monitor:
    """Means over an agent's decisions and updates since the last `take`, and the largest |Q_theta| so far."""

    def __init__(self) -> None:
        self.largest_abs_q = 0.0  # over all states acted in
        self._means: State = {}  # the sum and count of each; sums of tensors stay on their device

    def add(self, name: str, values: Tensor | Floats | Bools) -> None:
        """Add each of `values` to the mean called `name`."""
        total = values.sum(dtype=torch.float64) if isinstance(values, Tensor) else float(values.sum(dtype=float))
        mean = self._means.setdefault(name, {"sum": 0.0, "count": 0})
        mean["sum"] = mean["sum"] + total
        mean["count"] += math.prod(values.shape)

    def add_decisions(self, q_theta: Floats, q_eva: Floats, is_adjusted: bool) -> None:
        """Record one decision of every environment, from values (E, A)."""
        if is_adjusted:
            self.add("changed_share", q_eva.argmax(axis=1) != q_theta.argmax(axis=1))
        self.add("value", q_theta.max(axis=1))

    def take(self) -> dict[str, float]:
        """Return the mean of each name and reset."""
        means, self._means = self._means, {}
        return {name: float(mean["sum"]) / mean["count"] for name, mean in means.items()}

    def update_largest_abs_q(self, q_theta: Floats) -> None:
        """Update the largest |Q_theta| with values, (E, A); raise DivergedError if one is infinite or NaN."""
        self.largest_abs_q = max(float(np.abs(q_theta).max()), self.largest_abs_q)  # max() returns a NaN first argument
        if not math.isfinite(self.largest_abs_q):
            raise DivergedError(
                "the network's values are infinite or NaN: check that the observations are finite, and train the run "
                "again if they are."
            )

    def state_dict(self) -> State:
        """Return the means so far and the largest |Q_theta|."""
        return {"means": {name: dict(mean) for name, mean in self._means.items()}, "largest_value": self.largest_abs_q}

    def load_state_dict(self, state: State) -> None:
        """Restore what `state_dict` returned; `state` may hold other names too."""
        self.largest_abs_q, self._means = state["largest_value"], {}
        for name, mean in state["means"].items():
            total = mean["sum"] if isinstance(mean["sum"], float) else torch.as_tensor(mean["sum"])
            self._means[name] = {"sum": total, "count": mean["count"]}
