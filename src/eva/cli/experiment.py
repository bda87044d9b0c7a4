"""The command line of experiments: eva experiment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from eva.errors import UserError
from eva.machine import num_cores


@dataclass(frozen=True)
class Experiment:
    """Run an experiment, the paper's or ours, judge its claims and write its page; finished runs are not made again."""

    name: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="[NAME]")] = None
    """The experiment; --list tells their names."""
    all: tyro.conf.FlagCreatePairsOff[bool] = False
    """All experiments but those on Atari, one after the other."""
    list: tyro.conf.FlagCreatePairsOff[bool] = False
    """List the runs and how far they are, or, without a name, experiments and places in the paper; runs nothing."""
    jobs: int | None = None
    """Runs at a time, each in a process with one thread; by default as many as there are cores."""
    runs_dir: Path = Path("runs")
    """Folder of the run directories."""
    results_dir: Path = Path("results")
    """Folder of what is kept of finished runs. A run that is kept there is not made again."""
    quick: tyro.conf.FlagCreatePairsOff[bool] = False
    """Everything tiny, to see that it works, in a folder of its own: quick, under that of the run directories."""
    games: str | None = None
    """Of atari-55: games with commas between them, or a set (tuning-5)."""
    frames: int | None = None
    """Of atari-55: frames of each run; 200 million by default (P67)."""
    seeds: int | None = None
    """Of atari-55: runs for each game and variant; the paper has 3."""


def run(asked: Experiment) -> None:
    """Carry out what was asked for."""
    from eva.experiments import atari  # imports matplotlib: not for --help
    from eva.experiments.catalogue import EXPERIMENTS, experiment
    from eva.experiments.framework.command import Places, list_runs, run_experiment
    from eva.experiments.framework.definition import OURS

    if asked.name is None and asked.list and not asked.all:
        for each in EXPERIMENTS.values():
            where = each.claims[0].where if each.claims else OURS
            print(f"{each.name:20} {where:13} {each.title}")
        return
    if (asked.name is None) != asked.all:
        raise UserError("give the name of one experiment (see: eva experiment --list), or --all.")
    if asked.jobs is not None and asked.jobs < 1:
        raise UserError(f"--jobs is {asked.jobs}, but must be at least 1.")
    names = [name for name, each in EXPERIMENTS.items() if not each.by_name_only]
    if asked.name is not None:
        names = [asked.name]
    games = "pong" if asked.quick and asked.name == atari.NAME and asked.games is None else asked.games
    places = Places(asked.runs_dir, asked.results_dir, asked.quick)
    for each in [experiment(name, games, asked.frames, asked.seeds) for name in names]:
        if asked.list:
            print(list_runs(each, places))
        else:
            print(run_experiment(each, places, asked.jobs or num_cores()))
