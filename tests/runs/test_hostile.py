"""Run directories of strangers: nothing outside is read, no file takes all memory, every error is one sentence."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from eva.cli.main import main
from eva.digests import sealed
from eva.files import read_either
from eva.report.curves import levels
from eva.runs.loop import train
from eva.runs.sweep.cost import estimate_cost
from eva.runs.sweep.jobs import Job
from eva.runs.sweep.progress import last_speed
from tests.helpers.agents import tiny

CONFIG = tiny(steps=40, run={"device": "cpu", "checkpoint_period_transitions": 20})
MAP = ".....\n..#..\n.....\n"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("base") / "run"
    train(CONFIG, path, io.StringIO())
    return path


@pytest.fixture
def run(base: Path, tmp_path: Path) -> Path:
    """A copy of a finished run that the test may change."""
    return shutil.copytree(base, tmp_path / "run")


def edit(path: Path, **fields: Any) -> None:
    """Change fields of a JSON file in a run without checksums."""
    content = json.loads(path.read_text()) | fields
    content.pop("sha256", None)
    path.write_text(json.dumps(content))
    (path.parent / "manifest.json").unlink(missing_ok=True)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """Run a command that must fail with one sentence, and return it."""
    assert main([str(word) for word in arguments]) == 2
    error = capsys.readouterr().err.splitlines()
    assert [line for line in error if line.startswith("eva: ")] == error[-1:]
    assert error[-1].endswith(".")
    return error[-1]


# Links and paths


def test_page_of_the_inspector_is_not_read_through_a_link(run, capsys):
    secret = run.with_name("secret.html")
    secret.write_text("<!DOCTYPE html>secret")
    (run / "inspect.html").symlink_to(secret)
    assert "(it is a link, which is not followed)" in refused(capsys, "inspect", run, "--max-steps", "2", "--no-open")
    assert (run / "inspect.html").is_symlink()
    (run / "inspect.html").unlink()
    os.mkfifo(run / "inspect.html")
    assert "(it is not a regular file)" in refused(capsys, "inspect", run, "--max-steps", "2", "--no-open")


def test_recorded_layout_names_no_file(run, capsys):
    layout = run.with_name("layout.txt")
    layout.write_text(MAP)
    maze = json.loads((run / "config.json").read_text())["maze"]
    edit(run / "config.json", maze=maze | {"layout": str(layout)})
    assert "maze.layout is " in refused(capsys, "evaluate", run, "--episodes", "1")
    config = json.loads((run / "config.json").read_text())
    assert levels(config) == (None, None)
    assert levels({**config, "maze": maze | {"layout": MAP}})[0] is not None


@pytest.mark.parametrize("directory", ["../base", "/base", "runs/../../base"])
def test_sweep_lists_no_run_outside_its_folder(run, capsys, directory):
    shutil.copytree(run, run.with_name("base"))
    for content in (
        {"runs": [{"directory": directory, "steps": 40}], "failed": {}},
        {"runs": [], "failed": {directory: "an error"}},
    ):
        (run / "grid.sweep.json").write_text(json.dumps({"name": "grid", **content}))
        assert "cannot read" in refused(capsys, "sweep", "--status", run)


# Sizes


@pytest.mark.parametrize("name", ["config.json", "status.json", "provenance.json", "episodes.csv", "timing.jsonl"])
def test_enormous_files_are_not_read_into_memory(run, capsys, name):
    """A file with a hole takes no space on the disk."""
    os.truncate(run / name, 1 << 40)
    assert f"{name}' is missing or damaged (" in refused(capsys, "report", run)
    if name == "config.json":
        assert "more than 128 MiB" in refused(capsys, "evaluate", run)


def test_compressed_records_are_not_expanded_without_limit(tmp_path, monkeypatch):
    monkeypatch.setattr("eva.files._MOST_BYTES", 1000)
    path = tmp_path / "episodes.csv"
    path.with_name("episodes.csv.gz").write_bytes(gzip.compress(b"0" * 1000))
    assert len(read_either(path)) == 1000
    path.with_name("episodes.csv.gz").write_bytes(gzip.compress(b"0" * 1001))
    with pytest.raises(OSError, match="more than 0 MiB"):
        read_either(path)


def nested(path: Path, levels: int) -> None:
    """Make folders inside each other."""
    path.mkdir(parents=True)
    descriptor = os.open(path, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=descriptor)
        inner = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)


@pytest.mark.parametrize("where", ["tensorboard/x", "checkpoints/.draft-x"])
def test_deeply_nested_folders_are_rejected(run, capsys, where):
    nested(run / where, 40)
    (run / "config.json").write_text(CONFIG.to_json())
    words = ("train", "--config", run / "config.json", "--out", run, "--restart")
    assert "(it is a folder inside 32 others)" in refused(capsys, *words)


def test_report_searches_deeply_nested_folders(tmp_path, capsys):
    """Deeper than Python's limit of recursion."""
    nested(tmp_path / "deep", 1_500)
    try:
        assert "No config.json in or under" in refused(capsys, "report", tmp_path / "deep")
    finally:
        subprocess.run(["rm", "-rf", str(tmp_path / "deep")], check=True)  # pytest itself cannot


# Numbers and text


@pytest.mark.parametrize("speed", ["Infinity", "NaN", "-5", "1e-300", "1e308", '"inf"', "0"])
def test_absurd_speeds_are_ignored(run, capsys, speed):
    (run / "timing.jsonl").write_text(f'{{"step": 1, "seconds": 1, "steps_per_second": {speed}}}\n')
    edit(run / "status.json", state="running", step=1)
    assert time.time() - (run / "status.json").stat().st_mtime < 60, "it counts as running"
    assert last_speed(run) is None
    content = {"name": "grid", "runs": [{"directory": "run", "steps": 10**18}], "failed": {}}
    (run.parent / "grid.sweep.json").write_bytes(sealed(json.dumps(content).encode()))
    assert main(["sweep", "--status", str(run.parent)]) == 0
    assert "1 of 1,000,000,000,000,000,000" in capsys.readouterr().out


@pytest.mark.parametrize("steps", [10**400, 2**63, -1, 1.5, True, None], ids=lambda steps: str(steps)[:9])
def test_absurd_numbers_of_steps_in_a_sweep_are_rejected(run, capsys, steps):
    content = {"name": "grid", "runs": [{"directory": "run", "steps": steps}], "failed": {}}
    (run.parent / "grid.sweep.json").write_text(json.dumps(content))
    edit(run / "status.json", state="running", step=1)
    assert "cannot read" in refused(capsys, "sweep", "--status", run.parent)


@pytest.mark.parametrize("name", ["config.json", "status.json", "timing.jsonl", "manifest.json"])
def test_plan_of_a_sweep_names_damaged_runs(run, name):
    jobs = [Job(run, CONFIG)]
    assert "damaged" not in estimate_cost(jobs, 32, 128.0)
    os.truncate(run / name, 5)
    assert f"damaged, or of another configuration: {run}" in estimate_cost(jobs, 32, 128.0)


def test_list_of_runs_shows_no_escape_codes(tmp_path, capsys):
    names = ("experiment", "maze-two-coins", "--runs-dir", str(tmp_path), "--results-dir", str(tmp_path), "--list")
    assert main(list(names)) == 0
    first = capsys.readouterr().out.splitlines()[1].split()[0]
    (tmp_path / first).mkdir(parents=True)
    (tmp_path / first / "status.json").write_text(json.dumps({"state": "\x1b[2J", "step": 5}))
    assert main(list(names)) == 0
    out = capsys.readouterr().out
    assert "\\x1b[2J at 5" in out
    assert "\x1b" not in out


def test_list_of_runs_names_damaged_records(tmp_path, capsys):
    names = ("experiment", "maze-two-coins", "--runs-dir", str(tmp_path / "runs"), "--results-dir", str(tmp_path))
    assert main([*names, "--list"]) == 0
    first = capsys.readouterr().out.splitlines()[1].split()[0]
    kept = tmp_path / "maze-two-coins" / "runs" / first
    kept.mkdir(parents=True)
    assert main([*names, "--list"]) == 0
    assert f"to do; {kept} is damaged" in capsys.readouterr().out
