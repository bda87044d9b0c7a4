"""MinAtar: every step equals the package's own environment, and a restored state continues identically."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from minatar import Environment

from benchmarks import minatar_random
from eva.build import build_environment, generators
from eva.config import Config, EnvironmentConfig
from eva.envs.minatar import MinAtarGame, VectorMinAtar
from eva.errors import UserError
from eva.games import (
    MINATAR_GAMES,
    MINATAR_SCORES,
    minatar_game,
    minatar_game_name,
    minatar_id,
    minatar_normalised_score,
)
from eva.presets import for_environment, for_game, preset
from eva.runs.checkpoint.state import pack, unpack
from eva.schema import changed
from eva.types import State, StepOutcome
from eva.wiring.networks import build_network

EACH_GAME = pytest.mark.parametrize("game", MINATAR_GAMES)
FIELDS = tuple(StepOutcome.__dataclass_fields__)
STATE = {
    "asterix": "entities move_speed move_timer player_x player_y ramp_index ramp_timer shot_timer spawn_speed "
    "spawn_timer terminal",
    "breakout": "ball_dir ball_x ball_y brick_map last_x last_y pos strike terminal",
    "freeway": "cars move_timer pos terminal terminate_timer",
    "seaquest": "d_spawn_timer diver_count divers e_bullets e_fish e_spawn_speed e_spawn_timer e_subs f_bullets "
    "move_speed oxygen ramp_index shot_timer sub_or sub_x sub_y surface terminal",
    "space_invaders": "alien_dir alien_map alien_move_timer alien_shot_timer e_bullet_map enemy_move_interval "
    "f_bullet_map pos ramp_index shot_timer terminal",
}
"""Every attribute of a game that changes."""


def vector(game: str, num: int = 2, seed: int = 0, **options: Any) -> VectorMinAtar:
    return VectorMinAtar([MinAtarGame(game, seed + e, **options) for e in range(num)])


def drawn_actions(games: VectorMinAtar, num_steps: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(games.spec.num_actions, size=(num_steps, games.spec.num_environments))


def played(games: VectorMinAtar, actions: Any) -> list[bytes]:
    """Return the bytes of all step outcomes of these actions."""
    outcomes = [games.step(each) for each in actions]
    return [b"".join(getattr(outcome, name).tobytes() for name in FIELDS) for outcome in outcomes]


def through_a_checkpoint(state: State) -> State:
    """The state as a checkpoint returns it."""
    arrays, plain = pack(state)
    return unpack({name: array.copy() for name, array in arrays.items()}, json.loads(json.dumps(plain)))


# --- The games ----------------------------------------------------------------------------------------------------


@EACH_GAME
@pytest.mark.parametrize(("sticky", "ramping", "minimal"), [(0.1, True, False), (0.4, False, True)])
def test_steps_match_the_package(game: str, sticky: float, ramping: bool, minimal: bool) -> None:
    reference = Environment(game, sticky_action_prob=sticky, difficulty_ramping=ramping)
    ours = MinAtarGame(game, 7, repeat_action_probability=sticky, difficulty_ramping=ramping, minimal_actions=minimal)
    assert ours.actions == tuple(reference.minimal_action_set() if minimal else range(6))
    reference.seed(7)
    reference.reset()
    np.testing.assert_array_equal(ours.begin(), reference.state())
    generator, num_ends, total = np.random.default_rng(1), 0, 0.0
    for _ in range(3_000):
        action = int(generator.integers(len(ours.actions)))
        reward, is_over = reference.act(ours.actions[action])
        assert ours.step(action) == (reward, is_over, False)
        np.testing.assert_array_equal(ours.observation(), reference.state())
        total += reward
        if is_over:
            reference.reset()
            np.testing.assert_array_equal(ours.begin(), reference.state())
            num_ends += 1
    assert num_ends > 0
    assert total > 0 or game in ("freeway", "seaquest")


def test_environments_are_described_and_differ() -> None:
    games = build_environment(changed(preset("minatar"), {"environment.id": "MinAtar/Seaquest-v0"}))
    assert games.spec.observation_shape == (10, 10, 10)
    assert (games.spec.observation_dtype, games.spec.num_environments, games.spec.num_stacked) == (np.uint8, 4, 1)
    assert games.spec.action_names == ("noop", "left", "up", "right", "down", "fire")
    assert games.spec.plane_names[-2:] == ("diver_guage", "diver")
    assert games.reset().max() == 1
    actions = np.zeros(4, np.int64)
    last = [games.step(actions).observations for _ in range(100)][-1]
    assert len({each.tobytes() for each in last}) == 4
    few = build_environment(changed(preset("minatar"), {"environment.id": "MinAtar/Breakout-v1"}))
    assert few.spec.action_names == ("noop", "left", "right")


def test_vector_of_games_matches_single_games() -> None:
    together, singles = vector("asterix", seed=3), [vector("asterix", 1, seed=seed) for seed in (3, 4)]
    np.testing.assert_array_equal(together.reset(), np.concatenate([single.reset() for single in singles]))
    num_ends = 0
    for each in drawn_actions(together, 400):
        outcome, alone = together.step(each), [single.step(each[e : e + 1]) for e, single in enumerate(singles)]
        for name in FIELDS:
            joined = np.concatenate([getattr(one, name) for one in alone])
            np.testing.assert_array_equal(getattr(outcome, name), joined, err_msg=name)
        ended = outcome.terminated | outcome.truncated
        np.testing.assert_array_equal(outcome.observations[~ended], outcome.last_observations[~ended])
        num_ends += ended.sum()
    assert num_ends > 0


@EACH_GAME
def test_changing_returned_arrays_does_not_change_the_games(game: str) -> None:
    games, twins = vector(game, 1), vector(game, 1)
    games.reset()[:] = 7
    twins.reset()
    for actions in drawn_actions(games, 20):
        outcome, twin = games.step(actions), twins.step(actions)
        np.testing.assert_array_equal(outcome.observations, twin.observations)
        outcome.observations[:] = 7


def test_episode_is_truncated_at_max_steps() -> None:
    games = vector("seaquest", 1, max_episode_steps=30, repeat_action_probability=0.0)
    games.reset()
    outcomes = [games.step(np.zeros(1, np.int64)) for _ in range(90)]  # at the surface, where nothing ends an episode
    assert [t for t, outcome in enumerate(outcomes, 1) if outcome.truncated[0]] == [30, 60, 90]
    assert not any(outcome.terminated[0] for outcome in outcomes)


def test_pixels_of_planes_are_not_divided_by_255() -> None:
    config = preset("minatar")
    spec = build_environment(config).spec
    network = build_network(config, spec, generators(0)["network"])
    assert network._white == 1
    assert network.torso[0].weight.shape == (16, 4, 3, 3)
    assert network.torso[3].weight.shape == (128, 16 * 8 * 8)


# --- State --------------------------------------------------------------------------------------------------------


@EACH_GAME
def test_state_is_every_attribute_that_changes(game: str) -> None:
    ours = MinAtarGame(game, 0)
    ours.begin()
    assert sorted(ours.get_state()["game"]) == STATE[game].split()


@EACH_GAME
def test_restored_state_continues_identically(game: str) -> None:
    """From every 60th of thousands of steps, in other games."""
    games, period = vector(game), 60
    actions = drawn_actions(games, 2_400)
    games.reset()
    states, outcomes = [], []
    for first in range(0, len(actions), period):
        states.append(through_a_checkpoint(games.get_state()))
        outcomes += played(games, actions[first : first + period])
    fresh = vector(game, seed=50)
    for i, state in enumerate(states):
        begin = i * period
        fresh.set_state(state)
        assert played(fresh, actions[begin : begin + 2 * period]) == outcomes[begin : begin + 2 * period], begin


def test_saved_state_does_not_change_with_the_game() -> None:
    games = vector("freeway", 1)
    games.reset()
    state = games.get_state()
    before = json.dumps(pack(state)[1])
    played(games, drawn_actions(games, 50))
    assert json.dumps(pack(state)[1]) == before


def test_state_of_another_game_raises() -> None:
    with pytest.raises(UserError, match="install the version of minatar"):
        MinAtarGame("breakout", 0).set_state(MinAtarGame("freeway", 0).get_state())


def test_values_that_are_not_plain_raise() -> None:
    game = MinAtarGame("breakout", 0)
    game._game.ball_x = {"a": 1}
    with pytest.raises(TypeError, match="cannot save"):
        game.get_state()


# --- The package and the names ------------------------------------------------------------------------------------


def test_missing_package_raises_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(UserError, match=r'run pip install "ephemeral-value-adjustments\[minatar\]"'):
        MinAtarGame("breakout", 0)


def test_games_load_without_drawing_libraries() -> None:
    code = (
        "import sys; from eva.envs.minatar import MinAtarGame; MinAtarGame('breakout', 0)\n"
        "print({'matplotlib', 'seaborn', 'pandas', 'gymnasium', 'minatar'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("set()\n", "")


@pytest.mark.parametrize(
    "word", ["space_invaders", "SpaceInvaders", "space-invaders", "Space Invaders", "SPACEINVADERS"]
)
def test_game_names_accept_any_spelling(word: str) -> None:
    assert minatar_game_name(word) == "space_invaders"


def test_ids_name_games_and_versions() -> None:
    assert minatar_id("space_invaders", 1) == "MinAtar/SpaceInvaders-v1"
    assert [minatar_game(minatar_id(game, 1)) for game in MINATAR_GAMES] == [(game, 1) for game in MINATAR_GAMES]


def test_unknown_names_raise() -> None:
    with pytest.raises(UserError, match=r"there is no MinAtar game 'brekout': did you mean 'breakout'\?"):
        minatar_game_name("brekout")
    with pytest.raises(
        UserError, match=r"there is no environment 'MinAtar/Brekout-v0': did you mean 'MinAtar/Breakout"
    ):
        build_environment(Config(environment=EnvironmentConfig("MinAtar/Brekout-v0")))


def test_environments_take_the_preset_and_versions_have_their_own_names() -> None:
    assert for_environment("MinAtar/Asterix-v0") == for_game(preset("minatar"), "asterix")
    few = for_environment("MinAtar/Asterix-v1")
    assert (few.name, few.environment.id) == ("minatar-asterix-v1", "MinAtar/Asterix-v1")
    assert for_game(few, "freeway").name == "minatar-freeway-v1"
    assert for_game(for_game(few, "freeway"), "asterix") == few


def test_scores_are_normalised_by_random_play_and_published_dqn() -> None:
    assert set(MINATAR_SCORES) == set(MINATAR_GAMES)
    for game, known in MINATAR_SCORES.items():
        assert 0 <= known.random < known.dqn
        assert list(known.dqn_by_frames) == [500_000, 1_000_000, 2_000_000, 3_000_000, 4_000_000, 4_900_000]
        assert minatar_normalised_score(game, known.random) == 0
        assert minatar_normalised_score(game, known.dqn) == pytest.approx(100)
    assert MINATAR_SCORES["breakout"].dqn == 10.1
    assert MINATAR_SCORES["breakout"].random == pytest.approx(0.5, abs=0.1)  # as the package's README states


def test_random_play_repeats() -> None:
    first, error = minatar_random.mean_return("breakout", 200)
    assert minatar_random.mean_return("breakout", 200) == (first, error)
    assert abs(first - MINATAR_SCORES["breakout"].random) < 4 * error
