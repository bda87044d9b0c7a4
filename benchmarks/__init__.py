"""Speed, measured as ratios of things that alternate in one run. Run by `make bench`."""
