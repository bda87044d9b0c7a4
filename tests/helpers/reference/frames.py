"""Stacks of frames as the environment shows them, each kept whole."""

from __future__ import annotations

Frame = list[list[int]]
Stack = list[Frame]


class ReferenceStacks:
    """Every observation that was ever stored, one history for each environment; the last `lane_capacity` survive.

    Before an episode's first frame there is `padding`, or the first frame again if that is None.
    """

    def __init__(self, num_environments: int, lane_capacity: int, num_stacked: int, padding: Frame | None) -> None:
        self.lane_capacity = lane_capacity
        self.num_stacked = num_stacked
        self.padding = padding
        self.episodes: list[list[list[Frame]]] = [[] for _ in range(num_environments)]
        self.histories: list[list[Stack]] = [[] for _ in range(num_environments)]

    def begin(self, environment: int, frame: Frame) -> None:
        """Begin an episode with its first frame."""
        self.episodes[environment].append([frame])

    def show(self, environment: int, frame: Frame) -> None:
        """Show the next frame of the running episode."""
        self.episodes[environment][-1].append(frame)

    def observation(self, environment: int) -> Stack:
        """Return the last frames of the running episode, oldest first."""
        episode = self.episodes[environment][-1]
        missing = self.num_stacked - len(episode)
        padding = episode[0] if self.padding is None else self.padding
        return [padding] * missing + episode[-self.num_stacked :]

    def store(self, environment: int) -> None:
        """Store the present observation."""
        self.histories[environment].append(self.observation(environment))

    def surviving(self) -> list[tuple[int, int]]:
        """Return the (environment, index) of all observations that have not been overwritten."""
        return [
            (environment, index)
            for environment, history in enumerate(self.histories)
            for index in range(max(0, len(history) - self.lane_capacity), len(history))
        ]

    def slot(self, environment: int, index: int) -> int:
        """Return where a ring with one lane for each environment keeps this observation."""
        return environment * self.lane_capacity + index % self.lane_capacity
