"""Arrays and tensors: conversion, transfer to the device, and checks of arguments."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def as_array(array: NDArray[Any] | Tensor) -> NDArray[Any]:
    """Return an array on the host."""
    if not isinstance(array, Tensor):
        return np.asarray(array)
    return (array.float() if array.dtype == torch.bfloat16 else array).detach().cpu().numpy()  # NumPy has no bfloat16


def as_tensor(array: NDArray[Any] | Tensor, device: torch.device) -> Tensor:
    """Return a float32 tensor on `device`, detached from its graph."""
    contiguous = array if isinstance(array, Tensor) else np.ascontiguousarray(array)
    return torch.as_tensor(contiguous, dtype=torch.float32, device=device).detach()


def to_device(array: NDArray[Any], device: torch.device) -> Tensor:
    """Return an array as a tensor on the device.

    A copy from pageable memory to CUDA waits until the device is idle, one from pinned memory does not. torch keeps the
    pinned memory until the copy is made, and reuses it for the next array of that size.
    """
    tensor = torch.from_numpy(array)
    if device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def name_of(device: torch.device) -> str:
    """Return a description of a device, for a run's provenance."""
    if device.type != "cuda":
        return device.type
    return f"cuda ({torch.cuda.get_device_name(device)}, CUDA {torch.version.cuda})"


def check_weight(nonparametric_weight: float) -> None:
    """Raise ValueError unless the weight is in [0, 1]."""
    if not 0 <= nonparametric_weight <= 1:
        raise ValueError(f"nonparametric_weight must be in [0, 1], got {nonparametric_weight}")


def check_shapes(shape: tuple[int, ...], **arrays: NDArray[Any] | Tensor) -> None:
    """Raise ValueError if an array does not have this shape."""
    for name, array in arrays.items():
        if tuple(array.shape) != shape:
            raise ValueError(f"{name} must have shape {shape}, got {tuple(array.shape)}")


def restore(target: NDArray[Any], saved: NDArray[Any]) -> None:
    """Copy a saved array; raises ValueError if its shape differs, where np.copyto would broadcast."""
    if np.shape(saved) != target.shape:
        raise ValueError(f"expected an array of shape {target.shape}, got {np.shape(saved)}")
    np.copyto(target, saved)


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view of an array that cannot be written to."""
    view: NDArray[Any] = array.view()
    view.flags.writeable = False
    return view


def adopted(target: NDArray[Any], saved: NDArray[Any]) -> NDArray[Any]:
    """Return the saved array itself if it can take the target's place, to avoid a copy of gigabytes.

    It can if it is writable and has the same type and shape. Otherwise it is copied, as by `restore`.
    """
    if saved.flags.writeable and (saved.shape, saved.dtype) == (target.shape, target.dtype):
        return saved
    restore(target, saved)
    return target
