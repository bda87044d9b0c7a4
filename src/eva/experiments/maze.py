"""The runs in the maze."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

from eva.presets import preset
from eva.runs.jobs import Job, Play

SEEDS = (0, 1, 2, 3, 4)
TUNING_SEEDS = (1_000, 1_001)  # apart from all others: no comparison is made on seeds that the learner was tuned on


def maze_job(
    num_coins: int,
    steps: int,
    seed: int,
    weight: float,
    *,
    trace: Literal["tcp", "n-step", "kbrl"] = "tcp",
    layout: str = "paper",
) -> Job:
    """Return one run in the maze, otherwise as in the preset."""
    base = preset(f"maze-{num_coins}-coin{'s' * (num_coins > 1)}")
    config = replace(
        base,
        seed=seed,
        steps=steps,
        maze=replace(base.maze, layout=layout),
        eva=replace(base.eva, nonparametric_weight=weight, trace=trace),
        run=replace(base.run, device="cpu", checkpoints_kept=1),
    )
    place = base.name if layout == "paper" else f"{base.name}-{layout}"
    arm = f"weight-{weight:g}" if trace == "tcp" else f"weight-{weight:g}-{trace}"
    return Job(Path(place, arm, f"seed-{seed}"), config)


def one_coin() -> tuple[Job, ...]:
    """Return Fig. 2 (centre), and DQN and EVA in the open room (P14)."""
    paper = [maze_job(1, 60_000, seed, weight) for seed in SEEDS for weight in (0.0, 0.2, 0.4, 0.6, 0.8)]
    room = [maze_job(1, 60_000, seed, weight, layout="open") for seed in SEEDS for weight in (0.0, 0.4)]
    return (*paper, *room)


def two_coins() -> tuple[Job, ...]:
    """Return Fig. 2 (right)."""
    return tuple(maze_job(2, 150_000, seed, weight) for seed in SEEDS for weight in (0.0, 0.2, 0.4, 0.8))


def traces() -> tuple[Job, ...]:
    """Return Fig. 4, in the maze: DQN and the three trace computations. DQN and TCP are runs of `two_coins`."""
    jobs = []
    for seed in SEEDS:
        jobs += [maze_job(2, 150_000, seed, 0.0), maze_job(2, 150_000, seed, 0.4)]
        jobs += [maze_job(2, 150_000, seed, 0.4, trace=trace) for trace in ("n-step", "kbrl")]
    return tuple(jobs)


SINGLE_EPISODE_WEIGHTS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
SINGLE_EPISODE_STEPS = 300_000


def single_episodes() -> tuple[Job, ...]:
    """Return Fig. 2 (left): networks trained without EVA, and single episodes with and without it."""
    play = Play(SINGLE_EPISODE_STEPS, SINGLE_EPISODE_WEIGHTS, num_episodes=200)
    return tuple(replace(maze_job(4, SINGLE_EPISODE_STEPS, seed, 0.0), plays=(play,)) for seed in SEEDS[:3])


CONSOLIDATION_STEPS = 100_000
ANNEAL_START, ANNEAL_STEPS = 60_000, 20_000


def consolidation() -> tuple[Job, ...]:
    """Return the weight annealed to 0, with single episodes before and after it, and the weight kept as it is."""
    plays = tuple(Play(steps, (0.0, 0.4), num_episodes=200) for steps in (ANNEAL_START, CONSOLIDATION_STEPS))
    jobs = []
    for seed in SEEDS:
        kept = maze_job(1, CONSOLIDATION_STEPS, seed, 0.4)
        eva = replace(kept.config.eva, anneal_start_transitions=ANNEAL_START, anneal_transitions=ANNEAL_STEPS)
        annealed = replace(kept.config, eva=eva)
        jobs.append(Job(Path("consolidation", "annealed", f"seed-{seed}"), annealed, plays))
        jobs.append(replace(kept, directory=Path("consolidation", "kept", f"seed-{seed}"), plays=plays))
    return tuple(jobs)


LEARNING_RATES = (2.5e-4, 5e-4, 1e-3)
TARGET_PERIODS = (20, 50, 200)


def tuning() -> tuple[Job, ...]:
    """Return the search for the learner's numbers, at weight 0 (P16)."""
    return tuple(
        _tuned(seed, learning_rate, target_period)
        for seed in TUNING_SEEDS
        for target_period in TARGET_PERIODS
        for learning_rate in LEARNING_RATES
    )


def _tuned(seed: int, learning_rate: float, target_period: int) -> Job:
    """Return one point of the search. What is searched for is given here: presets follow the search, not it them."""
    config = maze_job(1, 60_000, seed, 0.0).config
    learner = replace(config.learner, learning_rate=learning_rate, target_period_updates=target_period)
    arm = f"rate-{learning_rate:g}-target-{target_period}"
    return Job(Path("maze-tuning", arm, f"seed-{seed}"), replace(config, learner=learner))
