"""From a config to objects: all wiring and all seeding."""

from collections.abc import Callable
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
from eva.agent.optimisers import OPTIMISERS
from eva.agent.planner import Planner, Trace, recomputed_values, stored_values
from eva.agent.traces import n_step, trajectory_centric_planning
from eva.agent.value_buffer import ValueBuffer
from eva.config import Config, EnvironmentConfig, EVAConfig, LearnerConfig, NetworkConfig, ReplayConfig
from eva.errors import UserError, reason_of
from eva.types import EnvironmentSpec
from eva.wiring.environments import EnvironmentFactory as EnvironmentFactory
from eva.wiring.environments import build_environment as build_environment
from eva.wiring.environments import environment_spec as environment_spec
from eva.wiring.environments import generators as generators
from eva.wiring.memory import build_replay
from eva.wiring.networks import Network, build_network, is_own, own_network
from eva.wiring.networks import NetworkSource as NetworkSource
from eva.wiring.settings import complete as complete
from eva.wiring.settings import resolve as resolve

T = TypeVar("T")


def build_agent(config: Config, spec: EnvironmentSpec, network: NetworkSource | None = None) -> EVAAgent:
    """Return a new agent for environments like `spec`, with the config's network or one of your own.

    `network` is a torch module that returns (values, embedding), or a function from `spec` to one.
    """
    device = resolve_device(config.run.device)
    streams = generators(config.seed)
    q_theta: Network
    if is_own(config.network, network):
        if config.learner.precision != "float32":
            raise UserError("a network of your own is trained in float32: leave learner.precision at float32.")
        q_theta = own_network(config.network, spec, streams["network"], network).to(device)
        config = replace(config, network=replace(config.network, embedding_size=q_theta.embedding_size))
    else:
        q_theta = build_network(config, spec, streams["network"]).to(device)
    trained = ((name, each) for name, each in q_theta.named_parameters() if each.requires_grad)
    replay = build_replay(config, spec, device)
    learner, explore = config.learner, config.exploration
    rate, end = learner.learning_rate, learner.learning_rate_end
    learning_rate = LinearSchedule(rate, rate if end is None else end, 0, learner.learning_rate_decay_updates)
    epsilon = LinearSchedule(explore.epsilon_start, explore.epsilon_end, 0, explore.epsilon_decay_transitions)
    return EVAAgent(
        Learner(
            q_theta,
            OPTIMISERS[learner.optimiser](trained, learner.optimiser_epsilon),
            learning_rate=learning_rate,
            error=learner.error,
            target_period_updates=learner.target_period_updates,
            double=learner.double,
            max_gradient_norm=learner.max_gradient_norm,
            precision={"float32": torch.float32, "bfloat16": torch.bfloat16}[learner.precision],
        ),
        build_adjuster(config.eva, replay, q_theta.values, q_theta, spec.num_actions),
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
    if not isinstance(config, EVAConfig):
        raise UserError(f"config is {config!r}, but must be an eva.EVAConfig.")
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
    target = resolve_device(device)
    _check_values(values, embedding_size, num_actions, target)
    spec = EnvironmentSpec(num_environments, num_actions, (0,), np.dtype(np.uint8))
    memory = build_replay(whole, spec, target)
    return build_adjuster(config, memory, values, None, num_actions)


@torch.no_grad()
def _check_values(
    values: Callable[[Tensor], Tensor], embedding_size: int, num_actions: int, device: torch.device
) -> None:
    """Raise UserError unless `values` maps embeddings, (n, D), to values, (n, A)."""
    given = f"embedding_size={embedding_size!r}, num_actions={num_actions!r} and device='{device}'"
    try:
        shape = tuple(values(torch.zeros(2, embedding_size, device=device)).shape)
    except (RuntimeError, TypeError, AttributeError, ValueError) as error:
        raise UserError(f"values does not fit {given} ({reason_of(error)}): pass the last layer's sizes.") from error
    if shape != (2, num_actions):
        raise UserError(f"values returns {shape} for 2 embeddings, which does not fit {given}: it must be (2, A).")


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
