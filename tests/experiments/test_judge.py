"""Claims: every verdict follows from the numbers, by one rule."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eva.errors import UserError
from eva.experiments.beyond.gymnasium_tasks import best_network
from eva.experiments.beyond.memory_choices import CHOICES
from eva.experiments.beyond.scaling import BRUTE, FIT, PROJECTED, SEARCH, SIZES, UPDATE
from eva.experiments.catalogue import EXPERIMENTS, experiment
from eva.experiments.framework.command import write_page
from eva.experiments.framework.definition import Experiment, jobs_of
from eva.experiments.framework.evidence import MEASURED, Evidence, Records
from eva.experiments.framework.judge import agreement, judge
from eva.experiments.framework.measures import (
    DATA_SHARE,
    FINAL_RETURN,
    GREEDY_FINAL,
    GREEDY_MEAN,
    LARGEST_Q,
    MEAN_RETURN,
    greedy_mean,
)
from eva.experiments.paper import atari
from eva.experiments.paper.maze import ANNEALED, ONE_COIN
from eva.games import dopamine_dqn
from eva.report.statistics import Estimate, verdict
from eva.runs.sweep.jobs import Job
from eva.schema import flatten
from tests.helpers.synthetic import (
    ORIGIN,
    Compared,
    Learned,
    Played,
    World,
    compared,
    compared_by_class,
    draw_nothing,
    write_run,
)

ENDS = st.floats(-10, 10)


@pytest.fixture(autouse=True)
def _no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    draw_nothing(monkeypatch)


def evidence_of(
    tmp_path: Path,
    each: Experiment,
    world: World = lambda _: Learned(0.5),
    played: Played | None = None,
    measured: dict[str, Any] | None = None,
    compare: Compared = lambda *_: compared_by_class(compared(), compared()),
) -> Evidence:
    """Return the evidence of an experiment whose runs are known."""
    records = Records(tmp_path, each.name)
    for job in jobs_of(each.arms()):
        write_run(job, records.folder / job.directory, world, played, compare)
    if measured is not None:
        records.folder.parent.mkdir(exist_ok=True)
        (records.folder.parent / MEASURED).write_text(json.dumps({**measured, "provenance": ORIGIN}))
    return Evidence(each.arms(), records)


def found(each: Experiment, evidence: Evidence) -> list[tuple[str, str]]:
    """Return verdict and agreement of every claim."""
    return [(judgement.verdict, judgement.agrees) for judgement in judge(each, evidence)]


def weight(job: Job) -> float:
    return job.config.eva.nonparametric_weight


def summary_of(tmp_path: Path, name: str) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads((tmp_path / name / "summary.json").read_text())
    return summary


def spread(job: Job) -> float:
    """Return a little noise, so that arms have a variance."""
    return 0.001 * (job.config.seed % 7)


@given(st.tuples(ENDS, ENDS).map(sorted), st.floats(0, 5))
def test_verdicts_follow_from_the_interval(ends: list[float], margin: float) -> None:
    low, high = ends
    estimate = Estimate((low + high) / 2, low, high, 5)
    expected = (
        "no difference"
        if -margin < low and high < margin
        else "better"
        if low > 0
        else "worse"
        if high < 0
        else "undecided"
    )
    assert verdict(estimate, margin) == expected
    mirrored = {"better": "worse", "worse": "better"}.get(expected, expected)
    assert verdict(-estimate, margin) == mirrored


def test_a_single_unit_is_undecided() -> None:
    assert verdict(Estimate(5.0, math.nan, math.nan, 1), 0.1) == "undecided"


@pytest.mark.parametrize(
    ("expected", "is_no_worse", "answers"),
    [
        ("better", True, {"better": "yes", "worse": "no", "no difference": "no", "undecided": "open"}),
        ("worse", False, {"better": "no", "worse": "yes", "no difference": "no", "undecided": "open"}),
        ("no worse", True, {"better": "yes", "no difference": "yes", "undecided": "yes"}),
        ("no worse", False, {"worse": "no", "undecided": "open"}),
    ],
)
def test_agreement_follows_from_expectation_and_verdict(
    expected: Any, is_no_worse: bool, answers: dict[Any, str]
) -> None:
    for verdict_found, answer in answers.items():
        assert agreement(expected, verdict_found, is_no_worse) == answer


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_claims_name_existing_arms_and_one_is_primary(name: str) -> None:
    each = experiment(name)
    labels: dict[str, set[str]] = {}
    for arm in each.arms():
        labels.setdefault(arm.task, set()).add(arm.label)
    for claim in each.claims:
        mine = labels[claim.task or next(iter(labels))]
        assert claim.arm in mine
        assert isinstance(claim.compared_with, float) or claim.compared_with in mine
        assert claim.text.endswith(".")
        assert len(claim.text) < 110
    assert sum(claim.primary for claim in each.claims) == (name not in ("maze-tuning", "memory-choices", "generality"))


GAIN_OF_EVA = 0.02


def plays(after: dict[float, float], high: float = 1.8) -> Played:
    """Return evaluations that reach `high` after a share of training; with EVA a network plays a little better."""

    def played(job: Job, step: int, w: float, _: int) -> float:
        boost = (GAIN_OF_EVA + 0.1 * spread(job)) * (w != weight(job))
        return boost + (high + spread(job) if step > after[weight(job)] * job.config.steps else -1.0)

    return played


@pytest.mark.parametrize(("eva_after", "answers"), [(0.3, ["better"] * 2), (0.8, ["worse"] * 2)])
def test_learning_faster_is_better(eva_after: float, answers: list[str], tmp_path: Path) -> None:
    each = experiment("maze-two-coins")
    played = plays({0.0: 0.5, 0.2: 0.5, 0.4: eva_after, 0.8: eva_after})
    evidence = evidence_of(tmp_path, each, played=played)
    verdicts = [verdict for verdict, _ in found(each, evidence)]
    assert verdicts[:3] == [*answers, "no difference"]
    assert verdicts[3:5] == ["no difference"] * 2, "the networks gain less than the margin"
    assert verdicts[5:7] == ["no difference"] * 2, "all end alike"
    assert verdicts[7:] == [answers[0]], "than DQN with more updates, too"


def test_measures_of_known_curves(tmp_path: Path) -> None:
    each = experiment("maze-two-coins")
    after = {0.0: 0.6, 0.2: 0.5, 0.4: 0.3, 0.8: 0.3}
    evidence = evidence_of(tmp_path, each, lambda job: Learned(1.0, after[weight(job)]))
    final, mean, greedy, late, share, early = (
        measure.estimate(evidence, "two coins", "EVA, weight 0.4")
        for measure in (FINAL_RETURN, MEAN_RETURN, GREEDY_MEAN, GREEDY_FINAL, DATA_SHARE, greedy_mean(60_000))
    )
    assert final == Estimate(1.0, 1.0, 1.0, 10)
    # From -1 to 1 at 30% of training, half a window of 5% late.
    assert mean.value == pytest.approx(-0.325 + 0.675, abs=0.01)
    # Six of twenty evaluations are at most at 30% of training.
    assert greedy.value == pytest.approx((14 - 6) / 20)
    assert late.value == pytest.approx(1.0)
    # The baseline ends at 1; the line from -1 at 30% to 1 at 35% is within the margin of 0.15 when 92.5% of it is over.
    assert share.value == pytest.approx(0.3 + 0.925 * 0.05, abs=0.01)
    assert early.value == pytest.approx(-1.0), "nothing is learned in the first 60,000 transitions"


@pytest.mark.parametrize(("high", "after"), [(1.5, 0.5), (1.8, 0.7)])
def test_nothing_is_judged_if_dqn_fails_or_is_still_learning(high: float, after: float, tmp_path: Path) -> None:
    each = experiment("maze-two-coins")
    evidence = evidence_of(tmp_path, each, played=plays(dict.fromkeys((0.0, 0.2, 0.4, 0.8), after), high))
    assert set(found(each, evidence)) == {("not judged", "open")}
    write_page(each, each.arms(), Records(tmp_path, each.name))
    page = (tmp_path / each.name / "README.md").read_text()
    assert "**Not judged:** DQN (two coins) must reach a" in page
    assert all(each["verdict"] == "not judged" for each in summary_of(tmp_path, each.name)["claims"])


def test_secondary_claims_are_adjusted_for_their_number(tmp_path: Path) -> None:
    each = experiment("maze-two-coins")
    rising = plays(dict.fromkeys((0.0, 0.2, 0.4, 0.8), 0.5))
    gains = [0.0, 1.0] * 5  # t = 3: p = 0.015, times up to 6 claims

    def played(job: Job, step: int, w: float, i: int) -> float:
        return rising(job, step, w, i) + (gains[job.config.seed % 10] if w == 0.2 and weight(job) == 0 else 0.0)

    evidence = evidence_of(tmp_path, each, played=played)
    (position,) = (i for i, claim in enumerate(each.claims) if claim.text.startswith("Weight 0.2"))
    alone = replace(each, claims=(replace(each.claims[position], primary=True),))
    assert judge(alone, evidence)[0].p == pytest.approx(0.015, abs=0.003)
    assert found(alone, evidence) == [("better", "yes")]
    together = judge(replace(each, claims=(each.claims[position],) * 6), evidence)
    assert {judgement.p for judgement in together} == {6 * judge(alone, evidence)[0].p}
    assert {(judgement.verdict, judgement.agrees) for judgement in together} == {("undecided", "open")}


def test_a_level_that_is_never_reached_is_infinite(tmp_path: Path) -> None:
    each = experiment("maze-two-coins")
    evidence = evidence_of(tmp_path, each, lambda job: Learned(1.8 if weight(job) == 0 else 0.0))
    assert DATA_SHARE.estimate(evidence, "two coins", "EVA, weight 0.4").value == math.inf
    judgement = judge(each, evidence)[1]
    assert (judgement.difference.value, judgement.verdict) == (math.inf, "worse")


@pytest.mark.parametrize(
    ("gains", "expected"),
    [
        ((0, 0.3, 0.5, 0.5, 0.2, -1), ["better", "no difference", "better", "worse", "better"]),
        ((0, 0, -1, 0, 0, 0), ["worse", "worse", "worse", "better", "worse"]),
    ],
)
def test_single_episodes_are_paired_by_network(gains: tuple[float, ...], expected: list[str], tmp_path: Path) -> None:
    by_weight = dict(zip((0.0, 0.2, 0.4, 0.6, 0.8, 1.0), gains, strict=True))
    each = experiment("maze-single-episode")
    played: Played = lambda job, _, w, i: 3.5 + by_weight[w] + job.config.seed % 7 + 0.01 * spread(job) * w  # noqa: E731
    assert [verdict for verdict, _ in found(each, evidence_of(tmp_path, each, played=played))] == expected


def test_consolidation_compares_the_annealed_network_with_eva_kept(tmp_path: Path) -> None:
    each = experiment("consolidation")

    def played(job: Job, step: int, w: float, _: int) -> float:
        is_annealed = job.config.eva.anneal_start_transitions is not None
        return (-step / 100_000 if is_annealed and w == 0 else 0.5) + spread(job) * w

    evidence = evidence_of(tmp_path, each, played=played)
    assert found(each, evidence) == [("worse", "no"), ("no difference", "yes")]
    after = each.columns[0].estimate(evidence, ONE_COIN, ANNEALED)
    assert after.value == pytest.approx(-np.mean([0.85, 0.9, 0.95, 1.0]))


def test_errors_against_exact_values_are_compared(tmp_path: Path) -> None:
    errors = {"TCP": 0.2, "n-step": 0.4, "KBRL": 0.2, "TCP, recomputed": 0.1, "own": 0.35}

    def compare(job: Job, way: str) -> dict[str, Any]:
        least = 0.05 if job.config.eva.embeddings == "refreshed" else errors[way]
        error, right = least + 0.01 * spread(job), 0.6 + 0.01 * spread(job)
        return compared_by_class(compared(error / 2, right), compared(error, right))

    each = experiment("maze-accuracy")
    evidence = evidence_of(tmp_path, each, lambda job: Learned(1.8), compare=compare)
    better, worse, equal = ("better", "yes"), ("worse", "no"), ("undecided", "open")
    assert found(each, evidence) == [better, better, better, worse, better, better, better, equal, better, better]
    columns = {measure.name: measure.values(evidence, "two coins", "TCP").mean() for measure in each.columns}
    assert columns["error, planned values"] == pytest.approx(0.2, abs=0.01)
    assert columns["mixed action optimal, where overruled"] == pytest.approx(0.6, abs=0.01)
    assert set(each.figures(evidence)) == {"optimal", "errors", "overruled", "by_distance", "by_age"}


def test_classes_without_states_are_left_out(tmp_path: Path) -> None:
    nothing = {"error": dict.fromkeys(("q_theta", "q_np", "q_eva"))}
    each = experiment("maze-accuracy")

    def compare(job: Job, way: str) -> dict[str, Any]:
        return compared_by_class(compared(), compared()) | {"by_age": [nothing] * 5}

    evidence = evidence_of(tmp_path, each, lambda job: Learned(1.8), compare=compare)
    for drawing in each.figures(evidence).values():
        drawing.draw()


def test_evaluations_may_be_late_but_not_missing(tmp_path: Path) -> None:
    each = experiment("maze-tuning")
    evidence = evidence_of(tmp_path, each, played=lambda job, step, *_: step / job.config.steps + job.config.seed)
    arm = each.arms()[0]
    files = [run.path / "evaluations.jsonl" for run in evidence.group(arm.task, arm.label).runs]
    for file in files:
        lines = map(json.loads, file.read_text().splitlines())
        late = [{**line, "step": line["step"] + 1} for line in lines]  # several environments overshoot
        file.write_text("".join(json.dumps(line) + "\n" for line in late))
    final, mean, needed, _, largest = (
        measure.values(evidence, arm.task, arm.label).tolist() for measure in each.columns
    )
    assert final == pytest.approx([1_000.9, 1_001.9])
    assert mean == pytest.approx([1_000.7, 1_001.7])
    assert needed == [30_000.0], "an evaluation is 0.2 above the one before, and the margin is 0.1"
    assert np.isnan(largest).tolist() == [True]  # not recorded
    assert evidence.evaluations(arm.task, arm.label).shape == (5, 50, 2)
    lines = files[0].read_text().splitlines(keepends=True)
    files[0].write_text("".join(lines[1:]))  # a run may have been evaluated from later on
    assert evidence.evaluations(arm.task, arm.label).shape == (4, 50, 2)
    huge = json.dumps({**json.loads(lines[-1]), "returns": [-(10**400)] * 50})
    files[0].write_text("".join([*lines[:-1], huge]))
    with pytest.raises(UserError, match=r"evaluations\.jsonl"):
        evidence.evaluations(arm.task, arm.label)
    for missing in (lines[:-1], lines[:2] + lines[3:], []):
        files[0].write_text("".join(missing))
        with pytest.raises(UserError, match=r"evaluations\.jsonl.*are missing"):
            evidence.evaluations(arm.task, arm.label)


def test_largest_value_of_an_arm_is_that_of_any_run(tmp_path: Path) -> None:
    each = experiment("maze-tuning")
    arm = each.arms()[0]
    for run, value in zip(evidence_of(tmp_path, each).group(arm.task, arm.label).runs, (7.5, 2.0), strict=True):
        status = json.loads((run.path / "status.json").read_text())
        (run.path / "status.json").write_text(json.dumps({**status, "largest_abs_q": value}))
    evidence = Evidence(each.arms(), Records(tmp_path, each.name))
    assert LARGEST_Q.values(evidence, arm.task, arm.label).tolist() == [7.5]


def test_gains_of_eva_are_compared(tmp_path: Path) -> None:
    each = experiment("baselines")

    def world(job: Job) -> Learned:
        is_prioritised = job.config.replay.prioritised
        return Learned(1.8 + spread(job), 0.3 if weight(job) > 0 and not is_prioritised else 0.5)

    expected = [("better", "yes"), ("no difference", "no"), ("worse", "no"), ("better", "yes")]
    assert found(each, evidence_of(tmp_path, each, world)) == expected


def test_a_loss_in_one_environment_is_found(tmp_path: Path) -> None:
    each = experiment("generality")

    def world(job: Job) -> Learned:
        is_worse = weight(job) > 0 and job.config.environment.id == "Acrobot-v1"
        return Learned((150.0 if is_worse else 200.0) + spread(job))

    answers = [agrees for _, agrees in found(each, evidence_of(tmp_path, each, world))]
    assert answers == ["no", "no", "yes", "no"]


def trace_costs(kbrl: float) -> dict[str, Any]:
    rounds = {"TCP": [[1.0, 1.1]] * 5, "n-step": [[1.0, 1.0]] * 5, "KBRL": [[kbrl, kbrl]] * 5}
    return {"transitions": [50, 100, 250, 500, 1000], "rounds": rounds}


@pytest.mark.parametrize(("kbrl", "expected"), [(100.0, ("worse", "yes")), (2.0, ("better", "no"))])
def test_kernel_based_rl_costs_ten_times_as_much(kbrl: float, expected: tuple[str, str], tmp_path: Path) -> None:
    each = experiment("trace-computations")
    world: World = lambda job: Learned(1.8 + spread(job))  # noqa: E731
    answers = found(each, evidence_of(tmp_path, each, world, measured=trace_costs(kbrl)))
    assert answers == [("no difference", "no"), ("no difference", "yes"), expected]


def scaling_costs(projected: list[float], update: float) -> dict[str, Any]:
    def parts(search: list[float]) -> dict[str, list[list[float]]]:
        sizes = range(len(SIZES))
        return {
            SEARCH: [[x - 0.1, x + 0.1] for x in search],
            UPDATE: [[update, update + 0.1]] * len(sizes),
            FIT: [[1.0, 1.0]] * len(sizes),
        }

    brute = [30.0, 60.0, 200.0, 500.0, 1_000.0, 2_000.0]
    return {"sizes": SIZES, "microseconds": {BRUTE: parts(brute), PROJECTED: parts(projected)}}


@pytest.mark.parametrize(
    ("projected", "update", "expected"),
    [([20, 20, 50, 100, 200, 400], 1_000.0, "yes"), ([20, 100, 200, 900, 1_900, 3_900], 50.0, "no")],
)
def test_scaling_claims_follow_from_the_times(
    projected: list[float], update: float, expected: str, tmp_path: Path
) -> None:
    each = experiment("scaling")
    evidence = evidence_of(tmp_path, each, measured=scaling_costs(projected, update))
    assert [agrees for _, agrees in found(each, evidence)] == [expected] * 5
    growth = judge(each, evidence)[0].difference.value + 2
    assert growth == pytest.approx((projected[-1] + update + 1) / (projected[0] + update + 1), rel=0.01)


def test_memory_choices_are_judged_by_return(tmp_path: Path) -> None:
    each = experiment("memory-choices")

    def world(job: Job) -> Learned:
        arm = job.directory.parts[1].removeprefix("weight-0.4-double-")
        late = {"memory-5000": 2.0, "k-20": 1.5}.get(arm, 1.0)
        return Learned(1.8 + spread(job), late * 39_000 / job.config.steps)

    evidence = evidence_of(tmp_path, each, world)
    judgements = {judgement.claim.text: judgement for judgement in judge(each, evidence)}
    assert judgements["A memory of 5,000 is worse than 50,000."].agrees == "yes"
    assert judgements["20 neighbours are worse than 1."].agrees == "yes"
    assert judgements["The default is no worse than k = 1."].verdict == "no difference"


def test_every_choice_is_one_change() -> None:
    configs = {arm.label: arm.jobs[0].config for arm in experiment("memory-choices").arms()}
    for choice in CHOICES:
        reference = dict(flatten(configs[choice.reference]))
        changed = {name for name, value in flatten(configs[choice.label]) if value != reference[name]} - {"steps"}
        assert len(changed - {"eva.value_buffer_capacity"}) == 1, choice.label
        assert ("eva.value_buffer_capacity" in changed) == (choice.label == "M = 50")


@pytest.mark.parametrize(("dqn", "eva", "expected"), [(-15.0, 5.0, ["yes", "yes"]), (-21.0, 5.0, ["no", "yes"])])
def test_pong_is_compared_with_random_play(dqn: float, eva: float, expected: list[str], tmp_path: Path) -> None:
    each = experiment("pong")
    evidence = evidence_of(tmp_path, each, lambda job: Learned(dqn if weight(job) == 0 else eva))
    assert [agrees for _, agrees in found(each, evidence)] == expected


def test_published_returns_of_pong_are_read() -> None:
    assert dopamine_dqn("pong")[1] == pytest.approx((-19.5, 0.5), abs=1.5)


@pytest.mark.parametrize("good", [0, 1, 2])
def test_the_best_network_is_judged_by_episodes_that_did_not_choose_it(good: int) -> None:
    returns = np.full((3, 12, 2), 100.0)
    returns[good, :2] = 500.0  # chooses
    returns[good, 2:] = 450.0  # counts
    assert best_network(returns).tolist() == [450.0, 450.0]


@pytest.mark.parametrize(
    ("eva", "expected"),
    [
        ((0.1, 150.0), ["yes"] * 6 + ["yes", "no", "no", "open"]),
        ((0.9, 20.0), ["no"] * 6 + ["open", "yes", "yes", "open"]),
    ],
)
def test_atari_aggregates_over_games(eva: tuple[float, float], expected: list[str], tmp_path: Path) -> None:
    each = replace(atari.FULL, arms=partial(atari.arms, ("pong", "breakout"), 400_000, 2))
    learned = {"dqn": (0.6, 100.0), "eva": eva, "double-dqn": (0.6, 100.0), "double-dqn-prioritised": (0.6, 100.0)}

    def world(job: Job) -> Learned:
        after, high = learned[job.directory.parts[1]]
        return Learned(high + spread(job), after)

    judgements = judge(each, evidence_of(tmp_path, each, world))
    assert [judgement.agrees for judgement in judgements] == expected
    assert {judgement.difference.n for judgement in judgements} == {2}


def test_fewer_frames_of_atari_are_judged_as_such_with_three_seeds(tmp_path: Path) -> None:
    each = atari.cut_down("pong,breakout", 400_000, 3)
    evidence = evidence_of(
        tmp_path, each, lambda job: Learned(100 + 50 * weight(job) + spread(job), 0.1 if weight(job) else 0.6)
    )
    judgements = judge(each, evidence)
    assert {judgement.claim.text[:20] for judgement in judgements} == {"After 0.4M frames: E"}
    assert [judgement.agrees for judgement in judgements] == ["yes"] * 6
    assert atari.cut_down("pong,breakout", 400_000, 2).claims == ()
    (table,) = each.tables(evidence)
    (row,) = table.rows  # Dopamine's figures of Breakout are not among ours
    assert (row[0], row[2:]) == ("pong", ("-20.2 (0.1)", "-18.5 (0.8)", "-10.7 (6.5)"))


def test_atari_without_a_finished_episode_raises(tmp_path: Path) -> None:
    each = atari.cut_down("pong", 400, 3)
    evidence = evidence_of(tmp_path, each)
    for run in evidence.runs:
        (run.path / "episodes.csv").write_text((run.path / "episodes.csv").read_text().splitlines()[0] + "\n")
    with pytest.raises(UserError, match="no finished episode to judge: give more --frames"):
        judge(each, Evidence(each.arms(), Records(tmp_path, each.name)))


def test_pages_hold_every_claim_and_arm(tmp_path: Path) -> None:
    each = experiment("maze-one-coin")
    evidence_of(tmp_path, each, lambda job: Learned(0.9 + spread(job)))
    shown = write_page(each, each.arms(), Records(tmp_path, each.name))
    page = (tmp_path / each.name / "README.md").read_text()
    summary = json.loads((tmp_path / each.name / "summary.json").read_text())
    for claim in summary["claims"]:
        assert claim["claim"] in page
        assert f"{claim['verdict']}: {claim['claim']}" in shown
    for arm in each.arms():
        assert f"| {arm.task} | {arm.label} | 10 |" in page
    for words in ("c0ffeec0ffee (70 runs)", "a processor, 2 cores", "`eva experiment maze-one-coin`", "2026-01-02"):
        assert words in page
    assert max(map(len, page.splitlines())) < 600


def test_continued_and_diverged_runs_are_shown(tmp_path: Path) -> None:
    each = experiment("maze-two-coins")
    evidence = evidence_of(tmp_path, each)
    first, second, *_ = (run.path for run in evidence.runs)
    origin = {**ORIGIN, "continued": [{**ORIGIN, "commit": "beefbeefbeefbeef", "dirty": True}]}
    (first / "provenance.json").write_text(json.dumps(origin))
    status = {**json.loads((second / "status.json").read_text()), "diverged": "abs(Q)", "largest_abs_q": 5_000.0}
    (second / "status.json").write_text(json.dumps(status))
    write_page(each, each.arms(), Records(tmp_path, each.name))
    page = (tmp_path / each.name / "README.md").read_text()
    assert "beefbeefbeef, with uncommitted changes (1 run); c0ffeec0ffee (50 runs)" in page
    assert sum(line.endswith("| 1 |") for line in page.splitlines()) == 3, "DQN, and its networks with EVA"
    summary = json.loads((tmp_path / each.name / "summary.json").read_text())
    assert 5_000.0 in summary["largest_abs_q"].values()
    assert "failed runs" not in page


def test_runs_that_end_no_better_than_random_play_are_counted(tmp_path: Path) -> None:
    each = experiment("maze-two-coins")
    evidence_of(tmp_path, each, lambda job: Learned(-2.0 if job.config.seed < 4_003 and weight(job) == 0.8 else 1.8))
    write_page(each, each.arms(), Records(tmp_path, each.name))
    counts = {arm["arm"]: arm["failed"] for arm in summary_of(tmp_path, each.name)["arms"]}
    assert counts.pop("EVA, weight 0.8") == 3
    assert set(counts.values()) == {0}
    page = (tmp_path / each.name / "README.md").read_text()
    assert "no run diverged; failed runs, which end no better than random play, are included." in page
    assert "| failed runs |" in page


@pytest.mark.parametrize("content", ["", "{}", '{"step": 300000, "epsilon": 0.05, "weight": 0.0}', "[" * 100_000])
def test_a_damaged_record_of_single_episodes_is_named(content: str, tmp_path: Path) -> None:
    each = experiment("maze-single-episode")
    evidence = evidence_of(tmp_path, each)
    file = evidence.runs[0].path / "evaluations.jsonl"
    file.write_text(content)
    with pytest.raises(UserError, match=r"evaluations\.jsonl"):
        judge(each, evidence)


def test_claims_are_undecided_with_one_seed(tmp_path: Path) -> None:
    each = experiment("maze-two-coins")
    arms = tuple(replace(arm, jobs=arm.jobs[:1]) for arm in each.arms())
    short = replace(each, arms=lambda: arms)
    evidence = evidence_of(tmp_path, short, lambda job: Learned(1.8, 0.5 - weight(job) / 2))
    assert set(found(short, evidence)) == {("undecided", "open")}


def test_learner_hyper_parameters_do_not_depend_on_the_weight() -> None:
    alike: dict[str, set[str]] = {}
    for job in jobs_of(experiment("generality").arms()):
        config = job.config
        fields = (config.network, config.replay, config.learner, config.exploration, config.steps)
        alike.setdefault(config.environment.id, set()).add(str(fields))
    assert [len(each) for each in alike.values()] == [1, 1]
