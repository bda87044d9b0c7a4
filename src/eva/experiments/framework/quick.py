"""Experiments shortened to a minute, to check that they run; nothing is learned."""

from collections.abc import Sequence
from dataclasses import replace

from eva.experiments.framework.common import changed
from eva.experiments.framework.definition import Arm
from eva.runs.sweep.jobs import Job

STEPS = 400
MOST_JOBS = 8
CHANGES = {
    "steps": STEPS,
    "maze.max_episode_steps": 20,
    "atari.max_episode_frames": 80,
    "replay.replay_capacity": 200,
    "learner.learning_starts_transitions": 100,
    "exploration.epsilon_decay_transitions": 200,
    "eva.trajectory_length": 10,
    "eva.value_buffer_capacity": 100,
    "evaluation.num_episodes": 3,
    "run.metrics_period_transitions": 100,
}


def quick(arms: Sequence[Arm]) -> tuple[Arm, ...]:
    """Return the same arms with short runs and few seeds."""
    num_seeds = max(1, MOST_JOBS // max(1, len({arm.jobs for arm in arms})))
    return tuple(replace(arm, jobs=tuple(map(_shortened, arm.jobs[:num_seeds]))) for arm in arms)


def _shortened(job: Job) -> Job:
    share, eva, changes = STEPS / job.config.steps, job.config.eva, dict(CHANGES)
    if eva.anneal_start_transitions is not None:
        changes["eva.anneal_start_transitions"] = round(share * eva.anneal_start_transitions)
        changes["eva.anneal_transitions"] = round(share * eva.anneal_transitions)
    if job.config.evaluation.period_transitions is not None:
        changes["evaluation.period_transitions"] = round(share * job.config.evaluation.period_transitions)
    return replace(job, config=changed(job.config, changes))
