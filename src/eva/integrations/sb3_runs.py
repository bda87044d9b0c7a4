"""Train Stable-Baselines3's DQN in the maze, with or without EVA, and record it like every other run (P115)."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from eva.build import resolve, resolve_device
from eva.config import Config, EnvironmentConfig, LearnerConfig, NetworkConfig
from eva.envs.maze import CoinMaze
from eva.errors import UserError
from eva.integrations.sb3 import DQN, EVADQN, BaseCallback, BaseFeaturesExtractor, Logger
from eva.runs.record.episodes import EpisodeTracker
from eva.runs.record.recorder import Recorder, open_run, recording
from eva.schema import flatten
from eva.types import StepOutcome

_METRICS = {  # name in metrics.jsonl: name in SB3's logger
    "epsilon": "rollout/exploration_rate",
    "updates": "train/n_updates",
    "weight": "eva/weight",
    "changed_share": "eva/changed_share",
    "replay_transitions": "eva/replay_transitions",
    "value_buffer_entries": "eva/value_buffer_entries",
}


def train(config: Config, path: Path | str, stream: TextIO | None = None) -> None:
    """Train and record the run in the directory `path`, in the same files as `eva.runs.loop.train`.

    Weight 0 trains SB3's own DQN, any other weight EVADQN. Neither the network nor the memory is saved. A finished run
    is left unchanged; an unfinished run starts from scratch (P117). Progress is printed to `stream`, by default
    standard error.
    """
    _check_supported(config)
    directory, stream, is_unfinished = open_run(resolve(config), path, stream)
    if not is_unfinished:
        return
    torch.set_num_threads(directory.config.run.threads)
    model = build_model(directory.config)
    with recording(directory, model.device, stream) as recorder:
        directory.begin(recorder.provenance)
        model.learn(config.steps, callback=_RecorderCallback(recorder))
        if model.num_timesteps < config.steps:
            directory.stop(model.num_timesteps)
        else:
            directory.finish(model.num_timesteps)


def build_model(config: Config) -> DQN:
    """Return SB3's DQN, or EVADQN if the weight is positive, with the hyper-parameters of `config` (P115)."""
    maze, learner, exploration = config.maze, config.learner, config.exploration
    algorithm = partial(EVADQN, eva=config.eva) if config.eva.nonparametric_weight > 0 else DQN
    model = algorithm(
        "CnnPolicy",
        CoinMaze(maze.layout, maze.num_coins, maze.max_episode_steps),
        learning_rate=learner.learning_rate,
        buffer_size=config.replay.replay_capacity,
        learning_starts=learner.learning_starts_transitions,
        batch_size=learner.batch_size,
        gamma=learner.discount,
        train_freq=learner.update_period_steps,
        gradient_steps=learner.updates_per_round,
        target_update_interval=learner.target_period_updates * learner.update_period_steps // learner.updates_per_round,
        exploration_fraction=exploration.epsilon_decay_transitions / config.steps,
        exploration_initial_eps=exploration.epsilon_start,
        exploration_final_eps=exploration.epsilon_end,
        policy_kwargs=policy_arguments(config.network),
        seed=config.seed,
        device=str(resolve_device(config.run.device)),
    )
    model.set_logger(Logger(None, []))  # SB3's default logger creates a temporary directory
    return model


class Torso(BaseFeaturesExtractor):
    """The convolutions and the embedding layer of `network`."""

    def __init__(self, observation_space: spaces.Box, network: NetworkConfig) -> None:
        super().__init__(observation_space, features_dim=network.embedding_size)
        convolutions: list[nn.Module] = []
        depth = observation_space.shape[0]
        for channels, size, stride in zip(network.channels, network.filter_sizes, network.strides, strict=True):
            convolutions += [nn.Conv2d(depth, channels, size, stride=stride), nn.ReLU()]
            depth = channels
        convolutions.append(nn.Flatten())
        num_features = nn.Sequential(*convolutions)(torch.zeros(1, *observation_space.shape)).shape[1]
        self.layers = nn.Sequential(*convolutions, nn.Linear(num_features, network.embedding_size), nn.ReLU())

    def forward(self, observations: Tensor) -> Tensor:
        """Return the embedding."""
        embedding: Tensor = self.layers(observations)
        return embedding


def policy_arguments(network: NetworkConfig) -> dict[str, Any]:
    """Return `policy_kwargs` of CnnPolicy: the torso, then the layer that returns the values."""
    return {"features_extractor_class": Torso, "features_extractor_kwargs": {"network": network}, "net_arch": []}


class _RecorderCallback(BaseCallback):
    """Record episodes and metrics; stop training after a signal."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder
        self._episodes = EpisodeTracker(1)

    def _on_training_start(self) -> None:
        self._recorder.start()

    def _on_step(self) -> bool:
        rewards, dones, observations = (self.locals[name] for name in ("rewards", "dones", "new_obs"))
        outcome = StepOutcome(observations, rewards, dones, np.zeros_like(dones), observations)
        self._recorder.add_step(self.num_timesteps, outcome, self._episodes)
        if self.num_timesteps % self._recorder.directory.config.run.metrics_period_transitions == 0:
            values = self.logger.name_to_value
            logged = {name: values[theirs] for name, theirs in _METRICS.items() if theirs in values}
            self._recorder.add_metrics(self.num_timesteps, self._episodes, {"weight": 0.0, **logged})
            self.logger.dump()  # writes nothing, but resets the means
        return self._recorder.stop.received is None


def _check_supported(config: Config) -> None:
    supported = replace(
        config,
        environment=EnvironmentConfig(),
        replay=replace(config.replay, prioritised=False, search="auto"),
        learner=replace(
            config.learner,
            optimiser="adam",
            optimiser_epsilon=LearnerConfig.optimiser_epsilon,
            error="huber",
            double=False,
            clip_rewards=False,
            learning_rate_end=None,
        ),
    )
    for (name, value), (_, required) in zip(flatten(config), flatten(supported), strict=True):
        if value != required:
            raise UserError(f"Stable-Baselines3's DQN requires {name} = {required!r}, not {value!r}: change it.")
