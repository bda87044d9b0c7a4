"""The settings that `maze_peers` measures: equal network, batch size and number of updates in all packages."""

from __future__ import annotations

from dataclasses import replace

from eva.config import Config
from eva.presets import preset

TUNED, UNTUNED, MINATAR = "tuned", "untuned", "minatar"


def settings() -> dict[str, Config]:
    """Return the maze's preset, with two updates per transition, the settings before it was tuned, and MinAtar."""
    minatar = preset("minatar")
    return {
        TUNED: preset("maze-1-coin"),
        UNTUNED: Config(),  # one update per transition
        MINATAR: replace(minatar, eva=replace(minatar.eva, start="learning")),
    }
