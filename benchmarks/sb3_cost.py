"""Transitions per second of EVADQN and of Stable-Baselines3's DQN on Pong with a memory of 50,000.

The runs alternate, each in its own process. All processes keep freed memory (glibc's thresholds): otherwise glibc
decides by earlier allocations, which changes the speed by a tenth for reasons unrelated to EVA.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.atari_memory import NOISE
from benchmarks.atari_sb3 import NUM_FRAMES, pong
from benchmarks.command_line import parser
from benchmarks.peers import compare
from benchmarks.sb3 import measure
from eva.config import EVAConfig
from eva.integrations.sb3 import EVADQN

ROUNDS, THREADS = 5, 2
COMMANDS = {
    "SB3's DQN": [sys.executable, "-m", "benchmarks.atari_sb3"],
    "EVADQN, weight 0.4": [sys.executable, "-m", "benchmarks.sb3_cost", "0.4"],
    "EVADQN, weight 0": [sys.executable, "-m", "benchmarks.sb3_cost", "0"],
}
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": str(2**25), "MALLOC_TRIM_THRESHOLD_": str(2**30)}
RATIOS = (("EVADQN, weight 0.4", "SB3's DQN"), ("EVADQN, weight 0", "SB3's DQN"))


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser(__doc__)
    arguments.add_argument("weight", nargs="?", type=float, help="only measure EVADQN with this weight and print JSON")
    options = arguments.parse_args(argv)
    if options.weight is None:
        os.environ.update(ALLOCATOR)
        compare(COMMANDS, RATIOS, ROUNDS, THREADS)
        return
    model = pong(partial(EVADQN, eva=EVAConfig(nonparametric_weight=options.weight)))
    if model.eva.nonparametric_weight > 0:
        remember(model)
    measure(model)


@torch.no_grad()
def remember(model: EVADQN) -> None:
    """Fill EVA's memory with repeated frames of SB3's memory and noisy embeddings."""
    generator, adjuster = np.random.default_rng(0), model.adjuster
    buffer: Any = model.replay_buffer
    observations: Any = model.policy.obs_to_tensor(buffer.observations[:NUM_FRAMES].reshape(-1, *buffer.obs_shape))[0]
    h = torch.cat([model.q_net.extract_features(x, model.q_net.features_extractor) for x in observations.split(100)])
    embeddings = h.unflatten(0, (NUM_FRAMES, model.n_envs))
    nothing = np.zeros(model.n_envs, np.bool_)
    while not adjuster.memory.is_full:
        seen = embeddings[adjuster.memory.lane_counts[0] % NUM_FRAMES]
        noise = torch.from_numpy(generator.standard_normal(seen.shape, np.float32))
        actions = generator.integers(6, size=model.n_envs)
        adjuster.store((seen * (1 + NOISE * noise)).relu_(), actions, np.zeros(model.n_envs), nothing, nothing)


if __name__ == "__main__":
    main()
