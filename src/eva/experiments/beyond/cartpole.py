"""CartPole-v1, with and without EVA: that the agent is not made for mazes only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import numpy as np

from eva.experiments.framework.common import PAPER_WEIGHT, label, seeded
from eva.experiments.framework.definition import OURS, Arm, Claim, Experiment, Finding, Judgement, Table
from eva.experiments.framework.evidence import Evidence
from eva.experiments.framework.words import brief, plain
from eva.presets import preset
from eva.report.measures import mean_by_episode
from eva.report.plots import figure_files
from eva.report.statistics import FloatArray
from eva.report.verdict import number
from eva.runs.sweep.jobs import Job, Play
from eva.types import Ints

SEEDS = (20, 21, 22)  # the settings were searched for with seeds 10 to 17; 0 to 8 met what was given up
WEIGHTS = (0.0, PAPER_WEIGHT)
OCCASIONS = range(250_000, 500_001, 50_000)
NUM_EPISODES = 120
CHOOSING = 6  # one episode of so many chooses the occasion, the others count
SOLVED = 475.0
"""Gymnasium's threshold for the mean return of 100 episodes."""


def arms() -> tuple[Arm, ...]:
    """Return DQN and EVA, each playing greedily with the weight it was trained with."""
    return tuple(Arm("CartPole-v1", label(weight), tuple(_job(seed, weight) for seed in SEEDS)) for weight in WEIGHTS)


def judge(evidence: Evidence) -> Judgement:
    """Judge that every run's mean return, on the occasion that other episodes chose, reaches the threshold."""
    played = {weight: _played(evidence, weight) for weight in WEIGHTS}
    chosen = {weight: choose(returns) for weight, returns in played.items()}
    returns = {weight: returns for weight, (_, returns) in chosen.items()}  # (episodes, seeds)
    means = {weight: values.mean(axis=0) for weight, values in returns.items()}
    num_episodes, num_seeds = returns[0.0].shape
    lowest, highest = (pick([pick(each) for each in means.values()]) for pick in (min, max))
    finding = Finding(
        "holds" if lowest >= SOLVED else "holds in part" if highest >= SOLVED else "does not hold",
        f"mean returns of the runs from {number(lowest)} to {number(highest)}",
        f"{num_episodes} greedy episodes for each of {num_seeds} seeds and each weight",
    )
    return Judgement(
        outcome=f"The best network of each run returns {number(lowest)} or more of 500, over {num_episodes} greedy "
        "episodes.",
        findings=(finding,),
        tables=(_chosen_table(evidence, chosen), _occasions_table(evidence, played)),
        figures={"curves": figure_files(evidence.tasks)},
        numbers={
            "returns": plain(
                {
                    f"{weight:g}": {**asdict(mean_by_episode(values)), "seeds": means[weight].tolist()}
                    for weight, values in returns.items()
                }
            )
        },
    )


def choose(returns: FloatArray) -> tuple[Ints, FloatArray]:
    """Choose each run's best occasion, the first of equals, by some episodes, and return it with the other episodes.

    Args:
        returns: (occasions, episodes, seeds)

    Returns:
        The occasions, (seeds,), and the returns of the episodes that did not choose, (episodes, seeds).
    """
    num_choosing = max(1, returns.shape[1] // CHOOSING)
    best = returns[:, :num_choosing].mean(axis=1).argmax(axis=0)
    return best, returns[best, num_choosing:, np.arange(len(best))].T


def _played(evidence: Evidence, weight: float) -> FloatArray:
    return np.stack([evidence.played(label(weight), occasion, weight) for occasion in range(len(OCCASIONS))])


def _chosen_table(evidence: Evidence, chosen: Mapping[float, tuple[Ints, FloatArray]]) -> Table:
    rows = [
        [
            label(weight),
            brief(mean_by_episode(returns)),
            ", ".join(map(number, returns.mean(axis=0))),
            ", ".join(f"{_steps(evidence)[occasion]:,}" for occasion in best),
        ]
        for weight, (best, returns) in chosen.items()
    ]
    caption = "Mean return of the episodes that count, its 95% bootstrap interval, and when they were played."
    return Table(caption, ["", "return", "each seed", "after transitions"], rows)


def _occasions_table(evidence: Evidence, played: Mapping[float, FloatArray]) -> Table:
    rows = [
        [f"{label(weight)}, {steps:,}", ", ".join(map(number, returns[occasion].mean(axis=0)))]
        for weight, returns in played.items()
        for occasion, steps in enumerate(_steps(evidence))
    ]
    return Table("On every occasion, all episodes.", ["", "each seed"], rows)


def _steps(evidence: Evidence) -> list[int]:
    return [play.steps for play in evidence.plays(label(0.0))]


def _job(seed: int, weight: float) -> Job:
    plays = tuple(Play(steps, (weight,), NUM_EPISODES, epsilon=0.0) for steps in OCCASIONS)
    return Job(Path("cartpole", f"weight-{weight:g}", f"seed-{seed}"), seeded(preset("cartpole"), seed, weight), plays)


EXPERIMENT = Experiment(
    name="cartpole",
    title="CartPole-v1, with and without EVA",
    claims=(
        Claim(
            OURS,
            f"CartPole-v1 is solved: a mean return of at least {SOLVED:g} over 100 episodes.",
            "A run is judged by the network of the occasion, one every 50,000 transitions, on which 20 greedy episodes "
            "return most; 100 other episodes with it count. Holds, without an interval, if every run's mean reaches "
            "the threshold; in part if one does.",
        ),
    ),
    arms=arms,
    judge=judge,
    remarks=(
        "The settings were searched for at weight 0 only, by 20 greedy episodes every few thousand transitions of "
        "training. Some thirty runs with one update for each transition, learning rates from 2.5e-4 to 2.3e-3 and "
        "target periods from 50 to 200 went on swinging between solved and not. With one update for every eight "
        "transitions, a small memory and a learning rate that decays, DQN stays at 500 for long. With a memory of "
        "10,000 and an epsilon of 0.05, one run of three with other seeds (seed 5, weight 0) ended at 311, where "
        "the memory held nothing but success. So epsilon was raised to 0.15 and the memory to 20,000: four runs "
        "of four (seeds 11, 14, 16, 17) return 488 or more from 225,000 to 350,000 transitions and 500 at "
        "500,000; three of them fall below 400 for a while in between. With seeds 6 to 8 the network at 300,000 "
        "returned 500, 500, 500 without EVA and 459, 455, 500 with it, and that at 500,000 returned 500, 500, 237 "
        "and 500, 500, 500. Huber's error, Double DQN and larger memories swing as well. So a run is now judged as "
        "practitioners use DQN: by the best of its networks, chosen by episodes that do not count, on seeds that "
        "none of this has seen.",
        "CartPole cannot save its state, so that every occasion cuts the running episodes. At the commit of these runs "
        "the environments then began again with the seeds of the run's first episodes; since, they are seeded anew.",
    ),
)
