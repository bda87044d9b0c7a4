"""The memories behind an episode's decisions, each stored once even if it was recalled several times."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from eva.types import Explanation, Ints, Neighbour, RememberedTrajectory

MAX_THUMBNAILS = 8  # per trajectory


class Memories:
    """Number the trajectories, value buffer entries and replay slots in explanations."""

    def __init__(self, explanations: Iterable[Explanation]) -> None:
        self._trajectories: dict[tuple[bytes, bytes], int] = {}
        self._entries: dict[tuple[int, int], int] = {}
        self._tiles: dict[int, int] = {}
        self._distinct_trajectories: list[RememberedTrajectory] = []
        self._distinct_entries: list[Neighbour] = []
        self._neighbours = [[(n.distance, self._entry(n)) for n in each.neighbours] for each in explanations]
        self._shown = [_evenly(len(each.slots)) for each in self._distinct_trajectories]
        self._entry_tiles = [self._tile(int(n.trajectory.slots[n.step])) for n in self._distinct_entries]
        self._trajectory_tiles = [
            [self._tile(int(slot)) for slot in each.slots[shown]]
            for each, shown in zip(self._distinct_trajectories, self._shown, strict=True)
        ]

    @property
    def slots(self) -> Ints:
        """The replay slot of each picture."""
        return np.fromiter(self._tiles, np.int64, len(self._tiles))

    @property
    def entry_slots(self) -> Ints:
        """The replay slot of each entry."""
        return np.array([n.trajectory.slots[n.step] for n in self._distinct_entries], np.int64)

    def tables(self) -> dict[str, Any]:
        """Return arrays for the page; lists of different lengths are concatenated and have offsets."""
        nearest = [pair for each in self._neighbours for pair in each]
        return {
            "neighbourOffsets": integers(_offsets(self._neighbours)),
            "neighbourEntries": integers([entry for _, entry in nearest]),
            "neighbourDistances": floats([distance for distance, _ in nearest]),
            "entryTrajectories": integers([trajectory for trajectory, _ in self._entries]),
            "entrySteps": integers([step for _, step in self._entries]),
            "entryValues": floats([n.q_np for n in self._distinct_entries]),
            "entryTiles": integers(self._entry_tiles),
            "trajectoryOffsets": integers(_offsets([each.slots for each in self._distinct_trajectories])),
            "trajectoryActions": integers(_joined([each.actions for each in self._distinct_trajectories])),
            "trajectoryRewards": floats(_joined([each.rewards for each in self._distinct_trajectories])),
            "trajectoryValues": floats(_joined([each.backed_up for each in self._distinct_trajectories])),
            "trajectoryAges": integers(_joined([each.ages for each in self._distinct_trajectories])),
            "shownOffsets": integers(_offsets(self._shown)),
            "shownSteps": integers(_joined(self._shown)),
            "shownTiles": integers(_joined(self._trajectory_tiles)),
        }

    def _entry(self, neighbour: Neighbour) -> int:
        trajectory = neighbour.trajectory
        # Values are part of the key: kernel-based RL can give the same slots other values in another plan.
        key = (trajectory.slots.tobytes(), trajectory.q_np.tobytes())
        if key not in self._trajectories:
            self._trajectories[key] = len(self._distinct_trajectories)
            self._distinct_trajectories.append(trajectory)
        place = (self._trajectories[key], neighbour.step)
        if place not in self._entries:
            self._entries[place] = len(self._distinct_entries)
            self._distinct_entries.append(neighbour)
        return self._entries[place]

    def _tile(self, slot: int) -> int:
        return self._tiles.setdefault(slot, len(self._tiles))


def integers(values: ArrayLike) -> str:
    """Encode integers for the page: int32, little-endian, base64."""
    return b64encode(np.asarray(values, "<i4").tobytes()).decode()


def floats(values: ArrayLike) -> str:
    """Encode numbers for the page: float32, little-endian, base64."""
    return b64encode(np.asarray(values, "<f4").tobytes()).decode()


def _evenly(length: int) -> Ints:
    """Return up to MAX_THUMBNAILS evenly spaced steps of a trajectory, including the first and the last."""
    steps: Ints = np.linspace(0, length - 1, min(length, MAX_THUMBNAILS)).round().astype(np.int64)
    return steps


def _offsets(parts: Iterable[Any]) -> Ints:
    return np.cumsum([0, *(len(part) for part in parts)])


def _joined(parts: list[Any]) -> Any:
    return np.concatenate(parts) if parts else []
