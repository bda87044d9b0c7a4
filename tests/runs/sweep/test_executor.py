"""Jobs run once, continue after a stop, and fail without stopping others."""

from __future__ import annotations

import fcntl
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from eva.config import Config
from eva.errors import BusyError, UserError
from eva.files import locked, write_packed
from eva.presets import preset
from eva.runs import loop
from eva.runs.callbacks import MetricsRecord, Run
from eva.runs.record.recorder import Display
from eva.runs.record.status import read_status
from eva.runs.stopping import StoppedError
from eva.runs.sweep import executor, worker
from eva.runs.sweep.executor import LocalExecutor
from eva.runs.sweep.jobs import Job, Outcome
from eva.runs.sweep.worker import work
from tests.helpers.agents import tiny

EVALUATED = tiny(steps=120, evaluation={"period_transitions": 60, "num_episodes": 2, "weights": (0.0, 1.0), "seed": 7})


def wait_for_steps(directory: Path, process: subprocess.Popen[str] | None = None) -> None:
    while read_status(directory).step == 0:
        assert process is None or process.poll() is None, "ended before its first line of metrics"
        time.sleep(0.05)


def test_job_round_trips_through_one_line_of_json() -> None:
    job = Job(Path("runs/x"), EVALUATED, ("eva", "experiment", "x"), "eva.integrations.sb3_runs")
    line = job.to_json()
    assert "\n" not in line
    assert Job.from_json(line) == job


def test_job_is_done_when_trained_and_evaluated(tmp_path: Path) -> None:
    job = Job(tmp_path / "run", EVALUATED)
    assert not job.is_done_in(job.directory)
    work(job)
    assert job.is_done_in(job.directory)
    lines = [json.loads(line) for line in (job.directory / "evaluations.jsonl").read_text().splitlines()]
    assert [(each["step"], each["weight"]) for each in lines] == [(60, 0.0), (60, 1.0), (120, 0.0), (120, 1.0)]
    assert {len(each["returns"]) for each in lines} == {2}
    for other in (
        replace(job, config=replace(job.config, seed=1)),
        replace(job, config=replace(job.config, steps=119)),
        replace(job, config=replace(job.config, steps=121)),
    ):
        assert not other.is_done_in(job.directory)
    before = {path: path.stat().st_mtime_ns for path in job.directory.glob("*.*")}
    work(job)
    assert {path: path.stat().st_mtime_ns for path in job.directory.glob("*.*")} == before


def test_compressed_evaluations_count_and_missing_ones_raise(tmp_path: Path) -> None:
    config = tiny(steps=120)
    work(Job(tmp_path / "run", config))
    job = Job(tmp_path / "run", replace(config, evaluation=EVALUATED.evaluation))
    assert not job.is_done_in(job.directory)
    with pytest.raises(UserError, match="run was trained without the requested evaluations: move it away"):
        work(job)
    write_packed(job.directory / "evaluations.jsonl", b"")
    assert job.is_done_in(job.directory)


def test_run_with_too_many_transitions_raises(tmp_path: Path) -> None:
    config = tiny(steps=120)
    work(Job(tmp_path / "run", config))
    with pytest.raises(UserError, match="trained for 120 transitions, more than the requested 100"):
        work(Job(tmp_path / "run", replace(config, steps=100)))


def test_failed_job_is_reported_and_others_continue(tmp_path: Path) -> None:
    good = Job(tmp_path / "good", EVALUATED, ("eva", "experiment", "x"))
    bad = Job(tmp_path / "bad", tiny(steps=120, learner={"learning_rate": 1e30}))
    reported: list[Outcome] = []
    stream = io.StringIO()
    outcomes = LocalExecutor(2, "title", stream, num_retries=1).execute([bad, good], reported.append)
    assert reported == outcomes
    assert {outcome.job.directory: outcome.state for outcome in outcomes} == {
        bad.directory: "failed",
        good.directory: "finished",
    }
    (error,) = [outcome.error for outcome in outcomes if outcome.error is not None]
    assert error.startswith("the run diverged at")
    assert bad.log == tmp_path / "bad.log"
    assert bad.log.read_text().count(f"eva: {error}\n") == 2, "one retry"
    assert stream.getvalue().count("; retry 1 of 1\n") == 1
    assert good.is_done_in(good.directory)
    assert json.loads((good.directory / "provenance.json").read_text())["argv"] == ["eva", "experiment", "x"]
    assert "bad has failed: the run diverged" in stream.getvalue()
    assert f"(see {bad.log})" in stream.getvalue()
    assert "good is finished" in stream.getvalue()
    assert "(2 of 2)" in stream.getvalue()


def test_crash_is_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def crash(_: Job) -> None:
        raise ValueError("first line\nsecond line")

    job = Job(tmp_path / "run", tiny(steps=20), command=("eva", "experiment", "x"))
    monkeypatch.setattr(executor.subprocess, "Popen", lambda *_, **__: SimpleNamespace(stdin=io.BytesIO()))
    job.log.write_text("eva: output of an earlier process\n")
    ended = executor.WorkerProcess(job)
    monkeypatch.setattr(worker, "work", crash)
    monkeypatch.setattr(worker, "_stop_with_parent", lambda: None)
    monkeypatch.setattr(sys, "argv", ["pytest"])
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{job.to_json()}\n"))
    assert worker.main() == 1
    assert ended._error(1) == "ended with exit code 1"
    with job.log.open("a") as log:
        log.write(capsys.readouterr().err)
    assert "Traceback" in job.log.read_text()
    assert ended._error(1) == "ValueError: first line"
    assert ended._error(-signal.SIGKILL) == "ended by SIGKILL"
    assert ended._error(-40) == "ended by signal 40"
    job.log.unlink()
    assert ended._error(1) == "ended with exit code 1"


def test_job_that_cannot_start_fails_and_others_continue(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    bad, good = (Job(tmp_path / place / "run", tiny(steps=20)) for place in ("file", "folder"))
    outcomes = LocalExecutor(1, "title", io.StringIO(), num_retries=1).execute([bad, good], lambda _: None)
    states = {outcome.job.directory: outcome.state for outcome in outcomes}
    assert states == {bad.directory: "failed", good.directory: "finished"}
    (error,) = [outcome.error for outcome in outcomes if outcome.error is not None]
    assert error.startswith("cannot write")


def test_job_that_another_process_finished_meanwhile_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job, train = Job(tmp_path / "run", EVALUATED), loop.train

    def train_after_another_process(config: Config, directory: Path) -> None:
        monkeypatch.setattr(loop, "train", train)
        work(job)  # another process runs the whole job while this one waits
        train(config, directory)

    monkeypatch.setattr(loop, "train", train_after_another_process)
    work(job)
    assert job.is_done_in(job.directory)


def test_stop_signal_stops_all_jobs_and_the_next_start_continues(tmp_path: Path) -> None:
    long = replace(preset("smoke"), steps=1_000_000)
    jobs = [Job(tmp_path / str(seed), replace(long, seed=seed)) for seed in range(3)]

    def stop_when_running() -> None:
        for job in jobs[:2]:
            wait_for_steps(job.directory)
        os.kill(os.getpid(), signal.SIGTERM)

    reported: list[Outcome] = []
    threading.Thread(target=stop_when_running, daemon=True).start()
    with pytest.raises(StoppedError) as stopped:
        LocalExecutor(2, stream=io.StringIO()).execute(jobs, reported.append)
    assert stopped.value.exit_code == 128 + signal.SIGTERM
    assert {(outcome.job, outcome.state) for outcome in reported} == {(job, "stopped") for job in jobs[:2]}
    assert not jobs[2].directory.exists()
    for job in jobs[:2]:
        status = read_status(job.directory)
        assert status.state == "stopped"
        assert [path.name for path in (job.directory / "checkpoints").glob("step-*")] == [f"step-{status.step:012}"]
    step = read_status(jobs[0].directory).step
    shorter = replace(jobs[0], config=replace(jobs[0].config, steps=step + 50))
    (outcome,) = LocalExecutor(1, stream=io.StringIO()).execute([shorter], reported.append)
    assert outcome.state == "finished"
    continued = json.loads((shorter.directory / "provenance.json").read_text())["continued"]
    assert [part["step"] for part in continued] == [step]


def test_no_job_keeps_running_when_the_callback_raises(tmp_path: Path) -> None:
    quick = Job(tmp_path / "quick", tiny(steps=20))
    long = Job(tmp_path / "long", replace(preset("smoke"), steps=1_000_000))

    def fail(_: Outcome) -> None:
        raise UserError("the disk is full.")

    with pytest.raises(UserError, match="the disk is full"):
        LocalExecutor(2, stream=io.StringIO()).execute([quick, long], fail)
    if long.directory.exists():
        with (long.directory / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises if another process holds the lock


def test_worker_stops_when_its_parent_ends(tmp_path: Path) -> None:
    job = Job(tmp_path / "run", replace(preset("smoke"), steps=1_000_000))
    command = [sys.executable, "-c", "import sys; from eva.runs.sweep.worker import main; sys.exit(main())"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        process.stdin.write(job.to_json() + "\n")
        process.stdin.flush()
        wait_for_steps(job.directory, process)
        process.stdin.close()
        assert process.wait(60) == 128 + signal.SIGTERM
    assert read_status(job.directory).state == "stopped"


def test_worker_waits_for_a_locked_run_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(tmp_path / "run", tiny(steps=20))
    job.directory.mkdir()
    held = locked(job.directory / ".lock")
    assert held is not None
    monkeypatch.setattr(worker, "_SECONDS_BETWEEN_TRIES", 0.05)
    with monkeypatch.context() as impatient:
        impatient.setattr(worker, "_MAX_WAIT_SECONDS", 0.0)
        with pytest.raises(BusyError, match="another process is training"):
            work(job)
    threading.Timer(0.3, held.close).start()
    work(job)
    assert job.is_done_in(job.directory)


def test_jobs_start_while_threads_are_free() -> None:
    def job(threads: int) -> SimpleNamespace:
        return SimpleNamespace(job=Job(Path("run"), tiny(run={"threads": threads})))

    executor = LocalExecutor(4)
    assert executor.has_capacity(job(2).job, [job(1), job(1)])
    assert not executor.has_capacity(job(2).job, [job(1), job(2)])
    assert executor.has_capacity(job(9).job, []), "a large job runs alone"
    assert not executor.has_capacity(job(0).job, [job(1)]), "0 threads means all cores"
    assert not executor.has_capacity(job(1).job, [job(0)])


def test_worker_sees_gpus_only_if_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[dict[str, str]] = []

    def popen(*_: object, env: dict[str, str], **__: object) -> SimpleNamespace:
        given.append(env)
        return SimpleNamespace(stdin=io.BytesIO())

    monkeypatch.setattr(executor.subprocess, "Popen", popen)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    for sees_gpus in (True, False):
        executor.WorkerProcess(Job(tmp_path / "run", tiny()), sees_gpus=sees_gpus)
    assert [env["CUDA_VISIBLE_DEVICES"] for env in given] == ["3", ""]
    assert {env["OMP_NUM_THREADS"] for env in given} == {"1"}


def test_markup_in_names_is_printed_literally(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("COLUMNS", "120")
    stream = io.StringIO()
    with Display("runs/a[/b][red]", 100, stream) as display:
        display.metrics(Run(Path("run"), tiny()), MetricsRecord({}, 5.0, 10.0))
    assert "runs/a[/b][red]" in stream.getvalue()
