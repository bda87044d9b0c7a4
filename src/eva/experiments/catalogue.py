"""All experiments, by name."""

from eva.errors import UserError, nearest_name
from eva.experiments.beyond import baselines, gymnasium_tasks, maze_accuracy, memory_choices, pong, scaling
from eva.experiments.framework.definition import Experiment
from eva.experiments.paper import atari, maze, maze_tuning, minatar, trace_computations

_ALL = (
    maze_tuning.EXPERIMENT,
    maze.MAZE_SINGLE_EPISODE,
    maze.MAZE_ONE_COIN,
    maze.MAZE_TWO_COINS,
    maze_accuracy.EXPERIMENT,
    maze.OTHER_SETTINGS,
    trace_computations.EXPERIMENT,
    trace_computations.KERNEL_WIDTH,
    maze.CONSOLIDATION,
    minatar.EXPERIMENT,
    atari.FULL,
    pong.EXPERIMENT,
    gymnasium_tasks.CARTPOLE,
    baselines.SB3_MAZE,
    baselines.STRONGER_LEARNERS,
    memory_choices.EXPERIMENT,
    scaling.EXPERIMENT,
    gymnasium_tasks.GENERALITY,
)
EXPERIMENTS = {experiment.name: experiment for experiment in _ALL}


def experiment(
    name: str, games: str | None = None, frames: int | None = None, num_seeds: int | None = None
) -> Experiment:
    """Return the experiment called `name`; only Atari's takes games, frames and seeds."""
    if name not in EXPERIMENTS:
        raise UserError(f"there is no experiment '{name}': {nearest_name(name, EXPERIMENTS)}")
    if name == atari.NAME:
        return atari.cut_down(games, frames, num_seeds)
    if (games, frames, num_seeds) != (None, None, None):
        raise UserError(f"--games, --frames and --seeds are only for {atari.NAME}: leave them out.")
    return EXPERIMENTS[name]
