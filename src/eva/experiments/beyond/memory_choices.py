"""Which of EVA's hyper-parameters and readings of the paper matter: one change at a time (P121 to P123)."""

from dataclasses import dataclass

from eva.experiments.beyond.baselines import learner_arm
from eva.experiments.framework.arms import DOUBLE_DQN, PAPER_WEIGHT, Changes
from eva.experiments.framework.definition import OURS, Arm, Claim, Expected, Experiment, Figures
from eva.experiments.framework.evidence import Evidence
from eva.experiments.framework.measures import Measure, greedy_mean
from eva.experiments.paper.maze import TWO_COINS, learned
from eva.report.plots import Intervals

SHORT, PAIRED, LONG = 81_000, 99_000, 162_000  # transitions: whole numbers of evaluations
DEFAULT, SHARED = "the default", "two environments, one value buffer"
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
        return greedy_mean(self.steps)

    def claim(self, where: str, text: str, expected: Expected) -> Claim:
        """Compare it with its reference."""
        return Claim(where, text, self.measure, self.label, self.reference, expected)


APART = {NUM_ENVIRONMENTS: 2, "eva.value_buffers": "per-environment"}
SMALL = Choice("memory of 5,000", "memory-5000", {"replay.replay_capacity": 5_000}, LONG)
LARGE = Choice("memory of 200,000", "memory-200000", {"replay.replay_capacity": 200_000}, LONG)
FEW = Choice("k = 1", "k-1", {"eva.num_neighbours": 1})
MANY = Choice("k = 20", "k-20", {"eva.num_neighbours": 20})
SELDOM = Choice("planning every 100 steps", "period-100", {"eva.plan_period_steps": 100})
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
    Choice("planning every step", "period-1", {"eva.plan_period_steps": 1}),
    SELDOM,
    Choice("keeping only first states of trajectories", "start", {"eva.value_buffer_entries": "start"}),
    Choice("recomputed values", "recomputed", {"eva.remembered_values": "recomputed"}),
    Choice("refreshed embeddings", "refreshed", {"eva.embeddings": "refreshed"}),
    Choice("a value buffer for each environment", "two-environments-apart", APART, PAIRED),
    Choice("planning at episode starts too", "episode-starts", {"eva.plan_at_episode_start": True}),
)


def arms() -> tuple[Arm, ...]:
    """Return the default and Double DQN, which are runs of `baselines`, and every choice, with Double DQN."""
    chosen = [
        learner_arm(each.label, DOUBLE_DQN, PAPER_WEIGHT, {"steps": each.steps, **each.changes}, f"-{each.folder}")
        for each in (*CHOICES, TOGETHER)
    ]
    default, without = learner_arm(DEFAULT, DOUBLE_DQN, PAPER_WEIGHT), learner_arm(DOUBLE_DQN, DOUBLE_DQN, 0.0)
    return default, without, *chosen


def figures(evidence: Evidence) -> Figures:
    """Draw how much better the default is than each choice."""
    gains = {c.label: c.measure.difference(evidence, TWO_COINS, c.reference, c.label) for c in CHOICES}
    margin = evidence.tasks[TWO_COINS].margin
    return {"choices": Intervals("greedy return over training, default minus choice", gains, margin)}


EXPERIMENT = Experiment(
    name="memory-choices",
    title="Which of EVA's choices matter, two coins",
    question="Do other hyper-parameters or readings of the paper give a better EVA?",
    arms=arms,
    claims=(
        *(
            Claim(OURS, f"The default is no worse than {c.label}.", c.measure, c.reference, c.label, "no worse")
            for c in CHOICES
            if c not in (SMALL, LARGE, SELDOM)
        ),
        SELDOM.claim("Section 5.2", "Planning every 100 steps is worse than every 20.", "worse"),
        Claim("Section 5.2", "20 neighbours are worse than 1.", FEW.measure, MANY.label, FEW.label, "worse"),
        LARGE.claim(OURS, "A memory of 200,000 is better than 50,000.", "better"),
        SMALL.claim(OURS, "A memory of 5,000 is worse than 50,000.", "worse"),
    ),
    columns=tuple(map(greedy_mean, (SHORT, PAIRED, LONG))),
    figures=figures,
    requirements=learned(TWO_COINS, 1.70, DOUBLE_DQN),
    notes=(
        f"The default is {DOUBLE_DQN} with EVA: weight {PAPER_WEIGHT:g}, k = 5 neighbours in a decision, M = 10 "
        "trajectories of T = 50 transitions in a plan every 20 steps, a replay memory of 50,000 states. Its runs and "
        f"those of {DOUBLE_DQN} alone are those of `baselines`; they had been seen when this experiment was planned.",
        "The replay memory is also the learner's. Separate value buffers need several environments, so that choice is "
        "compared with two environments that share one value buffer.",
        "How fast each choice is: docs/performance.md.",
    ),
)
