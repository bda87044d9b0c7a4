"""Experiments cut down to a minute, to see that they work: they learn nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eva.runs.jobs import Job, Play

STEPS = 400
MOST_JOBS, NUM_EPISODES = 8, 3


def quick(jobs: Sequence[Job]) -> tuple[Job, ...]:
    """Return the same jobs with everything small: of one seed, or of a few where that makes few jobs."""
    seeds = sorted({job.config.seed for job in jobs})
    num_seeds = max(1, MOST_JOBS * len(seeds) // len(jobs))
    return tuple(_shortened(job) for job in jobs if job.config.seed in seeds[:num_seeds])


def _shortened(job: Job) -> Job:
    config = job.config
    share = STEPS / config.steps
    eva = replace(config.eva, trajectory_length=10, value_buffer_capacity=100)
    if eva.anneal_start_transitions is not None:
        start, length = round(share * eva.anneal_start_transitions), round(share * eva.anneal_transitions)
        eva = replace(eva, anneal_start_transitions=start, anneal_transitions=length)
    small = replace(
        config,
        steps=STEPS,
        maze=replace(config.maze, max_episode_steps=20),
        replay=replace(config.replay, replay_capacity=200),
        learner=replace(config.learner, learning_starts_transitions=100),
        exploration=replace(config.exploration, epsilon_decay_transitions=200),
        eva=eva,
        run=replace(config.run, metrics_period_transitions=100),
    )
    plays = tuple(Play(round(share * play.steps), play.weights, NUM_EPISODES, play.seed) for play in job.plays)
    return replace(job, config=small, plays=plays)
