"""The memories behind an episode's decisions, each stored once however often it was recalled."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from eva.types import Explanation, Ints, Neighbour, RememberedTrajectory

MAX_THUMBNAILS = 8  # of each trajectory


class Memories:
    """Numbers the trajectories, the value buffer's entries and the slots that explanations name."""

    def __init__(self, explanations: Iterable[Explanation]) -> None:
        self._trajectories: dict[tuple[bytes, bytes], int] = {}
        self._entries: dict[tuple[int, int], int] = {}
        self._tiles: dict[int, int] = {}
        self._told: list[RememberedTrajectory] = []
        self._recalled: list[Neighbour] = []
        self._neighbours = [[(n.distance, self._entry(n)) for n in each.neighbours] for each in explanations]
        self._shown = [_evenly(len(each.slots)) for each in self._told]
        self._entry_tiles = [self._tile(int(n.trajectory.slots[n.step])) for n in self._recalled]
        self._trajectory_tiles = [
            [self._tile(int(slot)) for slot in each.slots[shown]]
            for each, shown in zip(self._told, self._shown, strict=True)
        ]

    @property
    def slots(self) -> Ints:
        """The slot that each picture shows."""
        return np.fromiter(self._tiles, np.int64, len(self._tiles))

    @property
    def entry_slots(self) -> Ints:
        """The slot of each entry's state."""
        return np.array([n.trajectory.slots[n.step] for n in self._recalled], np.int64)

    def tables(self) -> dict[str, Any]:
        """Return everything as arrays for the page; what varies in length lies end to end, with offsets."""
        nearest = [pair for each in self._neighbours for pair in each]
        return {
            "neighbourOffsets": integers(_offsets(self._neighbours)),
            "neighbourEntries": integers([entry for _, entry in nearest]),
            "neighbourDistances": floats([distance for distance, _ in nearest]),
            "entryTrajectories": integers([trajectory for trajectory, _ in self._entries]),
            "entrySteps": integers([step for _, step in self._entries]),
            "entryValues": floats([n.q_np for n in self._recalled]),
            "entryTiles": integers(self._entry_tiles),
            "trajectoryOffsets": integers(_offsets([each.slots for each in self._told])),
            "trajectoryActions": integers(_joined([each.actions for each in self._told])),
            "trajectoryRewards": floats(_joined([each.rewards for each in self._told])),
            "trajectoryValues": floats(_joined([each.backed_up for each in self._told])),
            "trajectoryAges": integers(_joined([each.ages for each in self._told])),
            "shownOffsets": integers(_offsets(self._shown)),
            "shownSteps": integers(_joined(self._shown)),
            "shownTiles": integers(_joined(self._trajectory_tiles)),
        }

    def _entry(self, neighbour: Neighbour) -> int:
        trajectory = neighbour.trajectory
        # Not by slots alone: kernel-based RL gives the same moments other values in another plan.
        key = (trajectory.slots.tobytes(), trajectory.q_np.tobytes())
        if key not in self._trajectories:
            self._trajectories[key] = len(self._told)
            self._told.append(trajectory)
        place = (self._trajectories[key], neighbour.step)
        if place not in self._entries:
            self._entries[place] = len(self._recalled)
            self._recalled.append(neighbour)
        return self._entries[place]

    def _tile(self, slot: int) -> int:
        return self._tiles.setdefault(slot, len(self._tiles))


def integers(values: ArrayLike) -> str:
    """Return whole numbers as the page reads them: 32 bits each, little-endian, in base64."""
    return b64encode(np.asarray(values, "<i4").tobytes()).decode()


def floats(values: ArrayLike) -> str:
    """Return numbers as the page reads them: float32, little-endian, in base64."""
    return b64encode(np.asarray(values, "<f4").tobytes()).decode()


def _evenly(length: int) -> Ints:
    """Choose up to eight steps of a trajectory, its first and its last among them."""
    steps: Ints = np.linspace(0, length - 1, min(length, MAX_THUMBNAILS)).round().astype(np.int64)
    return steps


def _offsets(parts: Iterable[Any]) -> Ints:
    return np.cumsum([0, *(len(part) for part in parts)])


def _joined(parts: list[Any]) -> Any:
    return np.concatenate(parts) if parts else []
