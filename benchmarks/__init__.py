"""Speed benchmarks: ratios of alternatives that are measured alternately in one run. `make bench` runs them."""
