"""Sweeps on a real Ray cluster: results are the same bytes if nodes, workers and drivers are lost."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eva.errors import UserError
from eva.runs.record.status import read_status
from eva.runs.sweep.executor import LocalExecutor
from eva.runs.sweep.grid import read_grid
from eva.runs.sweep.jobs import Job, Outcome
from eva.runs.sweep.ray_executor import RayExecutor
from eva.runs.sweep.worker import work
from tests.helpers.agents import tiny

SAME = ("config.json", "episodes.csv", "metrics.jsonl", "policy.safetensors", "memory.safetensors", "status.json")
NODE = {"num_cpus": 1, "memory": 2 * 10**9, "object_store_memory": 80 * 2**20, "include_dashboard": False}
GRID = """
preset = "smoke"
seeds = {seeds}
out = "runs"

[settings]
steps = {steps}
run.device = "cpu"
run.checkpoint_period_transitions = 200
"""


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # write no token into the home directory
    monkeypatch.setenv("RAY_ADDRESS", "local")  # do not use a cluster that runs on this machine


def same(jobs: Sequence[Job], others: Sequence[Job]) -> None:
    """Assert that the records of runs are equal byte for byte."""
    for job, other in zip(jobs, others, strict=True):
        for name in SAME:
            assert (job.directory / name).read_bytes() == (other.directory / name).read_bytes(), (job.directory, name)


def elsewhere(jobs: Sequence[Job], folder: Path) -> list[Job]:
    return [replace(job, directory=folder / job.directory.name) for job in jobs]


def test_ray_matches_local_run_and_others_continue_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files beside replace no module of the processes that Ray starts."""
    monkeypatch.chdir(tmp_path)
    for name in ("queue", "subprocess", "fcntl", "zlib", "tomllib"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'shadowed')!r}, 'w').close()\n")
    good = Job(tmp_path / "ray" / "good", tiny(steps=120))
    bad = Job(tmp_path / "ray" / "bad", tiny(steps=120, learner={"learning_rate": 1e30}))
    stream, reported = io.StringIO(), list[Outcome]()
    outcomes = RayExecutor("title", stream, num_retries=1).execute([bad, good], reported.append)
    assert reported == outcomes
    assert {(outcome.job, outcome.state) for outcome in outcomes} == {(bad, "failed"), (good, "finished")}
    (error,) = [outcome.error for outcome in outcomes if outcome.error is not None]
    assert error.startswith("the run diverged at")
    assert bad.log.read_text().count("eva: the run diverged at") == 2, "one retry"
    assert stream.getvalue().count("; retry 1 of 1\n") == 1
    (here,) = elsewhere([good], tmp_path / "here")
    work(here)
    same([good], [here])
    assert not (tmp_path / "shadowed").exists()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args=NODE)
    try:
        for _ in range(2):
            cluster.add_node(**NODE)
        cluster.wait_for_nodes()
        yield cluster
    finally:
        cluster.shutdown()
    assert [run for _, run in workers() if tmp_path in run.parents] == []


# Worker processes


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def workers() -> list[tuple[int, Path]]:
    """Return (process id, run directory) of every worker that holds the lock of a run directory."""
    return [found for process in Path("/proc").glob("[0-9]*") for found in held_by(process)]


def held_by(process: Path) -> list[tuple[int, Path]]:
    try:
        if b"eva.runs.sweep.worker" not in (process / "cmdline").read_bytes():
            return []
        files = [file.readlink() for file in (process / "fd").iterdir()]
    except OSError:  # it has just ended
        return []
    return [(int(process.name), file.parent) for file in files if file.name == ".lock"]


def until(condition: Callable[[], Any], seconds: float = 300.0) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError(f"the condition was not met in {seconds:g} s")


def in_the_middle(directories: set[Path]) -> list[tuple[int, Path]]:
    """Return the workers that have written a checkpoint of one of these runs."""
    return [
        (pid, directory)
        for pid, directory in workers()
        if directory in directories and any((directory / "checkpoints").glob("step-*"))
    ]


def continued(job: Job) -> int:
    return len(json.loads((job.directory / "provenance.json").read_text()).get("continued", []))


@pytest.mark.slow
def test_lost_node_and_lost_workers_do_not_change_results(tmp_path: Path, cluster: Any) -> None:
    config = tiny(steps=1_500, run={"checkpoint_period_transitions": 150})
    jobs = [Job(tmp_path / "ray" / str(seed), replace(config, seed=seed)) for seed in range(12)]
    hit: dict[str, Path] = {}

    def disturb() -> None:
        node = next(iter(cluster.worker_nodes))
        raylet = node.all_processes["raylet"][0].process.pid
        left = {job.directory for job in jobs}
        _, hit["node"] = until(lambda: [one for one in in_the_middle(left) if parent(parent(one[0])) == raylet])[0]
        cluster.remove_node(node, allow_graceful=False)
        left.remove(hit["node"])
        pid, hit["worker of Ray"] = until(lambda: in_the_middle(left))[0]
        os.kill(parent(pid), signal.SIGKILL)
        left.remove(hit["worker of Ray"])
        pid, hit["process"] = until(lambda: in_the_middle(left))[0]
        os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=disturb, daemon=True)
    thread.start()
    stream = io.StringIO()
    outcomes = RayExecutor("title", stream, address=cluster.address, num_retries=1).execute(jobs, lambda _: None)
    thread.join(1)
    assert len(hit) == 3, "all disturbances happened before the sweep ended"
    assert sorted(str(outcome.job.directory) for outcome in outcomes) == sorted(str(job.directory) for job in jobs)
    assert {outcome.state for outcome in outcomes} == {"finished"}, stream.getvalue()
    assert stream.getvalue().count("retry 1 of 1") == 1, "a lost node or worker of Ray's is not the run's failure"
    for job in jobs:
        assert continued(job) == (job.directory in hit.values()), job.directory
    undisturbed = elsewhere(jobs, tmp_path / "local")
    LocalExecutor(2, stream=io.StringIO()).execute(undisturbed, lambda _: None)
    same(jobs, undisturbed)


def command(*arguments: str, **popen: Any) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-m", "eva", "sweep", *arguments], text=True, **popen)


@pytest.mark.slow
def test_restarted_driver_skips_finished_runs(tmp_path: Path, cluster: Any) -> None:
    (tmp_path / "grid.toml").write_text(GRID.format(seeds=5, steps=1_500))
    runs = [tmp_path / "runs" / f"seed-{seed}" for seed in range(5)]
    arguments = ("grid.toml", "--executor", "ray", "--address", cluster.address)
    first = command(*arguments, cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        until(lambda: any(read_status(run).state == "finished" for run in runs) and in_the_middle(set(runs)))
    finally:
        first.kill()
        first.wait()
    done = [run for run in runs if read_status(run).state == "finished"]
    before = {path: path.stat().st_mtime_ns for run in done for path in run.rglob("*")}
    assert done
    second = command(*arguments, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = second.communicate(timeout=600)
    assert second.returncode == 0, err
    assert f"5 runs are done, {len(done)} of them were done before" in out
    assert {path: path.stat().st_mtime_ns for run in done for path in run.rglob("*")} == before
    assert err.count("is finished") == 5 - len(done)
    with_local = tmp_path / "local"
    with_local.mkdir()
    (with_local / "grid.toml").write_text(GRID.format(seeds=5, steps=1_500))
    command("grid.toml", cwd=with_local, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL).wait(600)
    for run in runs:
        for name in SAME:
            assert (run / name).read_bytes() == (with_local / "runs" / run.name / name).read_bytes(), (run, name)


@pytest.mark.slow
def test_lost_head_node_ends_the_sweep_and_a_new_cluster_continues_it(tmp_path: Path) -> None:
    from ray.cluster_utils import Cluster

    (tmp_path / "grid.toml").write_text(GRID.format(seeds=2, steps=1_500))
    runs = [tmp_path / "runs" / f"seed-{seed}" for seed in range(2)]
    outputs = []
    for is_first in (True, False):
        cluster = Cluster(initialize_head=True, head_node_args=NODE)
        try:
            cluster.add_node(**NODE)
            arguments = ("grid.toml", "--executor", "ray", "--address", cluster.address)
            driver = command(*arguments, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            if is_first:
                until(lambda: in_the_middle(set(runs)), 900)
                cluster.remove_node(cluster.head_node, allow_graceful=False)
            out, err = driver.communicate(timeout=900)
        finally:
            cluster.shutdown()
        outputs.append((driver.returncode, out, err))
        until(lambda: not any(run in runs for _, run in workers()))  # each writes a checkpoint and ends
    (lost, table, said), (finished, out, err) = outputs
    assert lost == 2, said
    assert "the head node of the Ray cluster is lost: start a cluster, then the same command" in table
    assert "eva: 2 of 2 runs failed: run the same command to try them again." in said
    assert "Traceback" not in said
    assert finished == 0, err
    assert "2 runs are done" in out
    undisturbed = [replace(job, directory=tmp_path / "local" / job.directory.name) for job in grid_jobs(tmp_path)]
    LocalExecutor(1, stream=io.StringIO()).execute(undisturbed, lambda _: None)
    same(grid_jobs(tmp_path), undisturbed)


def grid_jobs(folder: Path) -> list[Job]:
    return [replace(job, directory=folder / job.directory) for job in read_grid(folder / "grid.toml").jobs]


FULL_DISK = """
import resource, sys
if "eva.runs.sweep.worker" in " ".join(sys.orig_argv):
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, 2_000))
"""


@pytest.mark.slow
def test_full_disk_on_a_node_fails_its_runs_and_the_same_command_continues(tmp_path: Path) -> None:
    """The workers of the second node cannot write files beyond 2,000 bytes; retries may find the other node."""
    from ray.cluster_utils import Cluster

    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "sitecustomize.py").write_text(FULL_DISK)
    jobs = [Job(tmp_path / "ray" / str(seed), tiny(steps=200, seed=seed)) for seed in range(4)]
    cluster = Cluster(initialize_head=True, head_node_args=NODE)
    try:
        path = os.pathsep.join([str(tmp_path / "full"), os.environ.get("PYTHONPATH", "")])
        full = cluster.add_node(**NODE, env_vars={"PYTHONPATH": path})
        cluster.wait_for_nodes()
        stream = io.StringIO()
        outcomes = RayExecutor("title", stream, cluster.address, num_retries=1).execute(jobs, lambda _: None)
        errors = [outcome.error for outcome in outcomes if outcome.state == "failed"]
        said = stream.getvalue()
        assert "(File too large): choose another place or free disk space" in said
        assert all("(File too large)" in str(error) for error in errors), "and nothing else"
        assert len(errors) < len(jobs), "the other node finished its runs"
        cluster.remove_node(full)
        cluster.add_node(**NODE)
        left = [job for job in jobs if not job.is_done_in(job.directory)]
        again = RayExecutor("title", io.StringIO(), cluster.address).execute(left, lambda _: None)
        assert {outcome.state for outcome in again} <= {"finished"}
    finally:
        cluster.shutdown()
    undisturbed = elsewhere(jobs, tmp_path / "local")
    LocalExecutor(1, stream=io.StringIO()).execute(undisturbed, lambda _: None)
    same(jobs, undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize(("executor", "is_background"), [("local", False), ("ray", False), ("ray", True)])
def test_ctrl_c_checkpoints_all_runs_and_leaves_no_process(tmp_path: Path, executor: str, is_background: bool) -> None:
    """Background processes of a script ignore SIGINT, so they get SIGTERM instead."""
    (tmp_path / "grid.toml").write_text(GRID.format(seeds=2, steps=1_000_000))
    runs = [tmp_path / "runs" / f"seed-{seed}" for seed in range(2)]
    driver = command(
        "grid.toml",
        "--executor",
        executor,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=(lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)) if is_background else None,
    )
    until(lambda: len(in_the_middle(set(runs))) == 2)
    if is_background:
        number = signal.SIGTERM
        driver.send_signal(number)
    else:
        number = signal.SIGINT
        os.killpg(driver.pid, number)  # a terminal signals the whole group
    _, err = driver.communicate(timeout=300)
    assert driver.returncode == 128 + number, err
    assert f"stopped by {number.name}; the same command goes on from here." in err
    for run in runs:
        status = read_status(run)
        assert status.state == "stopped"
        assert (run / "checkpoints" / f"step-{status.step:012}").exists()
    assert [held for held in workers() if held[1] in runs] == []
    with pytest.raises(ProcessLookupError):
        until(lambda: os.killpg(driver.pid, 0), 30)  # no process of its group is left


def test_unreachable_cluster_raises(tmp_path: Path) -> None:
    job = Job(tmp_path / "run", tiny())
    with pytest.raises(UserError, match=r"cannot use the Ray cluster at 127\.0\.0\.1:1 \(.*Connection refused\)"):
        RayExecutor(address="127.0.0.1:1").execute([job], lambda _: None)


@pytest.mark.slow
def test_job_too_large_for_every_node_raises(tmp_path: Path) -> None:
    job = Job(tmp_path / "run", tiny(run={"threads": 1_000}))
    with pytest.raises(UserError, match=r"asks for 1000 CPUs, 0 GPUs and .* which no node of the Ray cluster has"):
        RayExecutor().execute([job], lambda _: None)
