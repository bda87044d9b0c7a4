"""The replay buffer that a config describes, and how much memory it takes."""

import math
from typing import Any

import numpy as np
import torch

from eva.agent.exploration import LinearSchedule
from eva.agent.memory.frames import CompressedFrames, RawFrames
from eva.agent.memory.neighbours import NeighbourIndex
from eva.agent.memory.observations import ObservationStore, StackedObservations, WholeObservations
from eva.agent.memory.priorities import Priorities
from eva.agent.memory.projected import ProjectedIndex
from eva.agent.memory.replay import ReplayBuffer
from eva.config import Config, ReplayConfig
from eva.machine import check_memory
from eva.types import EnvironmentSpec

COMPRESSION = 5  # compressed frames of the worst of 55 games take 1/5 of the raw size (docs/performance.md)
_LARGE = 1 << 23  # numbers in the embeddings: from here on they do not fit into a processor's cache


def build_replay(config: Config, spec: EnvironmentSpec, device: torch.device) -> ReplayBuffer:
    """Return an empty replay buffer; raise UserError if it does not fit into memory."""
    replay, embedding_size = config.replay, config.network.embedding_size
    check_memory(
        replay.replay_capacity,
        bytes_per_slot(replay, embedding_size, spec),
        ", or choose --replay.frames compressed" if spec.num_stacked > 1 and replay.frames == "raw" else "",
    )
    return ReplayBuffer(
        replay.replay_capacity,
        spec.num_environments,
        _observation_store(replay, spec),
        embedding_size,
        config.learner.discount,
        device,
        _priorities(replay) if replay.prioritised else None,
        _index(replay, embedding_size),
        reads_ahead=spec.num_stacked > 1 and config.run.threads != 1,
    )


def bytes_per_slot(config: ReplayConfig, embedding_size: int, spec: EnvironmentSpec) -> int:
    """Return the memory in bytes that one state takes in the replay buffer: an upper bound if compressed."""
    return (
        bytes_per_observation(spec.observation_shape, spec.observation_dtype, spec.num_stacked, config.frames)
        + ReplayBuffer.bytes_per_slot(embedding_size, spec.num_environments)
        + _index(config, embedding_size).BYTES_PER_SKETCH
        + config.prioritised * Priorities.BYTES_PER_SLOT
    )


def bytes_per_observation(shape: tuple[int, ...], dtype: np.dtype[Any], num_stacked: int, frames: str) -> int:
    """Return the memory that a stored observation takes, given `frames` "raw" or "compressed" (an upper bound)."""
    size = math.prod(shape) * dtype.itemsize // num_stacked
    if num_stacked == 1:
        return size
    stack = 4 * num_stacked
    return stack + (size if frames == "raw" else size // COMPRESSION + 4)


def _observation_store(config: ReplayConfig, spec: EnvironmentSpec) -> ObservationStore:
    shape, dtype, num_environments = spec.observation_shape, spec.observation_dtype, spec.num_environments
    lane_capacity = config.replay_capacity // num_environments
    if spec.num_stacked == 1:
        return WholeObservations(num_environments * lane_capacity, shape, dtype)
    make_frames = RawFrames if config.frames == "raw" else CompressedFrames
    return StackedObservations(num_environments, lane_capacity, shape, dtype, make_frames)


def _index(config: ReplayConfig, embedding_size: int) -> type[NeighbourIndex]:
    """Return the exact search for a memory of this size: by projection if it is large (P80)."""
    is_large = config.replay_capacity * embedding_size >= _LARGE
    return ProjectedIndex if config.search == "projected" or (config.search == "auto" and is_large) else NeighbourIndex


def _priorities(config: ReplayConfig) -> Priorities:
    beta = LinearSchedule(config.importance_exponent_start, 1.0, 0, config.importance_anneal_transitions)
    return Priorities(
        config.replay_capacity,
        priority_exponent=config.priority_exponent,
        priority_floor=config.priority_floor,
        importance_exponent=beta,
    )
