"""Arrays go to the device without waiting for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from eva.agent.tensors import name_of, to_device
from eva.runs.loop import Training
from tests.helpers.agents import tiny
from tests.helpers.strategies import CPU


def test_cpu_arrays_are_not_copied() -> None:
    array = np.arange(3)
    tensor = to_device(array, CPU)
    array[1] = 7
    assert tensor.tolist() == [0, 7, 2]


def test_arrays_are_copied_to_cuda_from_pinned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks the calls, because CUDA may not be available."""
    tape: list[Any] = []

    def pin_memory(tensor: torch.Tensor) -> torch.Tensor:
        tape.append("pinned")
        return tensor

    def to(tensor: torch.Tensor, device: torch.device, *, non_blocking: bool) -> torch.Tensor:
        tape.append((device.type, non_blocking))
        return tensor

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin_memory)
    monkeypatch.setattr(torch.Tensor, "to", to)
    to_device(np.arange(3), torch.device("cuda"))
    assert tape == ["pinned", ("cuda", True)]


def test_device_names(monkeypatch: pytest.MonkeyPatch) -> None:
    assert name_of(CPU) == "cpu"
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"GPU {device.index}")
    monkeypatch.setattr(torch.version, "cuda", "12.9")
    assert name_of(torch.device("cuda", 1)) == "cuda (GPU 1, CUDA 12.9)"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_update_does_not_wait_for_the_device() -> None:
    """torch warns about every call that waits for the device."""
    training = Training(tiny(2, learner={"double": True}, replay={"prioritised": True}, run={"device": "cuda"}))
    steps = training.steps()
    for _ in range(30):
        next(steps)
    agent = training.agent
    slots = agent.replay.sample(np.random.default_rng(0), 8)
    torch.cuda.set_sync_debug_mode("error")
    try:
        agent.learner.update(agent.replay.batch(slots))
    finally:
        torch.cuda.set_sync_debug_mode("default")
