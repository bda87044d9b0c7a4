"""Names in the files of a run directory; imports no torch, so that reports can use it."""

from collections.abc import Mapping
from typing import Any

from eva.config import EvaluationConfig

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

MORE_METRICS = {
    "normalised_score": "`episode_return` as a normalised score, on MinAtar: 0 is random play, 100 the published DQN",
}
"""The names that only the lines of some environments have."""

EPISODE_COLUMNS = "step,environment,episode_return,episode_length"

EVALUATIONS = "evaluations.jsonl"
"""Evaluations during training: a line for each step, epsilon and weight."""

ACCURACY = "accuracy.jsonl"
"""Comparisons with exact values during training: a line for each step and way to plan."""
NUM_FIFTHS, AGE_LIMITS = 5, (1_000, 3_000, 10_000, 30_000)
"""Its classes of states: by distance to the nearest remembered state, and by the age of that state in transitions."""
OWN = "own"
"""The way to plan of a run with EVA: its own configuration."""
SHADOWS: Mapping[str, Mapping[str, Any]] = {
    "TCP": {"trace": "tcp"},
    "n-step": {"trace": "n-step"},
    "KBRL": {"trace": "kbrl"},
    "TCP, recomputed": {"trace": "tcp", "remembered_values": "recomputed"},
}
"""The ways to plan beside a network that acts without EVA, as changes of `Config.eva`."""


def evaluation_records(config: EvaluationConfig) -> tuple[str, ...]:
    """Return the records of evaluations that a run has."""
    if config.period_transitions is None:
        return ()
    return (EVALUATIONS, ACCURACY) if config.accuracy else (EVALUATIONS,)


INSPECTOR_PAGE = "inspect.html"
"""Default name of the page that `eva inspect` writes."""
