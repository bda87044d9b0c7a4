"""Stable-Baselines3's DQN on an Atari game, with EVA: four environments, stacked frames, metrics for TensorBoard.

    python examples/sb3_atari.py --game PongNoFrameskip-v4 --steps 1000000 --weight 0.4

It needs the extras `atari`, `sb3` and `tb`. EVA starts when the memory is full, as in the paper (P9).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import ale_py
import gymnasium
from stable_baselines3.common.callbacks import CheckpointCallback
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.vec_env import VecFrameStack

from eva import EVAConfig
from eva.integrations.sb3 import EVADQN

NUM_ENVIRONMENTS = 4


def main(argv: Sequence[str] | None = None) -> None:
    """Train, with checkpoints, and save the model and its memory."""
    parser = argparse.ArgumentParser(description="Stable-Baselines3's DQN on an Atari game, with EVA.")
    parser.add_argument("--game", default="PongNoFrameskip-v4", help="SB3 skips frames itself")
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--weight", type=float, default=0.4, help="weight of the planned values; 0 is plain DQN")
    parser.add_argument("--memory", type=int, default=100_000, help="transitions in SB3's replay buffer, and in EVA's")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/sb3-atari"))
    arguments = parser.parse_args(argv)

    gymnasium.register_envs(ale_py)
    environment = VecFrameStack(make_atari_env(arguments.game, NUM_ENVIRONMENTS, seed=arguments.seed), 4)
    model = EVADQN(
        "CnnPolicy",
        environment,
        buffer_size=arguments.memory,
        learning_starts=min(10_000, arguments.memory),
        train_freq=1,
        target_update_interval=1_000,
        exploration_final_eps=0.01,
        optimize_memory_usage=True,
        replay_buffer_kwargs={"handle_timeout_termination": False},
        tensorboard_log=str(arguments.out / "tensorboard"),
        seed=arguments.seed,
        eva=EVAConfig(nonparametric_weight=arguments.weight, start="full"),
    )
    # Every 100,000 transitions, only the network. The memory is saved once, at the end; without it the model is a DQN.
    checkpoints = CheckpointCallback(100_000 // NUM_ENVIRONMENTS, str(arguments.out))
    model.learn(arguments.steps, callback=checkpoints)
    model.save(arguments.out / "model")
    model.save_replay_buffer(arguments.out / "memory")
    remembered = model.adjuster.memory.num_complete
    print(f"{model.num_timesteps:,} steps, {remembered:,} transitions remembered: {arguments.out}")
    environment.close()


if __name__ == "__main__":
    main()
