"""EVA beside stronger learners: Double DQN, and Double DQN with prioritised replay."""

from __future__ import annotations

from eva.experiments.framework.common import DOUBLE_DQN, DQN, LEARNERS, NO_CHANGES, PAPER_WEIGHT, PRIORITISED, Changes
from eva.experiments.framework.definition import OURS, Arm, Claim, Experiment
from eva.experiments.framework.measures import MEAN_RETURN, gain
from eva.experiments.paper.maze import TWO_COINS, maze_arm

FOLDERS = {DQN: "", DOUBLE_DQN: "-double", PRIORITISED: "-double-prioritised"}
WITH_EVA = {learner: f"{learner} + EVA" for learner in LEARNERS}
GAIN = gain("mean return over training gained by EVA", {label: learner for learner, label in WITH_EVA.items()})


def learner_arm(label: str, learner: str, weight: float, changes: Changes = NO_CHANGES, suffix: str = "") -> Arm:
    """Return an arm with two coins; the runs of DQN are those of maze-two-coins."""
    return maze_arm(TWO_COINS, label, weight, {**LEARNERS[learner], **changes}, FOLDERS[learner] + suffix)


EXPERIMENT = Experiment(
    name="baselines",
    title="EVA beside Double DQN and prioritised replay, two coins",
    question="Does EVA help learners that are stronger than DQN?",
    arms=lambda: tuple(
        learner_arm(label, learner, weight)
        for learner in LEARNERS
        for label, weight in ((learner, 0.0), (WITH_EVA[learner], PAPER_WEIGHT))
    ),
    claims=(
        Claim(
            "Fig. 7", "EVA boosts Double DQN.", MEAN_RETURN, WITH_EVA[DOUBLE_DQN], DOUBLE_DQN, "better", primary=True
        ),
        Claim(
            "Fig. 7",
            "EVA boosts Double DQN with prioritised replay.",
            MEAN_RETURN,
            WITH_EVA[PRIORITISED],
            PRIORITISED,
            "better",
        ),
        Claim(OURS, "EVA adds as much to it as to DQN.", GAIN, WITH_EVA[PRIORITISED], WITH_EVA[DQN], "no worse"),
        Claim(OURS, "EVA does more for DQN than both do.", MEAN_RETURN, WITH_EVA[DQN], PRIORITISED, "better"),
    ),
    notes=("Prioritised replay uses the same learning rate; Schaul et al. lower it to a quarter (P76).",),
)
