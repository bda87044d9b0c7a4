"""The observations of the replay buffer: kept whole, or as frames that are stored once and stacked again when read."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
import zstandard
from torch import Tensor

from eva.types import Bools, Ints, Observations, State

_BLACK = -1  # the place of a frame that is 0 everywhere


class ObservationStore(Protocol):
    """The observations of a replay buffer's slots."""

    shape: tuple[int, ...]  # of one observation
    dtype: np.dtype[Any]
    memory_format: torch.memory_format  # how the network likes them to lie in memory
    reads_floats: bool  # whether bytes can be read as the floats that the network makes of them

    def write(self, slots: Ints, observations: Observations, starts: Bools) -> None:
        """Store an observation in the next slot of each of some lanes.

        Args:
            slots: (n,)
            observations: (n, ...)
            starts: Where an episode begins, (n,).
        """
        ...

    def read(self, slots: Ints, out: Observations) -> None:
        """Copy the observations of `slots`, (n,), into `out`, (n, ...), of `dtype`, or float32 if it `reads_floats`."""
        ...

    def get_state(self) -> State:
        """Return all observations: arrays by name."""
        ...

    def set_state(self, state: State) -> None:
        """Remember what `get_state` returned, found among other names."""
        ...


class WholeObservations:
    """Observations as they come."""

    memory_format = torch.contiguous_format
    reads_floats = False

    def __init__(self, num_slots: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.shape = shape
        self.dtype = dtype
        self._observations = np.zeros((num_slots, *shape), dtype)

    def write(self, slots: Ints, observations: Observations, starts: Bools) -> None:
        """Store observations; it does not matter where episodes begin."""
        self._observations[slots] = observations

    def read(self, slots: Ints, out: Observations) -> None:
        """Copy observations into `out`, an array in C order."""
        np.take(self._observations, slots, axis=0, out=out, mode="clip")  # "raise" would make a copy

    def get_state(self) -> State:
        """Return the observations, (N, ...)."""
        return {"observations": self._observations}

    def set_state(self, state: State) -> None:
        """Remember them, if any are kept."""
        if self._observations.size:
            np.copyto(self._observations, state["observations"])


class RawFrames:
    """Frames as they come, in places that are a ring for each lane: lane e's begin at e * lane_places.

    Args:
        num_lanes: How many rings.
        lane_places: Places of each.
        shape: Of a frame.
        dtype: Of a frame.
    """

    def __init__(self, num_lanes: int, lane_places: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.lane_places = lane_places
        self._frames = np.zeros((num_lanes * lane_places, *shape), dtype)

    def write(self, places: Ints, frames: Observations) -> None:
        """Store frames, (n, ...), each in the place that follows the last one taken in its lane, (n,)."""
        self._frames[places] = frames

    def fetch(self, places: Ints) -> tuple[Observations, Ints]:
        """Return an array of frames, and where in it those of `places` are: nothing is copied."""
        return self._frames, places

    def get_state(self) -> State:
        """Return the frames; they can be read but not written to."""
        frames = self._frames.view()
        frames.flags.writeable = False
        return {"frames": frames}

    def set_state(self, state: State) -> None:
        """Remember frames: take over those that no other memory holds, which spares a copy of gigabytes."""
        frames = state["frames"]
        if frames.flags.writeable and (frames.shape, frames.dtype) == (self._frames.shape, self._frames.dtype):
            self._frames = frames
        else:
            np.copyto(self._frames, frames)


class CompressedFrames:
    """Frames in zstd, with the run's first frame as the dictionary of all (P71).

    Consecutive frames of a lane lie side by side in a block of bytes. A lane has one block more than it needs: when
    a block is begun anew, no frame in it is of use any more.

    Args:
        num_lanes: How many rings.
        lane_places: Places of each that are needed; there will be more.
        shape: Of a frame.
        dtype: Of a frame.
        block_places: Frames of a block.
    """

    def __init__(
        self,
        num_lanes: int,
        lane_places: int,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        block_places: int = 256,
    ) -> None:
        num_blocks = math.ceil(lane_places / block_places) + 1
        self.lane_places = num_blocks * block_places
        self._block_places = block_places
        self._blocks: list[bytes | bytearray] = [b""] * (num_lanes * num_blocks)
        self._ends = np.zeros(num_lanes * self.lane_places, np.uint32)  # of each frame in its block
        self._room = np.empty((0, *shape), dtype)
        self._set_dictionary(b"")

    def write(self, places: Ints, frames: Observations) -> None:
        """Store frames, (n, ...), each in the place that follows the last one taken in its lane, (n,)."""
        if not self._dictionary:
            self._set_dictionary(frames[0].tobytes())
        for place, frame in zip(places.tolist(), frames, strict=True):
            block, index = divmod(place, self._block_places)
            if index == 0:
                self._blocks[block] = bytearray()
            self._blocks[block] += self._compressor.compress(frame.tobytes())
            self._ends[place] = len(self._blocks[block])
            if index == self._block_places - 1:
                self._blocks[block] = bytes(self._blocks[block])  # without the room to grow

    def fetch(self, places: Ints) -> tuple[Observations, Ints]:
        """Return an array of frames, and where in it those of `places` are; valid until the next call."""
        distinct, inverse = np.unique(places, return_inverse=True)
        blocks, indices = np.divmod(distinct, self._block_places)
        firsts = (np.diff(distinct, prepend=-2) != 1) | (indices == 0)  # of those that lie side by side
        lasts = np.append(firsts, True)[1:]
        starts = np.where(indices == 0, 0, self._ends[distinct - 1])[firsts]
        ends = self._ends[distinct[lasts]]
        runs = zip(blocks[firsts].tolist(), starts.tolist(), ends.tolist(), strict=True)
        packed = b"".join([self._blocks[block][start:end] for block, start, end in runs])
        if len(self._room) < len(distinct):
            self._room = np.empty((len(distinct), *self._room.shape[1:]), self._room.dtype)
        frames = self._room[: len(distinct)]
        size = self._decompressor.stream_reader(packed, read_across_frames=True).readinto(frames)
        if size != frames.nbytes:
            raise ValueError(f"{len(distinct)} frames were to be read, and {size} bytes were found")
        return frames, inverse.reshape(places.shape)

    def get_state(self) -> State:
        """Return the frames as they are: compressed, block after block."""
        return {
            "frames": np.frombuffer(b"".join(self._blocks), np.uint8),
            "frame_ends": self._ends,
            "block_sizes": np.array([len(block) for block in self._blocks]),
            "dictionary": np.frombuffer(self._dictionary, np.uint8),
        }

    def set_state(self, state: State) -> None:
        """Remember them."""
        sizes, frames = state["block_sizes"], state["frames"]
        if sizes.shape != (len(self._blocks),) or sizes.sum() != len(frames):
            raise ValueError("these frames are of a memory of another size")
        ends = sizes.cumsum()
        self._blocks = [frames[start:end].tobytes() for start, end in zip(ends - sizes, ends, strict=True)]
        np.copyto(self._ends, state["frame_ends"])
        self._set_dictionary(state["dictionary"].tobytes())

    def _set_dictionary(self, dictionary: bytes) -> None:
        self._dictionary = dictionary
        content = zstandard.ZstdCompressionDict(dictionary, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
        self._compressor = zstandard.ZstdCompressor(level=3, dict_data=content)
        self._decompressor = zstandard.ZstdDecompressor(dict_data=content)


class StackedObservations:
    """Observations that are the last frames of their episode, stacked along the first axis, oldest first (P70).

    Of each observation only the newest frame is stored. A slot notes the places of its whole stack: its own frame's,
    and before it those of the slot before it, less the oldest. Where an episode begins, the older frames are black or
    the first one again, as the environment shows them. A lane has more places than slots, by the older frames of a
    stack, so that every slot's stack is whole.

    Args:
        num_environments: E, the number of lanes.
        lane_capacity: Slots of each lane.
        shape: Of one observation: frames, then the shape of a frame.
        dtype: Of a frame.
        make_frames: RawFrames or CompressedFrames.
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
        self.reads_floats = dtype == np.uint8
        num_stacked, *frame_shape = shape
        self._lane_capacity = lane_capacity
        self._frames = make_frames(num_environments, lane_capacity + num_stacked - 1, tuple(frame_shape), dtype)
        lane_ends = self._frames.lane_places * np.arange(1, num_environments + 1)
        self._stacks = np.empty((num_environments * lane_capacity, num_stacked), np.int32)
        self._stacks[:] = np.repeat(lane_ends - 1, lane_capacity)[:, None]  # so that the first frame takes place 0
        self._rooms: dict[int, Tensor] = {}

    def write(self, slots: Ints, observations: Observations, starts: Bools) -> None:
        """Store the newest frames of observations."""
        lanes, indices = np.divmod(slots, self._lane_capacity)
        previous = self._stacks[lanes * self._lane_capacity + (indices - 1) % self._lane_capacity]
        places = lanes * self._frames.lane_places + (previous[:, -1] + 1) % self._frames.lane_places
        self._stacks[slots, :-1] = previous[:, 1:]
        self._stacks[slots, -1] = places
        for i in starts.nonzero()[0]:
            self._stacks[slots[i], :-1] = _place_before(places[i], observations[i])
        self._frames.write(places, observations[:, -1])

    def read(self, slots: Ints, out: Observations) -> None:
        """Copy stacks into `out`; it costs least where the frames of a stack are its last axis in memory."""
        stacks = self._stacks[slots].astype(np.int64)
        is_black = stacks == _BLACK
        frames, places = self._frames.fetch(np.where(is_black, stacks[:, -1:], stacks))
        source, target, indices = torch.from_numpy(frames), torch.from_numpy(out), torch.from_numpy(places.T.copy())
        room = self._room(len(slots))
        for i in range(self.shape[0]):  # by torch, which has more than one thread
            torch.index_select(source, 0, indices[i], out=room)
            target[:, i].copy_(room)
        out[is_black] = 0

    def _room(self, num_frames: int) -> Tensor:
        """Return memory for frames that is allocated once."""
        if num_frames not in self._rooms:
            self._rooms[num_frames] = torch.from_numpy(np.empty((num_frames, *self.shape[1:]), self.dtype))
        return self._rooms[num_frames]

    def get_state(self) -> State:
        """Return frames and stacks."""
        return {**self._frames.get_state(), "stacks": self._stacks}

    def set_state(self, state: State) -> None:
        """Remember them."""
        self._frames.set_state(state)
        np.copyto(self._stacks, state["stacks"])


def _place_before(place: int, first: Observations) -> int:
    """Return the place of the frames that an episode's first observation shows before the first frame, in `place`."""
    *older, newest = first
    if all(np.array_equal(frame, newest) for frame in older):
        return place
    if any(frame.any() for frame in older):
        raise ValueError("an episode's first observation must be its first frame after black ones or after itself")
    return _BLACK
