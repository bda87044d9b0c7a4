"""Which of EVA's hyper-parameters and readings of the paper matter: one change at a time (P121 to P123)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from eva.config import EVAConfig, ReplayConfig
from eva.experiments.beyond.baselines import STEPS as LENGTH
from eva.experiments.beyond.baselines import learner_job
from eva.experiments.framework.common import DOUBLE_DQN, PAPER_WEIGHT, changed
from eva.experiments.framework.definition import OURS, Arm, Claim, Experiment, Figures
from eva.experiments.framework.evidence import Evidence
from eva.experiments.framework.judge import judge_claim
from eva.experiments.framework.measures import Measure, mean_return
from eva.experiments.paper.maze import SEEDS
from eva.report.plots import Intervals, Panel, intervals_files
from eva.report.statistics import FloatArray
from eva.runs.sweep.jobs import Job

TASK = "two coins"
SHORT, PAIRED = 80_000, 100_000  # transitions
DEFAULT, SHARED = "default", "two environments, one value buffer"


@dataclass(frozen=True)
class Choice:
    """One change from the default.

    Attributes:
        label: Of the arm.
        folder: Of its runs.
        steps: Transitions over which it is compared.
        eva: EVA's hyper-parameters with the change.
        replay_capacity: Of the memory.
        num_environments: Two if the change concerns several environments.
    """

    label: str
    folder: str
    steps: int = SHORT
    eva: EVAConfig = field(default_factory=EVAConfig)
    replay_capacity: int = ReplayConfig().replay_capacity
    num_environments: int = 1

    @property
    def reference(self) -> str:
        """The arm it is compared with."""
        return SHARED if self.num_environments > 1 else DEFAULT


SMALL = Choice("memory of 5,000", "memory-5000", LENGTH, replay_capacity=5_000)
LARGE = Choice("memory of 200,000", "memory-200000", LENGTH, replay_capacity=200_000)
FEW = Choice("k = 1", "k-1", eva=EVAConfig(num_neighbours=1))
MANY = Choice("k = 20", "k-20", eva=EVAConfig(num_neighbours=20))
OFTEN = Choice("plan every step", "period-1", eva=EVAConfig(plan_period_steps=1))
SELDOM = Choice("plan every 100 steps", "period-100", eva=EVAConfig(plan_period_steps=100))
RECOMPUTED = Choice("values recomputed", "recomputed", eva=EVAConfig(remembered_values="recomputed"))
TOGETHER = Choice(SHARED, "two-environments", PAIRED, num_environments=2)
CHOICES = (
    SMALL,
    LARGE,
    FEW,
    MANY,
    Choice("M = 1", "m-1", eva=EVAConfig(num_trajectories=1)),
    # A value buffer of 2,000 would not hold one round of plans: the farthest would push out the nearest (P123).
    Choice("M = 50", "m-50", eva=EVAConfig(num_trajectories=50, value_buffer_capacity=10_000)),
    Choice("T = 5", "t-5", eva=EVAConfig(trajectory_length=5)),
    OFTEN,
    SELDOM,
    Choice("only first states enter", "start", eva=EVAConfig(value_buffer_entries="start")),
    RECOMPUTED,
    Choice(
        "a value buffer for each environment",
        "two-environments-apart",
        PAIRED,
        EVAConfig(value_buffers="per-environment"),
        num_environments=2,
    ),
    Choice("plan at episode starts too", "episode-starts", eva=EVAConfig(plan_at_episode_start=True)),
)
MEASURES: Mapping[int, Measure] = {steps: mean_return(steps) for steps in (LENGTH, SHORT, PAIRED)}


def arms() -> tuple[Arm, ...]:
    """Return the default, Double DQN and every choice; the first two are runs of `baselines`."""
    return (
        Arm(TASK, DEFAULT, tuple(learner_job(seed, PAPER_WEIGHT, DOUBLE_DQN) for seed in SEEDS)),
        Arm(TASK, DOUBLE_DQN, tuple(learner_job(seed, 0.0, DOUBLE_DQN) for seed in SEEDS)),
        *(Arm(TASK, choice.label, tuple(_job(choice, seed) for seed in SEEDS)) for choice in (*CHOICES, TOGETHER)),
    )


def _job(choice: Choice, seed: int) -> Job:
    job = learner_job(seed, PAPER_WEIGHT, DOUBLE_DQN)
    config = replace(
        job.config,
        steps=choice.steps,
        environment=replace(job.config.environment, num_environments=choice.num_environments),
        replay=replace(job.config.replay, replay_capacity=choice.replay_capacity),
        eva=replace(choice.eva, nonparametric_weight=PAPER_WEIGHT),
    )
    return changed(job, f"{job.directory.parts[1]}-{choice.folder}", config)


def measure(is_quick: bool) -> dict[str, Any]:
    """Time every arm on this machine."""
    from eva.timing.choice_speeds import measure_speeds  # imports torch: not to list runs

    return measure_speeds({arm.label: arm.jobs[0].config for arm in arms()}, is_quick)


def _speed(evidence: Evidence, _: str, label: str) -> FloatArray:
    """Return transitions per second as a multiple of the default's, round by round."""
    times = {name: np.array(rounds) for name, rounds in evidence.measured["microseconds"].items()}
    reference = next((each.reference for each in CHOICES if each.label == label), DEFAULT)
    speed: FloatArray = times[reference] / times[label]
    return speed


def figures(evidence: Evidence) -> Figures:
    """Draw each choice's difference and speed."""
    gains = [_claim(OURS, "", each.label, each, "better") for each in CHOICES]
    panels = (
        Panel(
            "mean return over training,\nless the default's", [judge_claim(g, evidence).difference for g in gains], 0.0
        ),
        Panel(
            "speed, as a multiple\nof the default's", [SPEED.estimate(evidence, TASK, c.label) for c in CHOICES], 1.0
        ),
    )
    return {"choices": intervals_files(Intervals([each.label for each in CHOICES], panels))}


def _claim(where: str, text: str, arm: str, choice: Choice, expected: Any, other: str | None = None) -> Claim:
    return Claim(where, text, MEASURES[choice.steps], arm, other or choice.reference, expected)


SPEED = Measure("speed as a multiple of the default's", _speed, unit="rounds")
EXPERIMENT = Experiment(
    name="memory-choices",
    title="Which of EVA's choices matter, two coins",
    question="Do other hyper-parameters or readings of the paper give a better EVA?",
    arms=arms,
    claims=(
        *(
            _claim(OURS, f"The default is no worse than: {each.label}.", each.reference, each, "no worse", each.label)
            for each in CHOICES
            if each not in (SMALL, SELDOM)
        ),
        Claim(OURS, "Recomputing values is slower.", SPEED, RECOMPUTED.label, 1.0, "worse", 0),
        _claim("Section 5.2", "Planning every 100 steps is worse than every 20.", SELDOM.label, SELDOM, "worse"),
        _claim("Section 5.2", "More neighbours are worse: 20 against 1.", MANY.label, MANY, "worse", FEW.label),
        _claim(OURS, "A larger memory is better: 200,000.", LARGE.label, LARGE, "better"),
        _claim(OURS, "A smaller memory is worse: 5,000.", SMALL.label, SMALL, "worse"),
    ),
    columns=(mean_return(SHORT), SPEED),
    figures=figures,
    measure=measure,
    notes=(
        f"All arms learn by {DOUBLE_DQN} with weight {PAPER_WEIGHT:g}, chosen after the runs of the default had been "
        "seen. The default and Double DQN are the runs of `baselines`.",
        "Several value buffers need several environments: that choice is compared with two that share one.",
    ),
)
