"""Fig. 2 and consolidation, in the maze: single episodes, EVA throughout training, and the weight annealed to 0."""

from dataclasses import replace

from eva.config import EVALUATION_EPSILON
from eva.experiments.framework.arms import DQN, NO_CHANGES, PAPER_WEIGHT, WEIGHT, Changes, arm, evaluations, label
from eva.experiments.framework.definition import OURS, Arm, Claim, Experiment, Figures, Requirement, curves
from eva.experiments.framework.evidence import Evidence
from eva.experiments.framework.measures import (
    DATA_SHARE,
    FINAL_RETURN,
    GREEDY,
    GREEDY_FINAL,
    GREEDY_MEAN,
    MEAN_RETURN,
    RISE,
    SLIGHTLY_RANDOM_FINAL,
    evaluated,
)
from eva.experiments.framework.pictures import greedy_curves, level_of
from eva.experiments.paper.maze_tuning import settings
from eva.presets import preset
from eva.report.plots import Chart, LearningCurves, Line

ONE_COIN, TWO_COINS, FOUR_COINS, OPEN_ROOM = "one coin", "two coins", "four coins", "one coin, open room"
NEXT_BEST = {"second": "discount-0.9-target-200-updates-2", "third": "updates-2"}
"""Settings of tuning in the order of the final greedy return with two coins."""
NEXT_BEST_TASKS = {place: f"two coins, {place}-best settings" for place in NEXT_BEST}
PRESETS = {
    **{ONE_COIN: "maze-1-coin", TWO_COINS: "maze-2-coins", FOUR_COINS: "maze-4-coins", OPEN_ROOM: "maze-1-coin"},
    **dict.fromkeys(NEXT_BEST_TASKS.values(), "maze-2-coins"),
}
LEFT, CENTRE, RIGHT, SECTION = "Fig. 2 left", "Fig. 2 centre", "Fig. 2 right", "Section 5.2"
EVA = label(PAPER_WEIGHT)
COLUMNS = (GREEDY_MEAN, GREEDY_FINAL, SLIGHTLY_RANDOM_FINAL, DATA_SHARE, FINAL_RETURN, MEAN_RETURN)
SEEDS = tuple(range(4_000, 4_010))  # those of tuning are below
NUM_POINTS, NUM_STARTS = 20, 50  # evaluations during training, and episodes in each
EPSILONS = (GREEDY, EVALUATION_EPSILON)
SAME_NETWORKS = "DQN's networks, weight {:g}"  # at each evaluation
PAIRED_WEIGHTS = (0.2, PAPER_WEIGHT)
PAIRED_MEAN = evaluated("greedy return over training, same networks", GREEDY, paired=True)
MORE_UPDATES = "DQN, 5 updates for 4 transitions"
UPDATES: Changes = {"learner.update_period_steps": 4, "learner.updates_per_round": 5}
"""As many more updates as EVA's processor time buys: `python -m benchmarks.step_parts`, docs/performance.md."""


def maze_arm(
    task: str,
    label: str,
    weight: float,
    changes: Changes = NO_CHANGES,
    suffix: str = "",
    evaluated_weight: float | None = None,
) -> Arm:
    """Return an arm in the maze; `suffix` distinguishes the folder of changed runs.

    Unchanged runs with two coins are compared with exact values too, for maze-accuracy.
    """
    config, place = preset(PRESETS[task]), PRESETS[task]
    if task == OPEN_ROOM:
        changes, place = {**changes, "maze.layout": "open"}, f"{place}-open"
    weights = (0.0, *PAIRED_WEIGHTS) if weight == 0 else (0.0, weight)
    played = evaluations(config.steps // NUM_POINTS, NUM_STARTS, *weights, epsilons=EPSILONS)
    played = {**played, "evaluation.accuracy": task == TWO_COINS and not suffix}
    changes, place = {WEIGHT: weight, **played, **changes}, f"{place}/weight-{weight:g}{suffix}"
    return arm(task, label, place, config, changes, seeds=SEEDS, evaluated_weight=evaluated_weight)


def weight_arms(task: str, *weights: float) -> tuple[Arm, ...]:
    """Return DQN and EVA with several weights."""
    return tuple(maze_arm(task, label(weight), weight) for weight in weights)


def same_network_arms(task: str) -> tuple[Arm, ...]:
    """Return DQN's runs, whose networks and memories were also evaluated with EVA."""
    return tuple(maze_arm(task, SAME_NETWORKS.format(w), 0.0, evaluated_weight=w) for w in PAIRED_WEIGHTS)


def two_coins_arms() -> tuple[Arm, ...]:
    """Return DQN, EVA with several weights, and DQN with more updates."""
    return (
        *weight_arms(TWO_COINS, 0.0, 0.2, 0.4, 0.8),
        *same_network_arms(TWO_COINS),
        maze_arm(TWO_COINS, MORE_UPDATES, 0.0, UPDATES, "-more-updates"),
    )


def next_best_arms() -> tuple[Arm, ...]:
    """Return DQN and EVA with the settings that came second and third in tuning."""
    return tuple(
        maze_arm(NEXT_BEST_TASKS[place], label(weight), weight, settings(name), f"-{name}")
        for place, name in NEXT_BEST.items()
        for weight in (0.0, PAPER_WEIGHT)
    )


def learned(task: str, final_return: float, baseline: str = DQN) -> tuple[Requirement, ...]:
    """Require that the baseline alone ends at least there, and that its curve is flat."""
    return (
        Requirement(SLIGHTLY_RANDOM_FINAL, task, baseline, low=final_return),
        Requirement(RISE, task, baseline, low=-1.0, high=1.0),
    )


def figures(evidence: Evidence) -> Figures:
    """Draw the greedy return and the return of training episodes."""
    return {**greedy_curves(evidence), **curves(evidence)}


EVALUATED = (
    f"Greedy return: epsilon 0, the mean of {NUM_STARTS} episodes from fixed start states, after every "
    f"{100 // NUM_POINTS}% of training, with the weight of the arm. Final: the last 20% of training.",
    "This measure was chosen after prototypes on other seeds: long exploration hides what the values are worth.",
)
FASTER, LESS_DATA = "EVA learns faster than DQN.", "EVA needs less data than DQN to reach DQN's final return."
BOOST = "EVA improves networks that DQN trained, at every point of training on average."
MAZE_ONE_COIN = Experiment(
    name="maze-one-coin",
    title="EVA throughout training, one coin",
    question="Does EVA learn the maze with one coin from less data, and does a higher weight help more?",
    # The open room is another reading of the paper's maze (P14).
    arms=lambda: (
        *weight_arms(ONE_COIN, 0.0, 0.2, 0.4, 0.6, 0.8),
        *same_network_arms(ONE_COIN),
        *weight_arms(OPEN_ROOM, 0.0, PAPER_WEIGHT),
    ),
    claims=(
        Claim(CENTRE, FASTER, GREEDY_MEAN, EVA, DQN, "better", primary=True),
        Claim(CENTRE, LESS_DATA, DATA_SHARE, EVA, DQN, "better", 0),
        Claim(
            CENTRE, "EVA needs at most 60% of DQN's data (slightly more than half).", DATA_SHARE, EVA, 0.6, "better", 0
        ),
        Claim(CENTRE, "A weight of 0.8 is better than 0.4.", GREEDY_MEAN, label(0.8), EVA, "better"),
        Claim(OURS, BOOST, PAIRED_MEAN, SAME_NETWORKS.format(PAPER_WEIGHT), DQN, "better"),
        Claim(OURS, "EVA ends no lower than DQN.", GREEDY_FINAL, EVA, DQN, "no worse"),
        Claim(OURS, "EVA learns faster in the open room.", GREEDY_MEAN, EVA, DQN, "better", task=OPEN_ROOM),
    ),
    requirements=learned(ONE_COIN, 0.85),
    columns=COLUMNS,
    figures=figures,
    notes=EVALUATED,
)
MAZE_TWO_COINS = Experiment(
    name="maze-two-coins",
    title="EVA throughout training, two coins",
    question="Does EVA learn the maze with two coins from less data, and is a weight of 0.4 no worse than 0.8?",
    arms=two_coins_arms,
    claims=(
        Claim(RIGHT, FASTER, GREEDY_MEAN, EVA, DQN, "better", primary=True),
        Claim(RIGHT, LESS_DATA, DATA_SHARE, EVA, DQN, "better", 0),
        Claim(RIGHT, "A weight of 0.4 is no worse than 0.8.", GREEDY_MEAN, EVA, label(0.8), "no worse"),
        *(
            Claim(OURS, f"Weight {w:g}: {BOOST}", PAIRED_MEAN, SAME_NETWORKS.format(w), DQN, "better")
            for w in PAIRED_WEIGHTS
        ),
        Claim(OURS, "EVA ends no lower than DQN.", GREEDY_FINAL, EVA, DQN, "no worse"),
        Claim(OURS, "With epsilon 0.05 EVA ends no lower than DQN.", SLIGHTLY_RANDOM_FINAL, EVA, DQN, "no worse"),
        Claim(OURS, "EVA beats DQN with more updates instead.", GREEDY_MEAN, EVA, MORE_UPDATES, "better"),
    ),
    requirements=learned(TWO_COINS, 1.70),
    columns=COLUMNS,
    figures=figures,
    notes=(
        *EVALUATED,
        "EVA's planning takes as long as a quarter of an update for each transition, hence 5 updates for 4.",
    ),
)
OTHER_SETTINGS = Experiment(
    name="maze-other-settings",
    title="EVA with other settings of the learner, two coins",
    question="Does EVA also help DQN with the settings that came second and third in tuning?",
    arms=next_best_arms,
    claims=tuple(
        Claim(
            OURS,
            f"EVA learns faster with the {place}-best settings.",
            GREEDY_MEAN,
            EVA,
            DQN,
            "better",
            task=task,
            primary=place == "second",
        )
        for place, task in NEXT_BEST_TASKS.items()
    ),
    requirements=tuple(each for task in NEXT_BEST_TASKS.values() for each in learned(task, 1.70)),
    columns=COLUMNS,
    figures=figures,
    notes=(
        *EVALUATED,
        f"Settings in results/maze-tuning: {', '.join(f'{name} ({place}-best)' for place, name in NEXT_BEST.items())}.",
    ),
)

# Single episodes: networks trained without EVA play with each weight.
WEIGHTS = {weight: f"weight {weight:g}" for weight in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)}
ALONE, PAPERS = WEIGHTS[0.0], WEIGHTS[PAPER_WEIGHT]
NETWORK_POINTS = 10
RETURN = replace(evaluated("greedy return of single episodes", GREEDY, paired=True), unit="networks")
AT_THE_END = replace(evaluated("of the last 20% of training", GREEDY, late=True, paired=True), unit="networks")
SLIGHTLY_RANDOM = replace(evaluated("with epsilon 0.05", EVALUATION_EPSILON, paired=True), unit="networks")


def single_episode_arms() -> tuple[Arm, ...]:
    """Return one arm for each weight that the networks play with."""
    config = preset(PRESETS[FOUR_COINS])
    played = evaluations(config.steps // NETWORK_POINTS, NUM_STARTS, *WEIGHTS, epsilons=EPSILONS)
    trained = arm(FOUR_COINS, DQN, "maze-4-coins/weight-0", config, {WEIGHT: 0.0, **played}, seeds=SEEDS)
    return tuple(replace(trained, label=name, evaluated_weight=weight) for weight, name in WEIGHTS.items())


def single_episode_figures(evidence: Evidence) -> Figures:
    """Draw the return by weight, over training, and how the networks were trained."""
    weights, labels, task = tuple(WEIGHTS), WEIGHTS.values(), evidence.tasks[FOUR_COINS]
    lines = [
        Line.through(name, weights, [measure.estimate(evidence, FOUR_COINS, each) for each in labels])
        for name, measure in (("mean over training", RETURN), ("last 20% of training", AT_THE_END))
    ]
    chart = Chart("weight of Q_NP", "greedy return of a single episode", lines, level=level_of(task))
    training = replace(task, groups=(replace(task.groups[0], kind=DQN),))
    return {"weights": chart, **greedy_curves(evidence), "curves": LearningCurves([training])}


BOOSTS = "EVA immediately boosts the network's performance."
SATURATES = "The benefit saturates around 0.4: {:g} gains no more."
MAZE_SINGLE_EPISODE = Experiment(
    name="maze-single-episode",
    title="Single episodes with and without EVA, four coins",
    question="Does EVA improve single episodes of a network that was trained without it, and which weight is best?",
    arms=single_episode_arms,
    claims=(
        Claim(LEFT, BOOSTS, RETURN, PAPERS, ALONE, "better", primary=True),
        Claim(LEFT, SATURATES.format(0.6), RETURN, PAPERS, WEIGHTS[0.6], "no worse"),
        Claim(LEFT, SATURATES.format(0.8), RETURN, PAPERS, WEIGHTS[0.8], "no worse"),
        Claim(LEFT, "Planned values alone (weight 1) do not generalise.", RETURN, WEIGHTS[1], PAPERS, "worse"),
        Claim(OURS, f"With epsilon 0.05: {BOOSTS}", SLIGHTLY_RANDOM, PAPERS, ALONE, "better"),
    ),
    requirements=learned(FOUR_COINS, 3.5, ALONE),
    columns=(RETURN, AT_THE_END, SLIGHTLY_RANDOM),
    figures=single_episode_figures,
    notes=(
        f"{NUM_STARTS} episodes from the same start states for each network and weight, after every "
        f"{100 // NETWORK_POINTS}% of training.",
    ),
)

# Consolidation: what the network can do alone after the weight has been annealed to 0 (P29).
ANNEAL_STEPS = 100_000
ANNEAL_START, ANNEAL_LENGTH = 60_000, 20_000
ANNEALING = {"eva.anneal_start_transitions": ANNEAL_START, "eva.anneal_transitions": ANNEAL_LENGTH}
ANNEALED, KEPT = "annealed, network alone", f"kept at {PAPER_WEIGHT:g}"
# Runs of one seed are the same until annealing begins.
AFTER, FINAL = replace(GREEDY_FINAL, paired=True), replace(FINAL_RETURN, paired=True)


def _annealing_arm(label: str, folder: str, evaluated_weight: float, changes: Changes = NO_CHANGES) -> Arm:
    played = evaluations(ANNEAL_STEPS // NUM_POINTS, NUM_STARTS, 0.0, PAPER_WEIGHT, epsilons=EPSILONS)
    changes = {"steps": ANNEAL_STEPS, WEIGHT: PAPER_WEIGHT, **played, **changes}
    config, place = preset("maze-1-coin"), f"consolidation/{folder}"
    return arm(ONE_COIN, label, place, config, changes, seeds=SEEDS, evaluated_weight=evaluated_weight)


CONSOLIDATION = Experiment(
    name="consolidation",
    title="The weight annealed to 0, one coin",
    question="Can the weight be annealed to 0 late in training without a loss?",
    arms=lambda: (
        _annealing_arm(ANNEALED, "annealed", 0.0, ANNEALING),
        _annealing_arm(KEPT, "kept", PAPER_WEIGHT),
    ),
    claims=(
        Claim(SECTION, "The network alone ends no worse than EVA.", AFTER, ANNEALED, KEPT, "no worse", primary=True),
        Claim(SECTION, "Annealing costs nothing during training.", FINAL, ANNEALED, KEPT, "no worse"),
    ),
    columns=(AFTER, SLIGHTLY_RANDOM_FINAL, FINAL),
    figures=figures,
    notes=(
        "The paper reports this on Atari; this is the maze.",
        f"Annealed from {ANNEAL_START:,} to {ANNEAL_START + ANNEAL_LENGTH:,} transitions. Evaluated with weight 0 "
        "(annealed) and 0.4 (kept). Final: the last 20% of training, when the annealed weight is 0.",
    ),
)
