"""Reading the next batch while the environments step saves time and changes no result."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eva.agent.agent import EVAAgent
from eva.agent.exploration import LinearSchedule
from eva.agent.memory import observations
from eva.agent.memory.frames import CompressedFrames, RawFrames
from eva.agent.memory.observations import StackedObservations
from eva.agent.memory.priorities import Priorities
from eva.agent.memory.replay import ReplayBuffer
from eva.agent.memory.staging import Staging
from eva.build import build_agent
from eva.runs.checkpoint.state import pack
from eva.runs.loop import interact
from eva.types import Batch
from tests.agent.memory.test_frames import BYTES, SCRIPT, StackedVector, differing, stacked_config
from tests.helpers.strategies import CPU, GAMMA

SHAPE = (3, 2, 5)
NUM_LANES = 2


def memory(lane_capacity: int, make_frames: Any = RawFrames, reads_ahead: bool = True) -> ReplayBuffer:
    store = StackedObservations(NUM_LANES, lane_capacity, SHAPE, BYTES, make_frames)
    return ReplayBuffer(NUM_LANES * lane_capacity, NUM_LANES, store, 1, GAMMA, CPU, reads_ahead=reads_ahead)


class Source:
    """Generates transitions for memories: equal for equal seeds."""

    def __init__(self, seed: int = 0) -> None:
        self._generator = np.random.default_rng(seed)
        self._stacks = np.zeros((NUM_LANES, *SHAPE), np.uint8)

    def step(self, replay: ReplayBuffer, end: str = ".") -> None:
        """Store a transition of both lanes; a termination "T" is the first lane's, a truncation "|" the second's."""
        newest = self._generator.integers(256, size=(NUM_LANES, 1, *SHAPE[1:]), dtype=np.uint8)
        self._stacks = np.concatenate([self._stacks[:, 1:], newest], axis=1)
        self._stacks[replay.episode_starts, :-1] = 0
        nothing = np.zeros(NUM_LANES)
        terminated = np.array([end == "T", False])
        replay.append(self._stacks.copy(), nothing.astype(int), nothing, terminated, torch.zeros(NUM_LANES, 1))
        if end == "|":
            self._stacks = np.roll(self._stacks, 1, axis=1)
            self._stacks[:, -1] = newest[:, 0] // 2
            replay.close(np.array([1]), self._stacks[1:], torch.zeros(1, 1))


def filled(replay: ReplayBuffer, num_steps: int = 70, seed: int = 0) -> tuple[ReplayBuffer, Source]:
    """Return a memory after `num_steps` steps, and the source of its transitions."""
    source = Source(seed)
    for _ in range(num_steps):
        source.step(replay)
    return replay, source


def equal(one: Batch, other: Batch) -> bool:
    return torch.equal(one.observations, other.observations) and torch.equal(
        one.next_observations, other.next_observations
    )


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the reading threads, in order."""
    names: list[str] = []
    take = Staging.take

    def noted(self: Staging, copy: Any) -> None:
        names.append(threading.current_thread().name)
        take(self, copy)

    monkeypatch.setattr(Staging, "take", noted)
    return names


@settings(max_examples=200)
@given(
    lane_capacity=st.integers(2, 9),
    ends=st.lists(st.sampled_from("....T|"), min_size=1, max_size=30),
    batch_size=st.integers(1, 6),
    make_frames=st.sampled_from([RawFrames, partial(CompressedFrames, block_places=2)]),
    seed=st.integers(0, 99),
)
def test_results_do_not_depend_on_reading_ahead(
    lane_capacity: int, ends: list[str], batch_size: int, make_frames: Any, seed: int
) -> None:
    ahead, plain = memory(lane_capacity, make_frames), memory(lane_capacity, make_frames, reads_ahead=False)
    sources, generators = [Source(seed), Source(seed)], [np.random.default_rng(seed) for _ in range(2)]
    for end in ends:
        batches = []
        for replay, source, generator in zip((ahead, plain), sources, generators, strict=True):
            replay.read_ahead(generator, batch_size)
            source.step(replay, end)
            if replay.num_complete > 0:
                batches.append(replay.batch(replay.sample(generator, batch_size)))
        assert not batches or equal(*batches)
    assert generators[0].bit_generator.state == generators[1].bit_generator.state


def test_predicted_batch_is_read_once_in_the_thread(readings: list[str]) -> None:
    (replay, source), generator = filled(memory(500), num_steps=600), np.random.default_rng(0)
    for _ in range(50):
        replay.read_ahead(generator, 2)
        source.step(replay)
        replay.batch(replay.sample(generator, 2))
    num_ahead = sum(name.startswith("eva-reader") for name in readings)
    assert num_ahead >= 48
    assert len(readings) - num_ahead <= 2, "all but the few that meet the newest and the oldest states are read once"


def test_mispredicted_batch_is_read_again(readings: list[str]) -> None:
    (replay, _), (plain, _) = filled(memory(50)), filled(memory(50, reads_ahead=False))
    generator = np.random.default_rng(0)
    replay.read_ahead(generator, 3)
    other = np.array([4, 9, 60])
    assert equal(replay.batch(other), plain.batch(other))
    assert [name.startswith("eva-reader") for name in readings] == [True, False, False]


def test_loading_a_memory_drops_what_was_read_ahead() -> None:
    (replay, _), (other, _) = filled(memory(50), seed=1), filled(memory(50), seed=2)
    slots = np.array([3, 8])
    expected = other.batch(slots).observations.clone()
    replay._reader.begin(replay._with_successors(slots), replay.index.born[replay._with_successors(slots)])
    replay.load_state_dict(other.state_dict())
    assert torch.equal(replay.batch(slots).observations, expected)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda memory: pickle.loads(pickle.dumps(memory))])
def test_a_copy_reads_its_own_memory(copied: Callable[[ReplayBuffer], ReplayBuffer]) -> None:
    replay, source = filled(memory(50))
    replay.read_ahead(np.random.default_rng(3), 2)
    other = copied(replay)
    for _ in range(100):
        source.step(replay)
    slots = np.array([3, 8])
    other.read_ahead(np.random.default_rng(3), 2)
    np.testing.assert_array_equal(other.batch(slots).observations, other.observations_at(slots))
    assert (other.observations_at(slots) != replay.observations_at(slots)).any()


def test_errors_of_the_thread_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    replay, source = filled(memory(50))

    def broken(*_: object) -> None:
        raise ValueError("these frames are lost")

    monkeypatch.setattr(replay.store, "_copy", broken)
    replay.read_ahead(np.random.default_rng(3), 2)
    before = replay.state_dict()["born"].copy()
    with pytest.raises(ValueError, match="these frames are lost"):
        source.step(replay)
    np.testing.assert_array_equal(replay.state_dict()["born"], before)
    monkeypatch.undo()
    slots = replay.sample(np.random.default_rng(3), 2)
    np.testing.assert_array_equal(replay.batch(slots).observations, replay.observations_at(slots))


def test_prioritised_replay_does_not_read_ahead(readings: list[str]) -> None:
    store = StackedObservations(NUM_LANES, 50, SHAPE, BYTES, RawFrames)
    beta = LinearSchedule(0.4, 1.0)
    priorities = Priorities(100, priority_exponent=0.6, priority_floor=1e-6, importance_exponent=beta)
    replay, _ = filled(ReplayBuffer(100, NUM_LANES, store, 1, GAMMA, CPU, priorities, reads_ahead=True))
    replay.read_ahead(np.random.default_rng(0), 2)
    assert readings == []


def test_the_thread_ends_with_the_memory() -> None:
    def threads() -> set[threading.Thread]:
        return {each for each in threading.enumerate() if each.name.startswith("eva-reader")}

    before = threads()
    replay, source = filled(memory(50))
    replay.read_ahead(np.random.default_rng(0), 2)
    source.step(replay)
    (thread,) = threads() - before
    del replay
    gc.collect()
    thread.join(timeout=10)
    assert not thread.is_alive()


@pytest.mark.parametrize("frames", ["raw", "compressed"])
def test_agent_that_reads_ahead_learns_the_same(frames: str, readings: list[str]) -> None:
    assert differing(pack(_trained(frames, 1).state_dict())[0], pack(_trained(frames, 2).state_dict())[0]) == []
    assert sum(name.startswith("eva-reader") for name in readings) > 20


def _trained(frames: str, threads: int) -> EVAAgent:
    """Return an agent whose config sets the number of threads; torch's own number stays the same."""
    environment = StackedVector(SCRIPT, num_stacked=4)
    config = stacked_config(frames)
    agent = build_agent(replace(config, run=replace(config.run, threads=threads)), environment.spec)
    steps = interact(agent, environment)
    for _ in range(90):
        next(steps)
    return agent


@pytest.mark.parametrize("num_read", [0, 1, 7])
@pytest.mark.parametrize("num_stacked", [2, 4])
def test_stacks_are_the_same_without_opencv(num_stacked: int, num_read: int, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    store = StackedObservations(1, 30, (num_stacked, 8, 9), BYTES, RawFrames)
    for slot in range(30):
        stack = generator.integers(256, size=(1, num_stacked, 8, 9), dtype=np.uint8)
        if slot == 0:
            stack[:, :-1] = 0
        store.write(np.array([slot]), stack, np.array([slot == 0]))
    slots = generator.integers(30, size=num_read)
    read = []
    for without in (False, True):
        if without:
            monkeypatch.setattr(observations, "_merge", lambda: None)
        room = np.moveaxis(np.full((num_read, 8, 9, num_stacked), 7, np.uint8), -1, 1)
        store.find(slots)(room)
        read.append(room)
    np.testing.assert_array_equal(*read)
