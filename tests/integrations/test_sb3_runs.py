"""Runs of Stable-Baselines3's DQN: SB3's results for our config, recorded in our files."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.monitor import Monitor

from eva.config import Config, EnvironmentConfig, EVAConfig
from eva.envs.maze import CoinMaze
from eva.errors import UserError
from eva.experiments.beyond.baselines import TRAINER
from eva.integrations.sb3 import EVADQN
from eva.integrations.sb3_runs import build_model, policy_arguments, train
from eva.report.reading import read_run
from eva.runs.record.directory import RunDirectory
from eva.runs.record.status import read_status
from eva.runs.stopping import StoppedError
from eva.runs.sweep.jobs import Job
from eva.runs.sweep.worker import work
from eva.schema import from_dict, to_dict

EVA = EVAConfig(nonparametric_weight=0.4, trajectory_length=5, value_buffer_capacity=60)
CONFIG = from_dict(
    Config,
    {
        "name": "sb3-maze",
        "seed": 5,
        "steps": 240,
        "maze": {"num_coins": 2, "max_episode_steps": 17},
        "network": {"channels": [4, 6], "embedding_size": 16},
        "replay": {"replay_capacity": 100},
        "learner": {
            "discount": 0.9,
            "batch_size": 7,
            "learning_rate": 2e-3,
            "error": "huber",
            "target_period_updates": 13,
            "learning_starts_transitions": 40,
            "update_period_steps": 2,
            "updates_per_round": 2,
        },
        "exploration": {"epsilon_start": 0.9, "epsilon_end": 0.2, "epsilon_decay_transitions": 120},
        "eva": to_dict(EVA),
        "run": {"device": "cpu", "metrics_period_transitions": 60},
    },
)
RECORDS = ("config.json", "episodes.csv", "metrics.jsonl", "status.json")


def weighted(weight: float) -> Config:
    return replace(CONFIG, eva=replace(EVA, nonparametric_weight=weight))


def by_hand(weight: float, environment: Any) -> DQN:
    """Return the plain SB3 model with the same hyper-parameters."""
    numbers: dict[str, Any] = {
        "learning_rate": 2e-3,
        "buffer_size": 100,
        "learning_starts": 40,
        "batch_size": 7,
        "gamma": 0.9,
        "train_freq": 2,
        "gradient_steps": 2,
        "target_update_interval": 13,
        "exploration_fraction": 0.5,
        "exploration_initial_eps": 0.9,
        "exploration_final_eps": 0.2,
        "policy_kwargs": policy_arguments(CONFIG.network),
        "seed": 5,
        "device": "cpu",
    }
    agent = (
        DQN("CnnPolicy", environment, **numbers)
        if weight == 0
        else EVADQN("CnnPolicy", environment, eva=EVA, **numbers)
    )
    agent.set_logger(Logger(None, []))
    return agent.learn(240)


@pytest.mark.parametrize("weight", [0.0, 0.4])
def test_run_matches_plain_sb3(weight: float, tmp_path: Path) -> None:
    maze = Monitor(CoinMaze(num_coins=2, max_episode_steps=17))
    theirs, ours = by_hand(weight, maze), build_model(weighted(weight)).learn(240)
    assert type(ours) is type(theirs)
    for parameter, other in zip(ours.policy.parameters(), theirs.policy.parameters(), strict=True):
        torch.testing.assert_close(parameter, other, rtol=0, atol=0)
    train(weighted(weight), tmp_path / "run")
    run = read_run(tmp_path / "run")
    assert run.finished
    assert run.transitions == 240
    assert run.weight == weight
    assert run.episode_returns.tolist() == pytest.approx(maze.get_episode_rewards(), abs=1e-5)
    lengths = maze.get_episode_lengths()
    assert len(lengths) > 10
    assert run.episode_steps.tolist() == [sum(lengths[: i + 1]) for i in range(len(lengths))]


def test_the_network_is_that_of_the_config() -> None:
    shapes = [tuple(parameter.shape) for parameter in build_model(CONFIG).q_net.parameters() if parameter.ndim > 1]
    assert shapes == [(4, 3, 3, 3), (6, 4, 3, 3), (16, 6 * 2 * 6), (4, 16)], "7 x 15 pixels, then 5 x 13, then 2 x 6"


def test_the_records_are_the_same_bytes_every_time(tmp_path: Path) -> None:
    for name in ("first", "second"):
        train(CONFIG, tmp_path / name)
    for name in RECORDS:
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()
    lines = [json.loads(line) for line in (tmp_path / "first" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [60, 120, 180, 240]
    last, provenance = lines[-1], json.loads((tmp_path / "first" / "provenance.json").read_text())
    assert last["epsilon"] == pytest.approx(0.2)
    assert last["weight"] == 0.4
    assert 0 < max(line["changed_share"] for line in lines[1:]) < 1
    assert last["value_buffer_entries"] == 60
    assert last["updates"] == 198, "two for two transitions from 42 to 238"
    assert provenance["versions"]["stable-baselines3"] is not None


def test_no_temporary_files_are_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    train(replace(CONFIG, steps=60), tmp_path / "run")
    assert not (tmp_path / "temporary").exists()


def test_finished_run_is_unchanged_and_unfinished_run_restarts(tmp_path: Path) -> None:
    job = Job(tmp_path / "run", CONFIG, trainer=TRAINER)
    work(job)
    assert job.is_done_in(job.directory)
    before = {path.name: path.stat().st_mtime_ns for path in job.directory.iterdir()}
    work(job)
    assert {path.name: path.stat().st_mtime_ns for path in job.directory.iterdir()} == before
    whole = (job.directory / "episodes.csv").read_bytes()
    (job.directory / "status.json").write_text(json.dumps({"state": "running", "step": 120, "steps": 240}))
    (job.directory / "episodes.csv").write_bytes(whole[: len(whole) // 2])
    work(job)
    assert job.is_done_in(job.directory)
    assert (job.directory / "episodes.csv").read_bytes() == whole


def test_a_run_stops_when_asked_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add = RunDirectory.add_metrics

    def interrupted(*arguments: Any) -> None:
        add(*arguments)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(RunDirectory, "add_metrics", interrupted)
    with pytest.raises(StoppedError):
        train(CONFIG, tmp_path / "run")
    status = read_status(tmp_path / "run")
    assert (status.state, status.step) == ("stopped", 60)
    monkeypatch.undo()
    train(CONFIG, tmp_path / "run")
    assert read_run(tmp_path / "run").finished


def test_signal_after_the_last_step_finishes_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learn = DQN.learn

    def interrupted(self: DQN, *arguments: Any, **options: Any) -> DQN:
        learn(self, *arguments, **options)
        os.kill(os.getpid(), signal.SIGTERM)
        return self

    monkeypatch.setattr(DQN, "learn", interrupted)
    with pytest.raises(StoppedError):
        train(CONFIG, tmp_path / "run")
    assert read_run(tmp_path / "run").finished


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"learner": {"error": "squared"}}, "requires learner.error = 'huber', not 'squared'"),
        ({"learner": {"error": "huber", "double": True}}, "learner.double = False, not True"),
        ({"learner": {"error": "huber", "learning_rate_end": 1e-5}}, "learner.learning_rate_end = None, not 1e-05"),
        ({"learner": {"error": "huber", "optimiser": "rmsprop"}}, "learner.optimiser = .adam., not .rmsprop."),
        ({"learner": {"error": "huber"}, "replay": {"prioritised": True}}, "replay.prioritised = False, not True"),
        ({"environment": to_dict(EnvironmentConfig("CartPole-v1"))}, "environment.id = .*, not 'CartPole-v1'"),
        ({"environment": {"num_environments": 2}}, "environment.num_environments = 1, not 2"),
    ],
)
def test_unsupported_configs_raise(changed: dict[str, Any], expected: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=expected):
        train(from_dict(Config, changed), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sb3", "sb3_runs"):
        monkeypatch.delitem(sys.modules, f"eva.integrations.{name}")
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    with pytest.raises(UserError, match=r'pip install "ephemeral-value-adjustments\[sb3\]"'):
        work(Job(tmp_path / "run", CONFIG, trainer=TRAINER))
