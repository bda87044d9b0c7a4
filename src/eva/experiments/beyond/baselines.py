"""EVA beside other learners: Double DQN, Double DQN with prioritised replay, and Stable-Baselines3's DQN (P115)."""

from eva.experiments.framework.arms import (
    DOUBLE_DQN,
    DQN,
    LEARNERS,
    NO_CHANGES,
    PAPER_WEIGHT,
    PRIORITISED,
    WEIGHT,
    Changes,
    arm,
)
from eva.experiments.framework.definition import OURS, Arm, Claim, Experiment
from eva.experiments.framework.measures import FINAL_RETURN, GREEDY_MEAN, MEAN_RETURN, gain
from eva.experiments.paper.maze import COLUMNS, ONE_COIN, SEEDS, TWO_COINS, figures, learned, maze_arm
from eva.presets import preset

FOLDERS = {DQN: "", DOUBLE_DQN: "-double", PRIORITISED: "-double-prioritised"}
DQN_EVA, DOUBLE_EVA, BOTH_EVA = WITH_EVA = [f"{learner} + EVA" for learner in LEARNERS]
GAIN = gain("greedy return over training gained by EVA", dict(zip(WITH_EVA, LEARNERS, strict=True)))


def learner_arm(label: str, learner: str, weight: float, changes: Changes = NO_CHANGES, suffix: str = "") -> Arm:
    """Return an arm with two coins; the runs of DQN are those of maze-two-coins."""
    return maze_arm(TWO_COINS, label, weight, {**LEARNERS[learner], **changes}, FOLDERS[learner] + suffix)


STRONGER_LEARNERS = Experiment(
    name="baselines",
    title="EVA beside Double DQN and prioritised replay, two coins",
    question="Does EVA help learners that are stronger than DQN?",
    arms=lambda: tuple(
        learner_arm(label, learner, weight)
        for learner, with_eva in zip(LEARNERS, WITH_EVA, strict=True)
        for label, weight in ((learner, 0.0), (with_eva, PAPER_WEIGHT))
    ),
    claims=(
        Claim("Fig. 7", "EVA boosts Double DQN.", GREEDY_MEAN, DOUBLE_EVA, DOUBLE_DQN, "better", primary=True),
        Claim("Fig. 7", "EVA boosts Double DQN with prioritised replay.", GREEDY_MEAN, BOTH_EVA, PRIORITISED, "better"),
        Claim(OURS, "EVA adds as much to prioritised Double DQN as to DQN.", GAIN, BOTH_EVA, DQN_EVA, "no worse"),
        Claim(
            OURS,
            "EVA adds more to DQN than those two do.",
            GREEDY_MEAN,
            DQN_EVA,
            PRIORITISED,
            "better",
        ),
    ),
    requirements=learned(TWO_COINS, 1.70),
    columns=COLUMNS,
    figures=figures,
    notes=("Prioritised replay uses the same learning rate; Schaul et al. lower it to a quarter (P76).",),
)

SB3_DQN, EVADQN = "SB3 DQN", f"EVADQN, weight {PAPER_WEIGHT:g}"
TRAINER = "eva.integrations.sb3_runs"
"""By name, so that experiments can be listed where Stable-Baselines3 is not installed."""


def _sb3_arm(label: str, weight: float) -> Arm:
    """Return an arm with the hyper-parameters of the preset, but the error that SB3 fixes."""
    changes = {WEIGHT: weight, "name": "sb3-maze-1-coin", "learner.error": "huber"}
    folder = f"sb3-maze-1-coin/weight-{weight:g}"
    return arm(ONE_COIN, label, folder, preset("maze-1-coin"), changes, seeds=SEEDS, trainer=TRAINER)


SB3_MAZE = Experiment(
    name="sb3-maze",
    title="Stable-Baselines3's DQN with and without EVA, one coin",
    question="Does EVA help an agent that is not ours?",
    arms=lambda: (_sb3_arm(SB3_DQN, 0.0), _sb3_arm(EVADQN, PAPER_WEIGHT)),
    claims=(
        Claim(OURS, "EVADQN learns faster than SB3's DQN.", MEAN_RETURN, EVADQN, SB3_DQN, "better", primary=True),
        Claim(OURS, "EVADQN's final return is no worse than SB3's DQN's.", FINAL_RETURN, EVADQN, SB3_DQN, "no worse"),
    ),
    notes=(
        "Both use the hyper-parameters of the preset `maze-1-coin`, tuned with our learner. SB3 fixes Huber's error, "
        "gradients clipped to a norm of 10, and random actions until learning starts.",
    ),
)
