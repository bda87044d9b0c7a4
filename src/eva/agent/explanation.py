"""Explanations: which memories a state's values come from."""

from collections.abc import Iterator

import numpy as np

from eva.agent.memory.neighbours import NeighbourIndex
from eva.agent.planner import PlanningRound
from eva.agent.value_buffer import Recall, ValueBuffer
from eva.types import Neighbour, RememberedTrajectory, State


class RoundHistory:
    """The planning rounds with entries left in a value buffer, by number; the replay buffer's `index` dates states."""

    def __init__(self, index: NeighbourIndex) -> None:
        self.num_rounds = 0
        self._rounds: dict[int, State] = {}  # the arrays of `Trajectories`, with q_np (B, T, A) and born (B, T)
        self._index = index

    def add(self, planned: PlanningRound, oldest: int) -> None:
        """Add a round, and drop those before the number `oldest`."""
        born = self._index.born[planned.trajectories.slots[:, :-1]]
        self._rounds[self.num_rounds] = {**vars(planned.trajectories), "q_np": planned.q_np, "born": born}
        self.num_rounds += 1
        self._rounds = {number: arrays for number, arrays in self._rounds.items() if number >= oldest}

    def neighbours(self, buffer: ValueBuffer, recall: Recall) -> Iterator[Neighbour]:
        """Yield the entries that the first query found, nearest first, each with its trajectory."""
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
