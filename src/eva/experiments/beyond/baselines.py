"""EVA beside stronger learners: Double DQN, and Double DQN with prioritised replay."""

from eva.experiments.framework.common import DOUBLE_DQN, DQN, LEARNERS, NO_CHANGES, PAPER_WEIGHT, PRIORITISED, Changes
from eva.experiments.framework.definition import OURS, Arm, Claim, Experiment
from eva.experiments.framework.measures import MEAN_RETURN, gain
from eva.experiments.paper.maze import TWO_COINS, maze_arm

FOLDERS = {DQN: "", DOUBLE_DQN: "-double", PRIORITISED: "-double-prioritised"}
DQN_EVA, DOUBLE_EVA, PRIORITISED_EVA = WITH_EVA = [f"{learner} + EVA" for learner in LEARNERS]
GAIN = gain("mean return over training gained by EVA", dict(zip(WITH_EVA, LEARNERS, strict=True)))


def learner_arm(label: str, learner: str, weight: float, changes: Changes = NO_CHANGES, suffix: str = "") -> Arm:
    """Return an arm with two coins; the runs of DQN are those of maze-two-coins."""
    return maze_arm(TWO_COINS, label, weight, {**LEARNERS[learner], **changes}, FOLDERS[learner] + suffix)


EXPERIMENT = Experiment(
    name="baselines",
    title="EVA beside Double DQN and prioritised replay, two coins",
    question="Does EVA help learners that are stronger than DQN?",
    arms=lambda: tuple(
        learner_arm(label, learner, weight)
        for learner, with_eva in zip(LEARNERS, WITH_EVA, strict=True)
        for label, weight in ((learner, 0.0), (with_eva, PAPER_WEIGHT))
    ),
    claims=(
        Claim("Fig. 7", "EVA boosts Double DQN.", MEAN_RETURN, DOUBLE_EVA, DOUBLE_DQN, "better", primary=True),
        Claim(
            "Fig. 7",
            "EVA boosts Double DQN with prioritised replay.",
            MEAN_RETURN,
            PRIORITISED_EVA,
            PRIORITISED,
            "better",
        ),
        Claim(OURS, "EVA adds as much to it as to DQN.", GAIN, PRIORITISED_EVA, DQN_EVA, "no worse"),
        Claim(OURS, "EVA does more for DQN than both do.", MEAN_RETURN, DQN_EVA, PRIORITISED, "better"),
    ),
    notes=("Prioritised replay uses the same learning rate; Schaul et al. lower it to a quarter (P76).",),
)
