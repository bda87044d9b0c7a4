"""Transitions per second on the maze: DQN and EVA of this package, and Stable-Baselines3's DQN.

Same maze, network, batch, replay size and target period; one update for each transition; one thread; a memory that is
full.
"""

from __future__ import annotations

import sys

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

if __name__ == "__main__":
    SB3.install()
    compare(COMMANDS, RATIOS, ROUNDS, threads=1)
