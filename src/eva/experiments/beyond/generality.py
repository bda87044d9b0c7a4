"""EVA in three small environments of Gymnasium (P126, P127)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from eva.config import Config, EnvironmentConfig, ExplorationConfig, LearnerConfig, NetworkConfig, ReplayConfig
from eva.experiments.framework.common import DQN, PAPER_WEIGHT, curves, label, seeded
from eva.experiments.framework.definition import OURS, Arm, Claim, Experiment
from eva.experiments.framework.measures import FINAL_RETURN, MEAN_RETURN
from eva.presets import preset
from eva.report.statistics import MARGIN_SHARE
from eva.runs.sweep.jobs import Job

SEEDS = (20, 21, 22, 23, 24)  # the settings were tried with seeds 40 and 41
EVA = label(PAPER_WEIGHT)


@dataclass(frozen=True)
class Place:
    """An environment: the configuration of all its runs, the mean return of random play, and Gymnasium's threshold."""

    config: Config
    random: float
    solved: float

    @property
    def id(self) -> str:
        """Gymnasium's."""
        return self.config.environment.id

    @property
    def margin(self) -> float:
        """5% of (threshold - random play)."""
        return MARGIN_SHARE * (self.solved - self.random)


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


def _job(place: Place, weight: float, seed: int) -> Job:
    directory = Path("generality", place.id, f"weight-{weight:g}", f"seed-{seed}")
    return Job(directory, seeded(place.config, seed, weight))


EXPERIMENT = Experiment(
    name="generality",
    title="EVA in CartPole-v1, Acrobot-v1 and LunarLander-v3",
    question="Does EVA help outside the maze and Atari, and does it do harm anywhere?",
    arms=arms,
    claims=(
        *(
            Claim(OURS, f"EVA learns {place.id} faster.", MEAN_RETURN, EVA, DQN, "better", place.margin, place.id)
            for place in PLACES
        ),
        *(
            Claim(OURS, f"EVA ends no lower in {place.id}.", FINAL_RETURN, EVA, DQN, "no worse", place.margin, place.id)
            for place in PLACES
        ),
    ),
    columns=(FINAL_RETURN, MEAN_RETURN),
    figures=curves,
    notes=(
        "Hyper-parameters were chosen at weight 0. CartPole-v1 and Acrobot-v1: the preset `cartpole` with more updates "
        "and faster decays, tried on seeds 40 and 41 (final returns 262 and 261, -110 and -100). LunarLander-v3: those "
        "of rl-baselines3-zoo.",
        "Margin: 5% of (Gymnasium's threshold - random play).",
    ),
)
