"""Atari runs: the paper's table, the command line, clipped rewards, scores, threads, and exact resume."""

from __future__ import annotations

import json
import os
import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eva
from eva.agent.agent import EVAAgent
from eva.build import build_weight_schedule
from eva.cli.main import main
from eva.config import Config
from eva.errors import UserError
from eva.games import human_normalised_score
from eva.ids import ATARI_ID
from eva.presets import PRESETS, for_environment, for_game, preset
from eva.runs.checkpoint.checkpointer import Checkpointer
from eva.runs.loop import Training
from eva.runs.record.directory import RunDirectory
from eva.runs.record.episodes import EpisodeTracker
from eva.schema import flatten
from tests.helpers.agents import changed, scripted, tiny
from tests.helpers.commands import refused
from tests.runs.test_resume import (
    differing,
    in_a_process,
    kill_points,
    killed,
    number_of_moments,
    recorded,
    status_of,
    trained,
)

SMALL = changed(
    preset("atari"),
    environment={"num_environments": 2},
    atari={"max_episode_frames": 90},
    network={"channels": (4,), "filter_sizes": (8,), "strides": (8,), "embedding_size": 8},
    replay={"replay_capacity": 48},
    learner={"batch_size": 8, "learning_starts_transitions": 16},
    eva={"num_trajectories": 4, "trajectory_length": 6, "plan_period_steps": 5, "value_buffer_capacity": 48},
    run={"device": "cpu", "threads": 1, "metrics_period_transitions": 20, "checkpoint_period_transitions": 20},
    steps=80,
)
"""The Atari preset, smaller: learning and planning start within a hundred transitions."""


pytestmark = pytest.mark.usefixtures("_in_empty_directory")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Config, Path]]:
    """Configurations and paths that the command line would train; nothing is trained."""
    calls: list[tuple[Config, Path]] = []
    monkeypatch.setattr("eva.runs.loop.train", lambda config, path, **_: calls.append((config, path)))
    return calls


# --- Presets ------------------------------------------------------------------------------------------------------

TABLE = {
    "eva.plan_period_steps": 20,
    "eva.num_neighbours": 5,
    "eva.num_trajectories": 10,
    "eva.trajectory_length": 50,
    "learner.learning_starts_transitions": 40_000 // 4,  # P26: the table counts frames
    "learner.learning_rate": 0.0001,
    "replay.replay_capacity": 500_000,
    "eva.value_buffer_capacity": 2_000,
    "learner.batch_size": 48,
    "learner.target_period_updates": 50,
    "environment.num_environments": 4,
    "network.filter_sizes": (8, 4, 3),
    "network.strides": (4, 2, 1),
    "network.channels": (16, 32, 32),
    "network.embedding_size": 256,
}
"""The paper's table of hyper-parameters, in its order; not the weight (P1) and the temperature (P11)."""

TEXT = {
    "eva.nonparametric_weight": 0.4,  # P1
    "eva.trace": "tcp",
    "eva.start": "full",  # P9
    "eva.anneal_transitions": 2_000_000,
    "eva.kbrl_bandwidth": 1e-4,
    "eva.kbrl_similarity": 1e-2,
    "learner.discount": 0.99,  # P12
    "learner.error": "huber",  # P15
    "learner.clip_rewards": True,  # P65
    "learner.update_period_steps": 1,  # P17
    "exploration.epsilon_start": 1.0,
    "exploration.epsilon_end": 0.1,
    "exploration.epsilon_decay_transitions": 1_000_000 // 4,  # P12: 1M frames
    "atari.frame_skip": 4,
    "atari.num_stacked": 4,
    "atari.max_noop_frames": 30,
    "atari.max_episode_frames": 108_000,
    "atari.repeat_action_probability": 0.0,
    "steps": 200_000_000 // 4,  # P67
}


def test_the_preset_is_the_papers_table() -> None:
    fields = dict(flatten(preset("atari")))
    assert {name: fields[name] for name in TABLE} == TABLE
    assert {name: fields[name] for name in TEXT} == TEXT
    assert fields["environment.id"] == ATARI_ID
    assert preset("atari") == for_environment(ATARI_ID)


def test_small_preset_differs_only_in_documented_fields() -> None:
    large, small = (dict(flatten(preset(name))) for name in ("atari", "atari-small"))
    assert {name: small[name] for name in small if small[name] != large[name]} == {
        "name": "atari-small",
        "steps": 1_000_000,
        "replay.replay_capacity": 100_000,
        "replay.importance_anneal_transitions": 1_000_000,  # P78: as many as the run has
        "exploration.epsilon_decay_transitions": 100_000,
    }


@pytest.mark.parametrize("name", PRESETS)
def test_weight_of_any_preset_can_be_annealed(name: str, asked: list[tuple[Config, Path]]) -> None:
    assert main(["train", name, "--eva.anneal-start-transitions", "5000"]) == 0
    ((config, _),) = asked
    schedule = build_weight_schedule(config.eva).schedule
    assert [schedule(t) for t in (0, 5_000, 1_005_000, 2_005_000, 10**7)] == pytest.approx([0.4, 0.4, 0.2, 0, 0])


# --- The command line ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "directory"),
    [
        (["atari", "--game", "pong"], "atari-pong"),
        (["--game", "Ms. Pacman"], "atari-ms_pacman"),
        (["atari-small", "--game", "MsPacman"], "atari-small-ms_pacman"),
        (["atari-small", "--atari.game", "ms-pacman"], "atari-small-ms_pacman"),
        (["atari"], "atari-pong"),
    ],
)
def test_runs_are_named_after_their_game(
    arguments: list[str], directory: str, asked: list[tuple[Config, Path]]
) -> None:
    assert main(["train", *arguments, "--seed", "2"]) == 0
    ((config, path),) = asked
    assert path == Path("runs", directory, "weight-0.4", "seed-2")
    assert config.name == directory
    assert config.name.endswith(f"-{config.atari.game}")


def test_config_file_keeps_its_name_unless_game_is_given(asked: list[tuple[Config, Path]]) -> None:
    Path("mine.json").write_text(replace(preset("atari"), name="mine").to_json())
    Path("pong.json").write_text(for_game(preset("atari"), "pong").to_json())
    for arguments in (["mine.json"], ["pong.json", "--game", "pong"], ["pong.json", "--game", "hero"]):
        assert main(["train", "--config", *arguments]) == 0
    assert [config.name for config, _ in asked] == ["mine", "atari-pong", "atari-hero"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["atari", "--game", "pogn"], "there is no Atari game 'pogn': did you mean 'pong'?"),
        (["atari", "--game", "xyz"], "there is no Atari game 'xyz': the nearest of 57 names are "),
        (["atari", "--game", ""], "there is no Atari game ''"),
        (["atari", "--atari.game", "qbrt"], "there is no Atari game 'qbrt': did you mean 'qbert'?"),
        (["smoke", "--game", "pong"], "--game is for Atari and MinAtar, but smoke plays eva/CoinMaze-v0: start from"),
        (
            ["--env", "CartPole-v1", "--game", "pong"],
            "--game is for Atari and MinAtar, but CartPole-v1 plays CartPole-v1",
        ),
        (["atari", "--atari.repeat-action-probability", "2"], "must be a number between 0 and 1"),
    ],
)
def test_unknown_games_are_rejected(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert sentence in refused(["train", *arguments], capsys)


@pytest.mark.parametrize("missing", ["ale_py", "cv2"])
def test_missing_extra_names_what_to_install(
    missing: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delitem(sys.modules, "eva.envs.atari", raising=False)
    sentence = refused(["train", "atari", "--game", "pong"], capsys)
    assert 'run pip install "ephemeral-value-adjustments[atari]".' in sentence


# --- Rewards and scores -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clip_rewards", [True, False])
def test_rewards_are_clipped_for_learning_alone(clip_rewards: bool) -> None:
    """Learner and planner see clipped rewards, the records the score (P65, P25)."""
    config = tiny(3, learner={"clip_rewards": clip_rewards})
    agent, environment = scripted(config)
    episodes = EpisodeTracker(3)
    observations, rewards = environment.reset(), np.array([7.0, -0.5, -400.0])
    for last in (False, True):
        actions = agent.act(observations)
        outcome = replace(environment.step(actions), rewards=rewards, terminated=np.full(3, last))
        agent.observe(outcome)
        finished = episodes.add(0, outcome)
        observations = outcome.observations
    assert [episode.episode_return for episode in finished] == [14.0, -1.0, -800.0]
    expected = {-1.0, -0.5, 1.0} if clip_rewards else {-400.0, -0.5, 7.0}
    slots = agent.replay.sample(np.random.default_rng(0), 60)
    assert set(agent.replay.batch(slots).rewards.tolist()) == expected
    assert set(agent.replay.trajectories(slots[None], 1).rewards.ravel().tolist()) == expected


def test_clipped_rewards_bound_the_values(tmp_path: Path) -> None:
    """|Q| is limited to ten times 1 / (1 - 0.99) although the score is unbounded."""
    for number, (config, complains) in enumerate(
        [(SMALL, True), (changed(SMALL, learner={"clip_rewards": False}), False)]
    ):
        training = Training(config)
        with RunDirectory(tmp_path / str(number), config) as directory:
            directory.begin({})
            checkpointer = Checkpointer(training, directory)
            training.agent.monitor.largest_abs_q = 999.0
            checkpointer.check_divergence()
            training.agent.monitor.largest_abs_q = 1001.0
            if not complains:
                checkpointer.check_divergence()
                continue
            next(training.steps())
            with pytest.raises(UserError, match=r"\|Q\| has reached 1001"):
                checkpointer.check_divergence()


# --- Runs ---------------------------------------------------------------------------------------------------------


def test_runs_are_recorded_evaluated_and_reported(capsys: pytest.CaptureFixture[str]) -> None:
    for game, weight in (("pong", 0.4), ("pong", 0.0), ("boxing", 0.4)):
        trained(changed(for_game(SMALL, game), eva={"nonparametric_weight": weight}), Path("runs", game, str(weight)))
    lines = [json.loads(line) for line in Path("runs/boxing/0.4/metrics.jsonl").read_text().splitlines()]
    scores = [line["human_normalised_score"] for line in lines]
    assert None in scores
    assert set(scores) != {None}
    for line, score in zip(lines, scores, strict=True):
        mean = line["episode_return"]
        assert score == (None if mean is None else human_normalised_score("boxing", mean))
    assert lines[-1]["weight"] == 0.4
    assert lines[-1]["updates"] == (80 - 16) // 2 + 1  # P17: one for each step of all environments

    assert main(["evaluate", "runs/pong/0.4", "--episodes", "1", "--weights", "0.4"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert main(["report", "runs"]) == 0
    pong, page = capsys.readouterr().out.splitlines()  # in Boxing there is no DQN to compare with
    assert pong.startswith("atari-pong: EVA")
    assert "DQN" in pong
    assert "atari-boxing" in Path(page).read_text()


def test_maze_has_no_human_score() -> None:
    trained(tiny(steps=100), Path("run"))
    lines = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    assert {line["human_normalised_score"] for line in lines} == {None}


def test_interrupted_run_ends_with_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run resumes from a checkpoint within running episodes."""
    trained(SMALL, tmp_path / "whole")
    act = EVAAgent.act

    def breaking(agent: EVAAgent, observations: Any) -> Any:
        if agent.transitions == 56:
            raise KeyboardInterrupt
        return act(agent, observations)

    with monkeypatch.context() as patch:
        patch.setattr(EVAAgent, "act", breaking)
        with pytest.raises(KeyboardInterrupt):
            trained(SMALL, tmp_path / "broken")
    assert status_of(tmp_path / "broken")["state"] == "failed"
    assert "goes on from 40 transitions." in trained(SMALL, tmp_path / "broken")
    whole = recorded(tmp_path / "whole")
    assert len(whole["episodes.csv"].splitlines()) > 2
    assert "training/environment/1/actions" in whole
    assert differing(tmp_path / "broken", whole) == []


@pytest.mark.slow
@pytest.mark.parametrize(("prioritised", "threads"), [(True, 1), (False, 2)])
def test_killed_runs_end_with_the_same_bytes(prioritised: bool, threads: int, tmp_path: Path) -> None:
    """Real processes, killed three times anywhere and twice while a checkpoint is written; two threads read ahead."""
    config = changed(
        for_game(SMALL, "pong"),
        environment={"num_environments": 4},
        atari={"max_episode_frames": 170},
        replay={"replay_capacity": 160, "prioritised": prioritised, "importance_anneal_transitions": 300},
        run={"threads": threads},
        steps=400,
    )
    trained(config, tmp_path / "whole")
    whole = recorded(tmp_path / "whole")
    points = kill_points(random.Random(0), number_of_moments(config, tmp_path), 3, 2)
    for number, point in enumerate(points):
        path = tmp_path / str(number)
        assert killed(config, path, *point) >= point[1]
        assert in_a_process(eva.train, config, path, None).exitcode == 0
        assert differing(path, whole) == [], point
    last = json.loads(whole["metrics.jsonl"].splitlines()[-1])
    assert len(whole["episodes.csv"].splitlines()) > 8, "every emulator has begun a second episode"
    if prioritised:
        assert len(set(np.frombuffer(whole["training/agent/replay/priorities"][2]))) > 100
    assert last["value_buffer_entries"] == 48


def test_resumed_run_keeps_its_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    config, threads = tiny(steps=60, run={"threads": 0}), []

    def cores(num: int) -> None:
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(num)))

    monkeypatch.setattr("torch.set_num_threads", threads.append)
    cores(3)
    trained(config, Path("run"))
    assert Config.from_json(Path("run/config.json").read_text()).run.threads == 3
    cores(5)
    assert "goes on from 60" in trained(replace(config, steps=80), Path("run"))
    assert json.loads(Path("run/provenance.json").read_text())["threads"] == 3
    trained(config, Path("other"))
    assert threads == [3, 3, 5]


def test_provenance_records_the_emulator_version(monkeypatch: pytest.MonkeyPatch) -> None:
    from eva.runs.record.provenance import provenance

    versions = provenance([], 1, "cpu")["versions"]
    assert versions["ale-py"][0].isdigit()
    monkeypatch.setattr("eva.runs.record.provenance._PACKAGES", ("torch", "no-such-package"))
    assert provenance([], 1, "cpu")["versions"]["no-such-package"] is None
