"""All experiments, by name."""

from __future__ import annotations

from eva.errors import UserError, nearest_name
from eva.experiments import maze
from eva.experiments.definition import Claim, Experiment

_ALL = (
    Experiment(
        name="maze-tuning",
        title="The learner's numbers, searched for at weight 0",
        claims=(),
        jobs=maze.tuning,
    ),
    Experiment(
        name="maze-single-episode",
        title="Single episodes with and without EVA, four coins",
        claims=(
            Claim(
                "Fig. 2 left",
                "By leveraging the trajectories in the replay buffer, EVA immediately boosts the performance of the "
                "baseline, with the same network.",
            ),
            Claim("Fig. 2 left", "The benefits saturate around a weight of 0.4."),
        ),
        jobs=maze.single_episodes,
    ),
    Experiment(
        name="maze-one-coin",
        title="EVA throughout training, one coin",
        claims=(
            Claim(
                "Fig. 2 centre",
                "EVA requires slightly more than half of the data to obtain the baseline's final performance.",
            ),
            Claim("Fig. 2 centre", "With one coin, a higher weight is better."),
        ),
        jobs=maze.one_coin,
    ),
    Experiment(
        name="maze-two-coins",
        title="EVA throughout training, two coins",
        claims=(
            Claim("Fig. 2 right", "EVA provides a significant boost in data efficiency."),
            Claim("Fig. 2 right", "With two coins, performance saturates around a weight of 0.4."),
        ),
        jobs=maze.two_coins,
    ),
    Experiment(
        name="trace-computations",
        title="Trajectory-centric planning, n-step and kernel-based RL, two coins",
        claims=(
            Claim("Fig. 4", "With the n-step trace computation, EVA is significantly worse than the baseline."),
            Claim("Fig. 4", "Trajectory-centric planning is as good as, if not better than, kernel-based RL."),
            Claim("Section 5.2", "Kernel-based RL is much more costly."),
        ),
        jobs=maze.traces,
    ),
    Experiment(
        name="consolidation",
        title="The weight annealed to 0, one coin",
        claims=(Claim("Section 5.2", "Annealing the weight to 0 leads to no degradation in performance."),),
        jobs=maze.consolidation,
    ),
)
EXPERIMENTS = {experiment.name: experiment for experiment in _ALL}


def experiment(name: str) -> Experiment:
    """Return the experiment called `name`."""
    if name not in EXPERIMENTS:
        raise UserError(f"there is no experiment '{name}': {nearest_name(name, EXPERIMENTS)}")
    return EXPERIMENTS[name]
