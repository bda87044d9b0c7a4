"""The maze's learner, tuned in rounds: DQN alone, weight 0, on seeds of its own (P16, docs/protocol.md)."""

from collections.abc import Mapping
from dataclasses import dataclass

from eva.experiments.framework.arms import WEIGHT, Changes, arm, evaluations
from eva.experiments.framework.definition import Arm, Experiment, Figures
from eva.experiments.framework.evidence import Evidence
from eva.experiments.framework.measures import single_episodes
from eva.presets import preset
from eva.report.plots import Intervals

# Settings are changes of this base, not of the presets: the presets follow the tuning.
BASE: Changes = {
    WEIGHT: 0.0,
    "learner.discount": 0.95,
    "learner.batch_size": 48,
    "learner.optimiser": "adam",
    "learner.optimiser_epsilon": 1e-8,
    "learner.learning_rate": 5e-4,
    "learner.error": "huber",
    "learner.target_period_updates": 500,
    "learner.learning_starts_transitions": 1_000,
    "learner.max_gradient_norm": None,
    "learner.update_period_steps": 1,
    "learner.updates_per_round": 1,
    "exploration.epsilon_start": 1.0,
    "exploration.epsilon_end": 0.1,
    "exploration.epsilon_decay_transitions": 40_000,
}
ONE_CHANGE: Mapping[str, Changes] = {
    "base": {},
    "decay-20000": {"exploration.epsilon_decay_transitions": 20_000},
    "decay-80000": {"exploration.epsilon_decay_transitions": 80_000},
    "discount-0.9": {"learner.discount": 0.9},
    "discount-0.98": {"learner.discount": 0.98},
    "rate-2.5e-4": {"learner.learning_rate": 2.5e-4},
    "rate-1e-3": {"learner.learning_rate": 1e-3},
    "target-200": {"learner.target_period_updates": 200},
    "target-1000": {"learner.target_period_updates": 1_000},
    "squared": {"learner.error": "squared"},
    "epsilon-3e-4": {"learner.optimiser_epsilon": 3e-4},
    "clip-10": {"learner.max_gradient_norm": 10.0},
    "batch-32": {"learner.batch_size": 32},
    "updates-2": {"learner.updates_per_round": 2},
}


def _together(*settings: str) -> Changes:
    return {path: value for each in settings for path, value in ONE_CHANGE[each].items()}


# Combined for round 2: each field's best value in round 1, where it is at least 0.05 above the base.
SETTINGS: Mapping[str, Changes] = {
    **ONE_CHANGE,
    "discount-0.9-target-200-updates-2": _together("discount-0.9", "target-200", "updates-2"),
    "six-changes": _together("discount-0.9", "rate-1e-3", "target-200", "squared", "updates-2", "decay-80000"),
}
EVALUATION_SEED = 1_000
NUM_EPISODES = 50
NUM_EVALUATIONS = 5  # during training; the final return is the mean of the last two


@dataclass(frozen=True)
class Round:
    """Settings tried in one task."""

    number: int
    coins: str
    settings: tuple[str, ...]
    seeds: tuple[int, ...]
    steps: int

    def arms(self) -> list[Arm]:
        """Return an arm for each setting."""
        name, config = f"round-{self.number}-{self.coins}", preset(f"maze-{self.coins}")
        evaluated = evaluations(self.steps // NUM_EVALUATIONS, NUM_EPISODES, 0.0, epsilon=0.0, seed=EVALUATION_SEED)
        common = {**BASE, "steps": self.steps, **evaluated}
        return [
            arm(name, each, f"maze-tuning/{name}/{each}", config, {**common, **SETTINGS[each]}, seeds=self.seeds)
            for each in self.settings
        ]


# Of round 1 with two coins. `clip-10` has the runs of `base`: no gradient was that long.
BETTER_HALF = ("discount-0.9", "updates-2", "target-200", "base", "decay-80000", "rate-2.5e-4", "rate-1e-3")
NEW_SEEDS = tuple(range(1_010, 1_015))
ROUNDS = (
    Round(1, "1-coin", tuple(ONE_CHANGE), (1_000, 1_001), 30_000),
    Round(1, "2-coins", tuple(ONE_CHANGE), (1_000, 1_001), 60_000),
    Round(1, "4-coins", BETTER_HALF, (1_000, 1_001), 100_000),
    Round(2, "1-coin", ("updates-2", "target-200", "six-changes"), NEW_SEEDS, 60_000),
    Round(2, "2-coins", ("discount-0.9", "updates-2", "discount-0.9-target-200-updates-2"), NEW_SEEDS, 100_000),
)


def figures(evidence: Evidence) -> Figures:
    """Draw the final greedy return of every setting, round by round."""
    return {
        task: Intervals(FINAL.name, {each: FINAL.estimate(evidence, task, each) for each in evidence.labels(task)})
        for task in evidence.tasks
    }


FINAL = single_episodes("final greedy return", 1, 0, unit="seeds", paired=False)
OVERALL = single_episodes("mean over all evaluations", 3, 2, 1, 0, unit="seeds", paired=False)
EXPERIMENT = Experiment(
    name="maze-tuning",
    title="The learner's hyper-parameters, tuned at weight 0",
    question="Which hyper-parameters give DQN alone the highest final greedy return?",
    arms=lambda: tuple(arm for each in ROUNDS for arm in each.arms()),
    claims=(),
    columns=(FINAL, OVERALL),
    figures=figures,
    notes=(
        f"Greedy return (epsilon 0): {NUM_EPISODES} episodes from fixed starts after 40, 60, 80 and 100% of training.",
        "Settings are changes of a base: discount 0.95, Adam 5e-4, Huber's error, batch 48, target period 500, epsilon "
        "from 1 to 0.1 over 40,000 transitions.",
    ),
)
