"""Consolidation: the weight annealed to 0, and what the network can do alone (P29)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from eva.experiments.framework.common import PAPER_WEIGHT, curves
from eva.experiments.framework.definition import Arm, Claim, Experiment
from eva.experiments.framework.measures import FINAL_RETURN, single_episodes
from eva.experiments.paper.maze import ONE_COIN, SEEDS, maze_job
from eva.runs.sweep.jobs import Job, Play

STEPS = 100_000
ANNEAL_START, ANNEAL_LENGTH = 60_000, 20_000
NUM_EPISODES = 200
ANNEALED, KEPT = "annealed, network alone", f"kept at {PAPER_WEIGHT:g}"
BEFORE = single_episodes("single episodes before annealing", occasion=0)
AFTER = single_episodes("single episodes at the end", occasion=1)
FINAL = replace(FINAL_RETURN, paired=True)  # runs of one seed are the same until annealing begins


def arms() -> tuple[Arm, ...]:
    """Return the weight annealed and the weight kept, with single episodes before annealing and at the end."""
    plays = tuple(Play(steps, (0.0, PAPER_WEIGHT), NUM_EPISODES) for steps in (ANNEAL_START, STEPS))
    kept = [maze_job(1, STEPS, seed, PAPER_WEIGHT) for seed in SEEDS]
    return (
        Arm(ONE_COIN, ANNEALED, tuple(_placed(_annealed(job), "annealed", plays) for job in kept), 0.0),
        Arm(ONE_COIN, KEPT, tuple(_placed(job, "kept", plays) for job in kept), PAPER_WEIGHT),
    )


def _annealed(job: Job) -> Job:
    eva = replace(job.config.eva, anneal_start_transitions=ANNEAL_START, anneal_transitions=ANNEAL_LENGTH)
    return replace(job, config=replace(job.config, eva=eva))


def _placed(job: Job, arm: str, plays: tuple[Play, ...]) -> Job:
    return replace(job, directory=Path("consolidation", arm, f"seed-{job.config.seed}"), plays=plays)


EXPERIMENT = Experiment(
    name="consolidation",
    title="The weight annealed to 0, one coin",
    question="Can the weight be annealed to 0 late in training without a loss?",
    arms=arms,
    claims=(
        Claim(
            "Section 5.2", "Annealing costs nothing during training.", FINAL, ANNEALED, KEPT, "no worse", primary=True
        ),
        Claim("Section 5.2", "The network alone ends no worse than EVA.", AFTER, ANNEALED, KEPT, "no worse"),
    ),
    columns=(FINAL, BEFORE, AFTER),
    figures=curves,
    notes=(
        "The paper reports this on Atari; this is the maze.",
        f"Annealed from {ANNEAL_START:,} to {ANNEAL_START + ANNEAL_LENGTH:,} transitions. Single episodes are played "
        "with weight 0 (annealed) and 0.4 (kept).",
    ),
)
