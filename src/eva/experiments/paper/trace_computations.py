"""Fig. 4, in the maze: trajectory-centric planning, n-step and kernel-based RL, and what each costs."""

import math

import numpy as np

from eva.config import EVAConfig
from eva.experiments.framework.arms import DQN, NO_CHANGES, PAPER_WEIGHT, Changes
from eva.experiments.framework.definition import OURS, Arm, Claim, Experiment, Figures
from eva.experiments.framework.evidence import Evidence
from eva.experiments.framework.measures import GREEDY_MEAN, Measure
from eva.experiments.paper import maze
from eva.experiments.paper.maze import COLUMNS, TWO_COINS, learned, maze_arm
from eva.report.plots import Chart, Line
from eva.report.statistics import FloatArray

PLAN_SIZE = 500  # M T in the paper
MUCH_MORE = 10.0
TCP, N_STEP, KBRL, JOINING = "TCP", "n-step", "KBRL", "KBRL, joining"
BANDWIDTH = math.sqrt(EVAConfig().kbrl_bandwidth / 2)
"""Length scale b for which 2 b^2 is the paper's parameter, which then divides squared distances."""
TRACES: dict[str, tuple[Changes, str]] = {
    TCP: (NO_CHANGES, ""),
    N_STEP: ({"eva.trace": "n-step"}, "-n-step"),
    KBRL: ({"eva.trace": "kbrl"}, "-kbrl"),
    JOINING: ({"eva.trace": "kbrl", "eva.kbrl_bandwidth": BANDWIDTH}, "-kbrl-joining"),
}


def arms(*traces: str) -> tuple[Arm, ...]:
    """Return DQN and some traces; DQN and TCP are the runs of maze-two-coins."""
    dqn = maze_arm(TWO_COINS, DQN, 0.0)
    return dqn, *(maze_arm(TWO_COINS, trace, PAPER_WEIGHT, *TRACES[trace]) for trace in traces)


def _times_tcp(evidence: Evidence, _: str, label: str) -> FloatArray:
    """Return the time of a plan of the paper's size, as a multiple of TCP's, round by round."""
    costs = evidence.measured
    size = costs["transitions"].index(PLAN_SIZE)
    ratio: FloatArray = np.divide(costs["rounds"][label][size], costs["rounds"][TCP][size])
    return ratio


def figures(evidence: Evidence) -> Figures:
    """Draw learning curves and the time of each trace."""
    costs = evidence.measured
    medians = {name: np.median(times, axis=1).tolist() for name, times in costs["rounds"].items()}
    lines = [Line(name, costs["transitions"], each) for name, each in medians.items()]
    return {**maze.figures(evidence), "costs": Chart("transitions in a plan", "microseconds", lines, logarithmic=True)}


TIMES_TCP = Measure("time as a multiple of TCP's", _times_tcp, unit="rounds", higher_is_better=False)
NOTE = "The paper compares the traces on Atari; this is the maze. TCP, n-step and KBRL are EVA with weight 0.4."
EXPERIMENT = Experiment(
    name="trace-computations",
    title="Trajectory-centric planning, n-step and kernel-based RL, two coins",
    question="Is n-step worse than DQN, is trajectory-centric planning (TCP) as good as kernel-based RL (KBRL), and "
    "what does KBRL cost?",
    arms=lambda: arms(TCP, N_STEP, KBRL),
    claims=(
        Claim("Fig. 4", "n-step is significantly worse than DQN.", GREEDY_MEAN, N_STEP, DQN, "worse", primary=True),
        Claim("Fig. 4", "TCP is as good as KBRL.", GREEDY_MEAN, TCP, KBRL, "no worse"),
        Claim("Section 5.2", "KBRL is much more costly (10 times TCP).", TIMES_TCP, KBRL, MUCH_MORE, "worse", 0),
    ),
    requirements=learned(TWO_COINS, 1.70),
    columns=COLUMNS,
    figures=figures,
    timing="eva.experiments.timing.trace_costs",
    notes=(NOTE, f"Times: one thread; the claim is about a plan of {PLAN_SIZE} transitions, without its search."),
)
KERNEL_WIDTH = Experiment(
    name="kernel-width",
    title="Kernel-based RL with a kernel that joins trajectories, two coins",
    question="Does kernel-based RL do better if its kernel is wide enough to join trajectories?",
    arms=lambda: arms(TCP, KBRL, JOINING),
    claims=(
        Claim("Fig. 4", "TCP is as good as KBRL that joins trajectories.", GREEDY_MEAN, TCP, JOINING, "no worse"),
        Claim(OURS, "A kernel that joins trajectories is better.", GREEDY_MEAN, JOINING, KBRL, "better", primary=True),
    ),
    requirements=learned(TWO_COINS, 1.70),
    columns=COLUMNS,
    figures=maze.figures,
    notes=(
        NOTE,
        'The paper has "a bandwidth parameter of 1e-4". KBRL reads it as the length scale b. "Joining" divides squared '
        f"distances by it: b = {BANDWIDTH:.5f} (P133).",
    ),
)
