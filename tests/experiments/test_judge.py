"""Known learning curves get the verdicts and numbers worked out by hand."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eva.errors import UserError
from eva.experiments.beyond.pong import dopamine
from eva.experiments.catalogue import experiment
from eva.experiments.framework.command import write_page
from eva.experiments.framework.common import DOUBLE_DQN, DQN, PRIORITISED, compare_arms, measure_arms
from eva.experiments.framework.definition import jobs_of
from eva.experiments.framework.evidence import MEASURED, Evidence
from eva.experiments.framework.judge import both, is_above, is_below, rises, saturates, suffices
from eva.experiments.framework.records import Records
from eva.experiments.paper.atari import Scope
from eva.experiments.paper.atari import experiment as atari_experiment
from eva.experiments.paper.atari_scores import EVA
from eva.experiments.paper.atari_scores import judge as atari_judge
from eva.games import PUBLISHED_SCORES
from eva.report.measures import Estimate
from eva.runs.record.columns import EPISODE_COLUMNS
from eva.runs.sweep.jobs import Job
from tests.helpers.synthetic import (
    LOW,
    ORIGIN,
    Learned,
    Played,
    World,
    nothing_learned,
    nothing_played,
    write_run,
)

WINDOW = 0.05


pytestmark = pytest.mark.usefixtures("_numbers_only")


def weight(job: Job) -> float:
    return job.config.eva.nonparametric_weight


def prepared(tmp_path: Path, name: str, world: World, played: Played = nothing_played) -> Records:
    """Return the records of an experiment all of whose runs are finished."""
    records = Records(tmp_path, name)
    for job in jobs_of(experiment(name).arms()):
        write_run(job, records.folder / job.directory, world, played)
    return records


def judged(
    tmp_path: Path,
    name: str,
    world: World,
    played: Played = nothing_played,
    measured: Mapping[str, object] | None = None,
) -> dict[str, Any]:
    """Judge known runs and what was measured besides; returns summary.json, after a look at the page."""
    records = prepared(tmp_path, name, world, played)
    if measured is not None:
        records.folder.parent.mkdir(exist_ok=True)
        (records.folder.parent / MEASURED).write_text(json.dumps({**measured, "provenance": ORIGIN}))
    told = write_page(experiment(name), experiment(name).arms(), records)
    folder = tmp_path / name
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    page = (folder / "README.md").read_text()
    for figure in summary["figures"]:
        assert f"({figure}.svg)" in page
        assert (folder / f"{figure}.svg").read_bytes().startswith(b"<?xml")
        assert (folder / f"{figure}.png").read_bytes().startswith(b"\x89PNG")
    for finding in summary["findings"]:
        assert f"## {finding['verdict'].capitalize()}: {finding['claim']}" in page
        assert finding["measured"] in page
        assert finding["verdict"] in told.lower()
    assert ("has not been tested" in page) == ("does not hold" in verdicts(summary))
    return summary


def verdicts(summary: dict[str, Any]) -> list[str]:
    return [finding["verdict"] for finding in summary["findings"]]


@pytest.mark.parametrize(
    ("estimate", "above", "below"),
    [
        (Estimate(1, 0.5, 2), "holds", "does not hold"),
        (Estimate(1, -0.5, 2), "undecided", "undecided"),
        (Estimate(-1, -2, 0.5), "undecided", "undecided"),
        (Estimate(math.nan, math.nan, math.nan), "undecided", "undecided"),
        (Estimate(-1, -2, -0.5), "does not hold", "holds"),
        (Estimate(0, 0, 0), "does not hold", "does not hold"),
    ],
)
def test_above_and_below(estimate: Estimate, above: str, below: str) -> None:
    assert is_above(estimate) == above
    assert is_below(estimate) == below
    shifted = Estimate(estimate.value + 3, estimate.low + 3, estimate.high + 3)
    assert is_above(shifted, 3) == above
    assert is_below(shifted, 3) == below


@pytest.mark.parametrize(
    ("share", "saved", "expected"),
    [
        (Estimate(0.55, 0.5, 0.6), Estimate(0.2, 0.1, 0.3), "holds"),
        (Estimate(0.55, 0.5, 0.61), Estimate(0.2, 0.1, 0.3), "holds in part"),
        (Estimate(0.9, 0.8, 0.95), Estimate(0.05, 0.01, 0.1), "holds in part"),
        (Estimate(0.55, 0.5, 0.6), Estimate(-0.2, -0.3, -0.1), "does not hold"),  # DQN itself is faster still
        (Estimate(0.9, 0.8, math.inf), Estimate(0.05, -math.inf, 0.1), "does not hold"),
        (Estimate(0.55, 0.5, 0.6), Estimate(0.1, -0.1, 0.3), "undecided"),
        (Estimate(math.inf, 0.4, math.inf), Estimate(-math.inf, -math.inf, 0.3), "undecided"),
        (Estimate(0.55, -math.inf, math.inf), Estimate(0.3, -math.inf, math.inf), "undecided"),  # one seed
    ],
)
def test_suffices(share: Estimate, saved: Estimate, expected: str) -> None:
    assert suffices(share, saved) == expected


def test_rises_and_saturates() -> None:
    up, perhaps, down = Estimate(1, 0.5, 2), Estimate(1, -0.5, 2), Estimate(-1, -2, -0.5)
    assert rises([up, perhaps], [up, up]) == "holds"
    assert rises([up, down], [up, up]) == "holds in part"
    assert rises([up, up], [up, perhaps]) == "holds in part"
    assert rises([up, up], [perhaps, perhaps]) == "undecided"
    assert rises([up, up], [down, up]) == rises([up, up], [up, down]) == "does not hold"
    assert saturates(up, [down, down]) == "holds"
    slightly = Estimate(-0.1, -0.5, 0.3)
    assert saturates(up, [down, slightly]) == "holds in part"
    assert saturates(up, [down, perhaps]) == "undecided"
    assert rises([up, up], [up, slightly]) == "undecided"
    unknown = Estimate(math.nan, math.nan, math.nan)
    assert saturates(unknown, [down]) == saturates(up, [unknown]) == rises([up], [unknown]) == "undecided"
    assert saturates(perhaps, [down, down]) == "undecided"
    assert saturates(up, [down, up]) == "does not hold"
    assert saturates(down, [down, down]) == "does not hold"


def test_a_claim_of_two_halves() -> None:
    order = ["does not hold", "undecided", "holds in part", "holds"]
    table = [[both(first, second) for second in order] for first in order]  # type: ignore[arg-type]
    part = "holds in part"
    assert table == [
        ["does not hold", "does not hold", part, part],
        ["does not hold", "undecided", part, part],
        [part, part, part, part],
        [part, part, part, "holds"],
    ]


def test_measures_are_those_of_the_curves(tmp_path: Path) -> None:
    """DQN is up after 70% of its run, EVA after 50%, and one of its seeds never gets as high."""

    def world(job: Job) -> Learned:
        if weight(job) == 0:
            return Learned(0.5, 0.7)
        return Learned(0.4 if job.config.seed == 4 else 1.0, 0.5)

    records = prepared(tmp_path, "maze-two-coins", world)
    (task,) = Evidence(experiment("maze-two-coins").arms(), records).tasks
    measures, comparison = measure_arms(task)["EVA, weight 0.4"], compare_arms(task)["EVA, weight 0.4"]
    assert measures.seeds == (0, 1, 2, 3, 4)
    assert measures.finals == pytest.approx((1.0, 1.0, 1.0, 1.0, 0.4))
    assert measures.final.value == pytest.approx(0.88)
    assert measures.final.low <= 0.76 + 1e-9 < 0.88 < measures.final.high <= 1.0
    # LOW for half of the time, a rise over one window, then up: the mean of seeds 0 to 3.
    expected = 0.5 * LOW + WINDOW * (LOW + 1.0) / 2 + (0.5 - WINDOW) * 1.0
    assert measures.areas[0] == pytest.approx(expected, abs=0.01)
    assert comparison.final_gain.value == pytest.approx(0.38)
    assert comparison.num_reached == 4
    # The mean of the five curves rises from -1 to 0.88 over one window and meets 0.5 after 1.5 / 1.88 of it.
    assert comparison.data_share.value == pytest.approx(0.5 + WINDOW * 1.5 / 1.88, abs=0.006)
    itself = compare_arms(task)[DQN]
    assert itself.data_share.value == pytest.approx(0.7 + WINDOW, abs=0.006)
    assert comparison.data_saved.value == pytest.approx(itself.data_share.value - comparison.data_share.value)
    assert itself.final_gain == itself.area_gain == itself.data_saved == Estimate(0.0, 0.0, 0.0)


def test_a_run_is_drawn_with_its_own_end(tmp_path: Path) -> None:
    """Seeds of DQN end at different levels: drawn apart from its own end, a curve might never reach it."""
    records = prepared(tmp_path, "maze-two-coins", lambda job: Learned(0.2 * job.config.seed, 0.7))
    (task,) = Evidence(experiment("maze-two-coins").arms(), records).tasks
    comparisons = compare_arms(task)
    assert comparisons[DQN].data_share.high == pytest.approx(0.7 + WINDOW, abs=0.006)
    assert comparisons["EVA, weight 0.4"].data_share.high == math.inf


def test_a_curve_that_still_rises_is_told_of(tmp_path: Path) -> None:
    summary = judged(tmp_path, "maze-two-coins", lambda _: Learned(1.8, 0.9))
    assert f"DQN's return still changes by +{1.8 - LOW:.2f}" in summary["findings"][0]["measured"]


def test_what_one_of_two_never_reaches_is_told_apart(tmp_path: Path) -> None:
    never = judged(tmp_path, "maze-one-coin", lambda job: Learned(0.8 if weight(job) == 0 else 0.2))
    assert (
        "and -\N{INFINITY} (95% interval -\N{INFINITY} to -\N{INFINITY}) are saved" in never["findings"][0]["measured"]
    )


def test_what_random_play_reaches_does_not_count(tmp_path: Path) -> None:
    records = prepared(tmp_path, "maze-two-coins", lambda job: Learned(0.5, 0.7))
    decay = experiment("maze-two-coins").arms()[0].jobs[0].config.exploration.epsilon_decay_transitions
    for path in records.folder.rglob("weight-0.4/*/episodes.csv"):
        header, *lines = path.read_text().splitlines()
        early = [line.replace(str(LOW), "9.0") for line in lines if int(line.split(",")[0]) <= decay]
        path.write_text("\n".join([header, *early, *lines[len(early) :]]) + "\n")
    (task,) = Evidence(experiment("maze-two-coins").arms(), records).tasks
    assert compare_arms(task)["EVA, weight 0.4"].data_share.value > 0.7


@pytest.mark.parametrize(
    ("after", "high", "expected"),
    [(0.5, 0.9, "holds"), (0.7, 0.9, "holds in part"), (0.5, 0.5, "does not hold"), (0.77, 0.9, "does not hold")],
)
def test_one_coin_data(after: float, high: float, expected: str, tmp_path: Path) -> None:
    def world(job: Job) -> Learned:
        return Learned(0.8 + 0.01 * job.config.seed, 0.75) if weight(job) == 0 else Learned(high, after)

    summary = judged(tmp_path, "maze-one-coin", world)
    assert verdicts(summary)[0] == expected
    share = summary["numbers"]["tasks"]["one coin"]["arms"]["EVA, weight 0.4"]["against DQN"]["data_share"]["value"]
    assert share == (None if high == 0.5 else pytest.approx(after + WINDOW, abs=0.01))
    assert ("not reached" in summary["findings"][0]["measured"]) == (high == 0.5)


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ((0.8, 0.7, 0.6, 0.5, 0.4), "holds"),
        ((0.8, 0.4, 0.5, 0.45, 0.3), "holds in part"),
        ((0.8, 0.4, 0.4, 0.4, 0.4), "does not hold"),
        ((0.3, 0.6, 0.8, 0.7, 0.6), "does not hold"),
    ],
)
def test_one_coin_weights(after: tuple[float, ...], expected: str, tmp_path: Path) -> None:
    by_weight = dict(zip((0.0, 0.2, 0.4, 0.6, 0.8), after, strict=True))
    summary = judged(tmp_path, "maze-one-coin", lambda job: Learned(0.9, by_weight[weight(job)]))
    assert verdicts(summary)[1] == expected


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ((0.75, 0.6, 0.4, 0.4), ["holds", "holds"]),
        ((0.75, 0.6, 0.4, 0.2), ["holds", "does not hold"]),
        ((0.75, 0.2, 0.4, 0.6), ["holds", "does not hold"]),
        ((0.4, 0.5, 0.6, 0.6), ["does not hold", "does not hold"]),
    ],
)
def test_two_coins(after: tuple[float, ...], expected: list[str], tmp_path: Path) -> None:
    by_weight = dict(zip((0.0, 0.2, 0.4, 0.8), after, strict=True))
    assert verdicts(judged(tmp_path, "maze-two-coins", lambda job: Learned(1.8, by_weight[weight(job)]))) == expected


@pytest.mark.parametrize(
    ("n_step", "kbrl", "expected", "lessons"),
    [
        (0.5, 1.7, ["holds", "holds", "holds"], ["harms", "helps"]),
        (1.6, 1.85, ["does not hold", "does not hold", "holds"], ["makes no difference of 0.09 or more", "helps"]),
    ],
)
def test_traces(n_step: float, kbrl: float, expected: list[str], lessons: list[str], tmp_path: Path) -> None:
    def world(job: Job) -> Learned:
        finals = {"tcp": 1.7, "n-step": n_step, "kbrl": kbrl}
        return Learned(1.5 if weight(job) == 0 else finals[job.config.eva.trace])

    microseconds = {"TCP": [200.0], "n-step": [300.0], "KBRL": [4000.0]}
    costs = {"transitions": [500], "microseconds": microseconds}
    summary = judged(tmp_path, "trace-computations", world, measured=costs)
    assert verdicts(summary) == expected
    assert "takes 20 times as long: 4,000 against 200 microseconds" in summary["findings"][2]["measured"]
    for name, said, lesson in zip(("n-step", "KBRL"), lessons, summary["lessons"], strict=True):
        assert lesson.startswith(f"DQN in the maze with two coins, with the trace computation {name}: EVA {said}.")


@pytest.mark.parametrize(
    ("joining", "expected", "said"),
    [
        (1.3, ["holds", "does not hold"], "harms"),
        (1.75, ["holds", "holds"], "helps"),
        (1.85, ["does not hold", "holds"], "helps"),
    ],
)
def test_a_kernel_that_joins(joining: float, expected: list[str], said: str, tmp_path: Path) -> None:
    def world(job: Job) -> Learned:
        is_wide = job.config.eva.kbrl_bandwidth > 1e-3
        return Learned(1.5 if weight(job) == 0 else joining if is_wide else 1.7)

    summary = judged(tmp_path, "kernel-width", world)
    assert verdicts(summary) == expected
    assert summary["numbers"]["joining_above_kbrl"]["value"] == pytest.approx(joining - 1.7)
    assert f"with kernel-based RL that joins trajectories: EVA {said}." in summary["lessons"][0]


@pytest.mark.parametrize(
    ("after", "high", "expected"),
    [
        ((0.4,) * 5, 0.87, ["holds", "holds"]),
        ((0.2,) * 5, 0.5, ["holds", "does not hold"]),
        ((0.75,) * 5, 0.9, ["does not hold", "holds"]),
        ((0.1, 0.1, 0.1, 0.9, 0.95), 0.9, ["undecided", "undecided"]),
    ],
)
def test_sb3(after: tuple[float, ...], high: float, expected: list[str], tmp_path: Path) -> None:
    def world(job: Job) -> Learned:
        return Learned(0.9, 0.7) if weight(job) == 0 else Learned(high, after[job.config.seed])

    summary = judged(tmp_path, "sb3-maze", world)
    assert verdicts(summary) == expected
    arms = summary["numbers"]["tasks"]["one coin"]["arms"]
    assert arms["SB3 DQN"]["final"]["value"] == 0.9
    assert "against SB3 DQN" in arms["EVADQN, weight 0.4"]
    assert "share of SB3 DQN's data" in (tmp_path / "sb3-maze" / "README.md").read_text()


@pytest.mark.parametrize(
    ("annealed", "alone", "expected"),
    [(0.9, 0.88, "holds"), (0.9, 0.5, "holds in part"), (0.5, 0.5, "does not hold")],
)
@pytest.mark.parametrize("spread", [0.0, 0.5])
def test_consolidation(annealed: float, alone: float, expected: str, spread: float, tmp_path: Path) -> None:
    """However much seeds differ, two runs of one seed are compared with each other."""

    def is_annealed(job: Job) -> bool:
        return job.config.eva.anneal_start_transitions is not None

    def played(job: Job, occasion: int, weight: float, _: int) -> float:
        return spread * job.config.seed + (alone if is_annealed(job) and occasion == 1 and weight == 0 else 0.9)

    def world(job: Job) -> Learned:
        return Learned(spread * job.config.seed + (annealed if is_annealed(job) else 0.9))

    summary = judged(tmp_path, "consolidation", world, played)
    assert verdicts(summary) == [expected]
    assert summary["numbers"]["against_kept_in_episodes"]["value"] == pytest.approx(alone - 0.9)
    assert summary["numbers"]["against_before"]["value"] == pytest.approx(alone - 0.9)


@pytest.mark.parametrize(
    ("gains", "expected"),
    [
        ((0.0, 0.5, 1.0, 1.0, 1.0, 0.5), ["holds", "holds", "holds"]),
        ((0.0, 0.2, 0.4, 0.6, 0.8, 1.0), ["holds", "does not hold", "does not hold"]),
        ((0.0, 0.1, 0.2, 0.6, 0.9, 0.1), ["holds", "does not hold", "holds"]),  # best between
        ((0.0, 0.9, 0.2, -1.0, -2.0, -3.0), ["holds", "does not hold", "holds"]),  # best before
        ((0.0, 0.0, -0.1, -0.1, -0.2, -0.3), ["does not hold", "does not hold", "holds"]),
    ],
)
def test_single_episodes(gains: tuple[float, ...], expected: list[str], tmp_path: Path) -> None:
    by_weight = dict(zip((0.0, 0.2, 0.4, 0.6, 0.8, 1.0), gains, strict=True))

    def played(job: Job, _: int, weight: float, episode: int) -> float:
        return by_weight[weight] + 0.1 * job.config.seed + 0.5 * (episode % 3)  # the same start, the same difficulty

    summary = judged(tmp_path, "maze-single-episode", lambda _: Learned(2.0), played)
    assert verdicts(summary) == expected
    assert summary["numbers"]["gain"]["value"] == pytest.approx(by_weight[0.4])
    assert summary["numbers"]["gain"]["low"] == pytest.approx(by_weight[0.4]), "differences are taken pair by pair"
    assert "200 episodes for each of 3 networks" in summary["findings"][0]["certainty"]


@pytest.mark.parametrize("content", ["", "{}", '{"played": [{"weight": 0.0}]}', "[" * 100_000])
def test_a_damaged_record_of_single_episodes_is_named(tmp_path: Path, content: str) -> None:
    records = prepared(tmp_path, "maze-single-episode", lambda _: Learned(2.0), lambda *_: 0.0)
    path = next(records.folder.rglob("played-*.json"))
    path.write_text(content)
    single = experiment("maze-single-episode")
    with pytest.raises(UserError, match=f"cannot read {path} .*: delete it, and the same command makes it anew."):
        write_page(single, single.arms(), records)


def test_networks_worse_than_chance_tell_nothing_of_planned_values_alone(tmp_path: Path) -> None:
    summary = judged(tmp_path, "maze-single-episode", lambda _: Learned(2.0), lambda *at: -3.0 - at[2])
    assert verdicts(summary) == ["does not hold", "does not hold", "undecided"]
    assert "random play returns -0.37" in summary["findings"][2]["measured"]


def test_the_best_of_the_search_is_chosen_and_compared_with_the_presets(tmp_path: Path) -> None:
    def world(job: Job) -> Learned:
        learner = job.config.learner
        lucky = job.config.seed == 1_000 and learner.learning_rate == 5e-4
        best = (learner.learning_rate, learner.target_period_updates) == (1e-4, 20)
        return Learned(0.7 if best else 0.8 if lucky else 0.3)

    summary = judged(tmp_path, "maze-tuning", world)
    assert summary["numbers"]["chosen"] == {"learning_rate": 0.0001, "target_period_updates": 20}
    assert "0.70 over 2 seeds. The presets have 0.00025 and 50 instead." in summary["outcome"]


def test_the_page_names_all_who_went_on_with_a_run(tmp_path: Path) -> None:
    records = prepared(tmp_path, "maze-two-coins", lambda _: Learned(1.8))
    path = next(records.folder.rglob("provenance.json"))
    later = {**ORIGIN, "commit": "badc0de" * 6, "dirty": True, "device": "cuda"}
    path.write_text(json.dumps({**ORIGIN, "continued": [ORIGIN, later]}))
    write_page(experiment("maze-two-coins"), experiment("maze-two-coins").arms(), records)
    origin = json.loads((tmp_path / "maze-two-coins" / "summary.json").read_text())["runs"]
    assert origin["commits"] == {"badc0debadc0, with uncommitted changes": 1, "c0ffeec0ffee": 20}
    assert origin["machines"] == {"a processor, 2 cores": 20, "a processor, 2 cores, cuda": 1}
    page = (tmp_path / "maze-two-coins" / "README.md").read_text()
    assert "A run that was stopped and continued with another commit counts for both." in page


def test_the_page_names_runs_that_diverged(tmp_path: Path) -> None:
    records = prepared(tmp_path, "maze-two-coins", lambda _: Learned(1.8))
    path = records.folder / "maze-2-coins" / "weight-0.8" / "seed-2" / "status.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "diverged": "|Q| has reached 1631"}))
    write_page(experiment("maze-two-coins"), experiment("maze-two-coins").arms(), records)
    page = (tmp_path / "maze-two-coins" / "README.md").read_text()
    assert page.count("diverged") == 1
    assert (
        "- maze-2-coins/weight-0.8/seed-2 diverged: |Q| has reached 1631. It went on, and counts like any other."
        in page
    )


def test_the_page_says_where_it_comes_from(tmp_path: Path) -> None:
    summary = judged(tmp_path, "maze-two-coins", lambda _: Learned(1.8))
    assert summary["runs"] == {
        "number": 20,
        "seeds": [0, 1, 2, 3, 4],
        "transitions": 3_000_000,
        "hours": 2.0,
        "commits": {"c0ffeec0ffee": 20},
        "machines": {"a processor, 2 cores": 20},
        "torch": {"2.13.0": 20},
        "dates": ["2026-01-02"],
    }
    page = (tmp_path / "maze-two-coins" / "README.md").read_text()
    assert "20 runs, 3,000,000 transitions, 2.0 hours in all, one thread each; seeds 0, 1, 2, 3, 4; 2026-01-02." in page
    assert "eva experiment maze-two-coins" in page


def test_atari_without_a_finished_episode_is_not_judged(tmp_path: Path) -> None:
    each, records = atari_experiment(Scope(("pong",), frames=10_000, num_seeds=1)), Records(tmp_path, "atari")
    for job in jobs_of(each.arms()):
        write_run(job, records.folder / job.directory, nothing_learned)
    next(records.folder.rglob("episodes.csv")).write_text(EPISODE_COLUMNS + "\n")
    with pytest.raises(UserError, match="give more --frames"):
        each.judge(Evidence(each.arms(), records))


ATARI = Scope(("pong", "qbert"), frames=200_000_000, num_seeds=3)


def atari_variant(job: Job) -> str:
    if weight(job) > 0:
        return EVA
    return PRIORITISED if job.config.replay.prioritised else DOUBLE_DQN if job.config.learner.double else DQN


@pytest.mark.parametrize(
    ("learned", "expected"),
    [
        # EVA is up at once and above DQN; Double DQN comes later and higher, with priorities still higher.
        (
            {DQN: (50, 0.7), EVA: (60, 0.1), DOUBLE_DQN: (80, 0.5), PRIORITISED: (90, 0.5)},
            ["holds", "holds", "holds", "holds"],
        ),
        # EVA is above DQN, but late, and the best of all.
        (
            {DQN: (50, 0.7), EVA: (95, 0.5), DOUBLE_DQN: (80, 0.5), PRIORITISED: (90, 0.5)},
            ["holds", "does not hold", "does not hold", "holds in part"],
        ),
        # EVA is the worst.
        (
            {DQN: (50, 0.5), EVA: (40, 0.7), DOUBLE_DQN: (80, 0.1), PRIORITISED: (70, 0.1)},
            ["does not hold", "does not hold", "holds in part", "holds in part"],
        ),
    ],
)
def test_atari(learned: dict[str, tuple[float, float]], expected: list[str], tmp_path: Path) -> None:
    """`learned` has human-normalised scores at the end, and after which share of the training they are reached."""

    def world(job: Job) -> Learned:
        normalised, after = learned[atari_variant(job)]
        published = PUBLISHED_SCORES[job.config.atari.game]
        score = published.random + (normalised + job.config.seed - 1) / 100 * (published.human - published.random)
        return Learned(score, after)

    each, records = atari_experiment(ATARI), Records(tmp_path, "atari")
    for job in jobs_of(each.arms()):
        write_run(job, records.folder / job.directory, world)
    evidence = Evidence(each.arms(), records)
    judgement = atari_judge(evidence, in_full=True)
    assert [finding.verdict for finding in judgement.findings] == expected
    scores = judgement.numbers["human_normalised_scores"]
    for label, (normalised, _) in learned.items():
        assert scores[label]["median"]["value"] == pytest.approx(normalised, abs=1e-3)
        assert scores[label]["finals"][0] == pytest.approx([normalised - 1] * 2, abs=1e-3)
    cut = each.judge(evidence)
    assert {finding.verdict for finding in cut.findings} == {"not judged"}
    assert [finding.measured for finding in cut.findings] == [finding.measured for finding in judgement.findings]


@pytest.mark.parametrize(("last", "expected"), [(480.0, "holds"), (470.0, "holds in part")])
def test_cartpole_is_judged_by_episodes_that_did_not_choose(last: float, expected: str, tmp_path: Path) -> None:
    def played(job: Job, occasion: int, weight: float, episode: int) -> float:
        if occasion == 2:  # the best for those that choose
            return 500.0 if episode < 20 else (last if weight else 490.0)
        return 400.0 if episode < 20 else 500.0

    summary = judged(tmp_path, "cartpole", nothing_learned, played)
    assert verdicts(summary) == [expected]
    assert summary["numbers"]["returns"]["0.4"]["seeds"] == [last] * 3
    assert summary["numbers"]["returns"]["0"]["seeds"] == [490.0] * 3
    page = (tmp_path / "cartpole" / "README.md").read_text()
    assert "350,000, 350,000, 350,000" in page
    assert "100 greedy episodes for each of 3 seeds and each weight" in page


@pytest.mark.parametrize(
    ("dqn", "eva", "expected"),
    [(-15.0, 3.0, "holds"), (-15.0, -20.7, "holds in part"), (-21.0, -20.7, "does not hold")],
)
def test_pong(dqn: float, eva: float, expected: str, tmp_path: Path) -> None:
    summary = judged(tmp_path, "pong", lambda job: Learned(eva if weight(job) else dqn, 0.6))
    assert verdicts(summary) == [expected]
    gains = summary["numbers"]["above_chance"]
    assert [gains[name]["value"] for name in (DQN, "EVA, weight 0.4")] == pytest.approx([dqn + 20.7, eva + 20.7])
    row = next(
        line for line in (tmp_path / "pong" / "README.md").read_text().splitlines() if line.startswith("| DQN |")
    )
    means = [float(cell.split()[0]) for cell in row.split("|")[2:-1]]
    assert means == pytest.approx([LOW, LOW, 0.4 * LOW + 0.6 * dqn, dqn], abs=0.15)  # 400 episodes, 100 in a million


def test_published_figures_of_pong_are_read_as_they_are() -> None:
    assert dopamine()[1] == (-20.2, 0.1)
    assert dopamine()[199] == (19.8, 0.2)


def test_one_seed_decides_nothing(tmp_path: Path) -> None:
    each = experiment("maze-two-coins")
    arms = [replace(arm, jobs=arm.jobs[:1]) for arm in each.arms()]
    records = Records(tmp_path, each.name)
    for job in jobs_of(arms):
        write_run(job, records.folder / job.directory, lambda job: Learned(1.8, 0.3 if weight(job) == 0.4 else 0.7))
    write_page(each, arms, records)
    summary = json.loads((tmp_path / each.name / "summary.json").read_text())
    assert verdicts(summary) == ["undecided", "undecided"]
    assert "(one seed: no interval)" in summary["findings"][0]["measured"]
