"""Callbacks: which events they get, in which order, and that they cannot change a run; how they stop or break it."""

from __future__ import annotations

import dataclasses
import io
import json
import random
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import eva
from eva.runs.callbacks import Callback, EndRecord, MetricsRecord, Run, StepRecord
from eva.runs.record.episodes import Episode, Evaluation
from tests.runs.test_resume import checkpoint_steps, differing, recorded, run_config, status_of

EVENTS = ["start", "step", "episode", "metrics", "evaluation", "checkpoint", "end"]
CONFIG = run_config(2, steps=100)
"""A checkpoint every 20, metrics every 10, two evaluations (weights 0 and 0.4) every 60 transitions."""


class Follower(Callback):
    """Note every event; call `then` after each."""

    def __init__(self, then: Callable[[Run, str, Any], None] = lambda *_: None) -> None:
        self.events: list[tuple[int, str, Any]] = []
        self.then = then

    def note(self, run: Run, event: str, record: Any = None) -> None:
        self.events.append((run.step, event, record))
        self.then(run, event, record)

    def start(self, run: Run) -> None:
        self.note(run, "start")

    def step(self, run: Run, step: StepRecord) -> None:
        self.note(run, "step", step)

    def episode(self, run: Run, episode: Episode) -> None:
        self.note(run, "episode", episode)

    def metrics(self, run: Run, metrics: MetricsRecord) -> None:
        self.note(run, "metrics", metrics)

    def evaluation(self, run: Run, evaluation: Evaluation) -> None:
        self.note(run, "evaluation", evaluation)

    def checkpoint(self, run: Run, path: Path) -> None:
        self.note(run, "checkpoint", path)

    def end(self, run: Run, end: EndRecord) -> None:
        self.note(run, "end", end)

    def of(self, event: str) -> list[tuple[int, Any]]:
        """Return step and record of each event of a kind."""
        return [(step, record) for step, each, record in self.events if each == event]


def at(event: str, step: int, action: Callable[[Run], None]) -> Follower:
    """Return a callback that does something at an event of a step."""
    return Follower(lambda run, each, _: action(run) if each == event and run.step >= step else None)


def trained(path: Path, *callbacks: Callback, config: eva.Config = CONFIG) -> str:
    stream = io.StringIO()
    eva.train(config, path, stream, callbacks=callbacks)
    return stream.getvalue()


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Follower]:
    """A run, and what a callback has seen of it."""
    path, follower = tmp_path_factory.mktemp("followed") / "run", Follower()
    trained(path, follower)
    return path, follower


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The bytes of the run without callbacks."""
    path = tmp_path_factory.mktemp("whole") / "run"
    trained(path)
    return recorded(path)


def test_events_of_a_step_come_in_order(followed: tuple[Path, Follower]) -> None:
    _, follower = followed
    assert [event for _, event, _ in follower.events[:2]] == ["start", "step"]
    keys = [(step, EVENTS.index(event)) for step, event, _ in follower.events]
    assert keys == sorted(keys)
    assert [step for step, _ in follower.of("step")] == list(range(2, 101, 2))
    assert [step for step, _ in follower.of("metrics")] == list(range(10, 101, 10))
    assert [step for step, _ in follower.of("evaluation")] == [60, 60]
    assert [(step, path.name) for step, path in follower.of("checkpoint")] == [
        (step, f"step-{step:012d}") for step in (20, 40, 60, 80, 100, 100)
    ]
    assert follower.of("end") == [(100, EndRecord("finished"))]


def test_records_are_those_of_the_run_directory(followed: tuple[Path, Follower]) -> None:
    path, follower = followed
    rows = [f"{e.step},{e.environment},{e.episode_return},{e.episode_length}" for _, e in follower.of("episode")]
    assert rows
    assert rows == (path / "episodes.csv").read_text().splitlines()[1:]
    lines = lines_of(path / "metrics.jsonl")
    assert [dict(metrics.values) for _, metrics in follower.of("metrics")] == [
        {name: value for name, value in line.items() if name in metrics.values}
        for line, (_, metrics) in zip(lines, follower.of("metrics"), strict=True)
    ]
    returns = [evaluation.line["returns"] for _, evaluation in follower.of("evaluation")]
    assert returns == [line["returns"] for line in lines_of(path / "evaluations.jsonl")]
    ended = sum(sum(step.terminated) + sum(step.truncated) for _, step in follower.of("step"))
    assert ended == len(rows)


def test_callbacks_change_no_byte_of_a_run(whole: dict[str, Any], tmp_path: Path) -> None:
    def meddle(run: Run, _: str, record: Any) -> None:
        for draw in (random.random, np.random.rand, torch.rand):
            draw(*() if draw is random.random else (3,))
        if isinstance(record, Evaluation):
            record.episode_returns[:] = 1e9
        for name in vars(record) if dataclasses.is_dataclass(record) else ():
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(record, name, None)
        if isinstance(record, MetricsRecord):
            with pytest.raises(TypeError):
                record.values["loss"] = 0.0  # type: ignore[index]
        for name in ("step", "config", "path"):
            with pytest.raises(AttributeError):
                setattr(run, name, None)

    trained(tmp_path / "run", Follower(meddle), Follower())
    assert differing(tmp_path / "run", whole) == []


def test_resumed_run_starts_at_the_checkpoint(whole: dict[str, Any], tmp_path: Path) -> None:
    trained(tmp_path / "run", config=replace(CONFIG, steps=40))
    follower = Follower()
    trained(tmp_path / "run", follower)
    assert follower.events[0][:2] == (40, "start")
    assert [step for step, _ in follower.of("step")] == list(range(42, 101, 2))
    assert differing(tmp_path / "run", whole) == []
    again = Follower()
    trained(tmp_path / "run", again)
    assert again.events == [], "a finished run is not trained"


@pytest.mark.parametrize("event", [each for each in EVENTS if each not in ("start", "end", "episode")])
def test_stop_saves_a_checkpoint_and_the_run_resumes(event: str, whole: dict[str, Any], tmp_path: Path) -> None:
    stopper = at(event, 50, lambda run: run.stop("good enough"))
    after = Follower()
    said = trained(tmp_path / "run", stopper, after)
    step = after.events[-1][0]
    assert 50 <= step <= 60
    assert after.of("end") == [(step, EndRecord("stopped", "good enough"))]
    assert after.events[-2][:2] == (step, "checkpoint")
    assert status_of(tmp_path / "run") | {"steps": 100} == {
        "state": "stopped", "step": step, "steps": 100, "reason": "good enough"
    }  # fmt: skip
    assert f"is stopped: {step} transitions (good enough)." in said
    assert max(checkpoint_steps(tmp_path / "run")) == step
    trained(tmp_path / "run")
    assert differing(tmp_path / "run", whole) == []


def test_stop_at_the_start_and_at_the_last_step(whole: dict[str, Any], tmp_path: Path) -> None:
    trained(tmp_path / "run", at("start", 0, lambda run: run.stop("too early")))
    assert (status_of(tmp_path / "run")["state"], checkpoint_steps(tmp_path / "run")) == ("stopped", [0])
    trained(tmp_path / "run", at("metrics", 100, lambda run: run.stop("too late")))
    assert differing(tmp_path / "run", whole) == [], "finished"


def test_first_reason_counts(tmp_path: Path) -> None:
    both = (at("step", 10, lambda run: run.stop("first")), at("step", 10, lambda run: run.stop("second")))
    trained(tmp_path / "run", *both)
    assert status_of(tmp_path / "run")["reason"] == "first"


def fail(_: Run) -> None:
    raise KeyError("its own")


@pytest.mark.parametrize("event", EVENTS[:-1])
def test_failing_callback_ends_the_run_with_its_last_checkpoint(
    event: str, whole: dict[str, Any], tmp_path: Path
) -> None:
    trained(tmp_path / "run", config=replace(CONFIG, steps=40))
    before, after = Follower(), Follower()
    error = r"KeyError: 'its own', in test_callbacks\.py, line \d+"
    sentence = rf"^the callback Follower failed in `{event}` \({error}\): fix it\.$"
    with pytest.raises(eva.UserError, match=sentence):
        trained(tmp_path / "run", before, at(event, 42, fail) if event != "start" else at(event, 0, fail), after)
    step = before.events[-1][0]
    ((_, end),) = before.of("end")
    assert end.state == "failed"
    assert f"`{event}`" in end.reason
    assert (step, event) not in [each[:2] for each in after.events], "it comes later in the list"
    assert len(after.of("end")) == (event != "start")
    assert status_of(tmp_path / "run")["state"] == "failed"
    assert checkpoint_steps(tmp_path / "run")[-1] <= step
    trained(tmp_path / "run")
    assert differing(tmp_path / "run", whole) == []


def test_failure_at_the_end_leaves_the_run_finished_and_others_called(whole: dict[str, Any], tmp_path: Path) -> None:
    after = Follower()
    with pytest.raises(eva.UserError, match="the callback Follower failed in `end`"):
        trained(tmp_path / "run", at("end", 0, fail), after)
    assert after.of("end") == [(100, EndRecord("finished"))]
    assert differing(tmp_path / "run", whole) == []


def test_exit_and_user_errors_of_a_callback_name_it(tmp_path: Path) -> None:
    for error in (SystemExit("enough"), eva.UserError("no such thing.")):

        def leave(_: Run, error: BaseException = error) -> None:
            raise error

        name = type(error).__name__
        with pytest.raises(eva.UserError, match=rf"the callback Follower failed in `step` \({name}: "):
            trained(tmp_path / name, at("step", 0, leave))


def test_signal_ends_callbacks_too(tmp_path: Path) -> None:
    follower = at("step", 30, lambda _: signal.raise_signal(signal.SIGTERM))
    with pytest.raises(eva.StoppedError):
        trained(tmp_path / "run", follower)
    assert follower.of("end") == [(30, EndRecord("stopped", "stopped by SIGTERM"))]


@pytest.mark.parametrize("wrong", [print, Follower, None], ids=["function", "class", "None"])
def test_other_objects_are_no_callbacks(wrong: Any, tmp_path: Path) -> None:
    with pytest.raises(eva.UserError, match=r"callbacks are objects of subclasses of eva\.Callback, but one is"):
        eva.train(CONFIG, tmp_path / "run", callbacks=[wrong])
    assert list(tmp_path.iterdir()) == []
