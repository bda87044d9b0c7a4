"""The way from the host to the device."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor


def to_device(array: NDArray[Any], device: torch.device) -> Tensor:
    """Return an array as a tensor on the device.

    A copy from pageable memory to CUDA waits for all that the device still has to do, one from pinned memory does not.
    torch keeps the pinned memory until the copy is made, and for the next array of that size.
    """
    tensor = torch.from_numpy(array)
    if device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def name_of(device: torch.device) -> str:
    """Return a device in words, for a run's provenance."""
    if device.type != "cuda":
        return device.type
    return f"cuda ({torch.cuda.get_device_name(device)}, CUDA {torch.version.cuda})"
