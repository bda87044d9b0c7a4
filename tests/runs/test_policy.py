"""`load_policy`: acts as an evaluation does, changes nothing else, and reads runs that are not finished."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import eva
from eva.agent.agent import EVAAgent
from eva.cli.main import main
from eva.config import Config
from eva.errors import UserError
from eva.runs.checkpoint.store import Checkpoint, CheckpointStore
from eva.runs.evaluate import environment_and_exploration
from eva.runs.loading import load_run
from eva.runs.loop import train
from tests.helpers.agents import tiny

CONFIG = tiny(2, steps=120, eva={"nonparametric_weight": 0.7})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    train(CONFIG, path, stream=io.StringIO())
    return path


@pytest.fixture
def unfinished(run: Path, tmp_path: Path) -> Path:
    """A copy of the run as it is after 60 of 120 transitions, with other files of an earlier finish."""
    path = tmp_path / "unfinished"
    train(replace(CONFIG, steps=60), path, stream=io.StringIO())
    (path / "status.json").write_text(json.dumps({"state": "running", "step": 80, "steps": 120}))
    shutil.copy(run / "policy.safetensors", path)
    return path


def contents(path: Path) -> dict[str, bytes]:
    return {str(each): each.read_bytes() for each in path.rglob("*") if each.is_file()}


@pytest.mark.parametrize("weight", [0.0, 0.7])
def test_episodes_equal_those_of_an_evaluation(weight: float, run: Path) -> None:
    (evaluation,) = eva.evaluate(run, [weight], 3, seed=4, epsilon=0.0)
    policy = eva.load_policy(run, weight=weight)
    for i in range(3):
        environment, _ = environment_and_exploration(CONFIG, np.random.SeedSequence([4, i]), 0.0)
        observations, total, ended = environment.reset(), 0.0, False
        policy.reset()
        while not ended:
            action = policy(observations[0])
            assert type(action) is int
            outcome = environment.step(np.array([action]))
            observations, total = outcome.observations, total + float(outcome.rewards[0])
            ended = bool(outcome.terminated[0] or outcome.truncated[0])
        assert total == pytest.approx(evaluation.episode_returns[i])


def test_batch_equals_single_episodes(run: Path) -> None:
    environment = eva.build_environment(CONFIG)
    steps = [environment.reset()]
    generator = np.random.default_rng(0)
    steps += [environment.step(generator.integers(4, size=2)).observations for _ in range(12)]
    together = eva.load_policy(run)
    batches = [together(observations) for observations in steps]
    assert batches[0].shape == (2,)
    for e in range(2):
        single = eva.load_policy(run)
        assert [single.act(observations[e]) for observations in steps] == [batch[e] for batch in batches]


def test_default_is_greedy_with_the_weight_of_the_run(run: Path) -> None:
    policy = eva.load_policy(run)
    assert (policy.weight, policy.step, policy.config.steps) == (0.7, 120, 120)
    observation = eva.build_environment(CONFIG).reset()[0]
    _, agent = load_run(run)
    with torch.no_grad():
        values, _ = agent.learner.network(torch.from_numpy(observation[None]))
    alone = eva.load_policy(run, weight=0.0)
    assert {alone(observation) for _ in range(30)} == {int(values.argmax())}
    random = eva.load_policy(run, epsilon=1.0, seed=1)
    drawn = [random(observation) for _ in range(30)]
    assert len(set(drawn)) > 1
    again = eva.load_policy(run, epsilon=1.0, seed=1)
    assert [again(observation) for _ in range(30)] == drawn


def test_plans_are_made_at_the_period_and_dropped_by_reset(run: Path) -> None:
    policy = eva.load_policy(run)
    observation = eva.build_environment(CONFIG).reset()[0]

    def entries() -> int:
        player = policy._player
        assert isinstance(player, EVAAgent)
        return sum(map(len, player.adjuster.value_buffers))

    counts = []
    for _ in range(1 + 2 * CONFIG.eva.plan_period_steps):
        policy(observation)
        counts.append(player_rounds(policy))
    assert counts == [1] * 5 + [2] * 5 + [3]
    assert entries() > 0
    before = policy(observation)
    policy.reset()
    fresh = eva.load_policy(run)
    assert policy(observation) == fresh(observation)
    assert player_rounds(policy) == 1
    assert type(before) is int


def player_rounds(policy: Any) -> int:
    return int(policy._player.adjuster._history.num_rounds)


def test_nothing_outside_changes(run: Path) -> None:
    files, threads = contents(run), torch.get_num_threads()
    states = torch.random.get_rng_state(), str(np.random.get_state())  # noqa: NPY002
    policy = eva.load_policy(run, epsilon=0.5)
    learned = {name: value.clone() for name, value in policy._agent.learner.network.state_dict().items()}
    memory = {name: np.asarray(value).copy() for name, value in policy._agent.replay.state_dict().items()}
    for observations in (eva.build_environment(CONFIG).reset() for _ in range(8)):
        policy(observations)
    assert contents(run) == files
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.random.get_rng_state(), states[0])
    assert str(np.random.get_state()) == states[1]  # noqa: NPY002
    assert all(torch.equal(value, learned[name]) for name, value in policy._agent.learner.network.state_dict().items())
    for name, value in policy._agent.replay.state_dict().items():
        np.testing.assert_array_equal(np.asarray(value), memory[name])


def test_wrong_observations_and_options_are_one_sentence(run: Path) -> None:
    policy = eva.load_policy(run)
    observations = eva.build_environment(CONFIG).reset()
    with pytest.raises(UserError, match="takes an observation of shape"):
        policy(observations[0][0])
    with pytest.raises(UserError, match="takes an observation of shape"):
        policy(observations[:0])
    policy(observations)
    with pytest.raises(UserError, match=r"plans for 2 episode.s., but got 1 .*call policy.reset"):
        policy(observations[0])
    alone = eva.load_policy(run, weight=0.0)
    assert alone(observations)[0] == alone(observations[0]), "without plans, any number at any time"
    for wrong in ({"weight": 1.5}, {"epsilon": -0.1}, {"weight": "0.4"}, {"seed": -1}):
        with pytest.raises(UserError, match="a weight and an epsilon from 0 to 1"):
            eva.load_policy(run, **wrong)


# Runs that are not finished


def test_unfinished_run_is_read_from_its_newest_checkpoint(unfinished: Path, capsys: Any) -> None:
    files = contents(unfinished)
    policy = eva.load_policy(unfinished)
    assert policy.step == 60
    assert capsys.readouterr().err == f"{unfinished} is running: this is its checkpoint after 60 transitions.\n"
    saved = CheckpointStore(unfinished / "checkpoints").load_newest(CONFIG.identity)[0]
    assert saved is not None
    for name, value in policy._agent.learner.network.state_dict().items():
        np.testing.assert_array_equal(value, saved.arrays[f"training/agent/learner/network/{name}"])
    assert contents(unfinished) == files
    assert main(["evaluate", str(unfinished), "--episodes", "1", "--json"]) == 0
    out, err = capsys.readouterr()
    assert [each["step"] for each in json.loads(out)["results"]] == [60, 60, 60]
    assert "after 60 transitions" in err
    assert main(["inspect", str(unfinished), "--max-steps", "3"]) == 0
    assert "after 60 transitions" in capsys.readouterr().err
    shutil.rmtree(unfinished / "checkpoints")
    with pytest.raises(UserError, match=r"not finished \(its state is running\) and has no checkpoint yet"):
        eva.load_policy(unfinished)


def test_forged_checkpoint_is_one_sentence(unfinished: Path) -> None:
    store = CheckpointStore(unfinished / "checkpoints")
    for plain in ({}, {"training": {"agent": {"learner": {"network": {}}, "replay": {}}}}, {"training": 3}):
        store.save(Checkpoint(70, CONFIG.identity, plain, {}))
        with pytest.raises(UserError, match=r"is no run's|does not fit"):
            eva.load_policy(unfinished)


def test_checkpoints_are_read_while_another_thread_replaces_them(tmp_path: Path) -> None:
    """With one kept, each save removes the checkpoint that may be being read; the last step is saved twice."""
    store, stop = CheckpointStore(tmp_path / "checkpoints", keep=1), threading.Event()
    arrays = {f"a{i}": np.full(1 << 18, i, np.int64) for i in range(2)}

    def save(step: int) -> None:
        store.save(Checkpoint(step, {}, {"step": step}, arrays))

    def keep_saving() -> None:
        step = 1
        while not stop.is_set():
            save(step)
            save(step)
            step += 1

    save(0)
    thread = threading.Thread(target=keep_saving)
    thread.start()
    try:
        steps: list[int] = []
        while len(set(steps)) < 10:
            checkpoint, warnings = CheckpointStore(tmp_path / "checkpoints").load_newest({})
            assert checkpoint is not None
            assert warnings == []
            assert checkpoint.plain == {"step": checkpoint.step}
            steps.append(checkpoint.step)
    finally:
        stop.set()
        thread.join()
    assert steps == sorted(steps)


@pytest.mark.slow
def test_running_run_is_evaluated_while_it_trains(tmp_path: Path) -> None:
    flags = ["--run.checkpoint-period-transitions", "50", "--run.checkpoints-kept", "1", "--device", "cpu"]
    command = [sys.executable, "-m", "eva", "train", "smoke", "--steps", "1000000", *flags, "--out", "run"]
    training = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        while not list(tmp_path.glob("run/checkpoints/step-*")):
            assert training.poll() is None
        steps = [eva.load_policy(tmp_path / "run").step for _ in range(20)]
    finally:
        training.terminate()
        training.wait()
    assert steps == sorted(steps)
    assert len(set(steps)) > 1
    config = Config.from_json((tmp_path / "run" / "config.json").read_text())
    assert eva.load_policy(tmp_path / "run").config == config
    assert re.match("stopped", json.loads((tmp_path / "run" / "status.json").read_text())["state"])
