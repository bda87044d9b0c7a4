"""The inspector: one self-contained HTML page with an episode and the memories behind each decision."""
