"""What is changed of the default, one thing at a time (P121 to P123)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from eva.config import EVAConfig, ReplayConfig
from eva.experiments.beyond.baselines import STEPS as LENGTH
from eva.experiments.beyond.baselines import learner_job
from eva.experiments.framework.common import DOUBLE_DQN, PAPER_WEIGHT, changed
from eva.experiments.framework.definition import Arm
from eva.experiments.paper.maze import SEEDS
from eva.runs.sweep.jobs import Job

LONG, SHORT, PAIRED = "150,000 transitions", "80,000 transitions", "two environments, 100,000 transitions"
STEPS = {LONG: LENGTH, SHORT: 80_000, PAIRED: 100_000}
DEFAULT, SHARED = "default", "two environments, one value buffer"


@dataclass(frozen=True)
class Choice:
    """One change from the default.

    Attributes:
        label: In tables and figures.
        folder: Of its runs.
        task: What it is compared in.
        eva: How to plan; the default's but for the change.
        replay_capacity: Of the memory.
        num_environments: Two where one buffer for each is the change.
    """

    label: str
    folder: str
    task: str = SHORT
    eva: EVAConfig = field(default_factory=EVAConfig)
    replay_capacity: int = ReplayConfig().replay_capacity
    num_environments: int = 1

    @property
    def reference(self) -> str:
        """What it is compared with."""
        return SHARED if self.task == PAIRED else DEFAULT


SMALL = Choice("memory of 5,000", "memory-5000", LONG, replay_capacity=5_000)
LARGE = Choice("memory of 200,000", "memory-200000", LONG, replay_capacity=200_000)
FEW = Choice("k = 1", "k-1", eva=EVAConfig(num_neighbours=1))
MANY = Choice("k = 20", "k-20", eva=EVAConfig(num_neighbours=20))
OFTEN = Choice("plan every step", "period-1", eva=EVAConfig(plan_period_steps=1))
SELDOM = Choice("plan every 100 steps", "period-100", eva=EVAConfig(plan_period_steps=100))
RECOMPUTED = Choice("values recomputed (P6)", "recomputed", eva=EVAConfig(remembered_values="recomputed"))
TOGETHER = Choice(SHARED, "two-environments", PAIRED, num_environments=2)
NUMBERS = (
    SMALL,
    LARGE,
    FEW,
    MANY,
    Choice("M = 1", "m-1", eva=EVAConfig(num_trajectories=1)),
    # 2,000 entries would not hold one round of plans, and the farthest trajectories would push out the nearest (P123).
    Choice("M = 50", "m-50", eva=EVAConfig(num_trajectories=50, value_buffer_capacity=10_000)),
    Choice("T = 5", "t-5", eva=EVAConfig(trajectory_length=5)),
    OFTEN,
    SELDOM,
)
READINGS = (
    Choice("only first states enter (P2)", "start", eva=EVAConfig(value_buffer_entries="start")),
    RECOMPUTED,
    Choice(
        "a value buffer each (P8)",
        "two-environments-apart",
        PAIRED,
        EVAConfig(value_buffers="per-environment"),
        num_environments=2,
    ),
    Choice("plan at episode starts too (P23)", "episode-starts", eva=EVAConfig(plan_at_episode_start=True)),
)
CHOICES = (*NUMBERS, *READINGS)


def arms() -> tuple[Arm, ...]:
    """Return the default, Double DQN and every choice; the first two are runs of `baselines`."""
    return (
        Arm(LONG, DEFAULT, tuple(learner_job(seed, PAPER_WEIGHT, DOUBLE_DQN) for seed in SEEDS)),
        Arm(LONG, DOUBLE_DQN, tuple(learner_job(seed, 0.0, DOUBLE_DQN) for seed in SEEDS)),
        *(_arm(choice) for choice in (*CHOICES, TOGETHER)),
    )


def _arm(choice: Choice) -> Arm:
    return Arm(choice.task, choice.label, tuple(_job(choice, seed) for seed in SEEDS))


def _job(choice: Choice, seed: int) -> Job:
    job = learner_job(seed, PAPER_WEIGHT, DOUBLE_DQN)
    config = replace(
        job.config,
        steps=STEPS[choice.task],
        environment=replace(job.config.environment, num_environments=choice.num_environments),
        replay=replace(job.config.replay, replay_capacity=choice.replay_capacity),
        eva=replace(choice.eva, nonparametric_weight=PAPER_WEIGHT),
    )
    return changed(job, f"{job.directory.parts[1]}-{choice.folder}", config)
