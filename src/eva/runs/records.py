"""The run directory: what a run leaves on disk, and the only code that writes it."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from safetensors.torch import save

from eva.agent.eva import EVAAgent
from eva.config import Config
from eva.errors import UserError
from eva.files import refusing_kindly, write_whole
from eva.runs.names import EPISODE_COLUMNS, METRICS
from eva.schema import flatten


@dataclass(frozen=True)
class Episode:
    """A finished episode: a row of episodes.csv."""

    step: int
    environment: int
    episode_return: float
    episode_length: int


class RunDirectory:
    """A directory that one process at a time records one run in.

    Args:
        path: The run directory; it need not exist.
        config: The run. A directory that holds another one is refused.
    """

    def __init__(self, path: Path, config: Config) -> None:
        self.path = path
        self.config = config
        self._files: list[IO[str]] = []
        self._tensorboard: Any = None
        _refuse_foreign(path, config)

    @property
    def finished_step(self) -> int | None:
        """How far the run came that is finished here, or None."""
        try:
            status = json.loads((self.path / "status.json").read_text())
            return int(status["step"]) if status["state"] == "finished" else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def begin(self, provenance: Mapping[str, Any]) -> None:
        """Take hold of the directory and start the records of the run from its first step."""
        with refusing_kindly(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            lock = (self.path / ".lock").open("w")
        self._files.append(lock)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the system drops it when the process dies
        except OSError:
            sentence = f"another process is training in {self.path}: wait for it or choose another --out."
            raise UserError(sentence) from None
        self._write_json("status.json", {"state": "running", "step": 0, "steps": self.config.steps})
        write_whole(self.path / "config.json", self.config.to_json().encode())
        self._write_json("provenance.json", provenance)
        with refusing_kindly(self.path):
            self._episodes, self._metrics, self._timing = (
                (self.path / name).open("w") for name in ("episodes.csv", "metrics.jsonl", "timing.jsonl")
            )
        self._files += [self._episodes, self._metrics, self._timing]
        self._episodes.write(EPISODE_COLUMNS + "\n")
        self._tensorboard = _tensorboard_writer(self.path / "tensorboard")

    def add_episode(self, episode: Episode) -> None:
        """Append a row to episodes.csv."""
        episode_return = round(episode.episode_return, 6) + 0.0  # no -0.0
        self._episodes.write(f"{episode.step},{episode.environment},{episode_return},{episode.episode_length}\n")

    def add_metrics(self, metrics: Mapping[str, float | None], seconds: float, steps_per_second: float) -> None:
        """Append a line to metrics.jsonl, what depends on the clock to timing.jsonl, and both to TensorBoard."""
        if undeclared := set(metrics) - set(METRICS):
            raise ValueError(f"undeclared metrics: {sorted(undeclared)}")
        step = metrics["step"]
        line = {name: metrics.get(name) for name in METRICS}
        timing = {"step": step, "seconds": round(seconds, 3), "steps_per_second": round(steps_per_second, 1)}
        with refusing_kindly(self.path):
            self._metrics.write(json.dumps(line) + "\n")
            self._timing.write(json.dumps(timing) + "\n")
            for file in self._files:
                file.flush()
        self._write_json("status.json", {"state": "running", "step": step, "steps": self.config.steps})
        if self._tensorboard is not None:
            scalars = {**line, "steps_per_second": steps_per_second}
            for name, value in scalars.items():
                if value is not None and name != "step":
                    self._tensorboard.add_scalar(name, value, step)

    def finish(self, agent: EVAAgent) -> None:
        """Save what was learned and what is remembered, and mark the run as finished."""
        policy = {name: value.cpu().contiguous() for name, value in agent.learner.network.state_dict().items()}
        write_whole(self.path / "policy.safetensors", save(policy))
        write_whole(self.path / "memory.safetensors", save(agent.replay.tensors()))
        status = {"state": "finished", "step": agent.transitions, "steps": self.config.steps}
        self._write_json("status.json", status)

    def fail(self, step: int, reason: str) -> None:
        """Mark the run as failed, and say why."""
        status = {"state": "failed", "step": step, "steps": self.config.steps, "error": reason}
        self._write_json("status.json", status)

    def close(self) -> None:
        """Close all files and let go of the directory."""
        with refusing_kindly(self.path):
            for file in self._files:
                file.close()
            if self._tensorboard is not None:
                self._tensorboard.close()

    def _write_json(self, name: str, content: Mapping[str, Any]) -> None:
        write_whole(self.path / name, (json.dumps(content, indent=2) + "\n").encode())


def default_directory(config: Config, base: Config) -> Path:
    """Return runs/NAME[-HASH]/weight-W/seed-S; HASH tells fields that differ from those of `base`, the preset."""
    name = config.name if config.variant == base.variant else f"{config.name}-{config.variant_hash()}"
    return Path("runs") / name / f"weight-{config.eva.nonparametric_weight:g}" / f"seed-{config.seed}"


def _refuse_foreign(path: Path, config: Config) -> None:
    """Refuse a path that is in use for anything but this run."""
    if path.exists() and not path.is_dir():
        raise UserError(f"{path} is a file: choose a directory for --out.")
    with refusing_kindly(path):
        if not path.exists() or not any(entry.name != ".lock" for entry in path.iterdir()):
            return
        if not (path / "config.json").exists():
            raise UserError(f"{path} is not empty and holds no run: choose another --out.")
        text = (path / "config.json").read_text()
    there = dict(flatten(Config.from_json(text)))
    here = dict(flatten(config))
    differing = [name for name in here if here[name] != there[name] and name not in ("steps", "run.device")]
    if differing:
        name = differing[0]
        raise UserError(
            f"{path} holds another run ({name} is {there[name]} there, {here[name]} here): choose another --out."
        )


def _tensorboard_writer(path: Path) -> Any:
    """Return a TensorBoard writer, or None where the extra `tb` is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(path))
