"""memory.safetensors holds what a memory has stored, compressed, and nothing is allocated for what it only claims."""

from __future__ import annotations

import json
import shutil
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from eva.agent.exploration import LinearSchedule
from eva.agent.memory.frames import CompressedFrames, RawFrames
from eva.agent.memory.observations import ObservationStore, StackedObservations, WholeObservations
from eva.agent.memory.priorities import Priorities
from eva.agent.memory.replay import ReplayBuffer
from eva.agent.memory.rings import whole
from eva.digests import write_manifest
from eva.files import Folder
from eva.presets import for_environment
from eva.runs.checkpoint import format as checkpoint_format
from eva.runs.checkpoint.state import pack
from eva.runs.evaluate import evaluate
from eva.runs.loading import load_run
from eva.runs.record import memory as module
from eva.runs.record.memory import read_memory, write_memory
from tests.helpers.agents import changed, tiny
from tests.helpers.commands import refused
from tests.helpers.inspector import trained

FRAME, STACKED, BYTES = (2, 3), 3, np.dtype(np.uint8)
Make = Callable[[], ReplayBuffer]

pytestmark = pytest.mark.usefixtures("_small_chunks", "_in_empty_directory")


@pytest.fixture(scope="module")
def _small_chunks() -> Any:
    """Compress every ring, in chunks that lanes and rows do not divide."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_LARGE_BYTES", -1)
        for each in (module, checkpoint_format):
            patch.setattr(each, "CHUNK_BYTES", 50)
        yield


def store(kind: str, num_lanes: int, lane_capacity: int) -> ObservationStore:
    if kind == "whole":
        return WholeObservations(num_lanes * lane_capacity, (STACKED, *FRAME), BYTES)
    frames = RawFrames if kind == "raw" else partial(CompressedFrames, block_places=4)
    return StackedObservations(num_lanes, lane_capacity, (STACKED, *FRAME), BYTES, frames)


def empty(kind: str, num_lanes: int, lane_capacity: int, prioritised: bool) -> ReplayBuffer:
    num_slots = num_lanes * lane_capacity
    beta = LinearSchedule(0.4, 1.0, 0, 10)
    priorities = Priorities(num_slots, priority_exponent=0.6, priority_floor=1e-6, importance_exponent=beta)
    observations = store(kind, num_lanes, lane_capacity)
    return ReplayBuffer(
        num_slots, num_lanes, observations, 5, 0.9, torch.device("cpu"), priorities if prioritised else None
    )


def remember(replay: ReplayBuffer, num_steps: int, generator: np.random.Generator) -> None:
    """Store steps of episodes that end at random: lanes fill at different speeds, as truncated ones store one more."""
    num = len(replay.lane_counts)
    stacks = np.zeros((num, STACKED, *FRAME), np.uint8)
    for _ in range(num_steps):
        stacks[replay.episode_starts] = 0
        stacks = np.concatenate([stacks[:, 1:], generator.integers(256, size=(num, 1, *FRAME), dtype=np.uint8)], axis=1)
        last = np.roll(stacks, -1, axis=1)
        ends = generator.random((2, num)) < 0.2
        embeddings = torch.from_numpy(generator.normal(size=(num, 5)).astype(np.float32))
        actions, rewards = generator.integers(3, size=num), generator.normal(size=num)

        def last_states(lanes: np.ndarray, last: np.ndarray = last, h: torch.Tensor = embeddings) -> Any:
            return last[lanes], h[lanes]

        replay.append(stacks, actions, rewards, ends[0], embeddings, ends[1], last_states)


def arrays_of(replay: ReplayBuffer) -> dict[str, np.ndarray]:
    return pack(replay.state_dict())[0]


def same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    assert one.keys() == other.keys()
    return all(
        (one[name].dtype, one[name].shape, one[name].tobytes())
        == (other[name].dtype, other[name].shape, other[name].tobytes())
        for name in one
    )


@settings(max_examples=60)
@given(
    kind=st.sampled_from(["whole", "raw", "compressed"]),
    num_lanes=st.integers(1, 3),
    lane_capacity=st.integers(2, 9),
    num_steps=st.integers(0, 25),
    prioritised=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_memories_are_read_back_unchanged(
    tmp_path_factory: pytest.TempPathFactory,
    kind: str,
    num_lanes: int,
    lane_capacity: int,
    num_steps: int,
    prioritised: bool,
    seed: int,
) -> None:
    """Empty, partly filled, and wrapped around; the same memory gives the same bytes."""
    replay = empty(kind, num_lanes, lane_capacity, prioritised)
    remember(replay, num_steps, np.random.default_rng(seed))
    path = tmp_path_factory.mktemp("memory") / "memory.safetensors"
    with Folder(path.parent) as folder:
        write_memory(folder, path.name, replay.state_dict())
        write_memory(folder, "again", replay.state_dict())
    assert path.read_bytes() == (path.parent / "again").read_bytes()
    new = empty(kind, num_lanes, lane_capacity, prioritised)
    found = whole(read_memory(path, arrays_of(new)), arrays_of(new))
    assert same(found, arrays_of(replay))
    new.load_state_dict(found)
    assert same(arrays_of(new), arrays_of(replay))
    assert (new.num_complete, new.complete.tolist()) == (replay.num_complete, replay.complete.tolist())


class Camera(gymnasium.Env):  # type: ignore[type-arg]
    """Noisy pictures, 21 kB each."""

    observation_space = gymnasium.spaces.Box(0, 255, (84, 84, 3), np.uint8)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.picture(), {}

    def step(self, action: Any) -> Any:
        return self.picture(), 1.0, self.np_random.random() < 0.1, False, {}

    def picture(self) -> np.ndarray:
        return np.kron(self.np_random.integers(256, size=(7, 7, 3), dtype=np.uint8), np.ones((12, 12, 1), np.uint8))


def test_file_of_50_transitions_is_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It took 108 MB when it held the whole rings, and 5 GB with a memory of 250,000."""
    monkeypatch.setitem(gymnasium.registry, "Camera-v0", gymnasium.envs.registration.EnvSpec("Camera-v0", Camera))
    monkeypatch.setattr(module, "_LARGE_BYTES", 1 << 20)
    for each in (module, checkpoint_format):
        monkeypatch.setattr(each, "CHUNK_BYTES", 2 << 20)
    config = changed(for_environment("Camera-v0"), steps=50, replay={"replay_capacity": 5_000})
    run = trained(changed(config, learner={"learning_starts_transitions": 1_000}), tmp_path / "run")
    size = (run / "memory.safetensors").stat().st_size
    observations = load_run(run)[1].replay.observations_at(np.arange(50))
    assert size < observations.nbytes / 5 < 250_000


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, _small_chunks: Any) -> Path:
    """A run whose memory has wrapped around in none of three lanes."""
    return trained(tiny(3, steps=60, replay={"replay_capacity": 600}), tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture
def copy(run: Path, tmp_path: Path) -> Path:
    return shutil.copytree(run, tmp_path / "run")


def resealed(run: Path) -> None:
    with Folder(run) as folder:
        write_manifest(folder, ("config.json", "policy.safetensors", "memory.safetensors"))


def test_files_of_older_versions_load(copy: Path) -> None:
    """They hold whole rings, uncompressed, and no metadata."""
    path, replay = copy / "memory.safetensors", load_run(copy)[1].replay
    expected = [each.episode_returns.tolist() for each in evaluate(copy, [0.0, 0.7], 2)]
    path.unlink()
    save_file(arrays_of(replay), path)
    resealed(copy)
    assert "frames" not in load_file(path)
    assert load_file(path)["observations"].shape[0] == 600
    assert same(arrays_of(load_run(copy)[1].replay), arrays_of(replay))
    assert [each.episode_returns.tolist() for each in evaluate(copy, [0.0, 0.7], 2)] == expected


def forge(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the metadata of a memory file."""
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    about = json.loads(header["__metadata__"]["eva"])
    change(about)
    header["__metadata__"]["eva"] = json.dumps(about)
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + size :])


def rows(about: dict[str, Any], shape: list[int]) -> None:
    entry = about["compressed"]["rewards"]
    size = 4 * int(np.prod(shape))
    entry.update(shape=shape, bytes=size, chunks=[10] * -(-size // checkpoint_format.CHUNK_BYTES))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda about: about.update(format=2), "was written by a newer eva (format 2): upgrade eva."),
        (lambda about: rows(about, [3, 10**6]), "'rewards' has another type or size"),
        (lambda about: rows(about, [3]), "'rewards' has another type or size"),
        (lambda about: about["compressed"]["rewards"].update(dtype="int32"), "'rewards' has another type or size"),
        (lambda about: about["compressed"].update(dictionary=about["compressed"]["born"]), "'dictionary' is no compr"),
        (lambda about: about["compressed"]["rewards"]["chunks"].reverse(), "cannot read"),
        (lambda about: rows(about, [3, 19]), "do not add up"),
        (lambda about: about["compressed"].pop("rewards"), "does not fit its config.json"),
        (lambda about: about.update(compressed=[]), "expected a JSON object"),
    ],
)
def test_forged_files_are_rejected(
    change: Callable[[dict[str, Any]], object], sentence: str, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forge(copy / "memory.safetensors", lambda _: None)
    resealed(copy)
    load_run(copy)
    forge(copy / "memory.safetensors", change)
    resealed(copy)
    assert sentence in refused(["evaluate", str(copy), "--episodes", "1"], capsys)


def test_no_memory_is_allocated_for_what_a_file_claims(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, empty = copy / "memory.safetensors", arrays_of(load_run(copy)[1].replay)
    for each in (module, checkpoint_format):
        monkeypatch.setattr(each, "CHUNK_BYTES", 2 << 20)
    with Folder(copy) as folder:
        write_memory(folder, path.name, empty)
    read_memory(path, empty)
    forge(path, lambda about: rows(about, [3, 10**9]))
    tracemalloc.start()
    with pytest.raises(ValueError, match="'rewards' has another type or size"):
        read_memory(path, empty)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5e6, "it claims 12 GB"
