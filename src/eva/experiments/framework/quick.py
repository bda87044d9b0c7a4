"""Experiments shortened to a minute, to check that they run; nothing is learned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eva.experiments.framework.definition import Arm
from eva.runs.sweep.jobs import Job

STEPS = 400
MOST_JOBS, NUM_EPISODES = 8, 3


def quick(arms: Sequence[Arm]) -> tuple[Arm, ...]:
    """Return the same arms with short runs and few seeds."""
    num_seeds = max(1, MOST_JOBS // max(1, len({arm.jobs for arm in arms})))
    return tuple(replace(arm, jobs=tuple(map(_shortened, arm.jobs[:num_seeds]))) for arm in arms)


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
        atari=replace(config.atari, max_episode_frames=80),
        replay=replace(config.replay, replay_capacity=200),
        learner=replace(config.learner, learning_starts_transitions=100),
        exploration=replace(config.exploration, epsilon_decay_transitions=200),
        eva=eva,
        run=replace(config.run, metrics_period_transitions=100),
    )
    plays = tuple(replace(play, steps=round(share * play.steps), num_episodes=NUM_EPISODES) for play in job.plays)
    return replace(job, config=small, plays=plays)
