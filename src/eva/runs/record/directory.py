"""The run directory: the records of a run, and the only code that writes them."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import save_file

from eva.agent.agent import EVAAgent
from eva.config import NOT_IDENTITY, Config, find_config
from eva.errors import BusyError, UserError
from eva.files import DRAFT, READING, drafting, locked, refusing_kindly, write_whole
from eva.machine import num_cores
from eva.runs.checkpoint.state import pack
from eva.runs.record.columns import EPISODE_COLUMNS, METRICS, PLAYED
from eva.runs.record.episodes import Episode
from eva.runs.record.status import read_status
from eva.schema import flatten
from eva.types import State

_GROWING = ("episodes.csv", "metrics.jsonl", "timing.jsonl")  # appended to, and cut back on resume
_LEARNED = ("policy.safetensors", "memory.safetensors")


class RunDirectory:
    """A directory that one process at a time records one run in.

    Entering it takes hold of the directory; `begin` or `resume` opens the records.

    Args:
        path: The run directory; it need not exist.
        config: The run. A directory that holds another one is refused.
    """

    def __init__(self, path: Path, config: Config) -> None:
        self.path = path
        self.config = config
        self.seconds = 0.0  # that the run took so far
        self._files: dict[str, IO[str]] = {}
        self._tensorboard: Any = None
        _refuse_foreign(path, config)

    def __enter__(self) -> RunDirectory:
        with refusing_kindly(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        lock = locked(self.path / ".lock")
        if lock is None:
            raise BusyError(f"another process is training in {self.path}: wait for it or choose another directory.")
        self._lock = lock
        with refusing_kindly(self.path):
            for path in self.path.iterdir():
                if DRAFT.fullmatch(path.name):
                    path.unlink()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        told = nullcontext() if error is None else suppress(UserError)  # the first trouble is the one to tell
        with told, refusing_kindly(self.path), ExitStack() as closing:  # all of it, though the disk be full
            closing.callback(self._lock.close)
            for file in self._files.values():
                closing.callback(file.close)
            if self._tensorboard is not None:
                closing.callback(self._tensorboard.close)
            if error is not None and self._files and read_status(self.path).state == "running":
                self._write_status("failed", error=f"{type(error).__name__}: {error}")

    @property
    def finished_step(self) -> int | None:
        """How far the run came that is finished here, or None."""
        status = read_status(self.path)
        return status.step if status.state == "finished" else None

    def begin(self, provenance: Mapping[str, Any]) -> None:
        """Start the records of the run from its first step."""
        write_whole(self.path / "config.json", self.config.to_json().encode())  # first: it makes the directory a run's
        self._write_status("running", 0)
        self._write_json("provenance.json", provenance)
        with refusing_kindly(self.path):
            for path in (*(self.path / name for name in _LEARNED), *self.path.glob(PLAYED.format("*"))):
                path.unlink(missing_ok=True)
            shutil.rmtree(self.path / "tensorboard", ignore_errors=True)
        self._open("w")
        with refusing_kindly(self.path):
            self._files["episodes.csv"].write(EPISODE_COLUMNS + "\n")
            self._files["episodes.csv"].flush()

    def resume(self, state: State, provenance: Mapping[str, Any]) -> None:
        """Cut the records back to a checkpoint, so that each curve is one curve, and note who goes on from there."""
        paths = {self.path / name: state["sizes"][name] for name in _GROWING}
        for path, size in paths.items():  # all of them, before any is cut
            with refusing_kindly(path, ("read", "restore it or start over with --restart")):
                if path.stat().st_size < size:
                    raise UserError(f"{path} has lost its end: restore it or start over with --restart.")
        for path, size in paths.items():
            with refusing_kindly(path):
                os.truncate(path, size)
        origin = self._read_json("provenance.json")
        before = origin.get("continued")
        continued = [*(before if isinstance(before, list) else []), provenance]
        self._write_json("provenance.json", {**origin, "continued": continued})
        self.seconds = state["seconds"]
        self._write_status("running", state["step"])
        write_whole(self.path / "config.json", self.config.to_json().encode())
        self._open("a", state["step"])

    def get_state(self) -> State:
        """Return how far the records have come; they are on the disk when this returns."""
        with refusing_kindly(self.path):
            for file in self._files.values():
                file.flush()
                os.fsync(file.fileno())
            sizes = {name: (self.path / name).stat().st_size for name in _GROWING}
        return {"sizes": sizes, "seconds": self.seconds, "step": read_status(self.path).step}

    def add_episode(self, episode: Episode) -> None:
        """Append a row to episodes.csv."""
        episode_return = round(episode.episode_return, 6) + 0.0  # no -0.0
        row = f"{episode.step},{episode.environment},{episode_return},{episode.episode_length}\n"
        with refusing_kindly(self.path):
            self._files["episodes.csv"].write(row)

    def add_metrics(self, metrics: Mapping[str, float | None], seconds: float, steps_per_second: float) -> None:
        """Append a line to metrics.jsonl, what depends on the clock to timing.jsonl, and both to TensorBoard."""
        if undeclared := set(metrics) - set(METRICS):
            raise ValueError(f"undeclared metrics: {sorted(undeclared)}")
        step = metrics["step"]
        line = {name: _finite_or_none(metrics.get(name)) for name in METRICS}  # JSON has no NaN
        timing = {"step": step, "seconds": round(seconds, 3), "steps_per_second": round(steps_per_second, 1)}
        self.seconds = seconds
        with refusing_kindly(self.path):
            self._files["metrics.jsonl"].write(json.dumps(line) + "\n")
            self._files["timing.jsonl"].write(json.dumps(timing) + "\n")
            for file in self._files.values():
                file.flush()
        self._write_status("running", step)
        if self._tensorboard is not None:
            scalars = {
                name: value for name, value in {**line, **timing}.items() if value is not None and name != "step"
            }
            with refusing_kindly(self.path):
                self._tensorboard.add(scalars, step)

    def keep(self, agent: EVAAgent) -> None:
        """Save what was learned and what is remembered."""
        policy, _ = pack(agent.learner.network.state_dict())
        memory, _ = pack(agent.replay.get_state())
        _save_arrays(self.path / "policy.safetensors", policy)
        _save_arrays(self.path / "memory.safetensors", memory)

    def finish(self, step: int, excess: str | None = None) -> None:
        """Mark the run as finished; `excess` tells what has been beyond all bounds in it."""
        self._write_status("finished", step, **({} if excess is None else {"diverged": excess}))

    def stop(self, step: int) -> None:
        """Mark the run as stopped on request."""
        self._write_status("stopped", step)

    def _open(self, mode: str, step: int = 0) -> None:
        """Open the records for what comes after `step`."""
        with refusing_kindly(self.path):
            self._files = {name: (self.path / name).open(mode) for name in _GROWING}
            self._tensorboard = _tensorboard_writer(self.path / "tensorboard", step)

    def _read_json(self, name: str) -> dict[str, Any]:
        """Return what a file says, or nothing where it is missing or damaged."""
        try:
            content = json.loads((self.path / name).read_text())
        except (OSError, ValueError, RecursionError):
            return {}
        return content if isinstance(content, dict) else {}

    def _write_status(self, state: str, step: float | None = None, **more: str) -> None:
        if step is None:
            step = read_status(self.path).step
        self._write_json("status.json", {"state": state, "step": step, "steps": self.config.steps, **more})

    def _write_json(self, name: str, content: Mapping[str, Any]) -> None:
        write_whole(self.path / name, (json.dumps(content, indent=2) + "\n").encode())


def _save_arrays(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    """Write arrays to a safetensors file; they are not copied."""
    with drafting(path) as draft:
        try:
            save_file(arrays, draft)
            shutil.copymode(path.with_name("status.json"), draft)  # it lets nobody but the owner read
        except SafetensorError as error:  # it quotes what the system said
            code = re.search(r"os error (\d+)", str(error))
            if code is None:
                raise
            raise OSError(int(code[1]), os.strerror(int(code[1]))) from error


def _finite_or_none(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def default_directory(config: Config, base: Config) -> Path:
    """Return runs/NAME[-HASH]/weight-W/seed-S; HASH tells fields that differ from those of `base`, the preset."""
    name = config.name if config.variant == base.variant else f"{config.name}-{config.variant_hash()}"
    path = Path("runs") / name / f"weight-{config.eva.nonparametric_weight:g}" / f"seed-{config.seed}"
    if config.run.threads == 0:
        return path
    uncounted = default_directory(replace(config, run=replace(config.run, threads=0)), base)
    kept = find_config(uncounted)
    # This very run may have begun there, where all cores were asked for.
    return uncounted if kept is not None and kept.identity == config.identity else path


def with_threads(config: Config, path: Path) -> Config:
    """Return `config` with a number of threads: that of the run in `path`, which goes on, or else all cores."""
    if config.run.threads > 0:
        return config
    kept = find_config(path)  # None: no run there, or one that will be refused
    threads = 0 if kept is None else kept.run.threads
    return replace(config, run=replace(config.run, threads=threads or num_cores()))


def _refuse_foreign(path: Path, config: Config) -> None:
    """Refuse a path that is in use for anything but this run."""
    with refusing_kindly(path, READING):
        if path.exists() and not path.is_dir():
            raise UserError(f"{path} is a file: choose a directory.")
    with refusing_kindly(path, READING):
        names = [entry.name for entry in path.iterdir()] if path.exists() else []
        if all(name == ".lock" or DRAFT.fullmatch(name) for name in names):
            return
        if not (path / "config.json").exists():
            raise UserError(f"{path} is not empty and holds no run: choose another directory.")
        text = (path / "config.json").read_text(errors="replace")
    try:
        there, here = dict(flatten(Config.from_json(text))), dict(flatten(config))
    except UserError as error:
        reason = str(error).rstrip(".")
        raise UserError(
            f"cannot read {path / 'config.json'} ({reason}): restore it or choose another directory."
        ) from None
    differing = [name for name in here if here[name] != there[name] and name not in NOT_IDENTITY]
    if differing:
        name = differing[0]
        raise UserError(
            f"{path} holds another run ({name} is {there[name]} there, {here[name]} here): choose another directory."
        )


def _tensorboard_writer(path: Path, step: int) -> Any:
    """Return a TensorBoard writer for what comes after `step`, or None where the extra `tb` is not installed."""
    try:
        from eva.runs.record.tensorboard import ScalarWriter
    except ImportError:
        return None
    return ScalarWriter(path, step + 1 if step else 0)
