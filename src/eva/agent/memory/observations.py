"""The observations of the replay buffer: stored whole, or as frames that are stacked again when read."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch

from eva.agent.memory.frames import CompressedFrames, RawFrames
from eva.agent.tensors import adopted, read_only, restore
from eva.types import Bools, Ints, Observations, State

Copy = Callable[[Observations], object]
"""Copies observations into an array, (n, ...). Any thread can call it, also while another thread holds the GIL."""

_BLACK = -1  # the place of a frame that is 0 everywhere


class WholeObservations:
    """Observations stored one by one."""

    memory_format = torch.contiguous_format  # the fastest for the network

    def __init__(self, num_slots: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.shape = shape
        self.dtype = dtype
        self._observations = np.zeros((num_slots, *shape), dtype)

    def write(self, slots: Ints, observations: Observations, starts: Bools) -> None:
        """Store observations, (n, ...), in the next slots, (n,), of n lanes; `starts` is not used."""
        self._observations[slots] = observations

    def find(self, slots: Ints) -> Copy:
        """Return a function that copies the observations of `slots`, (n,), into an array in C order."""
        return lambda out: np.take(self._observations, slots, axis=0, out=out, mode="clip")  # "raise" would copy twice

    def state_dict(self) -> State:
        """Return the observations, (N, ...); they can be read but not written to."""
        return {"observations": read_only(self._observations)}

    def load_state_dict(self, state: State) -> None:
        """Restore the observations, if any are kept; a writable array is used as it is."""
        if self._observations.size:
            self._observations = adopted(self._observations, state["observations"])


class StackedObservations:
    """Observations that are the last frames of their episode, stacked along the first axis, oldest first (P70).

    Only the newest frame of each observation is stored. A slot holds the places of all frames of its stack: the places
    of the previous slot without the oldest, and the place of its own frame. At the start of an episode, the older
    frames are black or copies of the first frame, as the environment returns them. With S frames in a stack, a lane
    has S - 1 more places than slots, so that the stack of its oldest slot is complete.
    """

    def __init__(
        self,
        num_environments: int,
        lane_capacity: int,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        make_frames: Callable[[int, int, tuple[int, ...], np.dtype[Any]], RawFrames | CompressedFrames],
    ) -> None:
        self.shape = shape
        self.dtype = dtype
        self.memory_format = torch.channels_last if len(shape) == 3 else torch.contiguous_format
        num_stacked, *frame_shape = shape
        self._lane_capacity = lane_capacity
        self._frames = make_frames(num_environments, lane_capacity + num_stacked - 1, tuple(frame_shape), dtype)
        lane_ends = self._frames.lane_places * np.arange(1, num_environments + 1)
        self._stacks = np.empty((num_environments * lane_capacity, num_stacked), np.int32)
        self._stacks[:] = np.repeat(lane_ends - 1, lane_capacity)[:, None]  # so that the first frame takes place 0
        self._planes = np.empty((0, *frame_shape), dtype)  # scratch buffer of `_copy`

    def write(self, slots: Ints, observations: Observations, starts: Bools) -> None:
        """Store the newest frames of observations, (n, S, ...), in the next slots, (n,), of n lanes.

        `starts`, (n,), marks where an episode begins.
        """
        lanes, indices = np.divmod(slots, self._lane_capacity)
        previous = self._stacks[lanes * self._lane_capacity + (indices - 1) % self._lane_capacity]
        places = lanes * self._frames.lane_places + (previous[:, -1] + 1) % self._frames.lane_places
        self._stacks[slots, :-1] = previous[:, 1:]
        self._stacks[slots, -1] = places
        for i in starts.nonzero()[0]:
            self._stacks[slots[i], :-1] = _place_before(places[i], observations[i])
        self._frames.write(places, observations[:, -1])

    def find(self, slots: Ints) -> Copy:
        """Return a function that copies the stacks of `slots`, (n,); valid until the next call, or until a write.

        It is fastest if frames are bytes and the stack's axis of the array is last in memory.
        """
        stacks = self._stacks[slots].T.astype(np.int64)
        is_black = stacks == _BLACK
        read, places = self._frames.fetch(np.where(is_black, stacks[-1], stacks))
        return lambda out: self._copy(read(), places, is_black, out)

    def _copy(self, frames: Observations, places: Ints, is_black: Bools, out: Observations) -> None:
        """Copy the frames in `places`, (S, n), into stacks, (n, S, ...)."""
        if places.size > len(self._planes):
            self._planes = np.empty((places.size, *self.shape[1:]), self.dtype)
        planes = self._planes[: places.size].reshape(*places.shape, *self.shape[1:])
        np.take(frames, places, axis=0, out=planes, mode="clip")
        planes[is_black] = 0
        _stack(planes, out)

    def state_dict(self) -> State:
        """Return frames and stacks."""
        return {**self._frames.state_dict(), "stacks": self._stacks}

    def load_state_dict(self, state: State) -> None:
        """Restore frames and stacks."""
        self._frames.load_state_dict(state)
        restore(self._stacks, state["stacks"])
        num_places = self._frames.lane_places * (len(self._stacks) // self._lane_capacity)
        if self._stacks.min() < _BLACK or self._stacks.max() >= num_places:
            raise ValueError("a stack has frames that do not exist")


ObservationStore = WholeObservations | StackedObservations


def _place_before(place: int, first: Observations) -> int:
    """Return the place of the older frames in an episode's first observation: black, or `place`, the first frame's."""
    *older, newest = first
    if all(np.array_equal(frame, newest) for frame in older):
        return place
    if any(frame.any() for frame in older):
        raise ValueError("an episode's first observation must be its first frame after black ones or after itself")
    return _BLACK


def _stack(planes: Observations, out: Observations) -> None:
    """Copy frames, (S, n, ...), into stacks, (n, S, ...)."""
    side_by_side = np.moveaxis(out, 1, -1)
    merge = _merge()
    if merge is None or planes.dtype != np.uint8 or planes.size == 0 or not side_by_side.flags.c_contiguous:
        for i, plane in enumerate(planes):
            out[:, i] = plane
        return
    num_stacked, size = planes.shape[:2]
    merge([plane.reshape(size, -1) for plane in planes], side_by_side.reshape(size, -1, num_stacked))


@cache
def _merge() -> Callable[..., Any] | None:
    """Return OpenCV's interleaving of bytes, six times as fast as NumPy's; None if it is not installed."""
    try:
        from cv2 import merge
    except ImportError:
        return None
    return merge
