"""Tiny runs to inspect, and a reader of the page's data that is independent of the page's code."""

from __future__ import annotations

import io
import json
import re
from base64 import b64decode
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eva.config import Config
from eva.presets import for_game, preset
from eva.runs.loop import train
from tests.helpers.agents import changed

MAZE = changed(preset("smoke"), steps=400, run={"device": "cpu"})
PONG = changed(
    for_game(preset("atari"), "pong"),
    environment={"num_environments": 2},
    atari={"max_episode_frames": 400},
    network={"channels": (8,), "filter_sizes": (8,), "strides": (8,), "embedding_size": 32},
    replay={"replay_capacity": 300},
    learner={"batch_size": 8, "learning_starts_transitions": 100},
    eva={"num_trajectories": 4, "trajectory_length": 12, "plan_period_steps": 5, "start": "learning"},
    run={"device": "cpu", "threads": 1},
    steps=400,
)


def trained(config: Config, path: Path) -> Path:
    """Train without output and return the run directory."""
    train(config, path, stream=io.StringIO())
    return path


FLOATS = re.compile(r"q(Theta|Np|Eva)|.*(rewards|Rewards|Values|Distances|bservations)|map(Points|Path|Entries)")


@dataclass(frozen=True)
class Page:
    """The data of a page: arrays, and everything else in `meta`."""

    arrays: dict[str, np.ndarray]
    meta: dict[str, Any]

    @property
    def num_steps(self) -> int:
        return len(self.arrays["actions"])

    def values(self, name: str) -> np.ndarray:
        """Return one of the value tables, (steps, A)."""
        return self.arrays[name].reshape(self.num_steps, -1)

    def neighbours(self, step: int) -> tuple[np.ndarray, np.ndarray]:
        """Return entries and distances of a step, nearest first."""
        begin, end = self.arrays["neighbourOffsets"][step : step + 2]
        return self.arrays["neighbourEntries"][begin:end], self.arrays["neighbourDistances"][begin:end]

    def mixed(self, step: int, weight: float, k: int) -> np.ndarray:
        """Return Eq. 1 in float64 with the mean of the k nearest entries, (A,); Q_theta if there are fewer (P24)."""
        q_theta = self.values("qTheta")[step].astype(np.float64)
        entries, _ = self.neighbours(step)
        if len(entries) < k:
            return q_theta
        remembered = self.arrays["entryValues"].reshape(-1, len(q_theta))[entries[:k]].astype(np.float64)
        return (1 - weight) * q_theta + weight * remembered.mean(axis=0)


def read_page(path: Path) -> Page:
    """Read a page's data."""
    return unpack(json.loads(re.search(r'<script id="data"[^>]*>(.*?)</script>', path.read_text())[1]))


def unpack(data: dict[str, Any]) -> Page:
    """Decode the base64 arrays."""
    packed = {name: b64decode(value) for name, value in data.items() if isinstance(value, str)}
    arrays = {n: np.frombuffer(v, "<f4" if FLOATS.fullmatch(n) else "<i4") for n, v in packed.items()}
    return Page(arrays, {name: value for name, value in data.items() if name not in arrays})
