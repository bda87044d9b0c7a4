"""The command line of sweeps: eva sweep."""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from eva.errors import UserError
from eva.machine import num_cores

if TYPE_CHECKING:
    from eva.runs.sweep.jobs import Executor, Job


@dataclass(frozen=True)
class Sweep:
    """Carry out many runs, on this machine or on a Ray cluster: finished ones are skipped, others go on."""

    what: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="[FILE|EXPERIMENT]")] = None
    """A grid file (TOML: see docs/scaling.md), or an experiment (see: eva experiment --list)."""
    executor: Literal["local", "ray"] = "local"
    """Processes of this machine, or tasks of a Ray cluster that reaches the same run directories."""
    address: str | None = None
    """Of the Ray cluster; by default the one that this machine belongs to, or else a new one of this machine."""
    jobs: int | None = None
    """Of the executor local: threads at a time, over all runs (run.threads each); by default one for each core."""
    gpu_share: float = 1.0
    """Of the executor ray: part of a GPU for each run with run.device cuda; 0.25 puts four runs on one."""
    retries: int = 2
    """How often a run that fails is tried again, from its last checkpoint. Lost nodes do not count."""
    status: Path | None = None
    """Folder of a sweep's runs: tell how far it is, from any machine; runs nothing."""
    plan: tyro.conf.FlagCreatePairsOff[bool] = False
    """Tell what is left, in hours and memory, on 1, 8 and 64 nodes; runs nothing."""
    steps_per_second: float | None = None
    """Of --plan: transitions per second of one run; by default what the runs themselves or docs/performance.md say."""
    node_cores: int = 32
    """Of --plan: cores of a node."""
    node_memory: float = 128.0
    """Of --plan: memory of a node, in GB."""
    runs_dir: Path = Path("runs")
    """Of an experiment: folder of the run directories, the same for eva experiment."""
    results_dir: Path = Path("results")
    """Of an experiment: folder of what is kept of finished runs, which are not made again."""
    games: str | None = None
    """Of atari-55: games with commas between them, or a set (tuning-5)."""
    frames: int | None = None
    """Of atari-55: frames of each run; 200 million by default (P67)."""
    seeds: int | None = None
    """Of atari-55: runs for each game and variant; the paper has 3."""


_PLACES = ("runs_dir", "results_dir")


@dataclass(frozen=True)
class _Work:
    """What is asked for.

    Attributes:
        name: Of the sweep.
        folder: Of its run directories.
        jobs: All of them, done or not.
        next_command: What makes something of the runs.
    """

    name: str
    folder: Path
    jobs: list[Job]
    next_command: str


def sweep(asked: Sweep) -> None:
    """Carry out what was asked for."""
    if asked.status is not None:
        from eva.runs.sweep.manifest import status

        print(status(asked.status))
        return
    if asked.what is None:
        raise UserError("give a grid file, the name of an experiment (see: eva experiment --list), or --status DIR.")
    _check(asked)
    work = _work(asked, asked.what)
    if asked.plan:
        from eva.runs.sweep.cost import Node, plan  # imports torch: not for --help

        print(plan(work.jobs, Node(asked.node_cores, asked.node_memory), asked.steps_per_second))
        return
    from eva.runs.sweep.manifest import conduct

    print(conduct(work.name, work.folder, work.jobs, _executor(asked, work.name)))
    print(f"next: {work.next_command}")


def _check(asked: Sweep) -> None:
    """Refuse numbers out of range and options that would have no effect."""
    smallest = {"jobs": 1, "retries": 0, "node_cores": 1}
    for name, least in smallest.items():
        number = getattr(asked, name)
        if number is not None and number < least:
            raise UserError(f"{_flag(name)} is {number}, but must be at least {least}.")
    for name in ("gpu_share", "steps_per_second", "node_memory"):
        number = getattr(asked, name)
        if number is not None and not 0 < number < math.inf:
            raise UserError(f"{_flag(name)} is {number:g}, but must be a number above 0.")
    if asked.executor == "local" and _given(asked, "address", "gpu_share"):
        raise UserError("--address and --gpu-share are for a Ray cluster: add --executor ray.")
    if asked.executor == "ray" and asked.jobs is not None:
        raise UserError("--jobs is for the executor local, and Ray counts cores itself: leave it out.")
    if not asked.plan and _given(asked, "steps_per_second", "node_cores", "node_memory"):
        raise UserError("--steps-per-second, --node-cores and --node-memory are for --plan: add it, or leave them out.")


def _given(asked: Sweep, *names: str) -> list[str]:
    """Return which of some options are not what they are by default."""
    return [name for name in names if getattr(asked, name) != getattr(Sweep, name)]


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _work(asked: Sweep, what: str) -> _Work:
    """Find the file or the experiment."""
    path = Path(what)
    if path.suffix == ".toml" or path.is_file():
        from eva.runs.sweep.grid import read_grid

        if _given(asked, "games", "frames", "seeds"):
            raise UserError("--games, --frames and --seeds are for atari-55 alone: write them into the file.")
        if _given(asked, *_PLACES):
            raise UserError("--runs-dir and --results-dir are for experiments: write `out` into the file.")
        grid = read_grid(path)
        jobs = [replace(job, command=("eva", "sweep", what)) for job in grid.jobs]
        return _Work(grid.name, grid.out, jobs, shlex.join(["eva", "report", str(grid.out)]))
    from eva.experiments.catalogue import experiment  # imports matplotlib: not for --help
    from eva.experiments.framework.command import Places, jobs_to_make

    chosen = experiment(what, asked.games, asked.frames, asked.seeds)
    jobs = jobs_to_make(chosen, Places(asked.runs_dir, asked.results_dir, quick=False))
    elsewhere = [word for name in _given(asked, *_PLACES) for word in (_flag(name), str(getattr(asked, name)))]
    return _Work(chosen.name, asked.runs_dir, jobs, shlex.join([*chosen.command, *elsewhere]))


def _executor(asked: Sweep, title: str) -> Executor:
    if asked.executor == "ray":
        from eva.runs.sweep.ray_executor import RayExecutor

        return RayExecutor(title, address=asked.address, num_retries=asked.retries, gpu_share=asked.gpu_share)
    from eva.runs.sweep.executor import LocalExecutor

    return LocalExecutor(asked.jobs or num_cores(), title, num_retries=asked.retries)
