"""See what the agent remembered: an episode and the memories behind each decision, on one self-contained page."""
