"""The maze's learner, tuned in rounds: DQN alone, weight 0, on seeds of its own (P16, docs/protocol.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from eva.config import ExplorationConfig, LearnerConfig
from eva.experiments.framework.common import seeded
from eva.experiments.framework.definition import Arm, Experiment, Figures
from eva.experiments.framework.evidence import Evidence
from eva.experiments.framework.measures import Measure
from eva.presets import preset
from eva.report.plots import Intervals, Panel, intervals_files
from eva.runs.sweep.jobs import Job, Play

# Settings are changes of this base, not of the presets: the presets follow the tuning.
BASE_LEARNER = LearnerConfig(
    discount=0.95,
    batch_size=48,
    optimiser="adam",
    optimiser_epsilon=1e-8,
    learning_rate=5e-4,
    error="huber",
    target_period_updates=500,
    learning_starts_transitions=1_000,
    max_gradient_norm=None,
    update_period_steps=1,
    updates_per_round=1,
)
BASE_EXPLORATION = ExplorationConfig(epsilon_start=1.0, epsilon_end=0.1, epsilon_decay_transitions=40_000)
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "base": {},
    "decay-20000": {"epsilon_decay_transitions": 20_000},
    "decay-80000": {"epsilon_decay_transitions": 80_000},
    "discount-0.9": {"discount": 0.9},
    "discount-0.98": {"discount": 0.98},
    "rate-2.5e-4": {"learning_rate": 2.5e-4},
    "rate-1e-3": {"learning_rate": 1e-3},
    "target-200": {"target_period_updates": 200},
    "target-1000": {"target_period_updates": 1_000},
    "squared": {"error": "squared"},
    "epsilon-3e-4": {"optimiser_epsilon": 3e-4},
    "clip-10": {"max_gradient_norm": 10.0},
    "batch-32": {"batch_size": 32},
    "updates-2": {"updates_per_round": 2},
    # Round 2: each field's best value in round 1, where it is at least 0.05 above the base.
    "discount-0.9-target-200-updates-2": {"discount": 0.9, "target_period_updates": 200, "updates_per_round": 2},
    "six-changes": {
        "discount": 0.9,
        "learning_rate": 1e-3,
        "target_period_updates": 200,
        "error": "squared",
        "updates_per_round": 2,
        "epsilon_decay_transitions": 80_000,
    },
}
ONE_CHANGE = tuple(SETTINGS)[:14]
BETTER_HALF = ("discount-0.9", "updates-2", "target-200", "base", "decay-80000", "rate-2.5e-4", "rate-1e-3")
"""Of round 1 with two coins. `clip-10` has the runs of `base`: no gradient was that long."""

EVALUATION_SEED = 1_000
NEW_SEEDS = tuple(range(1_010, 1_015))
NUM_EPISODES = 50
SHARES = (0.4, 0.6, 0.8, 1.0)
"""Of training, after which greedy episodes are played. The final return is the mean of the last two."""


@dataclass(frozen=True)
class Round:
    """Settings tried in one task."""

    number: int
    num_coins: int
    settings: tuple[str, ...]
    seeds: tuple[int, ...]
    steps: int

    @property
    def name(self) -> str:
        """Of its folder and task."""
        return f"round-{self.number}-{self.coins}"

    @property
    def coins(self) -> str:
        """Of the preset's name."""
        return "1-coin" if self.num_coins == 1 else f"{self.num_coins}-coins"

    def job(self, setting: str, seed: int) -> Job:
        """Return one run."""
        base = seeded(preset(f"maze-{self.coins}"), seed, 0.0)
        changes = SETTINGS[setting]
        decay = changes.get("epsilon_decay_transitions", BASE_EXPLORATION.epsilon_decay_transitions)
        config = replace(
            base,
            steps=self.steps,
            learner=replace(BASE_LEARNER, **{k: v for k, v in changes.items() if k != "epsilon_decay_transitions"}),
            exploration=replace(BASE_EXPLORATION, epsilon_decay_transitions=decay),
        )
        plays = (Play(round(self.steps * share), (0.0,), NUM_EPISODES, EVALUATION_SEED, 0.0) for share in SHARES)
        return Job(Path("maze-tuning", self.name, setting, f"seed-{seed}"), config, tuple(plays))


ROUNDS = (
    Round(1, 1, ONE_CHANGE, (1_000, 1_001), 30_000),
    Round(1, 2, ONE_CHANGE, (1_000, 1_001), 60_000),
    Round(1, 4, BETTER_HALF, (1_000, 1_001), 100_000),
    Round(2, 1, ("updates-2", "target-200", "six-changes"), NEW_SEEDS, 60_000),
    Round(2, 2, ("discount-0.9", "updates-2", "discount-0.9-target-200-updates-2"), NEW_SEEDS, 100_000),
)


def arms() -> tuple[Arm, ...]:
    """Return every setting of every round."""
    return tuple(
        Arm(each.name, setting, tuple(each.job(setting, seed) for seed in each.seeds))
        for each in ROUNDS
        for setting in each.settings
    )


def _greedy(name: str, first: int) -> Measure:
    """Return the mean greedy return over the evaluations from the given one on."""
    occasions = range(first, len(SHARES))
    return Measure(name, lambda e, task, label: np.mean([e.played(task, label, i) for i in occasions], axis=(0, 1)))


def figures(evidence: Evidence) -> Figures:
    """Draw the final greedy return of every setting, round by round."""
    return {
        task: intervals_files(
            Intervals(labels, [Panel("final greedy return", [FINAL.estimate(evidence, task, each) for each in labels])])
        )
        for task in evidence.tasks
        for labels in [evidence.labels(task)]
    }


FINAL = _greedy("final greedy return", 2)
EXPERIMENT = Experiment(
    name="maze-tuning",
    title="The learner's hyper-parameters, tuned at weight 0",
    question="Which hyper-parameters give DQN alone the highest final greedy return?",
    arms=arms,
    claims=(),
    columns=(FINAL, _greedy("mean over all evaluations", 0)),
    figures=figures,
    notes=(
        f"Greedy return (epsilon 0): {NUM_EPISODES} episodes from fixed starts after 40, 60, 80 and 100% of training.",
        "Settings are changes of a base: discount 0.95, Adam 5e-4, Huber's error, batch 48, target period 500, epsilon "
        "from 1 to 0.1 over 40,000 transitions.",
    ),
)
