"""What is attacked: runs, sweeps and kept results, each with the commands that read it; and how a command is run."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import io
import os
import shutil
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from eva.cli import parsing
from eva.cli import train as train_command
from eva.cli.main import main
from eva.config import Config
from eva.errors import UserError
from eva.experiments.catalogue import EXPERIMENTS
from eva.experiments.framework.definition import Arm, Experiment
from eva.experiments.framework.evidence import Records
from eva.presets import preset
from eva.report import plots
from eva.runs import accuracy
from eva.runs.loop import train
from eva.runs.record import provenance
from eva.runs.sweep.executor import LocalExecutor
from eva.runs.sweep.grid import read_grid
from eva.runs.sweep.jobs import Job, Outcome
from eva.runs.sweep.manifest import Manifest
from eva.runs.sweep.progress import TrackedRun
from tests.helpers.agents import changed, tiny

STEPS, HALF, MORE, PERIOD = 60, 40, 80, 20
RUN = {"device": "cpu", "threads": 1, "metrics_period_transitions": 10, "checkpoint_period_transitions": PERIOD}
EVALUATION = {"period_transitions": 30, "num_episodes": 1}
SMALL = {
    "network": {"channels": (4,), "filter_sizes": (3,), "strides": (2,), "embedding_size": 8},
    "replay": {"replay_capacity": 48},
    "learner": {"batch_size": 8, "target_period_updates": 7, "learning_starts_transitions": 16},
    "eva": {"num_trajectories": 4, "trajectory_length": 6, "plan_period_steps": 5, "value_buffer_capacity": 48},
    "run": RUN,
    "evaluation": EVALUATION,
    "steps": STEPS,
}
WORLDS: dict[str, Config] = {
    "maze": tiny(
        steps=STEPS,
        maze={"layout": "....\n.#..\n....\n", "max_episode_steps": 17},
        run=RUN,
        evaluation={**EVALUATION, "accuracy": True},
    ),
    "atari": changed(
        preset("atari"),
        **{
            **SMALL,
            "environment": {"num_environments": 2},
            "atari": {"max_episode_frames": 60},
            "network": {**SMALL["network"], "filter_sizes": (8,), "strides": (8,)},  # type: ignore[dict-item]
        },
    ),
    "minatar": changed(preset("minatar"), **SMALL, minatar={"max_episode_steps": 20}),
}
"""Runs of seconds; those on Atari have two lanes of compressed frames that are stacked."""
PROMISED = ("config.json", "episodes.csv", "metrics.jsonl", "evaluations.jsonl", "accuracy.jsonl")
LEARNED = ("policy.safetensors", "memory.safetensors")
"""Files of a run that are the same bytes, however often it was interrupted."""
PAGES = ("inspect.html", "report.html", "README.md", "summary.json", "export.csv")


@dataclass(frozen=True)
class Subject:
    """A folder that is copied for each case, the commands that read it, and its share of the cases."""

    name: str
    share: float
    commands: dict[str, Sequence[str]]
    writes: tuple[str, ...] = ()  # the commands that write more than a page: these are killed
    is_started: bool = False  # whether its run is unfinished


EXPERIMENT = "fuzz"
GRID = """
preset = "smoke"
seeds = 2
out = "."

[settings]
steps = 60
run.device = "cpu"
run.metrics_period_transitions = 10
"""
EVALUATE = ("evaluate", "run", "--episodes", "1", "--weights", "0", "0.4")
REPORT = ("report", "run")
FOLDERS = ("--runs-dir", "runs", "--results-dir", ".")


def _training(world: str, *flags: str) -> tuple[str, ...]:
    return ("train", "--config", f"../{world}.json", "--out", "run", *flags)


def _subjects(world: str, share: float) -> list[Subject]:
    inspect = ("inspect", "run", "--max-steps", "5", "--no-open")
    reading = {
        "evaluate": EVALUATE,
        "inspect": inspect,
        "report": REPORT,
        "runs": ("runs", "run"),
        "export": ("export", "run", "--out", "export.csv"),
        "card": ("card", "run", "--out", "card", "--episodes", "1", "--no-video"),
        "train": _training(world),
    }
    extending = _training(world, "--steps", str(MORE))
    writing = {"resume": _training(world), "restart": _training(world, "--restart")}
    half = {**writing, "evaluate": EVALUATE}
    return [
        Subject(world, share, {**reading, "extend": extending}, ("extend",)),
        Subject(f"{world}-half", share / 2, half, tuple(writing), is_started=True),
    ]


SUBJECTS = (
    *_subjects("maze", 4),
    *_subjects("atari", 0.5),
    *_subjects("minatar", 1.5),
    Subject(
        "sweep",
        1,
        {
            "sweep --status": ("sweep", "--status", "."),
            "sweep --plan": ("sweep", "../grid.toml", "--plan"),
            "sweep": ("sweep", "../grid.toml"),
        },
    ),
    Subject(
        "kept",
        2,
        {
            "experiment": ("experiment", EXPERIMENT, *FOLDERS),
            "experiment --list": ("experiment", EXPERIMENT, *FOLDERS, "--list"),
            "report": ("report", "fuzz/runs/run"),
        },
        ("experiment",),
    ),
)


@dataclass(frozen=True)
class Result:
    """What a command did: exit code, output, and the bytes that it must produce."""

    code: int
    output: str
    digests: dict[str, str]


def prepare(root: Path) -> None:
    """Make all subjects below `root`, and load everything that a command needs."""
    lighten()
    for module in ("train", "evaluate", "inspect", "report", "sweep", "experiment", "runs", "export", "card"):
        importlib.import_module(f"eva.cli.{module}")
    for module in ("inspect.page", "report.pages", "runs.sweep.manifest", "runs.sweep.cost"):
        importlib.import_module(f"eva.{module}")
    provenance._git = lambda *_: None  # type: ignore[assignment]  # three processes for each run
    for world, config in WORLDS.items():
        (root / f"{world}.json").write_text(config.to_json())
        half = root / f"{world}-half" / "run"
        train(replace(config, steps=HALF), half, io.StringIO())
        train(config, root / world / "run", io.StringIO())
        shutil.copytree(half / "checkpoints" / f"step-{HALF:012}", half / "checkpoints" / f"diverged-step-{HALF:012}")
    (root / "grid.toml").write_text(GRID)
    sweep, jobs = root / "sweep", read_grid(root / "grid.toml").jobs
    for each in jobs:
        train(each.config, sweep / each.directory, io.StringIO())
    Manifest("grid", sweep, tuple(TrackedRun(sweep / job.directory, job.config.steps) for job in jobs)).write()
    job = Job(Path("run"), WORLDS["maze"])
    EXPERIMENTS[EXPERIMENT] = Experiment(
        EXPERIMENT, "Fuzz", "Is damage noticed?", lambda: (Arm("maze", "EVA", (job,)),), (), figures=lambda _: {}
    )
    Records(root / "kept", EXPERIMENT).keep(job, root / "maze" / "run")


def lighten() -> None:
    """Leave out what takes long and reads no file: figures, most states of comparisons, training of missing runs.

    The same arguments of `eva train` are parsed once.
    """
    plots.svg = lambda *_, **__: ""  # type: ignore[assignment]
    accuracy.WARM_UP_STEPS, accuracy.MEASURED_STEPS = 8, 2
    plots.files = lambda *_, **__: (b"", b"")  # type: ignore[assignment]

    def lacking(_: object, jobs: Sequence[Job], __: object) -> list[Outcome]:
        if jobs:
            raise UserError("a run is missing or damaged: it would be trained again.")
        return []

    LocalExecutor.execute = lacking  # type: ignore[assignment,method-assign]
    parse = functools.cache(lambda kind, words, default: parsing.parse(kind, list(words), default))
    train_command.parse = lambda kind, words, default=None: parse(kind, tuple(words), default)  # type: ignore[attr-defined]


def perform(arguments: Sequence[str], folder: Path) -> Result:
    """Run a command in `folder`, in this process, which takes a tenth of the time of a new one."""
    output, here = io.StringIO(), Path.cwd()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            code = main(arguments)
    except BaseException:
        code = 1
        output.write(traceback.format_exc())
    finally:
        os.chdir(here)
    return Result(code, output.getvalue(), digests(folder))


def digests(folder: Path) -> dict[str, str]:
    """Return the digest of every file whose bytes are promised."""
    paths = [path for path in sorted(folder.rglob("*")) if path.name in (*PROMISED, *LEARNED, *PAGES)]
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in paths
        if path.is_file() and not path.is_symlink()
    }
