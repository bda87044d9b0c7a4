"""Fig. 4, in the maze: trajectory-centric planning, n-step and kernel-based RL, and what each costs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from eva.config import EVAConfig
from eva.experiments.framework.common import DQN, PAPER_WEIGHT, changed, curves
from eva.experiments.framework.definition import OURS, Arm, Claim, Experiment, Figures
from eva.experiments.framework.evidence import Evidence
from eva.experiments.framework.measures import FINAL_RETURN, MEAN_RETURN, Measure
from eva.experiments.paper.maze import SEEDS, TWO_COINS, maze_job
from eva.report.plots import Chart, Line, chart_files
from eva.report.statistics import FloatArray
from eva.runs.sweep.jobs import Job

STEPS = 150_000
PLAN_SIZE = 500  # M T in the paper
MUCH_MORE = 10.0
TCP, N_STEP, KBRL, JOINING = "TCP", "n-step", "KBRL", "KBRL, joining"
BANDWIDTH = math.sqrt(EVAConfig().kbrl_bandwidth / 2)
"""Length scale b for which 2 b^2 is the paper's parameter, which then divides squared distances."""


def arms() -> tuple[Arm, ...]:
    """Return DQN and the three traces; DQN and TCP are the runs of maze-two-coins."""
    return (
        Arm(TWO_COINS, DQN, tuple(maze_job(2, STEPS, seed, 0.0) for seed in SEEDS)),
        Arm(TWO_COINS, TCP, tuple(maze_job(2, STEPS, seed, PAPER_WEIGHT) for seed in SEEDS)),
        Arm(TWO_COINS, N_STEP, tuple(maze_job(2, STEPS, seed, PAPER_WEIGHT, trace="n-step") for seed in SEEDS)),
        Arm(TWO_COINS, KBRL, tuple(maze_job(2, STEPS, seed, PAPER_WEIGHT, trace="kbrl") for seed in SEEDS)),
    )


def kernel_arms() -> tuple[Arm, ...]:
    """Return the arms without n-step, and kernel-based RL with the wider kernel."""
    dqn, tcp, _, narrow = arms()
    return dqn, tcp, narrow, replace(narrow, label=JOINING, jobs=tuple(map(_widened, narrow.jobs)))


def _widened(job: Job) -> Job:
    config = replace(job.config, eva=replace(job.config.eva, kbrl_bandwidth=BANDWIDTH))
    return changed(job, f"{job.directory.parts[1]}-joining", config)


def measure(_: bool) -> dict[str, Any]:
    """Time each trace on this machine; that takes seconds."""
    from eva.timing.trace_costs import measure_costs  # imports torch: not to list runs

    return measure_costs()


def _times_tcp(evidence: Evidence, _: str, label: str) -> FloatArray:
    """Return the time of a plan of the paper's size, as a multiple of TCP's, round by round."""
    costs = evidence.measured
    rounds = {name: np.array(times)[costs["transitions"].index(PLAN_SIZE)] for name, times in costs["rounds"].items()}
    ratio: FloatArray = rounds[label] / rounds[TCP]
    return ratio


def figures(evidence: Evidence) -> Figures:
    """Draw learning curves and the time of each trace."""
    costs = evidence.measured
    lines = []
    for name, times in costs["rounds"].items():
        medians = np.median(times, axis=1).tolist()
        lines.append(Line(name, costs["transitions"], medians, medians, medians))
    chart = Chart("transitions in the plan, M T", "microseconds", lines, logarithmic=True)
    return {**curves(evidence), "costs": chart_files(chart)}


TIMES_TCP = Measure("time as a multiple of TCP's", _times_tcp, unit="rounds", higher_is_better=False)
NOTE = "The paper compares the traces on Atari; this is the maze."
EXPERIMENT = Experiment(
    name="trace-computations",
    title="Trajectory-centric planning, n-step and kernel-based RL, two coins",
    question="Is trajectory-centric planning (TCP) better than n-step and as good as kernel-based RL (KBRL)?",
    arms=arms,
    claims=(
        Claim("Fig. 4", "n-step is significantly worse than DQN.", FINAL_RETURN, N_STEP, DQN, "worse", primary=True),
        Claim("Fig. 4", "TCP is as good as KBRL.", FINAL_RETURN, TCP, KBRL, "no worse"),
        Claim("Section 5.2", "KBRL is much more costly (10 times TCP).", TIMES_TCP, KBRL, MUCH_MORE, "worse", 0),
    ),
    columns=(FINAL_RETURN, MEAN_RETURN),
    figures=figures,
    measure=measure,
    notes=(NOTE, f"Times: one thread, a plan of {PLAN_SIZE} transitions without the search that all traces share."),
)
KERNEL_WIDTH = Experiment(
    name="kernel-width",
    title="Kernel-based RL with a kernel that joins trajectories, two coins",
    question="Does kernel-based RL do better if its kernel is wide enough to join trajectories?",
    arms=kernel_arms,
    claims=(
        Claim("Fig. 4", "TCP is as good as KBRL that joins trajectories.", FINAL_RETURN, TCP, JOINING, "no worse"),
        Claim(OURS, "A kernel that joins trajectories is better.", FINAL_RETURN, JOINING, KBRL, "better", primary=True),
    ),
    columns=(FINAL_RETURN, MEAN_RETURN),
    figures=curves,
    notes=(
        NOTE,
        'The paper has "a bandwidth parameter of 1e-4". KBRL reads it as the length scale b. "Joining" divides squared '
        f"distances by it: b = {BANDWIDTH:.5f} (P133).",
    ),
)
