"""The memories behind an episode's decisions, each stored once even if it was recalled several times."""

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
        self._trajectory_numbers: dict[tuple[bytes, bytes], int] = {}
        self._entry_numbers: dict[tuple[int, int], int] = {}
        self._tiles: dict[int, int] = {}
        self._trajectories: list[RememberedTrajectory] = []
        self._entries: list[Neighbour] = []
        self._neighbours = [[(n.distance, self._entry(n)) for n in each.neighbours] for each in explanations]
        self._shown = [_evenly(len(each.slots)) for each in self._trajectories]
        self._entry_tiles = [self._tile(slot) for slot in self.entry_slots]
        shown_slots = [each.slots[shown] for each, shown in zip(self._trajectories, self._shown, strict=True)]
        self._shown_tiles = [self._tile(slot) for slot in _joined(shown_slots)]

    @property
    def slots(self) -> Ints:
        """The replay slot of each picture."""
        return np.fromiter(self._tiles, np.int64, len(self._tiles))

    @property
    def entry_slots(self) -> Ints:
        """The replay slot of each entry."""
        return np.array([n.trajectory.slots[n.step] for n in self._entries], np.int64)

    def tables(self) -> dict[str, Any]:
        """Return arrays for the page; lists of different lengths are concatenated and have offsets."""
        nearest = [pair for each in self._neighbours for pair in each]
        trajectories = self._trajectories
        return {
            "neighbourOffsets": integers(_offsets(self._neighbours)),
            "neighbourEntries": integers([entry for _, entry in nearest]),
            "neighbourDistances": floats([distance for distance, _ in nearest]),
            "entryTrajectories": integers([trajectory for trajectory, _ in self._entry_numbers]),
            "entrySteps": integers([step for _, step in self._entry_numbers]),
            "entryValues": floats([n.q_np for n in self._entries]),
            "entryTiles": integers(self._entry_tiles),
            "trajectoryOffsets": integers(_offsets([each.slots for each in trajectories])),
            "trajectoryActions": integers(_joined([each.actions for each in trajectories])),
            "trajectoryRewards": floats(_joined([each.rewards for each in trajectories])),
            "trajectoryValues": floats(_joined([each.backed_up for each in trajectories])),
            "trajectoryAges": integers(_joined([each.ages for each in trajectories])),
            "shownOffsets": integers(_offsets(self._shown)),
            "shownSteps": integers(_joined(self._shown)),
            "shownTiles": integers(self._shown_tiles),
        }

    def _entry(self, neighbour: Neighbour) -> int:
        trajectory = neighbour.trajectory
        # Values are part of the key: kernel-based RL can give the same slots other values in another plan.
        key = (trajectory.slots.tobytes(), trajectory.q_np.tobytes())
        number = self._trajectory_numbers.setdefault(key, len(self._trajectories))
        if number == len(self._trajectories):
            self._trajectories.append(trajectory)
        entry = self._entry_numbers.setdefault((number, neighbour.step), len(self._entries))
        if entry == len(self._entries):
            self._entries.append(neighbour)
        return entry

    def _tile(self, slot: np.int64) -> int:
        return self._tiles.setdefault(int(slot), len(self._tiles))


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
