"""Gymnasium ids of the environments of this package."""

MAZE_ID = "eva/CoinMaze-v0"
ATARI_ID = "eva/Atari-v0"
MINATAR_PREFIX = "MinAtar/"
"""Begins the ids of MinAtar's games: `MinAtar/SpaceInvaders-v0` has all six actions, `-v1` those with an effect."""
