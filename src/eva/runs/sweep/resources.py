"""CPUs, GPUs and memory that a run requires."""

from dataclasses import dataclass, replace
from functools import cache

from eva.build import environment_spec
from eva.build_memory import bytes_per_slot
from eva.config import Config

PROCESS_BYTES = 600_000_000
"""Memory of a process without its replay buffer: torch, emulators, staged batches (docs/performance.md)."""


_spec = cache(environment_spec)


@dataclass(frozen=True)
class Resources:
    """Resources of a run. `num_gpus` can be a fraction; `memory_bytes` includes the full replay buffer."""

    num_cpus: int
    num_gpus: float
    memory_bytes: int


def required_resources(config: Config, gpu_share: float = 1.0) -> Resources:
    """Return the resources that a run requires; `gpu_share` is its fraction of a GPU if `run.device` is `cuda`."""
    # Observations depend only on these fields, and are the same for every Atari game.
    atari = replace(config.atari, game="pong")
    environment = replace(config.environment, num_environments=1)
    spec = _spec(Config(environment=environment, maze=config.maze, atari=atari))
    spec = replace(spec, num_environments=config.environment.num_environments)
    buffer_bytes = config.replay.replay_capacity * bytes_per_slot(config.replay, config.network.embedding_size, spec)
    num_gpus = gpu_share if config.run.device == "cuda" else 0.0
    return Resources(config.run.threads, num_gpus, buffer_bytes + PROCESS_BYTES)
