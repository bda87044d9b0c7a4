"""The maze's learner, tuned in the rounds of maze_tuning.toml on seeds of its own (P16, docs/protocol.md)."""

from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files

import numpy as np
from scipy import stats

from eva.config import ExplorationConfig, LearnerConfig
from eva.experiments.framework.arms import WEIGHT, Changes, arm, evaluations
from eva.experiments.framework.definition import Arm, Experiment, Figures
from eva.experiments.framework.evidence import Evidence
from eva.experiments.framework.measures import GREEDY, LARGEST_Q, Measure
from eva.files import parse_toml
from eva.presets import preset
from eva.report.curves import FINAL_SHARE
from eva.report.plots import Intervals
from eva.report.statistics import FloatArray

TUNING = parse_toml((files("eva.experiments.paper") / "maze_tuning.toml").read_text())
EVALUATION_SEED, NUM_EPISODES = 1_000, 50
NUM_EVALUATIONS = 5  # during training, unless the round has another number


def settings(label: str) -> Changes:
    """Return the learner's fields in a setting, by path."""
    parts = TUNING["combinations"].get(label, [label])
    changes = {path: value for part in parts for path, value in TUNING["settings"][part].items()}
    return {**TUNING["base"], **changes}


def arms() -> Iterator[Arm]:
    """Yield an arm for each setting of each round."""
    for each in TUNING["rounds"]:
        name, steps = each["name"], each["steps"]
        config = replace(preset(each["preset"]), learner=LearnerConfig(), exploration=ExplorationConfig(), steps=steps)
        period = steps // each.get("evaluations", NUM_EVALUATIONS)
        evaluated = evaluations(period, NUM_EPISODES, 0.0, epsilons=(GREEDY,), seed=EVALUATION_SEED)
        unused = TUNING["unused"][each["preset"]]
        for label in each.get("settings", TUNING["settings"]):
            changes = {WEIGHT: 0.0, **evaluated, **unused, **settings(label)}
            yield arm(name, label, f"maze-tuning/{name}/{label}", config, changes, seeds=each["seeds"])


def figures(evidence: Evidence) -> Figures:
    """Draw the final greedy return of every setting, round by round."""
    return {
        task: Intervals(FINAL.name, {each: FINAL.estimate(evidence, task, each) for each in evidence.labels(task)})
        for task in evidence.tasks
    }


def _needed(evidence: Evidence, task: str, label: str) -> FloatArray:
    """Return the transitions from which on the mean greedy return stays within the margin of that at the end.

    Both are averaged over the 20% of training before.
    """
    curve, config = evidence.evaluations(task, label).mean(axis=(1, 2)), evidence.arms[task, label].jobs[0].config
    width = max(1, round(FINAL_SHARE * len(curve)))
    trailing = np.convolve(curve, np.full(width, 1 / width), mode="valid")
    outside = np.flatnonzero(np.abs(trailing - trailing[-1]) > evidence.tasks[task].margin)
    number = width + (outside[-1] + 1 if len(outside) else 0)
    return np.array([config.steps - (len(curve) - number) * (config.evaluation.period_transitions or 0)])


def _seeds_needed(evidence: Evidence, task: str, label: str) -> FloatArray:
    """Return the number of seeds that detects a difference of one margin in the greedy return over training.

    With a power of 80%, by the normal approximation of Welch's test at the level 5%.
    """
    deviation = evidence.evaluations(task, label).mean(axis=(0, 1)).std(ddof=1)
    units = stats.norm.ppf(0.975) + stats.norm.ppf(0.8)
    return np.array([np.ceil(2 * (units * deviation / evidence.tasks[task].margin) ** 2)])


FINAL = Measure("final greedy return", lambda e, *arm: e.evaluations(*arm)[-2:].mean(axis=(0, 1)))
OVERALL = Measure("mean of the last four evaluations", lambda e, *arm: e.evaluations(*arm)[-4:].mean(axis=(0, 1)))
NEEDED = Measure("transitions needed", _needed, higher_is_better=False)
SEEDS_NEEDED = Measure("seeds needed", _seeds_needed, higher_is_better=False)
EXPERIMENT = Experiment(
    name="maze-tuning",
    title="The learner's hyper-parameters, tuned at weight 0",
    question="Which hyper-parameters give DQN alone the highest final greedy return?",
    arms=lambda: tuple(arms()),
    claims=(),
    columns=(FINAL, OVERALL, NEEDED, SEEDS_NEEDED, LARGEST_Q),
    figures=figures,
    task_by_task=True,
    notes=(
        f"Greedy return (epsilon 0): {NUM_EPISODES} episodes from fixed starts. Final: the mean of the last two "
        "evaluations. Rounds 1 and 2 have one after every 20% of training, rounds called length one after every 4%.",
        "Transitions needed: until the mean greedy return stays within 5% of (optimum - random play) of that at the "
        "end, both averaged over the 20% of training before. Seeds needed: to detect that difference in the greedy "
        "return over training (power 80%).",
        "Settings are changes of a base: discount 0.95, Adam 5e-4, Huber's error, batch 48, target period 500, epsilon "
        "from 1 to 0.1 over 40,000 transitions. Excluded: settings whose abs(Q) exceeds 3 times the number of coins.",
    ),
)
