"""Runs: the training loop, its records and checkpoints, and sweeps of many runs."""
