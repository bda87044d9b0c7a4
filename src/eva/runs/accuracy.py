"""Compare Q_theta, Q_NP and Q_EVA with the exact values of the maze, in the states that training would visit next."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from eva.agent.adjuster import EphemeralValueAdjuster
from eva.agent.agent import EVAAgent
from eva.agent.exploration import EpsilonGreedy, LinearSchedule
from eva.agent.tensors import to_device
from eva.build import build_adjuster, build_environment
from eva.config import Config, EVAConfig
from eva.envs.maze_layout import load_layout
from eva.envs.maze_values import MazeValues, are_optimal
from eva.runs.record.columns import AGE_LIMITS, NUM_FIFTHS, OWN, SHADOWS
from eva.types import Explanation, Floats, Ints

NUM_LANES, WARM_UP_STEPS, MEASURED_STEPS = 10, 100, 100


@dataclass(frozen=True)
class Values:
    """Values of n states, each (n, A), and the nearest entry of the value buffer, (n,)."""

    q_star: Floats
    q_theta: Floats
    q_np: Floats
    q_eva: Floats
    distances: Floats  # of embeddings
    ages: Ints  # transitions stored since the entry's state

    @classmethod
    def explained(cls, q_star: Floats, explanations: Sequence[Explanation]) -> "Values":
        """Return the values of explained states."""
        values = {name: np.array([getattr(x, name) for x in explanations]) for name in ("q_theta", "q_np", "q_eva")}
        nearest = [each.neighbours[0] for each in explanations]
        distances = np.array([each.distance for each in nearest])
        return cls(q_star, **values, distances=distances, ages=np.array([x.trajectory.ages[x.step] for x in nearest]))

    def at(self, rows: Any) -> "Values":
        """Return some of the states."""
        return Values(**{name: array[rows] for name, array in vars(self).items()})


def accuracies(config: Config, agent: EVAAgent) -> Iterator[dict[str, Any]]:
    """Yield a record for each way to plan: errors against Q*, and how often greedy actions are optimal.

    Network and memory are frozen. New mazes are played as in training, with its epsilon and weight. Their states count
    after a warm-up, when the value buffers are filled. Nothing that training depends on changes.
    """
    changes = SHADOWS if agent.weight == 0 else {OWN: {}}
    network = agent.learner.network
    adjusters = {
        way: build_adjuster(
            replace(config.eva, **change), agent.replay, network.values, network, network.num_actions, NUM_LANES
        )
        for way, change in changes.items()
    }
    visited = itertools.islice(_visit(config, agent, adjusters), WARM_UP_STEPS, WARM_UP_STEPS + MEASURED_STEPS)
    exact, explained = zip(*visited, strict=True)
    for way in adjusters:
        yield {"way": way, **summary(Values.explained(np.concatenate(exact), [x for e in explained for x in e[way]]))}


@torch.no_grad()
def _visit(
    config: Config, agent: EVAAgent, adjusters: Mapping[str, EphemeralValueAdjuster]
) -> Iterator[tuple[Floats, dict[str, list[Explanation]]]]:
    """Yield Q* of the states of all mazes, (E, A), and how each adjuster explains their values; then act and plan.

    The last adjuster's values decide if EVA applies. Otherwise the network acts, and Q_EVA has the default weight.
    """
    network, sequence = agent.learner.network, [config.evaluation.seed, config.seed, agent.transitions]
    environment_seed, exploration_seed = (int(word) for word in np.random.SeedSequence(sequence).generate_state(2))
    together = replace(config.environment, num_environments=NUM_LANES)
    environment = build_environment(replace(config, seed=environment_seed, environment=together))
    epsilon = agent.exploration.epsilon(agent.transitions)
    schedule, generator = LinearSchedule(epsilon, epsilon), np.random.default_rng(exploration_seed)
    explore = EpsilonGreedy(network.num_actions, schedule, generator)
    exact = MazeValues(load_layout(config.maze.layout), config.learner.discount)
    weight = agent.weight or EVAConfig().nonparametric_weight
    observations = environment.reset()
    while True:
        q, h = network(to_device(observations, agent.device))
        values, state = q.cpu().numpy(), environment.get_state() or {}
        explained = {
            way: [adjuster.explain(values[e], h[e], weight, e, 1) for e in range(NUM_LANES)]
            for way, adjuster in adjusters.items()
        }
        yield exact(state["agents"], state["coins"]), explained
        if agent.weight > 0:
            values = np.array([each.q_eva for each in explained[OWN]])
        for adjuster in adjusters.values():
            adjuster.plan(h)
        observations = environment.step(explore(values.argmax(axis=1), 0)).observations


def summary(values: Values) -> dict[str, Any]:
    """Return the measures of all states, of fifths by distance (nearest first), and of classes of age."""
    fifths = np.array_split(values.distances.argsort(kind="stable"), NUM_FIFTHS)
    ages = np.searchsorted(AGE_LIMITS, values.ages)
    return {
        **measures(values),
        "by_distance": [measures(values.at(rows)) for rows in fifths],
        "by_age": [measures(values.at(ages == i)) for i in range(len(AGE_LIMITS) + 1)],
    }


def measures(values: Values) -> dict[str, Any]:
    """Return the mean absolute error of each estimate, and the share of its greedy actions that are optimal.

    `overruled` is the share of states in which Q_EVA and Q_theta prefer different actions. `right` and `network_right`
    are the shares of these states in which the action of Q_EVA and of Q_theta is optimal. None if there are no states.
    """
    optimal, rows = are_optimal(values.q_star), np.arange(len(values.q_star))
    estimates = {"q_theta": values.q_theta, "q_np": values.q_np, "q_eva": values.q_eva}
    actions = {name: estimate.argmax(axis=1) for name, estimate in estimates.items()}
    is_right = {name: optimal[rows, chosen] for name, chosen in actions.items()}
    overruled = actions["q_eva"] != actions["q_theta"]
    return {
        "n": len(rows),
        "error": {name: _mean(np.abs(estimate - values.q_star)) for name, estimate in estimates.items()},
        "optimal": {name: _mean(right) for name, right in is_right.items()},
        "overruled": _mean(overruled),
        "right": _mean(is_right["q_eva"][overruled]),
        "network_right": _mean(is_right["q_theta"][overruled]),
    }


def _mean(numbers: Floats) -> float | None:
    return round(float(numbers.mean()), 6) if numbers.size else None
