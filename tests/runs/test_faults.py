"""Full disks, damaged and hostile files, a second process: one-sentence errors, and no good data is lost."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import pickle
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eva.cli.main import main
from eva.runs.checkpoint.store import CheckpointStore, load
from eva.runs.loop import train
from eva.runs.record.columns import EVALUATIONS
from eva.runs.record.directory import RunDirectory
from tests.helpers.agents import Bomb
from tests.runs.test_resume import (
    FILES,
    checkpoint_steps,
    command,
    commanded,
    differing,
    has_reached,
    recorded,
    run_config,
    said,
    started,
    status_of,
    trained,
    wait_until,
)

RECORDS = {"episodes.csv", "metrics.jsonl", EVALUATIONS}
CONFIG = run_config(steps=100, run={"track": ("tensorboard",)})


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Records of the uninterrupted run."""
    path = tmp_path_factory.mktemp("whole") / "run"
    trained(CONFIG, path)
    return recorded(path)


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with checkpoints after 40 and 60 of 100 transitions."""
    path = tmp_path_factory.mktemp("half") / "run"
    trained(replace(CONFIG, steps=60), path)
    assert checkpoint_steps(path) == [40, 60]
    return path


@pytest.fixture
def halfway(tmp_path: Path, half: Path) -> Path:
    """A copy of the run in `half` that the test may change."""
    return shutil.copytree(half, tmp_path / "run")


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command that must fail with a user error; returns its sentence."""
    assert main(arguments) == 2
    return one_sentence(capsys.readouterr().err)


def one_sentence(error: str) -> str:
    """Return the last line of the error output: a sentence, no traceback."""
    assert "Traceback" not in error
    assert "Exception" not in error
    *_, last = error.splitlines()
    assert last.startswith("eva: ")
    assert last.endswith(".")
    assert error.count("eva: ") == 1
    return last


def recorded_files(path: Path) -> dict[str, str]:
    """Return the checksum of every file in a run directory."""
    files = [file for file in path.rglob("*") if file.is_file()]
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


# Full disks

MOMENTS = {  # class, method, n, size: from its n-th call on, no file can grow beyond `size` bytes
    "beginning": (RunDirectory, "begin", 1, 0),
    "metrics": (RunDirectory, "add_metrics", 5, 0),
    "half a line of metrics": (RunDirectory, "add_metrics", 5, 950),
    "checkpoint": (CheckpointStore, "save", 3, 0),
    "half a checkpoint": (CheckpointStore, "save", 3, 20_000),
    "records before a checkpoint": (RunDirectory, "get_state", 3, 0),
    "policy": (RunDirectory, "save_agent", 1, 1_000),
    "memory": (RunDirectory, "save_agent", 1, 10_000),
}


def on_a_full_disk(arguments: list[str], error: Any) -> None:
    """Run the command line on a disk that becomes full: from a moment on, no file can grow beyond a size."""
    moment, *arguments = arguments
    owner, name, number, size = MOMENTS[moment]
    method: Callable[..., Any] = getattr(owner, name)
    calls = iter(range(1, 1000))

    def filled(*positional: Any) -> Any:
        if next(calls) == number:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        return method(*positional)

    setattr(owner, name, filled)
    commanded(arguments, error)


@pytest.mark.parametrize("moment", MOMENTS)
def test_run_resumes_with_the_same_bytes_after_a_full_disk(tmp_path, whole, moment):
    path = tmp_path / "run"
    process, error = started(on_a_full_disk, [moment, *command(CONFIG, path)])
    process.join(100)
    assert process.exitcode == 2
    sentence = one_sentence(said(error))
    assert "cannot write" in sentence
    assert "(File too large)" in sentence
    assert str(path) in sentence

    steps = checkpoint_steps(path)
    expected = {"beginning": [], "policy": [80, 100], "memory": [80, 100]}.get(moment, [20, 40])
    assert steps == expected
    for step in steps:
        assert load(path / "checkpoints" / f"step-{step:012d}", CONFIG.identity).step == step
    assert (path / "policy.safetensors").exists() == (moment == "memory")
    assert not (path / "memory.safetensors").exists()
    for name in FILES[:2] if steps else ():
        there = (path / name).read_bytes()
        assert whole[name].startswith(there)
        assert len(there) > 60, "more than the title"
    assert not list(path.glob(".*.[0-9]*"))

    assert ("goes on from" in trained(CONFIG, path)) == bool(steps)  # after disk space is freed
    assert differing(path, whole) == []


def test_full_disk_on_resume_changes_no_file(halfway, whole, capsys):
    """Nothing is lost if the disk is full when the run resumes."""
    before = recorded_files(halfway)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    arguments = command(CONFIG, halfway)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        code = main(arguments)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert code == 2
    assert "cannot write" in one_sentence(capsys.readouterr().err)
    assert recorded_files(halfway) == before
    trained(CONFIG, halfway)
    assert differing(halfway, whole) == []


# Paths that not even root can write


def test_unwritable_directory_is_rejected(tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    assert "cannot write" in refused(at(tmp_path / "file" / "run"), capsys)
    assert "is a file" in refused(at(tmp_path / "file"), capsys)
    assert (tmp_path / "file").read_text() == "mine"


def at(path: Path) -> list[str]:
    """Return the arguments that train in `path`, whose parent need not exist."""
    return ["train", "smoke", "--steps", "20", "--out", str(path)]


@pytest.mark.parametrize("name", [".lock", "status.json", "metrics.jsonl"])
def test_run_with_unwritable_files_is_rejected(halfway, whole, capsys, name):
    aside = halfway.with_name("aside")
    (halfway / name).rename(aside)
    (halfway / name).mkdir()
    sentence = refused(command(CONFIG, halfway), capsys)
    assert "(Is a directory)" in sentence
    assert name in sentence or str(halfway) in sentence
    (halfway / name).rmdir()
    aside.rename(halfway / name)
    trained(CONFIG, halfway)
    assert differing(halfway, whole) == []


# Damaged checkpoints


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "name"),
    [
        (cut, "arrays.safetensors"),
        (flip, "arrays.safetensors"),
        (flip, "plain.json"),
        (flip, "manifest.json"),
        (Path.unlink, "manifest.json"),
    ],
)
def test_damaged_checkpoint_is_skipped(halfway, whole, capsys, damage, name):
    newest, older = (halfway / "checkpoints" / f"step-{step:012d}" for step in (60, 40))
    damage(newest / name)
    assert main(command(CONFIG, halfway)) == 0
    warning, goes_on, *_ = capsys.readouterr().err.splitlines()
    assert warning.startswith(f"{newest / name} is damaged (")
    assert warning.endswith(f"): going back to {older}.")
    assert goes_on == f"{halfway} goes on from 40 transitions."
    assert differing(halfway, whole) == []


def test_error_without_good_checkpoints_suggests_restart(halfway, whole, capsys):
    for entry in (halfway / "checkpoints").iterdir():
        flip(entry / "arrays.safetensors")
    before = recorded_files(halfway)
    sentence = refused(command(CONFIG, halfway), capsys)
    assert "step-000000000060/arrays.safetensors is damaged (its checksum does not match)" in sentence
    assert "pass --restart to start over, which discards the run's records, or restore the file" in sentence
    assert recorded_files(halfway) == before
    assert main([*command(CONFIG, halfway), "--restart"]) == 0
    assert differing(halfway, whole) == []


def test_finished_run_without_checkpoints_is_not_overwritten(halfway, whole, capsys):
    """A user may have removed them to save space."""
    (halfway / "checkpoints").rename(halfway.with_name("aside"))
    before = recorded_files(halfway)
    sentence = refused(command(CONFIG, halfway), capsys)
    assert f"{halfway} is finished after 60 transitions and has no checkpoint to go on from" in sentence
    assert "pass --restart to start over" in sentence
    assert recorded_files(halfway) == before
    assert main([*command(CONFIG, halfway), "--restart"]) == 0
    assert differing(halfway, whole) == []


def test_stopped_run_without_checkpoints_is_not_overwritten(halfway, capsys):
    status = status_of(halfway) | {"state": "stopped"}
    (halfway / "status.json").write_text(json.dumps(status))
    shutil.rmtree(halfway / "checkpoints")
    before = recorded_files(halfway)
    assert "is stopped after 60 transitions and has no checkpoint" in refused(command(CONFIG, halfway), capsys)
    assert recorded_files(halfway) == before


def test_truncated_records_are_rejected(halfway, capsys):
    os.truncate(halfway / "episodes.csv", 30)
    sentence = refused(command(CONFIG, halfway), capsys)
    assert f"{halfway / 'episodes.csv'} has lost its end: restore it or start over with --restart." in sentence


def test_no_record_is_truncated_if_one_is_missing(halfway, capsys):
    (halfway / "timing.jsonl").unlink()
    flip(halfway / "checkpoints" / "step-000000000060" / "plain.json")  # so that all would be truncated to step 40
    before = recorded_files(halfway)
    sentence = refused(command(CONFIG, halfway), capsys)
    assert f"cannot read {halfway / 'timing.jsonl'} (No such file or directory): restore it or start over" in sentence
    assert recorded_files(halfway) == before


class Gone(io.StringIO):
    """A stream whose reader has closed it, or whose disk is full."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.error = OSError(number, os.strerror(number))

    def write(self, _: str) -> int:
        raise self.error

    def flush(self) -> None:
        raise self.error


@pytest.mark.parametrize("number", [errno.EPIPE, errno.ENOSPC])
def test_unwritable_progress_stream_does_not_stop_a_run(tmp_path, whole, number):
    train(CONFIG, tmp_path / "run", Gone(number))
    assert differing(tmp_path / "run", whole) == []


def test_full_log_does_not_stop_a_command(tmp_path):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "eva", *command(CONFIG, tmp_path / "run")], stderr=full, check=False
        )
    assert done.returncode == 0
    assert status_of(tmp_path / "run")["state"] == "finished"


def test_unwritable_output_is_reported(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", Gone(errno.ENOSPC))
    assert "cannot use the output (No space left on device)" in refused(["presets"], capsys)


def test_all_files_of_a_run_have_the_same_permissions(half):
    modes = {path.name: path.stat().st_mode for path in half.iterdir() if path.is_file() and path.name != ".lock"}
    assert len(set(modes.values())) == 1, modes


def test_out_of_memory_is_reported(tmp_path, capsys):
    enormous = ["--eva.value-buffer-capacity", "1000000000000"]
    sentence = refused(["train", "smoke", "--out", str(tmp_path / "run"), *enormous], capsys)
    assert "there is not enough memory" in sentence


# Hostile files


def test_pickle_is_not_executed(halfway, whole, tmp_path, capsys):
    crater = tmp_path / "crater"
    bomb = pickle.dumps(Bomb(crater))
    newest = halfway / "checkpoints" / "step-000000000060"
    paths = [file for folder in (halfway, newest) for file in folder.iterdir() if file.is_file()]
    learned = {"policy.safetensors", "memory.safetensors"}
    assert {*learned, "config.json", "status.json", "manifest.json", "plain.json"} <= {path.name for path in paths}
    said = {}
    for path in paths:
        there = tmp_path / "there"
        shutil.copytree(halfway, there)
        victim = there / path.relative_to(halfway)
        victim.write_bytes(bomb)
        code = main(command(CONFIG, there))
        error = capsys.readouterr().err
        said[path.name] = one_sentence(error) if code else error
        if code == 0:  # a record has no checksum: one of the right length stays as it is
            assert set(differing(there, whole)) <= {path.name} & RECORDS
        assert ("is damaged" in error and str(victim) in error) == (path.parent == newest)
        assert "Traceback" not in error
        assert not crater.exists()
        shutil.rmtree(there)
    refused = {name: sentence for name, sentence in said.items() if sentence.startswith("eva: ")}
    assert all(f"/{name}" in sentence for name, sentence in refused.items())
    assert {"config.json"} <= refused.keys() <= {"config.json", "timing.jsonl", *RECORDS}
    pickle.loads(bomb)
    assert crater.exists(), "the pickle works"


@pytest.mark.parametrize("name", ["episodes.csv", "metrics.jsonl", "timing.jsonl", EVALUATIONS])
def test_record_that_changed_since_the_checkpoint_is_rejected(halfway, capsys, name):
    flip(halfway / name)
    before = recorded_files(halfway)
    sentence = refused(command(CONFIG, halfway), capsys)
    assert f"{halfway / name} has changed since the checkpoint: restore it or start over with --restart." in sentence
    assert recorded_files(halfway) == before


class Killed(BaseException):
    """Stands for the death of the process."""


def test_kill_inside_restart_leaves_a_run_that_ends_with_the_same_bytes(halfway, whole, capsys, monkeypatch):
    def killed(*_: Any) -> None:
        raise Killed

    for owner, name in ((CheckpointStore, "clear"), (RunDirectory, "begin")):
        run = shutil.copytree(halfway, halfway.with_name(name))
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, killed)
            with pytest.raises(Killed):
                main([*command(CONFIG, run), "--restart"])
        assert status_of(run)["state"] == "running"
        if checkpoint_steps(run):  # those of the run before are not deleted yet
            assert main(["evaluate", str(run), "--episodes", "1"]) == 0
            assert "is running: this is its checkpoint after" in capsys.readouterr().err
        else:
            assert "its state is running" in refused(["evaluate", str(run)], capsys)
        trained(CONFIG, run)
        assert differing(run, whole) == []


def test_restart_removes_checkpoints_and_drafts_of_killed_processes(halfway, whole):
    """A process was killed while it deleted a checkpoint, and another one with the same name was written since."""
    checkpoints = halfway / "checkpoints"
    newest = max(checkpoints.glob("step-*"))
    shutil.copytree(newest, checkpoints / f".draft-{newest.name}")
    trained(CONFIG, halfway, restart=True)
    assert differing(halfway, whole) == []


@pytest.mark.parametrize("content", [None, "{"])
def test_run_without_a_status_is_not_read_as_an_unfinished_one(halfway, content, capsys):
    if content is None:
        (halfway / "status.json").unlink()
    else:
        (halfway / "status.json").write_text(content)
    for name in ("evaluate", "inspect"):
        assert f"status.json is {'missing' if content is None else 'damaged'}" in refused([name, str(halfway)], capsys)


# Links and pipes


GROUPS = (  # files that are replaced together
    (".lock",),
    ("config.json",),
    ("status.json", "provenance.json", "policy.safetensors", "memory.safetensors"),
    ("episodes.csv",),
    ("metrics.jsonl", "timing.jsonl", EVALUATIONS),
)


def content_of(path: Path) -> dict[str, bytes | None]:
    """Return the content of every file below a path, and None for what is not a file."""
    return {str(file): file.read_bytes() if file.is_file() else None for file in sorted(path.rglob("*"))}


@pytest.mark.parametrize("make", [os.symlink, os.link], ids=["symbolic", "hard"])
@pytest.mark.parametrize("flags", [(), ("--restart",)], ids=["resume", "restart"])
def test_links_to_files_outside_are_never_written_through(halfway, capsys, make, flags):
    outside = halfway.with_name("outside")
    outside.mkdir()
    for names in GROUPS:
        run = shutil.copytree(halfway, halfway.with_name("linked"))
        for name in names:
            (run / name).rename(outside / name)
            make(outside / name, run / name)
        before = content_of(outside)
        code = main([*command(CONFIG, run), *flags])
        error = capsys.readouterr().err
        assert content_of(outside) == before, names
        if code != 0:
            assert any(str(run / name) in one_sentence(error) for name in names)
            assert "(it is a link, which is not followed)" in error or "(it is a hard link to a file with" in error
        shutil.rmtree(run)


@pytest.mark.parametrize("name", ["checkpoints", "checkpoints/step-000000000060", "tensorboard"])
@pytest.mark.parametrize("flags", [(), ("--restart",)], ids=["resume", "restart"])
def test_folders_outside_are_neither_written_nor_deleted(halfway, capsys, name, flags):
    outside = halfway.with_name("outside")
    (halfway / name).rename(outside)
    (halfway / name).symlink_to(outside)
    before = content_of(outside)
    code = main([*command(CONFIG, halfway), *flags])
    error = capsys.readouterr().err
    assert content_of(outside) == before
    if code != 0:
        assert "(it is a link, which is not followed)" in one_sentence(error)
        assert str(halfway / name) in error


def test_run_directory_may_be_a_link(halfway, whole):
    link = halfway.with_name("link")
    link.symlink_to(halfway)
    trained(CONFIG, link)
    assert link.is_symlink()
    assert differing(halfway, whole) == []


def test_log_and_lock_of_a_sweep_are_not_written_through_links(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grid.toml").write_text('preset = "smoke"\nseeds = 1\nout = "runs"\n[settings]\nsteps = 20\n')
    outside = tmp_path / "outside"
    outside.write_text("mine")
    (tmp_path / "runs").mkdir()
    for name in (".grid.sweep.json.lock", "seed-0.log"):
        (tmp_path / "runs" / name).symlink_to(outside)
        assert main(["sweep", "grid.toml"]) == 2
        out, err = capsys.readouterr()
        assert "it is a link, which is not followed" in out + err
        assert outside.read_text() == "mine"
        (tmp_path / "runs" / name).unlink()


@pytest.mark.parametrize("flags", [(), ("--restart",)], ids=["resume", "restart"])
def test_pipes_are_rejected_and_not_waited_for(halfway, capsys, flags):
    for names in GROUPS:
        run = shutil.copytree(halfway, halfway.with_name("piped"))
        for name in names:
            (run / name).unlink()
            os.mkfifo(run / name)
        code = main([*command(CONFIG, run), *flags])
        error = capsys.readouterr().err
        if code != 0:
            assert "(it is not a regular file)" in one_sentence(error)
            assert any(str(run / name) in error for name in names)
        shutil.rmtree(run)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_file_system_without_locks_is_explained(tmp_path, monkeypatch, capsys, number):
    def unsupported(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", unsupported)
    sentence = refused(command(CONFIG, tmp_path / "run"), capsys)
    assert f"cannot lock {tmp_path / 'run' / '.lock'} ({os.strerror(number)}): choose a place on a file" in sentence


# Forged files

FORGERIES: dict[str, Callable[[dict[str, Any], dict[str, Any]], Any]] = {  # change plain data and arrays
    "no records": lambda plain, arrays: plain.pop("records"),
    "no agent": lambda plain, arrays: plain["training"].pop("agent"),
    "no steps": lambda plain, arrays: plain["training"]["agent"].pop("num_steps"),
    "a generator of another kind": lambda plain, arrays: plain["training"]["agent"].update(sampling={"state": 1}),
    "records outside": lambda plain, arrays: plain["records"]["sizes"].update({"../outside": 1}),
    "a negative size": lambda plain, arrays: plain["records"]["sizes"].update({"episodes.csv": -1}),
    "checksums of text": lambda plain, arrays: plain["records"].update(sha256="many"),
    "sizes of text": lambda plain, arrays: plain["records"].update(sizes="many"),
    "seconds of text": lambda plain, arrays: plain["records"].update(seconds="many"),
    "endless seconds": lambda plain, arrays: plain["records"].update(seconds=10**400),
}


def forged(path: Path, forge: Callable[[dict[str, Any], dict[str, Any]], Any]) -> None:
    """Replace all checkpoints of a run by one with valid checksums and other content."""
    store = CheckpointStore(path / "checkpoints")
    checkpoint = store.load_newest(CONFIG.identity)[0]
    assert checkpoint is not None
    forge(checkpoint.plain, checkpoint.arrays)
    store.clear()
    store.save(checkpoint)


def wrong_shapes(path: Path) -> dict[str, Callable[[dict[str, Any], dict[str, Any]], Any]]:
    """Return a forgery for every array of the newest checkpoint: one entry broadcast, or none."""
    checkpoint = CheckpointStore(path / "checkpoints").load_newest(CONFIG.identity)[0]
    assert checkpoint is not None

    def cut(name: str) -> Callable[[dict[str, Any], dict[str, Any]], Any]:
        return lambda plain, arrays: arrays.update({name: np.zeros((1,) * (arrays[name].ndim + 1), np.float32)})

    fixed = [name for name in checkpoint.arrays if "rounds" not in name and "recent" not in name]
    return {name: cut(name) for name in fixed}


def test_forged_checkpoints_are_rejected_in_a_sentence(half, tmp_path, capsys):
    for name, forge in {**FORGERIES, **wrong_shapes(half)}.items():
        run = shutil.copytree(half, tmp_path / "run")
        forged(run, forge)
        before = recorded_files(run)
        code = main(command(CONFIG, run))
        error = capsys.readouterr().err
        assert code == 2, name
        assert "after 60 transitions does not fit the run (" in one_sentence(error), name
        assert {**recorded_files(run), str(run / ".lock"): 0} == {**before, str(run / ".lock"): 0}, name
        shutil.rmtree(run)


def test_errors_after_a_resume_from_a_forged_checkpoint_are_one_sentence(halfway, capsys):
    """Not all content can be checked when it is loaded."""
    forged(halfway, lambda plain, arrays: plain["training"]["agent"].update(num_steps={}))
    assert main(command(CONFIG, halfway)) == 2
    sentence = one_sentence(capsys.readouterr().err.replace("Error: ", " "))
    assert "the run failed after it went on from 60 transitions (Type" in sentence
    assert "pass --restart to start over; otherwise report this error." in sentence
    assert status_of(halfway)["state"] == "failed"


def test_escape_codes_do_not_reach_the_terminal(halfway, capsys):
    text = json.loads((halfway / "config.json").read_text())
    text["environment"]["id"] = "\x1b[2J\x9bno:such\x07-v0"
    (halfway / "config.json").write_text(json.dumps(text))
    (halfway / "manifest.json").unlink()
    for arguments in (command(CONFIG, halfway), ["evaluate", str(halfway)], ["report", str(halfway)]):
        main(arguments)
        out, err = capsys.readouterr()
        assert not {"\x1b", "\x9b", "\x07"} & {*out, *err}
    assert main(["train", "--env", "\x1b[2Jno-v0"]) == 2
    assert "\x1b" not in capsys.readouterr().err


# Two processes


def test_second_process_is_rejected_and_a_killed_one_leaves_no_lock(tmp_path, whole, capsys):
    path = tmp_path / "run"
    first, error = started(commanded, command(replace(CONFIG, steps=10**6), path))
    try:
        wait_until(lambda: has_reached(path, 30), first)
        assert f"another process is training in {path}" in refused(command(CONFIG, path), capsys)
        assert f"another process is training in {path}" in refused([*command(CONFIG, path), "--restart"], capsys)
        assert first.is_alive()
    finally:
        os.kill(first.pid, signal.SIGKILL)
        first.join()
    assert "Traceback" not in said(error)
    assert status_of(path)["state"] == "running"
    reached = max(checkpoint_steps(path))
    longer = replace(CONFIG, steps=reached + 40)
    assert f"goes on from {reached:,} transitions." in trained(longer, path)
    trained(longer, tmp_path / "whole")
    assert differing(path, recorded(tmp_path / "whole")) == []
