"""Fill a replay memory with random play, without training."""

import numpy as np
import torch

from eva.agent.agent import EVAAgent
from eva.agent.memory.replay import STEP, TERMINATION
from eva.types import Observations, State, VectorEnvironment

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


def fill(agent: EVAAgent, environment: VectorEnvironment, num_slots: int) -> None:
    """Fill the agent's memory of `num_slots` with random play; it then learns from the first step."""
    memory = random_play(environment, num_slots)
    agent.replay.load_state_dict({**memory, "embeddings": embed(agent, memory["observations"])})
    agent.transitions = num_slots


@torch.no_grad()
def embed(agent: EVAAgent, observations: Observations) -> torch.Tensor:
    """Return the embeddings of observations, (n, D)."""
    parts = torch.from_numpy(observations).split(1_000)
    return torch.cat([agent.learner.network(part.to(agent.device))[1] for part in parts])
