"""Sweeps: the grid file, progress and manifest, the cost estimate, and the command."""

from __future__ import annotations

import io
import json
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from eva.cli.main import main
from eva.errors import UserError
from eva.files import locked
from eva.runs.record.formatting import aligned, duration
from eva.runs.sweep import cost, dashboard
from eva.runs.sweep.cost import estimate_cost
from eva.runs.sweep.grid import read_grid
from eva.runs.sweep.jobs import Job, Outcome
from eva.runs.sweep.manifest import Manifest, run_sweep, sweep_status
from eva.runs.sweep.progress import Progress, TrackedRun, last_speed, summary
from eva.runs.sweep.worker import work
from tests.helpers.agents import changed, tiny

ROOT = Path(__file__).parents[3]
GRID = """
preset = "smoke"
seeds = [3, 5]
out = "out"

[settings]
steps = 60
learner.batch_size = 8

[axes]
eva.nonparametric_weight = [0.0, 0.4]
network.channels = [[4, 4], [8, 4]]
"""


pytestmark = pytest.mark.usefixtures("_in_empty_directory")


def grid(text: str) -> list[Job]:
    Path("grid.toml").write_text(text)
    return list(read_grid(Path("grid.toml")).jobs)


# The grid file


def test_grid_combines_all_axes_seed_by_seed() -> None:
    jobs = grid(GRID)
    points = [(w, c, s) for s in (3, 5) for w in (0.0, 0.4) for c in ((4, 4), (8, 4))]
    configs = [job.config for job in jobs]
    assert [(x.eva.nonparametric_weight, x.network.channels, x.seed) for x in configs] == points
    assert {(x.name, x.steps, x.learner.batch_size, x.replay.replay_capacity) for x in configs} == {
        ("smoke", 60, 8, 500)
    }
    assert jobs[1].directory == Path("out/eva.nonparametric_weight-0.0/network.channels-8,4/seed-3")
    assert len({job.directory for job in jobs}) == len(jobs)


def test_settings_and_axes_are_checked_together() -> None:
    settings = "[settings]\neva.num_neighbours = 3000\n"
    jobs = grid(f'preset = "smoke"\n{settings}[axes]\neva.value_buffer_capacity = [4000, 8000]')
    assert [job.config.eva.value_buffer_capacity for job in jobs] == [4000, 8000]
    with pytest.raises(UserError, match=r"must hold eva\.num_neighbours"):
        grid(f'preset = "smoke"\n{settings}[axes]\neva.value_buffer_capacity = [2000]')


def test_example_matches_the_guide() -> None:
    example = (ROOT / "examples" / "sweep.toml").read_text()
    assert example.partition("\n")[2] in (ROOT / "docs" / "scaling.md").read_text()
    assert len(grid(example)) == 12


def test_grid_without_axes_has_one_run_per_seed() -> None:
    (job,) = grid('env = "CartPole-v1"')
    assert (job.config.environment.id, job.config.seed) == ("CartPole-v1", 0)
    assert job.directory == Path("runs/grid/seed-0")
    assert [job.config.seed for job in grid('preset = "smoke"\nseeds = 3')] == [0, 1, 2]


def test_games_accept_any_spelling_and_sets() -> None:
    jobs = grid('preset = "atari-small"\n[axes]\natari.game = ["tuning-5", "MontezumaRevenge"]')
    games = ["pong", "hero", "frostbite", "ms_pacman", "qbert", "montezuma_revenge"]
    assert [job.config.atari.game for job in jobs] == games
    assert [job.config.name for job in jobs] == [f"atari-small-{game}" for game in games]
    jobs = grid('preset = "minatar"\n[axes]\nenvironment.id = ["MinAtar/Asterix-v0", "MinAtar/Freeway-v1"]')
    assert [job.config.name for job in jobs] == ["minatar-asterix", "minatar-freeway-v1"]
    assert {job.config.run.threads for job in jobs} == {1}, "one thread by default, not all cores"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("preset = ", "cannot read grid.toml"),
        ("", "begin with one of preset"),
        ('preset = "smoke"\nenv = "CartPole-v1"', "begin with one of preset"),
        ('preset = "smok"', "there is no preset 'smok': did you mean 'smoke'?"),
        ('preset = "smoke"\nsedes = 3', "there is no key 'sedes': did you mean 'seeds'?"),
        ('preset = "smoke"\nseeds = 0', "seeds is 0, but must be"),
        (f'preset = "smoke"\nseeds = {"9" * 20}', "seeds is 99999999999999999999, but must be"),
        (f'preset = "smoke"\n[settings]\nsteps = {"9" * 400}', "but must be a whole number of at least 1"),
        ('preset = "smoke"\nseeds = [1, "x"]', "seed is 'x', but must be a whole number"),
        ('preset = "smoke"\nout = 3', "out is 3, but must be text"),
        ('preset = "smoke"\nout = "a\\u0000b"', "but must be text"),
        (f'preset = "smoke"\nseeds = [{"9" * 5_000}]', "cannot read grid.toml"),
        ('preset = "smoke"\nsettings = 3', "settings is 3, but must be a table"),
        ('preset = "smoke"\n[settings]\nseed = 3', "write seeds"),
        ('preset = "smoke"\n[settings]\nlearner.batch_siez = 3', "there is no field learner.batch_siez: did you mean"),
        ('preset = "smoke"\n[settings]\nsteps.x = 3', "there is no field steps.x"),
        ('preset = "smoke"\n[settings]\nsteps = 1.5', "steps is 1.5, but must be a whole number"),
        ('preset = "smoke"\n[axes]\nlerner.batch_size = [3]', "there is no field lerner: did you mean 'learner'?"),
        ('preset = "smoke"\n[axes]\nsteps = 3', "axes.steps is 3, but must be a list of values"),
        ('preset = "smoke"\n[axes]\nsteps = []', "must be a list of values"),
        ('preset = "smoke"\n[axes]\nseed = [3]', "axes.seed: it is given elsewhere"),
        ('preset = "smoke"\n[settings]\nsteps = 3\n[axes]\nsteps = [3]', "axes.steps: it is given elsewhere"),
        ('preset = "smoke"\n[axes]\nsteps = [3, 3]', "two runs would have the directory runs/grid/steps-3/seed-0"),
        ('preset = "atari"\n[axes]\natari.game = ["pnog"]', "there is no Atari game 'pnog': did you mean 'pong'?"),
    ],
)
def test_invalid_grid_file_exits_with_2(text: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("grid.toml").write_text(text)
    assert main(["sweep", "grid.toml"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "grid.toml" in err
    assert sentence in err
    assert err.count("\n") == 1
    assert [path.name for path in Path().iterdir()] == ["grid.toml"]


# Progress and manifest


def write_run(directory: Path, state: str, step: int, speed: float = 0.0, silent_for: float = 0.0) -> None:
    """Write the records of a run."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "status.json").write_text(json.dumps({"state": state, "step": step}))
    lines = [{"step": 1, "steps_per_second": 1e9}, {"step": step, "seconds": 1.0, "steps_per_second": speed}]
    (directory / "timing.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    at = time.time() - silent_for
    os.utime(directory / "status.json", (at, at))


@pytest.mark.parametrize(
    ("state", "step", "silent_for", "has_failed", "expected"),
    [
        ("absent", 0, 0, False, ("waiting", 0)),
        ("running", 50, 0, False, ("running", 50)),
        ("running", 50, 3600, False, ("waiting", 50)),
        ("stopped", 50, 0, False, ("waiting", 50)),
        ("failed", 50, 0, True, ("failed", 50)),
        ("running", 50, 0, True, ("failed", 50)),
        ("finished", 50, 0, False, ("running", 50)),
        ("finished", 103, 0, False, ("done", 100)),
        ("finished", 103, 0, True, ("failed", 100)),
    ],
)
def test_progress_is_read_from_run_directories(
    state: str, step: int, silent_for: float, has_failed: bool, expected: tuple[str, int]
) -> None:
    run = Path("run")
    if state != "absent":
        write_run(run, state, step, 7.0, silent_for)
    found = TrackedRun(run, 100).progress(has_failed)
    assert (found.state, found.step, found.steps) == (*expected, 100)
    assert found.steps_per_second == (7.0 if found.state == "running" else 0.0)


def test_damaged_timing_file_has_no_speed() -> None:
    assert last_speed(Path("run")) is None
    for text in ("", "{", "3\n", '{"steps_per_second": null}\n'):
        Path("timing.jsonl").write_text(text)
        assert last_speed(Path()) is None


def test_summary_counts_and_sums_all_runs() -> None:
    found = [
        Progress("running", 30, 100, 4.0),
        Progress("running", 50, 100, 1.0),
        Progress("waiting", 0, 100, 0.0),
        Progress("done", 100, 100, 0.0),
        Progress("failed", 20, 100, 0.0),
    ]
    assert dict(summary(found)) == {
        "running": "2",
        "waiting": "1",
        "done": "1",
        "failed": "1",
        "transitions": "200 of 500",
        "steps/s in all": "5",
        "time left": "0m 44s",  # (70 + 50 + 100) / 5
    }
    assert dict(summary(found[2:]))["time left"] == "-"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_dashboard_shows_table_on_terminal_and_lines_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dashboard, "_SECONDS_BETWEEN_LINES", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    jobs = [Job(Path(f"seed-{seed}"), tiny(steps=100, seed=seed)) for seed in range(3)]
    write_run(jobs[0].directory, "running", 50, 7.0)
    write_run(jobs[1].directory, "finished", 100)
    for stream, expected in (
        (Terminal(), r"title.*\n.*running  waiting  done  failed .* time left.*\n +1 +0 +1 +1 +150 of 300 +7 +0m 07s"),
        (io.StringIO(), "title: 1 running, 0 waiting, 1 done, 1 failed, 150 of 300 transitions, 7 steps/s in all"),
    ):
        with dashboard.Dashboard("title", jobs, stream) as shown:
            shown.failed.add(jobs[2].directory)
            shown.refresh()
        assert re.search(expected, stream.getvalue()), stream.getvalue()


def test_tables_are_aligned() -> None:
    assert aligned(["a", "number"], [["long", "1"], ["x", "22,000"]]) == "a     number\nlong       1\nx     22,000"
    assert [duration(s) for s in (5, 3599, 3600, 172799, 172801)] == ["0m 05s", "59m 59s", "1h 00m", "47h 59m", "2d 0h"]


class StubExecutor:
    """Finishes all jobs immediately, except that seed 5 fails."""

    def __init__(self) -> None:
        self.executed: list[Job] = []

    def execute(self, jobs: Sequence[Job], on_outcome: Callable[[Outcome], None]) -> list[Outcome]:
        self.executed = list(jobs)
        outcomes = []
        for job in jobs:
            if job.config.seed == 5:
                outcome = Outcome(job, "failed", "ValueError: no")
            else:
                work(job)
                outcome = Outcome(job, "finished")
            outcomes.append(outcome)
            on_outcome(outcome)
        return outcomes


def test_done_jobs_are_skipped_and_failures_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    jobs = [Job(Path("out", f"seed-{seed}"), tiny(steps=20, seed=seed)) for seed in (3, 5, 6)]
    work(jobs[0])
    executor = StubExecutor()
    with pytest.raises(UserError, match=r"1 of 3 runs failed: run the same command to try them again\."):
        run_sweep("grid", Path("out"), jobs, executor)
    assert executor.executed == jobs[1:]
    assert capsys.readouterr().out.splitlines() == [
        "failed run  error           log",
        "out/seed-5  ValueError: no  out/seed-5.log",
    ]
    shown = sweep_status(Path("out"))
    assert re.search(r"running +waiting +done +failed .*\n *0 +0 +2 +1 ", shown)
    assert re.search(r"seed-5 +failed +0 +0 +ValueError: no \(see out/seed-5.log\)", shown)
    Path("out").rename("elsewhere")
    assert "seed-5  failed" in sweep_status(Path("elsewhere")), "paths are relative to the folder"


def test_failed_run_that_another_process_finishes_is_not_failed() -> None:
    folder = Path("runs")
    runs = [folder / name for name in ("before", "since")]
    write_run(runs[0], "finished", 100, silent_for=60)
    Manifest("sweep", folder, tuple(TrackedRun(run, 100) for run in runs), dict.fromkeys(runs, "it broke")).write()
    write_run(runs[1], "finished", 100, silent_for=-60)
    assert set(Manifest.read(folder / "sweep.sweep.json").failed) == {runs[0]}, "it was finished before the failure"


def test_second_start_raises_while_the_first_runs() -> None:
    Path("out").mkdir()
    held = locked(Path("out/.grid.sweep.json.lock"))
    assert held is not None
    with held, pytest.raises(UserError, match="the sweep grid in out is locked by another process"):
        run_sweep("grid", Path("out"), [], StubExecutor())
    assert run_sweep("grid", Path("out"), [], StubExecutor()).startswith("0 runs are done")


def test_status_needs_a_sweep(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "--status", "nowhere"]) == 2
    assert "there is no sweep in nowhere" in capsys.readouterr().err
    Path("x.sweep.json").write_text("[]")
    assert main(["sweep", "--status", "."]) == 2
    assert "cannot read x.sweep.json" in capsys.readouterr().err


# The cost estimate


def test_cost_of_atari_matches_a_hand_calculation(capsys: pytest.CaptureFixture[str]) -> None:
    node = ["--node-cores", "32", "--node-memory", "128"]
    assert main(["sweep", "atari-55", "--plan", "--steps-per-second", "100", *node]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "660 runs, 0 of them done; 33,000,000,000 transitions left"
    seconds = 50_000_000 / 100
    rounds = {1: -(-660 // 32), 8: -(-660 // 256), 64: 1}
    rows = [line.split() for line in lines[-3:]]
    assert [int(row[0]) for row in rows] == list(rounds)
    assert [int(row[1]) for row in rows] == [32, 256, 660]
    assert [" ".join(row[2:4]) for row in rows] == [duration(seconds * num_rounds) for num_rounds in rounds.values()]
    assert list(Path().iterdir()) == [], "an estimate starts no run"


def test_nodes_of_a_plan_are_by_default_like_this_machine(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eva.cli.sweep.num_cores", lambda: 3)
    monkeypatch.setattr("eva.cli.sweep.free_memory", lambda: 17_040_000_000)
    assert main(["sweep", "maze-one-coin", "--plan"]) == 0
    assert "; one node: 3 cores, 17 GB" in capsys.readouterr().out


def test_cost_counts_remaining_transitions_at_recorded_speeds() -> None:
    jobs = [Job(Path(f"seed-{seed}"), tiny(steps=36_000, seed=seed)) for seed in range(3)]
    assert "eva/CoinMaze-v0 with EVA: 687 steps/s (one thread, measured: docs/performance.md)" in estimate_cost(
        jobs, 2, 64
    )
    write_run(jobs[0].directory, "stopped", 18_000, speed=10.0)
    shown = estimate_cost(jobs, 2, 64)
    assert "90,000 transitions left" in shown
    assert "with EVA: 10 steps/s (median of 1 runs of this sweep)" in shown
    times = [" ".join(line.split()[2:4]) for line in shown.splitlines()[-3:]]
    assert times == ["1h 30m", "1h 00m", "1h 00m"]  # two slots: 0.5 + 1 h and 1 h; three slots: 1 h
    work(shorter := replace(jobs[1], config=changed(jobs[1].config, steps=20, run={"metrics_period_transitions": 10})))
    assert estimate_cost([shorter], 2, 64) == "1 runs, 1 of them done; 0 transitions left"
    assert "median of 1 runs of this sweep" in estimate_cost([shorter, jobs[2]], 2, 64), "finished runs have speeds too"
    lowered = replace(shorter, config=replace(shorter.config, steps=10))
    assert "0 of them done; 0 transitions left" in estimate_cost([lowered], 2, 64)


def test_cost_raises_for_unknown_speeds_and_small_nodes() -> None:
    jobs = grid('env = "CartPole-v1"')
    with pytest.raises(UserError, match="the speed of CartPole-v1 with EVA is unknown: give --steps-per-second"):
        estimate_cost(jobs, 2, 64)
    with pytest.raises(UserError, match="more than a node has"):
        estimate_cost(jobs, 2, 0.1, 100)


def test_measured_speeds_match_the_documentation() -> None:
    text = (ROOT / "docs" / "performance.md").read_text()
    for speed in cost._MEASURED.values():
        assert re.search(rf"\| {speed:g} \|", text)


# The command


def test_finished_sweep_is_not_run_again(capsys: pytest.CaptureFixture[str]) -> None:
    text = GRID.replace("[3, 5]", "1").replace(", 0.4]", "]").replace("[4, 4], ", "")
    Path("grid.toml").write_text(text)
    assert main(["sweep", "grid.toml", "--jobs", "1", "--retries", "0"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "1 runs are done, 0 of them were done before: out",
        "next: eva report out",
    ]
    run = Path("out/eva.nonparametric_weight-0.0/network.channels-8,4/seed-0")
    assert json.loads((run / "provenance.json").read_text())["argv"] == ["eva", "sweep", "grid.toml"]
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    assert main(["sweep", "grid.toml"]) == 0
    assert "1 runs are done, 1 of them were done before" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before
    assert main(["sweep", "--status", "out"]) == 0
    assert capsys.readouterr().out.startswith("grid: 1 runs\n\nrunning  waiting  done")


def test_experiment_sweep_writes_to_the_runs_directory_of_the_experiment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    swept: list[tuple[str, Path, Sequence[Job]]] = []
    monkeypatch.setattr("eva.runs.sweep.manifest.run_sweep", lambda *arguments: swept.append(arguments[:3]) or "")
    assert main(["sweep", "atari-55", "--games", "pong", "--seeds", "1", "--frames", "400"]) == 0
    ((name, folder, jobs),) = swept
    assert (name, folder) == ("atari-pong-0.0004M-frames-1-seed", Path("runs"))
    assert jobs[0].directory == Path("runs/atari-small-pong/dqn/frames-400/seed-4000")
    assert len(jobs) == 2  # DQN and EVA
    assert capsys.readouterr().out.endswith("next: eva experiment atari-55 --games pong --frames 400 --seeds 1\n")
    assert main(["sweep", "maze-one-coin", "--runs-dir", "my runs"]) == 0
    assert capsys.readouterr().out.endswith("next: eva experiment maze-one-coin --runs-dir 'my runs'\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "give a grid file, the name of an experiment"),
        (["maze-one-cion"], "there is no experiment 'maze-one-cion': did you mean 'maze-one-coin'?"),
        (["none.toml"], "cannot read none.toml"),
        (["maze-one-coin", "--executor", "slurm"], "--executor is 'slurm', but must be one of 'local', 'ray'."),
        (["maze-one-coin", "--address", "auto"], "add --executor ray"),
        (["maze-one-coin", "--executor", "ray", "--jobs", "2"], "--jobs is for the executor local"),
        (["maze-one-coin", "--jobs", "0"], "--jobs is 0, but must be a whole number of at least 1"),
        (["maze-one-coin", "--retries", "-1"], "--retries is -1, but must be a whole number of at least 0"),
        (["maze-one-coin", "--gpu-share", "0"], "--gpu-share is 0.0, but must be a number above 0"),
        (["maze-one-coin", "--plan", "--node-memory", "inf"], "--node-memory is inf, but must be a number above 0"),
        (["maze-one-coin", "--plan", "--steps-per-second", "nan"], "--steps-per-second is nan"),
        (["x" * 300], "File name too long"),
        (["maze-one-coin", "--games", "pong"], "only for atari-55"),
        (["maze-one-coin", "--gpu-share", "0.5"], "add --executor ray"),
        (["maze-one-coin", "--node-cores", "8"], "are for --plan"),
        ([str(ROOT / "examples" / "sweep.toml"), "--runs-dir", "x"], "write `out` into the file"),
    ],
)
def test_invalid_arguments_exit_with_2(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert sentence in err
    assert err.count("\n") == 1
    assert list(Path().iterdir()) == []


def test_missing_ray_names_the_extra_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "eva.runs.sweep.ray_executor", raising=False)
    monkeypatch.setitem(sys.modules, "ray", None)
    Path("grid.toml").write_text('preset = "smoke"')
    assert main(["sweep", "grid.toml", "--executor", "ray"]) == 2
    assert 'run pip install "ephemeral-value-adjustments[ray]"' in capsys.readouterr().err
    monkeypatch.delitem(sys.modules, "eva.runs.sweep.ray_executor", raising=False)
