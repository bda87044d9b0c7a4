"""Planning over memories: find similar states, follow what happened next, propagate values back; and its history."""

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass

import numpy as np
import torch
from torch import Tensor

from eva.agent.memory.neighbours import NeighbourIndex
from eva.agent.memory.replay import ReplayBuffer
from eva.agent.tensors import to_device
from eva.agent.value_buffer import Recall, ValueBuffer
from eva.types import Floats, Ints, Neighbour, RememberedTrajectory, State, Trajectories

Trace = Callable[[Trajectories, Floats, Floats], Floats]
"""(trajectories, q_theta (B, T + 1, A), embeddings (B, T + 1, D)) -> q_np (B, T, A)."""

Evaluate = Callable[[Ints], tuple[Tensor, Tensor]]
"""Slots of remembered states (n,) -> their Q_theta (n, A) and embeddings (n, D). It is one of the two functions below
with `functools.partial`, not a closure: so a deepcopy of an adjuster plans with its own memory."""


def stored_values(replay: ReplayBuffer, values: Callable[[Tensor], Tensor], slots: Ints) -> tuple[Tensor, Tensor]:
    """Apply the network's last layer to the embeddings stored when the states were seen (P6)."""
    h = replay.embeddings[to_device(slots, replay.embeddings.device)]
    return values(h).float(), h


def recomputed_values(
    replay: ReplayBuffer, network: Callable[[Tensor], tuple[Tensor, Tensor]], slots: Ints
) -> tuple[Tensor, Tensor]:
    """Apply the whole network to the stored observations (P6)."""
    return network(replay.gather(slots))


@dataclass(frozen=True)
class PlanningRound:
    """One round of planning; n of its states enter the value buffer, ordered by query, trajectory and time."""

    trajectories: Trajectories
    q_np: Floats  # (B, T, A)
    embeddings: Tensor  # (B, T + 1, D)
    rows: Ints  # (n,) the trajectory of each entry
    columns: Ints  # (n,) its position in the trajectory

    @property
    def queries(self) -> Ints:
        """The query that each entry was planned for, (n,)."""
        return self.trajectories.plans[self.rows]

    def entries(self, number: int) -> tuple[Tensor, Floats, Ints]:
        """Return embeddings, (n, D), Q_NP, (n, A), and origins, (n, 3): `number`, row and column."""
        rows, columns = (to_device(x, self.embeddings.device) for x in (self.rows, self.columns))
        origins = np.stack([np.full_like(self.rows, number), self.rows, self.columns], axis=1)
        return self.embeddings[rows, columns], self.q_np[self.rows, self.columns], origins


@dataclass(frozen=True)
class Planner:
    """Plan for all queries with one search and one trace computation."""

    replay: ReplayBuffer
    trace: Trace
    evaluate: Evaluate
    _: KW_ONLY
    num_trajectories: int  # M, retrieved for each query (P3)
    trajectory_length: int  # T
    keep_all: bool  # whether all states of a trajectory enter the value buffer, or only its first (P2)

    @torch.no_grad()
    def plan(self, queries: Tensor) -> PlanningRound:
        """Retrieve T_m for each query, the embedding of a state to plan for, (Q, D), and compute Q_NP along them."""
        starts, _ = self.replay.search(queries, self.num_trajectories)
        trajectories = self.replay.trajectories(starts, self.trajectory_length)
        num, states = trajectories.slots.shape
        flat_q, flat_h = self.evaluate(trajectories.slots.reshape(-1))
        q_theta, embeddings = flat_q.reshape(num, states, -1), flat_h.reshape(num, states, -1)
        q_np = self.trace(trajectories, q_theta.cpu().numpy(), embeddings.cpu().numpy())
        valid = trajectories.valid
        is_first = valid & (valid.cumsum(axis=1) == 1)  # the first state after the padding
        rows, columns = (valid if self.keep_all else is_first).nonzero()
        return PlanningRound(trajectories, q_np, embeddings, rows, columns)


class RoundHistory:
    """The planning rounds that a value buffer still has entries of; `index`, the memory's, gives the age of states."""

    def __init__(self, index: NeighbourIndex) -> None:
        self.num_rounds = 0
        self._rounds: dict[int, State] = {}  # the arrays of `Trajectories`, with q_np (B, T, A) and born (B, T)
        self._index = index

    def add(self, planned: PlanningRound, oldest: int) -> None:
        """Add a round, and drop rounds with a number below `oldest`."""
        born = self._index.born[planned.trajectories.slots[:, :-1]]
        self._rounds[self.num_rounds] = {**vars(planned.trajectories), "q_np": planned.q_np, "born": born}
        self.num_rounds += 1
        self._rounds = {number: arrays for number, arrays in self._rounds.items() if number >= oldest}

    def neighbours(self, buffer: ValueBuffer, recall: Recall) -> Iterator[Neighbour]:
        """Yield the entries that the only query of `recall` found, nearest first, each with its trajectory."""
        distances = np.sqrt(recall.squared_distances[0]).tolist()
        for distance, (number, row, column) in zip(distances, buffer.origins[recall.entries[0]].tolist(), strict=True):
            planned = {name: array[row] for name, array in self._rounds[number].items()}
            valid = planned["valid"]
            trajectory = RememberedTrajectory(
                slots=planned["slots"][:-1][valid],
                actions=planned["actions"][valid],
                rewards=planned["rewards"][valid],
                q_np=planned["q_np"][valid],
                ages=self._index.num_written - planned["born"][valid],
            )
            step = column - int((~valid).sum())
            yield Neighbour(distance, trajectory.q_np[step], trajectory, step)

    def state_dict(self) -> State:
        """Return the rounds by number."""
        return {str(number): arrays for number, arrays in self._rounds.items()}

    def load_state_dict(self, num_rounds: int, state: State) -> None:
        """Restore the rounds."""
        self.num_rounds, self._rounds = num_rounds, {int(number): arrays for number, arrays in state.items()}
