"""Named configurations."""

from __future__ import annotations

from dataclasses import replace

from eva.config import (
    Config,
    EVAConfig,
    ExplorationConfig,
    LearnerConfig,
    MazeConfig,
    ReplayConfig,
    RunConfig,
)
from eva.errors import UserError, nearest_name


def _maze(num_coins: int, steps: int) -> Config:
    plural = "" if num_coins == 1 else "s"
    return Config(
        name=f"maze-{num_coins}-coin{plural}",
        steps=steps,
        maze=MazeConfig(num_coins=num_coins),
        replay=ReplayConfig(importance_anneal_transitions=steps),
    )


_SMOKE = Config(
    name="smoke",
    steps=1_000,
    replay=ReplayConfig(replay_capacity=500, importance_anneal_transitions=1_000),
    learner=LearnerConfig(learning_starts_transitions=200),
    exploration=ExplorationConfig(epsilon_decay_transitions=500),
    eva=EVAConfig(trajectory_length=10, value_buffer_capacity=100),
    run=RunConfig(metrics_period_transitions=100),
)

DESCRIPTIONS = {
    "maze-1-coin": (_maze(1, 60_000), "the paper's maze with one coin (Fig. 2 centre)"),
    "maze-2-coins": (_maze(2, 150_000), "the paper's maze with two coins (Fig. 2 right)"),
    "maze-4-coins": (_maze(4, 300_000), "the paper's maze with four coins (Fig. 2 left)"),
    "smoke": (_SMOKE, "everything small: seconds, for trying out and for tests; it learns nothing"),
}


def preset(name: str) -> Config:
    """Return the configuration called `name`."""
    if name not in DESCRIPTIONS:
        raise UserError(f"there is no preset '{name}': {nearest_name(name, DESCRIPTIONS)}")
    return DESCRIPTIONS[name][0]


def for_environment(environment_id: str) -> Config:
    """Return the defaults for an environment that has no preset of its own."""
    defaults = Config()
    return replace(
        defaults, name=environment_id.replace("/", "-"), environment=replace(defaults.environment, id=environment_id)
    )
