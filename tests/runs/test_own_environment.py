"""Environments of the user's own: functions, keyword arguments, wrappers, images of any size; ids of Atari."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import eva
from eva.build import build_agent, complete, environment_spec
from eva.cli.main import main
from eva.config import Config, EnvironmentConfig, NetworkConfig, ReplayConfig
from eva.errors import UserError
from eva.games import atari_game_of_id
from eva.schema import Arguments
from eva.wiring.memory import bytes_per_slot
from eva.wiring.networks import MOST_BYTES
from tests.helpers.agents import tiny


class Row(gymnasium.Env[np.ndarray, int]):
    """Cells in a row; the reward is at the right end. Its state can be saved."""

    action_space = gymnasium.spaces.Discrete(2, start=3)

    def __init__(self, size: int = 5, render_mode: str | None = None) -> None:
        self.size, self.render_mode, self.closed = size, render_mode, False
        self.observation_space = gymnasium.spaces.Box(0, 1, (size,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.cell, self.age = int(self.np_random.integers(self.size - 1)), 0
        return self._seen(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        assert action in (3, 4)
        self.cell, self.age = max(0, self.cell + (1 if action == 4 else -1)), self.age + 1
        at_end = self.cell == self.size - 1
        return self._seen(), float(at_end), at_end, self.age >= 20, {}

    def _seen(self) -> np.ndarray:
        return np.eye(self.size, dtype=np.float32)[self.cell]

    def get_state(self) -> dict[str, Any]:
        return {"cell": self.cell, "age": self.age}

    def set_state(self, state: dict[str, Any]) -> None:
        self.cell, self.age = state["cell"], state["age"]


class Reversed(gymnasium.ObservationWrapper[np.ndarray, int, np.ndarray]):
    def observation(self, observation: np.ndarray) -> np.ndarray:
        return observation[::-1].copy()


gymnasium.register("Row-v0", Row)
HERE = __name__


def images(shape: tuple[int, ...], dtype: Any = np.uint8) -> gymnasium.Env[Any, Any]:
    return gymnasium.wrappers.TransformObservation(
        Row(), lambda x: np.full(shape, x.argmax(), dtype), gymnasium.spaces.Box(0, 255, shape, dtype)
    )


def plain(steps: int, **environment: Any) -> Config:
    return replace(tiny(steps=steps), name="maze-1-coin", environment=EnvironmentConfig(**environment))


def test_function_trains_and_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    evaluated = {"evaluation": replace(Config().evaluation, period_transitions=40, num_episodes=2)}
    eva.train(replace(plain(120), **evaluated), whole, io.StringIO(), environment=Row)
    for steps in (60, 120):
        eva.train(replace(plain(steps), **evaluated), parts, io.StringIO(), environment=lambda: Row())
    for name in ("config.json", "episodes.csv", "metrics.jsonl", "evaluations.jsonl", "policy.safetensors"):
        assert (whole / name).read_bytes() == (parts / name).read_bytes(), name
    config = Config.from_json((whole / "config.json").read_text())
    assert (config.name, config.environment.id) == ("Row", "python/Row")
    assert len(eva.evaluate(whole, [0.4], 3, environment=Row)[0].episode_returns) == 3
    assert eva.load_policy(whole, environment=Row)(np.eye(5, dtype=np.float32)[0]) in (3, 4)
    with pytest.raises(UserError, match="Row is an environment that Python code passed: pass it again"):
        eva.evaluate(whole)


def test_one_environment_may_be_returned_again_but_not_while_it_is_in_use(tmp_path: Path) -> None:
    environment = Row()
    eva.train(plain(40), tmp_path / "run", io.StringIO(), environment=lambda: environment)
    evaluated = replace(plain(40), evaluation=replace(Config().evaluation, period_transitions=20))
    for name, several in {"two": plain(40, num_environments=2), "evaluated": evaluated}.items():
        with pytest.raises(UserError, match="in use already: let it return a new one at each call"):
            eva.train(several, tmp_path / name, io.StringIO(), environment=lambda: environment)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        (Row(), "environment is a Row, but must be a function"),
        (lambda: 3, "a int is no environment"),
        (lambda: 1 / 0, r"the environment failed \(ZeroDivisionError: .*test_own_environment.py, line"),
        (lambda: gymnasium.make_vec("CartPole-v1", 2), "is no environment: the function must return a gymnasium.Env"),
    ],
)
def test_unusable_function_is_one_sentence(environment: Any, expected: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=expected):
        eva.train(plain(40), tmp_path, environment=environment)


def test_arguments_and_wrappers_reach_the_environment(tmp_path: Path) -> None:
    config = plain(40, id="Row-v0", kwargs={"size": 7}, wrappers=(f"{HERE}:Reversed",))
    assert environment_spec(config).observation_shape == (7,)
    eva.train(config, tmp_path, io.StringIO())
    recorded = json.loads((tmp_path / "config.json").read_text())["environment"]
    assert recorded["kwargs"] == {"size": 7}
    assert Config.from_json((tmp_path / "config.json").read_text()) == complete(config)
    first = eva.build_environment(config).reset()
    second = eva.build_environment(replace(config, environment=replace(config.environment, wrappers=()))).reset()
    np.testing.assert_array_equal(first, second[:, ::-1])
    other = replace(config, environment=replace(config.environment, kwargs={"size": 6}))
    assert other.identity != config.identity
    with pytest.raises(UserError, match="holds another run"):
        eva.train(other, tmp_path)


def test_arguments_are_immutable_and_hashable() -> None:
    given = {"a": [1, {"b": 2}]}
    arguments = Arguments(given)
    given["a"].append(3)  # type: ignore[attr-defined]
    arguments["a"].append(4)
    assert arguments == {"a": [1, {"b": 2}]}
    assert hash(arguments) == hash(Arguments({"a": [1, {"b": 2}]}))
    assert hash(EnvironmentConfig(kwargs=given)) == hash(EnvironmentConfig(kwargs=given))
    for wrong in ({1: 2}, {"a": object()}, {"a": float("nan")}):
        with pytest.raises(UserError, match="are no keyword arguments"):
            EnvironmentConfig(kwargs=wrong)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ('--env Row-v0 --environment.kwargs {"siz":5}', "siz"),
        ("--env Row-v0 --environment.kwargs size=5", 'must be a JSON object, such as {"size": 5}'),
        ("--env Row-v0 --environment.kwargs [5]", "must be a JSON object"),
        ("--env Row-v0 --environment.wrappers nowhere_x:Y", "environment.wrappers 'nowhere_x:Y' cannot be imported"),
        ("--env Row-v0 --environment.wrappers json:dumps", "the wrapper json:dumps failed"),
        ("--env Row-v0 --environment.wrappers json:__name__", "is a str and cannot be called"),
        ('smoke --environment.kwargs {"size":5}', "are for Gymnasium environments: eva/CoinMaze-v0 has fields"),
        ("--env ALE/Pong-v5", "eva train atari --game pong"),
        ("--env ale_py:ALE/Pong-v5", "eva train atari --game pong"),
        ("--env PongNoFrameskip-v4", "eva train atari --game pong"),
        ("--env ALE/MsPacman-ram-v5", "eva train atari --game ms_pacman"),
    ],
)
def test_bad_flags_are_one_sentence(flags: str, expected: str, tmp_path: Path, capsys: Any) -> None:
    assert main(["train", *flags.split(), "--out", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert expected in error
    assert error.count("\n") == 1


def test_command_line_takes_arguments_as_json(tmp_path: Path) -> None:
    flags = ["--environment.kwargs", '{"size": 6}', "--environment.wrappers", f"{HERE}:Reversed", f"{HERE}:Reversed"]
    assert main(["train", "--env", "Row-v0", *flags, "--steps", "20", "--out", str(tmp_path / "run")]) == 0
    environment = Config.from_json((tmp_path / "run" / "config.json").read_text()).environment
    assert (environment.kwargs, environment.wrappers) == ({"size": 6}, (f"{HERE}:Reversed",) * 2)


def test_ids_of_the_arcade_learning_environment_name_their_game() -> None:
    for environment_id, game in {
        "ALE/Pong-v5": "pong",
        "ale_py:ALE/SpaceInvaders-v5": "space_invaders",
        "UpNDownDeterministic-v0": "up_n_down",
        "Qbert-ramNoFrameskip-v4": "qbert",
        "CartPole-v1": None,
        "mine:Pong-v0": None,
        "Pong": None,
    }.items():
        assert atari_game_of_id(environment_id) == game


def test_own_environment_may_have_the_name_of_a_game() -> None:
    gymnasium.register("Pong-v7", Row)
    try:
        assert environment_spec(plain(1, id="Pong-v7")).observation_shape == (5,)
    finally:
        del gymnasium.registry["Pong-v7"]


def test_raw_screens_are_an_explicit_choice() -> None:
    pytest.importorskip("ale_py")
    config = plain(1, id="ale_py:ALE/Pong-v5", kwargs={"obs_type": "rgb"})
    chosen = complete(replace(config, network=NetworkConfig(), replay=ReplayConfig()))
    assert environment_spec(chosen).observation_shape == (210, 160, 3)
    assert chosen.network.channels == (16, 32, 32, 32)
    assert chosen.replay.replay_capacity == 19_000


# Images


SHAPES = [(1, 1, 1), (2, 9, 3), (4, 4, 1), (5, 5, 2), (20, 30, 3), (31, 31, 3), (32, 32, 1), (1, 63, 64)]
SHAPES += [(64, 64, 3), (84, 84, 4), (127, 200, 3), (128, 128, 3), (3, 210, 160), (480, 640, 3)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_network_and_memory_fit_images_of_any_size(shape: tuple[int, ...], dtype: Any, tmp_path: Path) -> None:
    config = Config(steps=10, name="images", run=replace(Config().run, device="cpu"))
    fitted = complete(config, environment=lambda: images(shape, dtype))
    spec = environment_spec(fitted, lambda: images(shape, dtype))
    network = build_agent(replace(fitted, replay=replace(fitted.replay, replay_capacity=10)), spec).learner.network
    assert sum(parameter.numel() for parameter in network.parameters()) < 2_000_000
    size = bytes_per_slot(fitted.replay, fitted.network.embedding_size, spec)
    assert 100 < fitted.replay.replay_capacity <= 50_000
    assert fitted.replay.replay_capacity * size <= MOST_BYTES
    assert fitted.replay.replay_capacity == 50_000 or 1.12 * fitted.replay.replay_capacity * size > MOST_BYTES
    assert complete(fitted, environment=lambda: images(shape, dtype)) == fitted, "again the same"
    if 5 <= min(sorted(shape)[1:]) < 32 and dtype is np.uint8:
        assert (fitted.network, fitted.replay) == (config.network, config.replay), "the maze's suits small images"


def test_run_prints_what_it_chose_and_keeps_what_was_given(tmp_path: Path) -> None:
    config = replace(plain(20), network=NetworkConfig(embedding_size=8))
    printed = io.StringIO()
    eva.train(config, tmp_path / "run", printed, environment=lambda: images((40, 40, 1)))
    assert "chosen by the size of the images (network.fit_images): network.channels (16, 32, 32)" in printed.getvalue()
    recorded = Config.from_json((tmp_path / "run" / "config.json").read_text())
    assert recorded.network.filter_sizes == (4, 4, 3)
    assert recorded.replay.replay_capacity == config.replay.replay_capacity
    for network in (replace(config.network, fit_images=False), replace(config.network, strides=(2, 2))):
        printed = io.StringIO()
        given = replace(config, network=network)
        eva.train(given, tmp_path / f"{network.strides}", printed, environment=lambda: images((40, 40, 1)))
        assert "chosen" not in printed.getvalue()
        recorded = Config.from_json((tmp_path / f"{network.strides}" / "config.json").read_text())
        assert recorded.network.channels == (16, 32)
