"""Evaluate single episodes with a frozen network and memory, with and without EVA, as in the paper (P28)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from eva.agent.agent import EVAAgent
from eva.build import build_environment, build_player
from eva.config import Config
from eva.errors import UserError
from eva.runs.loading import load_run
from eva.runs.record.episodes import EpisodeTracker
from eva.runs.sweep.jobs import EPSILON
from eva.types import Ints, VectorEnvironment


@dataclass(frozen=True)
class Evaluation:
    """Single episodes played with one weight; episode i starts in the same state for every weight."""

    nonparametric_weight: float
    episode_returns: NDArray[np.float64]  # (n,)
    episode_lengths: Ints  # (n,)
    changed_share: float | None  # share of EVA's decisions that changed the greedy action; None without EVA


def evaluate(
    run: Path | str, weights: Sequence[float], num_episodes: int, *, seed: int = 0, epsilon: float = EPSILON
) -> list[Evaluation]:
    """Play single episodes with each weight of Q_NP.

    Network and memory are frozen, the value buffer is empty at each episode's start, planning is as in training, and
    start states and random numbers are the same for every weight.

    Args:
        run: A finished run directory.
        weights: Weights of Q_NP; 0 uses the network alone.
        num_episodes: Number of episodes for each weight.
        seed: Seed of start states and exploration; independent of all training seeds.
        epsilon: Probability of a random action.
    """
    if num_episodes < 1 or not weights or not all(0 <= share <= 1 for share in (*weights, epsilon)) or seed < 0:
        raise UserError("evaluate at least 1 episode and 1 weight, weights and epsilon from 0 to 1, a seed from 0 on.")
    config, agent = load_run(run)
    torch.set_num_threads(config.run.threads)
    return [_evaluate(config, agent, weight, num_episodes, seed, epsilon) for weight in weights]


def stage(
    config: Config, agent: EVAAgent, weight: float, sequence: np.random.SeedSequence, epsilon: float
) -> tuple[VectorEnvironment, EVAAgent]:
    """Return the environment and agent of a single episode; `sequence` seeds its start and exploration."""
    environment_seed, exploration_seed = (int(word) for word in sequence.generate_state(2))
    one = replace(config.environment, num_environments=1)
    environment = build_environment(replace(config, seed=environment_seed, environment=one))
    return environment, build_player(config, agent, weight, epsilon, exploration_seed)


def _evaluate(
    config: Config, agent: EVAAgent, weight: float, num_episodes: int, seed: int, epsilon: float
) -> Evaluation:
    played = [_play(config, agent, weight, np.random.SeedSequence([seed, i]), epsilon) for i in range(num_episodes)]
    decided = [(length, share) for _, length, share in played if share is not None]
    num_decisions = sum(length for length, _ in decided)
    num_changed = sum(length * share for length, share in decided)
    return Evaluation(
        nonparametric_weight=weight,
        episode_returns=np.array([episode_return for episode_return, _, _ in played]),
        episode_lengths=np.array([length for _, length, _ in played]),
        changed_share=num_changed / num_decisions if decided else None,
    )


def _play(
    config: Config, agent: EVAAgent, weight: float, sequence: np.random.SeedSequence, epsilon: float
) -> tuple[float, int, float | None]:
    """Play one episode; returns its return, its length, and the share of decisions that EVA changed."""
    environment, player = stage(config, agent, weight, sequence, epsilon)
    episodes = EpisodeTracker(1)
    with closing(environment):
        observations = environment.reset()
        while True:
            actions = player.act(observations)
            player.plan()
            outcome = environment.step(actions)
            observations = outcome.observations
            for episode in episodes.add(0, outcome):
                return episode.episode_return, episode.episode_length, player.monitor.means.take().get("changed_share")
