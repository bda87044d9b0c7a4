"""Which of EVA's hyper-parameters and readings of the paper matter: one change at a time (P121 to P123)."""

from dataclasses import dataclass

import numpy as np

from eva.experiments.beyond.baselines import learner_arm
from eva.experiments.framework.common import DOUBLE_DQN, PAPER_WEIGHT, Changes
from eva.experiments.framework.definition import OURS, Arm, Claim, Expected, Experiment, Figures
from eva.experiments.framework.evidence import Evidence
from eva.experiments.framework.measures import Measure, mean_return
from eva.experiments.paper.maze import TWO_COINS
from eva.report.plots import Intervals, Panel
from eva.report.statistics import FloatArray

SHORT, PAIRED, LONG = 80_000, 100_000, 150_000  # transitions
DEFAULT, SHARED = "default", "two environments, one value buffer"
NUM_ENVIRONMENTS = "environment.num_environments"


@dataclass(frozen=True)
class Choice:
    """One change from the default, and the transitions over which it is compared."""

    label: str
    folder: str
    changes: Changes
    steps: int = SHORT

    @property
    def reference(self) -> str:
        """The arm it is compared with."""
        return SHARED if NUM_ENVIRONMENTS in self.changes else DEFAULT

    @property
    def measure(self) -> Measure:
        """What it is compared by."""
        return mean_return(self.steps)

    def claim(self, where: str, text: str, expected: Expected, other: str | None = None) -> Claim:
        """Compare it with another choice, by default its reference."""
        return Claim(where, text, self.measure, self.label, other or self.reference, expected)


APART = {NUM_ENVIRONMENTS: 2, "eva.value_buffers": "per-environment"}
SMALL = Choice("memory of 5,000", "memory-5000", {"replay.replay_capacity": 5_000}, LONG)
LARGE = Choice("memory of 200,000", "memory-200000", {"replay.replay_capacity": 200_000}, LONG)
FEW = Choice("k = 1", "k-1", {"eva.num_neighbours": 1})
MANY = Choice("k = 20", "k-20", {"eva.num_neighbours": 20})
SELDOM = Choice("plan every 100 steps", "period-100", {"eva.plan_period_steps": 100})
RECOMPUTED = Choice("values recomputed", "recomputed", {"eva.remembered_values": "recomputed"})
TOGETHER = Choice(SHARED, "two-environments", {NUM_ENVIRONMENTS: 2}, PAIRED)
CHOICES = (
    SMALL,
    LARGE,
    FEW,
    MANY,
    Choice("M = 1", "m-1", {"eva.num_trajectories": 1}),
    # A value buffer of 2,000 would not hold one round of plans: the farthest would push out the nearest (P123).
    Choice("M = 50", "m-50", {"eva.num_trajectories": 50, "eva.value_buffer_capacity": 10_000}),
    Choice("T = 5", "t-5", {"eva.trajectory_length": 5}),
    Choice("plan every step", "period-1", {"eva.plan_period_steps": 1}),
    SELDOM,
    Choice("only first states enter", "start", {"eva.value_buffer_entries": "start"}),
    RECOMPUTED,
    Choice("a value buffer for each environment", "two-environments-apart", APART, PAIRED),
    Choice("plan at episode starts too", "episode-starts", {"eva.plan_at_episode_start": True}),
)


def arms() -> tuple[Arm, ...]:
    """Return the default and Double DQN, which are runs of `baselines`, and every choice, with Double DQN."""
    chosen = [
        learner_arm(each.label, DOUBLE_DQN, PAPER_WEIGHT, {"steps": each.steps, **each.changes}, f"-{each.folder}")
        for each in (*CHOICES, TOGETHER)
    ]
    default, without = learner_arm(DEFAULT, DOUBLE_DQN, PAPER_WEIGHT), learner_arm(DOUBLE_DQN, DOUBLE_DQN, 0.0)
    return default, without, *chosen


def _speed(evidence: Evidence, _: str, label: str) -> FloatArray:
    """Return transitions per second as a multiple of the default's, round by round."""
    times = evidence.measured["microseconds"]
    reference = next((each.reference for each in CHOICES if each.label == label), DEFAULT)
    speed: FloatArray = np.divide(times[reference], times[label])
    return speed


def figures(evidence: Evidence) -> Figures:
    """Draw each choice's difference and speed."""
    gains = [each.measure.difference(evidence, TWO_COINS, each.label, each.reference) for each in CHOICES]
    speeds = [SPEED.estimate(evidence, TWO_COINS, each.label) for each in CHOICES]
    panels = (
        Panel("mean return over training,\nless the default's", gains, 0.0),
        Panel("speed, as a multiple\nof the default's", speeds, 1.0),
    )
    return {"choices": Intervals([each.label for each in CHOICES], panels)}


SPEED = Measure("speed as a multiple of the default's", _speed, unit="rounds")
EXPERIMENT = Experiment(
    name="memory-choices",
    title="Which of EVA's choices matter, two coins",
    question="Do other hyper-parameters or readings of the paper give a better EVA?",
    arms=arms,
    claims=(
        *(
            Claim(OURS, f"The default is no worse than: {c.label}.", c.measure, c.reference, c.label, "no worse")
            for c in CHOICES
            if c not in (SMALL, SELDOM)
        ),
        Claim(OURS, "Recomputing values is slower.", SPEED, RECOMPUTED.label, 1.0, "worse", 0),
        SELDOM.claim("Section 5.2", "Planning every 100 steps is worse than every 20.", "worse"),
        MANY.claim("Section 5.2", "More neighbours are worse: 20 against 1.", "worse", FEW.label),
        LARGE.claim(OURS, "A larger memory is better: 200,000.", "better"),
        SMALL.claim(OURS, "A smaller memory is worse: 5,000.", "worse"),
    ),
    columns=(mean_return(SHORT), SPEED),
    figures=figures,
    timing="eva.experiments.timing.choice_speeds",
    notes=(
        f"All arms learn by {DOUBLE_DQN} with weight {PAPER_WEIGHT:g}, chosen after the runs of the default had been "
        "seen. The default and Double DQN are the runs of `baselines`.",
        "Several value buffers need several environments: that choice is compared with two that share one.",
    ),
)
