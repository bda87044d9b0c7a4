"""Time each trace computation as the number of transitions in a plan grows."""

import time
from typing import Any

import numpy as np
import torch

from eva.agent.kbrl import kernel_based_rl
from eva.agent.traces import n_step, trajectory_centric_planning
from eva.config import EVAConfig
from eva.experiments.timing.alternating import Calls, microseconds_by_round
from eva.types import Trajectories

NUM_TRAJECTORIES = (1, 2, 5, 10, 20)  # of 50 transitions each: N = 50 to 1,000
ROUNDS, REPEATS = 9, 3
NUM_ACTIONS, EMBEDDING_SIZE = 4, 64  # the maze's


def measure(_: bool) -> dict[str, Any]:
    """Return microseconds of CPU time for each trace, plan size and round, measured in turn; that takes seconds."""
    torch.set_num_threads(1)
    length = EVAConfig().trajectory_length
    times: dict[str, list[list[float]]] = {}
    for count in NUM_TRAJECTORIES:
        for name, rounds in microseconds_by_round(_calls(count, length), ROUNDS, REPEATS, time.thread_time).items():
            times.setdefault(name, []).append([round(each, 1) for each in rounds])
    return {"transitions": [count * length for count in NUM_TRAJECTORIES], "rounds": times}


def _calls(count: int, length: int) -> Calls:
    """Return calls of each trace over the same random trajectories."""
    generator = np.random.default_rng(0)
    trajectories = Trajectories(
        plans=np.zeros(count, np.int64),
        slots=np.arange(count * (length + 1)).reshape(count, length + 1),
        actions=generator.integers(NUM_ACTIONS, size=(count, length)),
        rewards=generator.normal(size=(count, length)).astype(np.float32),
        discounts=np.full((count, length), 0.99, np.float32),
        valid=np.ones((count, length), np.bool_),
    )
    q_theta = generator.normal(size=(count, length + 1, NUM_ACTIONS)).astype(np.float32)
    embeddings = generator.normal(size=(count, length + 1, EMBEDDING_SIZE)).astype(np.float32)
    eva = EVAConfig()
    kernel = {"bandwidth": eva.kbrl_bandwidth, "parametric_similarity": eva.kbrl_similarity}
    return {
        "TCP": lambda: trajectory_centric_planning(trajectories, q_theta),
        "n-step": lambda: n_step(trajectories, q_theta),
        "KBRL": lambda: kernel_based_rl(trajectories, q_theta, embeddings, **kernel),
    }
