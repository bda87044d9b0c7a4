"""Transitions per second on Pong: EVA with a full memory of 500,000, and the DQNs of two other packages.

All use the paper's network, batches of 48, 4 environments, one update per step of the 4, and two threads. The peers
have a memory of 50,000, since Stable-Baselines3 would need 14 GB for 500,000. The first run installs the peers into
benchmarks/.venv-sb3 and benchmarks/.venv-pfrl.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks.command_line import parser
from benchmarks.maze_peers import SB3
from benchmarks.peers import Peer, compare

ROUNDS, THREADS = 5, 2
PFRL = Peer("pfrl", ("pfrl==0.4.0", "packaging", "gymnasium", "ale-py", "opencv-python-headless"))
OURS = [sys.executable, "-m", "benchmarks.atari_ours"]
EVA, COMPRESSED, BFLOAT16 = "EVA, 500k", "EVA, 500k, compressed", "EVA, 500k, bfloat16"
DQN = "DQN, 500k"
SB3_DQN, PFRL_DQN = "Stable-Baselines3 DQN", "pfrl DQN"
COMMANDS = {
    EVA: [*OURS, "0.4", "500000", "raw", "float32"],
    COMPRESSED: [*OURS, "0.4", "500000", "compressed", "float32"],
    BFLOAT16: [*OURS, "0.4", "500000", "raw", "bfloat16"],
    DQN: [*OURS, "0", "500000", "raw", "float32"],
    SB3_DQN: [SB3.python, "-m", "benchmarks.atari_sb3"],
    PFRL_DQN: [PFRL.python, "-W", "ignore", "-m", "benchmarks.atari_pfrl"],
}
RATIOS = (
    (EVA, SB3_DQN),
    (DQN, SB3_DQN),
    (EVA, PFRL_DQN),
    (DQN, PFRL_DQN),
    (EVA, DQN),
    (COMPRESSED, EVA),
    (BFLOAT16, EVA),
)


def main(argv: Sequence[str] | None = None) -> None:
    parser(__doc__).parse_args(argv)
    for peer in (SB3, PFRL):
        peer.install()
    compare(COMMANDS, RATIOS, ROUNDS, THREADS)


if __name__ == "__main__":
    main()
