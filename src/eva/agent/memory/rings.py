"""The part of a replay buffer's state that has been written: of each lane's ring, the places in use."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eva.types import State

Arrays = dict[str, NDArray[Any]]

_RINGS = (
    *("observations", "frames", "frame_ends", "stacks", "actions", "rewards", "discounts", "kinds"),
    *("embeddings", "born", "priorities"),
)
_NOT_ZERO = ("born", "stacks")  # arrays whose unused places are not 0


def rings(memory: State) -> Arrays:
    """Return the arrays that are rings, lane by lane: (E, places of a lane, ...), without a copy.

    Compressed frames are no ring: their blocks take as much space as they need.
    """
    num_lanes = len(memory["lane_counts"])
    names = [name for name in _RINGS if name in memory and not (name == "frames" and "block_sizes" in memory)]
    shapes = {name: (num_lanes, len(memory[name]) // num_lanes, *memory[name].shape[1:]) for name in names}
    return {name: memory[name].reshape(shape) for name, shape in shapes.items()}


def num_used(memory: State, num_places: int) -> int:
    """Return how many places of the fullest lane are in use, at most `num_places`."""
    return min(int(memory["lane_counts"].max()), num_places)


def used(memory: Arrays) -> Arrays:
    """Return a memory whose rings hold only places in use, (E, places in use, ...); other arrays are unchanged.

    As many places are returned for every lane: those of its fullest one. Nothing is copied.
    """
    return {**memory, **{name: ring[:, : num_used(memory, ring.shape[1])] for name, ring in rings(memory).items()}}


def whole(memory: Arrays, empty: Arrays) -> Arrays:
    """Reverse `used`; `empty` is the state of a new memory. Rings that are whole already stay as they are.

    Raises ValueError if the sizes do not agree.
    """
    restored = dict(memory)
    for name, new in rings(empty).items():
        if memory[name].ndim < new.ndim:
            continue
        count = num_used(memory, new.shape[1])
        if memory[name].shape != (len(new), count, *new.shape[2:]):
            raise ValueError(f"{name!r} does not hold {count} places of each lane")
        if count < new.shape[1]:
            ring = new.copy() if name in _NOT_ZERO else np.zeros(new.shape, new.dtype)  # zeros take no memory
            ring[:, :count] = memory[name]
        else:
            ring = memory[name]
        restored[name] = ring.reshape(-1, *new.shape[2:])
    return restored
