"""What all runs share: check the directory, call callbacks, record and show progress until the end or a signal."""

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from eva.agent.tensors import name_of
from eva.config import Config, find_config
from eva.errors import UserError, printable
from eva.games import human_normalised_score, minatar_game, minatar_normalised_score
from eva.ids import ATARI_ID, MINATAR_PREFIX
from eva.machine import num_cores
from eva.runs.callbacks import Callback, Callbacks, EndRecord, MetricsRecord, Run, StepRecord
from eva.runs.record.columns import ACCURACY, EVALUATIONS
from eva.runs.record.directory import RunDirectory
from eva.runs.record.episodes import Episode, EpisodeTracker, Evaluation
from eva.runs.record.formatting import duration
from eva.runs.record.provenance import provenance
from eva.runs.record.safe_stream import unfailing
from eva.runs.record.status import read_status
from eva.runs.stopping import StoppedError, StopRequest
from eva.runs.track.tracker import trackers
from eva.types import StepOutcome

_SECONDS_BETWEEN_LINES = 10.0


def open_run(
    config: Config, path: Path | str, stream: TextIO | None, *, restart: bool = False
) -> tuple[RunDirectory, TextIO, bool]:
    """Check that `path` can hold the run of a complete `config`. Nothing is written yet.

    Returns the run directory with the configuration, the stream for progress messages, and whether there is
    anything to train. If not, a message has been printed.
    """
    path, stream = Path(path), unfailing(stream or sys.stderr)
    directory = RunDirectory(path, _with_threads(config, path))
    finished = None if restart else directory.finished_step
    is_unfinished = finished is None or finished < directory.config.steps
    if is_unfinished:
        trackers(directory.config.run.track)  # a missing package is noticed here
    else:
        print(f"{path} is finished: {finished:,} transitions.", file=stream)
    return directory, stream, is_unfinished


def _with_threads(config: Config, path: Path) -> Config:
    """Replace threads = 0 by the number that the run in `path` started with, or else by the number of cores."""
    if config.run.threads > 0:
        return config
    kept = find_config(path)  # None: no run there, or an unreadable one
    threads = 0 if kept is None else kept.run.threads
    return replace(config, run=replace(config.run, threads=threads or num_cores()))


class Display(Callback):
    """Show the progress of a run of `steps` transitions; a terminal gets a progress bar."""

    def __init__(self, title: str, steps: int, stream: TextIO) -> None:
        self._console = Console(file=stream, highlight=False, soft_wrap=True)
        self._title = title
        self._steps = steps
        self._last_line = time.monotonic()
        self._next_advance = 0.0
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.completed:,}/{task.total:,}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[summary]}"),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task(title, total=steps, summary="")

    def __enter__(self) -> "Display":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def step(self, run: Run, step: StepRecord) -> None:
        """Update the bar at most ten times a second."""
        if self._console.is_terminal and time.monotonic() > self._next_advance:
            self._next_advance = time.monotonic() + 0.1
            self._bar.update(self._task, completed=run.step)

    def metrics(self, run: Run, metrics: MetricsRecord) -> None:
        """Show the newest metrics."""
        step, steps_per_second = run.step, metrics.steps_per_second
        forms = {"episode_return": "return {:.2f}", "epsilon": "epsilon {:.2f}", "changed_share": "EVA changed {:.0%}"}
        known = [form.format(value) for name, form in forms.items() if (value := metrics.values.get(name)) is not None]
        summary = "  ".join([f"{steps_per_second:.0f} steps/s", *known])
        self._bar.update(self._task, completed=step, summary=summary)
        now = time.monotonic()
        is_due = now - self._last_line > _SECONDS_BETWEEN_LINES or step >= self._steps
        if not self._console.is_terminal and is_due:
            self._last_line = now
            left = duration(max(0, self._steps - step) / steps_per_second)
            self.print(f"{self._title}: {step:,}/{self._steps:,}  {left} left  {summary}")

    def print(self, sentence: str) -> None:
        """Print a line."""
        self._console.print(printable(sentence), markup=False)


class Records(Callback):
    """Write the records in the run directory."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory

    def episode(self, run: Run, episode: Episode) -> None:
        """Add a row to episodes.csv."""
        self._directory.add_episode(episode)

    def metrics(self, run: Run, metrics: MetricsRecord) -> None:
        """Add a line to metrics.jsonl and timing.jsonl."""
        self._directory.add_metrics(metrics.values, metrics.seconds, metrics.steps_per_second)

    def evaluation(self, run: Run, evaluation: Evaluation) -> None:
        """Add a line to evaluations.jsonl."""
        self._directory.add_line(EVALUATIONS, {"step": run.step, **evaluation.line})


@dataclass
class Recorder:
    """Turn what happens in a run into events for its callbacks, and measure the time of training."""

    directory: RunDirectory
    display: Display
    stop: StopRequest
    provenance: Mapping[str, Any]
    callbacks: Callbacks
    _start: float = 0.0
    _seconds_before: float = 0.0
    _last: float = 0.0
    _last_step: int = 0

    @property
    def stop_reason(self) -> str | None:
        """Why a callback asked the run to stop; None if none did."""
        return self.callbacks.run.stop_reason

    def start(self, step: int = 0) -> None:
        """Start callbacks and clock after `step` transitions, once the directory's records are open."""
        self.callbacks.start(step)
        self._start = self._last = time.perf_counter()
        self._seconds_before, self._last_step = self.directory.seconds, step

    def add_step(self, step: int, outcome: StepOutcome, episodes: EpisodeTracker) -> None:
        """Report a step of all environments and the episodes that it finished."""
        finished = episodes.add(step, outcome)  # first: it checks the rewards
        self.callbacks.step(step, outcome)
        for episode in finished:
            self.callbacks.episode(episode)

    def add_evaluations(self, step: int, results: Iterable[Evaluation | Mapping[str, Any]]) -> None:
        """Report evaluations as they are made, and record comparisons with exact values: not part of training time."""
        start = time.perf_counter()
        for result in results:
            if isinstance(result, Evaluation):
                self.callbacks.evaluation(result)
            else:
                self.directory.add_line(ACCURACY, {"step": step, **result})
        paused = time.perf_counter() - start
        self._start, self._last = self._start + paused, self._last + paused

    def add_metrics(self, step: int, episodes: EpisodeTracker, metrics: Mapping[str, float | None]) -> None:
        """Report metrics, with the means of the episodes since the last call."""
        config, now = self.directory.config, time.perf_counter()
        means = episodes.take_means()
        score = means["episode_return"]
        if config.environment.id == ATARI_ID and score is not None:
            means["human_normalised_score"] = human_normalised_score(config.atari.game, score)
        if config.environment.id.startswith(MINATAR_PREFIX):
            game, _ = minatar_game(config.environment.id)
            means["normalised_score"] = None if score is None else minatar_normalised_score(game, score)
        steps_per_second = (step - self._last_step) / (now - self._last)
        self.callbacks.metrics(
            {"step": step, **means, **metrics}, self._seconds_before + now - self._start, steps_per_second
        )
        self._last, self._last_step = now, step

    def end(self, error: BaseException | None = None) -> UserError | None:
        """Report the end of training, which an error has ended if there is one; returns the first of the callbacks."""
        state = read_status(self.directory.path).state
        reason = None if error is None else str(error) or type(error).__name__
        if state == "finished":
            return self.callbacks.end(EndRecord("finished"))
        return self.callbacks.end(EndRecord("stopped" if state == "stopped" else "failed", self.stop_reason or reason))


@contextmanager
def recording(
    directory: RunDirectory, device: torch.device, stream: TextIO, callbacks: Sequence[Callback] = ()
) -> Iterator[Recorder]:
    """Lock the run directory, show progress, call callbacks, and watch for Ctrl-C and SIGTERM.

    Raises StoppedError at the end if a signal arrived that did not stop the run earlier.
    """
    config, command = directory.config, [Path(sys.argv[0]).name, *sys.argv[1:]]
    origin = provenance(command, config.run.threads, name_of(device))
    with directory, Display(str(directory.path), config.steps, stream) as display, StopRequest() as stop:
        own = (Records(directory), display, *trackers(config.run.track))
        recorder = Recorder(directory, display, stop, origin, Callbacks(Run(directory.path, config), own, callbacks))
        try:
            yield recorder
        except BaseException as error:
            recorder.end(error)
            raise
        if (failure := recorder.end()) is not None:
            raise failure
        if stop.received is not None:
            raise StoppedError(stop.received)
    status = read_status(directory.path)
    because = f" ({printable(recorder.stop_reason)})" if status.state == "stopped" and recorder.stop_reason else ""
    print(f"{directory.path} is {status.state}: {status.step:,} transitions{because}.", file=stream)
