"""Gymnasium ids of the environments of this package."""

MAZE_ID = "eva/CoinMaze-v0"
ATARI_ID = "eva/Atari-v0"
