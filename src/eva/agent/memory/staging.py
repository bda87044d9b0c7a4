"""Transfer of stored observations to the device, through memory that is allocated once (and pinned for CUDA)."""

from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor

from eva.agent.memory.observations import Copy, ObservationStore
from eva.types import Ints

_NOTHING = np.empty(0, np.int64)


class Staging:
    """A buffer for `size` observations on their way from the store to the device."""

    def __init__(self, size: int, store: ObservationStore, device: torch.device) -> None:
        shape, memory_format = (size, *store.shape), store.memory_format
        cuda = device.type == "cuda"
        dtype = torch.from_numpy(np.empty(0, store.dtype)).dtype
        self._host = torch.empty(shape, dtype=dtype, memory_format=memory_format, pin_memory=cuda)
        self._array = self._host.numpy()
        self._device = device
        self._copied = torch.cuda.Event() if cuda else None

    def take(self, copy: Copy) -> None:
        """Fill the buffer; any thread can call it."""
        if self._copied is not None:
            self._copied.synchronize()  # the last transfer must be complete
        copy(self._array)

    def send(self) -> Tensor:
        """Return the buffer's observations on the device; valid until the next `take`."""
        sent = self._host.to(self._device, non_blocking=True)
        if self._copied is not None:
            self._copied.record(torch.cuda.current_stream(self._device))  # not that of another GPU
        return sent


class Reader:
    """Reads stored observations. `begin` reads ahead, in a thread of its own.

    If the next request is for other observations, those that were read ahead are dropped: results do not depend on
    reading ahead. Call `settle` before writing to the store.
    """

    def __init__(self, store: ObservationStore, device: torch.device) -> None:
        self._store = store
        self._device = device
        self._stagings: dict[int, Staging] = {}  # by their size
        self._thread = ThreadPoolExecutor(1, "eva-reader")  # starts at the first submit
        self._reading: Future[None] | None = None
        self._ahead = _NOTHING  # the states that have been read ahead

    def __reduce__(self) -> "tuple[type[Reader], tuple[ObservationStore, torch.device]]":
        """Copy or pickle without the thread."""
        return Reader, (self._store, self._device)

    def begin(self, slots: Ints, states: Ints) -> None:
        """Start to read the observations of `slots`, (n,); `states`, (n,), are unique numbers of their states."""
        self.settle()
        self._reading = self._thread.submit(self._staging(len(slots)).take, self._store.find(slots))
        self._ahead = states

    def load(self, slots: Ints, states: Ints) -> Tensor:
        """Return the observations of `slots`, (n,), on the device, valid until the next call; `states` as above."""
        self.settle()
        ahead, self._ahead = self._ahead, _NOTHING
        staging = self._staging(len(slots))
        if not np.array_equal(ahead, states):
            staging.take(self._store.find(slots))
        return staging.send()

    def settle(self) -> None:
        """Wait for the reading in progress; raise its error if it failed."""
        reading, self._reading = self._reading, None
        if reading is not None and (error := reading.exception()) is not None:
            self._ahead = _NOTHING
            raise error

    def forget(self) -> None:
        """Drop what was read ahead: after loading a memory, the same numbers can mean other states."""
        self.settle()
        self._ahead = _NOTHING

    def _staging(self, size: int) -> Staging:
        if size not in self._stagings:
            self._stagings[size] = Staging(size, self._store, self._device)
        return self._stagings[size]
