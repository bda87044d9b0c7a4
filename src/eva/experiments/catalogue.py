"""All experiments, by name."""

from __future__ import annotations

from eva.errors import UserError, nearest_name
from eva.experiments import (
    atari,
    baselines,
    cartpole,
    consolidation,
    generality,
    maze_learning,
    maze_single_episode,
    maze_tuning,
    memory_choices,
    pong,
    sb3_maze,
    scaling,
    trace_computations,
)
from eva.experiments.definition import Experiment

_ALL = (
    maze_tuning.EXPERIMENT,
    maze_single_episode.EXPERIMENT,
    maze_learning.ONE_COIN,
    maze_learning.TWO_COINS,
    trace_computations.EXPERIMENT,
    consolidation.EXPERIMENT,
    atari.FULL,
    pong.EXPERIMENT,
    cartpole.EXPERIMENT,
    sb3_maze.EXPERIMENT,
    baselines.EXPERIMENT,
    memory_choices.EXPERIMENT,
    scaling.EXPERIMENT,
    generality.EXPERIMENT,
)
EXPERIMENTS = {experiment.name: experiment for experiment in _ALL}


def experiment(name: str) -> Experiment:
    """Return the experiment called `name`."""
    if name not in EXPERIMENTS:
        raise UserError(f"there is no experiment '{name}': {nearest_name(name, EXPERIMENTS)}")
    return EXPERIMENTS[name]
