"""`eva report`: hand-computed numbers, comparisons, notes, and a self-contained page."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from eva.cli.main import main
from eva.digests import write_manifest
from eva.errors import UserError
from eva.files import Folder, write_packed, write_whole
from eva.ids import ATARI_ID
from eva.report.curves import Group, curve, final_return, group_tasks, series_numbers
from eva.report.format import interval, number, signed
from eva.report.pages import comparisons, notes, write_report
from eva.report.plots import svg
from eva.report.reading import RunRecord, read_runs
from eva.report.statistics import Estimate
from eva.report.style import NUM_COLOURS
from tests.helpers.browser import chromium

HEADER = "step,environment,episode_return,episode_length\n"
Episodes = list[tuple[int, float]]


def write_run(
    path: Path,
    episodes: Episodes,
    *,
    weight: float = 0.0,
    seed: int = 0,
    steps: int = 100,
    state: str = "finished",
    done: int | None = None,
    name: str = "maze-1-coin",
    num_coins: int = 1,
    trace: str = "tcp",
) -> Path:
    path.mkdir(parents=True)
    config = {
        "name": name,
        "seed": seed,
        "steps": steps,
        "environment": {"id": "eva/CoinMaze-v0", "num_environments": 1},
        "maze": {"layout": "...\n...\n", "num_coins": num_coins, "max_episode_steps": 500},
        "eva": {"nonparametric_weight": weight, "trace": trace},
    }
    provenance = {
        "commit": "c0ffee",
        "dirty": False,
        "argv": ["eva", "train", name],
        "versions": {"numpy": "2.0"},
        "started": "2026-01-01T00:00:00+00:00",
    }
    rows = "".join(f"{step},0,{value},1\n" for step, value in episodes)
    timings = "".join(json.dumps({"step": i, "seconds": 1.0, "steps_per_second": i}) + "\n" for i in (100, 300, 200))
    files = {
        "config.json": json.dumps(config),
        "provenance.json": json.dumps(provenance),
        "status.json": json.dumps({"state": state, "step": steps if done is None else done}),
        "episodes.csv": HEADER + rows,
        "timing.jsonl": timings,
    }
    for file, text in files.items():
        (path / file).write_text(text, encoding="utf-8")
    return path


def found(paths: list[Path]) -> list[RunRecord]:
    runs, left_out = read_runs(paths)
    assert left_out == []
    return runs


def ends(root: Path, weight: float, finals: list[float], **options: Any) -> None:
    for seed, final in enumerate(finals):
        tag = "-".join(map(str, options.values()))
        write_run(root / f"{weight}-{seed}-{tag}", [(10, -1.0), (90, final)], weight=weight, seed=seed, **options)


def groups(root: Path) -> tuple[Group, ...]:
    (task,) = group_tasks(found([root]))
    return task.groups


def compare(root: Path) -> list[tuple[str, ...]]:
    return comparisons(group_tasks(found([root])))


def finals(root: Path) -> list[float]:
    return groups(root)[0].finals.tolist()


def test_curve_is_the_mean_over_the_trailing_window(tmp_path: Path) -> None:
    # 100 planned transitions: the window is (s - 5, s].
    path = write_run(tmp_path / "run", [(10, 1.0), (12, 3.0), (15, 8.0), (50, -2.0)], done=60)
    (run,) = found([path])
    grid = np.array([0, 9, 10, 12, 15, 17, 40, 50, 60, 61], dtype=float)
    expected = [math.nan, math.nan, 1.0, 2.0, 5.5, 8.0, 8.0, -2.0, -2.0, math.nan]
    np.testing.assert_allclose(curve(run, grid), expected)


def test_final_return_counts_the_last_fifth(tmp_path: Path) -> None:
    (run,) = found([write_run(tmp_path / "run", [(80, 9.0), (81, 1.0), (100, 2.0)])])
    assert final_return(run) == 1.5
    (early,) = found([write_run(tmp_path / "early", [(80, 9.0)])])
    assert math.isnan(final_return(early))


def test_speed_is_the_median_and_optional(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", [])
    assert found([path])[0].steps_per_second == 200
    (path / "timing.jsonl").unlink()
    assert math.isnan(found([path])[0].steps_per_second)


def test_band_is_the_range_of_few_seeds_and_a_t_interval_of_many(tmp_path: Path) -> None:
    ends(tmp_path / "few", 0.0, [0.0, 1.0, 5.0])
    ends(tmp_path / "many", 0.0, [0.0, 1.0, 2.0, 3.0, 4.0])
    grid = np.array([90.0])
    few, many = (groups(tmp_path / name)[0].band(grid) for name in ("few", "many"))
    assert np.concatenate(few).tolist() == [2.0, 0.0, 5.0]
    error = stats.t.ppf(0.975, 4) * math.sqrt(2.5 / 5)
    np.testing.assert_allclose(np.concatenate(many), [2.0, 2.0 - error, 2.0 + error])


def test_mean_needs_every_seed(tmp_path: Path) -> None:
    write_run(tmp_path / "0", [(10, 1.0)], seed=0)
    write_run(tmp_path / "1", [(20, 3.0)], seed=1)
    np.testing.assert_allclose(groups(tmp_path)[0].band(np.array([15.0, 20.0]))[0], [math.nan, 2.0])


def test_runs_are_grouped_by_everything_but_seed_and_steps(tmp_path: Path) -> None:
    write_run(tmp_path / "a", [], seed=1)
    write_run(tmp_path / "b", [], seed=0, steps=200)
    ends(tmp_path, 0.4, [1.0])
    ends(tmp_path, 0.2, [1.0])
    ends(tmp_path, 0.2, [1.0], trace="kbrl")
    found = groups(tmp_path)
    labels = ["DQN", "EVA, weight 0.2, eva.trace=kbrl", "EVA, weight 0.2, eva.trace=tcp", "EVA, weight 0.4"]
    assert [group.label for group in found] == labels
    assert [run.seed for run in found[0].runs] == [0, 1]


def test_environments_become_tasks_with_their_own_optimum(tmp_path: Path) -> None:
    for num_coins in (1, 2):
        ends(tmp_path, 0.0, [1.0], num_coins=num_coins)
    tasks = group_tasks(found([tmp_path]))
    assert [task.name for task in tasks] == ["maze-1-coin, maze.num_coins=1", "maze-1-coin, maze.num_coins=2"]
    assert all(task.optimum is not None for task in tasks)
    assert tasks[0].optimum != tasks[1].optimum
    for num_coins in (1, 2):
        ends(tmp_path, 0.4, [1.0], num_coins=num_coins)
    lines = write_report([tmp_path]).comparisons.splitlines()
    assert [line.partition(": ")[0] for line in lines] == [task.name for task in tasks]


def test_optimum_is_left_out_where_it_is_not_known(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", [])
    config = json.loads((path / "config.json").read_text())
    for change in ({"environment": {"id": "ALE/Pong-v5"}}, {"maze": {"layout": "gone.txt", "num_coins": 1}}):
        (path / "config.json").write_text(json.dumps(config | change))
        assert group_tasks(found([path]))[0].optimum is None


@pytest.mark.parametrize(
    ("dqn", "eva", "difference", "ci", "n", "verdict"),
    [
        ([0.1, 0.2, 0.3], [0.8, 0.9, 1.0], "+0.70", "[0.47, 0.93]", "3", "better"),
        ([0.8, 0.9, 1.0], [0.1, 0.2, 0.3], "-0.70", "[-0.93, -0.47]", "3", "worse"),
        ([0.5, 0.6], [0.6, 0.9], "+0.20", "[-1.13, 1.53]", "2", "undecided"),
        ([0.5, 0.5, 0.5], [0.501, 0.501], "+0.00", "[0.00, 0.00]", "2", "no difference"),
        ([0.1, 0.2, 0.3], [0.9], "+0.70", "one seed", "1", "undecided"),
        ([0.5], [0.6], "+0.10", "one seed", "1", "undecided"),
    ],
)
def test_eva_is_compared_with_dqn(
    tmp_path: Path, dqn: list[float], eva: list[float], difference: str, ci: str, n: str, verdict: str
) -> None:
    ends(tmp_path, 0.0, dqn)
    ends(tmp_path, 0.4, eva)
    assert compare(tmp_path) == [("EVA, weight 0.4 - DQN", difference, ci, n, verdict)]
    result = write_report([tmp_path])
    assert result.comparisons == f"EVA, weight 0.4 - DQN  {difference}  {ci}  {n}  {verdict}"
    for cell in (difference, ci, n, verdict):
        assert f">{cell}</td>" in result.html.read_text()


def test_margin_is_a_twentieth_of_the_optimum_above_random_play(tmp_path: Path) -> None:
    ends(tmp_path, 0.0, [0.5])
    (task,) = group_tasks(found([tmp_path]))
    assert task.optimum is not None
    assert task.chance is not None
    assert task.margin == pytest.approx((task.optimum - task.chance) / 20)
    assert replace(task, chance=None).margin == 0


def test_every_eva_is_compared_with_every_dqn(tmp_path: Path) -> None:
    ends(tmp_path, 0.0, [0.5, 0.6])
    assert compare(tmp_path) == []
    ends(tmp_path, 0.2, [0.7, 0.8])
    ends(tmp_path, 0.4, [0.8, 0.9])
    ends(tmp_path, 0.0, [0.1], trace="kbrl")
    baselines = ("DQN, eva.trace=kbrl", "DQN, eva.trace=tcp")
    expected = [f"EVA, weight {weight} - {dqn}" for weight in (0.2, 0.4) for dqn in baselines]
    assert [row[0] for row in compare(tmp_path)] == expected


def test_arms_without_final_return_are_not_compared(tmp_path: Path) -> None:
    ends(tmp_path, 0.4, [0.5])
    write_run(tmp_path / "silent", [])
    assert compare(tmp_path) == []
    assert "EVA and DQN" not in write_report([tmp_path]).html.read_text()


def test_many_runs_are_not_drawn_one_by_one(tmp_path: Path) -> None:
    def num_thin_lines() -> int:
        return svg(group_tasks(found([tmp_path])), narrow=False).count("stroke-opacity: 0.45")

    ends(tmp_path, 0.0, [0.5] * 6)
    ends(tmp_path, 0.4, [0.6] * 6)
    assert num_thin_lines() == 12
    ends(tmp_path, 0.8, [0.7])
    assert num_thin_lines() == 0
    write_run(tmp_path / "late", [(10, 0.5)], seed=7, state="running", done=10)
    assert num_thin_lines() == 1, "unfinished runs are in no mean"


def test_a_seed_counts_once(tmp_path: Path) -> None:
    ends(tmp_path / "here", 0.0, [0.5, 0.6])
    ends(tmp_path / "above", 0.0, [-5.0], steps=90, done=90)
    assert finals(tmp_path) == [0.5, 0.6]
    assert "a seed occurs more than once; the longest of its runs counts." in write_report([tmp_path]).html.read_text()


def test_unfinished_runs_are_shown_flagged_and_not_averaged(tmp_path: Path) -> None:
    ends(tmp_path, 0.0, [0.5, 0.6])
    path = write_run(tmp_path / "late", [(10, 99.0)], seed=7, state="running", done=10)
    with (path / "episodes.csv").open("a") as file:
        file.write("12,0,")  # the run is writing this line
    assert finals(tmp_path) == [0.5, 0.6]
    html = write_report([tmp_path]).html.read_text(encoding="utf-8")
    assert ">unfinished<" in html
    assert "99.00" in html
    assert "seed 7 (running at 10)" in html
    assert "<strong>0.55</strong>" in html
    assert "2 of 3" in html
    assert "Dotted: unfinished runs." in html
    assert finals(path) == [99.0]
    assert "unfinished runs, shown as they stand" in " ".join(notes(group_tasks(found([path]))))


def test_notes_name_what_makes_runs_incomparable(tmp_path: Path) -> None:
    ends(tmp_path, 0.0, [0.5])
    assert notes(group_tasks(found([tmp_path]))) == []
    ends(tmp_path, 0.0, [0.5], steps=200)
    ends(tmp_path, 0.4, [0.5], trace="kbrl")
    path = write_run(tmp_path / "none", [], seed=1)
    (path / "provenance.json").write_text(json.dumps({"commit": None, "dirty": True}))
    text = " ".join(notes(group_tasks(found([tmp_path]))))
    for words in ("different numbers", "seed occurs", "(eva.trace)", "commits", "uncommitted", "without an episode"):
        assert words in text


def test_notes_include_the_commits_of_continuations(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", [(90, 1.0)])
    origin = {"commit": "a", "dirty": False}
    for later, expected in ((origin, 0), ({"commit": "b", "dirty": False}, 1), ({"commit": "b", "dirty": True}, 2)):
        (path / "provenance.json").write_text(json.dumps({**origin, "continued": [later]}))
        assert len(notes(group_tasks(found([path])))) == expected


def test_a_run_that_has_just_begun_has_no_episodes(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", [], state="running", done=0)
    (path / "episodes.csv").write_text("")
    assert len(found([path])[0].episode_steps) == 0
    finished = write_run(tmp_path / "finished", [])
    (finished / "episodes.csv").write_text("")
    with pytest.raises(UserError, match="not a table"):
        found([finished])


def test_numbers_have_two_decimals_or_thousands_separators() -> None:
    assert [number(value) for value in (0.714, -0.001, 12345.6)] == ["0.71", "0.00", "12,346"]
    assert [number(value) for value in (math.nan, math.inf)] == ["\N{EN DASH}", "not reached"]
    assert [signed(value) for value in (0.5, -0.5, math.inf)] == ["+0.50", "-0.50", "not reached"]
    assert interval(Estimate(0.5, 0.0, math.inf, 3)) == "[0.00, not reached]"
    assert interval(Estimate(0.5, math.nan, math.nan, 1)) == ""


def test_page_is_self_contained(tmp_path: Path) -> None:
    ends(tmp_path, 0.0, [0.5, 0.6])
    ends(tmp_path, 0.4, [0.7, 0.8])
    result = write_report([tmp_path])
    assert (result.html, result.png) == (tmp_path / "report.html", tmp_path / "report.png")
    html = result.html.read_text(encoding="utf-8")
    assert html.startswith("<!DOCTYPE html>")
    for reference in ("http://", "https://", "<script", "<link", "<img", "@import", "url(//"):
        assert reference not in html
    assert re.search(r'(?:src|href)="(?!#)', html) is None
    ids = re.findall(r'\bid="([^"]*)"', html)
    assert len(ids) == len(set(ids))
    assert "prefers-color-scheme:dark" in html
    assert "Band: 95% CI of the mean from 5 seeds on, else the range." in re.sub(r"(<[^>]*>|\s)+", " ", html)
    assert '<th scope="col"' in html
    assert result.png.read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["report.html", "report.png"]


def test_colour_of_an_arm_does_not_depend_on_the_others() -> None:
    few = ["EVA, weight 0.4"]
    many = [
        "DQN",
        "EVA, weight 0.2",
        "EVA, weight 0.4",
        "EVA, weight 0.4, eva.trace=kbrl",
        *map("EVA, weight {}".format, range(40)),
    ]
    colours = [
        {label: n % NUM_COLOURS for label, n in series_numbers(names).items()} for names in (few, many, many[::-1])
    ]
    for some in colours:
        assert some.items() <= colours[1].items()
    assert colours[1]["DQN"] == 0
    assert [label for label, colour in colours[1].items() if colour == 0] == ["DQN"]
    numbers = series_numbers(many)
    assert len(set(numbers.values())) == len(numbers), "arms of one colour have different dashes"
    assert series_numbers(["brute force", "DQN", "projected"]) == {"brute force": 0, "DQN": 6, "projected": 1}


def test_settings_of_other_environments_are_not_listed(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", [(90, 1.0)])
    config = json.loads((path / "config.json").read_text())
    more = {"atari": {"game": "pong"}, "minatar": {"difficulty_ramping": True}}
    for environment, shown in (("eva/CoinMaze-v0", "maze."), ("ALE/Atari-v5", "atari."), ("CartPole-v1", "")):
        environment = ATARI_ID if shown == "atari." else environment
        (path / "config.json").write_text(json.dumps({**config, **more, "environment": {"id": environment}}))
        html = write_report([path]).html.read_text(encoding="utf-8")
        assert set(re.findall(r"<dt>(maze\.|atari\.|minatar\.)", html)) == {shown} - {""}


def test_table_has_the_distance_below_the_optimum_in_units_of_the_return(tmp_path: Path) -> None:
    ends(tmp_path, 0.0, [-2.0, -3.0])
    (task,) = group_tasks(found([tmp_path]))
    html = write_report([tmp_path]).html.read_text(encoding="utf-8")
    assert f">{number(task.optimum + 2.5)}</td>" in re.sub(r"\s+<", "<", re.sub(r">\s+", ">", html))
    assert re.search(r"-?\d+%</td>", html) is None, "-2.5 is no share of the optimum"


def test_title_names_few_tasks(tmp_path: Path) -> None:
    for game in range(5):
        write_run(tmp_path / str(game), [(90, 1.0)], name=f"game-{game}", num_coins=game + 1)
    html = write_report([tmp_path]).html.read_text(encoding="utf-8")
    assert "<h1>5 tasks: game-0, game-1 and 3 more</h1>" in html
    html = write_report([tmp_path / "0", tmp_path / "1"], tmp_path / "two").html.read_text(encoding="utf-8")
    assert "<h1>game-0, game-1</h1>" in html


@pytest.mark.parametrize("width", [390, 1280], ids=["phone", "desktop"])
def test_numbers_and_commands_stay_on_one_line(tmp_path: Path, width: int) -> None:
    ends(tmp_path, 0.0, [0.5, 0.6])
    ends(tmp_path, 0.4, [-1234567.5, 0.8], trace="kbrl")
    path = write_run(tmp_path / "long", [(90, 1.0)], seed=9)
    provenance = json.loads((path / "provenance.json").read_text())
    argv = ["eva", "train", "maze-1-coin", "--learner.learning-rate", "0.000123", "--out", "a-folder/" * 9]
    (path / "provenance.json").write_text(json.dumps({**provenance, "argv": argv}))
    config = json.loads((path / "config.json").read_text())
    config["learner"] = {"the_longest_name_of_a_setting_in_the_configuration": 0.000123}
    (path / "config.json").write_text(json.dumps(config))
    page = write_report([tmp_path]).html
    with chromium() as browser:
        tab = browser.new_page(viewport={"width": width, "height": 900})
        tab.goto(page.as_uri())
        shown = tab.locator("td.n, .keep, code").evaluate_all(
            """cells => cells.map(cell => {
              const range = document.createRange();
              range.selectNodeContents(cell);
              const tops = new Set([...range.getClientRects()].map(rect => Math.round(rect.top / 4)));
              return [cell.textContent.trim(), tops.size];
            })"""
        )
        overflow = tab.evaluate("document.documentElement.scrollWidth")
    assert len(shown) > 20
    assert [text for text, num_lines in shown if num_lines > 1] == []
    assert any(text.startswith("eva train maze-1-coin --learner") for text, _ in shown)
    assert overflow <= width, "wide tables scroll, the page does not"


def test_page_escapes_what_files_say(tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>\"'--> $x$"
    for trace in ("tcp", hostile):
        write_run(tmp_path / str(len(trace)), [(90, 1.0)], name=hostile, trace=trace, weight=0.4)
    path = write_run(tmp_path / "other", [(90, 1.0)], name="tame", num_coins=2, state=hostile)
    (path / "provenance.json").write_text(json.dumps({"commit": hostile, "argv": [hostile], "machine": {hostile: 1}}))
    html = write_report([tmp_path]).html.read_text(encoding="utf-8")
    assert "<script" not in html
    assert html.count("&lt;script&gt;") > 5


def test_same_runs_give_the_same_bytes(tmp_path: Path) -> None:
    ends(tmp_path / "runs", 0.0, [0.5, 0.6, 0.1, 0.2, 0.3])
    first, second = (write_report([tmp_path / "runs"], tmp_path / out) for out in ("a", "b"))
    assert first.html.read_bytes() == second.html.read_bytes()
    assert first.png.read_bytes() == second.png.read_bytes()


def test_single_run_without_episodes_gets_its_report_beside_it(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", [], state="running", done=0)
    assert write_report([path, path]).html == path / "report.html"


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("config.json", "{"),
        ("config.json", "[]"),
        ("config.json", "{}"),
        ("config.json", '{"environment": {"id": {}}, "seed": 0, "steps": 9, "eva": {"nonparametric_weight": 0}}'),
        ("status.json", '{"state": "finished"}'),
        ("status.json", None),
        ("status.json", '{"state": "finished", "step": Infinity}'),
        ("status.json", "[" * 100_000),
        ("provenance.json", None),
        ("episodes.csv", None),
        ("episodes.csv", ""),
        ("episodes.csv", "step,return\n1,2\n"),
        ("episodes.csv", HEADER + "1,0,x,1\n"),
        ("episodes.csv", HEADER + "1,0,nan,1\n"),
        ("episodes.csv", HEADER + "1,0\n"),
        ("timing.jsonl", "{}\n"),
        ("timing.jsonl", '{"steps_per_second": 1e400, "seconds": 1}\n'),
        ("timing.jsonl", '{"steps_per_second": 1, "seconds": 1e300}\n'),
        ("status.json", '{"state": "finished", "step": 1e300}'),
        ("status.json", '{"state": "finished", "step": 9, "largest_abs_q": "many"}'),
        ("status.json", '{"state": "finished", "step": 9, "sha256": "another"}'),
        ("episodes.csv", HEADER + "1,0,1e200,1\n"),
        ("manifest.json", "{}"),
    ],
)
def test_damaged_run_is_a_user_error_of_one_sentence(tmp_path: Path, file: str, text: str | None) -> None:
    path = write_run(tmp_path / "run", [(1, 1.0)])
    if text is None:
        (path / file).unlink()
    else:
        (path / file).write_text(text)
    with pytest.raises(UserError, match=r"^[^\n]*: [^\n]*\.$"):
        write_report([path])


def test_unreadable_runs_are_left_out_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ends(tmp_path, 0.0, [1.0])
    broken = write_run(tmp_path / "broken", [(1, 1.0)])
    (broken / "episodes.csv").write_text(HEADER + "1,0,nan,1\n")
    assert main(["report", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert f"left out: '{broken / 'episodes.csv'}' is missing or damaged (" in out
    assert "Left out: " in (tmp_path / "report.html").read_text()
    assert main(["report", str(broken)]) == 2


@pytest.mark.parametrize("file", ["config.json", "provenance.json", "episodes.csv", "timing.jsonl"])
@pytest.mark.parametrize("is_packed", [False, True])
def test_changed_file_of_a_finished_run_is_damaged(tmp_path: Path, file: str, is_packed: bool) -> None:
    path = write_run(tmp_path / "run", [(1, 1.0)])
    with Folder(path) as folder:
        write_manifest(folder, [each.name for each in path.iterdir()])
    content = (path / file).read_bytes()
    other = content.replace(b"1", b"2")
    assert other != content
    for text, is_good in ((content, True), (other, False)):
        if is_packed:
            write_packed(path / file, text)
        else:
            write_whole(path / file, text)
        if is_good:
            found([path])
        else:
            with pytest.raises(UserError, match=rf"{file}' is missing or damaged \(.* its checksum does not match"):
                found([path])


def test_removed_speeds_of_a_finished_run_are_damage(tmp_path: Path) -> None:
    """Without a manifest, the report leaves the speed out."""
    path = write_run(tmp_path / "run", [(1, 1.0)])
    with Folder(path) as folder:
        write_manifest(folder, [each.name for each in path.iterdir()])
    (path / "timing.jsonl").unlink()
    with pytest.raises(UserError, match=r"timing.jsonl' is missing or damaged .*: delete it and manifest.json, and"):
        found([path])
    (path / "manifest.json").unlink()
    found([path])


def test_malformed_provenance_is_tolerated(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", [(1, 1.0)])
    for continued in (3, "who", [3], {"commit": 3}):
        (path / "provenance.json").write_text(json.dumps({"continued": continued}))
        assert write_report([path]).html.exists()


def test_wrong_paths_are_user_errors(tmp_path: Path) -> None:
    run = write_run(tmp_path / "runs" / "run", [])
    (tmp_path / "empty").mkdir()
    for paths in ([], [tmp_path / "empty"], [tmp_path / "absent"], [run / "config.json"]):
        with pytest.raises(UserError):
            write_report(paths)
    with pytest.raises(UserError, match="choose another place"):
        write_report([run], run / "config.json")


def test_report_starts_without_torch_and_gymnasium() -> None:
    code = "import sys, eva.report.pages; print(sorted({'torch', 'gymnasium', 'matplotlib.pyplot'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
