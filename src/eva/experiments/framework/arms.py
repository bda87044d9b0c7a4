"""How arms are named and made from changes of a configuration."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eva.config import EVALUATION_EPSILON, Config
from eva.experiments.framework.definition import Arm
from eva.runs.sweep.jobs import Job
from eva.schema import changed

DQN, DOUBLE_DQN, PRIORITISED = "DQN", "Double DQN", "Double DQN, prioritised"
WEIGHT, PAPER_WEIGHT = "eva.nonparametric_weight", 0.4
SEEDS = (0, 1, 2, 3, 4)

Changes = Mapping[str, Any]
"""Values of fields by path, such as "learner.double"."""
NO_CHANGES: Changes = {}
LEARNERS: Mapping[str, Changes] = {
    DQN: NO_CHANGES,
    DOUBLE_DQN: {"learner.double": True},
    PRIORITISED: {"learner.double": True, "replay.prioritised": True},
}


def label(weight: float) -> str:
    """Return the name of the arm with this weight."""
    return DQN if weight == 0 else f"EVA, weight {weight:g}"


def evaluations(
    period: int,
    num_episodes: int,
    *weights: float,
    epsilons: Sequence[float] = (EVALUATION_EPSILON,),
    seed: int = 0,
) -> Changes:
    """Return the changes that make a run play single episodes every `period` transitions."""
    fields = {"num_episodes": num_episodes, "weights": weights, "epsilons": tuple(epsilons), "seed": seed}
    return {f"evaluation.{name}": value for name, value in {"period_transitions": period, **fields}.items()}


def arm(
    task: str,
    label: str,
    folder: str,
    config: Config,
    changes: Changes,
    *,
    seeds: Sequence[int] = SEEDS,
    evaluated_weight: float | None = None,
    trainer: str = Job.trainer,
) -> Arm:
    """Return an arm with a run in `folder` for each seed.

    Runs use the CPU, so that other machines can repeat them, and are never stopped early.
    """
    fields = {"run.device": "cpu", "run.checkpoints_kept": 1, "run.stop_when_diverged": False, **changes}
    configs = {seed: changed(config, {**fields, "seed": seed}) for seed in seeds}
    jobs = (Job(Path(folder, f"seed-{seed}"), each, trainer=trainer) for seed, each in configs.items())
    return Arm(task, label, tuple(jobs), evaluated_weight)
