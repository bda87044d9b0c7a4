"""Convert nested states to named arrays and plain data, which a checkpoint stores, and back."""

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from eva.types import State


def pack(state: State, path: str = "") -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Split a state into arrays, named by path ("agent/replay/rewards"), and the same tree without them."""
    arrays: dict[str, NDArray[Any]] = {}
    plain: dict[str, Any] = {}
    for name, value in state.items():
        if not isinstance(name, str) or "/" in name:
            raise ValueError(f"a name in a state must be text without '/', not {name!r}")
        if isinstance(value, dict):
            inner_arrays, plain[name] = pack(value, f"{path}{name}/")
            arrays |= inner_arrays
        elif isinstance(value, Tensor):
            arrays[f"{path}{name}"] = value.detach().cpu().contiguous().numpy()
        elif isinstance(value, np.ndarray):
            arrays[f"{path}{name}"] = np.ascontiguousarray(value) if value.ndim else value
        else:
            plain[name] = value
    return arrays, plain


def unpack(arrays: dict[str, NDArray[Any]], plain: dict[str, Any]) -> State:
    """Reverse `pack`."""
    state = copy.deepcopy(plain)
    for path, array in arrays.items():
        *groups, name = path.split("/")
        inner = state
        for group in groups:
            inner = inner[group]
        inner[name] = array
    return state
