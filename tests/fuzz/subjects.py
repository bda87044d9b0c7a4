"""What is attacked: runs, sweeps and kept results, each with the commands that read it; and how a command is run."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import io
import os
import shutil
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from eva.cli.main import main
from eva.errors import UserError
from eva.experiments.catalogue import EXPERIMENTS
from eva.experiments.framework.definition import Arm, Experiment
from eva.experiments.framework.evidence import Records
from eva.report import plots
from eva.runs.loop import train
from eva.runs.record import provenance
from eva.runs.sweep.executor import LocalExecutor
from eva.runs.sweep.jobs import Job, Outcome
from eva.runs.sweep.manifest import Manifest
from eva.runs.sweep.progress import TrackedRun
from tests.helpers.agents import tiny

STEPS, HALF, PERIOD = 60, 40, 20
CONFIG = tiny(
    steps=STEPS,
    run={"device": "cpu", "metrics_period_transitions": 10, "checkpoint_period_transitions": PERIOD},
    evaluation={"period_transitions": 30, "num_episodes": 1},
)
PROMISED = ("episodes.csv", "metrics.jsonl", "evaluations.jsonl", "policy.safetensors", "memory.safetensors")
"""Files of a run that are the same bytes, however often it was interrupted."""
PAGES = ("inspect.html", "report.html", "README.md", "summary.json")


@dataclass(frozen=True)
class Subject:
    """A folder that is copied for each case, and the commands that read it; `runs` are run directories in it."""

    name: str
    commands: dict[str, Sequence[str]]
    runs: tuple[str, ...] = ("run",)


EXPERIMENT = "fuzz"
TRAIN = ("train", "--config", "../config.json", "--out", "run")
EVALUATE = ("evaluate", "run", "--episodes", "1", "--weights", "0", "0.4")
REPORT = ("report", "run")
SUBJECTS = (
    Subject(
        "finished",
        {
            "evaluate": EVALUATE,
            "inspect": ("inspect", "run", "--max-steps", "5", "--no-open"),
            "report": REPORT,
            "train": TRAIN,
        },
    ),
    Subject("half", {"resume": TRAIN, "restart": (*TRAIN, "--restart")}),
    Subject("sweep", {"sweep --status": ("sweep", "--status", ".")}, ("run", "run-2")),
    Subject("kept", {"experiment": ("experiment", EXPERIMENT, "--runs-dir", "runs", "--results-dir", ".")}, ()),
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
    for module in ("train", "evaluate", "inspect", "report", "sweep", "experiment"):
        importlib.import_module(f"eva.cli.{module}")
    for module in ("eva.inspect.page", "eva.report.pages", "eva.runs.sweep.manifest", "eva.runs.record.tensorboard"):
        importlib.import_module(module)
    provenance._git = lambda *_: None  # type: ignore[assignment]  # three processes for each run
    (root / "config.json").write_text(CONFIG.to_json())
    for name, steps in (("finished/run", STEPS), ("half/run", HALF)):
        train(replace(CONFIG, steps=steps), root / name, io.StringIO())
    for name in ("run", "run-2"):
        shutil.copytree(root / "finished" / "run", root / "sweep" / name)
    runs = tuple(TrackedRun(root / "sweep" / name, STEPS) for name in ("run", "run-2"))
    Manifest("grid", root / "sweep", runs).write()
    job = Job(Path("run"), CONFIG)
    EXPERIMENTS[EXPERIMENT] = Experiment(
        EXPERIMENT, "Fuzz", "Is damage noticed?", lambda: (Arm("maze", "EVA", (job,)),), (), figures=lambda _: {}
    )
    Records(root / "kept", EXPERIMENT).keep(job, root / "finished" / "run")


def lighten() -> None:
    """Leave out what takes long and reads no file: figures, and the training of runs that an experiment lacks."""
    plots.svg = lambda *_, **__: ""  # type: ignore[assignment]
    plots.files = lambda *_, **__: (b"", b"")  # type: ignore[assignment]

    def lacking(_: object, jobs: Sequence[Job], __: object) -> list[Outcome]:
        if jobs:
            raise UserError("a run is missing or damaged: it would be trained again.")
        return []

    LocalExecutor.execute = lacking  # type: ignore[assignment,method-assign]


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


def killed(arguments: Sequence[str], folder: Path, prelude: Callable[[], object], after: float) -> int:
    """Run a command in a forked process that calls `prelude` first, and kill it after some seconds.

    Returns its exit code, or minus the number of the signal that killed it.
    """
    child = os.fork()
    if child == 0:
        prelude()
        result = perform(arguments, folder)
        os._exit(1 if "Traceback" in result.output else result.code)
    end = time.monotonic() + after
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid != 0:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def digests(folder: Path) -> dict[str, str]:
    """Return the digest of every file whose bytes are promised."""
    paths = [path for path in sorted(folder.rglob("*")) if path.name in (*PROMISED, *PAGES)]
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in paths
        if path.is_file() and not path.is_symlink()
    }
