"""Play single episodes with a frozen network and memory, with and without EVA, as in the paper (P28)."""

import copy
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from eva.agent.agent import EVAAgent
from eva.agent.exploration import EpsilonGreedy, LinearSchedule
from eva.build import EnvironmentFactory, NetworkSource, build_environment, build_player, generators
from eva.config import EVALUATION_EPISODES, EVALUATION_EPSILON, EVALUATION_WEIGHTS, Config
from eva.errors import UserError
from eva.runs.accuracy import accuracies
from eva.runs.loading import load_run
from eva.runs.record.episodes import Episode, EpisodeTracker, Evaluation
from eva.runs.video import Video
from eva.schema import Count, CountOrZero, Share, Shares, fits, in_words
from eva.types import VectorEnvironment

MAX_TOGETHER = 50
"""Episodes played side by side, with one call of the network: in our own environments, of which there can be many."""


def evaluate(
    run: Path | str,
    weights: Sequence[float] = EVALUATION_WEIGHTS,
    num_episodes: int = EVALUATION_EPISODES,
    *,
    seed: int = 0,
    epsilon: float = EVALUATION_EPSILON,
    video: Path | str | None = None,
    network: NetworkSource | None = None,
    environment: EnvironmentFactory | None = None,
) -> list[Evaluation]:
    """Play `num_episodes` single episodes of a run with each weight of Q_NP; 0 is the network alone.

    Network and memory are frozen, the value buffer is empty at each episode's start, and planning is as in training.
    `seed` determines start states and exploration, the same for every weight and independent of training seeds.
    `epsilon` is the probability of a random action. `video` is a file that ends in .mp4 or .gif: it shows the first
    episode with the last of the weights, and changes no return. An unfinished run is evaluated from its newest
    checkpoint. A run with a network or an environment of your own needs it again.
    """
    if not isinstance(weights, Sequence):
        raise UserError(f"weights is {weights!r}, but must be a list of weights: weights=[{weights!r}].")
    asked = {"weights": (tuple(weights), Shares), "num_episodes": (num_episodes, Count), "seed": (seed, CountOrZero)}
    for name, (value, hint) in {**asked, "epsilon": (epsilon, Share)}.items():
        if not fits(value, hint):
            raise UserError(f"{name} is {value!r}, but must be {in_words(hint)}.")
    if not weights:
        raise UserError("there is no weight to evaluate: give at least one; 0 is the network alone.")
    film = None if video is None else Video(Path(video))
    config, agent = load_run(run, network=network, environment=environment)
    torch.set_num_threads(config.run.threads)
    with film or nullcontext():
        films = [None] * (len(weights) - 1) + [film]
        return [
            _evaluate(config, agent, weight, num_episodes, seed, epsilon, environment, each)
            for weight, each in zip(weights, films, strict=True)
        ]


def evaluate_in_training(
    config: Config, agent: EVAAgent, make_environment: EnvironmentFactory | None = None
) -> Iterator[Evaluation | dict[str, Any]]:
    """Yield the evaluations that `config.evaluation` asks for, then the lines of comparisons with exact values.

    Everything that training depends on stays as it is.
    """
    evaluation, index = config.evaluation, agent.replay.index
    search_state = copy.deepcopy(index.search_state())
    for epsilon in evaluation.epsilons:
        for weight in evaluation.weights:
            num_episodes, seed = evaluation.num_episodes, evaluation.seed
            yield _evaluate(config, agent, weight, num_episodes, seed, epsilon, make_environment)
    if evaluation.accuracy:
        yield from accuracies(config, agent)
    index.load_search_state(search_state)


def environment_and_exploration(
    config: Config,
    sequence: np.random.SeedSequence,
    epsilon: float,
    make_environment: EnvironmentFactory | None = None,
    *,
    draws: bool = False,
) -> tuple[VectorEnvironment, EpsilonGreedy]:
    """Return the environment of a single episode and its exploration, both seeded by `sequence`.

    With `draws`, the environment has a `picture` of each state if it can draw.
    """
    environment_seed, exploration_seed = (int(word) for word in sequence.generate_state(2))
    one = replace(config.environment, num_environments=1)
    seeded = replace(config, seed=environment_seed, environment=one)
    environment = build_environment(seeded, environment=make_environment, draws=draws)
    generator = generators(exploration_seed)["exploration"]
    return environment, EpsilonGreedy(environment.spec.num_actions, LinearSchedule(epsilon, epsilon), generator)


def _evaluate(
    config: Config,
    agent: EVAAgent,
    weight: float,
    num_episodes: int,
    seed: int,
    epsilon: float,
    make_environment: EnvironmentFactory | None,
    film: Video | None = None,
) -> Evaluation:
    sequences = [np.random.SeedSequence([seed, i]) for i in range(num_episodes)]
    episodes: list[Episode] = []
    num_changed: float | None = None  # None without EVA
    num_together = MAX_TOGETHER if config.environment.is_ours else 1
    for first in range(0, num_episodes, num_together):
        chosen, recorder = sequences[first : first + num_together], film if first == 0 else None
        together, changed_share = _play(config, agent, weight, chosen, epsilon, make_environment, recorder)
        episodes += together
        if changed_share is not None:
            num_changed = (num_changed or 0.0) + changed_share * sum(each.episode_length for each in together)
    lengths = np.array([episode.episode_length for episode in episodes])
    return Evaluation(
        step=agent.transitions,
        nonparametric_weight=weight,
        epsilon=epsilon,
        episode_returns=np.array([episode.episode_return for episode in episodes]),
        episode_lengths=lengths,
        changed_share=None if num_changed is None else num_changed / lengths.sum(),
    )


def _play(
    config: Config,
    agent: EVAAgent,
    weight: float,
    sequences: Sequence[np.random.SeedSequence],
    epsilon: float,
    make_environment: EnvironmentFactory | None,
    film: Video | None,
) -> tuple[list[Episode], float | None]:
    """Play one episode for each sequence, side by side; returns them, and the share of decisions that EVA changed.

    `film` records the first episode.
    """
    player = build_player(config, agent, weight, len(sequences))
    pairs = [
        environment_and_exploration(config, sequence, epsilon, make_environment, draws=film is not None and i == 0)
        for i, sequence in enumerate(sequences)
    ]
    trackers = [EpisodeTracker(1) for _ in sequences]
    finished: dict[int, Episode] = {}
    with ExitStack() as stack:
        for environment, _ in pairs:
            stack.enter_context(closing(environment))
        running = list(range(len(pairs)))
        observations = np.concatenate([environment.reset() for environment, _ in pairs])
        if film is not None:
            film.add(pairs[0][0], observations[0])
        while running:
            greedy = player.act(observations)
            player.plan()
            rows, following = [], []
            for row, i in enumerate(running):
                environment, explore = pairs[i]
                outcome = environment.step(explore(greedy[row : row + 1], 0))
                if film is not None and i == 0:
                    film.add(environment, outcome.last_observations[0])
                ended = trackers[i].add(0, outcome)
                if ended:
                    finished[i] = ended[0]
                else:
                    rows.append(row)
                    following.append(outcome.observations)
            running = [running[row] for row in rows]
            if 0 < len(rows) < len(greedy):
                player.adjuster.keep(rows)
            observations = np.concatenate(following) if following else observations
    return [finished[i] for i in range(len(pairs))], player.monitor.take().get("changed_share")
