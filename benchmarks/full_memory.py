"""Fill an agent's replay memory with random play, without training."""

from __future__ import annotations

import torch

from eva.agent.agent import EVAAgent
from eva.experiments.timing.random_play import random_play
from eva.types import Observations, VectorEnvironment


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
