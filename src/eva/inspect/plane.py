"""Project embeddings onto their two leading principal directions."""

import numpy as np

from eva.agent.memory.replay import ReplayBuffer
from eva.types import Floats, Ints

MAX_POINTS = 2_000


class Plane:
    """A projection onto the two leading principal directions of embeddings (n, D), with deterministic signs."""

    def __init__(self, embeddings: Floats) -> None:
        self._origin = embeddings.mean(axis=0)
        centred = (embeddings - self._origin).astype(np.float64)
        variances, directions = np.linalg.eigh(centred.T @ centred)
        leading = directions[:, ::-1][:, :2]
        leading = np.pad(leading, ((0, 0), (0, 2 - leading.shape[1])))
        largest = np.abs(leading).argmax(axis=0)
        signs = np.where(np.take_along_axis(leading, largest[None], axis=0)[0] < 0, -1.0, 1.0)
        self._directions = leading * signs  # (D, 2)
        total = variances.sum()
        self.explained = float(variances[-2:].sum() / total) if total > 0 else 1.0  # share of the variance

    def __call__(self, embeddings: Floats) -> Floats:
        """Project embeddings, (n, D), to (n, 2)."""
        projected: Floats = (embeddings - self._origin) @ self._directions
        return projected


def sample_slots(replay: ReplayBuffer) -> Ints:
    """Return at most MAX_POINTS slots of complete transitions, evenly spaced in the memory (P107)."""
    complete = np.flatnonzero(replay.complete)
    return complete[np.linspace(0, len(complete) - 1, min(len(complete), MAX_POINTS)).astype(np.int64)]
