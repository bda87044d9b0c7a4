"""eva sweep."""

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import tyro

from eva.cli.experiment import ExperimentOptions
from eva.cli.parsing import parse
from eva.errors import UserError, printable
from eva.machine import free_memory, num_cores
from eva.runs.sweep.grid import Grid, read_grid
from eva.runs.sweep.jobs import Executor
from eva.schema import Count, CountOrZero, Positive


@dataclass(frozen=True)
class Sweep(ExperimentOptions):
    """Run many training runs, on this machine or on a Ray cluster; finished runs are skipped, others continued."""

    what: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="[FILE|EXPERIMENT]")] = None
    """A grid file (TOML: see docs/scaling.md), or an experiment (see: eva experiment --list)."""
    executor: Literal["local", "ray"] = "local"
    """Run in processes of this machine, or in tasks of a Ray cluster that shares the run directories."""
    address: str | None = None
    """Address of the Ray cluster; by default the one that this machine belongs to, else a new one on this machine."""
    jobs: Count | None = None
    """Number of threads at a time with --executor local, over all runs (run.threads each); by default all cores."""
    gpu_share: Positive = 1.0
    """GPUs for each run with run.device cuda, with --executor ray; 0.25 puts four runs on one GPU."""
    retries: CountOrZero = 2
    """How often to retry a failed run from its last checkpoint. Lost nodes do not count."""
    status: Path | None = None
    """Folder of a sweep's runs: print its progress, from any machine, and exit."""
    plan: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print the hours and memory that the remaining runs take on 1, 8 and 64 nodes, and exit."""
    steps_per_second: Positive | None = None
    """Transitions per second of one run, for --plan; by default measured in the runs, or as in docs/performance.md."""
    node_cores: Count | None = None
    """Cores of a node, for --plan; by default those of this machine."""
    node_memory: Positive | None = None
    """Memory of a node in GB, for --plan; by default the free memory of this machine."""


def main(arguments: list[str]) -> None:
    """Run a sweep, or print its status or cost."""
    asked = parse(Sweep, arguments)
    if asked.status is not None:
        from eva.runs.sweep.manifest import sweep_status

        print(printable(sweep_status(asked.status)))
        return
    if asked.what is None:
        raise UserError("give a grid file, the name of an experiment (see: eva experiment --list), or --status DIR.")
    _reject_unused_options(asked)
    grid, next_command = _grid(asked, asked.what)
    if asked.plan:
        from eva.runs.sweep.cost import estimate_cost  # imports torch: not for --help

        cores, gigabytes = asked.node_cores or num_cores(), asked.node_memory or round(free_memory() / 1e9, 1)
        print(estimate_cost(grid.jobs, cores, gigabytes, asked.steps_per_second))
        return
    from eva.runs.sweep.manifest import run_sweep

    print(run_sweep(grid.name, grid.out, grid.jobs, _executor(asked, grid.name)))
    print(f"next: {next_command}")


def _reject_unused_options(asked: Sweep) -> None:
    if asked.executor == "local" and _given(asked, "address", "gpu_share"):
        raise UserError("--address and --gpu-share are for a Ray cluster: add --executor ray.")
    if asked.executor == "ray" and asked.jobs is not None:
        raise UserError("--jobs is for the executor local, and Ray counts cores itself: leave it out.")
    if not asked.plan and _given(asked, "steps_per_second", "node_cores", "node_memory"):
        raise UserError("--steps-per-second, --node-cores and --node-memory are for --plan: add it, or leave them out.")


def _given(asked: Sweep, *names: str) -> list[str]:
    """Return which of these options differ from their defaults."""
    return [name for name in names if getattr(asked, name) != getattr(Sweep, name)]


def _grid(asked: Sweep, what: str) -> tuple[Grid, str]:
    """Read the grid file or look up the experiment; return its runs and the command that evaluates them."""
    path = Path(what)
    if path.suffix == ".toml" or path.is_file():
        if _given(asked, "games", "frames", "seeds"):
            raise UserError("--games, --frames and --seeds are only for atari-55: write them into the file.")
        if _given(asked, "runs_dir", "results_dir"):
            raise UserError("--runs-dir and --results-dir are for experiments: write `out` into the file.")
        grid = read_grid(path)
        commanded = tuple(replace(job, command=("eva", "sweep", what)) for job in grid.jobs)
        return replace(grid, jobs=commanded), shlex.join(["eva", "report", str(grid.out)])
    from eva.experiments.catalogue import experiment  # imports matplotlib: not for --help
    from eva.experiments.framework.command import Places, jobs_to_make

    chosen = experiment(what, asked.games, asked.frames, asked.seeds)
    jobs = jobs_to_make(chosen, Places(asked.runs_dir, asked.results_dir, quick=False))
    flags = {"runs_dir": "--runs-dir", "results_dir": "--results-dir"}
    folders = [word for name in _given(asked, *flags) for word in (flags[name], str(getattr(asked, name)))]
    return Grid(chosen.name, asked.runs_dir, tuple(jobs)), shlex.join([*chosen.command, *folders])


def _executor(asked: Sweep, title: str) -> Executor:
    if asked.executor == "ray":
        from eva.runs.sweep.ray_executor import RayExecutor

        return RayExecutor(title, address=asked.address, num_retries=asked.retries, gpu_share=asked.gpu_share)
    from eva.runs.sweep.executor import LocalExecutor

    return LocalExecutor(asked.jobs or num_cores(), title, num_retries=asked.retries)
