"""Each frame is stored once, raw or compressed, and every stack equals the environment's observation."""

from __future__ import annotations

import resource
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

import eva.machine
from eva.agent.agent import EVAAgent
from eva.agent.memory.frames import CompressedFrames, RawFrames
from eva.agent.memory.observations import StackedObservations
from eva.agent.memory.replay import ReplayBuffer
from eva.agent.memory.rings import whole
from eva.build import build_agent
from eva.config import Config
from eva.errors import UserError
from eva.runs.checkpoint.state import pack, unpack
from eva.runs.checkpoint.store import Checkpoint, CheckpointStore
from eva.runs.record.directory import RunDirectory
from eva.runs.record.memory import read_memory
from eva.types import EnvironmentSpec, Ints, Observations, State, StepOutcome
from eva.wiring.memory import COMPRESSION, bytes_per_observation
from tests.helpers.agents import ScriptedVector, run, same_learning, tiny
from tests.helpers.reference.frames import ReferenceStacks
from tests.helpers.strategies import CPU, GAMMA, STEP, TERMINATE, TRUNCATE

FRAME = (2, 3)
BYTES = np.dtype(np.uint8)
CUT = 3  # after the step all running episodes are cut, as when a run goes on without its environments' state


@dataclass(frozen=True)
class Life:
    """What happens to a memory: the endings of each step, one for each environment."""

    num_environments: int
    lane_capacity: int
    num_stacked: int
    padding: list[list[int]] | None
    make_frames: Any
    seed: int
    steps: list[list[int]]


class StackCase:
    """The same transitions in a replay buffer and in the oracle's histories; frames may be equal."""

    def __init__(self, life: Life) -> None:
        self.life = life
        self.replay = self.empty()
        self.reference = ReferenceStacks(life.num_environments, life.lane_capacity, life.num_stacked, life.padding)
        self.generator = np.random.default_rng(life.seed)
        for environment in range(life.num_environments):
            self.reference.begin(environment, self.frame())

    def empty(self) -> ReplayBuffer:
        life = self.life
        shape = (life.num_stacked, *FRAME)
        store = StackedObservations(life.num_environments, life.lane_capacity, shape, BYTES, life.make_frames)
        return ReplayBuffer(life.num_environments * life.lane_capacity, life.num_environments, store, 1, GAMMA, CPU)

    def frame(self) -> list[list[int]]:
        return self.generator.integers(256 if self.generator.random() < 0.8 else 1, size=FRAME).tolist()

    def remember(self, events: list[int]) -> None:
        """Let every environment make a step."""
        reference, lanes, ends = self.reference, range(len(events)), np.array(events)
        terminated, nothing = ends == TERMINATE, np.zeros(len(ends))
        observations = np.array([reference.observation(e) for e in lanes], np.uint8)
        self.replay.append(observations, nothing.astype(int), nothing, terminated, torch.zeros(len(ends), 1))
        for e in lanes:
            reference.store(e)
            reference.show(e, self.frame())
        cut = (ends == CUT).any()
        closing = np.flatnonzero((ends == TRUNCATE) | (cut & ~terminated))
        if len(closing) > 0:
            last = np.array([reference.observation(e) for e in closing], np.uint8)
            self.replay.close(closing, last, torch.zeros(len(closing), 1))
            for e in closing:
                reference.store(e)
        for e in np.flatnonzero(terminated | (ends == TRUNCATE) | cut):
            reference.begin(e, self.frame())

    def resume(self, loaded: bool) -> State:
        """Continue with a copy of the memory; return the content of the original, which must not change."""
        state = self.replay.state_dict()
        held = deepcopy(state)
        self.replay = self.empty()
        self.replay.load_state_dict(deepcopy(state) if loaded else state)
        return held

    def check(self) -> None:
        """Compare every slot, and both states of every transition, with the oracle."""
        reference, replay = self.reference, self.replay
        shown = {reference.slot(e, i): reference.histories[e][i] for e, i in reference.surviving()}
        assert replay.observations_at(np.array(list(shown), np.int64)).tolist() == list(shown.values())
        complete = np.flatnonzero(replay.complete)
        batch = replay.batch(complete)
        assert batch.observations.dtype == batch.next_observations.dtype == torch.uint8
        assert batch.observations.tolist() == [shown[slot] for slot in complete.tolist()]
        lane_capacity = self.life.lane_capacity
        following = complete // lane_capacity * lane_capacity + (complete + 1) % lane_capacity
        successors = zip(following.tolist(), batch.discounts.tolist(), batch.next_observations.tolist(), strict=True)
        assert all(stack == shown[slot] for slot, discount, stack in successors if discount > 0)


kinds = st.one_of(
    st.just(RawFrames), st.integers(1, 5).map(lambda places: partial(CompressedFrames, block_places=places))
)


@st.composite
def lives(draw: st.DrawFn) -> Life:
    """Draw lanes so small that they wrap around many times, and what happens in them."""
    num_environments = draw(st.integers(1, 3))
    event = st.sampled_from(draw(st.sampled_from([[STEP], [STEP] * 6 + [TERMINATE, TRUNCATE, CUT], [STEP, TERMINATE]])))
    one_step = st.lists(event, min_size=num_environments, max_size=num_environments)
    return Life(
        num_environments,
        lane_capacity=draw(st.integers(2, 7)),
        num_stacked=draw(st.integers(2, 4)),
        padding=draw(st.sampled_from([None, np.zeros(FRAME, int).tolist()])),
        make_frames=draw(kinds),
        seed=draw(st.integers(0, 999)),
        steps=draw(st.lists(one_step, min_size=1, max_size=30)),
    )


@settings(max_examples=200)
@given(life=lives())
def test_stacks_equal_the_observations(life: Life) -> None:
    case = StackCase(life)
    for number, events in enumerate(life.steps):
        case.remember(events)
        if number % 7 == 0:
            case.check()
    case.check()


@settings(max_examples=100)
@given(life=lives(), share=st.floats(0, 0.99), loaded=st.booleans())
def test_restored_frames_continue_identically(life: Life, share: float, loaded: bool) -> None:
    whole, halves = StackCase(life), StackCase(life)
    for number, events in enumerate(life.steps):
        if number == int(share * len(life.steps)):
            original = halves.replay
            held = halves.resume(loaded)
        whole.remember(events)
        halves.remember(events)
    halves.check()
    assert differing(whole.replay.state_dict(), halves.replay.state_dict()) == []
    assert differing(original.state_dict(), held) == [], "the original was written to"


def test_loaded_raw_frames_are_not_copied() -> None:
    frames = RawFrames(1, 5, FRAME, BYTES)
    loaded = np.ones((5, *FRAME), np.uint8)
    frames.load_state_dict({"frames": loaded})
    assert frames.fetch(np.array([0]))[0]() is loaded
    with pytest.raises(ValueError, match="expected an array of shape"):
        frames.load_state_dict({"frames": loaded[:4]})


def test_invalid_first_observation_raises() -> None:
    store = StackedObservations(1, 5, (3, *FRAME), BYTES, RawFrames)
    stack = np.arange(1, 4, dtype=np.uint8)[:, None, None] * np.ones(FRAME, np.uint8)
    store.write(np.array([0]), stack[None], np.array([False]))
    with pytest.raises(ValueError, match="after black ones or after itself"):
        store.write(np.array([1]), stack[None], np.array([True]))


def differing(one: State, other: State) -> list[str]:
    """Return the names of the arrays that are not equal."""
    assert one.keys() == other.keys()
    return [name for name in one if not np.array_equal(one[name], other[name])]


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_compression_is_lossless(dtype: type) -> None:
    generator = np.random.default_rng(0)
    noise = generator.integers(256, size=(20, 84, 84)).astype(dtype)
    sparse = np.where(generator.random((20, 84, 84)) < 0.02, noise, dtype(7))
    shown = np.concatenate([np.zeros((1, 84, 84), dtype), sparse, noise, sparse[::-1]])
    frames = CompressedFrames(1, len(shown), (84, 84), np.dtype(dtype), block_places=7)
    for place, frame in enumerate(shown):
        frames.write(np.array([place]), frame[None])
    for num_read in (0, 1, len(shown)):
        read, places = frames.fetch(np.arange(num_read))
        np.testing.assert_array_equal(read()[places], shown[:num_read])


def test_transition_reads_five_frames() -> None:
    store = StackedObservations(1, 20, (4, *FRAME), BYTES, CompressedFrames)
    for slot in range(12):
        store.write(np.array([slot]), np.full((1, 4, *FRAME), slot, np.uint8), np.array([slot == 0]))
    seen = np.empty((1, 4, *FRAME), np.uint8)
    store.find(np.array([1]))(seen)
    assert seen[0, :, 0, 0].tolist() == [0, 0, 0, 1]
    read, places = store._frames.fetch(store._stacks[[7, 8]])
    assert read()[:, 0, 0].tolist() == [4, 5, 6, 7, 8]
    assert places.tolist() == [[0, 1, 2, 3], [1, 2, 3, 4]]


def test_overwritten_ring_does_not_grow() -> None:
    num_places, block_places = 20, 8
    frames = CompressedFrames(2, num_places, FRAME, BYTES, block_places)
    generator = np.random.default_rng(0)
    frame_bytes = len(frames._compressor.compress(bytes(6)))
    for count in range(40 * num_places):
        lanes = np.arange(2) * frames.lane_places + count % frames.lane_places
        frames.write(lanes, generator.integers(1, 256, size=(2, *FRAME), dtype=np.uint8))
        assert len(frames._blocks) == 2 * 4  # three blocks hold 20 places, and one is spare
        largest = 2 * (num_places + 2 * block_places) * (frame_bytes + 6)
        assert sum(map(len, frames._blocks)) <= largest


def test_truncated_or_damaged_frames_raise() -> None:
    frames = CompressedFrames(1, 4, FRAME, BYTES, block_places=2)
    frames.write(np.array([0]), np.ones((1, *FRAME), np.uint8))
    state = deepcopy(frames.state_dict())
    with pytest.raises(ValueError, match="of another size"):
        frames.load_state_dict({**state, "frames": state["frames"][:-1]})
    frames.load_state_dict({**state, "frame_ends": 0 * state["frame_ends"]})
    with pytest.raises(UserError, match="the frames in the memory are damaged"):
        frames.fetch(np.array([0]))
    frames.load_state_dict({**state, "frames": state["frames"] ^ 255})
    with pytest.raises(UserError, match="the frames in the memory are damaged"):
        frames.fetch(np.array([0]))[0]()


# --- Within an agent ----------------------------------------------------------------------------------------------


class StackedVector:
    """The episodes of a script, shown as stacks of small images."""

    def __init__(self, script: list[str], num_stacked: int) -> None:
        self._inner = ScriptedVector(len(script[0]), script)
        self.spec = EnvironmentSpec(len(script[0]), 3, (4, 8, 9), BYTES, num_stacked=num_stacked)

    def reset(self) -> Observations:
        self._stacks = np.repeat(self._images(self._inner.reset()), 4, axis=1)
        return self._stacks

    def step(self, actions: Ints) -> StepOutcome:
        outcome = self._inner.step(actions)
        last = np.concatenate([self._stacks[:, 1:], self._images(outcome.last_observations)], axis=1)
        ended = (outcome.terminated | outcome.truncated)[:, None, None, None]
        self._stacks = np.where(ended, self._images(outcome.observations), last)
        return StepOutcome(self._stacks, outcome.rewards, outcome.terminated, outcome.truncated, last)

    @staticmethod
    def _images(observations: Observations) -> Observations:
        waves = np.arange(72).reshape(8, 9) * observations[:, :1, None]
        return (40 * observations[:, 1:, None] + 100 * np.sin(waves) ** 2).astype(np.uint8)[:, None]


SCRIPT = ["..", "T.", "..", ".|", "..", "..", "|T", "..", "..", "..", "..", "TT"] * 8


def stacked_config(frames: str = "compressed") -> Config:
    eva = {"remembered_values": "recomputed"}
    return tiny(2, replay={"replay_capacity": 60, "frames": frames}, eva=eva)


def agent_that_ran(frames: str, num_stacked: int = 4) -> tuple[EVAAgent, StackedVector]:
    environment = StackedVector(SCRIPT, num_stacked)
    agent = build_agent(stacked_config(frames), environment.spec)
    outcome = run(agent, environment, 50)[-1]
    agent.cut_episodes(outcome.observations)
    run(agent, environment, 30)
    return agent, environment


@pytest.mark.parametrize("frames", ["raw", "compressed"])
def test_results_do_not_depend_on_frame_storage(frames: str) -> None:
    whole, _ = agent_that_ran("raw", num_stacked=1)
    agent, _ = agent_that_ran(frames)
    assert agent.learner.num_updates > 60
    assert same_learning(whole.learner, agent.learner)
    slots = np.arange(60)
    np.testing.assert_array_equal(whole.replay.observations_at(slots), agent.replay.observations_at(slots))


@pytest.mark.parametrize("frames", ["raw", "compressed"])
def test_a_checkpoint_and_a_finished_run_hold_the_frames(frames: str, tmp_path: Path) -> None:
    agent, environment = agent_that_ran(frames)
    config = stacked_config(frames)
    arrays, plain = pack(agent.state_dict())
    CheckpointStore(tmp_path / "checkpoints").save(Checkpoint(1, {}, plain, arrays))
    loaded = CheckpointStore(tmp_path / "checkpoints").load_newest({})[0]
    assert loaded is not None
    resumed = build_agent(config, environment.spec)
    resumed.load_state_dict(unpack(loaded.arrays, loaded.plain))
    with RunDirectory(tmp_path / "run", config) as directory:
        directory.begin({})
        directory.save_agent(resumed)
    empty, _ = pack(build_agent(config, environment.spec).replay.state_dict())
    memory = whole(read_memory(tmp_path / "run" / "memory.safetensors", empty), empty)
    assert differing(pack(agent.replay.state_dict())[0], memory) == []

    for each in (agent, resumed):
        run(each, StackedVector(SCRIPT, 4), 20)
    assert differing(pack(agent.state_dict())[0], pack(resumed.state_dict())[0]) == []


@cache
def agent_with_frames() -> EVAAgent:
    return agent_that_ran("compressed")[0]


@settings(max_examples=200)
@given(
    place=st.integers(0, 10**6), value=st.integers(0, 255), where=st.sampled_from(["frames", "frame_ends", "stacks"])
)
def test_damaged_frames_raise_a_user_error_or_are_read(place: int, value: int, where: str) -> None:
    agent = agent_with_frames()
    state = {name: np.array(array) for name, array in agent.replay.store.state_dict().items()}
    damaged = state[where].view(np.uint8).reshape(-1)
    damaged[place % damaged.size] = value
    with suppress(UserError, ValueError):
        agent.replay.store.load_state_dict(state)  # ValueError: rejected when it is loaded
        with suppress(UserError):
            observations = agent.replay.observations_at(np.arange(20))
            assert observations.shape == (20, 4, 8, 9)


def test_frame_that_claims_to_be_large_is_not_decompressed() -> None:
    store = StackedObservations(1, 300, ATARI, BYTES, CompressedFrames)
    store.write(np.array([0]), np.ones((1, 1, 84, 84), np.uint8), np.array([False]))
    bomb = np.frombuffer(zstandard.ZstdCompressor().compress(bytes(200 << 20)), np.uint8)
    state = dict(store.state_dict())
    sizes, ends = state["block_sizes"].copy(), state["frame_ends"].copy()
    sizes[0], ends[0] = len(bomb), len(bomb)
    store.load_state_dict({**state, "frames": bomb, "block_sizes": sizes, "frame_ends": ends})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UserError, match="the frames in the memory are damaged: restore"):
        store.find(np.array([0]))(np.empty((1, *ATARI), np.uint8))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


def test_batches_of_stacks_are_channels_last() -> None:
    agent, _ = agent_that_ran("compressed")
    batch = agent.replay.batch(np.arange(10, 20))
    assert batch.observations.shape == (10, 4, 8, 9)
    assert batch.observations.is_contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        q, h = agent.learner.network(batch.observations)
        same_q, same_h = agent.learner.network(batch.observations.contiguous())
    assert torch.equal(q, same_q)
    assert torch.equal(h, same_h)


# --- Memory -------------------------------------------------------------------------------------------------------

ATARI = (4, 84, 84)


@pytest.mark.parametrize("make_frames", [RawFrames, CompressedFrames])
def test_the_bytes_of_an_observation(make_frames: Any) -> None:
    num_slots = 300
    store = StackedObservations(1, num_slots, ATARI, BYTES, make_frames)
    noise = np.random.default_rng(0).integers(256, size=(84, 84)).astype(np.uint8)
    noise[17:] = 0  # about a fifth of it cannot be compressed
    for slot in range(num_slots):
        frame = np.roll(noise, slot).reshape(1, 1, 84, 84) ^ np.uint8(slot % 251)
        store.write(np.array([slot]), frame, np.array([False]))
    held = sum(array.nbytes for array in store.state_dict().values())
    kind = "raw" if make_frames is RawFrames else "compressed"
    told = num_slots * bytes_per_observation(ATARI, BYTES, 4, kind)
    assert 0.9 * told < held < 1.1 * told
    assert bytes_per_observation(ATARI, BYTES, 4, "raw") == 84 * 84 + 16
    assert bytes_per_observation(ATARI, BYTES, 4, "compressed") == 84 * 84 // COMPRESSION + 20
    assert bytes_per_observation(ATARI, BYTES, 1, "raw") == 4 * 84 * 84


def test_too_large_memory_raises_with_both_remedies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eva.machine, "free_memory", lambda: 2 * 10**9)
    spec = EnvironmentSpec(4, 6, ATARI, BYTES, num_stacked=4)
    config = tiny(4, replay={"replay_capacity": 500_000, "frames": "raw"}, network={"embedding_size": 256})
    with pytest.raises(UserError, match=r"needs 4\.1 GB.* or less, or choose --replay.frames compressed\.$"):
        build_agent(config, spec)
    compressed = tiny(4, replay={"replay_capacity": 500_000, "frames": "compressed"}, network={"embedding_size": 256})
    assert build_agent(compressed, spec).replay.observations_at(np.empty(0, np.int64)).shape == (0, *ATARI)
    monkeypatch.setattr(eva.machine, "free_memory", lambda: 10**9)
    with pytest.raises(UserError, match=r"needs 1\.3 GB.* or less\.$"):
        build_agent(compressed, spec)
