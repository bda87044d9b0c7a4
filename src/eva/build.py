"""From a config to objects: all wiring and all seeding."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from eva.agent.adjuster import EphemeralValueAdjuster, WeightSchedule
from eva.agent.agent import EVAAgent
from eva.agent.exploration import EpsilonGreedy, LinearSchedule
from eva.agent.kbrl import kernel_based_rl
from eva.agent.learner import Learner
from eva.agent.memory.replay import ReplayBuffer
from eva.agent.network import QNetwork, convolved_size, image_shape
from eva.agent.optimisers import OPTIMISERS
from eva.agent.planner import Planner, Trace, recomputed_values, stored_values
from eva.agent.traces import n_step, trajectory_centric_planning
from eva.agent.value_buffer import ValueBuffer
from eva.build_memory import build_replay
from eva.config import AtariConfig, Config, EnvironmentConfig, EVAConfig, LearnerConfig, NetworkConfig, ReplayConfig
from eva.envs.maze import VectorCoinMaze
from eva.envs.maze_dynamics import Mazes
from eva.envs.maze_layout import resolved
from eva.envs.vector import GymnasiumVector, make_gymnasium
from eva.errors import UserError
from eva.games import game_name, minatar_game
from eva.ids import ATARI_ID, MAZE_ID, MINATAR_PREFIX
from eva.types import EnvironmentSpec, VectorEnvironment

T = TypeVar("T")

# Each component draws from its own stream. The order determines all results: add new ones at the end.
_STREAMS = ("environment", "network", "exploration", "sampling")


def generators(seed: int) -> dict[str, np.random.Generator]:
    """Return one independent random generator for each component."""
    children = np.random.SeedSequence(seed).spawn(len(_STREAMS))
    return {name: np.random.default_rng(child) for name, child in zip(_STREAMS, children, strict=True)}


def resolve(config: Config) -> Config:
    """Return `config` with the map's text instead of its path, and the game's canonical name."""
    maze = replace(config.maze, layout=resolved(config.maze.layout))
    return replace(config, maze=maze, atari=replace(config.atari, game=game_name(config.atari.game)))


def build_environment(config: Config, transitions: int = 0, *, draws: bool = False) -> VectorEnvironment:
    """Return the environments that `config` names; after `transitions`, with new random episodes.

    With `draws`, those that are `Pictured` draw the first of them at every step.
    """
    generator = generators(config.seed)["environment"]
    if transitions > 0:  # a resumed run must not repeat the episodes of its beginning
        generator = np.random.default_rng(np.random.SeedSequence(config.seed, spawn_key=(len(_STREAMS), transitions)))
    num_environments = config.environment.num_environments
    if config.environment.id == MAZE_ID:
        maze = config.maze
        mazes = Mazes(num_environments, maze.layout, maze.num_coins, maze.max_episode_steps)
        return VectorCoinMaze(mazes, generator)
    seeds = generator.integers(2**31, size=num_environments).tolist()
    if config.environment.id == ATARI_ID:
        return _atari(config.atari, seeds, draws=draws)
    if config.environment.id.startswith(MINATAR_PREFIX):
        return _minatar(config, seeds)
    return GymnasiumVector(partial(make_gymnasium, config.environment.id, draws=draws), seeds, draws=draws)


def environment_spec(config: Config) -> EnvironmentSpec:
    """Return the spec of the environments that `config` names."""
    with closing(build_environment(config)) as environment:
        return environment.spec


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


def build_agent(config: Config, spec: EnvironmentSpec) -> EVAAgent:
    """Return a new agent for environments like `spec`."""
    device = resolve_device(config.run.device)
    streams = generators(config.seed)
    network = build_network(config, spec, streams["network"]).to(device)
    replay = build_replay(config, spec, device)
    learner, explore = config.learner, config.exploration
    rate, end = learner.learning_rate, learner.learning_rate_end
    learning_rate = LinearSchedule(rate, rate if end is None else end, 0, learner.learning_rate_decay_updates)
    epsilon = LinearSchedule(explore.epsilon_start, explore.epsilon_end, 0, explore.epsilon_decay_transitions)
    return EVAAgent(
        Learner(
            network,
            OPTIMISERS[learner.optimiser](network.named_parameters(), learner.optimiser_epsilon),
            learning_rate=learning_rate,
            error=learner.error,
            target_period_updates=learner.target_period_updates,
            double=learner.double,
            max_gradient_norm=learner.max_gradient_norm,
        ),
        build_adjuster(config.eva, replay, network.values, network, spec.num_actions),
        EpsilonGreedy(spec.num_actions, epsilon, streams["exploration"]),
        build_weight_schedule(config.eva),
        streams["sampling"],
        batch_size=learner.batch_size,
        learning_starts_transitions=learner.learning_starts_transitions,
        update_period_steps=learner.update_period_steps,
        updates_per_round=learner.updates_per_round,
        clip_rewards=learner.clip_rewards,
        refresh_embeddings=config.eva.embeddings == "refreshed",
    )


def build_network(config: Config, spec: EnvironmentSpec, generator: np.random.Generator) -> QNetwork:
    """Return Q_theta with initial parameters."""
    network = config.network
    if len(spec.observation_shape) == 3:
        for side in image_shape(spec.observation_shape)[:2]:
            if convolved_size(side, network.filter_sizes, network.strides) < 1:
                raise UserError(
                    f"the convolutions do not fit images of shape {spec.observation_shape}: use fewer or smaller ones "
                    "(network.filter_sizes, network.strides)."
                )
    return QNetwork(
        spec.observation_shape,
        spec.num_actions,
        channels=network.channels,
        filter_sizes=network.filter_sizes,
        strides=network.strides,
        hidden_sizes=network.hidden_sizes,
        embedding_size=network.embedding_size,
        white=255 if spec.observation_dtype == np.uint8 and not spec.plane_names else 1,
        generator=generator,
    )


def build_adjuster(
    config: EVAConfig,
    replay: ReplayBuffer,
    values: Callable[[Tensor], Tensor],
    network: Callable[[Tensor], tuple[Tensor, Tensor]] | None,
    num_actions: int,
    num_episodes: int | None = None,
) -> EphemeralValueAdjuster:
    """Return planner and value buffers over a memory.

    `values` maps embeddings to Q_theta. `network` maps observations to Q_theta and embeddings; it is needed if
    remembered values are recomputed (P6). In evaluation, each of `num_episodes` side by side has its own value buffer,
    as large as in training (P28).
    """
    device, embedding_size = replay.embeddings.device, replay.embeddings.shape[1]
    num_lanes, is_shared = len(replay.lane_counts), config.value_buffers == "shared"
    num_buffers = num_episodes or (1 if is_shared else num_lanes)
    capacity = config.value_buffer_capacity // (1 if is_shared else num_lanes)
    return EphemeralValueAdjuster(
        replay,
        build_planner(config, replay, values, network),
        [ValueBuffer(capacity, config.num_neighbours, embedding_size, num_actions, device) for _ in range(num_buffers)],
        plan_period_steps=config.plan_period_steps,
        plan_at_episode_start=config.plan_at_episode_start,
    )


def build_planner(
    config: EVAConfig,
    replay: ReplayBuffer,
    values: Callable[[Tensor], Tensor],
    network: Callable[[Tensor], tuple[Tensor, Tensor]] | None,
) -> Planner:
    """Return a planner over a memory; arguments as in `build_adjuster`."""
    if config.remembered_values == "stored":
        evaluate = partial(stored_values, replay, values)
    else:
        assert network is not None
        evaluate = partial(recomputed_values, replay, network)
    return Planner(
        replay,
        _trace(config),
        evaluate,
        num_trajectories=config.num_trajectories,
        trajectory_length=config.trajectory_length,
        keep_all=config.value_buffer_entries == "all",
    )


def _trace(config: EVAConfig) -> Trace:
    if config.trace == "kbrl":
        return partial(kernel_based_rl, bandwidth=config.kbrl_bandwidth, parametric_similarity=config.kbrl_similarity)
    trace = {"tcp": trajectory_centric_planning, "n-step": n_step}[config.trace]
    return lambda trajectories, q_theta, _: trace(trajectories, q_theta)


def _plain(number: T) -> T:
    """Return a NumPy scalar as a Python number."""
    return number.item() if isinstance(number, np.generic) else number


def make_adjuster(
    values: Callable[[Tensor], Tensor],
    *,
    embedding_size: int,
    num_actions: int,
    num_environments: int = 1,
    memory_capacity: int = 50_000,
    discount: float = 0.99,
    config: EVAConfig = EVAConfig(),  # noqa: B008  (frozen)
    device: str = "cpu",
) -> EphemeralValueAdjuster:
    """Return an adjuster with its own memory, for your own training loop.

    `values` is the last layer of your network: from embeddings (n, D), in float32, to Q_theta (n, A), tensors on
    `device`. For a network of another precision: `lambda h: head(h.double())`. The memory stores the embeddings of
    `memory_capacity` states over all environments, and no observations. `config` states what to plan and how; its
    weight, start and annealing are ignored: pass the weight to `adjust`.
    """
    if config.remembered_values == "recomputed":
        raise UserError("this adjuster keeps no observations: leave remembered_values at 'stored'.")
    if config.embeddings == "refreshed":
        raise UserError("this adjuster sees no updates of the learner: leave embeddings at 'stored'.")
    whole = Config(  # raises if a value is out of range
        environment=EnvironmentConfig(num_environments=_plain(num_environments)),
        network=NetworkConfig(embedding_size=_plain(embedding_size)),
        replay=ReplayConfig(replay_capacity=_plain(memory_capacity)),
        learner=LearnerConfig(discount=_plain(discount)),
        eva=config,
    )
    spec = EnvironmentSpec(num_environments, num_actions, (0,), np.dtype(np.uint8))
    memory = build_replay(whole, spec, resolve_device(device))
    return build_adjuster(config, memory, values, None, num_actions)


def build_player(config: Config, agent: EVAAgent, weight: float, num_episodes: int) -> EVAAgent:
    """Return an agent that acts greedily in episodes side by side (P28): call only `act` and `plan`.

    It shares network and memory with `agent`. Each episode has its own value buffer, empty at first.
    """
    network = agent.learner.network
    return replace(  # runs __post_init__ again: counts and metrics begin at 0
        agent,
        adjuster=build_adjuster(config.eva, agent.replay, network.values, network, network.num_actions, num_episodes),
        exploration=EpsilonGreedy(network.num_actions, LinearSchedule(0.0, 0.0), np.random.default_rng(0)),
        weight_schedule=WeightSchedule(LinearSchedule(weight, weight)),
        learning_starts_transitions=0,
    )


def resolve_device(name: str) -> torch.device:
    """Return the device called `name`; `auto` is CUDA if available."""
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError("torch finds no CUDA device: choose --device cpu or auto.")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def build_weight_schedule(config: EVAConfig) -> WeightSchedule:
    """Return the weight of Q_NP over a run."""
    weight, begin = config.nonparametric_weight, config.anneal_start_transitions
    end = weight if begin is None else 0.0  # constant, or annealed
    schedule = LinearSchedule(weight, end, begin or 0, config.anneal_transitions)
    return WeightSchedule(schedule, start_when_full=config.start == "full")
