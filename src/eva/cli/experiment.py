"""eva experiment."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from eva.cli.parsing import parse
from eva.errors import UserError
from eva.machine import num_cores
from eva.schema import Count, Rule


@dataclass(frozen=True)
class ExperimentOptions:
    """Options of every command that runs experiments."""

    runs_dir: Path = Path("runs")
    """Folder of an experiment's run directories."""
    results_dir: Path = Path("results")
    """Folder of an experiment's results. A run whose results are there is not run again."""
    games: str | None = None
    """Games of atari-55, separated by commas, or a set (tuning-5); by default all 55."""
    frames: Annotated[int, Rule("of at least 4", lambda n: n >= 4)] | None = None
    """Frames of each run of atari-55; by default 200 million."""
    seeds: Count | None = None
    """Runs of atari-55 for each game and agent; by default 3 (paper: 3)."""


@dataclass(frozen=True)
class Experiment(ExperimentOptions):
    """Run an experiment, the paper's or ours, judge its claims and write its page; finished runs are skipped."""

    name: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="[NAME]")] = None
    """Name of the experiment (see: eva experiment --list)."""
    all: tyro.conf.FlagCreatePairsOff[bool] = False
    """Run all experiments except those on Atari and MinAtar, one after the other."""
    list: tyro.conf.FlagCreatePairsOff[bool] = False
    """List the experiments or, with a name, its runs and their progress, and exit."""
    page: tyro.conf.FlagCreatePairsOff[bool] = False
    """Only judge the finished runs and write the page again, and exit."""
    jobs: Count | None = None
    """Number of runs at a time, each in a process with one thread; by default the number of cores."""
    quick: tyro.conf.FlagCreatePairsOff[bool] = False
    """Make every run tiny, to test that everything works; writes to the folder quick in --runs-dir."""


def main(arguments: list[str]) -> None:
    """Run or list experiments."""
    asked = parse(Experiment, arguments)

    from eva.experiments.catalogue import EXPERIMENTS, experiment
    from eva.experiments.framework.command import Places, list_runs, run_experiment, write_page
    from eva.experiments.framework.definition import OURS
    from eva.experiments.paper import atari  # imports matplotlib: not for --help

    if asked.name is None and asked.list and not asked.all:
        for each in EXPERIMENTS.values():
            where = each.claims[0].where if each.claims else OURS
            print(f"{each.name:20} {where:13} {each.title}")
        return
    if (asked.name is None) != asked.all:
        raise UserError("give the name of one experiment (see: eva experiment --list), or --all.")
    names = [name for name, each in EXPERIMENTS.items() if not each.by_name_only]
    if asked.name is not None:
        names = [asked.name]
    games = "pong" if asked.quick and asked.name == atari.NAME and asked.games is None else asked.games
    places = Places(asked.runs_dir, asked.results_dir, asked.quick)
    for each in [experiment(name, games, asked.frames, asked.seeds) for name in names]:
        if asked.list:
            print(list_runs(each, places))
        elif asked.page:
            print(write_page(each, places.arms(each), places.records(each), asked.quick))
        else:
            print(run_experiment(each, places, asked.jobs or num_cores()))
