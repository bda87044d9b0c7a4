"""Measure the mean return of random play in MinAtar's games and write src/eva/data/minatar_random.csv."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import eva
from benchmarks.command_line import parser
from eva.config import MinAtarConfig
from eva.envs.minatar import MinAtarGame
from eva.games import MINATAR_GAMES
from eva.runs.record.provenance import provenance

NUM_EPISODES = 1_000
SEED = 0
TARGET = Path(eva.__file__).with_name("data") / "minatar_random.csv"


def main(argv: Sequence[str] | None = None) -> None:
    parser(__doc__).parse_args(argv)
    origin = provenance(["python", "-m", "benchmarks.minatar_random"], threads=1, device="cpu")
    assert not origin["dirty"], "commit the package first: the table names the commit that it was measured with"
    rows = [(game, *mean_return(game, NUM_EPISODES), NUM_EPISODES, SEED) for game in MINATAR_GAMES]
    with TARGET.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("game", "random", "standard_error", "num_episodes", "seed", "commit", "date"))
        writer.writerows((*row, origin["commit"][:12], origin["started"][:10]) for row in rows)
    print(TARGET.read_text())


def mean_return(name: str, num_episodes: int) -> tuple[float, float]:
    """Return mean and standard error of the returns of whole episodes, with all six actions."""
    game_seed, action_seed = np.random.SeedSequence(SEED).spawn(2)
    game = MinAtarGame(name, int(game_seed.generate_state(1)[0]), max_episode_steps=MinAtarConfig.max_episode_steps)
    generator, returns = np.random.default_rng(action_seed), []
    for _ in range(num_episodes):
        game.begin()
        total, is_over = 0.0, False
        while not is_over:
            reward, terminated, truncated = game.step(int(generator.integers(len(game.actions))))
            total, is_over = total + reward, terminated or truncated
        returns.append(total)
    return round(float(np.mean(returns)), 4), round(float(np.std(returns, ddof=1) / np.sqrt(num_episodes)), 4)


if __name__ == "__main__":
    main()
