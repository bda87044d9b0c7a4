"""The way of stored observations to the device, by memory that is allocated once (and pinned for CUDA)."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor

from eva.agent.memory.observations import Copy, ObservationStore
from eva.types import Ints

_NOTHING = np.empty(0, np.int64)


class Staging:
    """Room for n observations on their way from the store to the device."""

    def __init__(self, size: int, store: ObservationStore, device: torch.device) -> None:
        shape, memory_format = (size, *store.shape), store.memory_format
        cuda = device.type == "cuda"
        dtype = torch.from_numpy(np.empty(0, store.dtype)).dtype
        self._host = torch.empty(shape, dtype=dtype, memory_format=memory_format, pin_memory=cuda)
        self._array = self._host.numpy()
        self._device = device
        self._copied = torch.cuda.Event() if cuda else None

    def take(self, copy: Copy) -> None:
        """Let n observations be copied here; any thread may do so."""
        if self._copied is not None:
            self._copied.synchronize()  # those before must have left the pinned memory
        copy(self._array)

    def send(self) -> Tensor:
        """Return what was taken last, on the device; valid until the next is."""
        sent = self._host.to(self._device, non_blocking=True)
        if self._copied is not None:
            self._copied.record(torch.cuda.current_stream(self._device))  # not that of another GPU
        return sent


class Reader:
    """Reads stored observations, also ahead of the time when they are wanted, in a thread of its own.

    What is read ahead is used if it turns out to be what is wanted, and read again if not: it decides nothing. Call
    `settle` before writing to the store.

    Args:
        store: What is read.
        device: Where observations go.
    """

    def __init__(self, store: ObservationStore, device: torch.device) -> None:
        self._store = store
        self._device = device
        self._stagings: dict[int, Staging] = {}  # by their size
        self._thread = ThreadPoolExecutor(1, "eva-reader")  # which begins with the first reading
        self._reading: Future[None] | None = None
        self._ahead = _NOTHING  # the states that have been read ahead

    def __reduce__(self) -> tuple[type[Reader], tuple[ObservationStore, torch.device]]:
        """Let a copy, or what is pickled, have a thread of its own."""
        return Reader, (self._store, self._device)

    def begin(self, slots: Ints, states: Ints) -> None:
        """Begin to read the observations of `slots`, (n,), which hold `states`: numbers that no other states have."""
        self.settle()
        self._reading = self._thread.submit(self._staging(len(slots)).take, self._store.find(slots))
        self._ahead = states

    def load(self, slots: Ints, states: Ints) -> Tensor:
        """Return the observations of `slots`, (n,), which hold `states`, on the device; valid until the next call."""
        self.settle()
        ahead, self._ahead = self._ahead, _NOTHING
        staging = self._staging(len(slots))
        if not np.array_equal(ahead, states):
            staging.take(self._store.find(slots))
        return staging.send()

    def settle(self) -> None:
        """Wait until nothing is being read; raises what went wrong meanwhile."""
        reading, self._reading = self._reading, None
        if reading is not None and (error := reading.exception()) is not None:
            self._ahead = _NOTHING
            raise error

    def forget(self) -> None:
        """Take nothing for known: slots may come to hold other states under the same numbers."""
        self.settle()
        self._ahead = _NOTHING

    def _staging(self, size: int) -> Staging:
        if size not in self._stagings:
            self._stagings[size] = Staging(size, self._store, self._device)
        return self._stagings[size]
