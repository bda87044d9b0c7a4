"""Runs of Stable-Baselines3's DQN in the maze, with EVA or without, recorded as runs of ours (P115)."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TextIO

import numpy as np
import torch

from eva.agent.tensors import name_of
from eva.build import resolve, resolve_device
from eva.config import Config, EnvironmentConfig
from eva.envs.maze import CoinMaze
from eva.errors import UserError
from eva.integrations.sb3 import DQN, EVADQN, BaseCallback, Logger
from eva.integrations.sb3_network import policy_arguments
from eva.runs.record.directory import RunDirectory, with_threads
from eva.runs.record.display import Display
from eva.runs.record.episodes import EpisodeTracker
from eva.runs.record.provenance import command, provenance
from eva.runs.record.safe_stream import unfailing
from eva.runs.stopping import StoppedError, StopRequest
from eva.schema import flatten
from eva.types import StepOutcome

_METRICS = {  # of metrics.jsonl, and what they are called there
    "epsilon": "rollout/exploration_rate",
    "updates": "train/n_updates",
    "weight": "eva/weight",
    "changed_share": "eva/changed_share",
    "replay_transitions": "eva/replay_transitions",
    "value_buffer_entries": "eva/value_buffer_entries",
}


def train(config: Config, path: Path | str, stream: TextIO | None = None) -> None:
    """Train by `config` and record the run in the directory `path`, with the files that `eva.runs.loop.train` leaves.

    What was learned is not kept. A run that is finished there is left as it is; any other begins anew (P117).

    Args:
        config: The run; SB3's own DQN where the weight is 0, else EVADQN.
        path: Its directory.
        stream: Where progress goes; by default standard error.
    """
    stream = unfailing(stream or sys.stderr)
    path = Path(path)
    config = with_threads(resolve(config), path)
    _refuse_what_sb3_lacks(config)
    directory = RunDirectory(path, config)
    finished = directory.finished_step
    if finished is not None and finished >= config.steps:
        print(f"{path} is finished: {finished:,} transitions.", file=stream)
        return
    torch.set_num_threads(config.run.threads)
    model = build_model(config)
    with directory, Display(str(path), config.steps, stream) as display, StopRequest() as stop:
        directory.begin(provenance(command(), config.run.threads, name_of(model.device)))
        model.learn(config.steps, callback=_Recorder(directory, display, stop))
        if model.num_timesteps < config.steps:
            directory.stop(model.num_timesteps)
        else:
            directory.finish(model.num_timesteps)
        if stop.received is not None:
            raise StoppedError(stop.received)
    print(f"{path} is finished: {model.num_timesteps:,} transitions.", file=stream)


def build_model(config: Config) -> DQN:
    """Return SB3's DQN, or EVADQN where there is a weight, with the numbers of `config` (P115)."""
    maze, learner, exploration = config.maze, config.learner, config.exploration
    kind = partial(EVADQN, eva=config.eva) if config.eva.nonparametric_weight > 0 else DQN
    model = kind(
        "CnnPolicy",
        CoinMaze(maze.layout, maze.num_coins, maze.max_episode_steps),
        learning_rate=learner.learning_rate,
        buffer_size=config.replay.replay_capacity,
        learning_starts=learner.learning_starts_transitions,
        batch_size=learner.batch_size,
        gamma=learner.discount,
        train_freq=learner.update_period_steps,
        gradient_steps=1,
        target_update_interval=learner.target_period_updates * learner.update_period_steps,
        exploration_fraction=exploration.epsilon_decay_transitions / config.steps,
        exploration_initial_eps=exploration.epsilon_start,
        exploration_final_eps=exploration.epsilon_end,
        policy_kwargs=policy_arguments(config.network),
        seed=config.seed,
        device=str(resolve_device(config.run.device)),
    )
    model.set_logger(Logger(None, []))  # SB3's own would leave a folder among the temporary files
    return model


class _Recorder(BaseCallback):
    """Writes down what happens, and ends the run when it is asked to stop."""

    def __init__(self, directory: RunDirectory, display: Display, stop: StopRequest) -> None:
        super().__init__()
        self._directory = directory
        self._display = display
        self._stop = stop
        self._episodes = EpisodeTracker(1)
        self._start = self._last = time.perf_counter()

    def _on_step(self) -> bool:
        rewards, dones, observations = (self.locals[name] for name in ("rewards", "dones", "new_obs"))
        outcome = StepOutcome(observations, rewards, dones, np.zeros_like(dones), observations)
        for episode in self._episodes.add(self.num_timesteps, outcome):
            self._directory.add_episode(episode)
        self._display.advance(self.num_timesteps)
        if self.num_timesteps % self._directory.config.run.metrics_period_transitions == 0:
            self._add_metrics()
        return self._stop.received is None

    def _add_metrics(self) -> None:
        now, values = time.perf_counter(), self.logger.name_to_value
        logged = {name: values[theirs] for name, theirs in _METRICS.items() if theirs in values}
        metrics = {"step": self.num_timesteps, **self._episodes.take_means(), "weight": 0.0, **logged}
        self.logger.dump()  # nowhere, and begins new means
        steps_per_second = self._directory.config.run.metrics_period_transitions / (now - self._last)
        self._directory.add_metrics(metrics, now - self._start, steps_per_second)
        self._display.show(metrics, steps_per_second)
        self._last = now


def _refuse_what_sb3_lacks(config: Config) -> None:
    able = replace(
        config,
        environment=EnvironmentConfig(),
        replay=replace(config.replay, prioritised=False, search="auto"),
        learner=replace(config.learner, error="huber", double=False, clip_rewards=False, learning_rate_end=None),
    )
    for (name, asked), (_, possible) in zip(flatten(config), flatten(able), strict=True):
        if asked != possible:
            raise UserError(
                f"{name} is {asked!r}, but Stable-Baselines3's DQN is run with {possible!r} alone: set it so."
            )
