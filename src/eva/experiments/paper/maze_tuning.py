"""The maze's learner, tuned in the rounds of maze_tuning.toml on seeds of its own (P16, docs/protocol.md)."""

from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files

from eva.config import ExplorationConfig, LearnerConfig
from eva.experiments.framework.arms import WEIGHT, arm, evaluations
from eva.experiments.framework.definition import Arm, Experiment, Figures
from eva.experiments.framework.evidence import Evidence
from eva.experiments.framework.measures import LARGEST_Q, single_episodes
from eva.files import parse_toml
from eva.presets import preset
from eva.report.plots import Intervals

TUNING = parse_toml((files("eva.experiments.paper") / "maze_tuning.toml").read_text())
EVALUATION_SEED, NUM_EPISODES = 1_000, 50
NUM_EVALUATIONS = 5  # during training, unless the round has another number


def arms() -> Iterator[Arm]:
    """Yield an arm for each setting of each round."""
    settings = dict(TUNING["settings"])
    for label, parts in TUNING["combinations"].items():
        settings[label] = {path: value for part in parts for path, value in settings[part].items()}
    for each in TUNING["rounds"]:
        name, steps = each["name"], each["steps"]
        config = replace(preset(each["preset"]), learner=LearnerConfig(), exploration=ExplorationConfig(), steps=steps)
        period = steps // each.get("evaluations", NUM_EVALUATIONS)
        evaluated = evaluations(period, NUM_EPISODES, 0.0, epsilon=0.0, seed=EVALUATION_SEED)
        for label in each.get("settings", TUNING["settings"]):
            changes = {WEIGHT: 0.0, **evaluated, **TUNING["base"], **settings[label]}
            yield arm(name, label, f"maze-tuning/{name}/{label}", config, changes, seeds=each["seeds"])


def figures(evidence: Evidence) -> Figures:
    """Draw the final greedy return of every setting, round by round."""
    return {
        task: Intervals(FINAL.name, {each: FINAL.estimate(evidence, task, each) for each in evidence.labels(task)})
        for task in evidence.tasks
    }


FINAL = single_episodes("final greedy return", 1, 0, unit="seeds", paired=False)
OVERALL = single_episodes("mean of the last four evaluations", 3, 2, 1, 0, unit="seeds", paired=False)
EXPERIMENT = Experiment(
    name="maze-tuning",
    title="The learner's hyper-parameters, tuned at weight 0",
    question="Which hyper-parameters give DQN alone the highest final greedy return?",
    arms=lambda: tuple(arms()),
    claims=(),
    columns=(FINAL, OVERALL, LARGEST_Q),
    figures=figures,
    notes=(
        f"Greedy return (epsilon 0): {NUM_EPISODES} episodes from fixed starts. Final: the mean of the last two "
        "evaluations. Rounds 1 and 2 evaluate after 20, 40, 60, 80 and 100% of training, the rounds called length 25 times.",
        "Settings are changes of a base: discount 0.95, Adam 5e-4, Huber's error, batch 48, target period 500, epsilon "
        "from 1 to 0.1 over 40,000 transitions. Excluded: settings whose abs(Q) exceeds 3 times the number of coins.",
    ),
)
