"""Time the agent with several configurations, measured in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from eva.config import Config
from eva.runs.loop import Training
from eva.timing.alternating import microseconds_by_round
from eva.timing.full_memory import fill

ROUNDS, STEPS_PER_ROUND = 15, 200  # ten plans in a round with the default period
QUICK_ROUNDS, QUICK_STEPS, QUICK_SHARE = 2, 20, 100


def measure_speeds(configs: Mapping[str, Config], is_quick: bool) -> dict[str, Any]:
    """Return microseconds of CPU time for a transition with each configuration, round by round.

    Memories are filled with random play. A first round, which does not count, fills the value buffers.
    """
    if is_quick:
        configs = {name: _smaller(config) for name, config in configs.items()}
    rounds, repeats = (QUICK_ROUNDS, QUICK_STEPS) if is_quick else (ROUNDS, STEPS_PER_ROUND)
    steps = {name: _step(config) for name, config in configs.items()}
    by_round = microseconds_by_round(steps, rounds + 1, repeats, time.process_time)
    times = {
        name: [round(each / configs[name].environment.num_environments, 1) for each in values[1:]]
        for name, values in by_round.items()
    }
    return {"microseconds": times}


def _smaller(config: Config) -> Config:
    replay = replace(config.replay, replay_capacity=config.replay.replay_capacity // QUICK_SHARE)
    return replace(config, replay=replay, learner=replace(config.learner, learning_starts_transitions=1))


def _step(config: Config) -> Callable[[], object]:
    training = Training(config)
    fill(training.agent, training.environment, config.replay.replay_capacity)
    steps = training.steps()
    return lambda: next(steps)
