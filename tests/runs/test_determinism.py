"""Runs with the same seed are equal byte for byte."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from eva.config import Config
from eva.presets import preset
from eva.runs.loop import train
from tests.helpers.agents import changed

FILES = ("episodes.csv", "metrics.jsonl", "policy.safetensors", "memory.safetensors")
Records = dict[str, bytes]

IN_A_PROCESS = """
import sys
from pathlib import Path
from eva.config import Config
from eva.runs.loop import train
train(Config.from_json(sys.argv[1]), Path(sys.argv[2]))
"""


def smoke(num_environments: int = 1, **changes: Any) -> Config:
    return changed(
        preset("smoke"),
        environment={"num_environments": num_environments},
        maze={"max_episode_steps": 60},
        run={"device": "cpu", "metrics_period_transitions": 50},
        **{"steps": 300, **changes},
    )


def records(config: Config, path: Path) -> Records:
    """Train and return what was recorded."""
    train(config, path, io.StringIO())
    return {name: (path / name).read_bytes() for name in FILES}


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Records:
    """Records of the run that the others are compared with."""
    return records(smoke(), tmp_path_factory.mktemp("first"))


def test_same_seed_gives_same_bytes(first: Records, tmp_path: Path) -> None:
    last = json.loads(first["metrics.jsonl"].splitlines()[-1])
    assert last["updates"] == 101
    assert last["value_buffer_entries"] == 100
    assert last["changed_share"] > 0
    assert len(first["episodes.csv"].splitlines()) > 4
    assert records(smoke(), tmp_path) == first


def test_same_seed_gives_same_bytes_in_another_process(tmp_path: Path) -> None:
    config = smoke(num_environments=2)
    there = tmp_path / "there"
    subprocess.run([sys.executable, "-c", IN_A_PROCESS, config.to_json(), str(there)], check=True, capture_output=True)
    here = records(config, tmp_path / "here")
    assert here == {name: (there / name).read_bytes() for name in FILES}
    assert len(here["episodes.csv"].splitlines()) > 4


def test_different_seeds_give_different_bytes(first: Records, tmp_path: Path) -> None:
    other = records(smoke(seed=1), tmp_path)
    assert all(other[name] != first[name] for name in FILES)


def test_longer_run_begins_with_the_shorter(first: Records, tmp_path: Path) -> None:
    """No schedule depends on `steps`."""
    longer = records(smoke(steps=400), tmp_path)
    for name in ("episodes.csv", "metrics.jsonl"):
        assert longer[name].startswith(first[name])
        assert len(longer[name]) > len(first[name])
    assert longer["policy.safetensors"] != first["policy.safetensors"]
