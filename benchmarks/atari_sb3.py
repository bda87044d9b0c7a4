"""One measurement of `atari_peers`: Stable-Baselines3's DQN. `atari_peers` runs it in SB3's virtual environment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import ale_py
import gymnasium
import numpy as np
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.vec_env import VecFrameStack

from benchmarks.command_line import parser
from benchmarks.sb3 import measure
from eva.integrations.sb3_runs import policy_arguments
from eva.presets import preset

MEMORY, NUM_FRAMES = 50_000, 500
Model = TypeVar("Model", bound=DQN)


def main(argv: Sequence[str] | None = None) -> None:
    parser(__doc__).parse_args(argv)
    measure(pong(DQN))


def pong(make: Callable[..., Model]) -> Model:
    """Return the paper's DQN, built by `make`, with a full memory."""
    torch.set_num_threads(2)
    gymnasium.register_envs(ale_py)
    config = preset("atari")
    learner, num_environments = config.learner, config.environment.num_environments
    games = make_atari_env(
        "ALE/Pong-v5",
        num_environments,
        wrapper_kwargs={"terminal_on_life_loss": False},
        env_kwargs={
            "frameskip": 1,
            "repeat_action_probability": 0.0,
        },  # the wrapper skips frames: both together would skip 16
    )
    environment = VecFrameStack(games, 4)
    model = make(
        "CnnPolicy",
        environment,
        learning_rate=learner.learning_rate,
        buffer_size=MEMORY,
        optimize_memory_usage=True,
        replay_buffer_kwargs={"handle_timeout_termination": False},
        learning_starts=0,
        batch_size=learner.batch_size,
        gamma=learner.discount,
        train_freq=1,
        gradient_steps=1,
        target_update_interval=learner.target_period_updates * num_environments,
        exploration_initial_eps=config.exploration.epsilon_end,
        exploration_final_eps=config.exploration.epsilon_end,
        policy_kwargs=policy_arguments(config.network),
        device="cpu",
    )
    fill(model)
    return model


def fill(model: DQN) -> None:
    """Fill the replay buffer with a few frames of random play, repeated."""
    environment: Any = model.get_env()
    buffer: Any = model.replay_buffer
    environment.reset()
    frames = [environment.step([environment.action_space.sample() for _ in range(4)])[0] for _ in range(NUM_FRAMES)]
    seen = np.moveaxis(np.array(frames), -1, 2) if frames[0].shape[-1] == 4 else np.array(frames)
    for first in range(0, len(buffer.observations), NUM_FRAMES):
        part = buffer.observations[first : first + NUM_FRAMES]
        part[:] = seen[: len(part)]
    buffer.full = True


if __name__ == "__main__":
    main()
