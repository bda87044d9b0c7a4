"""Pong on a laptop: that the Atari agent learns, beside the published figures of another package (P108)."""

from __future__ import annotations

import csv
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

import eva
from eva.experiments.framework.common import PAPER_WEIGHT, label, seeded
from eva.experiments.framework.definition import OURS, Arm, Claim, Experiment, Finding, Judgement, Table
from eva.experiments.framework.evidence import Evidence
from eva.experiments.framework.judge import both, is_above
from eva.experiments.framework.words import brief, gained, plain
from eva.games import PUBLISHED_SCORES
from eva.presets import for_game, preset
from eva.report.curves import FINAL_SHARE, Task, Variant, late_returns
from eva.report.measures import mean
from eva.report.plots import Chart, Line, chart_files
from eva.report.statistics import FloatArray
from eva.report.verdict import number
from eva.runs.sweep.jobs import Job

GAME = "pong"
RANDOM = PUBLISHED_SCORES[GAME].random
SEED = 0
WEIGHTS = (0.0, PAPER_WEIGHT)
MILLION = 1_000_000
DOPAMINE = "DQN (Adam + MSE in JAX)"
LAST_SHOWN = 5  # iteration of Dopamine's 200


def arms() -> tuple[Arm, ...]:
    """Return DQN and EVA, one run of each."""
    return tuple(Arm("Pong", label(weight), (_job(weight),)) for weight in WEIGHTS)


def judge(evidence: Evidence) -> Judgement:
    """Judge that both runs end above chance: intervals are over episodes, for there is one seed."""
    (task,) = evidence.tasks
    gains = {each.label: mean(late_returns(each.runs[0]) - RANDOM) for each in task.variants}
    measured = "; ".join(f"{name} ends {gained(gain)} above chance" for name, gain in gains.items())
    counts = ", ".join(str(len(late_returns(each.runs[0]))) for each in task.variants)
    finding = Finding(
        both(*(is_above(gain) for gain in gains.values())),
        f"{measured}, where a perfect game is {number(21 - RANDOM)}",
        f"bootstrap over the episodes of the last {FINAL_SHARE:.0%} ({counts}), one seed of each",
    )
    return Judgement(
        outcome=f"After {_frames(task) / MILLION:g}M frames {measured}. One seed tells nothing of EVA's benefit.",
        findings=(finding,),
        tables=(_table(task),),
        figures={"curves": _figure(task)},
        numbers={"above_chance": plain({name: asdict(gain) for name, gain in gains.items()})},
    )


def dopamine() -> dict[int, tuple[float, float]]:
    """Return published returns in Pong, mean and standard deviation over seeds, by iteration of a million frames."""
    with Path(eva.__file__).with_name("data").joinpath("dopamine_dqn.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if (row["agent"], row["game"]) == (DOPAMINE, GAME)]
    return {int(row["frames_M"]): (float(row["mean_train_return"]), float(row["std_over_5_seeds"])) for row in rows}


def _job(weight: float) -> Job:
    base = seeded(for_game(preset("atari-small"), GAME), SEED, weight)
    config = replace(base, run=replace(base.run, threads=1))
    return Job(Path(GAME, f"weight-{weight:g}", f"seed-{SEED}"), config)


def _frames(task: Task) -> int:
    run = task.runs[0]
    return run.transitions * int(run.config["atari"]["frame_skip"])


def _iterations(task: Task, variant: Variant) -> list[FloatArray]:
    """Return the returns of the episodes that finished in each million frames, as Dopamine counts them."""
    run = variant.runs[0]
    iterations = (run.episode_steps * int(run.config["atari"]["frame_skip"]) - 1) // MILLION
    return [run.episode_returns[iterations == i] for i in range(-(-_frames(task) // MILLION))]


def _table(task: Task) -> Table:
    rows = [
        [variant.label, *(brief(mean(each)) if each.size else "" for each in _iterations(task, variant))]
        for variant in task.variants
    ]
    count = len(rows[0]) - 1
    published = dopamine()
    rows.append([f"Dopamine's {DOPAMINE}", *(_published(published, i) for i in range(count))])
    caption = (
        "Mean return while training, million by million of frames: ours with the 95% bootstrap interval over episodes, "
        "Dopamine's with the standard deviation over 5 seeds, where it is known."
    )
    return Table(caption, ["", *(f"{i} to {i + 1}" for i in range(count))], rows)


def _published(published: dict[int, tuple[float, float]], iteration: int) -> str:
    if iteration not in published:
        return ""
    value, deviation = published[iteration]
    return f"{number(value)} ± {number(deviation)}"


def _figure(task: Task) -> tuple[bytes, bytes]:
    lines = []
    for variant in task.variants:
        band = variant.band(task.grid)
        known = ~np.isnan(band.mean)
        frames = task.grid[known] / task.grid[-1] * _frames(task) / MILLION
        lines.append(Line(variant.label, *map(np.ndarray.tolist, (frames, *[band.mean[known]] * 3))))
    published = {i: each for i, each in dopamine().items() if i <= LAST_SHOWN}
    middles = [i + 0.5 for i in published]
    value, deviation = (np.array(column) for column in zip(*published.values(), strict=True))
    low, high = (value - deviation).tolist(), (value + deviation).tolist()
    lines.append(Line(f"Dopamine's {DOPAMINE}", middles, value.tolist(), low, high))
    return chart_files(Chart("million frames", "episode return", lines, level=("chance", RANDOM), markers=False))


EXPERIMENT = Experiment(
    name="pong",
    title="Pong, on a laptop",
    claims=(
        Claim(
            OURS,
            "The Atari agent learns Pong, with and without EVA.",
            f"Holds if both runs end above the published score of random play, {RANDOM}, beyond doubt; in part if one "
            "does.",
        ),
    ),
    arms=arms,
    judge=judge,
    remarks=(
        "Dopamine's runs differ in more than the implementation: sticky actions, a memory of a million, one update of "
        "32 for every four transitions, a larger network, an epsilon that decays to 0.01 over 250,000 transitions. "
        "Iteration i is drawn in the middle of the frames from i to i + 1 million. The figures stand here for the "
        "order of magnitude, not for a comparison.",
    ),
    by_name_only=True,
)
