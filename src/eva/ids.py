"""Names that more than one room must spell alike."""

from __future__ import annotations

MAZE_ID = "eva/CoinMaze-v0"
ATARI_ID = "eva/Atari-v0"
