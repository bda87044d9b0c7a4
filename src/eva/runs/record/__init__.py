"""Files that a run writes, and its progress display."""
