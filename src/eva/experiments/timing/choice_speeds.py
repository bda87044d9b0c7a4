"""Time the arms of memory-choices, measured in turn."""

import time
from collections.abc import Callable
from typing import Any

from eva.config import Config
from eva.experiments.beyond.memory_choices import arms
from eva.experiments.framework.common import changed
from eva.experiments.timing.alternating import microseconds_by_round
from eva.experiments.timing.full_memory import fill
from eva.runs.loop import Training

ROUNDS, STEPS_PER_ROUND = 15, 200  # ten plans in a round with the default period
QUICK_ROUNDS, QUICK_STEPS, QUICK_SHARE = 2, 20, 100


def measure(is_quick: bool) -> dict[str, Any]:
    """Return microseconds of CPU time for a transition in each arm, round by round.

    Memories are filled with random play. A first round, which does not count, fills the value buffers.
    """
    configs = {arm.label: arm.jobs[0].config for arm in arms()}
    rounds, repeats = (QUICK_ROUNDS, QUICK_STEPS) if is_quick else (ROUNDS, STEPS_PER_ROUND)
    steps = {name: _step(_smaller(config) if is_quick else config) for name, config in configs.items()}
    by_round = microseconds_by_round(steps, rounds + 1, repeats, time.process_time)
    times = {
        name: [round(each / configs[name].environment.num_environments, 1) for each in values[1:]]
        for name, values in by_round.items()
    }
    return {"microseconds": times}


def _smaller(config: Config) -> Config:
    capacity = config.replay.replay_capacity // QUICK_SHARE
    return changed(config, {"replay.replay_capacity": capacity, "learner.learning_starts_transitions": 1})


def _step(config: Config) -> Callable[[], object]:
    training = Training(config)
    fill(training.agent, training.environment, config.replay.replay_capacity)
    return training.steps().__next__
