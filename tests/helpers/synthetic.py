"""Synthetic run directories with known learning curves and episodes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from eva.runs.record.columns import ACCURACY, AGE_LIMITS, EPISODE_COLUMNS, EVALUATIONS, NUM_FIFTHS, OWN, SHADOWS
from eva.runs.sweep.jobs import Job

LOW = -1.0
EPISODES = 400
ORIGIN = {
    "commit": "c0ffeec0ffeec0ffee",
    "dirty": False,
    "machine": {"processor": "a processor", "cores": 2},
    "versions": {"torch": "2.13.0"},
    "started": "2026-01-02T03:04:05+00:00",
}


@dataclass(frozen=True)
class Learned:
    """A run whose episodes return `LOW` until a share of its transitions is over, and `high` from then on."""

    high: float
    after: float = 0.5


def compared(error: float = 0.2, right: float = 0.6) -> dict[str, Any]:
    """Return what is measured over some states: planned values with this error; the network's error is 0.3."""
    return {
        "n": 10,
        "error": {"q_theta": 0.3, "q_np": error, "q_eva": (0.3 + error) / 2},
        "optimal": {"q_theta": 0.5, "q_np": right, "q_eva": 0.5 + 0.4 * (right - 0.5)},
        "overruled": 0.4,
        "right": right,
        "network_right": 1 - right,
    }


def compared_by_class(near: dict[str, Any], far: dict[str, Any]) -> dict[str, Any]:
    """Return a comparison with exact values; `far` is measured over all states but the nearest and newest class."""
    return {
        **far,
        "by_distance": [near, *[far] * (NUM_FIFTHS - 1)],
        "by_age": [near, *[far] * len(AGE_LIMITS)],
    }


Compared = Callable[[Job, str], dict[str, Any]]  # of a job and a way to plan
World = Callable[[Job], Learned]
Played = Callable[[Job, int, float, int], float]  # of a job, a step, a weight and an episode: the return


def nothing_learned(_: Job) -> Learned:
    return Learned(0.0)


def write_run(
    job: Job,
    directory: Path,
    world: World = nothing_learned,
    played: Played | None = None,
    compare: Compared = lambda *_: compared_by_class(compared(), compared()),
    state: str = "finished",
) -> None:
    """Write a run directory as training would; by default evaluations return what training returns."""
    directory.mkdir(parents=True)
    steps, learned = job.config.steps, world(job)
    ends = [steps * (i + 1) // EPISODES for i in range(EPISODES)]
    rows = [f"{end},0,{learned.high if end > learned.after * steps else LOW},1\n" for end in ends]
    files = {
        "config.json": job.config.to_json(),
        "provenance.json": json.dumps(ORIGIN),
        "status.json": json.dumps({"state": state, "step": steps}),
        "episodes.csv": f"{EPISODE_COLUMNS}\n{''.join(rows)}",
        "timing.jsonl": json.dumps({"step": steps, "seconds": 360.0, "steps_per_second": 5.0}) + "\n",
    }
    evaluation = job.config.evaluation
    play = played or (lambda _job, step, *_: learned.high if step > learned.after * steps else LOW)
    if evaluation.period_transitions is not None:
        lines = [
            {"step": step, "epsilon": epsilon, "weight": weight, "returns": returns}
            for step in range(evaluation.period_transitions, steps + 1, evaluation.period_transitions)
            for epsilon in evaluation.epsilons
            for weight in evaluation.weights
            for returns in [[play(job, step, weight, i) for i in range(evaluation.num_episodes)]]
        ]
        files[EVALUATIONS] = "".join(json.dumps(line) + "\n" for line in lines)
        if evaluation.accuracy:
            files[ACCURACY] = "".join(
                json.dumps({"step": step, "way": way, **compare(job, way)}) + "\n"
                for step in range(evaluation.period_transitions, steps + 1, evaluation.period_transitions)
                for way in (SHADOWS if job.config.eva.nonparametric_weight == 0 else [OWN])
            )
    for name, text in files.items():
        (directory / name).write_text(text)


def draw_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the figures, which take longer than everything else."""
    monkeypatch.setattr("eva.report.plots.files", lambda _: (b"<?xml", b"\x89PNG"))
