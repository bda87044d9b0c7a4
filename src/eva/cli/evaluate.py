"""eva evaluate."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from eva.cli.parsing import parse
from eva.config import EVALUATION_EPISODES, EVALUATION_EPSILON, EVALUATION_WEIGHTS
from eva.runs.record.formatting import aligned
from eva.schema import Count, CountOrZero, Share, Shares

if TYPE_CHECKING:
    from eva.runs.record.episodes import Evaluation

CI = "[{0[0]:.3f}, {0[1]:.3f}]"
COLUMNS = (  # of the table: heading, name in the JSON output, format
    ("weight", "weight", "{:g}"),
    ("mean return", "mean_return", "{:.3f}"),
    ("95% CI", "interval", CI),
    ("gain over 0", "gain", "{:+.3f}"),
    ("95% CI", "gain_interval", CI),
    ("decisions changed", "changed_share", "{:.1%}"),
)


@dataclass(frozen=True)
class Evaluate:
    """Play single episodes with a trained agent: the same network and memory, with and without EVA."""

    run: tyro.conf.Positional[Path]
    """A run directory; of an unfinished run, its newest checkpoint is evaluated."""
    weights: Shares = EVALUATION_WEIGHTS
    """Weights of Q_NP; 0 is the network alone."""
    episodes: Count = EVALUATION_EPISODES
    """Episodes for each weight; episode n starts in the same state for every weight."""
    seed: CountOrZero = 0
    """Seed of start states and exploration."""
    epsilon: Share = EVALUATION_EPSILON
    """Probability of a random action."""
    video: Path | None = None
    """Also record the first episode with the last of the weights: a file that ends in .mp4 or .gif."""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print JSON, with the return of every episode."""


def main(arguments: list[str]) -> None:
    """Evaluate a run and print a table or JSON."""
    asked = parse(Evaluate, arguments)

    from eva.runs.evaluate import evaluate  # imports torch: not for --help

    played = evaluate(
        asked.run, asked.weights, asked.episodes, seed=asked.seed, epsilon=asked.epsilon, video=asked.video
    )
    rows = summary(played)
    if asked.json:
        returns = [{"step": x.step, "returns": x.episode_returns.tolist()} for x in played]
        results = [{**row, **more} for row, more in zip(rows, returns, strict=True)]
        options = {"run": str(asked.run), "seed": asked.seed, "epsilon": asked.epsilon}
        print(json.dumps({**options, "results": results}, indent=2))
    else:
        print(table(rows))
        if asked.video is not None:
            print(f"{asked.video}: the first episode with weight {asked.weights[-1]:g}")


def summary(played: "Sequence[Evaluation]") -> list[dict[str, Any]]:
    """Return mean, 95% CI and share of changed decisions for each weight.

    If weight 0 is among them, also the mean difference from it with its CI. Episode i starts in the same state for
    every weight, so differences are paired. A single episode has no CI.
    """
    from eva.report.statistics import difference, mean  # imports SciPy: not for --help

    baseline = next((each.episode_returns for each in played if each.nonparametric_weight == 0), None)
    rows = []
    for each in played:
        returns = each.episode_returns
        level, gain = mean(returns), None if baseline is None else difference(returns, baseline, paired=True)
        row = {"weight": each.nonparametric_weight, "episodes": len(returns), "mean_return": level.value}
        gained = {"gain": gain and gain.value, "gain_interval": gain and gain.interval}
        rows.append({**row, "interval": level.interval, **gained, "changed_share": each.changed_share})
    return rows


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the summary as aligned text."""
    cells = [["" if row[name] is None else form.format(row[name]) for _, name, form in COLUMNS] for row in rows]
    return aligned([heading for heading, _, _ in COLUMNS], cells)
