"""Run an experiment: train what is not finished, keep it, judge it and write its page."""

import importlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from eva.errors import UserError, printable
from eva.experiments.framework.definition import Arm, Experiment, jobs_of
from eva.experiments.framework.evidence import MEASURED, Evidence, Records
from eva.experiments.framework.page import contents
from eva.files import as_user_errors, write_whole
from eva.runs.record.formatting import aligned
from eva.runs.record.provenance import provenance
from eva.runs.record.status import read_status
from eva.runs.sweep.executor import LocalExecutor
from eva.runs.sweep.jobs import Job, Outcome
from eva.schema import changed

QUICK_STEPS, MOST_QUICK_JOBS = 400, 8
QUICK_CHANGES = {
    "steps": QUICK_STEPS,
    "maze.max_episode_steps": 20,
    "atari.max_episode_frames": 80,
    "minatar.max_episode_steps": 20,
    "replay.replay_capacity": 200,
    "learner.learning_starts_transitions": 100,
    "exploration.epsilon_decay_transitions": 200,
    "eva.trajectory_length": 10,
    "eva.value_buffer_capacity": 100,
    "evaluation.num_episodes": 3,
    "run.metrics_period_transitions": 100,
}


@dataclass(frozen=True)
class Places:
    """Folders of runs and results; `--quick` uses a folder of its own in that of runs."""

    runs: Path
    results: Path
    quick: bool

    @property
    def runs_here(self) -> Path:
        """The folder of all runs."""
        return self.runs / "quick" / "runs" if self.quick else self.runs

    def records(self, experiment: Experiment) -> Records:
        """Return the kept runs of an experiment."""
        return Records(self.runs / "quick" / "results" if self.quick else self.results, experiment.name)

    def arms(self, experiment: Experiment) -> Sequence[Arm]:
        """Return the arms of an experiment, or their quick form."""
        return quick(experiment.arms()) if self.quick else experiment.arms()

    def placed(self, job: Job, experiment: Experiment) -> Job:
        """Return a job with its full run directory and the command that runs it."""
        command = (*experiment.command, *(["--quick"] if self.quick else []))
        return replace(job, directory=self.runs_here / job.directory, command=command)

    def find(self, job: Job, records: Records) -> Path | None:
        """Return where the finished run of a job is kept, or else its finished run directory, or None."""
        here = self.runs_here / job.directory
        return records.find(job) or (here if job.is_done_in(here) else None)


def jobs_to_make(experiment: Experiment, places: Places) -> list[Job]:
    """Return the jobs that have no kept results, each with its full run directory."""
    records = places.records(experiment)
    jobs = [job for job in jobs_of(places.arms(experiment)) if records.find(job) is None]
    return [places.placed(job, experiment) for job in jobs]


def run_experiment(experiment: Experiment, places: Places, num_processes: int) -> str:
    """Train what is not finished, keep each run as soon as it ends, and write the page; returns a line per claim."""
    arms, records = places.arms(experiment), places.records(experiment)
    left = {}
    for job in jobs_of(arms):
        done = places.find(job, records)
        if done is None:
            left[places.runs_here / job.directory] = job
        else:
            records.keep(job, done)

    def keep(outcome: Outcome) -> None:
        if outcome.state == "finished":
            records.keep(left[outcome.job.directory], outcome.job.directory)

    placed = [places.placed(job, experiment) for job in left.values()]
    outcomes = LocalExecutor(num_processes, experiment.name).execute(placed, keep)
    failed = [each.sentence for each in outcomes if each.state == "failed"]
    if failed:
        runs = f"{len(failed)} of {len(placed)} runs failed"
        raise UserError(f"{runs} ({'; '.join(failed)}): run the same command to retry them.")
    return write_page(experiment, arms, records, places.quick)


def write_page(experiment: Experiment, arms: Sequence[Arm], records: Records, is_quick: bool = False) -> str:
    """Judge the kept runs and write page, summary and figures; returns a line for each claim."""
    folder = records.folder.parent
    if experiment.timing is not None and not (folder / MEASURED).exists():
        with as_user_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        origin = provenance(experiment.command, threads=1, device="cpu")
        measured = importlib.import_module(experiment.timing).measure(is_quick)
        write_whole(folder / MEASURED, (json.dumps({**measured, "provenance": origin}) + "\n").encode())
    files = contents(experiment, Evidence(arms, records, task_by_task=experiment.task_by_task))
    for name, content in files.items():
        write_whole(folder / name, content)
    claims = json.loads(files["summary.json"])["claims"]
    return "\n".join([*(f"{each['verdict']}: {each['claim']}" for each in claims), str(folder / "README.md")])


def list_runs(experiment: Experiment, places: Places) -> str:
    """Return a line for each run with its progress."""
    records, lines = places.records(experiment), []
    for job in jobs_of(places.arms(experiment)):
        done, status = places.find(job, records), read_status(places.runs_here / job.directory)
        so_far = "to do" if status.state == "absent" else printable(f"{status.state} at {status.step:,}")
        if done is None and (records.folder / job.directory).exists():
            so_far += f"; {records.folder / job.directory} is damaged, or of another configuration"
        lines.append((str(job.directory), f"{job.config.steps:,}", so_far if done is None else f"done: {done}"))
    if not lines:
        return f"{experiment.name} has no runs: it is a measurement of this machine"
    return aligned(("run", "transitions", "state"), lines)


def quick(arms: Sequence[Arm]) -> tuple[Arm, ...]:
    """Return the same arms with few seeds and runs of seconds, to check that they run; nothing is learned."""
    num_seeds = max(1, MOST_QUICK_JOBS // max(1, len({arm.jobs for arm in arms})))
    return tuple(replace(arm, jobs=tuple(map(_shortened, arm.jobs[:num_seeds]))) for arm in arms)


def _shortened(job: Job) -> Job:
    durations = {
        "eva.anneal_start_transitions": job.config.eva.anneal_start_transitions,
        "eva.anneal_transitions": job.config.eva.anneal_transitions,
        "evaluation.period_transitions": job.config.evaluation.period_transitions,
    }
    share = QUICK_STEPS / job.config.steps
    shorter = {name: round(share * value) for name, value in durations.items() if value is not None}
    return replace(job, config=changed(job.config, {**QUICK_CHANGES, **shorter}))
