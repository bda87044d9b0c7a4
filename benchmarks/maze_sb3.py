"""One measurement of `maze_peers`: Stable-Baselines3's DQN. `maze_peers` runs it in SB3's virtual environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import torch
from stable_baselines3 import DQN

from benchmarks.command_line import parser
from benchmarks.maze_settings import TUNED, UNTUNED, settings
from benchmarks.sb3 import measure
from eva.integrations.sb3_runs import policy_arguments


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser(__doc__)
    arguments.add_argument("setting", choices=[TUNED, UNTUNED], help="a name in maze_settings.py")
    options = arguments.parse_args(argv)
    torch.set_num_threads(1)
    config = settings()[options.setting]
    learner = config.learner
    environment = gymnasium.make("eva/CoinMaze-v0", disable_env_checker=True)
    model = DQN(
        "CnnPolicy",
        environment,
        learning_rate=learner.learning_rate,
        buffer_size=config.replay.replay_capacity,
        learning_starts=0,
        batch_size=learner.batch_size,
        gamma=learner.discount,
        train_freq=learner.update_period_steps,
        gradient_steps=learner.updates_per_round,
        target_update_interval=learner.target_period_updates // learner.updates_per_round,
        exploration_initial_eps=config.exploration.epsilon_end,
        exploration_final_eps=config.exploration.epsilon_end,
        policy_kwargs=policy_arguments(config.network),
        device="cpu",
    )
    fill(model)
    measure(model)


def fill(model: DQN) -> None:
    """Fill the replay buffer with random play."""
    environment: Any = model.get_env()
    buffer: Any = model.replay_buffer
    observations = environment.reset()
    for action in np.random.default_rng(0).integers(4, size=(buffer.buffer_size, 1)):
        following, rewards, dones, infos = environment.step(action)
        buffer.add(observations, following, action, rewards, dones, infos)
        observations = following
    assert buffer.full


if __name__ == "__main__":
    main()
