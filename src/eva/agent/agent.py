"""EVAAgent: Algorithm 1, the adjuster beside a DQN."""

from dataclasses import KW_ONLY, dataclass

import numpy as np
import torch
from torch import Tensor

from eva.agent.adjuster import EphemeralValueAdjuster, WeightSchedule
from eva.agent.exploration import EpsilonGreedy
from eva.agent.learner import Learner
from eva.agent.metrics import Monitor
from eva.agent.tensors import to_device
from eva.errors import UserError, check_rewards
from eva.types import Bools, Explanation, Floats, Ints, Observations, State, StepOutcome


@dataclass(frozen=True)
class Decision:
    """The states that were acted in last, and the actions."""

    observations: Observations  # (E, ...)
    embeddings: Tensor  # (E, D)
    actions: Ints  # (E,)


@dataclass(eq=False)
class EVAAgent:
    """A DQN whose values are adjusted by plans over its replay memory before it acts.

    Call `act`, step the environments, call `observe`, and repeat.
    """

    learner: Learner  # the slow system: Q_theta and its training
    adjuster: EphemeralValueAdjuster  # the fast system; both systems use its memory
    exploration: EpsilonGreedy
    weight_schedule: WeightSchedule  # w in Eq. 1; while it is 0, the adjuster is not called
    generator: np.random.Generator  # draws the learner's batches
    _: KW_ONLY
    batch_size: int
    learning_starts_transitions: int  # transitions before the first update
    update_period_steps: int  # agent steps between rounds of updates (P17, P27)
    updates_per_round: int
    clip_rewards: bool  # learn from and plan with rewards clipped to [-1, 1] (P65)
    refresh_embeddings: bool = False  # of the states that the learner samples (P160)

    def __post_init__(self) -> None:
        self.replay = self.adjuster.memory
        self.device = self.replay.embeddings.device
        self._observation_shape = self.replay.store.shape
        self.num_steps = 0
        self.transitions = 0
        self.monitor = Monitor()
        self._decision: Decision | None = None

    @property
    def weight(self) -> float:
        """The weight of Q_NP in the next decision; 0 while EVA does not apply yet."""
        return self.weight_schedule(self.replay, self.transitions, self._is_learning)

    @property
    def decision(self) -> Decision:
        """What `act` decided; raises once `observe` has stored it."""
        if self._decision is None:
            raise RuntimeError("call act before observe or plan")
        return self._decision

    @torch.no_grad()
    def act(self, observations: Observations) -> Ints:
        """Choose an action in every environment, (E,), for observations (E, ...): Algorithm 1 up to "Take action".

        It explores; to use a trained agent there is `eva.load_policy`.
        """
        if np.shape(observations)[1:] != self._observation_shape:
            raise UserError(
                f"observations are {np.shape(observations)}, but must have shape {self._observation_shape} after a "
                "first axis for the environments: pass observation[None] for one."
            )
        q_theta, h = self._evaluate(observations)
        weight = self.weight
        q_eva = self.adjuster.adjust(q_theta, h, weight) if weight > 0 else q_theta
        actions = self.exploration(q_eva.argmax(axis=1), self.transitions)
        self.monitor.add_decisions(q_theta, q_eva, is_adjusted=weight > 0)
        self._decision = Decision(observations, h, actions)
        return actions

    def observe(self, outcome: StepOutcome) -> None:
        """Plan, append (s_t, a_t, r_t+1, h_t) to D, and learn: the rest of Algorithm 1's loop."""
        check_rewards(outcome.rewards.tolist(), self.num_steps + 1)
        self.plan(self.replay.episode_starts)  # before this state is stored, so that it does not find itself (P22)
        self._store(outcome)
        self.num_steps += 1
        self.transitions += len(outcome.rewards)
        if self._update_is_due(self.num_steps):
            for _ in range(self.updates_per_round):
                self._learn()

    def plan(self, episode_starts: Bools | None = None) -> None:
        """Plan for the states that were just acted in, if a plan is due; memory and network stay unchanged."""
        embeddings = self.decision.embeddings
        if self.weight > 0:
            self.adjuster.plan(embeddings, episode_starts)

    @torch.no_grad()
    def _store(self, outcome: StepOutcome) -> None:
        decision, self._decision = self.decision, None
        self.replay.append(
            decision.observations,
            decision.actions,
            np.clip(outcome.rewards, -1.0, 1.0) if self.clip_rewards else outcome.rewards,
            outcome.terminated,
            decision.embeddings,
            outcome.truncated,
            lambda lanes: self._with_embeddings(outcome.last_observations[lanes]),
        )

    def _learn(self) -> None:
        slots = self.replay.sample(self.generator, self.batch_size)
        update = self.learner.update(self.replay.batch(slots))
        self.monitor.add("loss", update.loss)
        self.replay.prioritise(slots, update.errors)
        if self.refresh_embeddings:
            self.replay.refresh(slots, update.embeddings)

    @property
    def _is_learning(self) -> bool:
        return self.transitions >= self.learning_starts_transitions and self.replay.num_complete > 0

    def _update_is_due(self, num_steps: int) -> bool:
        return self._is_learning and num_steps % self.update_period_steps == 0

    def _evaluate(self, observations: Observations) -> tuple[Floats, Tensor]:
        """Return Q_theta, (E, A), on the host and embeddings, (E, D); raise DivergedError if a value is not finite."""
        q_theta, h = self.learner.network(to_device(observations, self.device))
        values = q_theta.cpu().numpy()
        self.monitor.update_largest_abs_q(values)
        return values, h

    def _with_embeddings(self, observations: Observations) -> tuple[Observations, Tensor]:
        """Return observations, (n, ...), and their embeddings, (n, D)."""
        _, h = self.learner.network(to_device(observations, self.device))
        return observations, h

    # Beside the algorithm.

    def read_ahead(self) -> None:
        """Start to read the batch that `observe` will learn from while the environments step; saves time only."""
        if self._update_is_due(self.num_steps + 1):
            self.replay.read_ahead(self.generator, self.batch_size)

    @torch.no_grad()
    def cut_episodes(self, observations: Observations) -> None:
        """Truncate all running episodes in the states `observations`, (E, ...)."""
        (running,) = (~self.replay.episode_starts).nonzero()
        if len(running) > 0:
            self.replay.close(running, *self._with_embeddings(observations[running]))

    @torch.no_grad()
    def explain(
        self, observation: Observations, environment: int = 0, num_neighbours: int | None = None
    ) -> Explanation:
        """Explain the values of `observation`, one without a batch dimension, without changing anything.

        `environment` and `num_neighbours` are those of `EphemeralValueAdjuster.explain`.
        """
        q_theta, h = self.learner.network(to_device(observation[None], self.device))
        return self.adjuster.explain(q_theta[0], h[0], self.weight, environment, num_neighbours)

    def metrics(self) -> dict[str, float]:
        """Return the current counts and schedules, and means since the last call."""
        return {
            "epsilon": self.exploration.epsilon(self.transitions),
            "weight": self.weight,
            "updates": self.learner.num_updates,
            **self.adjuster.metrics(),
            **self.monitor.take(),
        }

    def state_dict(self) -> State:
        """Return everything that determines future results; call it between `observe` and `act`."""
        return {
            "learner": self.learner.state_dict(),
            "replay": self.replay.state_dict(),
            "adjuster": self.adjuster.state_dict(),
            "exploration": self.exploration.generator.bit_generator.state,
            "sampling": self.generator.bit_generator.state,
            "num_steps": self.num_steps,
            "transitions": self.transitions,
            **self.monitor.state_dict(),
        }

    def load_state_dict(self, state: State) -> None:
        """Restore a state that `state_dict` returned."""
        self.learner.load_state_dict(state["learner"])
        self.load_replay(state["replay"])
        self.adjuster.load_state_dict(state["adjuster"])
        self.exploration.generator.bit_generator.state = state["exploration"]
        self.generator.bit_generator.state = state["sampling"]
        self.num_steps, self.transitions = state["num_steps"], state["transitions"]
        self.monitor.load_state_dict(state)

    def load_replay(self, state: State) -> None:
        """Restore the memory; raises ValueError if it holds other actions than the network has."""
        self.replay.load_state_dict(state)
        actions = self.replay.actions
        if actions.min() < 0 or actions.max() >= self.learner.network.num_actions:
            raise ValueError("an action is out of range")
