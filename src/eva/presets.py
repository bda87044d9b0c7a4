"""Named configurations."""

from dataclasses import replace

from eva.config import (
    Config,
    EnvironmentConfig,
    EVAConfig,
    ExplorationConfig,
    LearnerConfig,
    MazeConfig,
    NetworkConfig,
    ReplayConfig,
    RunConfig,
)
from eva.errors import UserError, nearest_name
from eva.ids import ATARI_ID


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

_ATARI = Config(  # the paper's table, except for the weight (0.4, not 0.5: P1) and the unused temperature (P11)
    name="atari",
    steps=50_000_000,
    environment=EnvironmentConfig(id=ATARI_ID, num_environments=4),
    network=NetworkConfig(channels=(16, 32, 32), filter_sizes=(8, 4, 3), strides=(4, 2, 1), embedding_size=256),
    replay=ReplayConfig(replay_capacity=500_000, importance_anneal_transitions=50_000_000),
    learner=LearnerConfig(
        discount=0.99,
        batch_size=48,
        learning_rate=1e-4,
        error="huber",
        target_period_updates=50,
        learning_starts_transitions=10_000,
        update_period_steps=1,
        clip_rewards=True,
    ),
    exploration=ExplorationConfig(epsilon_start=1.0, epsilon_end=0.1, epsilon_decay_transitions=250_000),
    eva=EVAConfig(start="full"),
    run=RunConfig(threads=0, metrics_period_transitions=10_000),
)
_ATARI_SMALL = replace(
    _ATARI,
    name="atari-small",
    steps=1_000_000,
    replay=replace(_ATARI.replay, replay_capacity=100_000, importance_anneal_transitions=1_000_000),
    exploration=replace(_ATARI.exploration, epsilon_decay_transitions=100_000),
)

_CARTPOLE = Config(  # tuned at weight 0: results/cartpole
    name="cartpole",
    steps=500_000,
    environment=EnvironmentConfig(id="CartPole-v1", num_environments=4),
    network=NetworkConfig(hidden_sizes=(120,), embedding_size=84),
    replay=ReplayConfig(replay_capacity=20_000, importance_anneal_transitions=300_000),
    learner=LearnerConfig(
        batch_size=128,
        learning_rate=5e-4,
        learning_rate_end=1e-5,
        learning_rate_decay_updates=62_500,
        learning_starts_transitions=10_000,
        update_period_steps=2,
    ),
    exploration=ExplorationConfig(epsilon_end=0.15, epsilon_decay_transitions=200_000),
    run=RunConfig(metrics_period_transitions=10_000),
)

PRESETS = {
    "maze-1-coin": (_maze(1, 60_000), "the paper's maze with one coin (Fig. 2 centre)"),
    "maze-2-coins": (_maze(2, 150_000), "the paper's maze with two coins (Fig. 2 right)"),
    "maze-4-coins": (_maze(4, 300_000), "the paper's maze with four coins (Fig. 2 left)"),
    "atari": (_ATARI, "the paper's Atari agent (Section 5.2), with --game"),
    "atari-small": (
        _ATARI_SMALL,
        "the same for a laptop: 100,000 states in memory (paper: 500,000), faster epsilon decay",
    ),
    "cartpole": (_CARTPOLE, "Gymnasium's CartPole-v1 (results/cartpole)"),
    "smoke": (_SMOKE, "everything small, for tests: takes seconds, learns nothing"),
}
"""Name, configuration and description of each preset."""


def preset(name: str) -> Config:
    """Return the configuration called `name`."""
    if name not in PRESETS:
        raise UserError(f"there is no preset '{name}': {nearest_name(name, PRESETS)}")
    return PRESETS[name][0]


def preset_of(config: Config) -> Config | None:
    """Return the preset, or the defaults of the environment, that `config` is named after; None if there is none."""
    presets = [each for each, _ in PRESETS.values()]
    games = [for_game(each, config.atari.game) for each in presets if each.environment.id == ATARI_ID]
    named = [*presets, *games, for_environment(config.environment.id)]
    return next((each for each in named if each.name == config.name), None)


def for_environment(environment_id: str) -> Config:
    """Return the default configuration of an environment that has no preset."""
    if environment_id == ATARI_ID:
        return preset("atari")
    defaults = Config()
    return replace(
        defaults, name=environment_id.replace("/", "-"), environment=replace(defaults.environment, id=environment_id)
    )


def for_game(config: Config, game: str) -> Config:
    """Return an Atari configuration with another game in its name and its settings."""
    name = config.name.removesuffix(f"-{config.atari.game}")
    return replace(config, name=f"{name}-{game}", atari=replace(config.atari, game=game))
