"""CartPole-v1 with and without EVA."""

import numpy as np

from eva.experiments.framework.common import DQN, PAPER_WEIGHT, WEIGHT, arm, evaluations, label
from eva.experiments.framework.definition import OURS, Arm, Claim, Experiment
from eva.experiments.framework.measures import MEAN_RETURN, Measure
from eva.presets import preset
from eva.report.statistics import FloatArray

SEEDS = (20, 21, 22)  # tuned on seeds 0 to 17
EVA = label(PAPER_WEIGHT)
PERIOD = 50_000  # of evaluations, in transitions
NETWORKS = range(5, -1, -1)  # periods before the end: the best of the last six networks counts
NUM_EPISODES = 120
CHOOSING = 6  # one of this many episodes chooses the network, the others count
SOLVED = 475.0
"""Gymnasium's threshold for the mean return of 100 episodes."""


def _arm(weight: float) -> Arm:
    """Return an arm that plays greedily with the weight it was trained with."""
    changes = {WEIGHT: weight, **evaluations(PERIOD, NUM_EPISODES, weight, epsilon=0.0)}
    return arm("CartPole-v1", label(weight), f"cartpole/weight-{weight:g}", preset("cartpole"), changes, seeds=SEEDS)


def best_network(returns: FloatArray) -> FloatArray:
    """Choose each run's best network by some episodes, average its others: (networks, episodes, seeds) -> (seeds,)."""
    num_choosing = max(1, returns.shape[1] // CHOOSING)
    best = returns[:, :num_choosing].mean(axis=1).argmax(axis=0)
    counted: FloatArray = returns[best, num_choosing:, np.arange(len(best))].mean(axis=1)
    return counted


BEST = Measure(
    "greedy return of the best network",
    lambda e, task, label: best_network(np.stack([e.evaluation(task, label, i) for i in NETWORKS])),
)
EXPERIMENT = Experiment(
    name="cartpole",
    title="CartPole-v1, with and without EVA",
    question="Does the agent solve CartPole-v1 (mean return of at least 475 over 100 episodes), with and without EVA?",
    arms=lambda: (_arm(0.0), _arm(PAPER_WEIGHT)),
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
