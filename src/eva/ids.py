"""Gymnasium ids of the environments of this package."""

from __future__ import annotations

MAZE_ID = "eva/CoinMaze-v0"
ATARI_ID = "eva/Atari-v0"
