"""A replay memory of random play, without training."""

import numpy as np

from eva.agent.memory.replay import STEP, TERMINATION
from eva.types import State, VectorEnvironment

DISCOUNT = 0.99


def random_play(environment: VectorEnvironment, num_slots: int) -> State:
    """Play at random; returns the replay buffer's state without embeddings, lane after lane.

    Truncated episodes continue, which makes no difference to speed.
    """
    generator = np.random.default_rng(0)
    num_environments = environment.spec.num_environments
    lane_capacity = num_slots // num_environments
    observations = environment.reset()
    rows = []
    for actions in generator.integers(environment.spec.num_actions, size=(lane_capacity, num_environments)):
        outcome = environment.step(actions)
        rows.append((observations, actions, outcome.rewards, outcome.terminated))
        observations = outcome.observations
    seen, actions, rewards, terminated = (
        np.concatenate(np.stack(column, axis=1)) for column in zip(*rows, strict=True)
    )
    return {
        "observations": seen,
        "actions": actions,
        "rewards": rewards,
        "discounts": np.where(terminated, 0.0, DISCOUNT),
        "kinds": np.where(terminated, TERMINATION, STEP),
        "lane_counts": np.full(num_environments, lane_capacity),
        "born": np.arange(len(seen)).reshape(lane_capacity, num_environments).T.reshape(-1),
    }
