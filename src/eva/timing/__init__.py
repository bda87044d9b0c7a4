"""Time parts of the agent; shared by experiments and benchmarks."""

BRUTE, PROJECTED = "brute force", "projection"
SEARCH, UPDATE, FIT = "search", "update", "fit"
MEMORY_SIZES = (10_000, 50_000, 200_000, 500_000, 1_000_000, 2_000_000)
