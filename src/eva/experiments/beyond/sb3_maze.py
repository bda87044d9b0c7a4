"""Stable-Baselines3's DQN and EVADQN in the maze (P115)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from eva.experiments.framework.common import PAPER_WEIGHT, curves
from eva.experiments.framework.definition import OURS, Arm, Claim, Experiment
from eva.experiments.framework.measures import FINAL_RETURN, MEAN_RETURN
from eva.experiments.paper.maze import ONE_COIN, SEEDS, maze_job
from eva.runs.sweep.jobs import Job

STEPS = 60_000
SB3_DQN, EVADQN = "SB3 DQN", f"EVADQN, weight {PAPER_WEIGHT:g}"
TRAINER = "eva.integrations.sb3_runs"
"""By name, so that experiments can be listed where Stable-Baselines3 is not installed."""


def arms() -> tuple[Arm, ...]:
    """Return SB3's DQN and EVADQN with the same hyper-parameters on all seeds."""
    weights = {SB3_DQN: 0.0, EVADQN: PAPER_WEIGHT}
    return tuple(Arm(ONE_COIN, name, tuple(_job(seed, weight) for seed in SEEDS)) for name, weight in weights.items())


def _job(seed: int, weight: float) -> Job:
    job = maze_job(1, STEPS, seed, weight)
    config = replace(job.config, name="sb3-maze-1-coin", learner=replace(job.config.learner, error="huber"))
    directory = Path(config.name, f"weight-{weight:g}", f"seed-{seed}")
    return replace(job, directory=directory, config=config, trainer=TRAINER)


EXPERIMENT = Experiment(
    name="sb3-maze",
    title="Stable-Baselines3's DQN with and without EVA, one coin",
    question="Does EVA help an agent that is not ours?",
    arms=arms,
    claims=(
        Claim(OURS, "EVADQN learns faster than SB3's DQN.", MEAN_RETURN, EVADQN, SB3_DQN, "better", primary=True),
        Claim(OURS, "EVADQN ends no lower than SB3's DQN.", FINAL_RETURN, EVADQN, SB3_DQN, "no worse"),
    ),
    columns=(FINAL_RETURN, MEAN_RETURN),
    figures=curves,
    notes=(
        "Both use the hyper-parameters of the preset `maze-1-coin`, tuned with our learner. SB3 fixes Huber's error, "
        "gradients clipped to a norm of 10, and random actions until learning starts.",
    ),
)
