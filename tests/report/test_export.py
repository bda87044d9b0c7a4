"""`eva runs` and `eva export`: tables, rliable's dictionaries, and files that Stable-Baselines3 reads."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from stable_baselines3.common.monitor import load_results
from stable_baselines3.common.results_plotter import ts2xy

import eva
from eva.cli.main import main
from eva.report.curves import curve
from eva.report.reading import read_run
from tests.helpers.agents import tiny
from tests.helpers.commands import refused
from tests.report.test_report import write_run


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs in two environments at a time, with evaluations; the second is stopped early."""
    root = tmp_path_factory.mktemp("trained")
    for name, weight, steps in (("dqn", 0.0, 120), ("deep/eva", 0.4, 100)):
        config = tiny(
            2,
            steps=steps,
            eva={"nonparametric_weight": weight},
            run={"metrics_period_transitions": 20},
            evaluation={"period_transitions": 60, "num_episodes": 3},
        )
        eva.train(config, root / name, io.StringIO())
    return root


def exported(root: Path, format: str, out: Path, **options: Any) -> pandas.DataFrame:
    assert eva.export(root, format, out, **options) == []
    return pandas.read_csv(out) if format == "csv" else pandas.read_parquet(out)


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_episodes_are_those_of_the_runs(format: str, trained: Path, tmp_path: Path) -> None:
    table = exported(trained, format, tmp_path / "new" / f"episodes.{format}")
    columns = ["run", "name", "environment.id", "eva.nonparametric_weight", "seed"]
    assert list(table) == [*columns, "step", "environment", "episode_return", "episode_length"]
    assert list(table["run"].unique()) == ["deep/eva", "dqn"]
    for name, weight in (("deep/eva", 0.4), ("dqn", 0.0)):
        mine, rows = table[table["run"] == name], rows_of(trained / name / "episodes.csv")
        assert len(rows) > 3
        for column in ("step", "environment", "episode_return", "episode_length"):
            assert mine[column].tolist() == [float(row[column]) for row in rows], column
        assert set(mine["eva.nonparametric_weight"]) == {weight}
        assert set(mine["environment.id"]) == {"eva/CoinMaze-v0"}
    assert table["step"].dtype == table["episode_length"].dtype == np.int64
    assert table["eva.nonparametric_weight"].dtype == np.float64


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_metrics_and_evaluations_are_those_of_the_runs(format: str, trained: Path, tmp_path: Path) -> None:
    metrics = exported(trained, format, tmp_path / "metrics", table="metrics")
    played = exported(trained, format, tmp_path / "evaluations", table="evaluations")
    for name in ("dqn", "deep/eva"):
        lines = [json.loads(line) for line in (trained / name / "metrics.jsonl").read_text().splitlines()]
        mine = metrics[metrics["run"] == name]
        for column in lines[0]:
            wanted = np.array([np.nan if line[column] is None else line[column] for line in lines], float)
            np.testing.assert_array_equal(mine[column].to_numpy(float), wanted, column)
        times = [json.loads(line) for line in (trained / name / "timing.jsonl").read_text().splitlines()]
        assert mine["seconds"].tolist() == [line["seconds"] for line in times]
        lines = [json.loads(line) for line in (trained / name / "evaluations.jsonl").read_text().splitlines()]
        mine = played[played["run"] == name]
        assert mine["episode_return"].tolist() == [x for line in lines for x in line["returns"]]
        assert mine["episode_length"].tolist() == [x for line in lines for x in line["lengths"]]
        assert mine["episode"].tolist() == [0, 1, 2] * len(lines)
        for column in ("step", "weight", "epsilon"):
            assert mine[column].tolist() == [line[column] for line in lines for _ in range(3)]


def test_fields_that_differ_become_columns(tmp_path: Path) -> None:
    for trace in ("tcp", "n-step"):
        write_run(tmp_path / "runs" / trace, [(10, 1.0)], trace=trace)
    table = exported(tmp_path / "runs", "csv", tmp_path / "x.csv")
    assert table["eva.trace"].tolist() == ["n-step", "tcp"]
    alone = exported(tmp_path / "runs" / "tcp", "csv", tmp_path / "x.csv")
    assert alone["run"].tolist() == ["tcp"]
    assert "eva.trace" not in alone


def test_stable_baselines3_loads_the_monitors(trained: Path, tmp_path: Path) -> None:
    eva.export(trained, "sb3", tmp_path / "sb3")
    for name in ("dqn", "deep/eva"):
        loaded, rows = load_results(str(tmp_path / "sb3" / name)), rows_of(trained / name / "episodes.csv")
        assert loaded["r"].tolist() == pytest.approx([float(row["episode_return"]) for row in rows])
        assert loaded["l"].tolist() == [int(row["episode_length"]) for row in rows]
        times = loaded["t"].tolist()
        assert times == sorted(times)
        assert 0 < times[-1] <= read_run(trained / name).seconds + 1e-3
        steps, _ = ts2xy(loaded, "timesteps")
        assert steps[-1] == sum(int(row["episode_length"]) for row in rows)


GAMES = {"maze-1-coin": 1, "maze-2-coins": 2}
RETURNS = {  # of an episode of each run, by weight, game and seed
    0.0: {"maze-1-coin": [0.25, 0.5], "maze-2-coins": [1.0, 1.5]},
    0.4: {"maze-1-coin": [0.5, 0.75, 0.125], "maze-2-coins": [0.0, 2.0, 1.0]},
}


def write_games(root: Path) -> Path:
    for weight, games in RETURNS.items():
        for game, returns in games.items():
            for seed, each in enumerate(returns):
                episodes = [(5, -1.0), (50, each / 2), (90, each)]
                path = root / f"{game}-{weight}-{seed}"
                write_run(path, episodes, weight=weight, seed=seed, name=game, num_coins=GAMES[game])
    return root


def test_rliable_gets_runs_by_games(tmp_path: Path) -> None:
    root = write_games(tmp_path / "runs")
    assert eva.export(root, "rliable", tmp_path / "scores.npz") == []
    arrays = dict(np.load(tmp_path / "scores.npz"))
    assert arrays["games"].tolist() == list(GAMES)
    labels = {0.0: "DQN", 0.4: "EVA, weight 0.4"}
    assert set(arrays) == {"games", "steps"} | {f"{kind}/{x}" for kind in ("scores", "curves") for x in labels.values()}
    assert arrays["steps"].tolist() == list(range(5, 101)), "from the first episode on"
    for weight, label in labels.items():
        wanted = np.array(list(RETURNS[weight].values())).T
        np.testing.assert_array_equal(arrays[f"scores/{label}"], wanted)
        curves = arrays[f"curves/{label}"]
        assert curves.shape == (*wanted.shape, 96)
        np.testing.assert_array_equal(curves[..., -1], wanted)
        one = read_run(root / f"maze-2-coins-{weight}-1")
        np.testing.assert_array_equal(curves[1, 1], curve(one, arrays["steps"]))


def test_rliable_gets_normalised_scores_where_they_are_published(tmp_path: Path) -> None:
    for game, random_play, human in (("pong", -20.7, 14.6), ("breakout", 1.7, 30.5)):
        run = write_run(tmp_path / "runs" / game, [(10, random_play), (90, human)], name=f"atari-{game}")
        config = json.loads((run / "config.json").read_text())
        config["environment"]["id"] = "eva/Atari-v0"
        (run / "config.json").write_text(json.dumps(config | {"atari": {"game": game}}))
    eva.export(tmp_path / "runs", "rliable", tmp_path / "x.npz")
    arrays = np.load(tmp_path / "x.npz")
    np.testing.assert_allclose(arrays["normalised/DQN"], [[1.0, 1.0]])
    np.testing.assert_allclose(arrays["normalised_curves/DQN"][0, :, 0], [0.0, 0.0], atol=1e-12)


def test_games_with_different_numbers_of_runs_are_rejected(tmp_path: Path) -> None:
    root = write_games(tmp_path / "runs")
    write_run(root / "more", [(90, 1.0)], seed=7, name="maze-1-coin")
    with pytest.raises(eva.UserError, match="'DQN' has 3 of maze-1-coin, 2 of maze-2-coins: train the missing"):
        eva.export(root, "rliable", tmp_path / "x.npz")
    assert not (tmp_path / "x.npz").exists()


def test_runs_are_listed_with_what_differs(trained: Path) -> None:
    eva_run, dqn = eva.list_runs(trained)
    assert (dqn.path, dqn.weight, dqn.seed, dqn.state, dqn.step, dqn.steps) == (
        trained / "dqn", 0.0, 0, "finished", 120, 120
    )  # fmt: skip
    assert dict(eva_run.differing) == {"eva.nonparametric_weight": 0.4}
    late = [float(row["episode_return"]) for row in rows_of(trained / "dqn" / "episodes.csv") if int(row["step"]) > 96]
    assert dqn.late_return == pytest.approx(np.mean(late))


def test_damaged_runs_are_left_out_with_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("good", "bad"):
        write_run(tmp_path / "runs" / name, [(90, 1.0)])
    (tmp_path / "runs" / "bad" / "status.json").write_text("{")
    with pytest.warns(UserWarning, match=r"left out: .*bad/status\.json' is missing or damaged"):
        (run,) = eva.list_runs(tmp_path / "runs")
    assert run.path.name == "good"
    assert main(["export", str(tmp_path / "runs"), "--out", str(tmp_path / "x.csv")]) == 0
    assert capsys.readouterr().out.startswith("left out: ")


def test_commands_print_a_table_and_write_files(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(trained)
    assert main(["runs", "."]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["run", "eva.nonparametric_weight", "state", "transitions", "late", "return"]
    assert [row.split()[:4] for row in rows] == [
        ["deep/eva", "0.4", "finished", "100/100"],
        ["dqn", "0.0", "finished", "120/120"],
    ]
    out = tmp_path / "table.csv"
    assert main(["export", ".", "--table", "evaluations", "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}\n"
    assert len(rows_of(out)) == 2 * 3 * (2 + 1)


@pytest.mark.usefixtures("_in_empty_directory")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["runs"], "'runs' is not a directory"),
        (["runs", "nowhere"], "'nowhere' is not a directory"),
        (["export", ".", "--out", "x.csv"], "No config.json in or under '.'"),
        (["export", "."], "--out PATH"),
        (["export", ".", "--format", "xlsx", "--out", "x"], "--format is 'xlsx', but must be one of 'csv', 'parquet'"),
        (["export", ".", "--format", "sb3", "--table", "metrics", "--out", "x"], "leave the table metrics out"),
    ],
)
def test_bad_arguments_are_one_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sentence in refused(arguments, capsys)


def test_missing_pyarrow_names_the_extra(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(eva.UserError, match=r'run pip install "ephemeral-value-adjustments\[export\]", or choose csv'):
        eva.export(trained, "parquet", tmp_path / "x")


def test_unknown_formats_and_unwritable_files_raise(trained: Path, tmp_path: Path) -> None:
    with pytest.raises(eva.UserError, match="there is no format 'cvs': did you mean 'csv'"):
        eva.export(trained, "cvs", tmp_path / "x")
    with pytest.raises(eva.UserError, match="cannot write"):
        eva.export(trained, "csv", tmp_path)
