"""The experiments beyond the paper: what is compared, what is measured, and what known numbers are judged to say."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eva.experiments.beyond import choices
from eva.experiments.beyond.choices import CHOICES, DEFAULT, SHARED
from eva.experiments.beyond.generality import PLACES
from eva.experiments.catalogue import EXPERIMENTS, experiment
from eva.experiments.framework.common import DOUBLE_DQN, DQN, PRIORITISED
from eva.experiments.framework.definition import Arm, jobs_of
from eva.experiments.framework.judge import are_all_below, effect
from eva.experiments.framework.page import all_claims
from eva.report.measures import Estimate, difference
from eva.runs.sweep.jobs import Job
from eva.schema import flatten
from eva.timing.choice_speeds import measure_speeds
from tests.helpers.synthetic import Learned
from tests.test_judging import judged, verdicts, weight

pytestmark = pytest.mark.usefixtures("_numbers_only")


@pytest.mark.parametrize(
    ("gain", "expected"),
    [
        (Estimate(0.2, 0.1, 0.3), "better"),
        (Estimate(0.09, 0.01, 0.2), "undecided"),  # beyond doubt, but too little
        (Estimate(0.2, -0.1, 0.5), "undecided"),
        (Estimate(0.05, -0.05, 0.09), "no difference"),
        (Estimate(0.05, 0.01, 0.09), "no difference"),
        (Estimate(-0.05, -0.11, 0.0), "undecided"),
        (Estimate(-0.2, -0.3, -0.1), "worse"),
        (Estimate(float("nan"), float("-inf"), float("inf")), "undecided"),
    ],
)
def test_effects(gain: Estimate, expected: str) -> None:
    assert effect(gain, 0.1) == expected


def test_none_of_several_reaches_a_bound() -> None:
    low, perhaps, high = Estimate(0, -1, 0.5), Estimate(0, -1, 2), Estimate(2, 1, 3)
    assert are_all_below([low, low], 1.0) == "holds"
    assert are_all_below([low, perhaps], 1.0) == "undecided"
    assert are_all_below([low, high], 1.0) == "does not hold"


@functools.cache
def arms() -> tuple[Arm, ...]:
    return choices.arms()


def learner(job: Job) -> str:
    return PRIORITISED if job.config.replay.prioritised else DOUBLE_DQN if job.config.learner.double else DQN


@pytest.mark.parametrize(
    ("after", "expected", "lessons"),
    [
        # What EVA adds is the same everywhere, and more than a better learner adds.
        (
            {DQN: (0.8, 0.4), DOUBLE_DQN: (0.75, 0.35), PRIORITISED: (0.7, 0.3)},
            ["holds", "holds", "holds", "holds"],
            ["helps", "helps", "helps"],
        ),
        # It helps DQN alone.
        (
            {DQN: (0.8, 0.4), DOUBLE_DQN: (0.3, 0.3), PRIORITISED: (0.2, 0.6)},
            ["does not hold", "does not hold", "does not hold", "does not hold"],
            ["helps", "makes no difference of 0.09 or more", "harms"],
        ),
    ],
)
def test_baselines(
    after: dict[str, tuple[float, float]], expected: list[str], lessons: list[str], tmp_path: Path
) -> None:
    summary = judged(tmp_path, "baselines", lambda job: Learned(1.8, after[learner(job)][weight(job) > 0]))
    assert verdicts(summary) == expected
    for (name, (alone, with_eva)), said, lesson in zip(after.items(), lessons, summary["lessons"], strict=True):
        assert lesson.startswith(f"{name} in the maze with two coins: EVA {said}.")
        gain = summary["numbers"]["tasks"][name]["arms"]["weight 0.4"]["against weight 0"]["area_gain"]["value"]
        assert gain == pytest.approx(2.8 * (alone - with_eva), abs=0.02)


def test_baselines_share_the_runs_of_two_coins() -> None:
    shared = set(jobs_of(experiment("maze-two-coins").arms())) & set(jobs_of(experiment("baselines").arms()))
    assert len(shared) == 10
    assert {(weight(job), learner(job)) for job in shared} == {(0.0, DQN), (0.4, DQN)}


def test_a_choice_is_one_change() -> None:
    default = next(arm for arm in arms() if arm.label == DEFAULT).jobs[0].config
    configs = {arm.label: arm.jobs[0].config for arm in arms()}
    for choice in CHOICES:
        reference = dict(flatten(configs[SHARED] if choice.num_environments > 1 else default))
        changed = {name for name, value in flatten(configs[choice.label]) if value != reference[name]} - {"steps"}
        assert len(changed - {"eva.value_buffer_capacity"}) == 1, choice.label
        assert ("eva.value_buffer_capacity" in changed) == (choice.label == "M = 50")


def test_the_budget() -> None:
    shared = set(jobs_of(experiment("maze-two-coins").arms()))
    new = {job for name in ("baselines", "memory-choices", "generality") for job in jobs_of(experiment(name).arms())}
    assert sum(job.config.steps for job in new - shared) == 12_000_000


def speeds(**changes: float) -> dict[str, Any]:
    times = {arm.label: [100.0, 101.0] for arm in arms()}
    return {"microseconds": times | {name: [time, time] for name, time in changes.items()}}


def test_the_more_comparisons_the_wider() -> None:
    first, second = np.arange(5.0), np.arange(5.0) ** 2
    alone, among_ten = difference(first, second), difference(first, second, 0.995)
    assert among_ten.low < alone.low
    assert among_ten.high > alone.high


@pytest.mark.parametrize(("spread", "expected"), [(0.03, "does not hold"), (0.07, "undecided")])
def test_one_of_many_gains_must_stand_out(spread: float, expected: str, tmp_path: Path) -> None:
    """With intervals of 95% each, both would be beyond doubt."""

    def world(job: Job) -> Learned:
        share = 60_000 / job.config.steps
        if "period-1/" not in f"{job.directory}":
            return Learned(1.8, share)
        return Learned(1.8, share * (0.85 + spread * (job.config.seed - 2)))

    summary = judged(tmp_path, "memory-choices", world, measured=speeds())
    assert verdicts(summary)[0] == expected
    gain = summary["numbers"]["choices"]["plan every step"]["comparison"]["area_gain"]
    assert gain["low"] > 0.05 * 1.89


def test_memory_choices(tmp_path: Path) -> None:
    """All are up after 60,000 transitions, whatever the length of the run, but for a few that are late or early."""
    late, early = {"t-5": 1.0}, {"period-1": 0.5, "memory-200000": 0.6}

    def world(job: Job) -> Learned:
        folder = job.directory.parts[1].removeprefix("weight-0.4-double-")
        share = 60_000 / job.config.steps
        return Learned(1.8, late.get(folder, early.get(folder, 1.0) * share))

    slow = speeds(**{choices.RECOMPUTED.label: 200.0})
    summary = judged(tmp_path, "memory-choices", world, measured=slow)
    told = summary["numbers"]["choices"]
    assert {name for name, row in told.items() if row["effect"] != "no difference"} == {
        "T = 5",
        "plan every step",
        "memory of 200,000",
    }
    assert told["T = 5"]["effect"] == "worse"
    assert told["T = 5"]["comparison"]["area_gain"]["value"] == pytest.approx(-2.8 * (0.25 - 0.025), abs=0.03)
    assert told["T = 5"]["comparison"]["data_share"]["value"] is None, "never reached"
    assert told["plan every step"]["comparison"]["data_share"]["value"] == pytest.approx(0.375 + 0.05, abs=0.02)
    assert told["k = 1"]["comparison"]["area_gain"]["value"] == pytest.approx(0.0, abs=0.02), "the beginnings count"
    assert told[choices.RECOMPUTED.label]["speed"]["value"] == pytest.approx(0.5, abs=0.01)
    assert told["k = 1"]["speed"]["value"] == 1.0
    # Others are better; no reading is; recomputing is slower for nothing; more plans help, fewer do no harm; all k are
    # alike; a larger memory helps, a smaller one does no harm.
    assert verdicts(summary) == ["does not hold", "holds", "holds", "does not hold", "does not hold", "holds in part"]
    assert [lesson.partition(":")[0] for lesson in summary["lessons"][1:]] == [
        "'memory of 200,000' is better",
        "'T = 5' is worse",
        "'plan every step' is better",
    ]
    of_numbers, of_readings = (finding["measured"] for finding in summary["findings"][:2])
    assert f"{100 - 5 / len(choices.NUMBERS):.3g}% interval" in of_numbers, "the more comparisons, the wider"
    assert f"{100 - 5 / len(choices.READINGS):.3g}% interval" in of_readings
    page = (tmp_path / "memory-choices" / "README.md").read_text()
    assert "c0ffeec0ffee; a processor, 2 cores; torch 2.13.0; 2026-01-02" in page


def test_recomputing_that_gains_more_than_it_costs(tmp_path: Path) -> None:
    def world(job: Job) -> Learned:
        early = 0.4 if "recomputed" in f"{job.directory}" else 1.0
        return Learned(1.8, early * 60_000 / job.config.steps)

    slow = speeds(**{choices.RECOMPUTED.label: 200.0})
    assert verdicts(judged(tmp_path, "memory-choices", world, measured=slow))[2] == "does not hold"


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ({"period-100": 1.0, "k-1": 0.5, "k-20": 0.9}, ["holds", "holds"]),
        ({"period-100": 1.0, "period-1": 0.4, "k-1": 0.9, "k-20": 0.5}, ["holds in part", "does not hold"]),
    ],
)
def test_what_the_paper_says_of_period_and_neighbours(
    after: dict[str, float], expected: list[str], tmp_path: Path
) -> None:
    def world(job: Job) -> Learned:
        arm = job.directory.parts[1].removeprefix("weight-0.4-double-")
        return Learned(1.8, after.get(arm, 56_000 / job.config.steps))

    assert verdicts(judged(tmp_path, "memory-choices", world, measured=speeds()))[3:5] == expected


def test_speeds_are_measured_for_each_choice_and_transition() -> None:
    configs = {arm.label: arm.jobs[0].config for arm in arms()}
    content = measure_speeds({name: configs[name] for name in (DEFAULT, SHARED)}, is_quick=True)
    assert all(len(times) == 2 and min(times) > 0 for times in content["microseconds"].values())
    assert set(content["microseconds"]) == {DEFAULT, SHARED}


@pytest.mark.parametrize(
    ("after", "expected", "said"),
    [
        ({0.0: 0.7, 0.4: 0.4}, ["holds", "holds", "holds", "holds"], "EVA helps"),
        ({0.0: 0.4, 0.4: 0.7}, ["does not hold", "does not hold", "does not hold", "holds"], "EVA harms"),
    ],
)
def test_generality(after: dict[float, float], expected: list[str], said: str, tmp_path: Path) -> None:
    summary = judged(tmp_path, "generality", lambda job: Learned(500.0, after[weight(job)]))
    assert verdicts(summary) == expected
    for place, lesson in zip(PLACES, summary["lessons"], strict=True):
        assert lesson.startswith(f"{place.id}: {said}. ")


def test_a_loss_in_one_environment_is_a_harm(tmp_path: Path) -> None:
    def world(job: Job) -> Learned:
        is_worse = weight(job) > 0 and job.config.environment.id == "LunarLander-v3"
        return Learned(150.0 if is_worse else 200.0)

    assert verdicts(judged(tmp_path, "generality", world))[3] == "does not hold"


def test_the_learners_numbers_do_not_depend_on_the_weight() -> None:
    alike: dict[str, set[str]] = {}
    for job in jobs_of(experiment("generality").arms()):
        config = job.config
        numbers = (config.network, config.replay, config.learner, config.exploration, config.steps)
        alike.setdefault(config.environment.id, set()).add(str(numbers))
    assert [len(each) for each in alike.values()] == [1, 1, 1]


def test_the_results_say_what_matters() -> None:
    assert "## What matters\n\nThe experiments that tell have not been run yet." in all_claims(EXPERIMENTS.values(), {})
    finding = {"where": "Fig. 2", "claim": "It flies.", "verdict": "does not hold", "measured": "0 m", "certainty": ""}
    found = {"experiment": "scaling", "title": "t", "outcome": "o", "findings": [finding], "figures": ["costs"]}
    page = all_claims(EXPERIMENTS.values(), {"scaling": {**found, "lessons": ["EVA helps here."]}})
    assert "- EVA helps here. ([page](../results/scaling/README.md))" in page
    assert "Claims that do not hold here:\n\n- It flies. (Fig. 2) We measured: 0 m." in page
