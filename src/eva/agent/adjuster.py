"""EphemeralValueAdjuster: the fast system, for any value-based agent (Section 3, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eva.agent.memory.replay import ReplayBuffer
from eva.agent.planner import Planner, Plans
from eva.agent.tensors import to_device
from eva.agent.value_buffer import Recall, ValueBuffer
from eva.types import Bools, Explanation, Floats, Ints, Neighbour, RememberedTrajectory, State, Trajectories

Array = TypeVar("Array", Floats, Tensor)


def mix(q_theta: Floats, q_np: Floats, nonparametric_weight: float) -> Floats:
    """Return Q_EVA = (1 - w) Q_theta + w Q_NP (Eq. 1; P1: the weight is on Q_NP, so 0 is DQN)."""
    q_eva: Floats = (1 - nonparametric_weight) * q_theta + nonparametric_weight * q_np
    return q_eva


def _refuse_weight(nonparametric_weight: float) -> None:
    if not 0 <= nonparametric_weight <= 1:
        raise ValueError(f"a weight of {nonparametric_weight}, but it is a share, from 0 to 1")


def _on_host(array: NDArray[Any] | Tensor) -> NDArray[Any]:
    if not isinstance(array, Tensor):
        return np.asarray(array)
    return (array.float() if array.dtype == torch.bfloat16 else array).detach().cpu().numpy()  # NumPy has no bfloat16


@dataclass(frozen=True)
class _Round:
    """What an explanation needs of a round of planning while its entries are in a value buffer."""

    trajectories: Trajectories
    q_np: Floats  # (B, T, A)
    born: Ints  # (B, T) of the states: when they were stored


class EphemeralValueAdjuster:
    """Memory search, planner, value buffer and mixing, joined.

    Before each action, `adjust` shifts the network's values by what was planned for states like the present one.
    After it, and before the present state is stored (P22), `plan` refreshes those plans when they are due. In a loop
    of your own, `observe` plans and stores. Where a method takes arrays, it takes NumPy's or tensors.

    Args:
        memory: The replay buffer that is searched.
        planner: Plans over it.
        value_buffers: One shared by all environments, or one for each (P8).
        plan_period_steps: Plan at the first step and then every so many (P4); the clock runs on across episodes.
        plan_at_episode_start: Plan at each episode's first step too (P23).
    """

    def __init__(
        self,
        memory: ReplayBuffer,
        planner: Planner,
        value_buffers: Sequence[ValueBuffer],
        *,
        plan_period_steps: int,
        plan_at_episode_start: bool,
    ) -> None:
        self.memory = memory
        self.value_buffers = tuple(value_buffers)
        self.num_steps = 0
        self._planner = planner
        self._plan_period_steps = plan_period_steps
        self._plan_at_episode_start = plan_at_episode_start
        self._num_rounds = 0
        self._rounds: dict[int, _Round] = {}

    def adjust(self, q_theta: Array, embeddings: Floats | Tensor, nonparametric_weight: float = 0.4) -> Array:
        """Return Q_EVA of the present states; Q_theta where nothing is planned yet (P24).

        Args:
            q_theta: The network's values, (E, A).
            embeddings: Of the same states, (E, D).
            nonparametric_weight: Of Q_NP.

        Returns:
            Q_EVA, (E, A): use it for this decision and drop it.
        """
        if isinstance(q_theta, Tensor):
            adjusted = self.adjust(_on_host(q_theta), embeddings, nonparametric_weight)
            dtype = q_theta.dtype if q_theta.is_floating_point() else None
            return torch.as_tensor(adjusted, dtype=dtype, device=q_theta.device)
        _refuse_weight(nonparametric_weight)
        is_mixed = nonparametric_weight > 0
        q_eva = np.array(q_theta, np.result_type(q_theta, np.float32) if is_mixed else None)  # whole numbers do not mix
        if not is_mixed:
            return q_eva
        queries = self._tensor(embeddings)
        if len(queries) != len(q_theta):
            raise ValueError(f"values of {len(q_theta)} states, but embeddings of {len(queries)}")
        self._refuse_others(len(queries))
        for e, buffer in enumerate(self.value_buffers):
            mine = slice(None) if self._is_shared else slice(e, e + 1)
            recall = buffer.read(queries[mine])
            if recall is not None:
                q_eva[mine] = mix(q_theta[mine], recall.q_np, nonparametric_weight)
        return q_eva

    def plan(self, embeddings: Array, episode_starts: Bools | Tensor | None = None) -> None:
        """Advance the clock by one step and plan for the environments whose plans are due.

        While there is nothing to plan over, the clock stands still (P30).

        Args:
            embeddings: Of the present states, (E, D).
            episode_starts: Whether each is its episode's first, (E,); by default none is.
        """
        self._refuse_others(len(embeddings))
        if self.memory.num_complete == 0:
            return
        due = np.full(len(embeddings), self.num_steps % self._plan_period_steps == 0)
        if self._plan_at_episode_start and episode_starts is not None:
            due |= _on_host(episode_starts).astype(np.bool_)
        self.num_steps += 1
        if not due.any():
            return
        (environments,) = due.nonzero()
        self._keep(self._planner.plan(self._tensor(embeddings)[environments]), environments)

    def observe(
        self,
        embeddings: Array,
        actions: Ints | Tensor,
        rewards: Floats | Tensor,
        terminated: Bools | Tensor,
        truncated: Bools | Tensor,
        last_embeddings: Array | None = None,
    ) -> None:
        """Plan if it is due, then store one transition of every environment.

        Args:
            embeddings: Of the states acted in, (E, D).
            actions: (E,)
            rewards: (E,)
            terminated: (E,)
            truncated: (E,); a termination on the same step counts instead (P50).
            last_embeddings: Of the states after the action, (E, D); needed where truncated.
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
        """Store one transition of every environment, without planning; the arguments are those of `observe`."""
        actions, rewards = _on_host(actions), _on_host(rewards)
        terminated, truncated = (_on_host(flags).astype(np.bool_) for flags in (terminated, truncated))
        by_state = {
            "embeddings": embeddings,
            "last_embeddings": embeddings if last_embeddings is None else last_embeddings,
        }
        by_environment = {"actions": actions, "rewards": rewards, "terminated": terminated, "truncated": truncated}
        self._refuse_misfits(by_state, by_environment)  # before anything is stored
        (lanes,) = (truncated & ~terminated).nonzero()
        if len(lanes) > 0 and last_embeddings is None:
            raise ValueError("pass last_embeddings where an episode is truncated")
        self.memory.append(None, actions, rewards, terminated, self._tensor(embeddings))
        if last_embeddings is not None and len(lanes) > 0:
            self.memory.close(lanes, None, self._tensor(last_embeddings)[lanes])

    def explain(
        self,
        q_theta: Array,
        embedding: Array,
        nonparametric_weight: float = 0.4,
        environment: int = 0,
        num_neighbours: int | None = None,
    ) -> Explanation:
        """Tell why the values of one state are what they are.

        Args:
            q_theta: (A,)
            embedding: (D,)
            nonparametric_weight: Of Q_NP.
            environment: Whose value buffer to read, where each has its own (P8).
            num_neighbours: How many to tell of; by default the K that the values are the mean of.
        """
        _refuse_weight(nonparametric_weight)
        buffer = self.value_buffers[0 if self._is_shared else environment]
        q = _on_host(q_theta)
        query = self._tensor(embedding)[None]
        recall = buffer.read(query, num_neighbours)
        if recall is None:
            return Explanation(q, None, q, nonparametric_weight, ())
        return Explanation(
            q_theta=q,
            q_np=recall.q_np[0],
            q_eva=mix(q, recall.q_np[0], nonparametric_weight),
            nonparametric_weight=nonparametric_weight,
            neighbours=tuple(self._neighbours(buffer, recall)),
        )

    def get_state(self) -> State:
        """Return all that decides the future, the memory apart."""
        return {
            "num_steps": self.num_steps,
            "num_rounds": self._num_rounds,
            "search": self.memory.index.get_search_state(),
            "value_buffers": {str(i): buffer.get_state() for i, buffer in enumerate(self.value_buffers)},
            "rounds": {
                str(number): {**vars(planned.trajectories), "q_np": planned.q_np, "born": planned.born}
                for number, planned in self._rounds.items()
            },
        }

    def set_state(self, state: State) -> None:
        """Continue from there."""
        self.num_steps, self._num_rounds = state["num_steps"], state["num_rounds"]
        self.memory.index.set_search_state(state["search"])
        for i, buffer in enumerate(self.value_buffers):
            buffer.set_state(state["value_buffers"][str(i)])
        self._rounds = {}
        for number, arrays in state["rounds"].items():
            trajectories = Trajectories(**{f.name: arrays[f.name] for f in fields(Trajectories)})
            self._rounds[int(number)] = _Round(trajectories, arrays["q_np"], arrays["born"])

    def _neighbours(self, buffer: ValueBuffer, recall: Recall) -> Iterator[Neighbour]:
        distances = np.sqrt(recall.squared_distances[0]).tolist()
        for distance, (number, row, column) in zip(distances, buffer.origins[recall.entries[0]].tolist(), strict=True):
            planned = self._rounds[number]
            valid = planned.trajectories.valid[row]
            trajectory = RememberedTrajectory(
                slots=planned.trajectories.slots[row, :-1][valid],
                actions=planned.trajectories.actions[row][valid],
                rewards=planned.trajectories.rewards[row][valid],
                q_np=planned.q_np[row][valid],
                ages=self.memory.index.num_written - planned.born[row][valid],
            )
            step = column - int((~valid).sum())
            yield Neighbour(distance, trajectory.q_np[step], trajectory, step)

    def _keep(self, plans: Plans, environments: Ints) -> None:
        """Put a round's values into the value buffers, and forget the rounds that have left them."""
        rows, columns = plans.rows, plans.columns
        device = plans.embeddings.device
        embeddings = plans.embeddings[to_device(rows, device), to_device(columns, device)]
        q_np = plans.q_np[rows, columns]
        origins = np.stack([np.full_like(rows, self._num_rounds), rows, columns], axis=1)
        planned_for = environments[plans.trajectories.plans[rows]]
        for e, buffer in enumerate(self.value_buffers):
            mine = slice(None) if self._is_shared else (planned_for == e).nonzero()[0]
            buffer.append(embeddings[mine], q_np[mine], origins[mine])
        born = self.memory.index.born[plans.trajectories.slots[:, :-1]]
        self._rounds[self._num_rounds] = _Round(plans.trajectories, plans.q_np, born)
        self._num_rounds += 1
        oldest = min(buffer.oldest_round for buffer in self.value_buffers)
        self._rounds = {number: planned for number, planned in self._rounds.items() if number >= oldest}

    def _refuse_misfits(self, by_state: dict[str, Array], by_environment: dict[str, NDArray[Any]]) -> None:
        num_environments, size = len(self.memory.lane_counts), self.memory.embeddings.shape[1]
        for arrays, right in ((by_state, (num_environments, size)), (by_environment, (num_environments,))):
            for name, array in arrays.items():
                if tuple(array.shape) != right:
                    raise ValueError(f"{name} of shape {tuple(array.shape)}, but it must be {right}")
        actions, num_actions = by_environment["actions"], self.value_buffers[0].values.shape[1]
        if not ((actions >= 0) & (actions < num_actions)).all():
            raise ValueError(f"actions {actions.tolist()}, but they count from 0 to {num_actions - 1}")

    def _refuse_others(self, num_states: int) -> None:
        """Where each environment has a value buffer of its own, states are theirs, in order."""
        if len(self.value_buffers) not in (1, num_states):
            raise ValueError(
                f"{num_states} states, but {len(self.value_buffers)} environments with a value buffer each"
            )

    def _tensor(self, array: Floats | Tensor) -> Tensor:
        plain = array if isinstance(array, Tensor) else np.ascontiguousarray(array)
        return torch.as_tensor(plain, dtype=torch.float32, device=self.memory.embeddings.device).detach()

    @property
    def _is_shared(self) -> bool:
        """Whether there is one value buffer for all environments, or one for each (P8)."""
        return len(self.value_buffers) == 1
