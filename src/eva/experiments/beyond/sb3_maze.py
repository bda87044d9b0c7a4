"""Stable-Baselines3's DQN and EVADQN in the maze: that EVA helps an agent that is not ours (P115, P116)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from eva.experiments.framework.common import PAPER_WEIGHT, compare_arms, margin
from eva.experiments.framework.definition import OURS, Arm, Claim, Experiment, Finding, Judgement
from eva.experiments.framework.evidence import Evidence
from eva.experiments.framework.judge import is_above
from eva.experiments.framework.words import gained, seeds
from eva.experiments.paper.maze import SEEDS, maze_job
from eva.experiments.paper.maze_learning import learning_judgement
from eva.report.verdict import number
from eva.runs.sweep.jobs import Job

STEPS = 60_000
SB3_DQN, EVADQN = "SB3 DQN", f"EVADQN, weight {PAPER_WEIGHT:g}"
TRAINER = "eva.integrations.sb3_runs"
"""By name: experiments are listed and judged where Stable-Baselines3 is not installed."""


def arms() -> tuple[Arm, ...]:
    """Return SB3's DQN and EVADQN with the same numbers, on all seeds."""
    weights = {SB3_DQN: 0.0, EVADQN: PAPER_WEIGHT}
    return tuple(Arm("one coin", name, tuple(_job(seed, weight) for seed in SEEDS)) for name, weight in weights.items())


def judge(evidence: Evidence) -> Judgement:
    """Judge that EVADQN learns faster, and ends no lower."""
    (task,) = evidence.tasks
    comparison = compare_arms(task, SB3_DQN)[EVADQN]
    certainty = seeds(len(task.variants[0].runs))
    faster = Finding(
        is_above(comparison.area_gain),
        f"the mean return over training with EVADQN less that of SB3's DQN is {gained(comparison.area_gain)}",
        certainty,
    )
    no_lower = Finding(
        is_above(comparison.final_gain, -margin(task)),
        f"the final return of EVADQN less that of SB3's DQN is {gained(comparison.final_gain)}",
        f"{certainty}; a loss of up to {number(margin(task))} counts as none",
    )
    return learning_judgement(evidence.tasks, (faster, no_lower), baseline=SB3_DQN)


def _job(seed: int, weight: float) -> Job:
    job = maze_job(1, STEPS, seed, weight)
    config = replace(job.config, name="sb3-maze-1-coin", learner=replace(job.config.learner, error="huber"))
    directory = Path(config.name, f"weight-{weight:g}", f"seed-{seed}")
    return replace(job, directory=directory, config=config, trainer=TRAINER)


EXPERIMENT = Experiment(
    name="sb3-maze",
    title="Stable-Baselines3's DQN with and without EVA, one coin",
    claims=(
        Claim(
            OURS,
            "EVADQN learns the maze faster than Stable-Baselines3's DQN does.",
            "Of the mean return over training: holds if EVADQN's is above that of SB3's DQN beyond doubt.",
        ),
        Claim(
            OURS,
            "EVADQN ends no lower than Stable-Baselines3's DQN.",
            "Holds if, beyond doubt, the final return does not fall by 5% of the optimal return.",
        ),
    ),
    arms=arms,
    judge=judge,
    remarks=(
        "Both have the numbers of the preset `maze-1-coin`, which were searched for with our own learner (P16), not "
        "with Stable-Baselines3's. What that fixes is left as it is: Huber's error, gradients clipped to a norm of 10, "
        "random actions until learning starts (P115). So this page compares the two with each other, and neither "
        "with the agent of the other pages.",
    ),
)
