"""Oracles: the paper's algorithms in plain Python, line for line; a trailing `# P5` marks an amended line."""
