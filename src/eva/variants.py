"""The variants that a config chooses between: of what is stored, of searching it, and of planning."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor

from eva.agent.kbrl import kernel_based_rl
from eva.agent.memory.frames import CompressedFrames, RawFrames
from eva.agent.memory.neighbours import NeighbourIndex
from eva.agent.memory.observations import ObservationStore, StackedObservations, WholeObservations
from eva.agent.memory.priorities import Priorities
from eva.agent.memory.projected import ProjectedIndex
from eva.agent.memory.replay import ReplayBuffer
from eva.agent.planner import Evaluate, Planner, Trace
from eva.agent.tensors import to_device
from eva.agent.traces import n_step, trajectory_centric_planning
from eva.config import EVAConfig, ReplayConfig
from eva.types import EnvironmentSpec, Floats, Ints, Trajectories

COMPRESSION = 5  # times smaller than raw are compressed frames of the worst of 55 games (docs/performance.md)
_LARGE = 1 << 23  # numbers: a memory of so many no longer fits into a processor's cache


def observation_store(config: ReplayConfig, spec: EnvironmentSpec) -> ObservationStore:
    """Return room for the observations of such environments: whole, or each frame once where they are stacks."""
    shape, dtype, num_environments = spec.observation_shape, spec.observation_dtype, spec.num_environments
    lane_capacity = config.replay_capacity // num_environments
    if spec.num_stacked == 1:
        return WholeObservations(num_environments * lane_capacity, shape, dtype)
    make_frames = RawFrames if config.frames == "raw" else CompressedFrames
    return StackedObservations(num_environments, lane_capacity, shape, dtype, make_frames)


def index(config: ReplayConfig, embedding_size: int) -> type[NeighbourIndex]:
    """Return what searches the replay buffer (P80)."""
    is_large = config.replay_capacity * embedding_size >= _LARGE
    return ProjectedIndex if config.search == "projected" or (config.search == "auto" and is_large) else NeighbourIndex


def bytes_per_slot(config: ReplayConfig, embedding_size: int, spec: EnvironmentSpec) -> int:
    """Return what a replay buffer takes for each state, of frames that compress badly."""
    return (
        bytes_per_observation(spec.observation_shape, spec.observation_dtype, spec.num_stacked, config.frames)
        + ReplayBuffer.bytes_per_slot(embedding_size, spec.num_environments)
        + index(config, embedding_size).BYTES_PER_SKETCH
        + config.prioritised * Priorities.BYTES_PER_SLOT
    )


def bytes_per_observation(shape: tuple[int, ...], dtype: np.dtype[Any], num_stacked: int, frames: str) -> int:
    """Return the memory that a stored observation takes; of compressed frames, what those of the worst game take.

    Args:
        shape: Of one observation.
        dtype: Of one observation.
        num_stacked: Frames that are stacked in an observation; 1 where observations are kept whole.
        frames: How frames are kept: raw or compressed.
    """
    size = math.prod(shape) * dtype.itemsize // num_stacked
    if num_stacked == 1:
        return size
    stack = 4 * num_stacked
    return stack + (size if frames == "raw" else size // COMPRESSION + 4)


def trace(config: EVAConfig) -> Trace:
    """Return the trace computation that `config` names."""
    traces: dict[str, Trace] = {
        "tcp": partial(_without_embeddings, trajectory_centric_planning),
        "n-step": partial(_without_embeddings, n_step),
        "kbrl": partial(kernel_based_rl, bandwidth=config.kbrl_bandwidth, parametric_similarity=config.kbrl_similarity),
    }
    return traces[config.trace]


def _without_embeddings(
    trace: Callable[[Trajectories, Floats], Floats], trajectories: Trajectories, q_theta: Floats, _: Floats
) -> Floats:
    return trace(trajectories, q_theta)


def remembered_values(
    config: EVAConfig,
    replay: ReplayBuffer,
    values: Callable[[Tensor], Tensor],
    network: Callable[[Tensor], tuple[Tensor, Tensor]] | None,
) -> Evaluate:
    """Return how Q_theta and embedding of remembered states are found (P6).

    It is no closure, so that a deep copy of who holds it finds them in its own memory.
    """
    if config.remembered_values == "stored":
        return partial(_stored, replay, values)
    assert network is not None
    return partial(_recomputed, replay, network)


def _stored(replay: ReplayBuffer, values: Callable[[Tensor], Tensor], slots: Ints) -> tuple[Tensor, Tensor]:
    h = replay.embeddings[to_device(slots, replay.embeddings.device)]
    return values(h).float(), h


def _recomputed(
    replay: ReplayBuffer, network: Callable[[Tensor], tuple[Tensor, Tensor]], slots: Ints
) -> tuple[Tensor, Tensor]:
    return network(replay.gather(slots))


def planner(
    config: EVAConfig,
    replay: ReplayBuffer,
    values: Callable[[Tensor], Tensor],
    network: Callable[[Tensor], tuple[Tensor, Tensor]] | None,
) -> Planner:
    """Return what plans over a memory; the arguments are those of `build_adjuster`."""
    return Planner(
        replay,
        trace(config),
        remembered_values(config, replay, values, network),
        num_trajectories=config.num_trajectories,
        trajectory_length=config.trajectory_length,
        keep_all=config.value_buffer_entries == "all",
    )
