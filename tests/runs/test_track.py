"""Trackers: what TensorBoard, W&B and trackio store, read back; resumed runs; errors."""

from __future__ import annotations

import csv
import importlib
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import eva
from eva.cli.main import main
from eva.config import Config
from eva.runs.callbacks import Callback, Run, StepRecord
from tests.helpers.agents import changed
from tests.helpers.commands import refused
from tests.helpers.tracking import Points, tensorboard_points, trackio_points, wandb_points, wandb_records
from tests.runs.test_resume import differing, recorded, run_config

CONFIG = run_config(2, steps=100)
TOOLS = ["tensorboard", "wandb", "trackio"]


@pytest.fixture(autouse=True)
def _nothing_leaves_this_machine(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("WANDB_", "TRACKIO_", "HF_"))]:
        monkeypatch.delenv(name)
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name in ("HOME", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR", "TRACKIO_DIR"):
        monkeypatch.setenv(name, str(home))
    for name in [name for name in sys.modules if name.partition(".")[0] == "trackio"]:
        monkeypatch.delitem(sys.modules, name)  # it reads TRACKIO_DIR when it is imported
    monkeypatch.delitem(sys.modules, "eva.runs.track.trackio", raising=False)


def points_of(tool: str, run: Path) -> Points:
    if tool == "trackio":
        ((_, points),) = trackio_points(Path(os.environ["TRACKIO_DIR"])).items()
        return points
    return {"tensorboard": tensorboard_points, "wandb": wandb_points}[tool](run)


def tracking(*tools: str, config: Config = CONFIG) -> Config:
    return changed(config, run={"track": tools})


class Break(Callback):
    """Fail in a step."""

    def __init__(self, step: int) -> None:
        self._step = step

    def step(self, run: Run, step: StepRecord) -> None:
        if run.step == self._step:
            raise RuntimeError("broken")


def expected(run: Path) -> Points:
    """Return the points that the records of a run contain, by CleanRL's names and ours."""
    rows = list(csv.DictReader((run / "episodes.csv").read_text().splitlines()))
    names = {"charts/episodic_return": "episode_return", "charts/episodic_length": "episode_length"}
    points = {name: [(int(row["step"]), float(row[ours])) for row in rows] for name, ours in names.items()}
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    theirs = {"charts/epsilon": "epsilon", "losses/td_loss": "loss", "losses/q_values": "value"}
    for name, ours in {**theirs, **{name: name for name in lines[0] if name != "step"}}.items():
        points[name] = [(line["step"], line[ours]) for line in lines if line[ours] is not None]
    for line in (json.loads(line) for line in (run / "evaluations.jsonl").read_text().splitlines()):
        name = f"evaluation/weight-{line['weight']:g}/epsilon-{line['epsilon']:g}/mean_return"
        points.setdefault(name, []).append((line["step"], sum(line["returns"]) / len(line["returns"])))
    return {name: values for name, values in points.items() if values}


def assert_tracked(points: Points, run: Path) -> None:
    for name, values in expected(run).items():
        assert [step for step, _ in points[name]] == [step for step, _ in values], name
        assert [value for _, value in points[name]] == pytest.approx([value for _, value in values], rel=1e-6), name
    times = [json.loads(line) for line in (run / "timing.jsonl").read_text().splitlines()]
    assert [step for step, _ in points["charts/SPS"]] == [line["step"] for line in times]
    assert {"seconds", "steps_per_second"} < set(points)


@pytest.mark.parametrize("tool", TOOLS)
def test_points_are_those_of_the_records_also_after_a_failure(tool: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    eva.train(replace(CONFIG, steps=100), tmp_path / "whole")
    for step in (56, 88):  # checkpoints after 40 and 80
        with pytest.raises(eva.UserError, match="the callback Break failed"):
            eva.train(tracking(tool), run, callbacks=[Break(step)])
    eva.train(tracking(tool), run)
    assert_tracked(points_of(tool, run), run)
    assert differing(run, recorded(tmp_path / "whole")) == [], "and the run has the same bytes"


KILLED = """
import os, time
import eva
from tests.runs.test_track import tracking
class Kill(eva.Callback):
    def step(self, run, step):
        if run.step == 56:
            time.sleep(2)  # trackio writes every half second
            os.kill(os.getpid(), 9)
eva.train(tracking("trackio"), "run", callbacks=[Kill()])
"""


@pytest.mark.slow
def test_points_after_the_last_checkpoint_are_sent_again_after_a_kill(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", KILLED], cwd=tmp_path, env=environment, capture_output=True)
    assert done.returncode == -9
    eva.train(tracking("trackio"), tmp_path / "run")
    points = points_of("trackio", tmp_path / "run")
    for name, values in expected(tmp_path / "run").items():
        wanted, sent = (Counter((step, round(value, 5)) for step, value in each) for each in (values, points[name]))
        assert not wanted - sent, "no point is missing"
        assert all(step > 40 for step, _ in sent - wanted)
    assert [step for step, _ in points["loss"]].count(50) == 2


def test_wandb_gets_the_configuration_and_one_run(tmp_path: Path) -> None:
    for steps in (40, 100):
        eva.train(replace(tracking("wandb"), steps=steps), tmp_path / "run")
    starts = [record.run for record in wandb_records(tmp_path / "run") if record.WhichOneof("record_type") == "run"]
    assert len({start.run_id for start in starts}) == 1
    assert {(start.project, start.display_name) for start in starts} == {("eva", "smoke-weight-0.4-seed-0")}
    update = {each.key: json.loads(each.value_json) for each in starts[0].config.update}
    assert update["eva"]["nonparametric_weight"] == 0.4
    eva.train(tracking("wandb"), tmp_path / "run", restart=True)
    ids = {record.run.run_id for record in wandb_records(tmp_path / "run") if record.WhichOneof("record_type") == "run"}
    assert len(ids) == 1
    assert starts[0].run_id not in ids, "a run that starts from scratch is another one"


def test_trackers_work_together_and_are_named_by_a_flag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    flags = ["--steps", "200", "--evaluate-every", "100", "--evaluation.num-episodes", "1", "--out", "run"]
    assert main(["train", "smoke", *flags, "--track", *TOOLS]) == 0
    assert Config.from_json(Path("run/config.json").read_text()).run.track == tuple(TOOLS)
    assert "rackio" not in capsys.readouterr().out
    for tool in TOOLS:
        assert_tracked(points_of(tool, Path("run")), Path("run"))
    assert main(["train", "smoke", *flags, "--out", "plain"]) == 0
    assert not Path("plain/tensorboard").exists(), "nothing is tracked by default"


@pytest.mark.parametrize(("tool", "extra"), [("tensorboard", "tb"), ("wandb", "wandb"), ("trackio", "trackio")])
def test_missing_package_is_named_before_anything_is_written(
    tool: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, f"eva.runs.track.{tool}", raising=False)
    for name in [name for name in sys.modules if name.partition(".")[0] == tool]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, tool, None)
    error = refused(["train", "smoke", "--track", tool], capsys)
    assert f"eva: tracking with {tool} needs a package that is missing" in error
    assert f'run pip install "ephemeral-value-adjustments[{extra}]".' in error


@pytest.mark.slow
def test_wandb_without_an_account_is_explained(tmp_path: Path) -> None:
    environment = {**os.environ, "WANDB_MODE": "online"}
    command = [sys.executable, "-m", "eva", "train", "smoke", "--steps", "20", "--track", "wandb", "--out", "run"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, input="")
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    *_, last = done.stderr.splitlines()
    assert last.startswith("eva: Weights & Biases cannot start (")
    assert last.endswith("): run 'wandb login', or set WANDB_MODE=offline.")


@pytest.mark.parametrize("method", ["add", "close"])
def test_failing_tool_ends_the_run_with_a_sentence(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = importlib.import_module("eva.runs.track.tensorboard").TensorBoardWriter

    close = writer.close

    def fail(self: Any, *_: Any, **__: Any) -> None:
        close(self, 0, failed=True)
        raise ConnectionError("the server is gone")

    monkeypatch.setattr(writer, method, fail)
    with pytest.raises(eva.UserError, match=r"tracking with tensorboard failed \(ConnectionError: the server is gone"):
        eva.train(tracking("tensorboard"), tmp_path / "run")


def cut(path: Path) -> None:
    path.write_text("{")


def linked(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


@pytest.mark.parametrize(
    ("damage", "sentence"), [(cut, "restore it, or delete it and the tool gets a second run"), (linked, "it is a link")]
)
def test_damaged_state_of_a_tool_is_rejected(damage: Callable[[Path], None], sentence: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    eva.train(replace(tracking("trackio"), steps=40), run)
    damage(run / "tracking" / "trackio.json")
    with pytest.raises(eva.UserError, match=sentence):
        eva.train(tracking("trackio"), run)
