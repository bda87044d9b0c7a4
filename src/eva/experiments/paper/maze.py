"""Fig. 2 and consolidation, in the maze: single episodes, EVA throughout training, and the weight annealed to 0."""

from dataclasses import replace

from eva.experiments.framework.arms import DQN, NO_CHANGES, PAPER_WEIGHT, WEIGHT, Changes, arm, evaluations, label
from eva.experiments.framework.definition import OURS, Arm, Claim, Experiment, Figures
from eva.experiments.framework.evidence import Evidence
from eva.experiments.framework.measures import DATA_SHARE, FINAL_RETURN, MEAN_RETURN, single_episodes
from eva.presets import preset
from eva.report.format import number
from eva.report.plots import Chart, LearningCurves, Line

ONE_COIN, TWO_COINS, FOUR_COINS, OPEN_ROOM = "one coin", "two coins", "four coins", "one coin, open room"
PRESETS = {ONE_COIN: "maze-1-coin", TWO_COINS: "maze-2-coins", FOUR_COINS: "maze-4-coins", OPEN_ROOM: "maze-1-coin"}
LEFT, CENTRE, RIGHT, SECTION = "Fig. 2 left", "Fig. 2 centre", "Fig. 2 right", "Section 5.2"
EVA = label(PAPER_WEIGHT)
COLUMNS = (FINAL_RETURN, MEAN_RETURN, DATA_SHARE)
NUM_EPISODES = 200  # single episodes for each network and weight (P28)


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
        Claim(CENTRE, "EVA needs less data than DQN to reach DQN's final return.", DATA_SHARE, EVA, DQN, "better", 0),
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
    question="Does EVA learn the maze with two coins from less data, and is a weight of 0.4 no worse than 0.8?",
    arms=lambda: weight_arms(TWO_COINS, 0.0, 0.2, 0.4, 0.8),
    claims=(
        Claim(RIGHT, "EVA learns faster than DQN.", MEAN_RETURN, EVA, DQN, "better", primary=True),
        Claim(RIGHT, "EVA needs less data than DQN to reach DQN's final return.", DATA_SHARE, EVA, DQN, "better", 0),
        Claim(RIGHT, "A weight of 0.4 is no worse than 0.8.", MEAN_RETURN, EVA, label(0.8), "no worse"),
    ),
    columns=COLUMNS,
)

# Single episodes: the same networks, trained without EVA, play with each weight.
WEIGHTS = {weight: f"weight {weight:g}" for weight in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)}
ALONE, PAPERS = WEIGHTS[0.0], WEIGHTS[PAPER_WEIGHT]
RETURN = single_episodes("return of single episodes", 0)


def single_episode_arms() -> tuple[Arm, ...]:
    """Return one arm for each weight that the networks play with."""
    config = preset(PRESETS[FOUR_COINS])
    changes = {WEIGHT: 0.0, **evaluations(config.steps, NUM_EPISODES, *WEIGHTS)}
    trained = arm(FOUR_COINS, DQN, "maze-4-coins/weight-0", config, changes, seeds=(0, 1, 2))
    return tuple(replace(trained, label=name, evaluated_weight=weight) for weight, name in WEIGHTS.items())


def single_episode_figures(evidence: Evidence) -> Figures:
    """Draw the return by weight, and how the networks were trained."""
    weights, labels, task = tuple(WEIGHTS), WEIGHTS.values(), evidence.tasks[FOUR_COINS]
    networks = zip(*(RETURN.values(evidence, FOUR_COINS, each) for each in labels), strict=True)
    lines = [Line(f"network {i}", weights, values) for i, values in enumerate(networks)]
    lines.append(Line.through("mean", weights, [RETURN.estimate(evidence, FOUR_COINS, each) for each in labels]))
    level = None if task.optimum is None else (f"optimum {number(task.optimum)}", task.optimum)
    training = replace(task, groups=(replace(task.groups[0], kind=DQN),))
    chart = Chart("weight of Q_NP", "return of a single episode", lines, level=level)
    return {"weights": chart, "curves": LearningCurves([training])}


MAZE_SINGLE_EPISODE = Experiment(
    name="maze-single-episode",
    title="Single episodes with and without EVA, four coins",
    question="Does EVA improve single episodes of a network that was trained without it, and which weight is best?",
    arms=single_episode_arms,
    claims=(
        Claim(LEFT, "EVA immediately boosts the network's performance.", RETURN, PAPERS, ALONE, "better", primary=True),
        Claim(LEFT, "The benefit saturates around 0.4: 0.6 gains no more.", RETURN, PAPERS, WEIGHTS[0.6], "no worse"),
        Claim(LEFT, "The benefit saturates around 0.4: 0.8 gains no more.", RETURN, PAPERS, WEIGHTS[0.8], "no worse"),
        Claim(LEFT, "Planned values alone (weight 1) do not generalise.", RETURN, WEIGHTS[1], PAPERS, "worse"),
    ),
    columns=(RETURN,),
    figures=single_episode_figures,
    notes=(f"{NUM_EPISODES} episodes for each network and weight, from the same start states, epsilon 0.05.",),
)

# Consolidation: what the network can do alone after the weight has been annealed to 0 (P29).
ANNEAL_STEPS = 100_000
ANNEAL_START, ANNEAL_LENGTH = 60_000, 20_000
ANNEALING = {"eva.anneal_start_transitions": ANNEAL_START, "eva.anneal_transitions": ANNEAL_LENGTH}
ANNEALED, KEPT = "annealed, network alone", f"kept at {PAPER_WEIGHT:g}"
BEFORE = single_episodes("single episodes before annealing", (ANNEAL_STEPS - ANNEAL_START) // ANNEAL_LENGTH)
AFTER = single_episodes("single episodes at the end", 0)
FINAL = replace(FINAL_RETURN, paired=True)  # runs of one seed are the same until annealing begins


def _annealing_arm(label: str, folder: str, evaluated_weight: float, changes: Changes = NO_CHANGES) -> Arm:
    evaluated = evaluations(ANNEAL_LENGTH, NUM_EPISODES, 0.0, PAPER_WEIGHT)
    changes = {"steps": ANNEAL_STEPS, WEIGHT: PAPER_WEIGHT, **evaluated, **changes}
    config, place = preset("maze-1-coin"), f"consolidation/{folder}"
    return arm(ONE_COIN, label, place, config, changes, evaluated_weight=evaluated_weight)


CONSOLIDATION = Experiment(
    name="consolidation",
    title="The weight annealed to 0, one coin",
    question="Can the weight be annealed to 0 late in training without a loss?",
    arms=lambda: (
        _annealing_arm(ANNEALED, "annealed", 0.0, ANNEALING),
        _annealing_arm(KEPT, "kept", PAPER_WEIGHT),
    ),
    claims=(
        Claim(SECTION, "Annealing costs nothing during training.", FINAL, ANNEALED, KEPT, "no worse", primary=True),
        Claim(SECTION, "The network alone ends no worse than EVA.", AFTER, ANNEALED, KEPT, "no worse"),
    ),
    columns=(FINAL, BEFORE, AFTER),
    notes=(
        "The paper reports this on Atari; this is the maze.",
        f"Annealed from {ANNEAL_START:,} to {ANNEAL_START + ANNEAL_LENGTH:,} transitions. Single episodes are played "
        "with weight 0 (annealed) and 0.4 (kept).",
    ),
)
