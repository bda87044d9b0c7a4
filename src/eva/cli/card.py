"""eva card."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from eva.cli.parsing import parse
from eva.config import EVALUATION_EPSILON


@dataclass(frozen=True)
class Card:
    """Evaluate a finished run and write a folder for the Hugging Face Hub: model card, agent, video, inspector page."""

    run: tyro.conf.Positional[Path]
    """A finished run directory."""
    out: Path
    """Folder to write; files of an earlier card are replaced."""
    episodes: int = 100
    """Episodes to evaluate, with the run's own weight and with weight 0."""
    seed: int = 0
    """Seed of start states and exploration."""
    epsilon: float = EVALUATION_EPSILON
    """Probability of a random action."""
    video: bool = True
    """Record replay.mp4; needs the extra video, and an environment that can be drawn."""


def main(arguments: list[str]) -> None:
    """Write the folder and print the path of the card."""
    asked = parse(Card, arguments)

    from eva.sharing.card import card  # imports torch: not for --help

    print(
        card(
            asked.run,
            asked.out,
            num_episodes=asked.episodes,
            seed=asked.seed,
            epsilon=asked.epsilon,
            video=asked.video,
        )
    )
