"""CPUs, GPUs and memory that a run requires, and the time that a sweep takes on different numbers of machines."""

import heapq
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from eva.build import environment_spec
from eva.config import Config, find_config
from eva.errors import UserError
from eva.ids import ATARI_ID, MAZE_ID
from eva.runs.record.formatting import aligned, duration
from eva.runs.record.status import read_status
from eva.runs.sweep.jobs import Job
from eva.runs.sweep.progress import has_intact_times, last_speed
from eva.wiring.memory import bytes_per_slot

_NUM_NODES = (1, 8, 64)
_MEASURED = {(MAZE_ID, False): 807.0, (MAZE_ID, True): 687.0, (ATARI_ID, False): 416.0, (ATARI_ID, True): 389.0}
"""Transitions per second of one thread, without and with EVA (docs/performance.md)."""
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


def estimate_cost(
    jobs: Sequence[Job], node_cores: int, node_memory_gb: float, steps_per_second: float | None = None
) -> str:
    """Return a table of the remaining time and the memory of a sweep, one row for each number of nodes.

    Finished jobs cost nothing, started ones only the remaining transitions. The speed of one run is by default the one
    that runs of this sweep recorded, or else the one measured for docs/performance.md.
    """
    left = [job for job in jobs if not job.is_done_in(job.directory)]
    steps = [max(0, job.config.steps - read_status(job.directory).step) for job in left]
    counts = f"{len(jobs)} runs, {len(jobs) - len(left)} of them done; {sum(steps):,} transitions left"
    if unreadable := [str(job.directory) for job in jobs if _is_unreadable(job)]:
        counts += f"\ndamaged, or of another configuration: {', '.join(unreadable)}"
    if not left:
        return counts
    kinds = sorted({_kind(job.config) for job in left})
    speeds = {kind: _speed(kind, jobs, steps_per_second) for kind in kinds}
    seconds = [num_steps / speeds[_kind(job.config)][0] for job, num_steps in zip(left, steps, strict=True)]
    required = [required_resources(job.config) for job in left]
    num_cpus, gigabytes = max(each.num_cpus for each in required), max(each.memory_bytes for each in required) / 1e9
    runs_per_node = min(node_cores // num_cpus, int(node_memory_gb / gigabytes))
    if runs_per_node < 1:
        raise UserError(
            f"a run takes {num_cpus} cores and {gigabytes:.1f} GB, more than a node has: raise --node-cores or "
            "--node-memory."
        )
    lines = [
        counts,
        *(f"{_label(kind)}: {speed:g} steps/s ({source})" for kind, (speed, source) in speeds.items()),
        f"one run: up to {duration(max(seconds))}, {num_cpus} CPU and {gigabytes:.1f} GB; "
        f"one node: {node_cores} cores, {node_memory_gb:g} GB",
        "",
    ]
    rows = [_row(num_nodes, runs_per_node, seconds, gigabytes) for num_nodes in _NUM_NODES]
    return "\n".join([*lines, aligned(["nodes", "runs at a time", "time", "GB on each node"], rows)])


def _is_unreadable(job: Job) -> bool:
    """Return whether what a run recorded so far cannot be used, or not all of it."""
    if (status := read_status(job.directory)).state == "absent":
        return job.directory.exists() and any(job.directory.glob("[!.]*"))
    config = find_config(job.directory)
    is_another = config is None or config.identity != job.config.identity
    return status.state == "damaged" or is_another or not has_intact_times(job.directory)


def _row(num_nodes: int, runs_per_node: int, seconds: Sequence[float], gigabytes: float) -> list[str]:
    num_slots = min(len(seconds), num_nodes * runs_per_node)
    ends = [0.0] * num_slots
    for each in seconds:  # each run goes to the slot that is free first
        heapq.heapreplace(ends, ends[0] + each)
    on_each_node = gigabytes * -(-num_slots // num_nodes)
    return [str(num_nodes), str(num_slots), duration(max(ends)), f"{on_each_node:,.0f}"]


def _kind(config: Config) -> tuple[str, bool]:
    """Return what determines the speed of a run: the environment, and whether it uses EVA."""
    return config.environment.id, config.eva.nonparametric_weight > 0


def _label(kind: tuple[str, bool]) -> str:
    return f"{kind[0]} {'with' if kind[1] else 'without'} EVA"


def _speed(kind: tuple[str, bool], jobs: Sequence[Job], steps_per_second: float | None) -> tuple[float, str]:
    """Return the steps per second of runs of this kind, and the source of that number."""
    if steps_per_second is not None:
        return steps_per_second, "given by --steps-per-second"
    recorded = [speed for job in jobs if _kind(job.config) == kind and (speed := last_speed(job.directory))]
    if recorded:
        return statistics.median(recorded), f"median of {len(recorded)} runs of this sweep"
    if kind in _MEASURED:
        return _MEASURED[kind], "one thread, measured: docs/performance.md"
    raise UserError(f"the speed of {_label(kind)} is unknown: give --steps-per-second, or start a run and retry.")
