"""EphemeralValueAdjuster: the fast system, for any value-based agent (Section 3, Algorithm 1)."""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from eva.agent.exploration import LinearSchedule
from eva.agent.memory.replay import ReplayBuffer
from eva.agent.planner import Planner, RoundHistory
from eva.agent.tensors import as_array, as_tensor, check_shapes, check_weight
from eva.agent.value_buffer import ValueBuffer
from eva.errors import check_rewards
from eva.types import Bools, Explanation, Floats, Ints, State

Array = TypeVar("Array", Floats, Tensor)


def mix(q_theta: Floats, q_np: Floats, nonparametric_weight: float) -> Floats:
    """Return Q_EVA = (1 - w) Q_theta + w Q_NP (Eq. 1). The weight w is that of Q_NP, so 0 is DQN (P1)."""
    q_eva: Floats = (1 - nonparametric_weight) * q_theta + nonparametric_weight * q_np
    return q_eva


@dataclass(frozen=True)
class WeightSchedule:
    """The weight w of Q_NP over a run: 0 until EVA applies, then `schedule`."""

    schedule: LinearSchedule  # by transitions
    start_when_full: bool = False  # if true, EVA applies once the memory is full; if false, once learning starts (P9)

    def __call__(self, memory: ReplayBuffer, transitions: int, is_learning: bool) -> float:
        """Return the weight for the next decision."""
        applies = memory.is_full if self.start_when_full else is_learning
        return self.schedule(transitions) if applies and memory.num_complete > 0 else 0.0


@dataclass(eq=False)
class EphemeralValueAdjuster:
    """Memory search, planner, value buffer and mixing, combined.

    Before each action, `adjust` shifts the network's values towards values planned for similar states. After the
    action, `plan` refreshes the plans when they are due, before the present state is stored: a state must not retrieve
    itself (P22). In your own training loop, `observe` plans and stores. Methods take NumPy arrays or tensors.
    """

    memory: ReplayBuffer
    planner: Planner
    value_buffers: Sequence[ValueBuffer]  # one shared by all environments, or one for each (P8)
    _: KW_ONLY
    plan_period_steps: int  # steps between plans (P4), counted across episodes; the first step plans
    plan_at_episode_start: bool  # plan at each episode's first step too (P23)

    def __post_init__(self) -> None:
        self.num_steps = 0
        self._history = RoundHistory(self.memory.index)

    def adjust(self, q_theta: Array, embeddings: Floats | Tensor, nonparametric_weight: float = 0.4) -> Array:
        """Return Q_EVA of the present states, (E, A): use it for this decision and drop it.

        `q_theta`, (E, A), are the network's values of these states, and `embeddings`, (E, D), their embeddings.
        """
        check_weight(nonparametric_weight)
        if nonparametric_weight == 0:
            return q_theta.detach().clone() if isinstance(q_theta, Tensor) else np.array(q_theta)
        queries, values = self._tensor(embeddings), as_array(q_theta)
        if len(queries) != len(values):
            raise ValueError(f"q_theta has {len(values)} states, but embeddings has {len(queries)}")
        self._check_environments(len(queries))
        q_eva = values.astype(np.result_type(values, np.float32))  # a copy; integers become floats
        for buffer, rows in self._rows_by_buffer(np.arange(len(queries))):
            recall = buffer.read(queries[rows])
            if recall is not None:  # with fewer than K entries, Q_EVA is Q_theta (P24)
                q_eva[rows] = mix(values[rows], recall.q_np, nonparametric_weight)
        if not isinstance(q_theta, Tensor):
            return q_eva
        dtype = q_theta.dtype if q_theta.is_floating_point() else None
        return torch.as_tensor(q_eva, dtype=dtype, device=q_theta.device)

    def plan(self, embeddings: Array, episode_starts: Bools | Tensor | None = None) -> None:
        """Count one step, and plan for the environments whose plans are due.

        `embeddings`, (E, D), are those of the present states; `episode_starts`, (E,), marks those that are the
        first of their episodes; by default there are none.
        """
        self._check_environments(len(embeddings))
        if self.memory.num_complete == 0:  # nothing to plan over: the step does not count (P30)
            return
        due = np.full(len(embeddings), self.num_steps % self.plan_period_steps == 0)
        if self.plan_at_episode_start and episode_starts is not None:
            due |= as_array(episode_starts).astype(np.bool_)
        self.num_steps += 1
        (environments,) = due.nonzero()
        if len(environments) == 0:
            return
        planned = self.planner.plan(self._tensor(embeddings)[environments])
        h, q_np, origins = planned.entries(self._history.num_rounds)
        for buffer, rows in self._rows_by_buffer(environments[planned.queries]):
            buffer.append(h[rows], q_np[rows], origins[rows])
        self._history.add(planned, oldest=min(buffer.oldest_round for buffer in self.value_buffers))

    def keep(self, environments: Sequence[int]) -> None:
        """Continue with these environments only, each with its value buffer; the others have ended (P28)."""
        self.value_buffers = tuple(self.value_buffers[e] for e in environments)

    def observe(
        self,
        embeddings: Array,
        actions: Ints | Tensor,
        rewards: Floats | Tensor,
        terminated: Bools | Tensor,
        truncated: Bools | Tensor,
        last_embeddings: Array | None = None,
    ) -> None:
        """Plan if due, then store one transition of every environment: arrays of shape (E,), embeddings (E, D).

        `embeddings` are those of the states acted in. `last_embeddings` are those of the states after the action, and
        required if an episode is truncated. `truncated` is ignored where `terminated` (P50).
        """
        self.plan(embeddings, self.memory.episode_starts)
        self.store(embeddings, actions, rewards, terminated, truncated, last_embeddings)

    def store(
        self,
        embeddings: Array,
        actions: Ints | Tensor,
        rewards: Floats | Tensor,
        terminated: Bools | Tensor,
        truncated: Bools | Tensor,
        last_embeddings: Array | None = None,
    ) -> None:
        """Store one transition of every environment without planning; arguments as in `observe`."""
        actions, rewards = as_array(actions), as_array(rewards)
        terminated, truncated = (as_array(flags).astype(np.bool_) for flags in (terminated, truncated))
        last = embeddings if last_embeddings is None else last_embeddings
        num_environments, embedding_size = len(self.memory.lane_counts), self.memory.embeddings.shape[1]
        check_shapes((num_environments, embedding_size), embeddings=embeddings, last_embeddings=last)
        check_shapes((num_environments,), actions=actions, rewards=rewards, terminated=terminated, truncated=truncated)
        num_actions = self.value_buffers[0].values.shape[1]
        if not ((actions >= 0) & (actions < num_actions)).all():
            raise ValueError(f"actions must be in 0..{num_actions - 1}, got {actions.tolist()}")
        if last_embeddings is None and (truncated & ~terminated).any():
            raise ValueError("pass last_embeddings where an episode is truncated")
        check_rewards(rewards.tolist(), int(self.memory.lane_counts.max()) + 1)
        h = self._tensor(embeddings)
        self.memory.append(
            None, actions, rewards, terminated, h, truncated, lambda lanes: (None, self._tensor(last)[lanes])
        )

    def explain(
        self,
        q_theta: Array,
        embedding: Array,
        nonparametric_weight: float = 0.4,
        environment: int = 0,
        num_neighbours: int | None = None,
    ) -> Explanation:
        """Return which memories the values, (A,), of one state with this embedding, (D,), come from.

        `environment` selects the value buffer, where each has its own (P8). `num_neighbours` neighbours are returned;
        by default the K that Q_NP is the mean of.
        """
        check_weight(nonparametric_weight)
        q = as_array(q_theta)
        buffer = self.value_buffers[0 if self._is_shared else environment]
        recall = buffer.read(self._tensor(embedding)[None], num_neighbours)
        if recall is None:
            return Explanation(q, None, q, nonparametric_weight, ())
        q_np = recall.q_np[0]
        q_eva = mix(q, q_np, nonparametric_weight)
        return Explanation(q, q_np, q_eva, nonparametric_weight, tuple(self._history.neighbours(buffer, recall)))

    def metrics(self) -> dict[str, float]:
        """Return the size of the memory and of the value buffers, and statistics of the searches."""
        sizes = {
            "replay_transitions": self.memory.num_complete,
            "value_buffer_entries": sum(map(len, self.value_buffers)),
        }
        return {**sizes, **self.memory.index.metrics()}

    def state_dict(self) -> State:
        """Return everything that determines future results, except the memory."""
        return {
            "num_steps": self.num_steps,
            "num_rounds": self._history.num_rounds,
            "search": self.memory.index.search_state(),  # not in the memory's state: a finished run does not need it
            "value_buffers": {str(i): buffer.state_dict() for i, buffer in enumerate(self.value_buffers)},
            "rounds": self._history.state_dict(),
        }

    def load_state_dict(self, state: State) -> None:
        """Restore a state that `state_dict` returned; restore the memory first."""
        self.num_steps = state["num_steps"]
        self.memory.index.load_search_state(state["search"])
        for i, buffer in enumerate(self.value_buffers):
            buffer.load_state_dict(state["value_buffers"][str(i)])
        self._history.load_state_dict(state["num_rounds"], state["rounds"])

    def _rows_by_buffer(self, environments: Ints) -> Iterator[tuple[ValueBuffer, Ints | slice]]:
        """Yield each value buffer with the rows of its environments among `environments`, (n,)."""
        if self._is_shared:
            yield self.value_buffers[0], slice(None)
            return
        for e, buffer in enumerate(self.value_buffers):
            yield buffer, (environments == e).nonzero()[0]

    @property
    def _is_shared(self) -> bool:
        return len(self.value_buffers) == 1

    def _check_environments(self, num_states: int) -> None:
        if not self._is_shared and num_states != len(self.value_buffers):
            raise ValueError(f"expected states of {len(self.value_buffers)} environments, got {num_states}")

    def _tensor(self, array: Floats | Tensor) -> Tensor:
        return as_tensor(array, self.memory.embeddings.device)
