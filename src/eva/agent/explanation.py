"""Explanations: which memories a state's values come from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np

from eva.agent.memory.neighbours import NeighbourIndex
from eva.agent.planner import PlanningRound
from eva.agent.value_buffer import Recall, ValueBuffer
from eva.types import Floats, Ints, Neighbour, RememberedTrajectory, State, Trajectories


@dataclass(frozen=True)
class _Round:
    trajectories: Trajectories
    q_np: Floats  # (B, T, A)
    born: Ints  # (B, T) when the states were stored


class RoundHistory:
    """The planning rounds with entries left in a value buffer, by number.

    Args:
        index: Of the replay buffer; its clock dates the remembered states.
    """

    def __init__(self, index: NeighbourIndex) -> None:
        self.num_rounds = 0
        self._rounds: dict[int, _Round] = {}
        self._index = index

    def add(self, planned: PlanningRound, oldest: int) -> None:
        """Add a round, and drop those before the number `oldest`."""
        born = self._index.born[planned.trajectories.slots[:, :-1]]
        self._rounds[self.num_rounds] = _Round(planned.trajectories, planned.q_np, born)
        self.num_rounds += 1
        self._rounds = {number: each for number, each in self._rounds.items() if number >= oldest}

    def neighbours(self, buffer: ValueBuffer, recall: Recall) -> Iterator[Neighbour]:
        """Yield the entries that the first query found, nearest first, each with its trajectory."""
        distances = np.sqrt(recall.squared_distances[0]).tolist()
        for distance, (number, row, column) in zip(distances, buffer.origins[recall.entries[0]].tolist(), strict=True):
            planned = self._rounds[number]
            valid = planned.trajectories.valid[row]
            trajectory = RememberedTrajectory(
                slots=planned.trajectories.slots[row, :-1][valid],
                actions=planned.trajectories.actions[row][valid],
                rewards=planned.trajectories.rewards[row][valid],
                q_np=planned.q_np[row][valid],
                ages=self._index.num_written - planned.born[row][valid],
            )
            step = column - int((~valid).sum())
            yield Neighbour(distance, trajectory.q_np[step], trajectory, step)

    def state_dict(self) -> State:
        """Return the rounds by number."""
        return {
            str(number): {**vars(each.trajectories), "q_np": each.q_np, "born": each.born}
            for number, each in self._rounds.items()
        }

    def load_state_dict(self, num_rounds: int, state: State) -> None:
        """Restore the rounds."""
        self.num_rounds, self._rounds = num_rounds, {}
        for number, arrays in state.items():
            trajectories = Trajectories(**{field.name: arrays[field.name] for field in fields(Trajectories)})
            self._rounds[int(number)] = _Round(trajectories, arrays["q_np"], arrays["born"])
