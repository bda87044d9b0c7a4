"""The run directory: all files of a run except its checkpoints."""

import hashlib
import json
import math
import os
from collections.abc import Mapping
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from safetensors import numpy as safetensors

from eva.agent.agent import EVAAgent
from eva.config import NOT_IDENTITY, Config, find_config
from eva.digests import MANIFEST, FileEntry, parse_names, parse_size, sealed, write_manifest
from eva.errors import BusyError, UserError
from eva.files import DRAFT, READING, Folder, as_user_errors, read_file
from eva.runs.checkpoint.state import pack
from eva.runs.record.columns import ACCURACY, EPISODE_COLUMNS, EVALUATIONS, METRICS, MORE_METRICS, evaluation_records
from eva.runs.record.episodes import Episode
from eva.runs.record.memory import write_memory
from eva.runs.record.status import read_status
from eva.schema import flatten
from eva.types import State

_GROWING = ("episodes.csv", "metrics.jsonl", "timing.jsonl")  # appended to; truncated on resume
TRACKED = ("tensorboard", "tracking")  # folders of trackers
_LEARNED = ("policy.safetensors", "memory.safetensors")
_MOST_SECONDS = 1e12  # that a run can have lasted
_REMEDY = ("read", "restore it or start over with --restart")


class RunDirectory:
    """The directory of one run; raises UserError if it holds another run than that of the resolved `config`.

    Entering it creates the directory and locks it for this process; `begin` or `resume` opens the files.
    """

    def __init__(self, path: Path, config: Config) -> None:
        self.path = path
        self.config = config
        self.seconds = 0.0  # training time so far
        self._files: dict[str, IO[str]] = {}
        self._growing = (*_GROWING, *evaluation_records(config.evaluation))
        _check_free(path, config)

    def __enter__(self) -> "RunDirectory":
        with as_user_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            self._folder = Folder(self.path)
            try:
                if (lock := self._folder.lock(".lock")) is None:
                    wait = "wait for it or choose another directory"
                    raise BusyError(f"another process is training in {self.path}: {wait}.")
                self._lock = lock
                for name in filter(DRAFT.fullmatch, self._folder.names()):
                    self._folder.remove(name)
            except BaseException:
                self._folder.close()
                raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        quietly = nullcontext() if error is None else suppress(UserError)  # report the first error only
        with quietly, as_user_errors(self.path), ExitStack() as closing:  # close every file even if a write fails
            closing.callback(self._folder.close)
            closing.callback(self._lock.close)
            for file in self._files.values():
                closing.callback(file.close)
            if error is not None and self._files and read_status(self.path).state == "running":
                self._write_status("failed", error=f"{type(error).__name__}: {error}")

    @property
    def finished_step(self) -> int | None:
        """Number of transitions of the finished run, or None if it is not finished."""
        status = read_status(self.path)
        return status.step if status.state == "finished" else None

    def begin(self, provenance: Mapping[str, Any]) -> None:
        """Write the first files of a new run and remove those of an earlier one."""
        self._write_config()  # first: it marks the directory as this run's
        self.reopen()
        self._write_json("provenance.json", provenance)
        with as_user_errors(self.path):
            for name in (*_LEARNED, *_GROWING, EVALUATIONS, ACCURACY, *TRACKED):
                self._folder.remove(name)
        self._open("w")
        with as_user_errors(self.path):
            self._files["episodes.csv"].write(EPISODE_COLUMNS + "\n")
            self._files["episodes.csv"].flush()

    def reopen(self, step: int = 0) -> None:
        """Mark the run as running again: from now on its files change, and the manifest of the finished run is void."""
        self._write_status("running", step)
        with as_user_errors(self.path):
            self._folder.remove(MANIFEST)

    def resume(self, state: State, provenance: Mapping[str, Any]) -> None:
        """Truncate the records to the size they had at a checkpoint, and add to provenance.json what resumed it."""
        sizes = state["sizes"]
        for name, size in sizes.items():  # check all before truncating any
            path = self.path / name
            with as_user_errors(path, _REMEDY), self._folder.open(name, "rb+") as file:
                content = file.read(min(size, os.fstat(file.fileno()).st_size))
            digest = state.get("sha256", {}).get(name)  # checkpoints of older versions have none
            if len(content) < size:
                raise UserError(f"{path} has lost its end: restore it or start over with --restart.")
            if digest is not None and hashlib.sha256(content).hexdigest() != digest:
                raise UserError(f"{path} has changed since the checkpoint: restore it or start over with --restart.")
        self.reopen(state["step"])
        for name, size in sizes.items():
            with as_user_errors(self.path / name), self._folder.open(name, "rb+") as file:
                file.truncate(size)
        origin = self._read_json("provenance.json")
        before = origin.get("continued")
        continued = [*(before if isinstance(before, list) else []), provenance]
        self._write_json("provenance.json", {**origin, "continued": continued})
        self.seconds = state["seconds"]
        self._write_config()
        self._open("a")

    def get_state(self) -> State:
        """Sync the records to disk and return their sizes and checksums."""
        with as_user_errors(self.path):
            for file in self._files.values():
                file.flush()
                os.fsync(file.fileno())
            entries = {}
            for name in self._files:
                with self._folder.open(name) as file:
                    entries[name] = FileEntry.of(file)
        return {
            "sizes": {name: entry.bytes for name, entry in entries.items()},
            "sha256": {name: entry.sha256 for name, entry in entries.items()},
            "seconds": self.seconds,
            "step": read_status(self.path).step,
        }

    def add_episode(self, episode: Episode) -> None:
        """Append a row to episodes.csv."""
        episode_return = round(episode.episode_return, 6) + 0.0  # no -0.0
        row = f"{episode.step},{episode.environment},{episode_return},{episode.episode_length}\n"
        with as_user_errors(self.path):
            self._files["episodes.csv"].write(row)

    def add_metrics(self, metrics: Mapping[str, float | None], seconds: float, steps_per_second: float) -> None:
        """Append a line to metrics.jsonl, and one with the times to timing.jsonl."""
        if undeclared := set(metrics) - set(METRICS) - set(MORE_METRICS):
            raise ValueError(f"undeclared metrics: {sorted(undeclared)}")
        step = metrics["step"]
        finite = {name: value for name, value in metrics.items() if value is not None and math.isfinite(value)}
        names = [*METRICS, *(name for name in MORE_METRICS if name in metrics)]
        line = {name: finite.get(name) for name in names}  # JSON has no NaN
        timing = {"step": step, "seconds": round(seconds, 3), "steps_per_second": round(steps_per_second, 1)}
        self.seconds = seconds
        with as_user_errors(self.path):
            self._files["metrics.jsonl"].write(json.dumps(line) + "\n")
            self._files["timing.jsonl"].write(json.dumps(timing) + "\n")
            for file in self._files.values():
                file.flush()
        self._write_status("running", step)

    def add_line(self, name: str, line: Mapping[str, Any]) -> None:
        """Append a line to evaluations.jsonl or accuracy.jsonl."""
        with as_user_errors(self.path):
            self._files[name].write(json.dumps(line) + "\n")

    def save_agent(self, agent: EVAAgent) -> None:
        """Save network and replay memory."""
        policy, _ = pack(agent.learner.network.state_dict())
        self._write("policy.safetensors", safetensors.save(policy))
        with as_user_errors(self.path / "memory.safetensors"):
            write_memory(self._folder, "memory.safetensors", agent.replay.state_dict())

    def finish(self, step: int, largest_abs_q: float | None = None, divergence_message: str | None = None) -> None:
        """Mark the run as finished; `divergence_message` is None unless |Q| exceeded the range that rewards allow."""
        with as_user_errors(self.path):
            for file in self._files.values():
                file.flush()
            write_manifest(self._folder, ("config.json", "provenance.json", *self._growing, *_LEARNED))
        more = {"largest_abs_q": largest_abs_q, "diverged": divergence_message}
        self._write_status("finished", step, **{name: value for name, value in more.items() if value is not None})

    def stop(self, step: int, reason: str | None = None) -> None:
        """Mark the run as stopped on request."""
        self._write_status("stopped", step, **({} if reason is None else {"reason": reason}))

    def _open(self, mode: str) -> None:
        """Open the records."""
        with as_user_errors(self.path):
            for name in self._growing:
                self._files[name] = self._folder.open(name, mode)

    def _read_json(self, name: str) -> dict[str, Any]:
        """Return the content of a file, or {} if it is missing or damaged."""
        try:
            content = json.loads(self._folder.read(name))
        except (OSError, ValueError, RecursionError):
            return {}
        return content if isinstance(content, dict) else {}

    def _write_config(self) -> None:
        self._write("config.json", self.config.to_json().encode())

    def _write_status(self, state: str, step: float | None = None, **more: str | float) -> None:
        if step is None:
            step = read_status(self.path).step
        content = json.dumps({"state": state, "step": step, "steps": self.config.steps, **more})
        self._write("status.json", sealed(content.encode()))

    def _write_json(self, name: str, content: Mapping[str, Any]) -> None:
        self._write(name, (json.dumps(content, indent=2) + "\n").encode())

    def _write(self, name: str, content: bytes) -> None:
        with as_user_errors(self.path / name):
            self._folder.write_whole(name, content)


def checked_records(state: State) -> State:
    """Return what `RunDirectory.get_state` returned; raises ValueError, KeyError or TypeError for anything else."""
    if not state["sizes"].keys() <= {*_GROWING, EVALUATIONS, ACCURACY} or not 0 <= state["seconds"] < _MOST_SECONDS:
        raise ValueError("these are no records")
    parse_names(state.get("sha256", {}))
    for size in (*state["sizes"].values(), state["step"]):
        parse_size(size)
    return state


def default_directory(config: Config, preset: Config) -> Path:
    """Return runs/NAME[-HASH]/weight-W/seed-S; HASH, of all settings, if they differ from those of `preset`."""
    path = _directory_name(config, preset)
    # A run that was started with threads = 0 (all cores) has the directory of threads = 0, but its config.json holds
    # the number of cores: with that number, the same run continues there.
    path_of_all_cores = _directory_name(replace(config, run=replace(config.run, threads=0)), preset)
    started = find_config(path_of_all_cores)
    return path_of_all_cores if started is not None and started.identity == config.identity else path


def _directory_name(config: Config, preset: Config) -> Path:
    name = config.name if config.settings == preset.settings else f"{config.name}-{config.settings_hash()}"
    return Path("runs") / name / f"weight-{config.eva.nonparametric_weight:g}" / f"seed-{config.seed}"


def _check_free(path: Path, config: Config) -> None:
    """Raise UserError if `path` is used for anything but this run."""
    with as_user_errors(path, READING):
        if path.exists() and not path.is_dir():
            raise UserError(f"{path} is a file: choose a directory.")
        names = [entry.name for entry in path.iterdir()] if path.exists() else []
        if all(name == ".lock" or DRAFT.fullmatch(name) for name in names):
            return
        if not (path / "config.json").exists():
            raise UserError(f"{path} is not empty and holds no run: choose another directory.")
        text = read_file(path / "config.json").decode(errors="replace")
    try:
        there, here = dict(flatten(Config.from_json(text))), dict(flatten(config))
    except UserError as error:
        reason = str(error).rstrip(".")
        raise UserError(
            f"cannot read {path / 'config.json'} ({reason}): restore it or choose another directory."
        ) from None
    for name in here:
        if here[name] != there[name] and not name.startswith(NOT_IDENTITY):
            differing = f"{name} is {there[name]} there, {here[name]} here"
            raise UserError(f"{path} holds another run ({differing}): choose another directory.")
