"""Frames of observations, each stored once: raw or compressed."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import zstandard
from numpy.typing import NDArray

from eva.agent.tensors import adopted, read_only, restore
from eva.errors import UserError
from eva.types import Ints, Observations, State

_DAMAGED = "the frames in the memory are damaged: restore the run's files, or train it again with --restart."
Read = Callable[[], Observations]
"""Returns frames; any thread can call it."""


class RawFrames:
    """Uncompressed frames. Each lane has a ring of `lane_places` places: those of lane e begin at e * lane_places."""

    def __init__(self, num_lanes: int, lane_places: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.lane_places = lane_places
        self._frames = np.zeros((num_lanes * lane_places, *shape), dtype)

    def write(self, places: Ints, frames: Observations) -> None:
        """Store frames, (n, ...), each in the place that follows the last one taken in its lane, (n,)."""
        self._frames[places] = frames

    def fetch(self, places: Ints) -> tuple[Read, Ints]:
        """Return a function that returns all frames without a copy, and `places`, the indices of the requested ones."""
        return lambda: self._frames, places

    def state_dict(self) -> State:
        """Return the frames; they can be read but not written to."""
        return {"frames": read_only(self._frames)}

    def load_state_dict(self, state: State) -> None:
        """Restore frames; a writable array is used as it is."""
        self._frames = adopted(self._frames, state["frames"])


class CompressedFrames:
    """Frames compressed by zstd; the run's first frame is the dictionary for all frames (P71).

    A block holds `block_places` consecutive frames of a lane. A lane has one block more than its frames fill: when a
    block is overwritten, all of its frames are obsolete.
    """

    def __init__(
        self, num_lanes: int, lane_places: int, shape: tuple[int, ...], dtype: np.dtype[Any], block_places: int = 256
    ) -> None:
        num_blocks = math.ceil(lane_places / block_places) + 1
        self.lane_places = num_blocks * block_places
        self._block_places = block_places
        self._blocks: list[bytes | bytearray] = [b""] * (num_lanes * num_blocks)
        self._ends = np.zeros(num_lanes * self.lane_places, np.uint32)  # where each frame ends in its block
        self._shape = shape
        self._dtype = dtype
        self._frame_bytes = math.prod(shape) * dtype.itemsize
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
                self._blocks[block] = bytes(self._blocks[block])  # without spare capacity

    def fetch(self, places: Ints) -> tuple[Read, Ints]:
        """Return a function that decompresses the frames of `places`, and the index of each place in its result."""
        distinct, inverse = np.unique(places, return_inverse=True)
        blocks, indices = np.divmod(distinct, self._block_places)
        starts, ends = np.where(indices == 0, 0, self._ends[distinct - 1]).astype(np.int64), self._ends[distinct]
        firsts = (np.diff(distinct, prepend=-2) != 1) | (indices == 0)  # of each run of adjacent frames
        lasts = np.append(firsts, True)[1:]
        runs = zip(blocks[firsts].tolist(), starts[firsts].tolist(), ends[lasts].tolist(), strict=True)
        packed = b"".join([self._blocks[block][start:end] for block, start, end in runs])
        sizes = ends - starts
        if not (sizes > 0).all() or sizes.sum() != len(packed):
            raise UserError(_DAMAGED)
        segments = np.stack([sizes.cumsum() - sizes, sizes], axis=1).astype(np.uint64)
        return lambda: self._decompress(packed, segments), inverse.reshape(places.shape)

    def _decompress(self, packed: bytes, segments: NDArray[np.uint64]) -> Observations:
        """Return the frames of these offsets and sizes, (n, 2), with one call that releases the GIL."""
        if len(segments) == 0:  # zstandard crashes
            return np.empty((0, *self._shape), self._dtype)
        # Without these sizes, a damaged frame would be decompressed to whatever size it claims.
        expected = np.full(len(segments), self._frame_bytes, np.uint64).tobytes()
        try:
            compressed = zstandard.BufferWithSegments(packed, segments.tobytes())
            found = self._decompressor.multi_decompress_to_buffer(compressed, decompressed_sizes=expected)
        except (zstandard.ZstdError, ValueError) as error:
            raise UserError(_DAMAGED) from error
        frames = b"".join(found)  # type: ignore[arg-type]
        return np.frombuffer(frames, self._dtype).reshape(len(segments), *self._shape)

    def state_dict(self) -> State:
        """Return the compressed frames, block after block."""
        return {
            "frames": np.frombuffer(b"".join(self._blocks), np.uint8),
            "frame_ends": self._ends,
            "block_sizes": np.array([len(block) for block in self._blocks]),
            "dictionary": np.frombuffer(self._dictionary, np.uint8),
        }

    def load_state_dict(self, state: State) -> None:
        """Restore frames that `state_dict` returned."""
        sizes, frames = state["block_sizes"], state["frames"]
        if sizes.shape != (len(self._blocks),) or sizes.min() < 0 or sizes.sum() != len(frames):
            raise ValueError("the frames were saved by a memory of another size")
        ends = sizes.cumsum()
        self._blocks = [frames[start:end].tobytes() for start, end in zip(ends - sizes, ends, strict=True)]
        restore(self._ends, state["frame_ends"])
        self._set_dictionary(state["dictionary"].tobytes())

    def _set_dictionary(self, dictionary: bytes) -> None:
        self._dictionary = dictionary
        content = zstandard.ZstdCompressionDict(dictionary, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
        self._compressor = zstandard.ZstdCompressor(level=3, dict_data=content)
        self._decompressor = zstandard.ZstdDecompressor(dict_data=content)
