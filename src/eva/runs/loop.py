"""The training loop, from a config to a finished run directory."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TextIO

import torch

from eva.agent.agent import DivergedError, EVAAgent
from eva.agent.tensors import name_of
from eva.build import build_agent, build_environment, resolve
from eva.config import Config
from eva.errors import UserError
from eva.games import human_normalised_score
from eva.ids import ATARI_ID
from eva.runs.checkpoint.policy import Safety
from eva.runs.record.directory import RunDirectory, with_threads
from eva.runs.record.display import Display
from eva.runs.record.episodes import EpisodeTracker
from eva.runs.record.provenance import command, provenance
from eva.runs.record.safe_stream import unfailing
from eva.runs.record.status import read_status
from eva.runs.stopping import StoppedError, StopRequest
from eva.types import Observations, State, StepOutcome, VectorEnvironment


def interact(
    agent: EVAAgent, environment: VectorEnvironment, observations: Observations | None = None
) -> Iterator[StepOutcome]:
    """Let agent and environments act on each other for ever; yields after each step.

    It begins with new episodes, or goes on from the `observations` that the last step ended with.
    """
    if observations is None:
        observations = environment.reset()
    while True:
        actions = agent.act(observations)
        agent.read_ahead()
        outcome = environment.step(actions)
        agent.observe(outcome)
        observations = outcome.observations
        yield outcome


class Training:
    """An agent in its environments: all that has to be saved for the run to go on."""

    def __init__(self, config: Config) -> None:
        torch.set_num_threads(config.run.threads)
        self._config = config
        self.environment = build_environment(config)
        self.agent = build_agent(config, self.environment.spec)
        self.episodes = EpisodeTracker(self.environment.spec.num_environments)
        self._observations: Observations | None = None

    def steps(self) -> Iterator[StepOutcome]:
        """Begin, or go on from where `set_state` led."""
        for outcome in interact(self.agent, self.environment, self._observations):
            self._observations = outcome.observations
            yield outcome

    def close(self) -> None:
        """Let go of what the environments hold."""
        self.environment.close()

    def get_state(self) -> State:
        """Return all that decides the future of the run."""
        return {
            "agent": self.agent.get_state(),
            "episodes": self.episodes.get_state(),
            "observations": self._observations,
            "environment": self.environment.get_state(),
        }

    def set_state(self, state: State) -> str | None:
        """Go on from there; returns a sentence if the environments could not."""
        self.agent.set_state(state["agent"])
        self.episodes.set_state(state["episodes"])
        self._observations = state["observations"]
        if state["environment"] is not None:
            self.environment.set_state(state["environment"])
            return None
        if self._observations is not None:  # or they were cut before, and no step was taken since
            self.agent.cut_episodes(self._observations)
            self.episodes.cut()
        self._observations = None
        self.environment.close()  # first: it may hold what the next one needs
        self.environment = build_environment(self._config, self.agent.transitions)
        return "these environments cannot save their state: their running episodes are cut and new ones begin."


def train(config: Config, path: Path | str, stream: TextIO | None = None, *, restart: bool = False) -> None:
    """Train by `config` and record the run in the directory `path`.

    A run that is finished there is left as it is; one that is not, or that should go on for longer, goes on from its
    newest checkpoint as if it had never stopped, where the environments can save their state.

    Args:
        config: The run.
        path: Its directory.
        stream: Where progress goes; by default standard error.
        restart: Discard what is there of this run and begin anew.

    Raises:
        StoppedError: By Ctrl-C or SIGTERM, after a checkpoint.
        UserError: For what the user can mend.
    """
    stream = unfailing(stream or sys.stderr)
    path = Path(path)
    config = with_threads(resolve(config), path)
    directory = RunDirectory(path, config)
    finished = None if restart else directory.finished_step
    if finished is not None and finished >= config.steps:
        print(f"{path} is finished: {finished:,} transitions.", file=stream)
        return
    training = Training(config)
    with closing(training), directory, Display(str(path), config.steps, stream) as display:
        safety = Safety(training, directory)
        if restart:
            safety.discard()
        origin = provenance(command(), config.run.threads, name_of(training.agent.device))
        if not safety.resume(origin, display.say):
            status = read_status(path)
            if not restart and status.state in ("finished", "stopped"):  # which a checkpoint comes before
                raise UserError(
                    f"{path} is {status.state} after {status.step:,} transitions and has no checkpoint to go on from: "
                    "restore it, choose another --out, or pass --restart to start over."
                )
            directory.begin(origin)
        with StopRequest() as stop:
            _run(training, directory, safety, display, stop)
        if stop.received is not None:  # too late to break off, but what was to follow is not wanted
            raise StoppedError(stop.received)
    print(f"{path} is finished: {training.agent.transitions:,} transitions.", file=stream)


def _run(training: Training, directory: RunDirectory, safety: Safety, display: Display, stop: StopRequest) -> None:
    """Run the loop for the configured number of transitions and write down what happens."""
    config, agent, episodes = directory.config, training.agent, training.episodes
    period, num_environments = config.run.metrics_period_transitions, training.environment.spec.num_environments
    start = last = time.perf_counter()
    before, counted = directory.seconds, agent.transitions
    steps = training.steps()
    while agent.transitions < config.steps:
        try:
            outcome = next(steps)
        except DivergedError:
            safety.check({})
            raise
        for episode in episodes.add(agent.transitions, outcome):
            directory.add_episode(episode)
        display.advance(agent.transitions)
        if agent.transitions % period < num_environments:
            now = time.perf_counter()
            metrics = {"step": agent.transitions, **_episode_metrics(config, episodes), **agent.metrics()}
            steps_per_second = (agent.transitions - counted) / (now - last)
            directory.add_metrics(metrics, before + now - start, steps_per_second)
            display.show(metrics, steps_per_second)
            last, counted = now, agent.transitions
            safety.check(metrics)
        if stop.received is not None:
            safety.save()
            directory.stop(agent.transitions)
            raise StoppedError(stop.received)
        safety.save_if_due()
    safety.save()
    directory.keep(agent)
    directory.finish(agent.transitions, safety.excess)


def _episode_metrics(config: Config, episodes: EpisodeTracker) -> dict[str, float | None]:
    """Return the means of the episodes since the last call, on Atari with their score (P18)."""
    means = episodes.take_means()
    score = means["episode_return"]
    if config.environment.id != ATARI_ID or score is None:
        return means
    return {**means, "human_normalised_score": human_normalised_score(config.atari.game, score)}
