from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from eva.agent.agent import EVAAgent
from eva.agent.learner import Update
from eva.agent.memory.replay import CLOSING, STEP, TERMINATION
from eva.agent.metrics import Monitor
from eva.errors import UserError
from eva.runs.loop import interact
from eva.runs.record.columns import METRICS
from tests.helpers.agents import ScriptedVector, built, changed, run, scripted, tiny, watch

BOTH_SIZES = pytest.mark.parametrize("num_environments", [1, 4])
NO_LEARNING = {"learning_starts_transitions": 1_000}


def put_on_tape(agent: EVAAgent, environment: ScriptedVector) -> list[str]:
    """Return a list to which each call of the agent's components is appended when it starts."""
    tape: list[str] = []

    def taped(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            tape.append(name)
            return function(*args)

        return call

    methods = {
        environment: ["step"],
        agent.adjuster: ["adjust", "plan"],
        agent.replay: ["search", "trajectories", "append", "close", "sample", "batch"],
        agent.learner: ["update", "targets"],
    }
    for owner, names in methods.items():
        for name in names:
            setattr(owner, name, taped(name, getattr(owner, name)))
    agent.exploration = taped("explore", agent.exploration)  # type: ignore[assignment]
    agent.learner.network.register_forward_pre_hook(lambda *_: tape.append("network"))
    agent.learner.target_network.register_forward_pre_hook(lambda *_: tape.append("target network"))
    return tape


@BOTH_SIZES
def test_call_sequence_follows_algorithm_1(num_environments: int) -> None:
    going_on, truncated, terminated = (letter + "." * (num_environments - 1) for letter in ".|T")
    config = tiny(
        num_environments,
        learner={"learning_starts_transitions": 2 * num_environments, "update_period_steps": 2},
        eva={"plan_period_steps": 2},
    )
    agent, environment = scripted(config, [going_on, going_on, truncated, terminated, going_on])
    tape = put_on_tape(agent, environment)
    learn = ["sample", "batch", "update", "targets", "target network", "network"]
    steps = interact(agent, environment)
    for expected in (
        ["network", "explore", "step", "append"],
        ["network", "explore", "step", "append", *learn],  # EVA does not apply before learning starts
        ["network", "adjust", "explore", "step", "plan", "search", "trajectories", "append", "network", "close"],
        ["network", "adjust", "explore", "step", "plan", "append", *learn],  # no plan is due
        ["network", "adjust", "explore", "step", "plan", "search", "trajectories", "append"],
    ):
        tape.clear()
        next(steps)
        assert tape == expected


def test_batch_errors_become_priorities() -> None:
    agent, environment = scripted(tiny(2, learner={"double": True}, replay={"prioritised": True}))
    calls: list[tuple[str, tuple[Any, ...]]] = []
    for owner, name in [
        (agent.replay, "sample"),
        (agent.replay, "batch"),
        (agent.learner, "update"),
        (agent.replay, "prioritise"),
    ]:
        watch(owner, name, lambda *call, name=name: calls.append((name, call)))
    run(agent, environment, 12)
    names, last = zip(*calls[-4:], strict=True)
    assert names == ("sample", "batch", "update", "prioritise")
    (slots, generator, size), (batch, gathered), (update, learned), (_, prioritised, errors) = last
    assert generator is agent.generator
    assert size == 8
    assert gathered is slots
    assert learned is batch
    assert prioritised is slots
    assert errors is update.errors
    expected = dict(zip(slots.tolist(), errors.abs().double().tolist(), strict=True))  # the last of duplicates
    values = agent.replay.priorities.values
    assert {slot: values[slot] for slot in expected} == pytest.approx(
        {slot: (error + 1e-6) ** 0.6 for slot, error in expected.items()}
    )


def test_arguments_passed_between_components() -> None:
    agent, environment = scripted(tiny(2, exploration={"epsilon_start": 0.0, "epsilon_end": 0.0}))
    calls: dict[str, tuple[Any, ...]] = {}
    agent.learner.network.register_forward_hook(lambda _, inputs, outputs: calls.update(network=(*inputs, *outputs)))
    for owner, name in [
        (agent.adjuster, "adjust"),
        (environment, "step"),
        (agent.adjuster, "plan"),
        (agent.replay, "append"),
    ]:
        watch(owner, name, lambda *call, name=name: calls.update({name: call}))
    agent.learner.update = lambda batch: Update(*torch.zeros(3))  # type: ignore[method-assign]

    observations = run(agent, environment, 12)[-1].observations
    q_eva = np.array([[0.0, 2.0, 1.0], [3.0, 2.0, 1.0]])
    adjust, seen = agent.adjuster.adjust, []
    agent.adjuster.adjust = lambda *args: (seen.append(args), adjust(*args), q_eva)[-1]  # type: ignore[method-assign]
    actions = agent.act(observations)
    inputs, q_theta, h = calls["network"]
    assert np.array_equal(inputs.numpy(), observations)
    assert np.array_equal(seen[0][0], q_theta.numpy())
    assert seen[0][1] is h
    assert seen[0][2] == 0.4
    assert actions.tolist() == [1, 0]  # what Q_EVA says

    outcome = environment.step(actions)
    agent.observe(outcome)
    _, planned_for, episode_starts = calls["plan"]
    assert planned_for is h
    assert not episode_starts.any()
    _, stored, stored_actions, rewards, terminated, embeddings, truncated, last_states = calls["append"]
    assert stored is observations
    assert stored_actions.tolist() == [1, 0]
    assert rewards.tolist() == [0.0, 1.0]
    assert not terminated.any()
    assert embeddings is h
    assert not truncated.any()
    assert np.array_equal(last_states(np.array([1]))[0], outcome.last_observations[[1]])


@BOTH_SIZES
def test_episode_starts_are_passed_to_the_planner(num_environments: int) -> None:
    script = [letter * num_environments for letter in "...|T..."]
    agent, environment = scripted(
        tiny(num_environments, learner={"learning_starts_transitions": num_environments}), script
    )
    starts: list[list[bool]] = []
    watch(agent.adjuster, "plan", lambda _, embeddings, episode_starts: starts.append(episode_starts.tolist()))
    run(agent, environment, 7)
    # EVA applies from when there is a complete transition: after the second step.
    assert starts == [[begins] * num_environments for begins in (False, False, True, True, False)]


def test_observe_without_act_raises() -> None:
    agent, environment = scripted(tiny(1))
    observations = environment.reset()
    outcome = environment.step(np.array([0]))
    with pytest.raises(RuntimeError, match="call act before observe"):
        agent.observe(outcome)
    agent.act(observations)
    agent.observe(outcome)
    with pytest.raises(RuntimeError, match="call act before observe"):
        agent.observe(outcome)


@pytest.mark.parametrize("reward", [np.nan, np.inf, -np.inf, 1e39, None])
def test_reward_that_is_not_finite_is_rejected_before_it_is_stored(reward: float | None) -> None:
    agent, environment = scripted(tiny(2))
    agent.act(environment.reset())
    outcome = environment.step(np.array([0, 0]))
    agent.observe(outcome)
    rewards = np.array([0.0, reward], float)
    sentence = r"environment 1 gave the reward (nan|-?inf|1e\+39) at step 2 .*: let every reward be a finite number\."
    agent.act(outcome.observations)
    with pytest.raises(UserError, match=sentence):
        agent.observe(replace(outcome, rewards=rewards))
    flags, embeddings = np.zeros(2, bool), np.zeros((2, 8), np.float32)
    with pytest.raises(UserError, match=sentence):
        agent.adjuster.observe(embeddings, np.zeros(2, int), rewards, flags, flags)
    assert agent.replay.lane_counts.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("script", "kinds"),
    [
        (["..", "..", ".."], [[STEP, STEP, STEP], [STEP, STEP, STEP]]),
        (["..", "T.", ".."], [[STEP, TERMINATION, STEP], [STEP, STEP, STEP]]),
        (["..", ".|", ".."], [[STEP, STEP, STEP], [STEP, STEP, CLOSING, STEP]]),
        (["||", ".T", ".."], [[STEP, CLOSING, STEP, STEP], [STEP, CLOSING, TERMINATION, STEP]]),
    ],
)
def test_only_a_truncation_appends_a_closing_slot(script: list[str], kinds: list[list[int]]) -> None:
    agent, environment = scripted(tiny(2, learner=NO_LEARNING), script)
    run(agent, environment, 3)
    assert agent.replay.lane_counts.tolist() == [len(lane) for lane in kinds]
    for lane, expected in enumerate(kinds):
        first = lane * agent.replay.lane_capacity
        assert agent.replay.kinds[first : first + len(expected)].tolist() == expected


def test_a_closing_slot_is_the_last_state_of_its_episode() -> None:
    agent, environment = scripted(tiny(4, learner=NO_LEARNING), ["....", ".|T|", "...."])
    outcome = run(agent, environment, 3)[1]
    with torch.no_grad():
        _, h = agent.learner.network(torch.from_numpy(outcome.last_observations))
    assert not np.array_equal(outcome.last_observations[1], outcome.observations[1])
    for lane in (1, 3):
        slot = lane * agent.replay.lane_capacity + 2
        assert agent.replay.kinds[slot] == CLOSING
        stored, following = agent.replay.observations_at(np.array([slot, slot + 1]))
        assert np.array_equal(stored, outcome.last_observations[lane])
        torch.testing.assert_close(agent.replay.embeddings[slot], h[lane])
        assert agent.replay.discounts[slot - 1] == np.float32(0.99)  # what was cut off is bootstrapped
        assert np.array_equal(following, outcome.observations[lane])
    terminated = 2 * agent.replay.lane_capacity + 1
    assert agent.replay.discounts[terminated] == 0.0
    (following,) = agent.replay.observations_at(np.array([terminated + 1]))
    assert np.array_equal(following, outcome.observations[2])


@BOTH_SIZES
def test_metrics_are_declared_and_their_means_restart(num_environments: int) -> None:
    agent, environment = scripted(tiny(num_environments))
    assert set(agent.metrics()) == {"epsilon", "weight", "updates", "replay_transitions", "value_buffer_entries"}
    run(agent, environment, 40)
    metrics = agent.metrics()
    assert set(metrics) <= set(METRICS)
    assert set(metrics) - set(agent.metrics()) == {"loss", "value", "changed_share"}
    assert metrics["epsilon"] == pytest.approx(0.3)
    assert metrics["weight"] == 0.4
    assert metrics["updates"] == agent.learner.num_updates > 0
    assert metrics["replay_transitions"] == min(40 * num_environments, 80) - num_environments
    assert metrics["value_buffer_entries"] == len(agent.adjuster.value_buffers[0]) > 0


def test_metrics_are_means_since_the_last_call() -> None:
    agent, environment = scripted(tiny(2))
    losses: list[float] = []
    values: list[float] = []
    watch(agent.learner, "update", lambda update, _: losses.append(update.loss.item()))
    watch(agent.adjuster, "adjust", lambda _, q_theta, *__: values.extend(q_theta.max(axis=1).tolist()))
    run(agent, environment, 20)
    for _ in range(2):
        agent.metrics()
        losses.clear()
        values.clear()
        run(agent, environment, 3)
        metrics = agent.metrics()
        assert len(losses) == 3
        assert metrics["loss"] == pytest.approx(np.mean(losses))
        assert metrics["value"] == pytest.approx(np.mean(values))


def test_changed_share_counts_the_decisions_that_eva_changed() -> None:
    agent, environment = scripted(tiny(4))
    observations = run(agent, environment, 5)[-1].observations
    agent.metrics()

    def adjust(q_theta: np.ndarray, *_: Any) -> np.ndarray:
        q_eva = q_theta.copy()
        q_eva[0] = -q_eva[0]  # the best action becomes the worst
        return q_eva

    agent.adjuster.adjust = adjust  # type: ignore[method-assign]
    agent.act(observations)
    assert agent.metrics()["changed_share"] == 0.25


def test_running_means() -> None:
    means = Monitor()
    assert means.take() == {}
    means.add("a", torch.tensor([1.0, 2.0]))
    means.add("a", torch.tensor([6.0]))
    means.add("b", torch.tensor([True, False]))
    assert means.take() == {"a": 3.0, "b": 0.5}
    means.add("a", torch.tensor(5.0))
    assert means.take() == {"a": 5.0}


@BOTH_SIZES
@pytest.mark.parametrize("environment_id", ["CartPole-v1", "eva/CoinMaze-v0"])
def test_agent_runs_on_vectors_and_on_images(environment_id: str, num_environments: int) -> None:
    config = changed(tiny(num_environments), environment={"id": environment_id})
    agent, environment = built(config)
    outcomes = run(agent, environment, 60)
    assert any((outcome.terminated | outcome.truncated).any() for outcome in outcomes)
    metrics = agent.metrics()
    assert metrics["updates"] == 60 - 16 // num_environments + 1
    assert metrics["value_buffer_entries"] == 48
    assert all(np.isfinite(value) for value in metrics.values())
    assert all(parameter.isfinite().all() for parameter in agent.learner.network.parameters())
