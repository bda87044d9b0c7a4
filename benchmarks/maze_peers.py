"""Transitions per second in the maze: DQN and EVA of this package, and Stable-Baselines3's DQN.

All have the same maze, network, batch size, replay capacity and target period, one update per transition, one thread
and a full memory. The first run installs Stable-Baselines3 into benchmarks/.venv-sb3.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks.command_line import parser
from benchmarks.peers import Peer, compare

ROUNDS = 7
SB3 = Peer("sb3", ("stable-baselines3==2.9.2", "gymnasium", "ale-py", "opencv-python-headless"))
COMMANDS = {
    "DQN (weight 0)": [sys.executable, "-m", "benchmarks.maze_ours", "0"],
    "EVA (weight 0.4)": [sys.executable, "-m", "benchmarks.maze_ours", "0.4"],
    "Stable-Baselines3 DQN": [SB3.python, "-m", "benchmarks.maze_sb3"],
}
RATIOS = (
    ("EVA (weight 0.4)", "Stable-Baselines3 DQN"),
    ("DQN (weight 0)", "Stable-Baselines3 DQN"),
    ("EVA (weight 0.4)", "DQN (weight 0)"),
)


def main(argv: Sequence[str] | None = None) -> None:
    parser(__doc__).parse_args(argv)
    SB3.install()
    compare(COMMANDS, RATIOS, ROUNDS, threads=1)


if __name__ == "__main__":
    main()
