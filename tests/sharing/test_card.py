"""`eva card` writes a folder that the Hub's own parser and `load_run` accept."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from huggingface_hub import ModelCard

import eva
from eva.cli.main import main
from eva.runs.evaluate import evaluate
from tests.helpers.agents import changed, tiny
from tests.helpers.commands import refused
from tests.helpers.inspector import read_page, trained

pytestmark = pytest.mark.usefixtures("_in_empty_directory")

CONFIG = tiny(steps=120, name='a "name": with # signs')
FILES = {
    *("README.md", "config.json", "policy.safetensors", "memory.safetensors", "status.json", "manifest.json"),
    *("replay.mp4", "inspect.html"),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(CONFIG, tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture(scope="module")
def folder(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return eva.card(run, tmp_path_factory.mktemp("cards") / "new" / "card", num_episodes=3, seed=5).parent


def test_hub_reads_the_evaluation(run: Path, folder: Path) -> None:
    card = ModelCard.load(folder / "README.md")
    (result,) = card.data.eval_results
    weight = CONFIG.eva.nonparametric_weight
    alone, own = evaluate(run, [0.0, weight], 3, seed=5)
    returns = own.episode_returns
    assert result.metric_value == f"{returns.mean():.2f} +/- {np.std(returns):.2f}"
    assert (result.metric_type, result.task_type) == ("mean_reward", "reinforcement-learning")
    assert (result.dataset_name, result.dataset_type) == ("eva/CoinMaze-v0", "eva/CoinMaze-v0")
    assert card.data.model_name == 'EVA, a "name": with # signs'
    assert card.data.library_name == "ephemeral-value-adjustments"
    tags = ["deep-reinforcement-learning", "reinforcement-learning", "eva", "eva/CoinMaze-v0"]
    assert card.data.tags == tags
    assert f"| 0 (the network alone) | 3 | {alone.episode_returns.mean():.2f} +/- " in card.text


def test_folder_is_complete_and_loads_as_a_run(run: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert {path.name for path in folder.iterdir()} == FILES
    (config, agent), (own_config, own) = eva.load_run(folder), eva.load_run(run)
    assert capsys.readouterr().err == "", "the checksums are there"
    assert config == own_config
    observations = own.replay.observations_at(np.arange(5))
    assert np.array_equal(agent.replay.observations_at(np.arange(5)), observations)
    first, second = (evaluate(each, [0.4], 2)[0].episode_returns.tolist() for each in (run, folder))
    assert first == second
    assert read_page(folder / "inspect.html").num_steps > 0
    named = set(re.findall(r"^\| `([\w.]+)`(?:, `([\w.]+)`)? \|", (folder / "README.md").read_text(), re.MULTILINE))
    assert {name for pair in named for name in pair if name} == FILES - {"README.md"}


def test_card_needs_no_package_of_the_hub(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "card"
    code = (
        "import sys; sys.modules['huggingface_hub'] = sys.modules['yaml'] = None\n"
        "import eva; eva.card(sys.argv[1], sys.argv[2], num_episodes=1, video=False)"
    )
    subprocess.run([sys.executable, "-c", code, str(run), str(out)], check=True)
    assert {path.name for path in out.iterdir()} == FILES - {"replay.mp4"}
    assert "replay.mp4" not in (out / "README.md").read_text()
    assert len(ModelCard.load(out / "README.md").data.eval_results) == 1


def test_command_replaces_an_earlier_card_and_nothing_else(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "card"
    command = ["card", str(run), "--out", str(out), "--episodes", "1", "--no-video"]
    for _ in range(2):
        assert main(command) == 0
        assert capsys.readouterr().out == f"{out / 'README.md'}\n"
        (out / "LICENSE").write_text("mine")
    assert (out / "LICENSE").read_text() == "mine"
    before = (run / "config.json").read_bytes()
    for taken in (tmp_path, run):
        sentence = refused([*command[:3], str(taken)], capsys)
        assert f"{taken} is not empty and holds no model card: choose another folder." in sentence
    assert (run / "config.json").read_bytes() == before
    assert "is a file: choose a folder" in refused([*command[:3], str(run / "config.json")], capsys)
    assert "is no run directory" in refused(["card", str(tmp_path), "--out", str(tmp_path / "x")], capsys)


def test_unfinished_run_is_rejected_and_nothing_is_written(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = shutil.copytree(run, tmp_path / "run")
    (copy / "status.json").write_text(json.dumps({"state": "running", "step": 60, "steps": 120}))
    sentence = refused(["card", str(copy), "--out", str(tmp_path / "card"), "--no-video"], capsys)
    assert "is not finished" in sentence
    assert not (tmp_path / "card" / "README.md").exists()


def test_dqn_is_evaluated_once(tmp_path: Path) -> None:
    run = trained(changed(CONFIG, eva={"nonparametric_weight": 0.0}), tmp_path / "run")
    text = eva.card(run, tmp_path / "card", num_episodes=1, video=False).read_text()
    assert text.count("+/-") == 2, "in the metadata and in one row"
