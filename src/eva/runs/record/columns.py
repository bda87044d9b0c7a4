"""The names in a run directory's files; torch-free, so that reports can read them."""

from __future__ import annotations

METRICS = {
    "step": "transitions so far, over all environments",
    "episodes": "episodes finished so far",
    "episode_return": "mean return of the episodes finished since the last line",
    "human_normalised_score": "the same as a human-normalised score, on Atari: 0 is chance, 100 a person",
    "episode_length": "mean length of the episodes finished since the last line, in steps",
    "epsilon": "probability of a random action at the next decision",
    "weight": "weight of Q_NP at the next decision; 0 while EVA does not apply",
    "updates": "optimiser steps so far",
    "loss": "mean loss (learner.error) over the updates since the last line",
    "value": "mean of max_a Q_theta over the states acted in since the last line",
    "changed_share": "share of the decisions since the last line in which EVA changed the greedy action",
    "replay_transitions": "transitions in the replay buffer that can be sampled",
    "value_buffer_entries": "entries in all value buffers",
    "searches": "searches of the replay buffer so far; null where all are by brute force (P80)",
    "search_fallbacks": "searches so far for which the projection proved too little, so that brute force took over",
}
"""The names that metrics.jsonl may hold; one is null where there was nothing to average."""

EPISODE_COLUMNS = "step,environment,episode_return,episode_length"

PLAYED = "played-{}.json"
"""What a run played on an occasion, after so many transitions."""

INSPECTOR_PAGE = "inspect.html"
"""The page that `eva inspect` writes, unless it is told where."""
