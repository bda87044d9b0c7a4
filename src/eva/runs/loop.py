"""The training loop, from a config to a finished run directory."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TextIO

import torch

from eva.agent.agent import EVAAgent
from eva.agent.metrics import DivergedError
from eva.agent.tensors import check_shapes
from eva.build import EnvironmentFactory, NetworkSource, build_agent, build_environment, complete
from eva.config import Config
from eva.errors import UserError
from eva.machine import supports_bfloat16
from eva.presets import preset
from eva.runs.callbacks import Callback, checked
from eva.runs.checkpoint.checkpointer import Checkpointer
from eva.runs.evaluate import evaluate_in_training
from eva.runs.record.episodes import EpisodeTracker
from eva.runs.record.recorder import Recorder, open_run, recording
from eva.runs.stopping import StoppedError
from eva.schema import flatten
from eva.types import Observations, State, StepOutcome, VectorEnvironment
from eva.wiring.networks import FITTED


def interact(
    agent: EVAAgent, environment: VectorEnvironment, observations: Observations | None = None
) -> Iterator[StepOutcome]:
    """Step agent and environments forever; yields the outcome of each step.

    Starts with new episodes, or continues from `observations`, those of the last step.
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
    """An agent in its environments: the whole state that a checkpoint saves.

    `network` and `make_environment` are those of `train`, if the user passed any.
    """

    def __init__(
        self,
        config: Config,
        network: NetworkSource | None = None,
        make_environment: EnvironmentFactory | None = None,
    ) -> None:
        torch.set_num_threads(config.run.threads)
        self._config = config
        self.make_environment = make_environment
        self.environment = build_environment(config, environment=make_environment)
        self.agent = build_agent(config, self.environment.spec, network)
        self.episodes = EpisodeTracker(self.environment.spec.num_environments)
        self._observations: Observations | None = None

    def steps(self) -> Iterator[StepOutcome]:
        """Start training, or continue from the state that `load_state_dict` restored."""
        for outcome in interact(self.agent, self.environment, self._observations):
            self._observations = outcome.observations
            yield outcome

    def close(self) -> None:
        """Close the environments."""
        self.environment.close()

    def state_dict(self) -> State:
        """Return the state of agent, environments and running episodes."""
        return {
            "agent": self.agent.state_dict(),
            "episodes": self.episodes.state_dict(),
            "observations": self._observations,
            "environment": self.environment.get_state(),
        }

    def load_state_dict(self, state: State) -> str | None:
        """Restore a state; returns a warning if the environments could not be restored."""
        self.agent.load_state_dict(state["agent"])
        self.episodes.load_state_dict(state["episodes"])
        self._observations = state["observations"]
        if self._observations is not None:
            spec = self.environment.spec
            check_shapes((spec.num_environments, *spec.observation_shape), observations=self._observations)
        if state["environment"] is not None:
            self.environment.set_state(state["environment"])
            return None
        if self._observations is not None:  # None: the episodes were cut before, and no step was taken since
            self.agent.cut_episodes(self._observations)
            self.episodes.cut()
        self._observations = None
        self.environment.close()  # before the next one is built, which may need the same resources
        self.environment = build_environment(self._config, self.agent.transitions, self.make_environment)
        return "these environments cannot save their state: their running episodes are cut and new ones begin."


def train(
    config: Config | str,
    path: Path | str,
    stream: TextIO | None = None,
    *,
    restart: bool = False,
    callbacks: Sequence[Callback] = (),
    network: NetworkSource | None = None,
    environment: EnvironmentFactory | None = None,
) -> None:
    """Train and record the run in the directory `path`; print progress to `stream`, by default standard error.

    `config` may be the name of a preset. `network` is a torch module of your own that returns (values, embedding), or a
    function from `EnvironmentSpec` to one. `environment` is a function that returns a new environment at each call. The
    run does not store them: pass them again to resume, load or evaluate it.

    A finished run is left unchanged. An unfinished run, or one with fewer transitions than `config.steps`, resumes
    from its newest checkpoint. The result has the same bytes as an uninterrupted run if the environments can save
    their state. `restart` discards an earlier run in `path` instead.

    `callbacks` are called in order, after the run has written its own records of the event. One of them can end the
    run with `run.stop(reason)`: a checkpoint is saved, and `train` returns.

    Raises:
        StoppedError: After Ctrl-C or SIGTERM; a checkpoint has been saved.
        UserError: If the configuration, the directory or its files cannot be used, or if a callback fails.
    """
    given = preset(config) if isinstance(config, str) else config
    if not isinstance(given, Config):
        raise UserError(f"the configuration is {given!r}, but must be an eva.Config or the name of a preset.")
    callbacks, config = checked(callbacks), complete(given, network, environment)
    directory, stream, is_unfinished = open_run(config, path, stream, restart=restart)
    if not is_unfinished:
        return
    _print_fitted(given, config, stream)
    training = Training(directory.config, network, environment)
    with closing(training), recording(directory, training.agent.device, stream, callbacks) as recorder:
        checkpointer = Checkpointer(training, directory)
        checkpointer.start(recorder.provenance, recorder.display.print, restart=restart)
        on_cpu = training.agent.device.type == "cpu"
        if directory.config.learner.precision == "bfloat16" and on_cpu and not supports_bfloat16():
            recorder.display.print("this processor has no instructions for bfloat16: float32 is faster here.")
        with checkpointer.doubting():
            _run(training, checkpointer, recorder)


def _print_fitted(given: Config, config: Config, stream: TextIO) -> None:
    """Print the fields that were chosen for the size of the environment's images."""
    before, after = dict(flatten(given)), dict(flatten(config))
    chosen = [f"{name} {after[name]}" for name in FITTED if after[name] != before[name]]
    if chosen:
        print(f"chosen by the size of the images (network.fit_images): {', '.join(chosen)}.", file=stream)


def _run(training: Training, checkpointer: Checkpointer, recorder: Recorder) -> None:
    """Train up to the configured number of transitions, and save the result."""
    agent, directory, stop = training.agent, recorder.directory, recorder.stop
    config, num_environments = directory.config, training.environment.spec.num_environments

    def is_due(period: int) -> bool:
        """Return whether the last step of all environments reached or passed a multiple of `period`."""
        return agent.transitions % period < num_environments

    recorder.start(agent.transitions)
    steps = training.steps()
    while agent.transitions < config.steps:
        if recorder.stop_reason is not None:
            recorder.callbacks.checkpoint(checkpointer.save())
            directory.stop(agent.transitions, recorder.stop_reason)
            return
        try:
            outcome = next(steps)
        except DivergedError:
            checkpointer.check_divergence()
            raise
        recorder.add_step(agent.transitions, outcome, training.episodes)
        if is_due(config.run.metrics_period_transitions):
            metrics = agent.metrics()
            recorder.add_metrics(agent.transitions, training.episodes, metrics)
            checkpointer.check_divergence(metrics.get("loss"))
        evaluation_period = config.evaluation.period_transitions
        if evaluation_period is not None and is_due(evaluation_period):
            recorder.add_evaluations(agent.transitions, evaluate_in_training(config, agent, training.make_environment))
        if stop.received is not None:
            recorder.callbacks.checkpoint(checkpointer.save())
            directory.stop(agent.transitions)
            raise StoppedError(stop.received)
        if (saved := checkpointer.save_if_due()) is not None:
            recorder.callbacks.checkpoint(saved)
    recorder.callbacks.checkpoint(checkpointer.save())
    directory.save_agent(agent)
    directory.finish(agent.transitions, agent.monitor.largest_abs_q, checkpointer.divergence_message)
