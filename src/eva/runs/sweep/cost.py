"""What a sweep will cost, from measured speeds: runs, time and memory, on few and many machines."""

from __future__ import annotations

import heapq
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from eva.config import Config
from eva.errors import UserError
from eva.ids import ATARI_ID, MAZE_ID
from eva.runs.record.formatting import aligned, duration
from eva.runs.record.status import read_status
from eva.runs.sweep.jobs import Job
from eva.runs.sweep.progress import last_speed
from eva.runs.sweep.resources import need

NUM_NODES = (1, 8, 64)
_MEASURED = {(MAZE_ID, False): 807.0, (MAZE_ID, True): 687.0, (ATARI_ID, False): 416.0, (ATARI_ID, True): 389.0}
"""Transitions per second of one thread, without and with EVA: docs/performance.md."""


@dataclass(frozen=True)
class Node:
    """A machine of the cluster."""

    num_cores: int
    memory_gb: float


@dataclass(frozen=True)
class _Speed:
    """How fast a run goes, and who says so."""

    steps_per_second: float
    source: str


def plan(jobs: Sequence[Job], node: Node, steps_per_second: float | None = None) -> str:
    """Return what is left of a sweep, as a table: a row for each number of nodes. Starts nothing.

    Args:
        jobs: All jobs; those that are done cost nothing, others what they have left.
        node: What each machine has.
        steps_per_second: Of one run; by default what the sweep's own runs wrote down, or else what was measured for
            docs/performance.md.
    """
    left = [job for job in jobs if not job.is_done_in(job.directory)]
    steps = {job: max(0, job.config.steps - read_status(job.directory).step) for job in left}
    counted = f"{len(jobs)} runs, {len(jobs) - len(left)} of them done; {sum(steps.values()):,} transitions left"
    if not left:
        return counted
    kinds = sorted({_kind(job.config) for job in left})
    speeds = {kind: _speed(kind, jobs, steps_per_second) for kind in kinds}
    seconds = [steps[job] / speeds[_kind(job.config)].steps_per_second for job in left]
    needs = [need(job.config) for job in left]
    num_cpus, gigabytes = max(each.num_cpus for each in needs), max(each.memory_bytes for each in needs) / 1e9
    at_a_time = min(node.num_cores // num_cpus, int(node.memory_gb / gigabytes))
    if at_a_time < 1:
        raise UserError(
            f"a run takes {num_cpus} cores and {gigabytes:.1f} GB, more than a node has: raise --node-cores or "
            "--node-memory."
        )
    told = [
        counted,
        *(f"{_words(kind)}: {speed.steps_per_second:g} steps/s ({speed.source})" for kind, speed in speeds.items()),
        f"one run: up to {duration(max(seconds))}, {num_cpus} CPU and {gigabytes:.1f} GB; "
        f"one node: {node.num_cores} cores, {node.memory_gb:g} GB",
        "",
    ]
    rows = [_row(num_nodes, at_a_time, seconds, gigabytes) for num_nodes in NUM_NODES]
    return "\n".join([*told, aligned(["nodes", "runs at a time", "time", "GB on each node"], rows)])


def _row(num_nodes: int, at_a_time: int, seconds: Sequence[float], gigabytes: float) -> list[str]:
    """Return what so many nodes take for it, each with so many runs at a time."""
    num_slots = min(len(seconds), num_nodes * at_a_time)
    ends = [0.0] * num_slots
    for each in seconds:  # to whoever is free first
        heapq.heapreplace(ends, ends[0] + each)
    on_each_node = gigabytes * -(-num_slots // num_nodes)
    return [str(num_nodes), str(num_slots), duration(max(ends)), f"{on_each_node:,.0f}"]


def _kind(config: Config) -> tuple[str, bool]:
    """Return what decides how fast a run goes: where it plays, and whether with EVA."""
    return config.environment.id, config.eva.nonparametric_weight > 0


def _words(kind: tuple[str, bool]) -> str:
    return f"{kind[0]} {'with' if kind[1] else 'without'} EVA"


def _speed(kind: tuple[str, bool], jobs: Sequence[Job], steps_per_second: float | None) -> _Speed:
    if steps_per_second is not None:
        return _Speed(steps_per_second, "as you say")
    written = [last_speed(job.directory) for job in jobs if _kind(job.config) == kind]
    own = [speed for speed in written if speed]
    if own:
        return _Speed(statistics.median(own), f"median of {len(own)} runs of this sweep")
    if kind in _MEASURED:
        return _Speed(_MEASURED[kind], "one thread, measured: docs/performance.md")
    raise UserError(f"nobody has measured {_words(kind)}: give --steps-per-second, or start a run and ask again.")
