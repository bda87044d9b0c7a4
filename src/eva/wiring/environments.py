"""A run's random generators, and its environments: the maze, Atari, MinAtar, Gymnasium's, or a function's."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import gymnasium
import numpy as np

from eva.config import AtariConfig, Config, EnvironmentConfig
from eva.envs.maze import VectorCoinMaze
from eva.envs.maze_dynamics import Mazes
from eva.envs.vector import GymnasiumVector, entry_point, make_gymnasium
from eva.errors import UserError
from eva.games import atari_game_of_id, game_name, minatar_game
from eva.ids import ATARI_ID, MAZE_ID, MINATAR_PREFIX, OWN_PREFIX
from eva.types import EnvironmentSpec, VectorEnvironment
from eva.user_code import reported_failures

EnvironmentFactory = Callable[[], gymnasium.Env[Any, Any]]
"""A function that returns a new environment at each call."""


# Each component draws from its own stream. The order determines all results: add new ones at the end.
_STREAMS = ("environment", "network", "exploration", "sampling")


def generators(seed: int) -> dict[str, np.random.Generator]:
    """Return one independent random generator for each component."""
    children = np.random.SeedSequence(seed).spawn(len(_STREAMS))
    return {name: np.random.default_rng(child) for name, child in zip(_STREAMS, children, strict=True)}


def build_environment(
    config: Config, transitions: int = 0, environment: EnvironmentFactory | None = None, *, draws: bool = False
) -> VectorEnvironment:
    """Return the environments of `config`; after `transitions`, with new random episodes.

    They are those that the config names, or those that the function `environment` makes, called once for each. With
    `draws`, those that are `Pictured` draw the first of them at every step.
    """
    generator = generators(config.seed)["environment"]
    if transitions > 0:  # a resumed run must not repeat the episodes of its beginning
        generator = np.random.default_rng(np.random.SeedSequence(config.seed, spawn_key=(len(_STREAMS), transitions)))
    return _make(config, generator, environment, draws=draws)


def environment_spec(config: Config, environment: EnvironmentFactory | None = None) -> EnvironmentSpec:
    """Return the spec of the environments that `build_environment` returns."""
    with closing(build_environment(config, environment=environment)) as built:
        return built.spec


def _make(
    config: Config, generator: np.random.Generator, factory: EnvironmentFactory | None, *, draws: bool
) -> VectorEnvironment:
    """Return the environments that `config` names, or those that `factory` makes."""
    num_environments = config.environment.num_environments
    if factory is None and config.environment.id == MAZE_ID:
        maze = config.maze
        mazes = Mazes(num_environments, maze.layout, maze.num_coins, maze.max_episode_steps)
        return VectorCoinMaze(mazes, generator)
    seeds = generator.integers(2**31, size=num_environments).tolist()
    if factory is not None:
        return GymnasiumVector(partial(_made_by, factory), seeds, draws=draws)
    if config.environment.id == ATARI_ID:
        return _atari(config.atari, seeds, draws=draws)
    if config.environment.id.startswith(MINATAR_PREFIX):
        return _minatar(config, seeds)
    return GymnasiumVector(partial(_gymnasium, config.environment, draws=draws), seeds, draws=draws)


def own_environment(config: Config, factory: EnvironmentFactory) -> tuple[Config, EnvironmentSpec]:
    """Return `config` with an id after the class of a function's environments, and their spec.

    A run that has the default name is named after them too.
    """
    if not callable(factory):
        raise UserError(
            f"environment is a {type(factory).__name__}, but must be a function that returns a new gymnasium.Env: "
            "environment=lambda: MyEnv()."
        )
    if config.environment.kwargs or config.environment.wrappers:
        raise UserError("environment= makes the whole environment: leave environment.kwargs and .wrappers empty.")
    with closing(GymnasiumVector(partial(_made_by, factory), [0])) as made:
        name, spec = made.class_name, replace(made.spec, num_environments=config.environment.num_environments)
    environment = replace(config.environment, id=OWN_PREFIX + name)
    return replace(config, name=name if config.name == Config().name else config.name, environment=environment), spec


def _made_by(factory: EnvironmentFactory) -> gymnasium.Env[Any, Any]:
    with reported_failures("the environment"):
        return factory()


def _gymnasium(config: EnvironmentConfig, *, draws: bool) -> gymnasium.Env[Any, Any]:
    if config.id.startswith(OWN_PREFIX):
        raise UserError(
            f"{config.id.removeprefix(OWN_PREFIX)} is an environment that Python code passed: pass it again, as "
            "environment=..., or register it and train with its id."
        )
    game = atari_game_of_id(config.id)
    is_ale = (entry_point(config.id) or "ale_py").startswith("ale_py")  # a user may have registered another Pong-v0
    if game is not None and is_ale and not config.kwargs and not config.wrappers:
        raise UserError(
            f"{config.id} is an Atari game, which has a preset with the frames of DQN: eva train atari --game {game} "
            f"(or atari-small); for its raw screens give the id ale_py:ALE/... and --environment.kwargs "
            """'{"obs_type": "rgb"}'."""
        )
    return make_gymnasium(config.id, config.kwargs, config.wrappers, draws=draws)


def _atari(config: AtariConfig, seeds: Sequence[int], *, draws: bool) -> VectorEnvironment:
    from eva.envs.atari import AtariGame, VectorAtari  # an optional extra

    games = [
        AtariGame(
            game_name(config.game),
            seed,
            frame_skip=config.frame_skip,
            num_stacked=config.num_stacked,
            max_noop_frames=config.max_noop_frames,
            max_episode_frames=config.max_episode_frames,
            repeat_action_probability=config.repeat_action_probability,
        )
        for seed in seeds
    ]
    return VectorAtari(games, draws=draws)


def _minatar(config: Config, seeds: Sequence[int]) -> VectorEnvironment:
    from eva.envs.minatar import MinAtarGame, VectorMinAtar  # an optional extra

    game, version = minatar_game(config.environment.id)
    minatar = config.minatar
    games = [
        MinAtarGame(
            game,
            seed,
            minimal_actions=version == 1,
            repeat_action_probability=minatar.repeat_action_probability,
            difficulty_ramping=minatar.difficulty_ramping,
            max_episode_steps=minatar.max_episode_steps,
        )
        for seed in seeds
    ]
    return VectorMinAtar(games)
