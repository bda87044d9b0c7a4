"""Checkpoint files: state round-trips, or loading raises a UserError, whatever happened to the files."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import pickle
import random
import resource
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from eva.errors import UserError
from eva.runs.checkpoint.store import Checkpoint, CheckpointStore, load
from tests.helpers.agents import Bomb

INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
DTYPES = ["bool", *INTEGERS, "float16", "float32", "float64"]
IDENTITY = {"seed": 3, "eva": {"weight": 0.5, "plans": None}}
MIB = 1 << 20


def checkpoint(step: int = 12_000, frames: int = 0) -> Checkpoint:
    """A checkpoint with small arrays, and an integer and a float array that have files of their own."""
    rng = np.random.default_rng(step)
    arrays = {
        "network/weight": rng.standard_normal((3, 4)).astype(np.float32),
        "network/steps": np.array(step),
        "replay/frames": (rng.random((frames or 300, 84, 84)) < 0.002).astype(np.uint8),
        "replay/empty": np.zeros((0, 5), bool),
        "keys": np.tile(rng.standard_normal(4000).astype(np.float32), 80),
    }
    plain = {"rng": rng.bit_generator.state, "epsilon": 0.1, "names": ["ä", "\ud800", None, True, []]}
    return Checkpoint(step, IDENTITY, plain, arrays)


def same(one: Checkpoint | None, other: Checkpoint) -> bool:
    """Return whether two checkpoints are equal byte for byte."""
    assert one is not None
    return (
        (one.step, one.identity, repr(one.plain)) == (other.step, other.identity, repr(other.plain))
        and list(one.arrays) == list(other.arrays)
        and all(
            mine.dtype == its.dtype and mine.shape == its.shape and mine.tobytes() == its.tobytes()
            for mine, its in zip(one.arrays.values(), other.arrays.values(), strict=True)
        )
    )


def seal(directory: Path, manifest: dict[str, Any]) -> None:
    """Write a manifest with valid checksums of itself and of the files as they are now."""
    for name, entry in manifest["files"].items() if isinstance(manifest.get("files"), dict) else ():
        if isinstance(entry, dict) and (directory / name).is_file() and not (directory / name).is_symlink():
            content = (directory / name).read_bytes()
            entry.update(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
    seal_as_is(directory, manifest)


def seal_as_is(directory: Path, manifest: Any) -> None:
    body = json.dumps(manifest)[:-1].encode()
    digest = hashlib.sha256(body).hexdigest()
    (directory / "manifest.json").write_bytes(body + f', "sha256": "{digest}"}}\n'.encode())


def manifest_of(directory: Path) -> dict[str, Any]:
    content = json.loads((directory / "manifest.json").read_bytes())
    del content["sha256"]
    return content


def refused(directory: Path, match: str = "is damaged") -> str:
    """Load a checkpoint that must raise a UserError; returns its message, one sentence."""
    with pytest.raises(UserError, match=match) as caught:
        load(directory, IDENTITY)
    sentence = str(caught.value)
    assert str(directory) in sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence


def complaint(action: Callable[[], Any]) -> str:
    """Return the message of an action's UserError, or an empty string; other errors propagate."""
    try:
        action()
    except UserError as error:
        return str(error)
    return ""


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return CheckpointStore(tmp_path / "checkpoints").save(checkpoint())


# Round trips


plain_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.integers(0, 2**200) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
any_array = st.sampled_from(DTYPES).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
)
names = st.from_regex(r"[a-z0-9][a-zA-Z0-9_./-]{0,9}", fullmatch=True)


@settings(max_examples=40)
@given(
    st.integers(0, 10**15),
    st.dictionaries(st.text(), st.integers() | st.text() | st.lists(st.booleans()), max_size=3),
    st.dictionaries(st.text(), plain_values, max_size=3),
    st.dictionaries(names, any_array, max_size=4),
)
def test_any_state_round_trips(tmp_path_factory, step, identity, plain, arrays):
    store = CheckpointStore(tmp_path_factory.mktemp("any"))
    written = Checkpoint(step, identity, plain, arrays)
    store.save(written)
    loaded, warnings = store.load_newest(identity)
    assert same(loaded, written)
    assert warnings == []


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [("uint8", (MIB + 1,)), ("uint8", (2 * MIB,)), ("bool", (2 * MIB + 1,)), ("float32", (1, 9, 300_000))]
    + [(dtype, (5, 450_000)) for dtype in DTYPES],
)
def test_arrays_of_several_chunks_round_trip(tmp_path, dtype, shape):
    array = (np.arange(np.prod(shape)) % 251).astype(dtype).reshape(shape)
    written = Checkpoint(1, {}, {}, {"large": array, "small": array.reshape(-1)[:7]})
    path = CheckpointStore(tmp_path).save(written)
    read = load(path, {})
    assert same(read, written)
    assert all(mine.flags.writeable and mine.flags.c_contiguous for mine in read.arrays.values())


def test_any_memory_order_round_trips(tmp_path):
    array = np.arange(600_000).reshape(1000, 600)
    written = Checkpoint(1, {}, {}, {"large": array.T, "small": array[:5, ::7].T})
    assert same(load(CheckpointStore(tmp_path).save(written), {}), written)


def test_same_state_gives_same_bytes(tmp_path):
    one, other = (CheckpointStore(tmp_path / name).save(checkpoint()) for name in ("one", "other"))
    files = {path.name: path.read_bytes() for path in one.iterdir()}
    assert files == {path.name: path.read_bytes() for path in other.iterdir()}
    assert set(files) == {"manifest.json", "plain.json", "arrays.safetensors", "array-002.zst", "array-004.zst"}


def test_chunks_are_ordinary_zstd_frames(saved):
    content = (saved / "array-002.zst").read_bytes()
    raw = zstandard.ZstdDecompressor().stream_reader(content, read_across_frames=True).read()
    assert raw == checkpoint().arrays["replay/frames"].tobytes()


def test_writing_and_reading_take_a_few_chunks_of_memory(tmp_path):
    frames = np.zeros((40 * MIB,), np.uint8)
    written = Checkpoint(1, {}, {}, {"frames": frames})
    tracemalloc.start()
    try:
        path = CheckpointStore(tmp_path).save(written)
        assert tracemalloc.get_traced_memory()[1] < 10 * MIB
        tracemalloc.reset_peak()
        load(path, {})
        assert tracemalloc.get_traced_memory()[1] < 50 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "bad",
    [
        Checkpoint(1, {}, {"tuple": (1, 2)}, {}),
        Checkpoint(1, {}, {"number": np.float64(1)}, {}),
        Checkpoint(1, {}, {"names": {1: 2}}, {}),
        Checkpoint(1, {"set": {1}}, {}, {}),
        Checkpoint(1, {}, {"long": "x" * (17 * MIB)}, {}),
        Checkpoint(-1, {}, {}, {}),
        Checkpoint(1, {}, {}, {"object": np.array([None])}),
        Checkpoint(1, {}, {}, {"big-endian": np.zeros(2, ">f4")}),
        Checkpoint(1, {}, {}, {"__metadata__": np.zeros(2)}),
    ],
    ids=lambda bad: str(next(iter({**bad.identity, **bad.plain, **bad.arrays}), bad.step)),
)
def test_data_that_would_not_round_trip_is_not_written(tmp_path, bad):
    with pytest.raises(ValueError, match=r"plain|too many|no place|no size"):
        CheckpointStore(tmp_path).save(bad)
    assert list(tmp_path.iterdir()) == []


# Which checkpoints are kept and loaded


def test_newest_checkpoints_are_kept(tmp_path):
    store = CheckpointStore(tmp_path, keep=2)
    for step in (1, 2, 30, 10**13):
        assert store.save(Checkpoint(step, {}, {}, {})).is_dir()
        assert store.load_newest({})[0] == Checkpoint(step, {}, {}, {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000000000030", "step-10000000000000"]
    with pytest.raises(ValueError, match="at least one"):
        CheckpointStore(tmp_path, keep=0)


def test_load_newest_returns_none_without_checkpoints(tmp_path):
    store = CheckpointStore(tmp_path / "none")
    assert store.load_newest({})[0] is None
    store.clear()


def test_checkpoint_of_the_same_step_is_replaced(tmp_path):
    store = CheckpointStore(tmp_path, keep=1)
    for number in range(3):
        store.save(Checkpoint(7, {}, {"number": number}, {}))
    assert store.load_newest({})[0] == Checkpoint(7, {}, {"number": 2}, {})
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000000007"]


def test_saving_removes_checkpoints_of_later_steps(tmp_path):
    store = CheckpointStore(tmp_path, keep=2)
    for step in (10, 20, 15):
        store.save(Checkpoint(step, {}, {}, {}))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000000000010", "step-000000000015"]


def test_diverged_checkpoint_is_neither_loaded_nor_removed(tmp_path):
    store = CheckpointStore(tmp_path, keep=1)
    apart = store.save_diverged(checkpoint(500))
    assert apart.name == "diverged-step-000000000500"
    assert store.load_newest(IDENTITY)[0] is None
    store.save(checkpoint(400))
    store.save(checkpoint(600))
    assert same(store.load_newest(IDENTITY)[0], checkpoint(600))
    store.clear()
    assert [path.name for path in tmp_path.iterdir()] == [apart.name]
    assert same(load(apart, IDENTITY), checkpoint(500))


def test_damaged_checkpoint_is_skipped_with_a_warning(tmp_path):
    store = CheckpointStore(tmp_path, keep=3)
    paths = [store.save(checkpoint(step)) for step in (1, 2, 3)]
    (paths[2] / "plain.json").write_bytes(b"{}")
    loaded, (warning,) = store.load_newest(IDENTITY)
    assert same(loaded, checkpoint(2))
    assert str(paths[2] / "plain.json") in warning
    assert str(paths[1]) in warning
    (paths[1] / "manifest.json").unlink()
    assert len(store.load_newest(IDENTITY)[1]) == 2
    paths[0].rename(tmp_path / "elsewhere")
    paths[0].write_text("a file")
    with pytest.raises(UserError, match=r"plain\.json is damaged .* pass --restart .* restore the file from a backup"):
        store.load_newest(IDENTITY)


def test_another_run_or_a_newer_format_raises(tmp_path):
    store = CheckpointStore(tmp_path)
    store.save(checkpoint(1))
    newest = store.save(checkpoint(2))
    with pytest.raises(UserError, match=r"of another run \(eva.weight is 0.5 there, 0.25 here\)"):
        store.load_newest({"seed": 3, "eva": {"weight": 0.25}})
    with pytest.raises(UserError, match=r"\(seed is 3 there, None here\)"):
        store.load_newest({"eva": IDENTITY["eva"]})
    seal(newest, {"format": 2, "whatever": "else"})
    with pytest.raises(UserError, match=r"written by a newer eva \(format 2\): upgrade eva"):
        store.load_newest(IDENTITY)


# Crashes and full disks

CRASHING = """
import os, sys
from pathlib import Path
import numpy as np
from eva.errors import UserError
from eva.runs.checkpoint.store import Checkpoint, CheckpointStore

root, step, keep = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
new = Checkpoint(step, {}, {"state": "new"}, {"large": np.ones((1 << 20) + 1, np.uint8), "small": np.ones(3)})

def count(*_):
    global left
    left -= 1
    if left == 0:
        os._exit(1)

def hook(event, arguments):
    if event in ("open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "shutil.rmtree"):
        count()

for moment in range(1, 1000):
    store = CheckpointStore(root / str(moment), keep)
    store.save(Checkpoint(1, {}, {"state": "oldest"}, {}))
    store.save(Checkpoint(2, {}, {"state": "old"}, {"large": np.zeros((1 << 20) + 1, np.uint8)}))
    child = os.fork()
    if child == 0:
        left = moment
        sync, os.fsync = os.fsync, lambda file: (count(), sync(file))
        sys.addaudithook(hook)
        store.save(new)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    loaded, warnings = store.load_newest({})
    assert warnings == [], (moment, warnings)
    assert loaded.plain["state"] in ("old", "new"), (moment, loaded)
    store.save(new)
    assert store.load_newest({})[0].plain["state"] == "new"
    names = sorted(path.name for path in store.directory.iterdir())
    assert len(names) == min(keep, 3 if step == 3 else 2) and names[-1] == f"step-{step:012d}", names
    if code == 0:
        print(moment)
        break
"""


@pytest.mark.parametrize(("step", "keep"), [(3, 2), (2, 1)])
def test_crash_at_any_moment_leaves_a_good_checkpoint(tmp_path, step, keep):
    command = [sys.executable, "-W", "ignore", "-c", CRASHING, str(tmp_path), str(step), str(keep)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 15


def failing(function: Callable[..., Any], after: int, number: int) -> Callable[..., Any]:
    calls, opens = iter(range(after)), function is os.open

    def call(*arguments: Any, **options: Any) -> Any:
        is_writing = not opens or arguments[1] & os.O_CREAT  # a full disk can still be read
        if is_writing and next(calls, None) is None:
            raise OSError(number, os.strerror(number))
        return function(*arguments, **options)

    return call


@pytest.mark.parametrize("call", ["os.fsync", "os.open", "os.mkdir", "os.replace"])
@pytest.mark.parametrize("step", [2, 3])
def test_full_disk_is_reported_and_keeps_old_checkpoints(tmp_path, monkeypatch, call, step):
    store = CheckpointStore(tmp_path, keep=1)
    store.save(checkpoint(2, frames=200))
    name = call.removeprefix("os.")
    failures = 0
    for after in range(20):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, failing(getattr(os, name), after, errno.ENOSPC))
            refusal = complaint(lambda: store.save(checkpoint(step, frames=200)))
        if not refusal:
            break
        failures += 1
        assert "No space left on device" in refusal
        assert not list(tmp_path.glob(".draft-step-*[0-9]"))
        assert store.load_newest(IDENTITY)[1] == []
        found = store.load_newest(IDENTITY)[0]
        assert same(found, checkpoint(2, frames=200)) or same(found, checkpoint(step, frames=200))
    assert failures


@pytest.mark.parametrize("limit", [0, 100, 1000, 5000])
def test_failed_write_keeps_old_checkpoints(tmp_path, limit):
    store = CheckpointStore(tmp_path)
    store.save(checkpoint(1))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        with pytest.raises(UserError, match=r"cannot write .*step-000000000002 \(File too large\)"):
            store.save(checkpoint(2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000000001"]
    assert same(store.load_newest(IDENTITY)[0], checkpoint(1))


def test_unwritable_directory_raises(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        CheckpointStore(tmp_path / "file").save(checkpoint())
    with pytest.raises(UserError, match="cannot read"):  # not treated as a directory without checkpoints
        CheckpointStore(tmp_path / "file").load_newest({})


# Damaged files


def files_of(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(directory.iterdir())}


def borders(path: Path, content: bytes, manifest: dict[str, Any]) -> Iterator[int]:
    """Yield the offsets in a file where one part ends and the next begins."""
    yield from (0, 1, len(content) // 2, len(content) - 1)
    if path.suffix == ".safetensors":
        header = int.from_bytes(content[:8], "little")
        yield from (8, 8 + header, 8 + header + 4)
    if path.suffix == ".json":
        yield from (place for place in range(len(content)) if content[place] in b"{}[]")
    for entry in manifest["arrays"].values():
        if entry["file"] == path.name and entry["chunks"]:
            yield from np.cumsum(entry["chunks"])[:-1].tolist()


def test_truncated_files_raise(saved):
    manifest = manifest_of(saved)
    for path, content in files_of(saved).items():
        for place in borders(path, content, manifest):
            path.write_bytes(content[:place])
            assert str(path) in refused(saved, "is damaged")
        path.write_bytes(content + b"\n")
        refused(saved, "is damaged")
        path.unlink()
        assert str(path) in refused(saved, "No such file")
        path.write_bytes(content)
    assert same(load(saved, IDENTITY), checkpoint())


def test_flipped_bits_raise(saved):
    rng = random.Random(0)
    files = files_of(saved)
    for number in range(500):
        path = list(files)[number % len(files)]
        content = bytearray(files[path])
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        path.write_bytes(content)
        assert str(path) in refused(saved, "checksum does not match")
        path.write_bytes(files[path])


# Hostile files with valid checksums


def test_forged_bytes_raise_only_user_errors(saved):
    rng = random.Random(1)
    manifest = manifest_of(saved)
    files = files_of(saved)
    refusals = 0
    for number in range(250):
        path = list(files)[number % len(files)]
        content = bytearray(files[path])
        for _ in range(rng.choice((1, 1, 5))):
            content[rng.randrange(min(len(content), rng.choice((20, 200, len(content)))))] = rng.randrange(256)
        if path.name == "manifest.json":
            body = bytes(content[: files[path].rindex(b', "sha256"')])
            digest = hashlib.sha256(body).hexdigest()
            path.write_bytes(body + f', "sha256": "{digest}"}}\n'.encode())
        else:
            path.write_bytes(content)
            seal(saved, deepcopy(manifest))
        refusals += bool(complaint(lambda: load(saved, IDENTITY)))
        path.write_bytes(files[path])
        (saved / "manifest.json").write_bytes(files[saved / "manifest.json"])
    assert refusals > 60


def places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of keys to every value inside a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield (*above, key)
        yield from places(item, (*above, key))


def replaced(value: Any, place: tuple[Any, ...], by: Any) -> Any:
    """Return a JSON value with the value at a path replaced, or deleted if `by` is `...`."""
    forged = deepcopy(value)
    parent = forged
    for key in place[:-1]:
        parent = parent[key]
    if by is ...:
        del parent[place[-1]]
    else:
        parent[place[-1]] = by
    return forged


def test_forged_manifest_raises_or_loads_genuine_data(saved):
    manifest = manifest_of(saved)
    genuine = checkpoint()
    for place in places(manifest):
        for wrong in (None, True, -1, 0, 1.5, 10**30, "", "x", "../x", [], [[]], {}, {"a": 1}, ...):
            forged = replaced(manifest, place, wrong)
            seal_as_is(saved, forged)
            try:
                read = load(saved, forged.get("identity", {}))
            except UserError:
                continue
            arrays = {name: genuine.arrays[name] for name in read.arrays}
            assert same(read, Checkpoint(forged["step"], forged["identity"], genuine.plain, arrays)), (place, wrong)


@pytest.mark.parametrize("array", [False, True])
def test_pickle_is_not_executed(saved, tmp_path, array):
    crater = tmp_path / "crater"
    bomb = pickle.dumps(Bomb(crater))
    if array:
        np.save(tmp_path / "bomb.npy", np.array([Bomb(crater)], object), allow_pickle=True)
        bomb = (tmp_path / "bomb.npy").read_bytes()
    manifest = manifest_of(saved)
    for path, content in files_of(saved).items():
        path.write_bytes(bomb)
        refused(saved, "is damaged")
        if path.name != "manifest.json":
            seal(saved, deepcopy(manifest))
            refused(saved, "is damaged")
            seal(saved, manifest)
        path.write_bytes(content)
    assert not crater.exists()
    pickle.loads(pickle.dumps(Bomb(crater)))
    assert crater.exists()


def streamed(content: bytes) -> bytes:
    """Return a frame without its uncompressed size."""
    compressor = zstandard.ZstdCompressor().compressobj()
    return compressor.compress(content) + compressor.flush()


def lying(content: bytes) -> bytes:
    """Return a frame that declares the size of a chunk and holds more."""
    frame = zstandard.ZstdCompressor().compress(content)
    frame = frame[:6] + (2 * MIB).to_bytes(4, "little") + frame[10:]
    assert zstandard.frame_content_size(frame) == 2 * MIB
    return frame


@pytest.mark.parametrize("pack", [zstandard.ZstdCompressor().compress, streamed, lying])
def test_decompression_bomb_raises_before_memory_is_allocated(saved, pack):
    manifest = manifest_of(saved)
    entry = manifest["arrays"]["replay/frames"]
    path = saved / entry["file"]
    bomb = pack(bytes(200 * MIB))
    path.write_bytes(bomb + path.read_bytes()[entry["chunks"][0] :])
    entry["chunks"][0] = len(bomb)
    seal(saved, manifest)
    tracemalloc.start()
    try:
        refused(saved, "is damaged")
        assert tracemalloc.get_traced_memory()[1] < 12 * MIB
    finally:
        tracemalloc.stop()


def test_sizes_above_the_limit_raise_before_memory_is_allocated(saved):
    manifest = manifest_of(saved)
    rows = (65 << 30) // 2
    manifest["arrays"]["replay/frames"] |= {"shape": [rows, 2], "bytes": 2 * rows, "chunks": [1] * (rows // MIB)}
    seal(saved, manifest)
    refused(saved, "more than 68719476736")
    manifest["arrays"]["replay/frames"]["shape"] = [rows, 3]
    seal(saved, manifest)
    refused(saved, "do not agree")
    manifest["arrays"]["replay/frames"] |= {"shape": [1 << 40, 0], "bytes": 0, "chunks": []}
    seal(saved, manifest)
    refused(saved, "do not add up")
    manifest["files"] |= {"plain.json": {"bytes": 1 << 40, "sha256": ""}}
    seal_as_is(saved, manifest)
    refused(saved, r"plain.json .*it claims 1099511627776 bytes")


def test_checkpoint_above_the_limit_is_neither_loaded_nor_saved(tmp_path, monkeypatch):
    store = CheckpointStore(tmp_path)
    store.save(checkpoint())
    monkeypatch.setattr("eva.runs.checkpoint.store.MAX_BYTES", 3 * MIB)
    with pytest.raises(UserError, match="more than 3145728"):
        store.load_newest(IDENTITY)
    with pytest.raises(UserError, match=r"too large to be read again .* lower replay.replay_capacity"):
        store.save(checkpoint())


@pytest.mark.parametrize("name", ["../outside.zst", "/etc/passwd", "..", ".", "", "a/b", ".hidden", "a\0b", "a\nb"])
def test_file_names_outside_the_checkpoint_raise(saved, name):
    manifest = manifest_of(saved)
    entry = manifest["arrays"]["replay/frames"]
    (saved.parent / "outside.zst").write_bytes((saved / entry["file"]).read_bytes())
    manifest["files"][name] = manifest["files"].pop(entry["file"])
    for file in (entry["file"], name):
        entry["file"] = file
        seal_as_is(saved, manifest)
        assert "manifest.json is damaged" in refused(saved, "is no name for a file")
    del manifest["files"][name]
    seal_as_is(saved, manifest)
    assert "manifest.json is damaged" in refused(saved, "is no name for a file")


@pytest.mark.parametrize("make", [lambda path, there: path.symlink_to(there), lambda path, _: os.mkfifo(path)])
def test_links_pipes_and_directories_in_place_of_files_raise(saved, tmp_path, make):
    for path, content in files_of(saved).items():
        (tmp_path / "there").write_bytes(content)
        path.unlink()
        make(path, tmp_path / "there")
        assert str(path) in refused(saved, "it is a link, which is not followed|it is not a regular file")
        path.unlink()
        path.mkdir()
        refused(saved, r"Is a directory|not a regular file")
        path.rmdir()
        path.write_bytes(content)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"[" * 100_000, b"[1]", b"NaN", b"{", b"1" * 5000, b""])
def test_invalid_json_raises(saved, content):
    manifest = manifest_of(saved)
    (saved / "plain.json").write_bytes(content)
    seal(saved, manifest)
    assert "plain.json is damaged" in refused(saved)
    digest = hashlib.sha256(content).hexdigest()
    (saved / "manifest.json").write_bytes(content + f', "sha256": "{digest}"}}\n'.encode())
    assert "manifest.json is damaged" in refused(saved)


def test_unknown_formats_raise(saved):
    for number in (0, -1, "1", None, True, 1.0):
        seal(saved, {**manifest_of(saved), "format": number})
        refused(saved, "is damaged")
