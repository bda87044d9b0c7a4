"""Fig. 2, centre and right: EVA throughout training, with one and with two coins; and arms of other experiments."""

from __future__ import annotations

from eva.experiments.framework.common import DQN, NO_CHANGES, PAPER_WEIGHT, WEIGHT, Changes, arm, label
from eva.experiments.framework.definition import OURS, Arm, Claim, Experiment
from eva.experiments.framework.measures import DATA_SHARE, FINAL_RETURN, MEAN_RETURN
from eva.presets import preset

ONE_COIN, TWO_COINS, FOUR_COINS, OPEN_ROOM = "one coin", "two coins", "four coins", "one coin, open room"
PRESETS = {ONE_COIN: "maze-1-coin", TWO_COINS: "maze-2-coins", FOUR_COINS: "maze-4-coins", OPEN_ROOM: "maze-1-coin"}
EVA = label(PAPER_WEIGHT)
COLUMNS = (FINAL_RETURN, MEAN_RETURN, DATA_SHARE)
CENTRE, RIGHT = "Fig. 2 centre", "Fig. 2 right"


def maze_arm(task: str, label: str, weight: float, changes: Changes = NO_CHANGES, suffix: str = "") -> Arm:
    """Return an arm in the maze; `suffix` distinguishes the folder of changed runs."""
    config, place = preset(PRESETS[task]), PRESETS[task]
    if task == OPEN_ROOM:
        changes, place = {**changes, "maze.layout": "open"}, f"{place}-open"
    return arm(task, label, f"{place}/weight-{weight:g}{suffix}", config, {WEIGHT: weight, **changes})


def weight_arms(task: str, *weights: float) -> tuple[Arm, ...]:
    """Return DQN and EVA with several weights."""
    return tuple(maze_arm(task, label(weight), weight) for weight in weights)


MAZE_ONE_COIN = Experiment(
    name="maze-one-coin",
    title="EVA throughout training, one coin",
    question="Does EVA learn the maze with one coin from less data, and does a higher weight help more?",
    # The open room is another reading of the paper's maze (P14).
    arms=lambda: weight_arms(ONE_COIN, 0.0, 0.2, 0.4, 0.6, 0.8) + weight_arms(OPEN_ROOM, 0.0, PAPER_WEIGHT),
    claims=(
        Claim(CENTRE, "EVA learns faster than DQN.", MEAN_RETURN, EVA, DQN, "better", primary=True),
        Claim(CENTRE, "EVA needs less data than DQN to reach DQN's end.", DATA_SHARE, EVA, DQN, "better", 0),
        Claim(
            CENTRE, "EVA needs at most 60% of DQN's data (slightly more than half).", DATA_SHARE, EVA, 0.6, "better", 0
        ),
        Claim(CENTRE, "A weight of 0.8 is better than 0.4.", MEAN_RETURN, label(0.8), EVA, "better"),
        Claim(OURS, "EVA learns faster in the open room.", MEAN_RETURN, EVA, DQN, "better", task=OPEN_ROOM),
    ),
    columns=COLUMNS,
)
MAZE_TWO_COINS = Experiment(
    name="maze-two-coins",
    title="EVA throughout training, two coins",
    question="Does EVA learn the maze with two coins from less data, and does the gain saturate at a weight of 0.4?",
    arms=lambda: weight_arms(TWO_COINS, 0.0, 0.2, 0.4, 0.8),
    claims=(
        Claim(RIGHT, "EVA learns faster than DQN.", MEAN_RETURN, EVA, DQN, "better", primary=True),
        Claim(RIGHT, "EVA needs less data than DQN to reach DQN's end.", DATA_SHARE, EVA, DQN, "better", 0),
        Claim(RIGHT, "A weight of 0.4 is no worse than 0.8.", MEAN_RETURN, EVA, label(0.8), "no worse"),
    ),
    columns=COLUMNS,
)
