"""Fig. 2, centre and right: EVA throughout training, with one and with two coins."""

from __future__ import annotations

from eva.experiments.framework.common import DQN, PAPER_WEIGHT, curves, label
from eva.experiments.framework.definition import OURS, Arm, Claim, Experiment
from eva.experiments.framework.measures import DATA_SHARE, FINAL_RETURN, MEAN_RETURN
from eva.experiments.paper.maze import ONE_COIN, OPEN_ROOM, TWO_COINS, weight_arms

EVA = label(PAPER_WEIGHT)
COLUMNS = (FINAL_RETURN, MEAN_RETURN, DATA_SHARE)
FIG = "Fig. 2 centre"


def one_coin_arms() -> tuple[Arm, ...]:
    """Return all weights in the paper's maze, and DQN and EVA in the open room (P14)."""
    return (
        *weight_arms(ONE_COIN, 1, 60_000, (0.0, 0.2, 0.4, 0.6, 0.8)),
        *weight_arms(OPEN_ROOM, 1, 60_000, (0.0, PAPER_WEIGHT), layout="open"),
    )


def two_coins_arms() -> tuple[Arm, ...]:
    """Return the paper's maze with two coins."""
    return tuple(weight_arms(TWO_COINS, 2, 150_000, (0.0, 0.2, 0.4, 0.8)))


ONE_COIN_EXPERIMENT = Experiment(
    name="maze-one-coin",
    title="EVA throughout training, one coin",
    question="Does EVA learn the maze with one coin from less data, and does a higher weight help more?",
    arms=one_coin_arms,
    claims=(
        Claim(FIG, "EVA learns faster than DQN.", MEAN_RETURN, EVA, DQN, "better", primary=True),
        Claim(FIG, "EVA needs less data than DQN to reach DQN's end.", DATA_SHARE, EVA, DQN, "better", 0),
        Claim(FIG, "EVA needs at most 60% of DQN's data (slightly more than half).", DATA_SHARE, EVA, 0.6, "better", 0),
        Claim(FIG, "A weight of 0.8 is better than 0.4.", MEAN_RETURN, label(0.8), EVA, "better"),
        Claim(OURS, "EVA learns faster in the open room.", MEAN_RETURN, EVA, DQN, "better", task=OPEN_ROOM),
    ),
    columns=COLUMNS,
    figures=curves,
)
TWO_COINS_EXPERIMENT = Experiment(
    name="maze-two-coins",
    title="EVA throughout training, two coins",
    question="Does EVA learn the maze with two coins from less data, and does the gain saturate at a weight of 0.4?",
    arms=two_coins_arms,
    claims=(
        Claim("Fig. 2 right", "EVA learns faster than DQN.", MEAN_RETURN, EVA, DQN, "better", primary=True),
        Claim("Fig. 2 right", "EVA needs less data than DQN to reach DQN's end.", DATA_SHARE, EVA, DQN, "better", 0),
        Claim("Fig. 2 right", "A weight of 0.4 is no worse than 0.8.", MEAN_RETURN, EVA, label(0.8), "no worse"),
    ),
    columns=COLUMNS,
    figures=curves,
)
