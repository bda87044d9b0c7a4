"""An agent for Pong with a full memory, filled in minutes instead of hours."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import torch

from eva.agent.agent import EVAAgent
from eva.build import build_agent, build_environment
from eva.presets import preset
from eva.types import StepOutcome, VectorEnvironment

NUM_PLAYED = 2_000  # steps of random play, repeated until the memory is full
NOISE = 0.01  # relative noise of the embeddings: in a real memory no two embeddings are equal


def pong(
    weight: float,
    replay_capacity: int,
    frames: Literal["raw", "compressed"] = "raw",
    precision: Literal["float32", "bfloat16"] = "float32",
) -> tuple[EVAAgent, VectorEnvironment]:
    """Return the paper's agent with a full memory, and its environments. It uses torch's number of threads."""
    config = preset("atari")
    config = replace(
        config,
        replay=replace(config.replay, replay_capacity=replay_capacity, frames=frames),
        learner=replace(config.learner, precision=precision),
        eva=replace(config.eva, nonparametric_weight=weight),
        run=replace(config.run, device="cpu", threads=torch.get_num_threads()),
    )
    environment = build_environment(config)
    agent = build_agent(config, environment.spec)
    fill(agent, environment, replay_capacity)
    return agent, environment


@torch.no_grad()
def fill(agent: EVAAgent, environment: VectorEnvironment, replay_capacity: int) -> None:
    """Fill the memory with repeated random play and noisy embeddings."""
    generator = np.random.default_rng(0)
    played = play(environment, generator)
    embeddings = [agent.learner.network(torch.from_numpy(observations))[1] for observations, _, _ in played]
    num_steps = -(-replay_capacity // environment.spec.num_environments) + 1
    for number in range(num_steps):
        observations, actions, outcome = played[number % NUM_PLAYED]
        h = embeddings[number % NUM_PLAYED]
        noise = torch.from_numpy(generator.standard_normal(h.shape, np.float32))
        agent.replay.append(
            observations, actions, outcome.rewards, outcome.terminated, (h * (1 + NOISE * noise)).relu_()
        )
    agent.transitions = num_steps * environment.spec.num_environments


def play(
    environment: VectorEnvironment, generator: np.random.Generator
) -> list[tuple[np.ndarray, np.ndarray, StepOutcome]]:
    """Play at random and return observations, actions and outcomes."""
    played = []
    observations = environment.reset()
    for _ in range(NUM_PLAYED):
        actions = generator.integers(environment.spec.num_actions, size=environment.spec.num_environments)
        outcome = environment.step(actions)
        played.append((observations, actions, outcome))
        observations = outcome.observations
    return played
