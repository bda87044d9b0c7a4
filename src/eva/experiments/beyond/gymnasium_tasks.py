"""EVA in small environments of Gymnasium: two with short training (P126, P127), and CartPole-v1 until solved."""

import numpy as np

from eva.experiments.framework.arms import DQN, PAPER_WEIGHT, WEIGHT, arm, evaluations, label
from eva.experiments.framework.definition import OURS, Arm, Claim, Expected, Experiment
from eva.experiments.framework.measures import FINAL_RETURN, GREEDY, MEAN_RETURN, Measure
from eva.presets import preset
from eva.report.statistics import MARGIN_SHARE, FloatArray
from eva.schema import changed

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
RANGES = {"CartPole-v1": (20.0, 475.0), "Acrobot-v1": (-500.0, -100.0)}
"""The mean return of random play, and Gymnasium's threshold."""
STATEMENTS: tuple[tuple[str, Measure, Expected], ...] = (
    ("EVA learns {} faster.", MEAN_RETURN, "better"),
    ("EVA's final return is no worse in {}.", FINAL_RETURN, "no worse"),
)


def _arm(place: str, weight: float) -> Arm:
    changes = {WEIGHT: weight, "name": place, "environment.id": place}
    return arm(place, label(weight), f"generality/{place}/weight-{weight:g}", SMALL, changes, seeds=SEEDS)


GENERALITY = Experiment(
    name="generality",
    title="EVA in CartPole-v1 and Acrobot-v1",
    question="Does EVA help outside the maze and Atari, and does it hurt on any task?",
    arms=lambda: tuple(_arm(place, weight) for place in RANGES for weight in (0.0, PAPER_WEIGHT)),
    claims=tuple(
        Claim(OURS, text.format(place), measure, EVA, DQN, expected, MARGIN_SHARE * (solved - random), place)
        for text, measure, expected in STATEMENTS
        for place, (random, solved) in RANGES.items()
    ),
    notes=(
        "Hyper-parameters were chosen at weight 0: the preset `cartpole` with more updates and faster decays, tried on "
        "seeds 40 and 41 (final returns: CartPole-v1 262 and 261, Acrobot-v1 -110 and -100).",
        "LunarLander-v3 is no longer part of this experiment, since DQN did not learn it (P127).",
        "Unlike in the experiment `cartpole`, returns are those of training episodes, with exploration.",
        "Margin: 5% of (Gymnasium's threshold - random play).",
    ),
)

CARTPOLE_SEEDS = (20, 21, 22)  # tuned on seeds 0 to 17
PERIOD = 50_000  # of evaluations, in transitions
NUM_NETWORKS = 6  # the best of the last ones counts
NUM_EPISODES = 120
CHOOSING = 6  # one of this many episodes chooses the network, the others count
SOLVED = 475.0
"""Gymnasium's threshold for the mean return of 100 episodes."""


def _cartpole_arm(weight: float) -> Arm:
    """Return an arm that plays greedily with the weight it was trained with."""
    changes = {WEIGHT: weight, **evaluations(PERIOD, NUM_EPISODES, weight, epsilons=(GREEDY,))}
    folder = f"cartpole/weight-{weight:g}"
    return arm("CartPole-v1", label(weight), folder, preset("cartpole"), changes, seeds=CARTPOLE_SEEDS)


def best_network(returns: FloatArray) -> FloatArray:
    """Choose each run's best network by some episodes, average its others: (networks, episodes, seeds) -> (seeds,)."""
    num_choosing = max(1, returns.shape[1] // CHOOSING)
    best = returns[:, :num_choosing].mean(axis=1).argmax(axis=0)
    counted: FloatArray = returns[best, num_choosing:, np.arange(len(best))].mean(axis=1)
    return counted


BEST = Measure(
    "greedy return of the best network",
    lambda e, task, label: best_network(e.evaluations(task, label)[-NUM_NETWORKS:]),
)
CARTPOLE = Experiment(
    name="cartpole",
    title="CartPole-v1, with and without EVA",
    question="Does the agent solve CartPole-v1 (mean return of at least 475 over 100 episodes), with and without EVA?",
    arms=lambda: (_cartpole_arm(0.0), _cartpole_arm(PAPER_WEIGHT)),
    claims=(
        Claim(OURS, "DQN solves CartPole-v1.", BEST, DQN, SOLVED, "better", 0, primary=True),
        Claim(OURS, "EVA solves CartPole-v1.", BEST, EVA, SOLVED, "better", 0),
    ),
    columns=(BEST, MEAN_RETURN),
    notes=(
        "DQN's return oscillates here, so a run is judged by its best network: one is saved every 50,000 transitions, "
        "20 greedy episodes choose it and 100 other episodes count.",
        "Settings were tuned at weight 0 on seeds 0 to 17. These runs were stopped for every evaluation, which ended "
        "the running episodes, because CartPole cannot save its state; new runs are not stopped.",
    ),
)
