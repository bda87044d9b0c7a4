"""What a run asks of the machine it is placed on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from eva.build import environment_spec
from eva.config import Config
from eva.types import EnvironmentSpec
from eva.variants import bytes_per_slot

PROCESS_BYTES = 600_000_000
"""What a process takes besides its replay buffer: torch, emulators, a batch on its way (docs/performance.md)."""


@dataclass(frozen=True)
class Need:
    """What a run asks for.

    Attributes:
        num_cpus: Its threads.
        num_gpus: One may be shared: 0.25.
        memory_bytes: The replay buffer when it is full, and the process around it.
    """

    num_cpus: int
    num_gpus: float
    memory_bytes: int


def need(config: Config, gpu_share: float = 1.0) -> Need:
    """Return what a run asks for; `gpu_share` is its part of a GPU, where `run.device` is `cuda`."""
    replay = config.replay
    spec = replace(_spec(_looks(config)), num_environments=config.environment.num_environments)
    per_slot = bytes_per_slot(replay, config.network.embedding_size, spec)
    num_gpus = gpu_share if config.run.device == "cuda" else 0.0
    return Need(config.run.threads, num_gpus, replay.replay_capacity * per_slot + PROCESS_BYTES)


def _looks(config: Config) -> Config:
    """Return a config whose environment shows observations of the same kind; all Atari games do."""
    atari = replace(config.atari, game="pong")
    environment = replace(config.environment, num_environments=1)
    return Config(environment=environment, maze=config.maze, atari=atari)


@cache
def _spec(config: Config) -> EnvironmentSpec:
    return environment_spec(config)
