"""Gymnasium ids of the environments of this package."""

MAZE_ID = "eva/CoinMaze-v0"
ATARI_ID = "eva/Atari-v0"
MINATAR_PREFIX = "MinAtar/"
"""Begins the ids of MinAtar's games: `MinAtar/SpaceInvaders-v0` has all six actions, `-v1` those with an effect."""
OWN_PREFIX = "python/"
"""Begins the id of an environment that Python code passed, `python/Corridor` after its class; no id makes it."""
