"""eva evaluate."""

import json
from dataclasses import dataclass
from pathlib import Path

import tyro

from eva.cli.parsing import parse
from eva.config import EVALUATION_EPSILON


@dataclass(frozen=True)
class Evaluate:
    """Play single episodes with a finished run: the same network and memory, with and without EVA."""

    run: tyro.conf.Positional[Path]
    """A finished run directory."""
    weights: tuple[float, ...] = (0.0, 0.2, 0.4)
    """Weights of Q_NP; 0 is the network alone."""
    episodes: int = 100
    """Episodes for each weight; episode n starts in the same state for every weight."""
    seed: int = 0
    """Seed of start states and exploration."""
    epsilon: float = EVALUATION_EPSILON
    """Probability of a random action."""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print JSON, with the return of every episode."""


def main(arguments: list[str]) -> None:
    """Evaluate a run and print a table or JSON."""
    asked = parse(Evaluate, arguments)

    from eva.report.evaluation import evaluation_table, summarise_evaluation
    from eva.runs.evaluate import evaluate  # imports torch: not for --help

    played = evaluate(asked.run, asked.weights, asked.episodes, seed=asked.seed, epsilon=asked.epsilon)
    rows = summarise_evaluation([(x.nonparametric_weight, x.episode_returns, x.changed_share) for x in played])
    if asked.json:
        results = [{**row, "returns": x.episode_returns.tolist()} for row, x in zip(rows, played, strict=True)]
        options = {"run": str(asked.run), "seed": asked.seed, "epsilon": asked.epsilon}
        print(json.dumps({**options, "results": results}, indent=2))
    else:
        print(evaluation_table(rows))
