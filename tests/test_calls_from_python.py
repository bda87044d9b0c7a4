"""Calls of the public names with a wrong argument raise one sentence that says what to pass."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

import eva
from eva.agent.agent import EVAAgent
from eva.config import EVALUATION_EPISODES, EVALUATION_WEIGHTS, Config
from eva.runs import evaluate as evaluation
from tests.helpers.agents import built, tiny

HEAD = torch.nn.Linear(32, 2)


@pytest.fixture(scope="module")
def agent() -> EVAAgent:
    return built(tiny(2))[0]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    eva.train(tiny(steps=40), path, io.StringIO())
    return path


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: eva.Config(learner={"batch_size": 8}), "learner is {'batch_size': 8}, but must be a LearnerConfig"),
        (lambda: eva.Config(eva=0.4), "eva is 0.4, but must be a EVAConfig"),
        (
            lambda: eva.Config(environment="CartPole-v1"),
            "environment is 'CartPole-v1', but must be a EnvironmentConfig",
        ),
        (lambda: eva.train("smok", "nowhere"), "there is no preset 'smok': did you mean 'smoke'"),
        (lambda: eva.train({"steps": 5}, "nowhere"), "must be an eva.Config or the name of a preset"),
        (lambda: eva.train(Path("run"), "nowhere"), "must be an eva.Config or the name of a preset"),
        (lambda: eva.for_environment(gymnasium.make("CartPole-v1")), "for_environment takes an id"),
        (lambda: eva.for_environment(lambda: None), "environment=lambda: MyEnv()"),
        (
            lambda: eva.EVAConfig(nonparametric_weight=1.5),
            "eva.nonparametric_weight is 1.5, but must be a number between",
        ),
        (lambda: eva.EVAConfig(trace="x"), "eva.trace is 'x', but must be one of"),
        (lambda: eva.make_adjuster(HEAD, embedding_size=16, num_actions=2), "values does not fit embedding_size=16"),
        (lambda: eva.make_adjuster(HEAD, embedding_size=32, num_actions=3), r"values returns (2, 2) for 2 embeddings"),
        (lambda: eva.make_adjuster(None, embedding_size=32, num_actions=2), "values does not fit"),
        (lambda: eva.make_adjuster(HEAD, embedding_size="32", num_actions=2), "embedding_size is '32', but must be"),
        (lambda: eva.make_adjuster(HEAD, embedding_size=32, num_actions=2, config=0.4), "config is 0.4, but must be"),
    ],
)
def test_wrong_argument_is_one_sentence(call: Callable[[], Any], expected: str) -> None:
    with pytest.raises(eva.UserError) as error:
        call()
    assert expected in str(error.value)
    assert "\n" not in str(error.value)


def test_one_observation_without_its_axis_is_one_sentence(agent: EVAAgent) -> None:
    observations = eva.build_environment(tiny(2)).reset()
    with pytest.raises(eva.UserError, match=r"observations are .* pass observation\[None\] for one"):
        agent.act(observations[0])
    assert agent.act(observations).shape == (2,)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"weights": 0.4}, r"weights is 0.4, but must be a list of weights: weights=\[0.4\]"),
        ({"weights": [0.4, "x"]}, r"weights is .* must be a list of numbers between 0 and 1"),
        ({"num_episodes": 2.5}, "num_episodes is 2.5, but must be a whole number of at least 1"),
        ({"weights": [0.4], "num_episodes": 0}, "num_episodes is 0, but must be a whole number of at least 1"),
        ({"seed": "3"}, "seed is '3', but must be a whole number of at least 0"),
    ],
)
def test_wrong_argument_of_evaluate_is_one_sentence(arguments: dict[str, Any], expected: str, run: Path) -> None:
    with pytest.raises(eva.UserError, match=expected):
        eva.evaluate(run, **arguments)


def test_evaluate_has_the_defaults_of_the_command(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[tuple[float, int, int, float]] = []
    monkeypatch.setattr(evaluation, "_evaluate", lambda _, __, *rest: played.append(rest[:4]))
    eva.evaluate(run)
    assert played == [(weight, EVALUATION_EPISODES, 0, 0.05) for weight in EVALUATION_WEIGHTS]
    assert (EVALUATION_WEIGHTS, EVALUATION_EPISODES) == ((0.0, 0.2, 0.4), 100)


def test_train_takes_the_name_of_a_preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eva.runs.loop.preset", lambda name: tiny(steps=20) if name == "smoke" else None)
    eva.train("smoke", tmp_path / "run", io.StringIO())
    assert Config.from_json((tmp_path / "run" / "config.json").read_text()).steps == 20


def test_evadqn_with_a_number_is_one_sentence() -> None:
    pytest.importorskip("stable_baselines3")
    from eva.integrations.sb3 import EVADQN

    with pytest.raises(eva.UserError, match=r"eva is 0.4, but must be an EVAConfig: EVAConfig\(nonparametric_weight"):
        EVADQN("MlpPolicy", "CartPole-v1", eva=0.4)


def test_values_of_an_adjuster_may_have_another_precision() -> None:
    head = torch.nn.Linear(4, 3).double()
    adjuster = eva.make_adjuster(lambda h: head(h.double()), embedding_size=np.int64(4), num_actions=3)
    assert adjuster.value_buffers[0].values.shape[1] == 3
