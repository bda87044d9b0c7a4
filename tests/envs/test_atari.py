"""Atari games: frames equal Gymnasium's, the protocol is the paper's, and a restored state continues identically."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from ale_py.env import AtariEnv
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

from eva.envs.atari import AtariGame, VectorAtari
from eva.errors import UserError
from eva.games import GAME_SETS, PUBLISHED_SCORES, game_name, human_normalised_score
from eva.runs.checkpoint.state import pack, unpack
from eva.types import State, StepOutcome

FIELDS = tuple(StepOutcome.__dataclass_fields__)


def gymnasiums(game: str, *, stacked: int = 4, frame_skip: int = 4, max_noops: int = 30) -> Any:
    """The same game by Gymnasium's wrappers."""
    inner = AtariEnv(game, frameskip=1, repeat_action_probability=0.0)
    frames = AtariPreprocessing(inner, noop_max=max_noops, frame_skip=frame_skip)
    return FrameStackObservation(frames, stacked, padding_type="zero")


def vector(game: str, num: int = 2, seed: int = 0, **options: Any) -> VectorAtari:
    return VectorAtari([AtariGame(game, seed + e, **options) for e in range(num)])


def drawn_actions(games: VectorAtari, num_steps: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(games.spec.num_actions, size=(num_steps, games.spec.num_environments))


def played(games: VectorAtari, actions: Any) -> list[bytes]:
    """Return the bytes of all step outcomes of these actions."""
    outcomes = [games.step(each) for each in actions]
    return [b"".join(getattr(outcome, name).tobytes() for name in FIELDS) for outcome in outcomes]


def through_a_checkpoint(state: State) -> State:
    """The state as a checkpoint returns it."""
    arrays, plain = pack(state)
    return unpack({name: array.copy() for name, array in arrays.items()}, json.loads(json.dumps(plain)))


# --- Frames -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("game", "options", "theirs"),
    [
        ("pong", {}, {}),
        ("breakout", {"num_stacked": 2, "max_noop_frames": 7}, {"stacked": 2, "max_noops": 7}),
        ("qbert", {"frame_skip": 1, "max_noop_frames": 0}, {"frame_skip": 1, "max_noops": 0}),
    ],
)
def test_frames_match_gymnasium(game: str, options: dict[str, Any], theirs: dict[str, Any]) -> None:
    """For the same seed and actions, including no-ops, after an episode ends and after a reset within one."""
    generator = np.random.default_rng(1)
    reference, ours = gymnasiums(game, **theirs), AtariGame(game, 7, **options)
    assert len(ours.action_names) == reference.action_space.n
    ours.begin()
    np.testing.assert_array_equal(ours.stack, reference.reset(seed=7)[0])
    num_ends = 0
    for t in range(1, 241):
        action = int(generator.integers(len(ours.action_names)))
        observation, reward, terminated, *_ = reference.step(action)
        assert ours.step(action) == (reward, terminated, False)
        if terminated or t == 30:  # no value depends on the last frame of an episode
            ours.begin()
            observation, _ = reference.reset()
            num_ends += terminated
        np.testing.assert_array_equal(ours.stack, observation)
    assert num_ends > 0 or game != "breakout"


@pytest.mark.slow
@pytest.mark.parametrize("game", PUBLISHED_SCORES)
def test_every_game_matches_gymnasium_and_can_be_saved(game: str) -> None:
    reference, ours = gymnasiums(game), vector(game, 1, seed=5)
    observation, observations = reference.reset(seed=5)[0], ours.reset()
    actions = drawn_actions(ours, 700)
    for action in actions[:400]:
        np.testing.assert_array_equal(observations[0], observation)
        observation, *_, terminated, _, _ = reference.step(action[0])
        observations = ours.step(action).observations
        if terminated:
            observation, _ = reference.reset()
    state, expected = through_a_checkpoint(ours.get_state()), played(ours, actions[400:])
    fresh = vector(game, 1, seed=6)
    fresh.set_state(state)
    assert played(fresh, actions[400:]) == expected


# --- The protocol -------------------------------------------------------------------------------------------------


def test_observation_stack_shifts_by_one_frame() -> None:
    games = vector("breakout")
    assert games.spec.observation_shape == (4, 84, 84)
    assert games.spec.observation_dtype == np.uint8
    assert (games.spec.num_environments, games.spec.num_stacked, games.spec.reward_bound) == (2, 4, None)
    before = games.reset()
    assert (before[:, :3] == 0).all()  # P60
    assert (before[:, 3] > 0).any(axis=(1, 2)).all()
    num_ends = 0
    for actions in drawn_actions(games, 220):
        outcome = games.step(actions)
        assert outcome.observations.dtype == np.uint8
        np.testing.assert_array_equal(outcome.last_observations[:, :3], before[:, 1:])
        ended = outcome.terminated | outcome.truncated
        assert (outcome.observations[ended, :3] == 0).all()
        np.testing.assert_array_equal(outcome.observations[~ended], outcome.last_observations[~ended])
        num_ends += ended.sum()
        before = outcome.observations
    assert num_ends > 0


def test_vector_of_games_matches_single_games() -> None:
    together, singles = vector("pong", 2, seed=3), [vector("pong", 1, seed=seed) for seed in (3, 4)]
    actions = drawn_actions(together, 60)
    first = together.reset()
    np.testing.assert_array_equal(first, np.concatenate([single.reset() for single in singles]))
    assert (first[0] != first[1]).any()  # each has its own no-ops
    for each in actions:
        outcome, alone = together.step(each), [single.step(each[e : e + 1]) for e, single in enumerate(singles)]
        for name in FIELDS:
            np.testing.assert_array_equal(
                getattr(outcome, name), np.concatenate([getattr(one, name) for one in alone]), err_msg=name
            )


def test_changing_returned_arrays_does_not_change_the_games() -> None:
    games, twins = vector("pong", 1), vector("pong", 1)
    games.reset()[:] = 7
    twins.reset()
    for actions in drawn_actions(games, 5):
        outcome, twin = games.step(actions), twins.step(actions)
        np.testing.assert_array_equal(outcome.observations, twin.observations)
        outcome.observations[:] = 7


def test_episode_is_truncated_at_max_frames_including_no_ops() -> None:
    games = vector("pong", 1, max_episode_frames=50, max_noop_frames=0)
    games.reset()
    lengths, length = [], 0
    for actions in drawn_actions(games, 40):
        outcome = games.step(actions)
        length += 1
        assert not outcome.terminated[0]
        if outcome.truncated[0]:
            lengths.append(length)
            length = 0
            assert (outcome.last_observations[0, :3] > 0).any()  # the true last observation, used for bootstrapping
            assert (outcome.observations[0, :3] == 0).all()
    assert lengths == [13, 13, 13]  # of 4 frames: the step that reaches frame 50 is the last
    late = vector("pong", 1, max_episode_frames=50, max_noop_frames=30, seed=1)
    late.reset()
    num_steps = next(t for t, actions in enumerate(drawn_actions(late, 40), 1) if late.step(actions).truncated[0])
    assert 5 <= num_steps < 13


def test_rewards_are_the_score() -> None:
    games = vector("qbert", 1)
    games.reset()
    rewards = {float(games.step(actions).rewards[0]) for actions in drawn_actions(games, 150)}
    assert max(rewards) >= 25.0  # unclipped


class Watched:
    """An emulator that writes down the action of each frame."""

    def __init__(self, ale: Any) -> None:
        self.ale = ale
        self.actions: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ale, name)

    def act(self, action: Any) -> int:
        self.actions.append(action)
        return int(self.ale.act(action))


def executed(actions: list[int], probability: float) -> list[int]:
    """Return the action that the emulator executes at each frame of these steps."""
    game = AtariGame("pong", 0, repeat_action_probability=probability, max_noop_frames=0)
    game.begin()
    game._ale = watched = Watched(game._ale)  # type: ignore[assignment]
    for action in actions:
        game.step(action)
    return [watched.ale.getMinimalActionSet().index(action) for action in watched.actions]


def test_actions_are_repeated_with_a_probability() -> None:
    """Sticky actions: each frame repeats the previous frame's action with this probability (P64)."""
    asked = [1 + t % 3 for t in range(250)]
    assert executed(asked[:10], 0.0) == [action for action in asked[:10] for _ in range(4)]
    assert executed(asked[:10], 1.0) == [0] * 40
    frames = executed(asked, 0.25)
    wanted = [action for action in asked for _ in range(4)]
    before = [0, *frames[:-1]]
    changes = [(frame, old) for frame, want, old in zip(frames, wanted, before, strict=True) if want != old]
    assert all(frame in (want, old) for frame, want, old in zip(frames, wanted, before, strict=True))
    repeated = sum(frame == old for frame, old in changes) / len(changes)
    assert 0.19 < repeated < 0.31  # of some 330


# --- State --------------------------------------------------------------------------------------------------------

IN_A_PROCESS = """
import pickle, sys
from dataclasses import astuple
from eva.envs.atari import AtariGame, VectorAtari
state, actions = pickle.load(sys.stdin.buffer)
games = VectorAtari([AtariGame("qbert", 50, max_episode_frames=600)])
games.set_state(state)
outcomes = [astuple(games.step(each)) for each in actions]
pickle.dump([b"".join(array.tobytes() for array in outcome) for outcome in outcomes], sys.stdout.buffer)
"""


def continued(games: VectorAtari) -> tuple[State, Any, list[bytes]]:
    """A state within an episode, the actions that follow it across the episode's end, and their outcomes."""
    actions = drawn_actions(games, 260)
    games.reset()
    played(games, actions[:60])
    state = through_a_checkpoint(games.get_state())
    before = games.get_state()["0"]["generator"]
    expected = played(games, actions[60:])
    assert games.get_state()["0"]["generator"] != before, "no episode has ended"
    return state, actions[60:], expected


def test_restored_state_continues_identically() -> None:
    """Restored in the same game, in another, and in another process. Qbert does not redraw all of its screen."""
    games = vector("qbert", 1, max_episode_frames=600)
    state, actions, expected = continued(games)
    games.set_state(state)
    assert played(games, actions) == expected
    other = vector("qbert", 1, seed=50, max_episode_frames=600)
    other.set_state(state)
    assert played(other, actions) == expected
    line = [sys.executable, "-c", IN_A_PROCESS]
    there = subprocess.run(line, input=pickle.dumps((state, actions)), capture_output=True, check=True)
    assert pickle.loads(there.stdout) == expected


def test_restored_state_includes_repeated_actions_and_all_games() -> None:
    games, others = (vector("breakout", seed=seed, repeat_action_probability=0.25) for seed in (0, 50))
    state, actions, expected = continued(games)
    others.set_state(state)
    assert played(others, actions) == expected


def test_state_that_does_not_replay_raises() -> None:
    games = vector("pong", 1)
    games.reset()
    state = games.get_state()
    state["stacks"][0, -1, 40, 40] ^= 1
    with pytest.raises(UserError, match="install the versions of ale-py and opencv"):
        vector("pong", 1).set_state(state)


# --- Games and scores ---------------------------------------------------------------------------------------------


def test_games_and_sets() -> None:
    assert len(PUBLISHED_SCORES) == 57
    assert len(GAME_SETS["paper-55"]) == 55
    assert set(PUBLISHED_SCORES) - set(GAME_SETS["paper-55"]) == {"defender", "surround"}
    assert GAME_SETS["tuning-5"] == ("pong", "hero", "frostbite", "ms_pacman", "qbert")
    assert set(GAME_SETS["tuning-5"]) < set(GAME_SETS["paper-55"])


@pytest.mark.parametrize("word", ["ms_pacman", "ms-pacman", "MsPacman", "Ms. Pacman", "MS PACMAN"])
def test_game_names_accept_any_spelling(word: str) -> None:
    assert game_name(word) == "ms_pacman"


def test_unknown_games_raise() -> None:
    with pytest.raises(UserError, match=r"there is no Atari game 'brekout': did you mean 'breakout'\?"):
        game_name("brekout")
    with pytest.raises(UserError, match="there is no Atari game 'pong2'"):
        game_name("pong2")


def test_human_normalised_scores_match_the_paper() -> None:
    """Eq. 7: 100 for human level performance and 0 for a random agent."""
    for game, published in PUBLISHED_SCORES.items():
        assert human_normalised_score(game, published.human) == pytest.approx(100)
        assert human_normalised_score(game, published.random) == 0
    assert human_normalised_score("pong", 21.0) == pytest.approx(100 * (21 + 20.7) / (14.6 + 20.7))
    assert human_normalised_score("pong", -21.0) < 0
