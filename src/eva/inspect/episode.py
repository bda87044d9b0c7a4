"""Play an episode with a finished run, and keep what every decision was based on."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

import numpy as np

from eva.agent.agent import EVAAgent
from eva.config import Config
from eva.runs.evaluate import stage
from eva.types import EnvironmentSpec, Explanation, Floats, Observations

TOLD = 2
"""The page can show up to so many times the neighbours that the run averages (P106)."""


@dataclass(frozen=True)
class Decision:
    """One step of the episode."""

    observation: Observations
    embedding: Floats  # (D,)
    explanation: Explanation
    action: int  # the one taken, which exploration may have drawn
    reward: float


@dataclass(frozen=True)
class Episode:
    """An episode, or its beginning."""

    spec: EnvironmentSpec
    decisions: tuple[Decision, ...]
    ended: bool  # or cut short for its length


def play(config: Config, agent: EVAAgent, weight: float, seed: int, epsilon: float, max_steps: int) -> Episode:
    """Play the first of the single episodes that `eva.runs.evaluate` plays with this seed (P28, P105)."""
    environment, player = stage(config, agent, weight, np.random.SeedSequence([seed, 0]), epsilon)
    decisions: list[Decision] = []
    ended = False
    with closing(environment):
        observations = environment.reset()
        while not ended and len(decisions) < max_steps:
            actions = player.act(observations)
            explanation = player.explain(observations[0], num_neighbours=TOLD * config.eva.num_neighbours)
            embedding = player.plan().embeddings[0].cpu().numpy()  # after explaining: the decision did not know it
            outcome = environment.step(actions)
            reward = float(outcome.rewards[0])
            decisions.append(Decision(observations[0], embedding, explanation, int(actions[0]), reward))
            observations = outcome.observations
            ended = bool(outcome.terminated[0] or outcome.truncated[0])
    return Episode(environment.spec, tuple(decisions), ended)
