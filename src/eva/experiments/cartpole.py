"""CartPole-v1, with and without EVA: that the agent is not made for mazes only."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

from eva.experiments.definition import OURS, Arm, Claim, Experiment, Finding, Judgement, Table
from eva.experiments.evidence import Evidence
from eva.experiments.maze import PAPER_WEIGHT, label
from eva.experiments.words import brief, plain
from eva.presets import preset
from eva.report.measures import stratified_mean
from eva.report.plots import figure_files
from eva.report.verdict import number
from eva.runs.jobs import Job, Play

SEEDS = (6, 7, 8)  # the settings were searched for with seeds 10 to 17; 0 to 5 met settings that were given up
WEIGHTS = (0.0, PAPER_WEIGHT)
NUM_EPISODES = 100
MIDWAY = 300_000
SOLVED = 475.0
"""Gymnasium's threshold for the mean return of 100 episodes."""


def arms() -> tuple[Arm, ...]:
    """Return DQN and EVA, each playing greedily with the weight it was trained with."""
    return tuple(Arm("CartPole-v1", label(weight), tuple(_job(seed, weight) for seed in SEEDS)) for weight in WEIGHTS)


def judge(evidence: Evidence) -> Judgement:
    """Judge that every run's mean return reaches the threshold."""
    midway, returns = (
        {weight: evidence.played(label(weight), occasion, weight) for weight in WEIGHTS} for occasion in range(2)
    )  # (episodes, seeds)
    means = {weight: values.mean(axis=0) for weight, values in returns.items()}
    num_episodes, num_seeds = returns[0.0].shape
    lowest, highest = (pick([pick(each) for each in means.values()]) for pick in (min, max))
    finding = Finding(
        "holds" if lowest >= SOLVED else "holds in part" if highest >= SOLVED else "does not hold",
        f"mean returns of the runs from {number(lowest)} to {number(highest)}",
        f"{num_episodes} greedy episodes for each of {num_seeds} seeds and each weight",
    )
    rows = [
        [f"{label(weight)}, {when}", brief(stratified_mean(values)), ", ".join(map(number, values.mean(axis=0)))]
        for when, played in (("midway", midway), ("at the end", returns))
        for weight, values in played.items()
    ]
    return Judgement(
        outcome=f"Over {num_episodes} greedy episodes each run returns {number(lowest)} or more of 500.",
        findings=(finding,),
        tables=(
            Table("Mean return of greedy episodes, its 95% bootstrap interval.", ["", "return", "each seed"], rows),
        ),
        figures={"curves": figure_files(evidence.tasks)},
        numbers={
            "returns": plain(
                {
                    f"{weight:g}": {**asdict(stratified_mean(values)), "seeds": means[weight].tolist()}
                    for weight, values in returns.items()
                }
            )
        },
    )


def _job(seed: int, weight: float) -> Job:
    base = preset("cartpole")
    config = replace(
        base,
        seed=seed,
        eva=replace(base.eva, nonparametric_weight=weight),
        run=replace(base.run, device="cpu", checkpoints_kept=1),
    )
    plays = tuple(Play(steps, (weight,), NUM_EPISODES, epsilon=0.0) for steps in (MIDWAY, config.steps))
    return Job(Path("cartpole", f"weight-{weight:g}", f"seed-{seed}"), config, plays)


EXPERIMENT = Experiment(
    name="cartpole",
    title="CartPole-v1, with and without EVA",
    claims=(
        Claim(
            OURS,
            f"CartPole-v1 is solved: a mean return of at least {SOLVED:g} over {NUM_EPISODES} episodes.",
            "Holds if every run's mean reaches the threshold; in part if one does.",
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
        "500,000; three of them fall below 400 for a while in between. Seeds 0 to 5 met earlier settings, so "
        "others were taken for this page. Its runs were first ended at 300,000: DQN returned 500 with each seed "
        "and EVA less, as the table says. They were then continued to 500,000, the whole decay of the learning "
        "rate.",
    ),
)
