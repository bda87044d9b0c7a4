"""Turn the events of a run into points, named as in CleanRL and as in metrics.jsonl, and pass them to a tool."""

import importlib
import json
import math
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from eva.config import Config
from eva.errors import UserError, described
from eva.files import Folder, as_user_errors
from eva.runs.callbacks import Callback, EndRecord, MetricsRecord, Run
from eva.runs.record.episodes import Episode, Evaluation

_CLEANRL = {"epsilon": "charts/epsilon", "loss": "losses/td_loss", "value": "losses/q_values"}
_EXTRAS = {"tensorboard": "tb", "wandb": "wandb", "trackio": "trackio"}
TRACKING = "tracking"
"""Folder of a run directory for what W&B and trackio need."""


class Writer(Protocol):
    """A tool that stores points. Each of the tools is a module of this package with `open_writer(run)`."""

    def add(self, scalars: Mapping[str, float], step: int) -> None:
        """Store the scalars of a point."""

    def close(self, step: int, *, failed: bool) -> None:
        """End this part of the run, of which all points up to `step` have been added."""


class Tracker(Callback):
    """Send episodes, metrics and evaluations of a run to one tool; the x axis is `global_step`."""

    def __init__(self, tool: str) -> None:
        self._tool = tool

    def start(self, run: Run) -> None:
        """Open the tool."""
        with self._errors():
            self._writer: Writer = importlib.import_module(f"eva.runs.track.{self._tool}").open_writer(run)

    def episode(self, run: Run, episode: Episode) -> None:
        """Send return and length."""
        names = ("charts/episodic_return", "charts/episodic_length")
        self._add(run, dict(zip(names, (episode.episode_return, float(episode.episode_length)), strict=True)))

    def metrics(self, run: Run, metrics: MetricsRecord) -> None:
        """Send all numbers of metrics.jsonl and timing.jsonl, some of them under two names."""
        ours = {**metrics.values, "seconds": metrics.seconds, "steps_per_second": metrics.steps_per_second}
        theirs = {name: ours.get(mine) for mine, name in _CLEANRL.items()}
        del ours["step"]
        self._add(run, {**ours, **theirs, "charts/SPS": metrics.steps_per_second})

    def evaluation(self, run: Run, evaluation: Evaluation) -> None:
        """Send the means of an evaluation."""
        group = f"evaluation/weight-{evaluation.nonparametric_weight:g}/epsilon-{evaluation.epsilon:g}"
        means = {
            "mean_return": float(evaluation.episode_returns.mean()),
            "mean_length": float(evaluation.episode_lengths.mean()),
            "changed_share": evaluation.changed_share,
        }
        self._add(run, {f"{group}/{name}": value for name, value in means.items()})

    def end(self, run: Run, end: EndRecord) -> None:
        """Close the tool."""
        failed = end.state == "failed"
        with self._errors():
            self._writer.close(run.step - failed, failed=failed)  # the step in which the run failed may lack points

    def _add(self, run: Run, scalars: Mapping[str, float | None]) -> None:
        finite = {name: value for name, value in scalars.items() if value is not None and math.isfinite(value)}
        with self._errors():
            self._writer.add(finite, run.step)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn exceptions of the tool into a `UserError`."""
        try:
            yield
        except UserError:
            raise
        except Exception as error:
            raise UserError(
                f"tracking with {self._tool} failed ({described(error)}): fix it, or go on without it (--track)."
            ) from error


class Tracked:
    """What a tool that only appends knows of a run, in tracking/TOOL.json: its id, and the step of its last point.

    That is the last step before the tool was last closed. A resumed run does not send these points again, but those
    that a killed part has sent later: the tool may not have written them.
    """

    def __init__(self, run: Run, tool: str) -> None:
        self.folder = run.path / TRACKING
        self._name = f"{tool}.json"
        self.id = secrets.token_hex(4)
        self.step = -1
        with as_user_errors(run.path), Folder(run.path) as outer, outer.folder(TRACKING, create=True) as folder:
            if run.step > 0 and folder.has(self._name):
                self._load(folder.read(self._name))
        self.save(self.step)

    def _load(self, content: bytes) -> None:
        try:
            known = json.loads(content)
            self.id, self.step = str(known["id"]), int(known["step"])
        except (ValueError, LookupError, TypeError, RecursionError):
            path = self.folder / self._name
            raise UserError(f"cannot read {path}: restore it, or delete it and the tool gets a second run.") from None

    def save(self, step: int) -> None:
        """Note that the tool has all points up to `step`."""
        self.step = max(step, self.step)
        content = json.dumps({"id": self.id, "step": self.step}) + "\n"
        with as_user_errors(self.folder), Folder(self.folder) as folder:
            folder.write_whole(self._name, content.encode())


def run_name(config: Config) -> str:
    """Return the name of a run in a tool."""
    return f"{config.name}-weight-{config.eva.nonparametric_weight:g}-seed-{config.seed}"


def trackers(tools: Sequence[str]) -> list[Tracker]:
    """Return a tracker for each tool; raises UserError if the package of one is missing."""
    for tool in tools:
        try:
            importlib.import_module(f"eva.runs.track.{tool}")
        except ImportError as error:  # noqa: PERF203
            raise UserError(
                f"tracking with {tool} needs a package that is missing ({error}): "
                f'run pip install "ephemeral-value-adjustments[{_EXTRAS[tool]}]".'
            ) from None
    return [Tracker(tool) for tool in dict.fromkeys(tools)]
