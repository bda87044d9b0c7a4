"""EVA beside stronger learners: Double DQN, and Double DQN with prioritised replay."""

from __future__ import annotations

from dataclasses import replace

from eva.experiments.framework.common import DOUBLE_DQN, DQN, PAPER_WEIGHT, PRIORITISED, changed, curves
from eva.experiments.framework.definition import OURS, Arm, Claim, Experiment
from eva.experiments.framework.measures import FINAL_RETURN, MEAN_RETURN, gain
from eva.experiments.paper.maze import SEEDS, TWO_COINS, maze_job
from eva.runs.sweep.jobs import Job

STEPS = 150_000
LEARNERS = (DQN, DOUBLE_DQN, PRIORITISED)


def with_eva(learner: str) -> str:
    """Return the label of a learner with EVA."""
    return f"{learner} + EVA"


def arms() -> tuple[Arm, ...]:
    """Return each learner without and with EVA; the runs of DQN are those of maze-two-coins."""
    return tuple(
        Arm(TWO_COINS, label, tuple(learner_job(seed, weight, learner) for seed in SEEDS))
        for learner in LEARNERS
        for label, weight in ((learner, 0.0), (with_eva(learner), PAPER_WEIGHT))
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


def _boost(text: str, learner: str, primary: bool = False) -> Claim:
    return Claim("Fig. 7", text, MEAN_RETURN, with_eva(learner), learner, "better", primary=primary)


GAIN = gain("mean return over training gained by EVA", {with_eva(learner): learner for learner in LEARNERS})
EXPERIMENT = Experiment(
    name="baselines",
    title="EVA beside Double DQN and prioritised replay, two coins",
    question="Does EVA help learners that are stronger than DQN?",
    arms=arms,
    claims=(
        _boost("EVA boosts Double DQN.", DOUBLE_DQN, primary=True),
        _boost("EVA boosts Double DQN with prioritised replay.", PRIORITISED),
        Claim(OURS, "EVA adds as much to it as to DQN.", GAIN, with_eva(PRIORITISED), with_eva(DQN), "no worse"),
        Claim(OURS, "EVA does more for DQN than both do.", MEAN_RETURN, with_eva(DQN), PRIORITISED, "better"),
    ),
    columns=(FINAL_RETURN, MEAN_RETURN),
    figures=curves,
    notes=("Prioritised replay uses the same learning rate; Schaul et al. lower it to a quarter (P76).",),
)
