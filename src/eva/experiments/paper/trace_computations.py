"""Fig. 4, in the maze: trajectory-centric planning, n-step and kernel-based RL, and what each costs (P89)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from eva.experiments.framework.common import (
    DQN,
    PAPER_WEIGHT,
    compare_arms,
    margin,
)
from eva.experiments.framework.definition import Arm, Claim, Experiment, Finding, Judgement, Table
from eva.experiments.framework.evidence import Evidence, variant
from eva.experiments.framework.judge import is_above, is_below
from eva.experiments.framework.words import capital, gained, lesson, measured_by, plain, seeds
from eva.experiments.paper.maze import SEEDS, TUNED_WITH_ONE_COIN, maze_job
from eva.experiments.paper.maze_learning import final_returns_in_words, learning_judgement
from eva.report.measures import difference, final_returns
from eva.report.plots import Chart, Line, chart_files
from eva.report.verdict import number

STEPS = 150_000
PLAN_SIZE = 500  # M T, the paper's
MUCH_DEARER, DEARER = 10.0, 2.0
TCP, N_STEP, KBRL = "TCP", "n-step", "KBRL"


def arms() -> tuple[Arm, ...]:
    """Return DQN and the three traces; DQN and TCP are runs of two coins."""
    return (
        Arm("two coins", DQN, tuple(maze_job(2, STEPS, seed, 0.0) for seed in SEEDS)),
        Arm("two coins", TCP, tuple(maze_job(2, STEPS, seed, PAPER_WEIGHT) for seed in SEEDS)),
        Arm("two coins", N_STEP, tuple(maze_job(2, STEPS, seed, PAPER_WEIGHT, trace="n-step") for seed in SEEDS)),
        Arm("two coins", KBRL, tuple(maze_job(2, STEPS, seed, PAPER_WEIGHT, trace="kbrl") for seed in SEEDS)),
    )


def measure(_: bool) -> dict[str, Any]:
    """Return what each trace costs on this machine; that takes seconds."""
    from eva.timing.trace_costs import measure_costs  # imports torch: not to list runs

    return measure_costs()


def judge(evidence: Evidence) -> Judgement:
    """Judge the traces by their final returns and their costs."""
    (task,) = evidence.tasks
    finals = {each.label: final_returns(each) for each in task.variants}
    n_step_loss, tcp_gain = difference(finals[N_STEP], finals[DQN]), difference(finals[TCP], finals[KBRL])
    gains, costs = compare_arms(task), evidence.measured
    ratio = _cost(costs, KBRL) / _cost(costs, TCP)
    count = len(variant(task, DQN).runs)
    worse = Finding(
        is_below(n_step_loss),
        f"the final return with n-step less DQN's is {gained(n_step_loss)}",
        seeds(count),
    )
    as_good = Finding(
        is_above(tcp_gain, -margin(task)),
        f"the final return of trajectory-centric planning less that of kernel-based RL is {gained(tcp_gain)}",
        f"{seeds(count)}; a difference of up to {number(margin(task))} counts as none",
    )
    dearer = Finding(
        "holds" if ratio >= MUCH_DEARER else "holds in part" if ratio >= DEARER else "does not hold",
        f"for a plan of {PLAN_SIZE} transitions, without the search that all share, kernel-based RL takes {ratio:.0f} "
        "times as long: "
        f"{_cost(costs, KBRL):,.0f} against {_cost(costs, TCP):,.0f} microseconds",
        "medians of rounds in turn, one thread's processor time, on one machine",
    )
    learning = learning_judgement(evidence.tasks, (worse, as_good, dearer))
    return Judgement(
        outcome=f"{final_returns_in_words(task)}; the computation of kernel-based RL alone takes {ratio:.0f} times as "
        "long as trajectory-centric planning's.",
        findings=learning.findings,
        tables=(*learning.tables, _table(costs)),
        figures={**learning.figures, "costs": chart_files(_chart(costs))},
        numbers={
            "n_step_above_dqn": plain(asdict(n_step_loss)),
            "tcp_above_kbrl": plain(asdict(tcp_gain)),
            "microseconds": costs["microseconds"],
            "transitions": costs["transitions"],
            **learning.numbers,
        },
        lessons=tuple(
            lesson(f"DQN in the maze with two coins, with the trace computation {name}", gains[name], margin(task))
            for name in (N_STEP, KBRL)
        ),
    )


def _cost(costs: dict[str, Any], name: str) -> float:
    return float(costs["microseconds"][name][costs["transitions"].index(PLAN_SIZE)])


def _table(costs: dict[str, Any]) -> Table:
    heads = ["", *(f"N = {size:,}" for size in costs["transitions"])]
    rows = [[name, *(f"{each:,.0f}" for each in times)] for name, times in costs["microseconds"].items()]
    caption = (
        f"Microseconds of processor time for one trace computation over N transitions. {capital(measured_by(costs))}."
    )
    return Table(caption, heads, rows)


def _chart(costs: dict[str, Any]) -> Chart:
    lines = [Line(name, costs["transitions"], y, y, y) for name, y in costs["microseconds"].items()]
    return Chart("transitions in the plan, N", "microseconds", lines, logarithmic=True)


EXPERIMENT = Experiment(
    name="trace-computations",
    title="Trajectory-centric planning, n-step and kernel-based RL, two coins",
    claims=(
        Claim(
            "Fig. 4",
            "With the n-step trace computation, EVA is significantly worse than the baseline.",
            "Of the final return: holds if n-step is below DQN beyond doubt.",
        ),
        Claim(
            "Fig. 4",
            "The standard trace computation is as good as, if not better than, kernel-based RL.",
            "Of the final return: holds if trajectory-centric planning is beyond doubt not below kernel-based RL by 5% "
            "of the optimal return.",
        ),
        Claim(
            "Section 5.2",
            "Kernel-based RL is much more costly.",
            "Of the processor's time, without an interval: holds if it takes at least 10 times as long for a plan of "
            "the paper's size (M T = 500 transitions); in part if at least twice.",
        ),
    ),
    arms=arms,
    judge=judge,
    measure=measure,
    remarks=(
        "The paper compares them on Atari; this is the maze (P89).",
        TUNED_WITH_ONE_COIN,
        "With stored embeddings and the paper's bandwidth as a length scale, kernel-based RL joins next to no two "
        "memories: in 98% of the planned states its best action is that of trajectory-centric planning (P133). So the "
        "two arms are nearly one algorithm, and their difference is mostly that of their seeds; kernel-width compares "
        "a kernel that joins trajectories.",
        "A likely reason why n-step is best here, not tested: DQN's values were far above what it gets, as its runs' "
        "metrics told, which are not kept. "
        "Trajectory-centric planning takes the best of what is remembered and what is estimated, and so keeps "
        "estimates that are too high; n-step replaces them by what happened. In keeping with that, trajectory-centric "
        "planning ends far higher beside Double DQN, which is made against such estimates (baselines). The maze is "
        "deterministic, which favours n-step as well.",
    ),
)
