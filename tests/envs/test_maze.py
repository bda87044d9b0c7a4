from __future__ import annotations

import json
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from eva.envs.maze import CoinMaze, VectorCoinMaze
from eva.envs.maze_dynamics import Mazes
from eva.envs.maze_layout import MazeLayout, load_layout
from eva.errors import UserError
from eva.ids import MAZE_ID
from eva.types import StepOutcome
from tests.helpers.reference.maze import ReferenceMaze

GOLDEN = json.loads((Path(__file__).parents[1] / "data" / "pycolab_golden.json").read_text())["episodes"]


def vector_maze(num_environments: int, layout, num_coins: int, generator, max_episode_steps: int = 500):
    return VectorCoinMaze(Mazes(num_environments, layout, num_coins, max_episode_steps), generator)


def vector_at(layout: MazeLayout, agent, coins, num_environments: int = 1) -> VectorCoinMaze:
    """Build mazes that all start from one given state."""
    mazes = vector_maze(num_environments, layout, len(coins), np.random.default_rng(0))
    mazes.reset()
    state = mazes.get_state()
    state["agents"][:] = layout.cell_at(*agent)
    state["coins"][:] = False
    state["coins"][:, [layout.cell_at(*coin) for coin in coins]] = True
    mazes.set_state(state)
    return mazes


def references(mazes: VectorCoinMaze, layout: MazeLayout, max_episode_steps: int) -> list[ReferenceMaze]:
    """Build the plain mazes that stand where episodes of `mazes` begin."""
    state, cells = mazes.get_state(), [tuple(cell) for cell in layout.positions.tolist()]
    return [
        ReferenceMaze(list(layout.rows), cells[agent], {cells[c] for c in np.flatnonzero(coins)}, max_episode_steps)
        for agent, coins in zip(state["agents"], state["coins"], strict=True)
    ]


def assert_same(left: StepOutcome, right: StepOutcome) -> None:
    for name in StepOutcome.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name))


@st.composite
def layouts(draw) -> MazeLayout:
    height, width = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    rows = tuple(draw(st.text("...#", min_size=width, max_size=width)) for _ in range(height))
    try:
        layout = MazeLayout(rows)
    except UserError:
        assume(False)
    assume(len(layout.positions) > 1)
    return layout


@pytest.mark.parametrize("episode", GOLDEN)
def test_golden_episodes_of_pycolab_replay_exactly(episode):
    layout = load_layout("open")
    single = CoinMaze("open", len(episode["coins"]))
    single.reset(options={"agent": episode["start"], "coins": episode["coins"]})
    vector = vector_at(layout, episode["start"], episode["coins"], num_environments=2)
    for action, row, column, coins_left, reward, done in episode["steps"]:
        expected = ReferenceMaze(list(layout.rows), (row, column), {tuple(coin) for coin in coins_left}).observation()
        observation, single_reward, terminated, _, _ = single.step(action)
        outcome = vector.step(np.array([action, action]))
        assert (single_reward, terminated) == (reward, done)
        assert outcome.rewards.tolist() == [reward] * 2
        assert outcome.terminated.tolist() == [done] * 2
        assert observation.tolist() == expected
        assert outcome.last_observations.tolist() == [expected] * 2


@settings(max_examples=60, deadline=None)
@given(layout=layouts(), num_environments=st.integers(1, 4), seed=st.integers(0, 2**32), data=st.data())
def test_vector_maze_matches_reference_mazes(layout, num_environments, seed, data):
    num_coins = data.draw(st.integers(1, min(3, len(layout.positions) - 1)))
    limit = data.draw(st.integers(1, 12))
    mazes = vector_maze(num_environments, layout, num_coins, np.random.default_rng(seed), limit)
    first = mazes.reset()
    plain = references(mazes, layout, limit)
    assert first.tolist() == [maze.observation() for maze in plain]
    for actions in np.random.default_rng(seed).integers(0, 4, (30, num_environments)):
        outcome = mazes.step(actions)
        expected = [maze.step(action) for maze, action in zip(plain, actions.tolist(), strict=True)]
        got = zip(outcome.rewards.tolist(), outcome.terminated.tolist(), outcome.truncated.tolist(), strict=True)
        assert list(got) == expected
        assert outcome.last_observations.tolist() == [maze.observation() for maze in plain]
        fresh = references(mazes, layout, limit)
        for e, (_, terminated, truncated) in enumerate(expected):
            if terminated or truncated:
                plain[e] = fresh[e]
                assert len(fresh[e].coins) == num_coins
                assert fresh[e].agent not in fresh[e].coins
        assert outcome.observations.tolist() == [maze.observation() for maze in plain]


@settings(max_examples=40, deadline=None)
@given(layout=layouts(), seed=st.integers(0, 2**32), data=st.data())
def test_coin_maze_matches_reference_maze(layout, seed, data):
    limit = data.draw(st.integers(1, 12))
    cells = [tuple(cell) for cell in layout.positions.tolist()]
    start = data.draw(st.permutations(cells))[: data.draw(st.integers(2, min(4, len(cells))))]
    single = CoinMaze(layout, len(start) - 1, limit)
    plain = ReferenceMaze(list(layout.rows), start[0], set(start[1:]), limit)
    observation, _ = single.reset(options={"agent": start[0], "coins": start[1:]})
    assert observation.tolist() == plain.observation()
    for action in np.random.default_rng(seed).integers(0, 4, limit):
        observation, *rest, info = single.step(action)
        assert (tuple(rest), info) == (plain.step(int(action)), {})
        assert observation.tolist() == plain.observation()
        if rest[1] or rest[2]:
            return
    raise AssertionError("the episode did not end at its limit")


def test_start_states_are_distinct_and_uniform():
    layout, num_starts = load_layout("..\n..\n"), 24_000
    mazes = vector_maze(num_starts, layout, 2, np.random.default_rng(0))
    mazes.reset()
    state = mazes.get_state()
    assert (state["coins"].sum(axis=1) == 2).all()
    assert not state["coins"][np.arange(num_starts), state["agents"]].any()
    _, counts = np.unique(np.column_stack([state["agents"], state["coins"]]), axis=0, return_counts=True)
    assert len(counts) == 4 * 3  # one agent cell, two coin cells of the other three
    assert np.abs(counts - num_starts / 12).max() < 5 * np.sqrt(num_starts / 12)


def test_an_episode_is_truncated_at_500_steps():
    mazes = vector_at(load_layout("paper"), (0, 0), [(4, 12)])
    for step in range(1, 501):
        outcome = mazes.step(np.array([0]))
        assert not outcome.terminated
        assert outcome.truncated == (step == 500)
        assert (outcome.observations == outcome.last_observations).all() == (step < 500)
    np.testing.assert_array_equal(outcome.last_observations[0, 1, 1], [0, 255, 255])
    assert mazes.get_state()["steps"] == 0


def test_last_coin_on_last_step_terminates():
    single = CoinMaze("...\n", 1, max_episode_steps=2)
    single.reset(options={"agent": (0, 0), "coins": [(0, 2)]})
    assert single.step(1)[1:4] == (-0.01, False, False)
    assert single.step(1)[1:4] == (0.99, True, False)


def test_observations_show_the_papers_colours():
    single = CoinMaze("paper", 1)
    observation, _ = single.reset(options={"agent": (0, 0), "coins": [(4, 12)]})
    assert (observation.shape, observation.dtype) == ((7, 15, 3), np.uint8)
    assert observation[1, 1].tolist() == [0, 255, 255]
    assert observation[5, 13].tolist() == [255, 255, 0]
    assert observation[0, 0].tolist() == observation[2, 3].tolist() == [128, 0, 128]
    assert observation[1, 2].tolist() == [0, 0, 0]


def test_changing_returned_arrays_does_not_change_the_mazes():
    scribbled, clean = (vector_maze(3, "paper", 2, np.random.default_rng(1), 9) for _ in range(2))
    scribbled.reset()[:] = 7
    clean.reset()
    for actions in np.random.default_rng(2).integers(0, 4, (50, 3)):
        mine, other = scribbled.step(actions), clean.step(actions)
        assert_same(mine, other)
        assert not np.shares_memory(mine.observations, mine.last_observations)
        for name in StepOutcome.__dataclass_fields__:
            getattr(mine, name)[:] = 1
        for array in (scribbled.get_state()[name] for name in ("agents", "coins", "steps")):
            array[:] = 1


def test_a_restored_state_continues_identically():
    actions = np.random.default_rng(3).integers(0, 4, (120, 4))
    mazes = vector_maze(4, "paper", 2, np.random.default_rng(4), 25)
    mazes.reset()
    for row in actions[:40]:
        mazes.step(row)
    state = mazes.get_state()
    assert json.loads(json.dumps(state["generator"])) == state["generator"]
    restored = vector_maze(4, "paper", 2, np.random.default_rng(99), 25)
    restored.set_state(state)
    ended = False
    for row in actions[40:]:
        outcome = mazes.step(row)
        assert_same(outcome, restored.step(row))
        ended |= (outcome.terminated | outcome.truncated).any()
    assert ended
    fewer = vector_maze(3, "paper", 2, np.random.default_rng(0))
    with pytest.raises(ValueError, match="agents has shape"):
        fewer.set_state(state)


def test_spec_describes_the_observations():
    mazes = vector_maze(3, "paper", 1, np.random.default_rng(0))
    observations = mazes.reset()
    spec = mazes.spec
    assert observations.shape == (spec.num_environments, *spec.observation_shape)
    assert observations.dtype == spec.observation_dtype
    assert spec.num_actions == 4


def test_gymnasium_accepts_the_environment():
    for num_coins in (1, 4):
        check_env(gymnasium.make(MAZE_ID, num_coins=num_coins, render_mode="rgb_array").unwrapped)
    assert gymnasium.spec(MAZE_ID).max_episode_steps is None


def test_same_seed_gives_same_start():
    first, second = CoinMaze(), CoinMaze()
    starts = [[maze.reset(seed=5)[0], maze.reset()[0]] for maze in (first, second)]
    np.testing.assert_array_equal(starts[0], starts[1])
    assert (starts[0][0] != starts[0][1]).any()


def test_step_without_running_episode_raises():
    single = CoinMaze("..\n", 1)
    with pytest.raises(gymnasium.error.ResetNeeded):
        single.step(0)
    single.reset(options={"agent": (0, 0), "coins": [(0, 1)]})
    assert single.step(1)[2]
    with pytest.raises(gymnasium.error.ResetNeeded):
        single.step(0)


def test_rendering_enlarges_the_observation():
    single = CoinMaze(render_mode="rgb_array")
    observation, _ = single.reset(seed=0)
    image = single.render()
    assert (image.shape, image.dtype) == ((7 * 24, 15 * 24, 3), np.uint8)
    np.testing.assert_array_equal(image[12::24, 12::24], observation)
    assert CoinMaze().render() is None


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        ({"num_coins": 0}, "between 1 and 58 coins"),
        ({"num_coins": 59}, "between 1 and 58 coins"),
        ({"layout": ".\n"}, "at least two free cells"),
        ({"layout": "opem"}, "did you mean 'open'"),
        ({"max_episode_steps": 0}, "at least 1 step"),
        ({"render_mode": "human"}, "rgb_array"),
    ],
)
def test_invalid_arguments_raise(arguments, advice):
    with pytest.raises(UserError, match=advice):
        CoinMaze(**arguments)


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({"agent": (0, 0)}, "together"),
        ({"agent": (0, 0), "coin": [(1, 1)]}, "together"),
        ({"agent": (1, 2), "coins": [(0, 0), (0, 1)]}, r"instead of \(1, 2\)"),
        ({"agent": (0, 0), "coins": [(5, 0), (0, 1)]}, r"instead of \(5, 0\)"),
        ({"agent": (0, 0), "coins": [(0, 1)]}, "2 coin"),
        ({"agent": (0, 0), "coins": [(0, 1), (0, 1)]}, "distinct"),
        ({"agent": (0, 0), "coins": [(0, 1), (0, 0)]}, "distinct"),
    ],
)
def test_invalid_start_states_raise(options, advice):
    with pytest.raises(UserError, match=advice):
        CoinMaze(num_coins=2).reset(options=options)
