"""What EVA costs Stable-Baselines3's DQN on Pong with a memory of 50,000: transitions per second, in turn.

Each process keeps the memory it has freed: whether glibc does so by itself depends on what was allocated before, which
makes a difference of a tenth that has nothing to do with EVA.

With a weight as its argument it is one measurement: EVADQN with that weight.
"""

from __future__ import annotations

import os
import sys
from functools import partial

import numpy as np
import torch

from benchmarks.atari_memory import NOISE
from benchmarks.atari_sb3 import NUM_FRAMES, pong
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


def main() -> None:
    if len(sys.argv) == 1:
        os.environ.update(ALLOCATOR)
        compare(COMMANDS, RATIOS, ROUNDS, THREADS)
        return
    model = pong(partial(EVADQN, eva=EVAConfig(nonparametric_weight=float(sys.argv[1]))))
    if model.eva.nonparametric_weight > 0:
        remember(model)
    measure(model)


@torch.no_grad()
def remember(model: EVADQN) -> None:
    """Fill EVA's memory with the frames in SB3's, over and over, with embeddings that differ."""
    generator, buffer, adjuster = np.random.default_rng(0), model.replay_buffer, model.adjuster
    observations = model.policy.obs_to_tensor(buffer.observations[:NUM_FRAMES].reshape(-1, *buffer.obs_shape))[0]
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
