"""Runs: the training loop and what it leaves on disk."""
