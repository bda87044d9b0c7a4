"""Use a trained agent: observations in, actions out."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from eva.agent.agent import EVAAgent
from eva.agent.exploration import EpsilonGreedy, LinearSchedule
from eva.build import EnvironmentFactory, NetworkSource, build_player
from eva.config import Device
from eva.errors import UserError
from eva.runs.loading import LoadedRun, load
from eva.schema import CountOrZero, Share, fits
from eva.types import Ints


class Policy:
    """Chooses actions as `eva evaluate` does: network and memory are frozen, and the plans are its own.

    Calling it changes nothing but its plans, which belong to the running episodes: call `reset` when new ones begin.
    """

    def __init__(self, loaded: LoadedRun, weight: float, epsilon: float, seed: int) -> None:
        self.config, self.spec = loaded.config, loaded.spec
        self.weight = weight  # of Q_NP; 0 is the network alone
        self.step = loaded.agent.transitions  # that network and memory were trained for
        self._agent = loaded.agent
        self._player: EVAAgent | None = None
        self._num_episodes = 0
        generator = np.random.default_rng(seed)
        self._explore = EpsilonGreedy(self.spec.num_actions, LinearSchedule(epsilon, epsilon), generator)

    def __call__(self, observation: npt.ArrayLike) -> Any:
        """Return the action for one observation, an integer, or those for a batch, (n, ...), an array of shape (n,).

        Rows of a batch are episodes side by side: pass them in the same order until `reset`.
        """
        observations, shape = np.asarray(observation, self.spec.observation_dtype), self.spec.observation_shape
        if observations.shape == shape:
            return int(self._act(observations[None])[0])
        if observations.shape[1:] == shape and len(observations) > 0:
            return self._act(observations)
        raise UserError(f"the policy takes an observation of shape {shape} or a batch, not {observations.shape}.")

    act = __call__

    def reset(self) -> None:
        """Drop all plans: the next call begins new episodes."""
        self._player = None

    def _act(self, observations: npt.NDArray[Any]) -> Ints:
        if self._player is None or (self.weight == 0 and self._num_episodes != len(observations)):
            self._num_episodes = len(observations)
            self._player = build_player(self.config, self._agent, self.weight, self._num_episodes)
        if self._num_episodes != len(observations):
            raise UserError(
                f"the policy plans for {self._num_episodes} episode(s), but got {len(observations)} observation(s): "
                "call policy.reset() when new episodes begin."
            )
        greedy = self._player.act(observations)
        self._player.plan()
        return self.spec.first_action + self._explore(greedy, 0)


def load_policy(
    run: Path | str,
    *,
    weight: float | None = None,
    epsilon: float = 0.0,
    seed: int = 0,
    device: Device = "cpu",
    network: NetworkSource | None = None,
    environment: EnvironmentFactory | None = None,
) -> Policy:
    """Return the policy of a run: finished, stopped or running (then of its newest checkpoint).

    `weight` is that of Q_NP, by default the run's own; 0 is the network alone. `epsilon` is the probability of a random
    action, drawn with `seed`. A run with a network or an environment of your own needs it again.
    """
    if not (weight is None or fits(weight, Share)) or not fits(epsilon, Share) or not fits(seed, CountOrZero):
        raise UserError("load_policy takes a weight and an epsilon from 0 to 1, and a seed of at least 0.")
    loaded = load(run, device, network, environment)
    return Policy(loaded, loaded.config.eva.nonparametric_weight if weight is None else weight, epsilon, seed)
