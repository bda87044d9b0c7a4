"""`examples/eva_single_file.py` makes the same decisions and learns the same weights as the library, to the bit."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from eva.agent.agent import EVAAgent
from eva.agent.network import QNetwork
from eva.config import Config
from eva.presets import preset
from eva.runs.loop import interact
from tests.helpers.agents import built, changed

pytestmark = pytest.mark.usefixtures("autograd")
SCRIPT = Path(__file__).parents[1] / "examples" / "eva_single_file.py"
example: Any = importlib.import_module("examples.eva_single_file")

FIELDS = {  # of Settings: the library's
    "seed": "seed",
    "transitions": "steps",
    "weight": "eva.nonparametric_weight",
    "num_trajectories": "eva.num_trajectories",
    "trajectory_length": "eva.trajectory_length",
    "plan_period": "eva.plan_period_steps",
    "num_neighbours": "eva.num_neighbours",
    "value_buffer_capacity": "eva.value_buffer_capacity",
    "memory_capacity": "replay.replay_capacity",
    "learning_starts": "learner.learning_starts_transitions",
    "discount": "learner.discount",
    "batch_size": "learner.batch_size",
    "learning_rate": "learner.learning_rate",
    "target_period": "learner.target_period_updates",
    "epsilon_end": "exploration.epsilon_end",
    "epsilon_decay": "exploration.epsilon_decay_transitions",
    "num_coins": "maze.num_coins",
    "max_episode_steps": "maze.max_episode_steps",
}
SMALL = {  # everything begins, wraps around and is truncated, and half of the decisions are greedy
    "transitions": 1_000,
    "learning_starts": 300,
    "epsilon_decay": 400,
    "epsilon_end": 0.3,
    "memory_capacity": 450,
    "value_buffer_capacity": 600,
    "max_episode_steps": 60,
    "target_period": 100,
}


@pytest.fixture
def autograd(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the library compute by autograd, like the example: its own passes of small networks round differently."""
    monkeypatch.setattr(QNetwork, "passes", None)


def library_config(settings: Any) -> Config:
    """Return maze-2-coins with the example's settings."""
    sections: dict[str, Any] = {}
    for name, path in FIELDS.items():
        section, _, field = path.rpartition(".")
        (sections.setdefault(section, {}) if section else sections)[field] = getattr(settings, name)
    return changed(preset("maze-2-coins"), run={"device": "cpu"}, **sections)


def run_library(config: Config) -> tuple[list[int], EVAAgent]:
    """Train as `eva train` does; returns the actions taken."""
    agent, environment = built(config)
    actions, act = [], agent.act

    def watched(observations: Any) -> Any:
        chosen = act(observations)
        actions.extend(chosen.tolist())
        return chosen

    agent.act = watched  # type: ignore[method-assign]
    for _ in islice(interact(agent, environment), config.steps):
        pass
    return actions, agent


def assert_equals_library(settings: Any) -> Any:
    """Train both, compare them, and return the example's run."""
    run = example.train(settings)
    actions, agent = run_library(library_config(settings))
    assert run.actions == actions
    mine, theirs = list(run.network.parameters()), list(agent.learner.network.parameters())
    assert len(mine) == 8
    assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))
    buffer = agent.adjuster.value_buffers[0]
    assert run.values.count == buffer.index.num_written
    np.testing.assert_array_equal(run.values.keys, buffer.index.keys.numpy())
    np.testing.assert_array_equal(run.values.values, buffer.values)
    return run


def test_single_file_imports_only_torch_and_numpy() -> None:
    imported = set(re.findall(r"^\s*(?:import|from) (\w+)", SCRIPT.read_text(), re.MULTILINE))
    assert imported - set(sys.stdlib_module_names) == {"numpy", "torch"}
    assert len(SCRIPT.read_text().splitlines()) < 400


def test_settings_are_the_preset() -> None:
    assert library_config(example.Settings()).identity == preset("maze-2-coins").identity


def test_small_run_equals_the_library_to_the_bit() -> None:
    run = assert_equals_library(example.Settings(seed=1, **SMALL))
    assert run.values.count > 600, "the value buffer wrapped around"
    assert min(run.returns) < -0.5 < 1.5 < max(run.returns), "some episodes were truncated, others terminated"


def test_weight_zero_equals_the_library_without_planning() -> None:
    run = assert_equals_library(example.Settings(seed=2, weight=0.0, **{**SMALL, "transitions": 500}))
    assert run.values.count == 0


@pytest.mark.slow
def test_preset_equals_the_library_to_the_bit_for_5000_transitions() -> None:
    run = assert_equals_library(example.Settings(transitions=5_000))
    assert run.values.count > 20_000


def test_single_file_runs_as_a_script(tmp_path: Path) -> None:
    flags = ["--transitions", "1000", "--learning-starts", "990", "--weight", "0.4"]
    command = [sys.executable, "-W", "error", str(SCRIPT), *flags]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"1,000 transitions: mean return of the last 20 episodes -?[\d.]+\n", done.stdout)
    assert list(tmp_path.iterdir()) == []
