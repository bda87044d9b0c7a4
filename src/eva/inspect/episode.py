"""Play an episode with a trained agent and record what each decision was based on."""

from contextlib import closing
from dataclasses import dataclass

import numpy as np

from eva.agent.agent import EVAAgent
from eva.build import EnvironmentFactory, build_player
from eva.config import Config
from eva.errors import check_rewards
from eva.inspect.pictures import PICTURE_SIZE, thumbnails
from eva.runs.evaluate import environment_and_exploration
from eva.types import EnvironmentSpec, Explanation, Floats, Observations, Pictured, Pictures, VectorEnvironment

NEIGHBOUR_FACTOR = 2
"""The page offers k up to this multiple of the run's own number of neighbours (P106)."""


@dataclass(frozen=True)
class RecordedDecision:
    """One step of the episode."""

    observation: Observations
    embedding: Floats  # (D,)
    explanation: Explanation
    action: int  # the action taken, which may be an exploratory one
    reward: float
    picture: Pictures | None = None  # (height, width, 3), at most PICTURE_SIZE; of observations that are vectors


@dataclass(frozen=True)
class PlayedEpisode:
    """An episode, or its first `max_steps` decisions."""

    spec: EnvironmentSpec
    decisions: tuple[RecordedDecision, ...]
    ended: bool  # false if it was cut short

    @property
    def total_return(self) -> float:
        """The sum of rewards."""
        return sum(each.reward for each in self.decisions)

    @property
    def num_changed(self) -> int:
        """The number of decisions that the memory changed."""
        return sum(each.explanation.changed for each in self.decisions)


def play(
    config: Config,
    agent: EVAAgent,
    weight: float,
    seed: int,
    epsilon: float,
    max_steps: int,
    make_environment: EnvironmentFactory | None = None,
) -> PlayedEpisode:
    """Play the first single episode that `eva.runs.evaluate` plays with this seed (P28, P105)."""
    sequence = np.random.SeedSequence([seed, 0])
    environment, explore = environment_and_exploration(config, sequence, epsilon, make_environment, draws=True)
    player = build_player(config, agent, weight, num_episodes=1)
    decisions: list[RecordedDecision] = []
    ended = False
    with closing(environment):
        observations = environment.reset()
        while not ended and len(decisions) < max_steps:
            actions = explore(player.act(observations), 0)
            picture = _picture(environment)
            explanation = player.explain(observations[0], num_neighbours=NEIGHBOUR_FACTOR * config.eva.num_neighbours)
            player.plan()  # after explaining: the decision came before this plan
            embedding = player.decision.embeddings[0].cpu().numpy()
            outcome = environment.step(actions)
            check_rewards(outcome.rewards.tolist(), len(decisions) + 1)
            reward = float(outcome.rewards[0])
            decided = (embedding, explanation, int(actions[0]), reward)
            decisions.append(RecordedDecision(observations[0], *decided, picture))
            observations = outcome.observations
            ended = bool(outcome.terminated[0] or outcome.truncated[0])
    return PlayedEpisode(environment.spec, tuple(decisions), ended)


def _picture(environment: VectorEnvironment) -> Pictures | None:
    """Return a small picture of the state if the observation is a vector and the environment can draw."""
    is_vector = len(environment.spec.observation_shape) == 1
    picture = environment.picture if is_vector and isinstance(environment, Pictured) else None
    return None if picture is None else thumbnails(picture[None], PICTURE_SIZE)[0]
