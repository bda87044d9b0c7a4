"""What is attacked: runs, sweeps and kept results, each with the commands that read it; and how a command is run."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import io
import os
import shutil
import signal
import sys
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
SECONDS = 300.0  # a command that takes longer hangs; the machine may be busy with other work


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
    """What a command did: exit code (negative: killed by that signal), output, and the bytes that it must produce."""

    code: int
    output: str
    digests: dict[str, str]


def prepare(root: Path) -> None:
    """Make all subjects below `root`, and everything that a forked command needs in memory."""
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


def _light() -> None:
    """Leave out what takes long and reads no file: figures, and the training of runs that an experiment lacks."""
    plots.svg = lambda *_, **__: ""  # type: ignore[assignment]
    plots.files = lambda *_, **__: (b"", b"")  # type: ignore[assignment]

    def lacking(_: object, jobs: Sequence[Job], __: object) -> list[Outcome]:
        if jobs:
            raise UserError("a run is missing or damaged: it would be trained again.")
        return []

    LocalExecutor.execute = lacking  # type: ignore[assignment,method-assign]


def perform(arguments: Sequence[str], folder: Path, prelude: Callable[[], object], kill_after: float = 0.0) -> Result:
    """Run a command in `folder`, in a forked process that calls `prelude` first; kill it after some seconds if given.

    Returns its result; code -SIGALRM means that it did not end.
    """
    output = folder.parent / "output.txt"
    child = os.fork()
    if child == 0:
        os._exit(_command(arguments, folder, output, prelude))
    start = time.monotonic()
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid != 0:
            break
        elapsed = time.monotonic() - start
        if elapsed > SECONDS or (kill_after and elapsed > kill_after):
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            if elapsed > SECONDS:
                return Result(-signal.SIGALRM, "", {})
            break
        time.sleep(0.002)
    return Result(os.waitstatus_to_exitcode(status), output.read_text(errors="replace"), digests(folder))


def _command(arguments: Sequence[str], folder: Path, output: Path, prelude: Callable[[], object]) -> int:
    """Run a command as a process of its own would; returns its exit code."""
    try:
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for number in (1, 2):
            os.dup2(descriptor, number)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", errors="replace") for number in (1, 2))
        os.chdir(folder)
        _light()
        prelude()
        return main(arguments)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()


def digests(folder: Path) -> dict[str, str]:
    """Return the digest of every file whose bytes are promised."""
    paths = [path for path in sorted(folder.rglob("*")) if path.name in (*PROMISED, *PAGES)]
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in paths
        if path.is_file() and not path.is_symlink()
    }
