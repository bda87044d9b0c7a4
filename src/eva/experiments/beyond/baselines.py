"""EVA beside stronger learners: Double DQN, and Double DQN with prioritised replay (P120)."""

from __future__ import annotations

from dataclasses import asdict, replace

from eva.experiments.framework.common import (
    DOUBLE_DQN,
    DQN,
    PAPER_WEIGHT,
    PRIORITISED,
    changed,
    compare_arms,
    learning_tables,
    margin,
    measure_arms,
    numbers,
)
from eva.experiments.framework.definition import OURS, Arm, Claim, Experiment, Finding, Judgement
from eva.experiments.framework.evidence import Evidence, variant
from eva.experiments.framework.judge import is_above
from eva.experiments.framework.words import gained, lesson, levels_in_words, plain, seeds, share
from eva.experiments.paper.maze import SEEDS, TUNED_WITH_ONE_COIN, maze_job
from eva.report.curves import Task
from eva.report.measures import Comparison, areas_under, difference, estimate
from eva.report.plots import figure_files
from eva.report.verdict import number
from eva.runs.sweep.jobs import Job

STEPS = 150_000
ALONE, WITH_EVA = "weight 0", f"weight {PAPER_WEIGHT:g}"
LEARNERS = (DQN, DOUBLE_DQN, PRIORITISED)


def arms() -> tuple[Arm, ...]:
    """Return each learner without and with EVA; the runs of DQN are those of two coins."""
    return tuple(
        Arm(learner, label, tuple(learner_job(seed, weight, learner) for seed in SEEDS))
        for learner in LEARNERS
        for label, weight in ((ALONE, 0.0), (WITH_EVA, PAPER_WEIGHT))
    )


def judge(evidence: Evidence) -> Judgement:
    """Judge what EVA adds to each learner, and whether it replaces a stronger one."""
    tasks = dict(zip(LEARNERS, evidence.tasks, strict=True))
    compared = {name: compare_arms(task, ALONE) for name, task in tasks.items()}
    gains = {name: each[WITH_EVA] for name, each in compared.items()}
    without = {name: areas_under(variant(task, ALONE), task) for name, task in tasks.items()}
    with_eva = {name: areas_under(variant(task, WITH_EVA), task) for name, task in tasks.items()}
    instead = difference(with_eva[DQN], without[PRIORITISED])
    kept = estimate(
        lambda a, b, c, d: a - b - (c - d), with_eva[PRIORITISED], without[PRIORITISED], with_eva[DQN], without[DQN]
    )
    loss = margin(tasks[DQN])
    certainty = seeds(len(without[DQN]))
    findings = (
        *(_boost(compared[name][ALONE], gains[name], certainty) for name in (DOUBLE_DQN, PRIORITISED)),
        Finding(
            is_above(kept, -loss),
            f"what EVA adds to the mean return over training of {PRIORITISED} replay, less what it adds to DQN's, is "
            f"{gained(kept)}",
            f"{certainty}; a loss of up to {number(loss)} counts as none",
        ),
        Finding(
            is_above(instead),
            f"the mean return over training of DQN with EVA less that of {PRIORITISED} replay is {gained(instead)}",
            certainty,
        ),
    )
    return Judgement(
        outcome=_outcome(tasks),
        findings=findings,
        tables=learning_tables(evidence.tasks, ALONE),
        figures={"curves": figure_files(evidence.tasks)},
        numbers={
            "gain_kept": plain(asdict(kept)),
            "eva_instead": plain(asdict(instead)),
            **numbers(evidence.tasks, ALONE),
        },
        lessons=tuple(lesson(f"{name} in the maze with two coins", each, loss) for name, each in gains.items()),
    )


def learner_job(seed: int, weight: float, learner: str) -> Job:
    """Return one run with two coins."""
    job = maze_job(2, STEPS, seed, weight)
    if learner == DQN:
        return job
    config = replace(
        job.config,
        learner=replace(job.config.learner, double=True),
        replay=replace(job.config.replay, prioritised=learner == PRIORITISED),
    )
    kind = "double-prioritised" if learner == PRIORITISED else "double"
    return changed(job, f"weight-{weight:g}-{kind}", config)


def _boost(alone: Comparison, gain: Comparison, certainty: str) -> Finding:
    return Finding(
        is_above(gain.area_gain),
        f"the mean return over training with weight {PAPER_WEIGHT:g} less that with 0 is {gained(gain.area_gain)}; "
        f"weight {PAPER_WEIGHT:g} reaches the final return of weight 0 after {share(gain.data_share)} of its "
        f"transitions, weight 0 itself after {share(alone.data_share)}",
        certainty,
    )


def _outcome(tasks: dict[str, Task]) -> str:
    ends = []
    for name, task in tasks.items():
        alone, with_eva = (number(measure_arms(task)[label].final.value) for label in (ALONE, WITH_EVA))
        ends.append(f"{name} {alone} and with EVA {with_eva}")
    return f"Final returns: {'; '.join([*ends, *levels_in_words(tasks[DQN])])}."


_BOOST = "Of the mean return over training: holds if weight 0.4 is above weight 0 with the same learner beyond doubt."
EXPERIMENT = Experiment(
    name="baselines",
    title="EVA beside Double DQN and prioritised replay, two coins",
    claims=(
        Claim("Fig. 7", "EVA will boost the performance of Double DQN as well.", _BOOST),
        Claim("Fig. 7", "EVA will boost the performance of Double DQN with prioritised replay as well.", _BOOST),
        Claim(
            OURS,
            "EVA adds as much to Double DQN with prioritised replay as to DQN.",
            "Of what EVA adds to the mean return over training: holds if it is beyond doubt not less by 5% of the "
            "optimal return.",
        ),
        Claim(
            OURS,
            "EVA does more for DQN than double Q-learning and prioritised replay.",
            "Of the mean return over training: holds if DQN with EVA is above Double DQN with prioritised replay "
            "beyond doubt.",
        ),
    ),
    arms=arms,
    judge=judge,
    remarks=(
        TUNED_WITH_ONE_COIN,
        "Prioritised replay may want a lower learning rate (P76); that was not tried.",
    ),
)
