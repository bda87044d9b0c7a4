"""The paper's experiments: what is run, what is kept of it, and what is not run twice."""

from __future__ import annotations

import functools
import gzip
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from eva.cli.main import main
from eva.config import EvaluationConfig
from eva.errors import UserError
from eva.experiments.catalogue import EXPERIMENTS, experiment
from eva.experiments.framework import command
from eva.experiments.framework.command import Places, list_runs, quick, run_experiment, write_page
from eva.experiments.framework.definition import Arm, jobs_of
from eva.experiments.framework.evidence import Records
from eva.experiments.paper import atari
from eva.experiments.paper.maze import SEEDS
from eva.experiments.paper.maze_tuning import TUNING
from eva.presets import PRESETS, for_game, preset
from eva.runs.record.directory import default_directory
from eva.runs.sweep.jobs import Job, Outcome
from tests.helpers.synthetic import Learned, draw_nothing, write_run

MAZE = [name for name in EXPERIMENTS if not EXPERIMENTS[name].by_name_only]
OTHER_SEEDS = ("maze-tuning", "cartpole", "generality")
EACH = pytest.mark.parametrize("name", EXPERIMENTS)


@functools.cache
def arms(name: str) -> tuple[Arm, ...]:
    return experiment(name).arms()


def jobs(name: str) -> list[Job]:
    return jobs_of(arms(name))


class StubExecutor:
    """Finishes every job at once, but for those it is told to fail."""

    executed: list[Job]
    failing: str | None

    def __init__(self, num_processes: int, title: str) -> None:
        assert num_processes == 3

    def execute(self, jobs: Sequence[Job], on_outcome: Callable[[Outcome], None]) -> list[Outcome]:
        outcomes = []
        for job in jobs:
            self.executed.append(job)
            if self.failing is not None and self.failing in str(job.directory):
                outcomes.append(Outcome(job, "failed", "it diverged"))
            else:
                write_run(job, job.directory)
                outcomes.append(Outcome(job, "finished"))
            on_outcome(outcomes[-1])
        return outcomes


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """The jobs that are executed, by a stub."""
    StubExecutor.executed, StubExecutor.failing = [], None
    draw_nothing(monkeypatch)
    monkeypatch.setattr(command, "LocalExecutor", StubExecutor)
    return StubExecutor.executed


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path / "runs", tmp_path / "results", quick=False)


@EACH
def test_every_run_has_its_own_directory(name: str) -> None:
    runs = jobs(name)
    assert len({job.directory for job in runs}) == len(runs)
    assert runs or experiment(name).timing is not None
    assert len({str(job.config) for job in runs}) == len(runs)
    assert not any(job.directory.is_absolute() for job in runs)
    assert all(job.config.steps % (job.config.evaluation.period_transitions or 1) == 0 for job in runs)


@pytest.mark.parametrize("name", MAZE)
def test_arms_are_deterministic(name: str) -> None:
    assert experiment(name).arms() == experiment(name).arms()


@EACH
def test_runs_of_an_arm_differ_only_in_the_seed(name: str) -> None:
    assert len({(arm.task, arm.label) for arm in arms(name)}) == len(arms(name))
    for arm in arms(name):
        alike = [{**job.config.identity, "seed": 0, "steps": job.config.steps} for job in arm.jobs]
        assert all(config == alike[0] for config in alike)
        assert len({job.config.seed for job in arm.jobs}) == len(arm.jobs)
        assert (len(arm.jobs) == 1) == (name == "pong")  # which claims nothing that seeds would tell


def test_jobs_are_ordered_seed_by_seed() -> None:
    first, second = jobs("consolidation"), [job for arm in arms("consolidation") for job in arm.jobs]
    assert [job.config.seed for job in first] == sorted(job.config.seed for job in second)
    ragged = [Arm("", "a", tuple(second[:1])), Arm("", "b", tuple(second[1:3]))]
    assert jobs_of(ragged) == [second[0], second[1], second[2]]


def test_shared_directories_hold_the_same_run() -> None:
    meanings: dict[Path, set[str]] = {}
    for name in EXPERIMENTS:
        for job in jobs(name):
            meanings.setdefault(job.directory, set()).add(job.to_json())
    assert all(len(meaning) == 1 for meaning in meanings.values())
    assert len(meanings) < sum(len(jobs(name)) for name in EXPERIMENTS), "some runs are shared"


def test_presets_and_experiments_with_one_directory_share_the_run() -> None:
    presets = [for_game(preset(name), "pong") if "atari" in name else preset(name) for name in PRESETS]
    num_shared = 0
    for each in presets:
        for job in (job for name in EXPERIMENTS for job in jobs(name)):
            config = replace(
                each,
                seed=job.config.seed,
                eva=replace(each.eva, nonparametric_weight=job.config.eva.nonparametric_weight),
            )
            if Path("runs") / job.directory == default_directory(config, each):
                assert job.config.identity == config.identity
                num_shared += 1
    assert num_shared > 10


def test_sizes_of_the_papers_experiments() -> None:
    expected = {
        "maze-one-coin": ({1}, {60_000}, {0.0, 0.2, 0.4, 0.6, 0.8}),
        "maze-two-coins": ({2}, {180_000}, {0.0, 0.2, 0.4, 0.8}),
        "maze-single-episode": ({4}, {300_000}, {0.0}),
        "trace-computations": ({2}, {180_000}, {0.0, 0.4}),
        "kernel-width": ({2}, {180_000}, {0.0, 0.4}),
        "consolidation": ({1}, {100_000}, {0.4}),
    }
    for name, (coins, steps, weights) in expected.items():
        configs = [job.config for job in jobs(name)]
        assert {config.maze.num_coins for config in configs} == coins
        assert {config.steps for config in configs} == steps
        assert {config.eva.nonparametric_weight for config in configs} == weights
        assert {config.seed for config in configs} == set(SEEDS)
    assert len(SEEDS) == 10
    weights, epsilons = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0), (0.0, 0.05)
    assert jobs("maze-single-episode")[0].config.evaluation == EvaluationConfig(30_000, 50, weights, epsilons)
    assert jobs("maze-two-coins")[0].config.evaluation == EvaluationConfig(
        9_000, 50, (0.0, 0.2, 0.4), epsilons, accuracy=True
    )
    assert jobs("consolidation")[0].config.evaluation == EvaluationConfig(5_000, 50, (0.0, 0.4), epsilons)
    assert jobs("maze-tuning")[0].config.evaluation == EvaluationConfig(6_000, 50, (0.0,), (0.0,), seed=1_000)
    planned = [job.config.eva for job in jobs("consolidation")]
    assert (60_000, 20_000) in {(each.anneal_start_transitions, each.anneal_transitions) for each in planned}
    planned = [job.config.eva for job in jobs("kernel-width")]
    assert {round(2 * each.kbrl_bandwidth**2, 12) for each in planned if each.trace == "kbrl"} == {2e-8, 1e-4}
    planned = [job.config.eva for job in jobs("memory-choices")]
    assert {each.value_buffer_capacity for each in planned if each.num_trajectories == 50} == {10_000}


def test_tuning_uses_weight_zero_and_separate_seeds() -> None:
    others = {job.config.seed for name in MAZE if name not in OTHER_SEEDS for job in jobs(name)}
    assert others == set(SEEDS)
    tuning = [job.config for job in jobs("maze-tuning")]
    assert all(1_000 <= config.seed < 4_000 for config in tuning)
    assert {config.eva.nonparametric_weight for config in tuning} == {0.0}
    assert {config.exploration.epsilon_end for config in tuning} == {0.1}
    assert all(len(each["seeds"]) >= 5 for each in TUNING["rounds"] if "round-1" not in each["name"])


def test_sb3_runs_use_the_preset() -> None:
    base = preset("maze-1-coin")
    runs = jobs("sb3-maze")
    assert {(job.config.eva.nonparametric_weight, job.config.seed) for job in runs} == {
        (weight, seed) for weight in (0.0, 0.4) for seed in SEEDS
    }
    for job in runs:
        config = job.config
        assert (config.maze, config.network, config.replay) == (base.maze, base.network, base.replay)
        assert (config.exploration, config.steps) == (base.exploration, 60_000)
        assert config.learner == replace(base.learner, error="huber")
        assert config.eva == replace(base.eva, nonparametric_weight=config.eva.nonparametric_weight)
        assert job.trainer == "eva.integrations.sb3_runs"
    assert {job.trainer for name in EXPERIMENTS if name != "sb3-maze" for job in jobs(name)} == {"eva.runs.loop"}


@EACH
def test_quick_form_is_small_and_has_every_arm(name: str) -> None:
    large = arms(name) if name != "atari-55" else atari.cut_down("pong", None, None).arms()
    small = quick(large)
    assert [(arm.task, arm.label) for arm in small] == [(arm.task, arm.label) for arm in large]
    assert sum(job.config.steps for job in jobs_of(small)) <= 400 * max(8, len(large))
    for few, many in zip(small, large, strict=True):
        for short, long in zip((job.config for job in few.jobs), (job.config for job in many.jobs), strict=False):
            periods = (short.evaluation.period_transitions, long.evaluation.period_transitions)
            assert periods == (None, None) or short.steps // periods[0] == long.steps // periods[1]


def test_finished_runs_are_kept_at_once(places: Places, executed: list[Job]) -> None:
    each = experiment("consolidation")
    StubExecutor.failing = "kept/seed-4003"
    with pytest.raises(UserError, match=r"1 of 20 runs failed \(.*kept/seed-4003 has failed: it diverged \(see .*\)\)"):
        run_experiment(each, places, 3)
    kept = {path.parent.relative_to(places.results) for path in places.results.rglob("status.json")}
    assert kept == {"consolidation" / Path("runs") / job.directory for job in jobs("consolidation")} - {
        Path("consolidation/runs/consolidation/kept/seed-4003")
    }
    record = places.results / "consolidation/runs/consolidation/annealed/seed-4000"
    packed = (record / "episodes.csv.gz").read_bytes()
    assert gzip.decompress(packed) == (executed[0].directory / "episodes.csv").read_bytes()
    assert packed[4:8] == bytes(4), "no time in it"
    evaluations = gzip.decompress((record / "evaluations.jsonl.gz").read_bytes())
    assert evaluations == (executed[0].directory / "evaluations.jsonl").read_bytes()
    assert executed[0].command == ("eva", "experiment", "consolidation")
    assert not (places.results / "consolidation" / "README.md").exists(), "not judged before all runs are there"


def test_pages_may_show_tasks_that_are_finished(places: Places) -> None:
    each, records = experiment("maze-tuning"), Records(places.results, "maze-tuning")
    for job in jobs("maze-tuning"):
        if "round-1-2-coins" not in str(job.directory) or job.config.seed == 1_000:
            write_run(job, records.folder / job.directory)
    arguments = ["--results-dir", str(places.results), "--runs-dir", str(places.runs)]
    assert main(["experiment", "maze-tuning", "--page", *arguments]) == 0
    page = (places.results / "maze-tuning" / "README.md").read_text()
    assert "**Not shown:** round-1-2-coins, whose runs are not finished." in page
    assert "| round-2-2-coins | updates-2 | 5 |" in page
    assert "| round-1-2-coins |" not in page
    with pytest.raises(UserError, match="is not finished: run the experiment first"):
        write_page(replace(each, task_by_task=False), each.arms(), records)


def test_finished_runs_are_not_repeated(places: Places, executed: list[Job]) -> None:
    each = experiment("consolidation")
    first, second, third, fourth, *_ = runs = jobs("consolidation")
    write_run(first, places.runs / first.directory)  # finished here
    write_run(second, places.runs / second.directory, state="stopped")  # to go on
    write_run(third, places.results / "consolidation" / "runs" / third.directory)  # elsewhere, and committed
    write_run(fourth, places.runs / fourth.directory)
    (places.runs / fourth.directory / "evaluations.jsonl").unlink()  # finished, but not evaluated
    run_listed = list_runs(each, places).splitlines()
    assert ["done" in line for line in run_listed] == [False, True, False, True] + [False] * 17
    assert "stopped at 100,000" in run_listed[2]
    shutil.rmtree(places.runs / second.directory)
    shutil.rmtree(places.runs / fourth.directory)
    run_experiment(each, places, 3)
    assert [job.directory for job in executed] == [
        places.runs / job.directory for job in runs if job not in (first, third)
    ]
    assert all(Records(places.results, each.name).find(job) for job in runs)
    executed.clear()
    run_experiment(each, Places(places.runs.parent / "other", places.results, quick=False), 3)
    assert executed == []


def test_experiments_share_runs(places: Places, executed: list[Job]) -> None:
    run_experiment(experiment("maze-two-coins"), places, 3)
    executed.clear()
    elsewhere = replace(places, runs=places.runs.parent / "other")
    run_experiment(experiment("trace-computations"), elsewhere, 3)
    assert {job.config.eva.trace for job in executed} == {"n-step", "kbrl"}
    for job in jobs("trace-computations"):
        assert (places.results / "trace-computations" / "runs" / job.directory / "episodes.csv.gz").exists()


def test_a_different_run_in_the_same_directory_is_not_used(places: Places, executed: list[Job]) -> None:
    each = experiment("maze-tuning")
    first = jobs("maze-tuning")[0]
    other = replace(first, config=replace(first.config, learner=replace(first.config.learner, discount=0.9)))
    write_run(other, places.results / each.name / "runs" / first.directory)
    assert "done" not in list_runs(each, places)
    run_experiment(each, places, 3)
    assert len(executed) == len(jobs("maze-tuning"))
    assert Records(places.results, each.name).find(first) == places.results / each.name / "runs" / first.directory


def test_quick_does_not_touch_results(places: Places, executed: list[Job]) -> None:
    run_experiment(experiment("maze-single-episode"), replace(places, quick=True), 3)
    assert not places.results.exists()
    assert len(list((places.runs / "quick" / "results").rglob("episodes.csv.gz"))) == 8
    assert {job.command[-1] for job in executed} == {"--quick"}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["maze-one-coins"], "there is no experiment 'maze-one-coins': did you mean 'maze-one-coin'?"),
        ([], "give the name of one experiment"),
        (["maze-one-coin", "--all"], "give the name of one experiment"),
        (["maze-one-coin", "--jobs", "0"], "--jobs is 0, but must be a whole number of at least 1."),
        (["maze-one-coin", "--seeds", "1"], "--games, --frames and --seeds are only for atari-55"),
        (["atari-55", "--games", "pongg"], "there is no Atari game 'pongg': did you mean 'pong'?"),
        (["atari-55", "--frames", "0"], "--frames is 0, but must be a whole number of at least 4."),
        (["atari-55", "--frames", "3"], "--frames is 3, but must be a whole number of at least 4."),
        (["atari-55", "--seeds", "0"], "--seeds is 0, but must be a whole number of at least 1."),
        (["maze-one-coin", "--job", "1"], "there is no option --job: did you mean '--jobs'?"),
    ],
)
def test_bad_input_raises_one_sentence(arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experiment", *arguments]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert expected in err


def test_experiments_and_runs_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experiment", "--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(EXPERIMENTS)
    places = ["--runs-dir", str(tmp_path), "--results-dir", str(tmp_path)]
    assert main(["experiment", "--all", "--list", *places]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines.count("scaling has no runs: it is a measurement of this machine") == 1
    assert len(lines) == sum(1 + len(jobs(name)) for name in MAZE)  # a heading, or that there are no runs
    assert sum(line.endswith("to do") for line in lines) == len(lines) - len(MAZE)


def test_atari_follows_the_papers_protocol_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    full = jobs("atari-55")
    assert len(full) == 55 * 4 * 3
    assert {job.config.steps for job in full} == {50_000_000}
    for job in full:
        preset_for = for_game(preset("atari"), job.config.atari.game)
        assert replace(job.config.learner, double=False) == preset_for.learner
        assert replace(job.config.replay, prioritised=False) == preset_for.replay
        assert job.config.eva == replace(preset_for.eva, nonparametric_weight=job.config.eva.nonparametric_weight)
    kinds = {(c.eva.nonparametric_weight, c.learner.double, c.replay.prioritised) for c in (j.config for j in full)}
    assert kinds == {(0.0, False, False), (0.4, False, False), (0.0, True, False), (0.0, True, True)}
    assert atari.cut_down(None, None, None).name == "atari-55"
    small = atari.cut_down("tuning-5", 2_000_000, 1)
    assert small.name == "atari-tuning-5-2M-frames-1-seed"
    assert small.title == "Atari, cut down: 5 of 55 games, 1 of 3 seeds, 2,000,000 of 200,000,000 frames"
    arguments = ["atari-55", "--games", "tuning-5", "--frames", "2000000", "--seeds", "1"]
    assert small.command == ("eva", "experiment", *arguments)
    assert {job.config.steps for job in jobs_of(small.arms())} == {500_000}
    four, others = (atari.cut_down(f"{game},qbert,hero,alien", 2_000_000, 1).name for game in ("pong", "gopher"))
    assert four.startswith("atari-4-games-")
    assert four != others
    assert main(["experiment", *arguments, "--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + 5 * 2
    assert [arm.task for arm in atari.cut_down("Ms. Pacman,pong,pong", None, None).arms()[::2]] == ["ms_pacman", "pong"]


def test_pages_and_figures_are_deterministic(tmp_path: Path) -> None:
    each, records = experiment("maze-single-episode"), Records(tmp_path, "maze-single-episode")
    for job in jobs(each.name):
        write_run(job, records.folder / job.directory, lambda _: Learned(2.0))
    contents = []
    for _ in range(2):
        write_page(each, each.arms(), records)
        contents.append({p.name: p.read_bytes() for p in (tmp_path / each.name).iterdir() if p.is_file()})
    figures = {f"{name}.{form}" for name in ("curves", "greedy", "weights") for form in ("svg", "png")}
    assert contents[0] == contents[1]
    assert set(contents[0]) == {"README.md", "summary.json", *figures}
    assert all(b"<dc:date>" not in content for content in contents[0].values())


def quick_runs(name: str, tmp_path: Path) -> None:
    assert main(["experiment", name, "--quick", "--jobs", "2", "--runs-dir", str(tmp_path)]) == 0
    assert len(list((tmp_path / "quick" / "results").glob("*/README.md"))) == 1


def test_a_quick_experiment_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    quick_runs("maze-single-episode", tmp_path)
    assert not Path("results").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(EXPERIMENTS) - {"maze-single-episode"}))
def test_every_quick_experiment_runs(name: str, tmp_path: Path) -> None:
    quick_runs(name, tmp_path)
