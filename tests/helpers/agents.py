"""Small agents, a scripted environment, and functions that record calls."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from eva.agent.agent import EVAAgent
from eva.agent.exploration import EpsilonGreedy, LinearSchedule
from eva.agent.learner import Learner
from eva.agent.optimisers import OPTIMISERS
from eva.build import build_agent, build_environment, generators
from eva.config import Config
from eva.presets import preset
from eva.runs.checkpoint.state import pack, unpack
from eva.runs.loop import interact
from eva.types import EnvironmentSpec, Floats, Ints, Observations, State, StepOutcome, Trajectories, VectorEnvironment
from eva.wiring.memory import build_replay
from eva.wiring.networks import build_network


def changed(config: Config, **sections: Any) -> Config:
    """Return `config` with fields changed: `eva={"trace": "kbrl"}`, `seed=1`."""
    return replace(
        config,
        **{
            name: replace(getattr(config, name), **value) if isinstance(value, dict) else value
            for name, value in sections.items()
        },
    )


TINY = changed(
    preset("smoke"),
    maze={"max_episode_steps": 17},
    network={"channels": (4, 4), "hidden_sizes": (8,), "embedding_size": 8},
    replay={"replay_capacity": 80},
    learner={"batch_size": 8, "learning_rate": 1e-2, "target_period_updates": 7, "learning_starts_transitions": 16},
    exploration={"epsilon_start": 0.3, "epsilon_end": 0.3},
    eva={
        "num_trajectories": 4,
        "trajectory_length": 6,
        "plan_period_steps": 5,
        "num_neighbours": 3,
        "value_buffer_capacity": 48,
    },
    run={"device": "cpu"},
)
"""The smoke preset, smaller: everything begins, wraps around and is truncated within a hundred steps."""


def tiny(num_environments: int = 1, **sections: Any) -> Config:
    """Return TINY with some fields changed."""
    return changed(TINY, environment={"num_environments": num_environments}, **sections)


def built(config: Config) -> tuple[EVAAgent, VectorEnvironment]:
    """Return an agent and its environment."""
    environment = build_environment(config)
    return build_agent(config, environment.spec), environment


def ran(config: Config, num_steps: int) -> EVAAgent:
    """Return an agent after `num_steps` steps."""
    agent, environment = built(config)
    run(agent, environment, num_steps)
    return agent


def run(agent: EVAAgent, environment: VectorEnvironment, num_steps: int) -> list[StepOutcome]:
    """Reset the environments and take steps in them."""
    return list(islice(interact(agent, environment), num_steps))


def same_learning(one: Any, other: Any) -> bool:
    """Whether two learners are equal to the bit: networks and optimiser."""
    return all(torch.equal(a, b) for a, b in zip(_learned(one), _learned(other), strict=True))


def _learned(learner: Any) -> list[torch.Tensor]:
    averages = learner.optimiser.state_dict()
    return [
        *learner.network.state_dict().values(),
        *learner.target_network.state_dict().values(),
        *(value for mine in averages.values() for value in mine.values()),
    ]


def dqn(config: Config, num_steps: int) -> tuple[list[list[int]], Learner]:
    """Run DQN (Section 2), without anything of EVA; returns its actions and what it learned.

    It is double, or replays by priority, where `config` says so.
    """
    environment, streams = build_environment(config), generators(config.seed)
    spec, learning, exploration = environment.spec, config.learner, config.exploration
    network = build_network(config, spec, streams["network"])
    learner = Learner(
        network,
        OPTIMISERS[learning.optimiser](network.named_parameters(), learning.optimiser_epsilon),
        learning_rate=LinearSchedule(learning.learning_rate, learning.learning_rate),
        error=learning.error,
        target_period_updates=learning.target_period_updates,
        double=learning.double,
        max_gradient_norm=learning.max_gradient_norm,
    )
    replay = build_replay(config, spec, torch.device("cpu"))
    epsilon = LinearSchedule(
        exploration.epsilon_start, exploration.epsilon_end, 0, exploration.epsilon_decay_transitions
    )
    choose = EpsilonGreedy(spec.num_actions, epsilon, streams["exploration"])

    taken = []
    observations = environment.reset()
    for step in range(num_steps):
        with torch.no_grad():
            q, _ = network(torch.from_numpy(observations))
        actions = choose(q.argmax(dim=1).numpy(), step * spec.num_environments)
        outcome = environment.step(actions)
        no_embeddings = torch.zeros(spec.num_environments, config.network.embedding_size)
        replay.append(observations, actions, outcome.rewards, outcome.terminated, no_embeddings)
        if outcome.truncated.any():
            (lanes,) = outcome.truncated.nonzero()
            replay.close(lanes, outcome.last_observations[lanes], no_embeddings[lanes])
        if (step + 1) * spec.num_environments >= learning.learning_starts_transitions:
            slots = replay.sample(streams["sampling"], learning.batch_size)
            replay.prioritise(slots, learner.update(replay.batch(slots)).errors)
        observations = outcome.observations
        taken.append(actions.tolist())
    return taken, learner


def frozen(state: State) -> State:
    """Return a state as a checkpoint holds it: a copy."""
    arrays, plain = pack(state)
    return unpack({name: array.copy() for name, array in arrays.items()}, copy.deepcopy(plain))


def same(one: Any, other: Any) -> bool:
    """Whether two states or explanations are equal to the bit."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(same, one, other))
    if hasattr(one, "__dataclass_fields__"):
        return type(one) is type(other) and same(vars(one), vars(other))
    if isinstance(one, np.ndarray | torch.Tensor):
        a, b = np.asarray(one), np.asarray(other)
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return bool(one == other)


class ScriptedVector:
    """Environments whose episodes end by a script; no two observations are equal.

    Args:
        num_environments: E.
        script: For each step, one letter for each environment: `.` goes on, `T` terminates, `|` truncates. After the
            script all go on.
        num_actions: A; action 0 is worth 1, the others nothing.
    """

    def __init__(self, num_environments: int, script: Sequence[str] = (), num_actions: int = 3) -> None:
        self.spec = EnvironmentSpec(num_environments, num_actions, (2,), np.dtype(np.float32))
        self._script = script
        self._num_steps = 0
        self._num_observations = 0

    def reset(self) -> Observations:
        return self._observe(self.spec.num_environments)

    def step(self, actions: Ints) -> StepOutcome:
        num = self.spec.num_environments
        letters = np.array(list(self._script[self._num_steps] if self._num_steps < len(self._script) else "." * num))
        self._num_steps += 1
        last = self._observe(num)
        observations, ended = last.copy(), letters != "."
        observations[ended] = self._observe(int(ended.sum()))
        return StepOutcome(observations, (actions == 0).astype(float), letters == "T", letters == "|", last)

    def _observe(self, num: int) -> Observations:
        numbers = np.arange(self._num_observations, self._num_observations + num)
        self._num_observations += num
        return np.stack([np.sin(numbers), numbers / 50], axis=1).astype(np.float32)


def scripted(config: Config, script: Sequence[str] = (), num_actions: int = 3) -> tuple[EVAAgent, ScriptedVector]:
    """Return an agent in a scripted environment."""
    environment = ScriptedVector(config.environment.num_environments, script, num_actions)
    return build_agent(config, environment.spec), environment


def watch(owner: Any, name: str, seen: Callable[..., None]) -> None:
    """Call `seen` with the result and the arguments after each call of a method."""
    method = getattr(owner, name)

    def watched(*args: Any, **kwargs: Any) -> Any:
        result = method(*args, **kwargs)
        seen(result, *args, **kwargs)
        return result

    setattr(owner, name, watched)


def watch_entries(agent: EVAAgent, seen: Callable[[int, torch.Tensor, Floats, Ints], None]) -> None:
    """Call `seen` for entries of a value buffer: its number, the keys, the values, and the states' replay slots."""
    planned: list[Trajectories] = []
    watch(agent.replay, "trajectories", lambda trajectories, *_: planned.append(trajectories))
    for number, buffer in enumerate(agent.adjuster.value_buffers):

        def entered(_: None, keys: torch.Tensor, q_np: Floats, origins: Ints, number: int = number) -> None:
            _, rows, columns = origins.T
            seen(number, keys, q_np, planned[-1].slots[rows, columns])

        watch(buffer, "append", entered)


class Poisoned:
    """An adjuster that must not be called."""

    value_buffers = ()

    def adjust(self, *_: Any) -> torch.Tensor:
        raise AssertionError("the adjuster was asked for values")

    def plan(self, *_: Any) -> None:
        raise AssertionError("the adjuster was asked to plan")


class Bomb:
    """A pickle of this makes a directory when it is read."""

    def __init__(self, crater: Path) -> None:
        self.crater = crater

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.crater),)
