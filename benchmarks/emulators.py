"""Agent steps per CPU second of four Atari environments, compared with Gymnasium's wrappers of the same emulator."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from ale_py.env import AtariEnv
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

from benchmarks.command_line import parser
from benchmarks.medians import microseconds
from eva.envs.atari import AtariGame, VectorAtari
from eva.games import GAME_SETS

NUM_ENVIRONMENTS, ROUNDS, REPEATS = 4, 15, 50


def main(argv: Sequence[str] | None = None) -> None:
    parser(__doc__).parse_args(argv)
    print(f"{'agent steps per CPU second':34} ours  Gymnasium  ratio")
    for game in GAME_SETS["tuning-5"]:
        times = microseconds(
            {"ours": ours(game), "gymnasium": gymnasium_wrappers(game)}, ROUNDS, REPEATS, time.process_time
        )
        speeds = {name: NUM_ENVIRONMENTS * 1e6 / each for name, each in times.items()}
        print(
            f"{game:30} {speeds['ours']:7,.0f} {speeds['gymnasium']:10,.0f} {speeds['ours'] / speeds['gymnasium']:6.2f}"
        )


def ours(game: str) -> Callable[[], object]:
    games = VectorAtari([AtariGame(game, seed) for seed in range(NUM_ENVIRONMENTS)])
    games.reset()
    generator = np.random.default_rng(0)
    return lambda: games.step(generator.integers(games.spec.num_actions, size=NUM_ENVIRONMENTS))


def gymnasium_wrappers(game: str) -> Callable[[], object]:
    games: list[Any] = [
        FrameStackObservation(AtariPreprocessing(AtariEnv(game, frameskip=1, repeat_action_probability=0.0)), 4)
        for _ in range(NUM_ENVIRONMENTS)
    ]
    for seed, each in enumerate(games):
        each.reset(seed=seed)
    generator = np.random.default_rng(0)

    def step() -> object:
        observations = []
        for each in games:
            observation, _, terminated, truncated, _ = each.step(generator.integers(each.action_space.n))
            observations.append(each.reset()[0] if terminated or truncated else observation)
        return np.stack(observations)

    return step


if __name__ == "__main__":
    main()
