"""Stable-Baselines3's DQN and EVADQN in the maze (P115)."""

from eva.experiments.framework.common import PAPER_WEIGHT, WEIGHT, arm
from eva.experiments.framework.definition import OURS, Arm, Claim, Experiment
from eva.experiments.framework.measures import FINAL_RETURN, MEAN_RETURN
from eva.experiments.paper.maze import ONE_COIN
from eva.presets import preset

SB3_DQN, EVADQN = "SB3 DQN", f"EVADQN, weight {PAPER_WEIGHT:g}"
TRAINER = "eva.integrations.sb3_runs"
"""By name, so that experiments can be listed where Stable-Baselines3 is not installed."""


def _arm(label: str, weight: float) -> Arm:
    """Return an arm with the hyper-parameters of the preset, but the error that SB3 fixes."""
    changes = {WEIGHT: weight, "name": "sb3-maze-1-coin", "learner.error": "huber"}
    folder = f"sb3-maze-1-coin/weight-{weight:g}"
    return arm(ONE_COIN, label, folder, preset("maze-1-coin"), changes, trainer=TRAINER)


EXPERIMENT = Experiment(
    name="sb3-maze",
    title="Stable-Baselines3's DQN with and without EVA, one coin",
    question="Does EVA help an agent that is not ours?",
    arms=lambda: (_arm(SB3_DQN, 0.0), _arm(EVADQN, PAPER_WEIGHT)),
    claims=(
        Claim(OURS, "EVADQN learns faster than SB3's DQN.", MEAN_RETURN, EVADQN, SB3_DQN, "better", primary=True),
        Claim(OURS, "EVADQN ends no lower than SB3's DQN.", FINAL_RETURN, EVADQN, SB3_DQN, "no worse"),
    ),
    notes=(
        "Both use the hyper-parameters of the preset `maze-1-coin`, tuned with our learner. SB3 fixes Huber's error, "
        "gradients clipped to a norm of 10, and random actions until learning starts.",
    ),
)
