"""The environments: the paper's coin maze and Atari."""
