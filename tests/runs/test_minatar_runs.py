"""MinAtar runs: the preset, the command line, evaluation in training, and exact resume."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

import eva
from eva.cli.main import main
from eva.config import Config
from eva.games import MINATAR_GAMES, minatar_normalised_score
from eva.presets import for_game, preset
from eva.runs.record.columns import EVALUATIONS
from eva.schema import flatten
from tests.helpers.agents import changed
from tests.helpers.commands import refused
from tests.runs.test_resume import differing, in_a_process, kill_points, killed, number_of_moments, recorded, trained

SMALL = changed(
    preset("minatar"),
    minatar={"max_episode_steps": 40},
    network={"channels": (4,), "filter_sizes": (3,), "strides": (2,), "embedding_size": 8},
    replay={"replay_capacity": 120},
    learner={"batch_size": 8, "target_period_updates": 7, "learning_starts_transitions": 16},
    eva={"num_trajectories": 4, "trajectory_length": 6, "plan_period_steps": 5, "value_buffer_capacity": 48},
    run={"device": "cpu", "metrics_period_transitions": 20, "checkpoint_period_transitions": 40},
    steps=240,
)
"""The preset, smaller: the memory is full and EVA begins after half of the run."""

pytestmark = pytest.mark.usefixtures("_in_empty_directory")


def test_preset_is_the_published_learner() -> None:
    expected = {
        "network.channels": (16,),
        "network.filter_sizes": (3,),
        "network.strides": (1,),
        "network.embedding_size": 128,
        "replay.replay_capacity": 100_000,
        "learner.discount": 0.99,
        "learner.batch_size": 32,
        "learner.optimiser": "adam",
        "learner.learning_rate": 2.5e-4,
        "learner.optimiser_epsilon": 3.125e-4,
        "learner.error": "squared",
        "learner.target_period_updates": 1_000 // 4,
        "learner.update_period_steps": 1,  # of four environments: one update for 4 transitions
        "learner.updates_per_round": 1,
        "learner.learning_starts_transitions": 1_000,
        "learner.clip_rewards": False,
        "exploration.epsilon_start": 1.0,
        "exploration.epsilon_end": 0.1,
        "exploration.epsilon_decay_transitions": 100_000,
        "environment.num_environments": 4,
        "minatar.repeat_action_probability": 0.1,
        "minatar.difficulty_ramping": True,
        "eva.nonparametric_weight": 0.4,
        "eva.num_neighbours": 5,
        "eva.num_trajectories": 10,
        "eva.trajectory_length": 50,
        "eva.plan_period_steps": 20,
        "eva.start": "full",
    }
    fields = dict(flatten(preset("minatar")))
    assert {name: fields[name] for name in expected} == expected


# --- The command line ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "directory", "environment"),
    [
        (["minatar", "--game", "breakout"], "minatar-breakout", "MinAtar/Breakout-v0"),
        (["minatar", "--game", "Space Invaders"], "minatar-space_invaders", "MinAtar/SpaceInvaders-v0"),
        (["minatar"], "minatar-breakout", "MinAtar/Breakout-v0"),
        (["--env", "MinAtar/Asterix-v0"], "minatar-asterix", "MinAtar/Asterix-v0"),
        (["--env", "MinAtar/Asterix-v1"], "minatar-asterix-v1", "MinAtar/Asterix-v1"),
        (["--env", "MinAtar/Asterix-v1", "--game", "freeway"], "minatar-freeway-v1", "MinAtar/Freeway-v1"),
    ],
)
def test_runs_are_named_after_their_game(
    arguments: list[str], directory: str, environment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Config, Path]] = []
    monkeypatch.setattr("eva.runs.loop.train", lambda config, path, **_: asked.append((config, path)))
    assert main(["train", *arguments, "--seed", "2"]) == 0
    ((config, path),) = asked
    assert path == Path("runs", directory, "weight-0.4", "seed-2")
    assert (config.name, config.environment.id) == (directory, environment)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["minatar", "--game", "sequest"], "there is no MinAtar game 'sequest': did you mean 'seaquest'?"),
        (["minatar", "--game", "pong"], "there is no MinAtar game 'pong': choose from asterix, breakout,"),
        (["--env", "MinAtar/Freeway"], "there is no environment 'MinAtar/Freeway': did you mean 'MinAtar/Freeway-v"),
        (["minatar", "--minatar.max-episode-steps", "0"], "must be a whole number of at least 1"),
    ],
)
def test_unknown_games_are_rejected(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert sentence in refused(["train", *arguments], capsys)


# --- Runs ---------------------------------------------------------------------------------------------------------


def test_runs_are_evaluated_in_training_and_reported(capsys: pytest.CaptureFixture[str]) -> None:
    evaluation = {"period_transitions": 120, "num_episodes": 3}
    config = changed(for_game(SMALL, "seaquest"), evaluation=evaluation)
    trained(config, Path("runs/eva"))
    trained(changed(config, eva={"nonparametric_weight": 0.0}), Path("runs/dqn"))
    trained(for_game(SMALL, "seaquest"), Path("unevaluated"))
    assert sorted(differing(Path("runs/eva"), recorded(Path("unevaluated")))) == [EVALUATIONS, "sizes"]
    lines = [json.loads(line) for line in Path("runs/eva", EVALUATIONS).read_text().splitlines()]
    assert [(line["step"], line["weight"]) for line in lines] == [(120, 0.0), (120, 0.4), (240, 0.0), (240, 0.4)]
    assert all(len(line["returns"]) == 3 and max(line["lengths"]) <= 40 for line in lines)
    metrics = [json.loads(line) for line in Path("runs/eva/metrics.jsonl").read_text().splitlines()]
    means = [(line["episode_return"], line["normalised_score"]) for line in metrics]
    assert any(mean is not None for mean, _ in means)
    assert all(each == (None if mean is None else minatar_normalised_score("seaquest", mean)) for mean, each in means)
    assert main(["evaluate", "runs/eva", "--episodes", "2", "--weights", "0.4"]) == 0
    assert main(["report", "runs"]) == 0
    assert "EVA, weight 0.4 - DQN" in capsys.readouterr().out


@pytest.mark.parametrize("game", MINATAR_GAMES)
def test_interrupted_run_ends_with_the_same_bytes(game: str) -> None:
    """The run resumes from a checkpoint within running episodes."""
    config = for_game(SMALL, game)
    trained(config, Path("whole"))
    trained(changed(config, steps=100), Path("parts"))  # its checkpoint is later than any at a period
    trained(config, Path("parts"))
    assert differing(Path("parts"), recorded(Path("whole"))) == []


@pytest.mark.slow
def test_killed_runs_end_with_the_same_bytes(tmp_path: Path) -> None:
    """Real processes, killed six times anywhere and four times while a checkpoint is written."""
    config = for_game(SMALL, "space_invaders")
    trained(config, tmp_path / "whole")
    whole = recorded(tmp_path / "whole")
    for number, point in enumerate(kill_points(random.Random(0), number_of_moments(config, tmp_path), 6, 4)):
        path = tmp_path / str(number)
        assert killed(config, path, *point) >= point[1]
        assert in_a_process(eva.train, config, path, None).exitcode == 0
        assert differing(path, whole) == [], point
    assert np.frombuffer(whole["training/environment/0/game/alien_map"][2]).any()
    assert json.loads(whole["metrics.jsonl"].splitlines()[-1])["weight"] == 0.4
