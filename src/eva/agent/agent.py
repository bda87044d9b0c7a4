"""EVAAgent: Algorithm 1, the adjuster beside a DQN."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from eva.agent.adjuster import EphemeralValueAdjuster
from eva.agent.exploration import EpsilonGreedy, LinearSchedule
from eva.agent.learner import Learner
from eva.agent.metrics import RunningMeans
from eva.agent.tensors import to_device
from eva.errors import UserError
from eva.types import Bools, Explanation, Ints, Observations, State, StepOutcome


class DivergedError(UserError):
    """The network's values are infinite or not numbers: there is nothing left to decide by."""


@dataclass(frozen=True)
class _Decision:
    """What `observe` must still know of the states that were acted in."""

    observations: Observations  # (E, ...)
    embeddings: Tensor  # (E, D)
    actions: Ints  # (E,)


class EVAAgent:
    """A value-based agent that, before it acts, remembers.

    Call `act`, step the environments, call `observe`, and so on.

    Args:
        learner: The slow system: Q_theta and its training.
        adjuster: The fast system; both systems read its memory.
        exploration: Chooses between greedy and random actions.
        nonparametric_weight: The weight of Q_NP, and its annealing. While it is 0 the adjuster is not called.
        generator: Draws the learner's batches.
        batch_size: B.
        learning_starts_transitions: No updates before.
        update_period_steps: Agent steps from one update to the next (P17, P27).
        adjust_when_full: EVA applies from when the replay buffer is full; else from when learning starts (P9).
        clip_rewards: Learn from and plan with rewards clipped to [-1, 1] (P65).
    """

    def __init__(
        self,
        learner: Learner,
        adjuster: EphemeralValueAdjuster,
        exploration: EpsilonGreedy,
        nonparametric_weight: LinearSchedule,
        generator: np.random.Generator,
        *,
        batch_size: int,
        learning_starts_transitions: int,
        update_period_steps: int,
        adjust_when_full: bool,
        clip_rewards: bool,
    ) -> None:
        self.learner = learner
        self.adjuster = adjuster
        self.replay = adjuster.memory
        self.exploration = exploration
        self.nonparametric_weight = nonparametric_weight
        self.generator = generator
        self.device = self.replay.embeddings.device
        self.num_steps = 0
        self.transitions = 0
        self.means = RunningMeans()
        self.largest_value = 0.0  # of |Q_theta| over all states acted in
        self._batch_size = batch_size
        self._learning_starts_transitions = learning_starts_transitions
        self._update_period_steps = update_period_steps
        self._adjust_when_full = adjust_when_full
        self._clip_rewards = clip_rewards
        self._decision: _Decision | None = None

    @property
    def weight(self) -> float:
        """The weight of Q_NP that the next decision is made with; 0 while EVA does not apply yet."""
        applies = self.replay.is_full if self._adjust_when_full else self._is_learning
        return self.nonparametric_weight(self.transitions) if applies and self.replay.num_complete > 0 else 0.0

    @property
    def _is_learning(self) -> bool:
        return self.transitions >= self._learning_starts_transitions and self.replay.num_complete > 0

    @torch.no_grad()
    def act(self, observations: Observations) -> Ints:
        """Choose an action in every environment, (E,), for observations (E, ...)."""
        q_theta, h = self.learner.network(to_device(observations, self.device))
        values = q_theta.cpu().numpy()
        greedy = values.argmax(axis=1)
        self.largest_value = max(float(np.abs(values).max()), self.largest_value)  # NaN stays, being first
        if not math.isfinite(self.largest_value):
            raise DivergedError(
                "the network's values are infinite or not numbers: see that the observations are finite, and train the "
                "run again if they are."
            )
        weight = self.weight
        if weight > 0:
            adjusted_greedy = self.adjuster.adjust(values, h, weight).argmax(axis=1)
            self.means.add("changed_share", greedy != adjusted_greedy)
            greedy = adjusted_greedy
        self.means.add("value", values.max(axis=1))
        actions = self.exploration(greedy, self.transitions)
        self._decision = _Decision(observations, h, actions)
        return actions

    def read_ahead(self) -> None:
        """Begin to read the batch that `observe` will learn from, while the environments step; it only saves time."""
        if self._is_learning and (self.num_steps + 1) % self._update_period_steps == 0:
            self.replay.read_ahead(self.generator, self._batch_size)

    def observe(self, outcome: StepOutcome) -> None:
        """Plan, store what came of the last actions, and learn: the rest of Algorithm 1's inner loop."""
        decision = self.plan(self.replay.episode_starts)  # P22: before this state is stored
        self._store(decision, outcome)
        self.num_steps += 1
        self.transitions += len(outcome.rewards)
        if self._is_learning and self.num_steps % self._update_period_steps == 0:
            slots = self.replay.sample(self.generator, self._batch_size)
            update = self.learner.update(self.replay.batch(slots))
            self.means.add("loss", update.loss)
            if update.absolute_errors is not None:
                self.replay.prioritise(slots, update.absolute_errors)

    def plan(self, episode_starts: Bools | None = None) -> _Decision:
        """Plan for the states that were just acted in, if it is due; alone, it changes neither memory nor network."""
        decision, self._decision = self._decision, None
        if decision is None:
            raise RuntimeError("call act before observe or plan")
        if self.weight > 0:
            self.adjuster.plan(decision.embeddings, episode_starts)
        return decision

    @torch.no_grad()
    def explain(
        self, observation: Observations, environment: int = 0, num_neighbours: int | None = None
    ) -> Explanation:
        """Tell why the agent would value `observation` as it does; nothing changes by it.

        Args:
            observation: One, without a batch dimension.
            environment: Whose value buffer to read, where each has its own (P8).
            num_neighbours: How many to tell of; by default the K that the values are the mean of.
        """
        q_theta, h = self.learner.network(to_device(observation[None], self.device))
        return self.adjuster.explain(q_theta[0], h[0], self.weight, environment, num_neighbours)

    def get_state(self) -> State:
        """Return all that decides the future; between `observe` and `act`."""
        return {
            "learner": self.learner.get_state(),
            "replay": self.replay.get_state(),
            "adjuster": self.adjuster.get_state(),
            "exploration": self.exploration.generator.bit_generator.state,
            "sampling": self.generator.bit_generator.state,
            "num_steps": self.num_steps,
            "transitions": self.transitions,
            "means": self.means.get_state(),
            "largest_value": self.largest_value,
        }

    def set_state(self, state: State) -> None:
        """Continue from there."""
        self.learner.set_state(state["learner"])
        self.replay.set_state(state["replay"])
        self.adjuster.set_state(state["adjuster"])
        self.exploration.generator.bit_generator.state = state["exploration"]
        self.generator.bit_generator.state = state["sampling"]
        self.num_steps, self.transitions = state["num_steps"], state["transitions"]
        self.means.set_state(state["means"])
        self.largest_value = state["largest_value"]

    @torch.no_grad()
    def cut_episodes(self, observations: Observations) -> None:
        """End all running episodes as truncated in the states `observations`, (E, ...); new ones begin."""
        (running,) = (~self.replay.episode_starts).nonzero()
        if len(running) > 0:
            self._close(running, observations[running])

    def metrics(self) -> dict[str, float]:
        """Return where the agent stands, and the means of what it did since the last call."""
        return {
            "epsilon": self.exploration.epsilon(self.transitions),
            "weight": self.weight,
            "updates": self.learner.num_updates,
            "replay_transitions": self.replay.num_complete,
            "value_buffer_entries": sum(map(len, self.adjuster.value_buffers)),
            **self.replay.index.metrics(),
            **self.means.take(),
        }

    @torch.no_grad()
    def _store(self, decision: _Decision, outcome: StepOutcome) -> None:
        self.replay.append(
            decision.observations,
            decision.actions,
            np.clip(outcome.rewards, -1.0, 1.0) if self._clip_rewards else outcome.rewards,
            outcome.terminated,
            decision.embeddings,
        )
        (truncated,) = outcome.truncated.nonzero()
        if len(truncated) > 0:
            self._close(truncated, outcome.last_observations[truncated])

    def _close(self, lanes: Ints, last_observations: Observations) -> None:
        _, h = self.learner.network(to_device(last_observations, self.device))
        self.replay.close(lanes, last_observations, h)
