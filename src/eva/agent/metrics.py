"""Means of what an agent does, from one line of its metrics to the next."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from eva.types import Bools, Floats, State


class RunningMeans:
    """Means over what happened since they were last taken; sums of tensors stay on the device until then."""

    def __init__(self) -> None:
        self._sums: dict[str, Tensor | float] = {}
        self._counts: dict[str, int] = {}

    def add(self, name: str, values: Tensor | Floats | Bools) -> None:
        """Count each of `values` under `name`."""
        total = values.sum(dtype=torch.float64) if isinstance(values, Tensor) else float(values.sum(dtype=float))
        self._sums[name] = self._sums.get(name, 0.0) + total
        self._counts[name] = self._counts.get(name, 0) + math.prod(values.shape)

    def get_state(self) -> State:
        """Return the sums and counts so far."""
        return {name: {"sum": self._sums[name], "count": count} for name, count in self._counts.items()}

    def set_state(self, state: State) -> None:
        """Continue from there."""
        sums = {name: each["sum"] for name, each in state.items()}
        self._sums = {name: x if isinstance(x, float) else torch.as_tensor(x) for name, x in sums.items()}
        self._counts = {name: each["count"] for name, each in state.items()}

    def take(self) -> dict[str, float]:
        """Return the mean of each name that was counted, and begin anew."""
        means = {name: float(self._sums[name]) / count for name, count in self._counts.items()}
        self._sums, self._counts = {}, {}
        return means
