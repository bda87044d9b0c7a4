"""The MinAtar experiment: its runs, its statistics over games, and the check of its baseline."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from eva.experiments.framework.arms import DQN
from eva.experiments.framework.command import write_page
from eva.experiments.framework.definition import jobs_of
from eva.experiments.framework.evidence import Evidence, Records
from eva.experiments.framework.judge import judge
from eva.experiments.framework.over_games import IQM, OVER_TRAINING, curves_of, score
from eva.experiments.paper import minatar
from eva.experiments.paper.minatar import ALL, EVA, EXPERIMENT, STEPS, THREE, agrees, baseline, last_episodes
from eva.games import MINATAR_GAMES, MINATAR_SCORES, minatar_normalised_score
from eva.report.curves import curve
from eva.runs.sweep.jobs import Job
from eva.schema import flatten
from tests.helpers.synthetic import Learned, World, draw_nothing, write_run

ARMS = EXPERIMENT.arms()


@pytest.fixture(autouse=True)
def _no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    draw_nothing(monkeypatch)


def game_of(job: Job) -> str:
    return job.directory.parts[0].removeprefix("minatar-")


def learns(after: dict[str, float], share: float = 1.0) -> World:
    """Runs reach a share of the published DQN's score after a share of training, which depends on the arm's folder."""

    def world(job: Job) -> Learned:
        published = MINATAR_SCORES[game_of(job)].dqn_by_frames[job.config.steps]
        noise = 1 + 0.001 * (job.config.seed % 7)
        return Learned(
            share * published * noise, after.get(job.directory.parts[1], 0.5) + 0.001 * (job.config.seed % 3)
        )

    return world


def evidence_of(tmp_path: Path, world: World) -> Evidence:
    records = Records(tmp_path, EXPERIMENT.name)
    for job in jobs_of(ARMS):
        write_run(job, records.folder / job.directory, world)
    return Evidence(ARMS, records)


def test_runs_are_those_of_the_protocol() -> None:
    jobs = jobs_of(ARMS)
    assert {arm.task for arm in ARMS} == set(MINATAR_GAMES)
    assert Counter(label for label in (arm.label for arm in ARMS)) == {
        DQN: 5,
        EVA: 5,
        "n-step": 3,
        "Double DQN": 3,
        "Double DQN + EVA": 3,
        "EVA, weight 0.2": 2,
        "EVA, refreshed embeddings": 2,
    }
    main = [job for arm in ARMS if arm.label in (DQN, EVA) for job in arm.jobs]
    assert {job.config.seed for job in main} == set(range(4_000, 4_005))
    assert sum(job.config.steps for job in main) == 90_000_000
    others = [job for job in jobs if job not in main]
    assert {job.config.seed for job in others} == {4_000, 4_001, 4_002}
    assert sum(job.config.steps for job in others) == 27_000_000 + 2 * 12_000_000
    assert all(job.config.evaluation.weights == (job.config.eva.nonparametric_weight,) for job in jobs)
    assert all(STEPS[game] in MINATAR_SCORES[game].dqn_by_frames for game in MINATAR_GAMES)


def test_arms_differ_from_dqn_only_in_their_change() -> None:
    allowed = {"eva.nonparametric_weight", "eva.trace", "eva.embeddings", "learner.double", "evaluation.weights"}
    dqn = {arm.task: dict(flatten(arm.jobs[0].config)) for arm in ARMS if arm.label == DQN}
    for arm in ARMS:
        fields = dict(flatten(arm.jobs[0].config))
        changed = {name for name in fields if fields[name] != dqn[arm.task][name]}
        assert changed <= allowed
        assert len(changed) == {DQN: 0, "Double DQN": 1, EVA: 2, "EVA, weight 0.2": 2}.get(arm.label, 3)


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (
            {"weight-0.4": 0.2, "weight-0.4-n-step": 0.8, "weight-0.4-double": 0.3, "weight-0-double": 0.6},
            ["yes", "no", "yes", "open"] + ["yes"] * 5 + ["yes"] * 4 + ["no", "no"],  # the ends are equal,
        ),
        (
            {"weight-0.4": 0.9, "weight-0.4-n-step": 0.1, "weight-0.4-double": 0.9, "weight-0-double": 0.1},
            ["no", "no", "no", "open"] + ["no"] * 9 + ["yes", "yes"],
        ),
    ],
)
def test_claims_follow_from_the_runs(after: dict[str, float], expected: list[str], tmp_path: Path) -> None:
    judgements = judge(EXPERIMENT, evidence_of(tmp_path, learns(after)))
    found = {each.claim.text: each.agrees for each in judgements}
    assert list(found.values()) == expected


def test_interquartile_mean_over_training_matches_its_definition(tmp_path: Path) -> None:
    evidence = evidence_of(tmp_path, learns({"weight-0.4": 0.3}))
    for suite, games in ((ALL, MINATAR_GAMES), (THREE, ("breakout", "freeway", "space_invaders"))):
        values = []
        for game in games:
            task = evidence.tasks[game]
            for run in evidence.group(game, EVA).runs:
                points = [y for x, y in zip(task.grid, curve(run, task.grid), strict=True) if x >= 0.05 * task.grid[-1]]
                values.append(minatar_normalised_score(game, sum(points) / len(points)))
        quarter = len(values) // 4
        middle = sorted(values)[quarter : len(values) - quarter]
        found = score(suite, IQM, OVER_TRAINING).estimate(evidence, "asterix", EVA)
        assert found.value == pytest.approx(sum(middle) / len(middle))
        assert found.low < found.value < found.high
    assert list(curves_of(evidence, ALL).by_label) == [DQN, EVA]
    assert len(curves_of(evidence, THREE).by_label) == 5
    assert curves_of(evidence, THREE).by_label["n-step"].shape[:2] == (3, 3)


@pytest.mark.parametrize(
    ("ours", "published", "expected"),
    [
        ([10.0, 10.0, 10.0], 10.0, True),
        ([8.6, 8.6, 8.6], 10.0, True),  # 14% below
        ([8.4, 8.4, 8.4], 10.0, False),
        ([5.0, 8.0, 11.0], 10.0, True),  # 20% below, standard error 1.73
        ([7.9, 8.0, 8.1], 10.0, False),  # 20% below, standard error 0.06
        ([20.0, 30.0], 10.0, True),
        ([8.0], 10.0, False),
    ],
)
def test_baseline_agrees_within_15_percent_or_two_standard_errors(
    ours: list[float], published: float, expected: bool
) -> None:
    assert agrees(np.array(ours), published) == expected


@pytest.mark.parametrize(("low_games", "verdict"), [(0, "agrees"), (1, "agrees"), (2, "does not agree")])
def test_baseline_must_agree_in_four_of_five_games(low_games: int, verdict: str, tmp_path: Path) -> None:
    def world(job: Job) -> Learned:
        return learns({}, 0.5 if game_of(job) in MINATAR_GAMES[:low_games] else 1.0)(job)

    table = baseline(evidence_of(tmp_path, world))
    assert [row[-1] for row in table.rows] == ["no"] * low_games + ["yes"] * (5 - low_games)
    assert f"The baseline {verdict} with the published DQN: in {5 - low_games} of 5 games" in table.note


def test_last_episodes_are_those_of_the_published_curves() -> None:
    run = SimpleNamespace(episode_returns=np.arange(250.0))
    assert last_episodes(run) == pytest.approx(np.mean(range(150, 250)))
    assert last_episodes(SimpleNamespace(episode_returns=np.array([1.0, 3.0]))) == 2.0


def test_page_shows_suites_and_baseline(tmp_path: Path) -> None:
    evidence_of(tmp_path, learns({"weight-0.4": 0.3}))
    write_page(EXPERIMENT, ARMS, Records(tmp_path, EXPERIMENT.name))
    page = (tmp_path / "minatar" / "README.md").read_text()
    assert page.index("![figure-3]") < page.index("## Over the games") < page.index("## The baseline beside")
    assert "| breakout | 1,000,000 | 9.20 | 9.2" in page
    assert "| all five | EVA |" in page
    assert "| **EVA improves the learning speed.** | EVA vs. DQN | interquartile" in page
    assert "| EVA learns Asterix faster. | EVA vs. DQN, asterix | mean return" in page
    assert "| breakout, freeway, space_invaders | Double DQN + EVA |" in page
    tables = json.loads((tmp_path / "minatar" / "summary.json").read_text())["tables"]
    assert [len(table["rows"]) for table in tables] == [2 + 5 + 4, 5]
    assert minatar.MARGIN == 5.0
