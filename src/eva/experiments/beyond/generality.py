"""EVA outside the maze and Atari: three small environments of Gymnasium (P126, P127)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from eva.config import Config, EnvironmentConfig, ExplorationConfig, LearnerConfig, NetworkConfig, ReplayConfig
from eva.experiments.framework.common import (
    DQN,
    PAPER_WEIGHT,
    compare_arms,
    label,
    learning_tables,
    measure_arms,
    numbers,
    seeded,
)
from eva.experiments.framework.definition import OURS, Arm, Claim, Experiment, Finding, Judgement
from eva.experiments.framework.evidence import Evidence
from eva.experiments.framework.judge import MARGIN, are_all_below, is_above
from eva.experiments.framework.words import gained, lesson, seeds
from eva.presets import preset
from eva.report.curves import Task
from eva.report.measures import Comparison, Estimate
from eva.report.plots import figure_files
from eva.report.verdict import number
from eva.runs.sweep.jobs import Job

SEEDS = (20, 21, 22, 23, 24)  # the settings were looked at with seeds 40 and 41
EVA = label(PAPER_WEIGHT)


@dataclass(frozen=True)
class Place:
    """An environment.

    Attributes:
        config: What all runs there have in common.
        random: The mean return of random play, rounded.
        solved: Gymnasium's threshold.
    """

    config: Config
    random: float
    solved: float

    @property
    def id(self) -> str:
        """Gymnasium's."""
        return self.config.environment.id

    @property
    def margin(self) -> float:
        """What counts as no difference: 5% of the way from random play to the threshold."""
        return MARGIN * (self.solved - self.random)


def _small(environment_id: str) -> Config:
    steps, base = 50_000, preset("cartpole")
    return replace(
        base,
        name=environment_id,
        steps=steps,
        environment=replace(base.environment, id=environment_id),
        replay=ReplayConfig(replay_capacity=steps, importance_anneal_transitions=steps),
        learner=LearnerConfig(
            batch_size=128,
            learning_rate=5e-4,
            learning_rate_end=1e-5,
            learning_rate_decay_updates=steps // base.environment.num_environments,
            target_period_updates=50,
            learning_starts_transitions=1_000,
            update_period_steps=1,
        ),
        exploration=ExplorationConfig(epsilon_end=0.05, epsilon_decay_transitions=10_000),
    )


_LANDER = Config(  # rl-baselines3-zoo's for DQN: hyperparams/dqn.yml at 019107e
    name="LunarLander-v3",
    steps=150_000,
    environment=EnvironmentConfig(id="LunarLander-v3"),
    network=NetworkConfig(hidden_sizes=(256,), embedding_size=256),
    replay=ReplayConfig(replay_capacity=150_000, importance_anneal_transitions=150_000),
    learner=LearnerConfig(
        batch_size=32,
        learning_rate=8.8e-4,
        error="huber",
        target_period_updates=10_000,
        learning_starts_transitions=1_000,
    ),
    exploration=ExplorationConfig(epsilon_end=0.1, epsilon_decay_transitions=30_000),
)
PLACES = (
    Place(_small("CartPole-v1"), random=20.0, solved=475.0),
    Place(_small("Acrobot-v1"), random=-500.0, solved=-100.0),
    Place(_LANDER, random=-170.0, solved=200.0),
)


def arms() -> tuple[Arm, ...]:
    """Return DQN and EVA in each environment."""
    return tuple(
        Arm(place.id, label(weight), tuple(_job(place, weight, seed) for seed in SEEDS))
        for place in PLACES
        for weight in (0.0, PAPER_WEIGHT)
    )


def judge(evidence: Evidence) -> Judgement:
    """Judge each environment by itself, and that EVA does no harm in any."""
    gains = {place: compare_arms(task)[EVA] for place, task in zip(PLACES, evidence.tasks, strict=True)}
    certainty = seeds(len(evidence.tasks[0].variants[0].runs))
    return Judgement(
        outcome=f"Mean return over training with EVA less DQN's: {_listed(gains)}. DQN's final returns: "
        f"{_ends(evidence.tasks)}.",
        findings=(
            *(_faster(gain, certainty) for gain in gains.values()),
            _harmless(gains, certainty),
        ),
        tables=learning_tables(evidence.tasks),
        figures={"curves": figure_files(evidence.tasks)},
        numbers=numbers(evidence.tasks),
        lessons=tuple(lesson(place.id, gain, place.margin) for place, gain in gains.items()),
    )


def _job(place: Place, weight: float, seed: int) -> Job:
    directory = Path("generality", place.id, f"weight-{weight:g}", f"seed-{seed}")
    return Job(directory, seeded(place.config, seed, weight))


def _faster(gain: Comparison, certainty: str) -> Finding:
    return Finding(
        is_above(gain.area_gain),
        f"the mean return over training with EVA less {DQN}'s is {gained(gain.area_gain)}",
        certainty,
    )


def _harmless(gains: dict[Place, Comparison], certainty: str) -> Finding:
    """Judge that no final return falls by the margin, each loss as a share of the way from random play to solved."""
    losses = {}
    for place, gain in gains.items():
        way, final = place.solved - place.random, gain.final_gain
        losses[place] = Estimate(-final.value / way, -final.high / way, -final.low / way)
    finals = ", ".join(f"{gained(gain.final_gain)} ({place.id})" for place, gain in gains.items())
    return Finding(
        are_all_below(list(losses.values()), MARGIN),
        f"the final return with EVA less {DQN}'s is {finals}",
        f"{certainty}; a loss of up to {', '.join(f'{number(place.margin)} ({place.id})' for place in gains)} counts "
        "as none",
    )


def _listed(gains: dict[Place, Comparison]) -> str:
    return ", ".join(f"{gained(gain.area_gain)} ({place.id})" for place, gain in gains.items())


def _ends(tasks: Sequence[Task]) -> str:
    ends = {place: measure_arms(task)[DQN].final.value for place, task in zip(PLACES, tasks, strict=True)}
    return ", ".join(f"{number(end)} ({place.id}, solved at {place.solved:g})" for place, end in ends.items())


_FASTER = "Of the mean return over training: holds if EVA is above DQN beyond doubt."
EXPERIMENT = Experiment(
    name="generality",
    title="EVA in CartPole-v1, Acrobot-v1 and LunarLander-v3",
    claims=(
        *(Claim(OURS, f"EVA learns {place.id} faster than DQN.", _FASTER) for place in PLACES),
        Claim(
            OURS,
            "EVA does no harm in any of the three.",
            "Of the final return: holds if in each environment it is beyond doubt not below DQN's by 5% of the way "
            "from random play to Gymnasium's threshold.",
        ),
    ),
    arms=arms,
    judge=judge,
    remarks=(
        "The learner's numbers are for weight 0. Those for CartPole-v1 and Acrobot-v1 are the preset's for "
        "CartPole-v1, made faster: more updates, a quicker decay of epsilon and of the learning rate. They were "
        "looked at with weight 0 and seeds 40 and 41 alone: final returns of 262 and 261, -110 and -100. With the "
        "same, LunarLander-v3 was not learned: -84, and -56 with a target period of 200 instead of 50 (seed 40). So "
        "its numbers are those that rl-baselines3-zoo found for DQN.",
        "With these it was not learned either, without EVA or with it: that EVA does no harm there says little.",
    ),
)
