"""The training loop, from a config to a finished run directory."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import numpy as np
import torch

from eva.agent.eva import EVAAgent
from eva.build import build_agent, build_environment
from eva.config import Config
from eva.runs.display import Display
from eva.runs.provenance import command, provenance
from eva.runs.records import Episode, RunDirectory
from eva.types import StepOutcome, VectorEnvironment


def interact(agent: EVAAgent, environment: VectorEnvironment) -> Iterator[StepOutcome]:
    """Let agent and environments act on each other for ever; yields after each step."""
    observations = environment.reset()
    while True:
        outcome = environment.step(agent.act(observations))
        agent.observe(outcome)
        observations = outcome.observations
        yield outcome


def train(config: Config, path: Path, stream: TextIO | None = None) -> None:
    """Train by `config` and record the run in the directory `path`.

    A run that is finished there is left as it is. One that is not, or that should go on for longer, is begun anew: the
    same seed gives the same records again. Progress goes to `stream`, by default standard error.
    """
    stream = stream or sys.stderr
    directory = RunDirectory(path, config)
    finished = directory.finished_step
    if finished is not None and finished >= config.steps:
        print(f"{path} is finished: {finished:,} transitions.", file=stream)
        return
    torch.set_num_threads(config.run.threads)
    environment = build_environment(config)
    agent = build_agent(config, environment.spec)
    try:
        directory.begin(provenance(command(), config.run.threads, str(agent.device)))
        with Display(str(path), config.steps, stream) as display:
            try:
                _record(agent, environment, directory, display)
            except BaseException as error:
                directory.fail(agent.transitions, f"{type(error).__name__}: {error}")
                raise
        print(f"{path} is finished: {agent.transitions:,} transitions.", file=stream)
    finally:
        directory.close()


def _record(agent: EVAAgent, environment: VectorEnvironment, directory: RunDirectory, display: Display) -> None:
    """Run the loop for the configured number of transitions and write down what happens."""
    config = directory.config
    episodes = EpisodeTracker(environment.spec.num_environments)
    period = config.run.metrics_period_transitions
    start = last = time.perf_counter()
    for outcome in interact(agent, environment):
        for episode in episodes.add(agent.transitions, outcome):
            directory.add_episode(episode)
        display.advance(agent.transitions)
        if agent.transitions % period < environment.spec.num_environments:
            now = time.perf_counter()
            metrics = {"step": agent.transitions, **episodes.take_means(), **agent.metrics()}
            steps_per_second = period / (now - last)
            directory.add_metrics(metrics, now - start, steps_per_second)
            display.show(metrics, steps_per_second)
            last = now
        if agent.transitions >= config.steps:
            break
    directory.finish(agent)


class EpisodeTracker:
    """Adds up each environment's running episode."""

    def __init__(self, num_environments: int) -> None:
        self.returns = np.zeros(num_environments)
        self.lengths = np.zeros(num_environments, np.int64)
        self.num_finished = 0
        self._recent: list[Episode] = []

    def add(self, step: int, outcome: StepOutcome) -> list[Episode]:
        """Count one step of all environments; returns the episodes that it finished."""
        self.returns += outcome.rewards
        self.lengths += 1
        ended = outcome.terminated | outcome.truncated
        finished = [Episode(step, int(e), float(self.returns[e]), int(self.lengths[e])) for e in ended.nonzero()[0]]
        self.returns[ended] = 0
        self.lengths[ended] = 0
        self.num_finished += len(finished)
        self._recent += finished
        return finished

    def take_means(self) -> dict[str, float | None]:
        """Return what metrics.jsonl says about the episodes since the last call."""
        recent, self._recent = self._recent, []
        return {
            "episodes": self.num_finished,
            "episode_return": float(np.mean([e.episode_return for e in recent])) if recent else None,
            "episode_length": float(np.mean([e.episode_length for e in recent])) if recent else None,
        }
