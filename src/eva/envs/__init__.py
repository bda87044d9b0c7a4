"""The environments: the paper's coin maze, Atari and MinAtar."""
