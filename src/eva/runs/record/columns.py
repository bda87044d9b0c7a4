"""Names in the files of a run directory; imports no torch, so that reports can use it."""

METRICS = {
    "step": "transitions so far, over all environments",
    "episodes": "episodes finished so far",
    "episode_return": "mean return of the episodes finished since the last line",
    "human_normalised_score": "the same as a human-normalised score, on Atari: 0 is random play, 100 a human",
    "episode_length": "mean length of the episodes finished since the last line, in steps",
    "epsilon": "probability of a random action at the next decision",
    "weight": "weight of Q_NP at the next decision; 0 while EVA does not apply",
    "updates": "optimiser steps so far",
    "loss": "mean loss (learner.error) over the updates since the last line",
    "value": "mean of max_a Q_theta over the states acted in since the last line",
    "changed_share": "share of the decisions since the last line in which EVA changed the greedy action",
    "replay_transitions": "transitions in the replay buffer that can be sampled",
    "value_buffer_entries": "entries in all value buffers",
    "searches": "searches of the replay buffer so far; null if all use brute force",
    "search_fallbacks": "searches so far in which the projected search fell back to brute force",
}
"""The names that metrics.jsonl may hold; null means nothing to average."""

EPISODE_COLUMNS = "step,environment,episode_return,episode_length"

EVALUATIONS = "evaluations.jsonl"
"""Evaluations during training: a line for each step, epsilon and weight."""

INSPECTOR_PAGE = "inspect.html"
"""Default name of the page that `eva inspect` writes."""
