"""Time parts of the agent; shared by experiments and benchmarks."""
