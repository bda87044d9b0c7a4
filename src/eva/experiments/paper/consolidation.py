"""Consolidation: the weight annealed to 0, and what the network can do alone before and after (P29, P87)."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

from eva.experiments.framework.common import (
    PAPER_WEIGHT,
    margin,
    measure_arms,
    numbers,
)
from eva.experiments.framework.definition import Arm, Claim, Experiment, Finding, Judgement, Table
from eva.experiments.framework.evidence import Evidence, variant
from eva.experiments.framework.judge import both, is_above
from eva.experiments.framework.words import brief, gained, measures_table, plain
from eva.experiments.paper.maze import SEEDS, maze_job
from eva.report.measures import final_returns, mean
from eva.report.plots import figure_files
from eva.report.verdict import number
from eva.runs.sweep.jobs import Job, Play

STEPS = 100_000
ANNEAL_START, ANNEAL_LENGTH = 60_000, 20_000
NUM_EPISODES = 200
ANNEALED, KEPT = "weight annealed to 0", f"weight kept at {PAPER_WEIGHT:g}"
BEFORE, AFTER = 0, 1


def arms() -> tuple[Arm, ...]:
    """Return the weight annealed and the weight kept, with single episodes before annealing begins and at the end."""
    plays = tuple(Play(steps, (0.0, PAPER_WEIGHT), NUM_EPISODES) for steps in (ANNEAL_START, STEPS))
    kept = [maze_job(1, STEPS, seed, PAPER_WEIGHT) for seed in SEEDS]
    return (
        Arm("one coin", ANNEALED, tuple(_placed(_annealed(job), "annealed", plays) for job in kept)),
        Arm("one coin", KEPT, tuple(_placed(job, "kept", plays) for job in kept)),
    )


def judge(evidence: Evidence) -> Judgement:
    """Judge that nothing is lost, against runs that are the same but for keeping the weight."""
    (task,) = evidence.tasks
    loss = margin(task)
    annealed, kept = (final_returns(variant(task, name)) for name in (ANNEALED, KEPT))
    while_training = mean(annealed - kept)  # runs of one seed are the same until annealing begins
    alone, alone_before = (evidence.played(ANNEALED, when, 0.0).mean(axis=0) for when in (AFTER, BEFORE))
    in_episodes = mean(alone - evidence.played(KEPT, AFTER, PAPER_WEIGHT).mean(axis=0))
    since_before = mean(alone - alone_before)
    finding = Finding(
        both(is_above(while_training, -loss), is_above(in_episodes, -loss)),
        f"the final return after annealing less that with the weight kept is {gained(while_training)}; at the end, the "
        f"return of single episodes of the network alone, annealed, less that with EVA kept is {gained(in_episodes)}; "
        f"the network alone changes by {gained(since_before)} from before annealing to the end",
        f"bootstrap over {len(alone)} seeds, seed by seed; a loss of up to {number(loss)} counts as none",
    )
    measures = measure_arms(task)
    return Judgement(
        outcome=f"Annealing changes the final return by {gained(while_training)}.",
        findings=(finding,),
        tables=(measures_table(task, measures), _table(evidence)),
        figures={"curves": figure_files([task])},
        numbers={
            "against_kept": plain(asdict(while_training)),
            "against_kept_in_episodes": plain(asdict(in_episodes)),
            "against_before": plain(asdict(since_before)),
            **numbers([task], baseline=None),
        },
    )


def _annealed(job: Job) -> Job:
    eva = replace(job.config.eva, anneal_start_transitions=ANNEAL_START, anneal_transitions=ANNEAL_LENGTH)
    return replace(job, config=replace(job.config, eva=eva))


def _placed(job: Job, arm: str, plays: tuple[Play, ...]) -> Job:
    return replace(job, directory=Path("consolidation", arm, f"seed-{job.config.seed}"), plays=plays)


def _table(evidence: Evidence) -> Table:
    rows = []
    for name in (ANNEALED, KEPT):
        for occasion, when in ((BEFORE, f"after {ANNEAL_START:,} transitions"), (AFTER, f"after {STEPS:,}")):
            cells = [
                brief(mean(evidence.played(name, occasion, weight).mean(axis=0))) for weight in (0.0, PAPER_WEIGHT)
            ]
            rows.append([f"{name}, {when}", *cells])
    caption = "Mean return of single episodes with what was learned by then (P28), mean over seeds and its interval."
    return Table(caption, ["", "the network alone", f"EVA, weight {PAPER_WEIGHT:g}"], rows)


EXPERIMENT = Experiment(
    name="consolidation",
    title="The weight annealed to 0, one coin",
    claims=(
        Claim(
            "Section 5.2",
            "Annealing the weight to 0 leads to no degradation in performance.",
            "Compared with keeping the weight, seed by seed: holds if, beyond doubt, neither the final return nor that "
            "of single episodes at the end, of the network alone compared with EVA, is lower by 5% of the optimal "
            "return; in part if that is true of one.",
        ),
    ),
    arms=arms,
    judge=judge,
    remarks=(
        "The paper says it of Atari; this is the maze (P87).",
        "At the end the network alone does as well as with EVA, annealed or not: nothing is lost where EVA no longer "
        "adds anything. Whether annealing harms earlier is not tested.",
    ),
)
