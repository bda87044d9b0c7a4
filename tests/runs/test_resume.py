"""A run that was stopped, killed or extended ends with the same bytes as an uninterrupted one.

Processes are forked from a server that has torch loaded. A test chooses the moment of death by progress, as the
n-th function call of a process, so that kill points are spread over the whole run and are the same each time.
"""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.wrappers import TimeLimit
from numpy.typing import NDArray

from eva.agent.agent import EVAAgent
from eva.agent.memory.replay import CLOSING, STEP, TERMINATION
from eva.cli.main import main
from eva.config import Config
from eva.errors import UserError
from eva.presets import for_environment
from eva.report.pages import write_report
from eva.runs.checkpoint.checkpointer import Checkpointer
from eva.runs.checkpoint.state import unpack
from eva.runs.checkpoint.store import CheckpointStore, load
from eva.runs.evaluate import evaluate
from eva.runs.loop import Training, train
from eva.runs.record.columns import EVALUATIONS
from eva.runs.record.directory import RunDirectory
from eva.runs.stopping import StoppedError, StopRequest
from tests.helpers.agents import changed, tiny

FILES = ("episodes.csv", "metrics.jsonl", "policy.safetensors", "memory.safetensors")
PERIOD = 20
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    ["torch._dynamo", "torch.utils.tensorboard", "eva.cli.main", "eva.runs.loop", "pytest"]
)

SWITCHES = {
    "kbrl": {"eva": {"trace": "kbrl", "plan_at_episode_start": True, "value_buffer_entries": "start"}},
    "per-environment": {"eva": {"value_buffers": "per-environment", "trace": "n-step", "plan_at_episode_start": True}},
    "recomputed": {"eva": {"remembered_values": "recomputed", "start": "full", "anneal_start_transitions": 90}},
    "refreshed": {"eva": {"embeddings": "refreshed"}, "replay": {"search": "projected"}},
    "bfloat16": {"learner": {"precision": "bfloat16"}},
    "everything": {
        "eva": {
            "remembered_values": "recomputed",
            "embeddings": "refreshed",
            "value_buffers": "per-environment",
            "trace": "kbrl",
        },
        "learner": {"double": True},
        "replay": {"prioritised": True},
    },
}


def run_config(num_environments: int = 1, steps: int = 140, **sections: Any) -> Config:
    """Return a run of about a second, with everything switched on and a checkpoint every PERIOD transitions."""
    run = {"metrics_period_transitions": 10, "checkpoint_period_transitions": PERIOD, **sections.pop("run", {})}
    evaluation = {"period_transitions": 60, "num_episodes": 2, **sections.pop("evaluation", {})}
    return tiny(num_environments, steps=steps, run=run, evaluation=evaluation, **sections)


def trained(config: Config, path: Path, *, restart: bool = False) -> str:
    """Train; returns the printed progress."""
    stream = io.StringIO()
    train(config, path, stream, restart=restart)
    return stream.getvalue()


def command(config: Config, path: Path) -> list[str]:
    """Return the arguments of eva that train with `config` in `path`."""
    file = path.with_name(f"{path.name}.json")
    file.write_text(config.to_json())
    return ["train", "--config", str(file), "--out", str(path)]


def status_of(path: Path) -> dict[str, Any]:
    content = json.loads((path / "status.json").read_text())
    del content["sha256"]  # so that a test can write the rest back, changed
    return content


def checkpoint_steps(path: Path) -> list[int]:
    return sorted(int(entry.name[5:]) for entry in (path / "checkpoints").glob("step-*"))


def recorded(path: Path) -> dict[str, Any]:
    """Return everything that must be equal byte for byte: the records, and the state in the last checkpoint."""
    config = Config.from_json((path / "config.json").read_text())
    newest = load(max((path / "checkpoints").glob("step-*")), config.identity)
    sizes = newest.plain["records"]["sizes"]
    return {
        **{name: (path / name).read_bytes() for name in (*FILES, EVALUATIONS) if (path / name).exists()},
        **{name: (array.dtype, array.shape, array.tobytes()) for name, array in newest.arrays.items()},
        **{f"plain {name}": value for name, value in newest.plain["training"].items()},
        "step": newest.step,
        "sizes": [sizes.get(name) for name in ("episodes.csv", "metrics.jsonl", EVALUATIONS)],
        "status": status_of(path),
    }


def differing(path: Path, expected: dict[str, Any]) -> list[str]:
    """Return the names of the entries that differ, without their bytes."""
    there = recorded(path)
    return [name for name in there.keys() | expected.keys() if there.get(name, ...) != expected.get(name, ...)]


_REFERENCES: dict[str, dict[str, Any]] = {}


def reference(config: Config, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the records of the uninterrupted run."""
    key = config.to_json()
    if key not in _REFERENCES:
        path = tmp_path_factory.mktemp("reference") / "run"
        trained(config, path)
        _REFERENCES[key] = recorded(path)
    return _REFERENCES[key]


def wait_until(condition: Callable[[], bool], process: Any = None, pause: float = 0.005) -> None:
    """Poll until the condition holds; use pause=0 for conditions that hold only briefly."""
    end = time.monotonic() + 100
    while not condition():
        time.sleep(pause)
        assert time.monotonic() < end, "timed out"
        assert process is None or process.is_alive(), "the process has ended"


def in_a_process(function: Callable[..., None], *arguments: Any) -> Any:
    """Run a function in a new process until it ends; returns the process."""
    process = PROCESSES.Process(target=function, args=arguments)
    process.start()
    process.join()
    return process


def has_reached(path: Path, step: int) -> bool:
    """Return whether metrics.jsonl has reached a step."""
    try:
        lines = (path / "metrics.jsonl").read_text().splitlines(keepends=True)
    except FileNotFoundError:
        return False
    return any(line.endswith("\n") and json.loads(line)["step"] >= step for line in lines[-2:])


# Extended runs


@pytest.mark.parametrize(
    ("num_environments", "switches"),
    [
        (1, None),
        (4, None),
        (1, "kbrl"),
        (4, "per-environment"),
        (1, "recomputed"),
        (4, "refreshed"),
        (4, "everything"),
        (1, "bfloat16"),
    ],
)
def test_resumed_run_matches_an_uninterrupted_one(tmp_path, num_environments, switches):
    config = run_config(num_environments, **SWITCHES.get(switches, {}))
    trained(config, tmp_path / "whole")
    assert "goes on" not in trained(replace(config, steps=72), tmp_path / "halves")  # between two checkpoints
    assert "goes on from 72 transitions." in trained(config, tmp_path / "halves")
    whole = recorded(tmp_path / "whole")
    assert differing(tmp_path / "halves", whole) == []

    groups = {"/".join(name.split("/")[:4]) for name in whole}
    learner = {f"training/agent/learner/{name}" for name in ("network", "target_network", "optimiser")}
    assert groups >= {*learner, "training/agent/replay/observations", "training/agent/adjuster/value_buffers"}
    assert any(name.startswith("training/agent/adjuster/rounds/") for name in whole)
    last = json.loads(whole["metrics.jsonl"].splitlines()[-1])
    assert last["updates"] > 20
    assert last["value_buffer_entries"] > 3
    assert last["episodes"] > 3


def test_resumed_run_with_projected_search_matches(tmp_path):
    config = run_config(4, replay={"search": "projected", "replay_capacity": 140})
    trained(config, tmp_path / "whole")
    trained(replace(config, steps=72), tmp_path / "halves")
    trained(config, tmp_path / "halves")
    whole = recorded(tmp_path / "whole")
    assert differing(tmp_path / "halves", whole) == []
    assert "training/agent/adjuster/search/sketches" in whole
    last = json.loads(whole["metrics.jsonl"].splitlines()[-1])
    assert last["searches"] > last["search_fallbacks"] > 0


def test_resuming_without_a_part_of_the_state_differs(tmp_path, monkeypatch):
    """A run that resumes with one part of its state reset does not match."""
    config = run_config()
    trained(config, tmp_path / "whole")
    whole = recorded(tmp_path / "whole")
    genuine = Training.load_state_dict
    trained(replace(config, steps=72), tmp_path / "half")
    for part in ("learner", "replay", "adjuster", "exploration", "sampling", "means"):
        path = tmp_path / part
        shutil.copytree(tmp_path / "half", path)
        fresh = Training(config).state_dict()["agent"]

        def forgetful(self: Training, state: Any, part: str = part, fresh: Any = fresh) -> Any:
            state["agent"][part] = fresh[part]
            return genuine(self, state)

        with monkeypatch.context() as patch:
            patch.setattr(Training, "load_state_dict", forgetful)
            trained(config, path)
        assert differing(path, whole), part


def test_train_prints_where_it_resumes_and_finishes(tmp_path, capsys, monkeypatch):
    path = tmp_path / "run"
    arguments = command(run_config(steps=100), path)
    act = EVAAgent.act

    def breaking(agent: EVAAgent, observations: NDArray[Any]) -> NDArray[np.int64]:
        if agent.transitions == 50:
            raise UserError("broken.")
        return act(agent, observations)

    with monkeypatch.context() as patch:
        patch.setattr(EVAAgent, "act", breaking)
        assert main(arguments) == 2
    assert capsys.readouterr().err == "eva: broken.\n"
    assert status_of(path) == {"state": "failed", "step": 50, "steps": 100, "error": "UserError: broken."}
    assert checkpoint_steps(path) == [20, 40]

    assert main(arguments) == 0
    said = capsys.readouterr().err
    assert f"{path} goes on from 40 transitions." in said
    assert f"{path} is finished: 100 transitions." in said
    assert main(arguments) == 0
    assert capsys.readouterr().err == f"{path} is finished: 100 transitions.\n"
    assert main([*arguments, "--steps", "120"]) == 0
    assert f"{path} goes on from 100 transitions." in capsys.readouterr().err
    status = status_of(path)
    assert status.pop("largest_abs_q") > 0
    assert status == {"state": "finished", "step": 120, "steps": 120}
    assert main([*arguments, "--steps", "90"]) == 0
    assert capsys.readouterr().err == f"{path} is finished: 120 transitions.\n"


def test_restart_discards_the_old_run(tmp_path, tmp_path_factory):
    config, path = run_config(steps=100, run={"track": ("tensorboard",)}), tmp_path / "run"
    trained(replace(config, steps=120), path)
    (path / "policy.safetensors").write_bytes(b"of the first run")
    (path / "evaluations.jsonl").write_bytes(b"of the first run")
    begun = list((path / "tensorboard").iterdir())
    said = trained(config, path, restart=True)
    assert "goes on" not in said
    assert differing(path, reference(config, tmp_path_factory)) == []
    assert max(checkpoint_steps(path)) == 100
    assert not any(file.exists() for file in begun)


# Killed runs


def dying(config: Config, path: Path, moment: int, saving: bool, report: Path) -> None:
    """Train, and kill the process at its n-th function call, or the n-th of those that write a checkpoint."""
    counts = {False: 0, True: 0}
    inside = False
    save = CheckpointStore.save

    def watched_save(*arguments: Any) -> Path:
        nonlocal inside
        inside = True
        try:
            return save(*arguments)
        finally:
            inside = False

    def count(_: Any, event: str, __: Any) -> None:
        if event in ("call", "c_call"):
            counts[False] += 1
            counts[True] += inside
            if inside >= saving and counts[saving] == moment:
                sys.setprofile(None)
                report.write_text(json.dumps({"inside": inside}))
                os.kill(os.getpid(), signal.SIGKILL)

    CheckpointStore.save = watched_save  # type: ignore[method-assign]
    sys.setprofile(count)
    train(config, path, io.StringIO())
    sys.setprofile(None)
    report.write_text(json.dumps([counts[False], counts[True]]))


_MOMENTS: dict[str, list[int]] = {}


def number_of_moments(config: Config, tmp_path: Path) -> list[int]:
    """Return the number of function calls of a run, and of those that write checkpoints."""
    key = config.to_json()
    if key not in _MOMENTS:
        report = tmp_path / "calls.json"
        assert in_a_process(dying, config, tmp_path / "counted", 0, False, report).exitcode == 0
        _MOMENTS[key] = json.loads(report.read_text())
    return _MOMENTS[key]


def killed(config: Config, path: Path, moment: int, saving: bool = False) -> bool:
    """Kill a run; returns whether it was writing a checkpoint."""
    report = path.with_name(f"{path.name}-report.json")
    assert in_a_process(dying, config, path, moment, saving, report).exitcode == -signal.SIGKILL
    return bool(json.loads(report.read_text())["inside"])


def kill_points(rng: random.Random, moments: list[int], num_anywhere: int, num_saving: int) -> list[tuple[int, bool]]:
    """Draw kill points anywhere in the run, and others while a checkpoint is written.

    The number of calls varies: the first process imports and compiles what later ones find in memory or on the disk.
    """
    anywhere = [(rng.randrange(1, moments[0] * 9 // 10), False) for _ in range(num_anywhere)]
    return anywhere + [(rng.randrange(1, moments[1] * 9 // 10), True) for _ in range(num_saving)]


@pytest.mark.parametrize("num_environments", [1, 4])
def test_killed_runs_end_with_the_same_bytes(tmp_path, tmp_path_factory, num_environments):
    config = run_config(num_environments, steps=100)
    expected = reference(config, tmp_path_factory)
    moments = number_of_moments(config, tmp_path)
    for number, point in enumerate(kill_points(random.Random(num_environments), moments, 2, 2)):
        path = tmp_path / str(number)
        assert killed(config, path, *point) >= point[1]
        trained(config, path)
        assert differing(path, expected) == [], point


def test_run_killed_three_times_ends_with_the_same_bytes(tmp_path, tmp_path_factory):
    config, path = run_config(steps=100), tmp_path / "run"
    (calls, _), rng = number_of_moments(config, tmp_path), random.Random(0)
    for _ in range(3):
        killed(config, path, rng.randrange(calls // 3, calls // 2))
    assert "goes on from" in trained(config, path)
    assert differing(path, reference(config, tmp_path_factory)) == []


def test_command_killed_during_a_checkpoint_resumes(tmp_path, tmp_path_factory):
    """The real command, killed while it writes a checkpoint."""
    config, path = run_config(4), tmp_path / "run"
    checkpoints = path / "checkpoints"
    line = [sys.executable, "-m", "eva", *command(replace(config, steps=10**6), path)]
    with subprocess.Popen(line, stderr=subprocess.DEVNULL) as process:
        wait_until(lambda: checkpoint_steps(path) != [])
        wait_until(lambda: any(checkpoints.glob(".draft-*")), pause=0)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    reached = max(checkpoint_steps(path))
    config = replace(config, steps=reached + 40)
    assert f"goes on from {reached:,} transitions." in trained(config, path)
    assert not list(checkpoints.glob(".draft-*"))
    assert differing(path, reference(config, tmp_path_factory)) == []


def test_run_killed_before_its_first_records_resumes(tmp_path, tmp_path_factory):
    """A directory with only the first files of a killed process can be used."""
    config = run_config(steps=100)
    for number, names in enumerate(
        [(".lock",), (".lock", ".config.json.123"), ("config.json", ".status.json.123", ".provenance.json.4")]
    ):
        path = tmp_path / str(number)
        path.mkdir()
        for name in names:
            (path / name).write_text(config.to_json() if name == "config.json" else "{")
        trained(config, path)
        assert differing(path, reference(config, tmp_path_factory)) == []
        assert [file.name for file in path.glob(".*")] == [".lock"]


@pytest.mark.slow
def test_many_killed_runs_end_with_the_same_bytes(tmp_path, tmp_path_factory, capsys):
    figures = {}
    for num_environments in (1, 4):
        config = run_config(num_environments, steps=240)
        expected = reference(config, tmp_path_factory)
        folder = tmp_path / str(num_environments)
        folder.mkdir()
        moments = number_of_moments(config, folder)
        points = kill_points(random.Random(100 + num_environments), moments, 20, 10)
        inside = same = 0
        for number, point in enumerate(points):
            path = folder / str(number)
            inside += killed(config, path, *point)
            assert in_a_process(train, config, path, None).exitcode == 0
            same += differing(path, expected) == []
        figures[num_environments] = (len(points), inside, same)
    with capsys.disabled():
        print()
        for num_environments, (num, inside, same) in figures.items():
            print(
                f"maze, {num_environments} environment(s): {num} kill points, {inside} of them inside a checkpoint "
                f"write, {same} runs identical to the byte"
            )
    assert all(num == same and inside >= 10 for num, inside, same in figures.values())


@pytest.mark.slow
def test_killed_runs_in_bfloat16_end_with_the_same_bytes(tmp_path, tmp_path_factory):
    config = run_config(steps=100, **SWITCHES["bfloat16"])
    expected = reference(config, tmp_path_factory)
    moments = number_of_moments(config, tmp_path)
    for number, point in enumerate(kill_points(random.Random(0), moments, 8, 4)):
        path = tmp_path / str(number)
        killed(config, path, *point)
        trained(config, path)
        assert differing(path, expected) == [], point


def test_bfloat16_without_instructions_for_it_prints_a_warning(tmp_path, monkeypatch):
    sentence = "this processor has no instructions for bfloat16: float32 is faster here."
    for supported in (False, True):
        monkeypatch.setattr("eva.runs.loop.supports_bfloat16", lambda supported=supported: supported)
        said = trained(run_config(steps=20, **SWITCHES["bfloat16"]), tmp_path / str(supported))
        assert (sentence in said) == (not supported)
    monkeypatch.setattr("eva.runs.loop.supports_bfloat16", lambda: False)
    assert sentence not in trained(run_config(steps=20), tmp_path / "float32")


# Stop signals


def commanded(arguments: list[str], error: Any) -> None:
    """Run the command line with its standard error in a pipe."""
    os.dup2(error.fileno(), 2)
    error.close()
    sys.exit(main(arguments))


def started(function: Callable[..., None], arguments: list[str]) -> tuple[Any, Any]:
    """Start the command line in a process; returns the process and a pipe with its standard error."""
    reader, writer = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=function, args=(arguments, writer))
    process.start()
    writer.close()
    return process, reader


def said(reader: Any) -> str:
    """Return the standard error of a process that has ended."""
    with os.fdopen(os.dup(reader.fileno())) as file:
        return file.read()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_signal_checkpoints_and_the_run_resumes(tmp_path, tmp_path_factory, number):
    path = tmp_path / "run"
    long = replace(run_config(4), steps=10**6)
    process, error = started(commanded, command(long, path))
    wait_until(lambda: has_reached(path, 48), process)
    os.kill(process.pid, number)
    process.join(60)
    assert process.exitcode == 128 + number
    assert "Traceback" not in said(error)
    status = status_of(path)
    assert status["state"] == "stopped"
    assert status["step"] == max(checkpoint_steps(path)) >= 48
    assert status["step"] % 4 == 0

    config = replace(long, steps=status["step"] + 40)
    assert f"goes on from {status['step']:,} transitions." in trained(config, path)
    assert differing(path, reference(config, tmp_path_factory)) == []


def test_signal_after_the_last_step_leaves_the_run_finished(tmp_path, monkeypatch):
    save_agent = RunDirectory.save_agent

    def interrupted(self: RunDirectory, agent: Any) -> None:
        signal.raise_signal(signal.SIGTERM)
        save_agent(self, agent)

    monkeypatch.setattr(RunDirectory, "save_agent", interrupted)
    with pytest.raises(StoppedError):
        trained(run_config(), tmp_path / "run")
    assert status_of(tmp_path / "run")["state"] == "finished"


def test_finished_run_that_cannot_resume_is_unchanged(tmp_path, monkeypatch):
    config, path = run_config(), tmp_path / "run"
    trained(config, path)

    def files() -> dict[Path, bytes]:
        return {each: each.read_bytes() for each in path.rglob("*") if each.is_file()}

    before = files()

    def refuse(*_: object) -> None:
        raise UserError("the emulators cannot be restored")

    monkeypatch.setattr(Training, "load_state_dict", refuse)
    with pytest.raises(UserError, match="cannot be restored"):
        trained(replace(config, steps=2 * config.steps), path)
    assert files() == before


def stuck(arguments: list[str], error: Any) -> None:
    """Run the command line, and block when a checkpoint is due after a signal."""
    save = CheckpointStore.save

    def slow_save(self: CheckpointStore, checkpoint: Any) -> Path:
        if signal.getsignal(signal.SIGINT).__self__.received is not None:
            (self.directory / "waiting").touch()
            time.sleep(600)
        return save(self, checkpoint)

    CheckpointStore.save = slow_save  # type: ignore[method-assign]
    commanded(arguments, error)


def test_second_signal_ends_the_process_immediately(tmp_path, tmp_path_factory):
    path = tmp_path / "run"
    long = replace(run_config(), steps=10**6)
    process, error = started(stuck, command(long, path))
    wait_until(lambda: has_reached(path, 48), process)
    os.kill(process.pid, signal.SIGINT)
    wait_until((path / "checkpoints" / "waiting").exists, process)
    os.kill(process.pid, signal.SIGINT)
    process.join(30)
    assert process.exitcode == -signal.SIGINT
    assert "Traceback" not in said(error)
    (path / "checkpoints" / "waiting").unlink()
    config = replace(long, steps=max(checkpoint_steps(path)) + 40)
    assert "goes on from" in trained(config, path)
    assert differing(path, reference(config, tmp_path_factory)) == []


def signalled_twice(arguments: list[str], error: Any) -> None:
    """Run the command line; Ctrl-C and SIGTERM arrive together, before Python handles either."""
    add_metrics, numbers = RunDirectory.add_metrics, {signal.SIGINT, signal.SIGTERM}

    def with_signals(self: RunDirectory, *values: Any) -> None:
        if self._files:
            signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
            for number in numbers:
                os.kill(os.getpid(), number)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
        add_metrics(self, *values)

    RunDirectory.add_metrics = with_signals  # type: ignore[method-assign]
    commanded(arguments, error)


def test_two_signals_together_stop_the_run_without_a_traceback(tmp_path):
    path = tmp_path / "run"
    process, error = started(signalled_twice, command(run_config(), path))
    process.join(100)
    assert process.exitcode in (128 + signal.SIGINT, 128 + signal.SIGTERM)
    assert "Traceback" not in said(error)
    assert "race condition" not in said(error)
    assert status_of(path)["state"] == "stopped"


def test_signal_handlers_are_restored_and_unused_in_threads():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with StopRequest() as stop:
        signal.raise_signal(signal.SIGTERM)
        assert stop.received == signal.SIGTERM
        signal.raise_signal(signal.SIGINT)
        assert stop.received == signal.SIGINT, "another signal does not end the process"
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    entered: list[StopRequest] = []
    thread = threading.Thread(target=lambda: entered.append(StopRequest().__enter__()))
    thread.start()
    thread.join()
    assert entered[0].received is None
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


# Gymnasium environments


class Drift(gymnasium.Env[NDArray[np.float32], np.int64]):
    """A point that is pushed about, by the agent and at random; `broken_after` steps it shows NaN."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, broken_after: float = np.inf) -> None:
        self._place = np.zeros(2, np.float32)
        self._num_pushes = 0  # over all episodes
        self._broken_after = broken_after

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        self._place = self.np_random.random(2, np.float32)
        return self._place.copy(), {}

    def step(self, action: np.int64) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        self._num_pushes += 1
        self._place += self.np_random.normal(int(action) - 1, 0.3, 2).astype(np.float32)
        reward = float(self._place[0]) / self._num_pushes
        self._place[0] *= 1 if self._num_pushes < self._broken_after else np.nan
        return self._place.copy(), reward, bool(abs(self._place[1]) > 5), False, {}

    def get_state(self) -> dict[str, Any]:
        return {"place": self._place, "num_pushes": self._num_pushes}

    def set_state(self, state: dict[str, Any]) -> None:
        self._place, self._num_pushes = state["place"], state["num_pushes"]


class Alone(gymnasium.Wrapper):
    """An environment of which only one can exist at a time, and which cannot save its state."""

    num_alive = 0

    def __init__(self) -> None:
        super().__init__(gymnasium.make("CartPole-v1"))
        assert Alone.num_alive == 0
        Alone.num_alive += 1

    def close(self) -> None:
        Alone.num_alive -= 1


def gymnasium_config(environment: str, num_environments: int, steps: int = 140) -> Config:
    if environment not in gymnasium.registry:
        broken = {"broken_after": 45} if "Broken" in environment else {}
        entry_point = Alone if "Alone" in environment else Drift
        gymnasium.register(environment, entry_point=entry_point, max_episode_steps=13, kwargs=broken)
    config = run_config(num_environments, steps)
    return replace(
        config, name=for_environment(environment).name, environment=replace(config.environment, id=environment)
    )


@pytest.mark.parametrize("num_environments", [1, 4])
def test_environment_with_get_state_resumes_mid_episode(tmp_path, num_environments):
    config = gymnasium_config("tests/Drift-v0", num_environments)
    trained(config, tmp_path / "whole")
    trained(replace(config, steps=72), tmp_path / "halves")  # in the middle of an episode
    said = trained(config, tmp_path / "halves")
    assert "cannot save their state" not in said
    whole = recorded(tmp_path / "whole")
    assert differing(tmp_path / "halves", whole) == []
    assert b",13\n" in whole["episodes.csv"], "the time limit includes the steps before the checkpoint"


def test_documented_example_resumes(tmp_path, monkeypatch, capsys):
    text = (Path(__file__).parents[2] / "docs" / "reliability.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (tmp_path / "walk.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    flags = ["--learner.learning-starts-transitions", "50", "--run.metrics-period-transitions", "10"]
    arguments = ["train", "--env", "walk:Walk-v0", *flags, "--out"]
    assert main([*arguments, str(tmp_path / "whole"), "--steps", "120"]) == 0
    for steps in ("71", "120"):
        assert main([*arguments, str(tmp_path / "halves"), "--steps", steps]) == 0
    assert "cannot save their state" not in capsys.readouterr().err
    whole = recorded(tmp_path / "whole")
    assert len(whole["episodes.csv"].splitlines()) > 2
    assert differing(tmp_path / "halves", whole) == []


def test_nested_time_limits_resume(tmp_path):
    gymnasium.register("tests/Twice-v0", lambda: TimeLimit(Drift(), 7), max_episode_steps=13)
    config = gymnasium_config("tests/Twice-v0", 1)
    trained(config, tmp_path / "whole")
    trained(replace(config, steps=72), tmp_path / "halves")
    trained(config, tmp_path / "halves")
    assert differing(tmp_path / "halves", recorded(tmp_path / "whole")) == []


def test_run_saved_without_a_step_after_a_cut_resumes(tmp_path):
    config, path = gymnasium_config("CartPole-v1", 1, 60), tmp_path / "run"
    trained(config, path)
    status = json.loads((path / "status.json").read_text())
    (path / "status.json").write_text(json.dumps({**status, "state": "stopped"}))
    trained(replace(config, steps=50), path)  # nothing is left to train, and a checkpoint is saved
    assert "goes on from 60 transitions." in trained(replace(config, steps=90), path)
    assert json.loads((path / "status.json").read_text())["step"] == 90


def test_environment_is_closed_before_its_replacement_is_built(tmp_path):
    config, path = gymnasium_config("tests/Alone-v0", 1, 50), tmp_path / "run"
    config = changed(config, evaluation={"period_transitions": None})  # which would need a second one
    trained(config, path)
    trained(replace(config, steps=90), path)  # with a new environment
    evaluate(path, [0.0, 0.4], 2)
    assert Alone.num_alive == 0


def test_environment_without_get_state_starts_a_new_episode(tmp_path):
    config, path = gymnasium_config("CartPole-v1", 1, 50), tmp_path / "run"
    config = changed(config, replay={"replay_capacity": 500}, learner={"learning_rate": 1e-5})
    trained(config, path)
    before = load(path / "checkpoints" / "step-000000000050", config.identity)
    played = (path / "episodes.csv").read_text()
    said = trained(replace(config, steps=100), path)
    assert "goes on from 50 transitions." in said
    assert "their running episodes are cut and new ones begin." in said

    replay = resumed_training(replace(config, steps=100), path).agent.replay
    closings = (replay.kinds == CLOSING).nonzero()[0]
    (seam,) = closings  # CartPole's own time limit is far
    assert seam == int(before.arrays["training/agent/replay/lane_counts"][0])
    assert replay.kinds[seam - 1] == STEP, "the episode was running"
    last, first, first_of_all = replay.observations_at(np.array([seam, seam + 1, 0]))
    np.testing.assert_array_equal(last, before.arrays["training/observations"][0])
    assert np.abs(first).max() <= 0.05, "a first state"
    assert not np.array_equal(first, first_of_all), "not the first state of the run"
    assert np.isin(replay.kinds, (STEP, TERMINATION)).sum() == 100, "every transition was played"
    assert not replay.complete[seam]
    across = replay.trajectories(np.array([[seam - 2]]), 6)
    assert across.valid[0].tolist() == [False] * 4 + [True] * 2, "a trajectory ends with the episode"
    assert across.slots[0, -1] == seam, "and bootstraps from the state in which it was cut"
    assert across.discounts[0, -1] > 0
    records = (path / "episodes.csv").read_text()
    assert records.startswith(played)
    steps, lengths = np.loadtxt(io.StringIO(records), delimiter=",", skiprows=1, usecols=(0, 3), dtype=int).T
    first = int(np.argmax(steps > 50))
    assert lengths[first] == steps[first] - 50, "the cut episode is in no record"


def resumed_training(config: Config, path: Path) -> Training:
    """Return the training that a resumed run would continue."""
    training = Training(config)
    loaded = CheckpointStore(path / "checkpoints").load_newest(config.identity)[0]
    assert loaded is not None
    training.agent.load_state_dict(unpack(loaded.arrays, loaded.plain)["training"]["agent"])
    return training


# Divergence


@pytest.mark.parametrize("cause", ["learning rate", "observation"])
def test_diverged_run_stops(tmp_path, capsys, cause):
    path = tmp_path / "run"
    if cause == "observation":
        config, what = gymnasium_config("tests/BrokenDrift-v0", 1), "|Q| has reached nan"
    else:
        config = run_config(learner={"learning_rate": 1e6, "learning_starts_transitions": 45})
        what = "|Q| has reached "
    sentences = []
    for _ in range(2):  # the second time, it resumes from the good checkpoint, and ends the same
        assert main(command(config, path)) == 2
        *before, sentence = capsys.readouterr().err.splitlines()
        assert all("goes on from 40 transitions." in line for line in before)
        sentences.append(sentence)
        assert checkpoint_steps(path) == [20, 40]
        (apart,) = (path / "checkpoints").glob("diverged-step-*")
        assert status_of(path)["state"] == "failed"
        assert load(apart, config.identity).step > 40
        for step in (20, 40):
            good = load(path / "checkpoints" / f"step-{step:012d}", config.identity)
            assert all(np.isfinite(array).all() for name, array in good.arrays.items() if "learner" in name)
    assert sentences[0] == sentences[1]
    assert "eva: the run diverged at" in sentences[0]
    assert what in sentences[0]
    assert "lower learner.learning_rate" in sentences[0]
    assert "check that the environment's rewards and observations are finite" in sentences[0]
    assert str(apart) in sentences[0]


class Faulty(Drift):
    """From its 45th step on it has a fault: a reward, or an exception in `step`, `get_state` or `set_state`."""

    def __init__(self, fault: Any) -> None:
        super().__init__()
        self.fault = fault

    def step(self, action: np.int64) -> tuple[NDArray[np.float32], Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)
        if self._num_pushes >= 45 and self.fault not in ("get_state", "set_state"):
            reward = self.fault
        if reward == "step":
            raise SystemExit("enough")
        return observation, reward, terminated, truncated, info

    def get_state(self) -> dict[str, Any]:
        if self.fault == "get_state" and self._num_pushes >= 45:
            raise KeyError("its own")
        return super().get_state()

    def set_state(self, state: dict[str, Any]) -> None:
        if self.fault == "set_state":
            raise ZeroDivisionError
        super().set_state(state)


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (np.nan, "environment 0 gave the reward nan at step 45 (a missing reward, None, is nan): let every"),
        (None, "environment 0 gave the reward nan at step 45 (a missing reward, None, is nan): let every"),
        (-np.inf, "environment 0 gave the reward -inf at step 45"),
        (1e39, "environment 0 gave the reward 1e+39 at step 45"),
        ("step", "the environment failed (SystemExit: enough, in test_resume.py, line "),
        ("get_state", "the environment failed (KeyError: 'its own', in test_resume.py, line "),
    ],
    ids=str,
)
def test_faulty_environment_stops_the_run_with_its_last_checkpoint(tmp_path, tmp_path_factory, capsys, fault, sentence):
    name = f"tests/Faulty{hash(fault)}-v0"
    config = gymnasium_config(name, 1)
    spec = gymnasium.registry[name]
    spec.entry_point, spec.kwargs = Faulty, {"fault": fault}
    for _ in range(2):  # resumed, it counts its steps from the start
        assert main(command(config, tmp_path / "run")) == 2
        error = capsys.readouterr().err
        assert f"eva: {sentence}" in error
        assert "Traceback" not in error
        assert checkpoint_steps(tmp_path / "run") == [20, 40]
        assert not list((tmp_path / "run" / "checkpoints").glob("diverged-*"))
        assert status_of(tmp_path / "run")["state"] == "failed"
    spec.entry_point, spec.kwargs = Drift, {}
    trained(config, tmp_path / "run")  # once the environment is repaired
    assert differing(tmp_path / "run", reference(config, tmp_path_factory)) == []


def test_failure_of_set_state_is_reported(tmp_path, capsys):
    config = gymnasium_config("tests/Unset-v0", 1)
    gymnasium.registry["tests/Unset-v0"].entry_point = partial(Faulty, "set_state")
    trained(replace(config, steps=40), tmp_path / "run")
    assert main(command(config, tmp_path / "run")) == 2
    assert "eva: the environment failed (ZeroDivisionError, in test_resume.py, line " in capsys.readouterr().err


def test_divergence_limits(tmp_path):
    maze, free = run_config(learner={"discount": 0.75}), gymnasium_config("tests/Drift-v0", 1)
    cases: list[tuple[Config, float, float | None, str | None]] = [
        (maze, 40.0, None, None),  # ten times what rewards of up to 1 can add up to
        (maze, 40.1, None, r"\|Q\| has reached 40.1"),
        (maze, float("nan"), 1.0, r"\|Q\| has reached nan"),
        (maze, 1.0, float("inf"), "the loss is inf"),
        (changed(maze, learner={"discount": 1.0}), 1e9, 1.0, None),
        (free, 1e30, 1.0, None),
        (free, float("inf"), 1.0, r"\|Q\| has reached inf"),
        (changed(maze, run={"stop_when_diverged": False}), 40.1, 1.0, None),
        (changed(maze, run={"stop_when_diverged": False}), float("inf"), 1.0, r"\|Q\| has reached inf"),
    ]
    for number, (config, value, loss, complaint) in enumerate(cases):
        training = Training(config)
        with RunDirectory(tmp_path / str(number), config) as directory:
            directory.begin({})
            next(training.steps())
            training.agent.monitor.largest_abs_q = value
            checkpointer = Checkpointer(training, directory)
            if complaint is None:
                checkpointer.check_divergence(loss)
            else:
                with pytest.raises(UserError, match=complaint):
                    checkpointer.check_divergence(loss)


def test_diverged_run_continues_with_no_stop_when_diverged(tmp_path, capsys):
    config = run_config(learner={"learning_rate": 10.0, "learning_starts_transitions": 45})
    assert main(command(config, tmp_path)) == 2
    assert "lower learner.learning_rate, go on with --run.no-stop-when-diverged, or examine" in capsys.readouterr().err
    assert main([*command(config, tmp_path), "--run.no-stop-when-diverged"]) == 0
    assert "goes on from 40 transitions." in capsys.readouterr().err
    assert status_of(tmp_path)["state"] == "finished"
    assert status_of(tmp_path)["diverged"].startswith("|Q| has reached ")
    assert "seed 0 diverged: |Q| has reached " in write_report([tmp_path]).html.read_text()


def test_network_with_nan_is_not_saved_as_a_good_checkpoint(tmp_path):
    """Also if the network has not been evaluated in any state yet."""
    config = run_config()
    training = Training(config)
    with RunDirectory(tmp_path, config) as directory:
        directory.begin({})
        next(training.steps())
        next(iter(training.agent.learner.network.parameters())).data[0] = torch.nan
        with pytest.raises(UserError, match="a parameter of the network"):
            Checkpointer(training, directory).save()
    assert [entry.name for entry in (tmp_path / "checkpoints").iterdir()] == ["diverged-step-000000000001"]
