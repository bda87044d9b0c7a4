"""The examples run, and EVA can be removed from `own_dqn.py` by deleting the lines marked `# EVA`."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import eva
from eva.agent.adjuster import EphemeralValueAdjuster
from tests.helpers.agents import tiny
from tests.helpers.tracking import wandb_points

EXAMPLES = Path(__file__).parents[1] / "examples"
OWN_DQN = EXAMPLES / "own_dqn.py"
STEPS = 500  # random actions give way to greedy ones, the network learns, and several rounds are planned
MARK = re.compile(r"  # EVA$")


def output(example: Path, directory: Path, *flags: str) -> str:
    """Run an example as a user would, and return what it prints."""
    command = [sys.executable, "-W", "error", str(example), *flags]
    with tempfile.TemporaryDirectory() as temporary:  # SB3's logger leaves a folder there
        environment = os.environ | {"TMPDIR": temporary}
        done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def own_dqn(source: str, **changed: Any) -> Callable[[list[str]], list[float]]:
    """Return the example's `main`, with some of its constants changed."""
    namespace: dict[str, Any] = {"__name__": "own_dqn"}
    exec(compile(source, "own_dqn.py", "exec", dont_inherit=True), namespace)
    namespace.update(EPSILON_DECAY=200, LEARNING_STARTS=100, **changed)
    return namespace["main"]  # type: ignore[no-any-return]


def without_eva(source: str) -> str:
    return "".join(line for line in source.splitlines(keepends=True) if not MARK.search(line))


def test_own_environment_learns_and_is_recorded(tmp_path: Path) -> None:
    printed = output(EXAMPLES / "own_environment.py", tmp_path).splitlines()
    assert [line.partition(":")[0] for line in printed] == ["weight 0.0", "weight 0.4"]
    returns = [float(line.split()[-1]) for line in printed]
    assert max(returns) > 0.8, "it learned to walk to the end"
    assert (tmp_path / "runs" / "long-corridor" / "policy.safetensors").exists()


def test_own_cnn_trains_on_own_images(tmp_path: Path) -> None:
    printed = output(EXAMPLES / "own_cnn.py", tmp_path)
    assert re.fullmatch(r"mean return of 5 episodes [\d.]+\n", printed.replace(":", ""))
    recorded = json.loads((tmp_path / "runs" / "lake" / "config.json").read_text())
    assert recorded["network"]["fingerprint"].startswith("Sequential ")
    assert recorded["network"]["embedding_size"] == 32
    assert recorded["environment"]["id"] == "python/FrozenLakeEnv"


def test_use_policy_plays_episodes_of_a_run(tmp_path: Path) -> None:
    config = tiny(steps=60, maze={"max_episode_steps": 500})
    eva.train(config, tmp_path / "run", io.StringIO())
    printed = output(EXAMPLES / "use_policy.py", tmp_path, "run", "eva/CoinMaze-v0").splitlines()
    assert [line.partition(":")[0] for line in printed] == ["episode 0", "episode 1", "episode 2"]


@pytest.mark.parametrize("name", ["own_cnn.py", "use_policy.py"])
def test_short_examples_stay_short(name: str) -> None:
    assert len((EXAMPLES / name).read_text().splitlines()) <= 25


def test_own_dqn_prints_its_return_and_writes_nothing(tmp_path: Path) -> None:
    printed = output(OWN_DQN, tmp_path, "--steps", "1000", "--weight", "0.4", "--seed", "1")
    assert re.fullmatch(r"1,000 steps: mean return of the last 20 episodes [\d.]+\n", printed)
    assert list(tmp_path.iterdir()) == []


def test_make_video_writes_a_video_and_a_card(tmp_path: Path) -> None:
    assert len((EXAMPLES / "make_video.py").read_text().splitlines()) <= 25
    printed = output(EXAMPLES / "make_video.py", tmp_path, "--steps", "600", "--video", "maze.gif", "--card", "card")
    assert re.fullmatch(r"maze\.gif: \d+ steps, return -?[\d.]+\ncard/README\.md\n", printed)
    assert (tmp_path / "maze.gif").read_bytes().startswith(b"GIF89a")
    assert (tmp_path / "card" / "inspect.html").exists()


def test_sb3_cartpole_saves_model_and_memory(tmp_path: Path) -> None:
    printed = output(EXAMPLES / "sb3_cartpole.py", tmp_path, "--steps", "1300", "--out", "here")
    assert re.fullmatch(r"weight 0\.4: mean return of 5 episodes [\d.]+ \(standard deviation [\d.]+\)\n", printed)
    assert sorted(path.name for path in (tmp_path / "here").iterdir()) == ["memory.pkl", "model.zip"]


def test_sb3_atari_saves_model_memory_and_logs(tmp_path: Path) -> None:
    printed = output(EXAMPLES / "sb3_atari.py", tmp_path, "--steps", "240", "--memory", "120", "--out", "here")
    assert re.fullmatch(r"240 steps, 11\d transitions remembered: here\n", printed), "full, and EVA applied"
    assert {path.name for path in (tmp_path / "here").iterdir()} == {"memory.pkl", "model.zip", "tensorboard"}


def test_wandb_example_logs_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    assert "wandb sync runs/wandb" in output(EXAMPLES / "track_wandb.py", tmp_path, "--steps", "1000")
    rows = (tmp_path / "runs" / "wandb" / "episodes.csv").read_text().splitlines()[1:]
    points = wandb_points(tmp_path / "runs" / "wandb")["charts/episodic_return"]
    assert points == [(int(row.split(",")[0]), float(row.split(",")[2])) for row in rows]


@pytest.mark.slow
def test_pruned_trials_end_early(tmp_path: Path) -> None:
    source = (EXAMPLES / "prune_with_optuna.py").read_text()
    shorter = {
        "=2_000": "=100",
        "=20_000": "=400",
        "learning_rate=rate": "learning_rate=rate, learning_starts_transitions=50",
        "episodes=10": "episodes=2",
        "range(20)": "range(8)",
        'direction="maximize"': 'direction="maximize", sampler=optuna.samplers.RandomSampler(0)',  # repeatable
    }
    for long, short in shorter.items():
        assert source.count(long) == 1
        source = source.replace(long, short)
    (tmp_path / "short.py").write_text(source)
    assert "{'learning_rate': " in output(tmp_path / "short.py", tmp_path)
    runs = eva.list_runs(tmp_path / "runs")
    assert len(runs) == 8
    assert {run.state for run in runs} == {"finished", "stopped"}
    assert all(run.step < 400 for run in runs if run.state == "stopped")


def test_evaluate_every_prints_each_evaluation(tmp_path: Path) -> None:
    head, *rows = output(EXAMPLES / "evaluate_every.py", tmp_path, "--steps", "200", "--every", "100").splitlines()
    assert head == "transitions\tweight\tmean return of 10 episodes"
    assert [row.split("\t")[:2] for row in rows] == [["100", "0.0"], ["100", "0.4"], ["200", "0.0"], ["200", "0.4"]]
    assert all(float(row.split("\t")[2]) > 0 for row in rows)


def test_pandas_example_averages_the_runs_of_a_folder(tmp_path: Path) -> None:
    for seed in (0, 1):
        config = replace(eva.for_environment("CartPole-v1"), seed=seed, steps=300)
        eva.train(config, tmp_path / "runs" / str(seed), io.StringIO())
    printed = output(EXAMPLES / "load_into_pandas.py", tmp_path, "runs")
    assert "eva.nonparametric_weight" in printed
    assert len(re.findall(r"^\(.+\] +\d+\.\d+$", printed, re.MULTILINE)) == 10
    table = pandas.read_csv(tmp_path / "episodes.csv")
    assert sorted(table["seed"].unique()) == [0, 1]


def test_short_examples_have_at_most_25_lines() -> None:
    for name in ("track_wandb", "prune_with_optuna", "load_into_pandas", "evaluate_every"):
        assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) <= 25


def test_own_dqn_without_marked_lines_does_not_use_eva() -> None:
    plain = without_eva(OWN_DQN.read_text())
    assert not re.search(r"\beva\b|adjuster", plain), "all of EVA is marked"
    imported = set(re.findall(r"^(?:import|from) (\w+)", plain, re.MULTILINE))
    assert imported - set(sys.stdlib_module_names) == {"gymnasium", "numpy", "torch"}


def test_weight_zero_matches_the_example_without_eva(monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[int] = []
    observe = EphemeralValueAdjuster.observe

    def watched(self: EphemeralValueAdjuster, *arguments: Any) -> None:
        observe(self, *arguments)
        planned.append(len(self.value_buffers[0]))

    monkeypatch.setattr(EphemeralValueAdjuster, "observe", watched)
    source, flags = OWN_DQN.read_text(), ["--steps", str(STEPS), "--seed", "2"]
    plain = own_dqn(without_eva(source))(flags)
    assert planned == []
    with_0 = own_dqn(source)([*flags, "--weight", "0"])
    assert len(planned) == STEPS
    assert planned[-1] > 200
    with_1 = own_dqn(source)([*flags, "--weight", "1"])
    assert len(plain) > 10
    assert with_0 == plain
    assert with_1 != plain
    assert np.isfinite(with_1).all()
