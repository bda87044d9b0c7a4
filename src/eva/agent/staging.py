"""The way of stored observations to the device, by memory that is allocated once (and pinned for CUDA)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from eva.agent.frames import ObservationStore
from eva.types import Ints


class Staging:
    """Room for n observations on their way from the store to the device."""

    def __init__(self, size: int, store: ObservationStore, device: torch.device) -> None:
        shape, memory_format = (size, *store.shape), store.memory_format
        cuda = device.type == "cuda"  # which gets bytes: four times less to send
        dtype = torch.float32 if store.reads_floats and not cuda else torch.from_numpy(np.empty(0, store.dtype)).dtype
        self._host = torch.empty(shape, dtype=dtype, memory_format=memory_format, pin_memory=cuda)
        self._array = self._host.numpy()
        self._store = store
        self._device = device
        self._copied = torch.cuda.Event() if cuda else None

    def load(self, slots: Ints) -> Tensor:
        """Return the observations of `slots`, (n,), on the device; valid until the next call."""
        if self._copied is not None:
            self._copied.synchronize()  # the previous copy must have left the pinned memory
        self._store.read(slots, self._array)
        loaded = self._host.to(self._device, non_blocking=True)
        if self._copied is not None:
            self._copied.record(torch.cuda.current_stream(self._device))  # not that of another GPU
        return loaded
