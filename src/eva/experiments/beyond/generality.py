"""EVA in three small environments of Gymnasium (P126, P127)."""

from eva.config import Config, EnvironmentConfig, ExplorationConfig, LearnerConfig, NetworkConfig, ReplayConfig
from eva.experiments.framework.common import DQN, PAPER_WEIGHT, WEIGHT, arm, changed, label
from eva.experiments.framework.definition import OURS, Arm, Claim, Experiment
from eva.experiments.framework.measures import FINAL_RETURN, MEAN_RETURN
from eva.presets import preset
from eva.report.statistics import MARGIN_SHARE

SEEDS = (20, 21, 22, 23, 24)  # the settings were tried with seeds 40 and 41
EVA = label(PAPER_WEIGHT)
SMALL_STEPS = 50_000
SMALL = changed(
    preset("cartpole"),
    {
        "steps": SMALL_STEPS,
        "replay.replay_capacity": SMALL_STEPS,
        "replay.importance_anneal_transitions": SMALL_STEPS,
        "learner.learning_rate_decay_updates": SMALL_STEPS // preset("cartpole").environment.num_environments,
        "learner.learning_starts_transitions": 1_000,
        "learner.update_period_steps": 1,
        "exploration.epsilon_end": 0.05,
        "exploration.epsilon_decay_transitions": 10_000,
    },
)
LANDER = Config(  # rl-baselines3-zoo's for DQN: hyperparams/dqn.yml at 019107e
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
CONFIGS = {"CartPole-v1": SMALL, "Acrobot-v1": SMALL, "LunarLander-v3": LANDER}
RANGES = {"CartPole-v1": (20.0, 475.0), "Acrobot-v1": (-500.0, -100.0), "LunarLander-v3": (-170.0, 200.0)}
"""The mean return of random play, and Gymnasium's threshold."""
MARGINS = {place: MARGIN_SHARE * (solved - random) for place, (random, solved) in RANGES.items()}


def _arm(place: str, weight: float) -> Arm:
    changes = {WEIGHT: weight, "name": place, "environment.id": place}
    return arm(place, label(weight), f"generality/{place}/weight-{weight:g}", CONFIGS[place], changes, seeds=SEEDS)


EXPERIMENT = Experiment(
    name="generality",
    title="EVA in CartPole-v1, Acrobot-v1 and LunarLander-v3",
    question="Does EVA help outside the maze and Atari, and does it do harm anywhere?",
    arms=lambda: tuple(_arm(place, weight) for place in CONFIGS for weight in (0.0, PAPER_WEIGHT)),
    claims=(
        *(
            Claim(OURS, f"EVA learns {place} faster.", MEAN_RETURN, EVA, DQN, "better", margin, place)
            for place, margin in MARGINS.items()
        ),
        *(
            Claim(OURS, f"EVA ends no lower in {place}.", FINAL_RETURN, EVA, DQN, "no worse", margin, place)
            for place, margin in MARGINS.items()
        ),
    ),
    notes=(
        "Hyper-parameters were chosen at weight 0. CartPole-v1 and Acrobot-v1: the preset `cartpole` with more updates "
        "and faster decays, tried on seeds 40 and 41 (final returns 262 and 261, -110 and -100). LunarLander-v3: those "
        "of rl-baselines3-zoo.",
        "Margin: 5% of (Gymnasium's threshold - random play).",
    ),
)
