"""Sweeps: jobs, and the executors that run many of them."""
