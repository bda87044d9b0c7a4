from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Space

from eva.envs.vector import GymnasiumVector, make_gymnasium
from eva.errors import UserError
from eva.ids import MAZE_ID

VECTOR = Box(-np.inf, np.inf, (2,), np.float32)


class Scripted(gymnasium.Env[Any, Any]):
    """Shows (episode, step). Each step has a letter: `.` goes on, `T` terminates, `|` truncates, `B` does both."""

    def __init__(
        self, script: str = "..T", action_space: Space | None = None, observation_space: Space = VECTOR
    ) -> None:
        self.action_space = Discrete(3) if action_space is None else action_space
        self.observation_space = observation_space
        self.script = script
        self.seeds: list[int | None] = []
        self.actions: list[Any] = []
        self.episode = -1
        self.buffer = np.zeros(2, np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.seeds.append(seed)
        self.episode, self.steps = self.episode + 1, 0
        return self._show(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.steps < len(self.script), "a step after the episode's end"
        self.actions.append(action)
        letter = self.script[self.steps]
        self.steps += 1
        return self._show(), 10.0 * self.episode + self.steps, letter in "TB", letter in "|B", {}

    def _show(self) -> np.ndarray:
        self.buffer[:] = self.episode, self.steps  # always the same array: a caller that keeps it without a copy fails
        return self.buffer


def vector_of(*environments: gymnasium.Env[Any, Any], seeds: list[int] | None = None) -> GymnasiumVector:
    made = iter(environments)
    return GymnasiumVector(lambda: next(made), seeds or list(range(len(environments))))


def zeros(num: int) -> np.ndarray:
    return np.zeros(num, np.int64)


def test_episode_end_returns_next_start_and_true_last_observation() -> None:
    vector = vector_of(Scripted("..T"), Scripted(".|"))
    assert vector.reset().tolist() == [[0, 0], [0, 0]]
    outcomes = [vector.step(zeros(2)) for _ in range(4)]
    assert [x.observations.tolist() for x in outcomes] == [
        [[0, 1], [0, 1]],
        [[0, 2], [1, 0]],
        [[1, 0], [1, 1]],
        [[1, 1], [2, 0]],
    ]
    assert [x.last_observations.tolist() for x in outcomes] == [
        [[0, 1], [0, 1]],
        [[0, 2], [0, 2]],
        [[0, 3], [1, 1]],
        [[1, 1], [1, 2]],
    ]
    assert [x.terminated.tolist() for x in outcomes] == [[False, False], [False, False], [True, False], [False, False]]
    assert [x.truncated.tolist() for x in outcomes] == [[False, False], [False, True], [False, False], [False, True]]
    assert [x.rewards.tolist() for x in outcomes] == [[1, 1], [2, 2], [3, 11], [11, 12]]  # none for a reset


def test_termination_at_time_limit_is_not_truncation() -> None:
    vector = vector_of(Scripted("B"))
    vector.reset()
    outcome = vector.step(zeros(1))
    assert outcome.terminated.tolist() == [True]
    assert outcome.truncated.tolist() == [False]


def test_later_steps_do_not_change_returned_arrays() -> None:
    vector = vector_of(Scripted("...T"))
    first = vector.reset()
    outcomes = [vector.step(zeros(1)) for _ in range(3)]
    assert first.tolist() == [[0, 0]]
    assert [x.observations.tolist() for x in outcomes] == [[[0, 1]], [[0, 2]], [[0, 3]]]
    outcomes[0].observations[:] = -1
    assert outcomes[0].last_observations.tolist() == [[0, 1]]


def test_actions_are_offset_by_the_start_of_the_space() -> None:
    offset, plain = Scripted("." * 9, Discrete(3, start=5)), Scripted("." * 9, Discrete(3, start=5))
    vector = vector_of(offset, plain)
    vector.reset()
    for actions in ([0, 2], [1, 0]):
        vector.step(np.array(actions))
    assert vector.spec.num_actions == 3
    assert offset.actions == [5, 6]
    assert plain.actions == [7, 5]


def test_each_environment_is_seeded_once() -> None:
    environments = Scripted("T"), Scripted("T")
    vector = vector_of(*environments, seeds=[3, 8])
    vector.reset()
    vector.step(zeros(2))
    assert [environment.seeds for environment in environments] == [[3, None], [8, None]]


def test_same_seeds_give_same_observations() -> None:
    def episode(seeds: list[int]) -> list[list[float]]:
        vector = GymnasiumVector(lambda: make_gymnasium("CartPole-v1"), seeds)
        shown = [vector.reset()] + [vector.step(np.ones(2, np.int64)).observations for _ in range(25)]
        return np.stack(shown).reshape(26, -1).tolist()

    assert episode([1, 2]) == episode([1, 2])
    assert episode([1, 2]) != episode([1, 3])


def test_spec_describes_the_environments() -> None:
    spec = GymnasiumVector(lambda: make_gymnasium("CartPole-v1"), [0, 1, 2]).spec
    assert (spec.num_environments, spec.num_actions, spec.observation_shape) == (3, 2, (4,))
    assert spec.observation_dtype == np.float32
    image = Scripted(observation_space=Box(0, 255, (8, 8, 3), np.uint8))
    spec = vector_of(image).spec
    assert (spec.observation_shape, spec.observation_dtype) == ((8, 8, 3), np.uint8)


@pytest.mark.parametrize(
    ("spaces", "advice"),
    [
        ({"action_space": Box(-1, 1, (2,), np.float32)}, "Scripted has Box actions, but EVA needs discrete ones"),
        ({"action_space": MultiDiscrete([2, 2])}, "MultiDiscrete actions"),
        ({"observation_space": Dict({"a": VECTOR})}, "EVA needs an image or a vector"),
        ({"observation_space": Discrete(5)}, "EVA needs an image or a vector"),
        ({"observation_space": Box(0, 1, (4, 4), np.float32)}, "EVA needs an image or a vector"),
        ({"observation_space": Box(0, 1, (0,), np.float32)}, "EVA needs an image or a vector"),
    ],
)
def test_unsupported_spaces_raise(spaces: dict[str, Space], advice: str) -> None:
    with pytest.raises(UserError, match=advice):
        vector_of(Scripted(**spaces))


def test_observation_of_wrong_shape_raises() -> None:
    liar = Scripted(observation_space=Box(0, 1, (5,), np.float32))
    with pytest.raises(UserError, match=r"shape \(2,\) differs from that of the observation space, \(5,\)"):
        vector_of(liar).reset()


class Careless(Scripted):
    """An environment whose second step has the given mistake."""

    def __init__(self, mistake: str) -> None:
        super().__init__("...T")
        self._mistake = mistake

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, *rest = super().step(action)
        if self.steps < 2:
            return observation, np.array([reward]), *rest  # accepted
        if self._mistake == "shape":
            return observation[:1], reward, *rest
        if self._mistake == "reward":
            return observation, np.ones(2), *rest
        raise KeyError("its own")


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        ("shape", r"shape \(1,\) differs from that of the observation space, \(2,\)"),
        ("reward", r"the environment failed \(ValueError: .*, in vector.py, line \d+\): fix it."),
        ("step", r"the environment failed \(KeyError: 'its own', in test_vector.py, line \d+\): fix it."),
    ],
)
def test_errors_of_the_environment_are_reported(mistake: str, message: str) -> None:
    vector = vector_of(Careless(mistake))
    vector.reset()
    assert vector.step(zeros(1)).rewards.tolist() == [1.0]
    with pytest.raises(UserError, match=message):
        vector.step(zeros(1))


def test_missing_package_is_reported_by_name(tmp_path, monkeypatch) -> None:
    (tmp_path / "needing.py").write_text("import a_package_that_is_not_there\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match="needs a package that is not installed: a_package_that_is_not_there"):
        make_gymnasium("needing:Thing-v0")


def test_error_about_continuous_actions_contains_the_id() -> None:
    with pytest.raises(UserError, match="Pendulum-v1 has Box actions"):
        GymnasiumVector(lambda: make_gymnasium("Pendulum-v1"), [0])


@pytest.mark.parametrize(
    ("environment_id", "advice"),
    [
        ("CartPol-v1", "did you mean 'CartPole-v1'"),
        ("CartPole-v99", "did you mean 'CartPole-v1'"),
        ("Mine-v0", "if a module of yours registers it, give MODULE:Mine-v0; if not, "),
        ("eva/CoinMase-v0", f"did you mean '{MAZE_ID}'"),
        ("zzzzzz-v0", "the nearest of "),
        ("not an id!", "not an id!"),
        ("no_such_module:Thing-v0", "no_such_module"),
        (":Thing-v0", "cannot be made .ValueError: Empty module name"),
        ("a:b:Thing-v0", "cannot be made .ValueError"),
        ("tests/Absent-v0", "cannot be made .AttributeError"),
    ],
)
def test_unknown_id_raises_with_suggestion(environment_id: str, advice: str) -> None:
    if environment_id == "tests/Absent-v0":
        gymnasium.register(environment_id, entry_point="tests.envs.test_vector:Absent")
    with pytest.raises(UserError, match=advice):
        make_gymnasium(environment_id)


class Exits(Scripted):
    """Ends the process when it is closed."""

    def close(self) -> None:
        raise SystemExit(0)


def test_exit_while_closing_does_not_end_the_command() -> None:
    vector_of(Exits()).close()


class Broken(Scripted):
    """Its observations are text."""

    def _show(self) -> Any:
        return ["a", "b"]


class Lazy(Scripted):
    """Its observation space cannot be read."""

    @property
    def observation_space(self) -> Any:
        raise OSError("no model")

    @observation_space.setter
    def observation_space(self, _: Any) -> None:
        pass


def test_errors_of_the_first_observations_and_of_spaces_are_user_errors() -> None:
    with pytest.raises(UserError, match=r"the environment failed \(ValueError: could not convert string"):
        vector_of(Broken()).reset()
    with pytest.raises(UserError, match=r"the environment failed \(OSError: no model"):
        vector_of(Lazy())
