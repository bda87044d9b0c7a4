"""Transitions per second in the maze: DQN and EVA of this package, and Stable-Baselines3's DQN.

All have the same maze, network, batch size, replay capacity, updates per transition and target period, one thread and
a full memory. Two settings: the preset maze-1-coin, with two updates per transition, and the settings before it was
tuned, with one. A third comparison is EVA with DQN on MinAtar. The first run installs Stable-Baselines3 into
benchmarks/.venv-sb3.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks.command_line import parser
from benchmarks.maze_settings import MINATAR, TUNED, UNTUNED
from benchmarks.peers import Peer, compare

ROUNDS = 7
SB3 = Peer("sb3", ("stable-baselines3==2.9.2", "gymnasium", "ale-py", "opencv-python-headless"))
DQN, EVA, SB3_DQN = "DQN (weight 0)", "EVA (weight 0.4)", "Stable-Baselines3 DQN"
OURS, THEIRS = [sys.executable, "-m", "benchmarks.maze_ours"], [SB3.python, "-m", "benchmarks.maze_sb3"]
RATIOS = ((EVA, SB3_DQN), (DQN, SB3_DQN), (EVA, DQN))


def main(argv: Sequence[str] | None = None) -> None:
    parser(__doc__).parse_args(argv)
    SB3.install()
    for setting in (TUNED, UNTUNED, MINATAR):
        commands = {DQN: [*OURS, "0", setting], EVA: [*OURS, "0.4", setting], SB3_DQN: [*THEIRS, setting]}
        if setting == MINATAR:
            del commands[SB3_DQN]
        print(f"{setting}:")
        ratios = [(ours, theirs) for ours, theirs in RATIOS if theirs in commands]
        compare(commands, ratios, ROUNDS, threads=1)


if __name__ == "__main__":
    main()
