"""Explanations match the decisions, and an adjuster in a user's own loop matches the agent's."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import eva
from eva.agent.adjuster import EphemeralValueAdjuster
from eva.agent.agent import EVAAgent
from eva.config import EVAConfig
from eva.runs.checkpoint.state import pack
from eva.types import Explanation
from tests.helpers.agents import built, frozen, run, same, scripted, tiny, watch
from tests.helpers.reference.neighbours import nearest
from tests.helpers.reference.traces import n_step, trajectory_centric_planning
from tests.helpers.reference.trajectories import ReferenceMemory, RememberedTrajectory

A, D = 3, 4
SMALL = EVAConfig(
    num_trajectories=3, trajectory_length=5, plan_period_steps=4, num_neighbours=3, value_buffer_capacity=40
)
VARIANTS = {
    "shared": SMALL,
    "per-environment": replace(SMALL, value_buffers="per-environment"),
    "start": replace(SMALL, value_buffer_entries="start", plan_at_episode_start=True),
    "n-step": replace(SMALL, trace="n-step"),
}


# The agent.


def test_explanation_matches_the_next_decision() -> None:
    agent, environment = built(tiny())
    used: list[tuple[np.ndarray, np.ndarray]] = []
    watch(agent.adjuster, "adjust", lambda q_eva, q, *_: used.append((q.copy(), q_eva.copy())))
    observations = environment.reset()
    planned = changed = 0
    for _ in range(90):
        explanation = agent.explain(observations[0])
        assert explanation.nonparametric_weight == agent.weight
        used.clear()
        outcome = environment.step(agent.act(observations))
        if used:  # EVA applies: the adjuster was asked
            ((q_theta, q_eva),) = used
            assert same(explanation.q_theta, q_theta[0])
            assert same(explanation.q_eva, q_eva[0])
            assert explanation.action == q_eva[0].argmax()
            assert explanation.changed == (q_eva[0].argmax() != q_theta[0].argmax())
            planned += explanation.q_np is not None
            changed += explanation.changed
        agent.observe(outcome)
        observations = outcome.observations
    assert planned > 30
    assert 0 < changed < planned


def test_more_neighbours_can_be_returned_than_are_averaged() -> None:
    agent, environment = built(tiny())
    observation = run(agent, environment, 90)[-1].observations[0]
    usual, more, all_ = (agent.explain(observation, num_neighbours=num) for num in (None, 5, 10_000))
    k = agent.adjuster.value_buffers[0].num_neighbours
    assert (len(usual.neighbours), len(more.neighbours)) == (k, 5)
    assert k < 5
    assert len(all_.neighbours) == len(agent.adjuster.value_buffers[0])
    assert same(more.neighbours[:k], usual.neighbours)
    assert same(all_.neighbours[:5], more.neighbours)
    distances = [neighbour.distance for neighbour in all_.neighbours]
    assert distances == sorted(distances)
    assert same((more.q_np, more.q_eva), (usual.q_np, usual.q_eva))


def test_explanation_without_plans_is_q_theta() -> None:
    agent, environment = built(tiny())
    observation = environment.reset()[0]
    explanation = agent.explain(observation)
    with torch.no_grad():
        q_theta, _ = agent.learner.network(torch.from_numpy(observation[None]))
    assert same(explanation.q_theta, q_theta[0].numpy())
    assert explanation.q_np is None
    assert same(explanation.q_eva, explanation.q_theta)
    assert explanation.neighbours == ()
    assert explanation.nonparametric_weight == 0
    assert not explanation.changed


@pytest.mark.parametrize("num_environments", [1, 2])
def test_explaining_changes_nothing(num_environments: int) -> None:
    config = tiny(num_environments, eva={"value_buffers": "per-environment"})
    (one, environment), (other, same_environment) = built(config), built(config)
    observations = environment.reset()
    for _ in range(60):
        before = frozen(one.state_dict())
        explanations = [one.explain(observations[e], e) for e in range(num_environments)]
        assert same(frozen(one.state_dict()), before)
        assert same([one.explain(observations[e], e) for e in range(num_environments)], explanations)
        outcome = environment.step(one.act(observations))
        one.observe(outcome)
        observations = outcome.observations
    assert explanations[0].q_np is not None
    run(other, same_environment, 60)  # without explanations
    assert same(frozen(one.state_dict()), frozen(other.state_dict()))


def test_resumed_agent_gives_the_same_explanation() -> None:
    config = tiny(2, eva={"value_buffers": "per-environment"})
    agent, environment = built(config)
    outcome = run(agent, environment, 70)[-1]
    resumed, _ = built(replace(config, seed=9))
    resumed.load_state_dict(frozen(agent.state_dict()))
    for e in range(2):
        explanation = agent.explain(outcome.observations[e], e)
        assert len(explanation.neighbours) == config.eva.num_neighbours
        assert same(resumed.explain(outcome.observations[e], e), explanation)
    first, second = (agent.explain(outcome.observations[0], e) for e in range(2))
    assert not same(first, second), "each environment has plans of its own"


# The adjuster, by itself.


@dataclass(frozen=True)
class Entry:
    """What the oracle knows of an entry of the value buffer."""

    embedding: list[float]
    q_np: list[list[float]]  # of the whole trajectory
    trajectory: RememberedTrajectory
    step: int
    environment: int
    index: int  # of the trajectory's first state in its environment's history


class Stream:
    """Random transitions of two environments, given to an adjuster and to plain-Python histories."""

    def __init__(self, config: EVAConfig, as_arrays: bool = False, memory_capacity: int = 60) -> None:
        generator = torch.Generator().manual_seed(3)
        weights, biases = torch.randn(A, D, generator=generator), torch.randn(A, generator=generator)
        self.values: Callable[[Tensor], Tensor] = lambda h: h @ weights.T + biases
        self.config = config
        self.adjuster = eva.make_adjuster(
            self.values,
            embedding_size=D,
            num_actions=A,
            num_environments=2,
            memory_capacity=memory_capacity,
            discount=0.9,
            config=config,
        )
        self.memory = ReferenceMemory(2, memory_capacity // 2)
        self.per_environment = config.value_buffers == "per-environment"
        self.entries: list[list[Entry]] = [[], []] if self.per_environment else [[]]
        self.mixed: list[np.ndarray] = []
        self._as_arrays = as_arrays
        self._generator = np.random.default_rng(4)
        self._starts = [True, True]
        self._num_steps = 0

    def query(self) -> Tensor:
        """Return embeddings of two states."""
        return torch.from_numpy(self._generator.normal(size=(2, D)).astype(np.float32))

    def step(self) -> None:
        """Adjust, observe, and do the same with the oracle."""
        h, last_h = self.query(), self.query()
        actions, rewards = self._generator.integers(A, size=2), self._generator.normal(size=2).astype(np.float32)
        letters = self._generator.choice(list(".....T|"), size=2)
        terminated, truncated = letters == "T", letters == "|"
        given = [x.numpy() for x in (self.values(h), h, last_h)] if self._as_arrays else [self.values(h), h, last_h]
        self.mixed.append(np.asarray(self.adjuster.adjust(given[0], given[1], 0.3)))
        self.adjuster.observe(given[1], actions, rewards, terminated, truncated, given[2])

        can_plan = bool(self.memory.starts())  # P30: the clock stands still until then
        for e in range(2):
            if self._num_steps % self.config.plan_period_steps == 0 or (
                self.config.plan_at_episode_start and self._starts[e]
            ):
                self._plan(e, h[e].tolist())
        for e in range(2):
            discount = 0.0 if terminated[e] else float(np.float32(0.9))
            self.memory.append(e, int(actions[e]), float(rewards[e]), discount, bool(terminated[e]), 0, h[e].tolist())
        for e in truncated.nonzero()[0]:
            self.memory.close(int(e), 0, last_h[e].tolist())
        self._starts = (terminated | truncated).tolist()
        self._num_steps += can_plan

    def _plan(self, environment: int, query: list[float]) -> None:
        starts = self.memory.starts()
        keys, born = [self.memory.embedding(*s) for s in starts], [self.memory.born(*s) for s in starts]
        entries = self.entries[environment if self.per_environment else 0]
        for i, _ in nearest(keys, born, query, self.config.num_trajectories):
            trajectory = self.memory.trajectory(*starts[i], self.config.trajectory_length)
            states = [h if h is not None else [0.0] * D for h in trajectory.embeddings]
            trace = n_step if self.config.trace == "n-step" else trajectory_centric_planning
            q_np = trace(trajectory, self.values(torch.tensor(states)).tolist())
            for t in range(1 if self.config.value_buffer_entries == "start" else len(q_np)):
                entries.append(Entry(states[t], q_np, trajectory, t, *starts[i]))
        del entries[: -(self.config.value_buffer_capacity // len(self.entries))]

    def expected(self, environment: int, query: list[float]) -> list[tuple[Entry, float]]:
        """Return the nearest entries and their squared distances."""
        entries = self.entries[environment if self.per_environment else 0]
        order = list(range(len(entries)))
        found = nearest([entry.embedding for entry in entries], order, query, self.config.num_neighbours)
        return [(entries[i], distance) for i, distance in found]


def explained(stream: Stream, h: Tensor, environment: int) -> Explanation:
    return stream.adjuster.explain(stream.values(h)[environment], h[environment], 0.3, environment)


@pytest.mark.parametrize("name", VARIANTS)
def test_neighbours_and_trajectories_match_the_reference(name: str) -> None:
    stream = Stream(VARIANTS[name])
    terminal = overwritten = 0
    for _ in range(90):
        stream.step()
        if not all(len(entries) >= SMALL.num_neighbours for entries in stream.entries):
            continue
        h = stream.query()
        q_eva = stream.adjuster.adjust(stream.values(h), h, 0.3)
        for e in range(2):
            explanation = explained(stream, h, e)
            expected = stream.expected(e, h[e].tolist())
            assert len(explanation.neighbours) == len(expected) == SMALL.num_neighbours
            for neighbour, (entry, squared_distance) in zip(explanation.neighbours, expected, strict=True):
                assert neighbour.distance == pytest.approx(squared_distance**0.5, rel=1e-12)
                assert neighbour.step == entry.step
                trajectory, oracle, length = neighbour.trajectory, entry.trajectory, len(entry.trajectory.actions)
                places = [(entry.environment, entry.index + t) for t in range(length)]
                assert trajectory.slots.tolist() == [stream.memory.slot(*place) for place in places]
                assert trajectory.actions.tolist() == oracle.actions
                assert trajectory.rewards.tolist() == oracle.rewards
                assert trajectory.ages.tolist() == [
                    stream.memory.num_born - stream.memory.born(*place) for place in places
                ]
                np.testing.assert_allclose(trajectory.q_np, entry.q_np, rtol=1e-4, atol=1e-5)
                backed_up = [q[a] for q, a in zip(entry.q_np, oracle.actions, strict=True)]
                np.testing.assert_allclose(trajectory.backed_up, backed_up, rtol=1e-4, atol=1e-5)
                assert same(neighbour.q_np, trajectory.q_np[neighbour.step])
                terminal += oracle.discounts[-1] == 0
                overwritten += int(trajectory.ages.max()) > 60
            mean = np.mean([neighbour.q_np for neighbour in explanation.neighbours], axis=0)
            np.testing.assert_allclose(explanation.q_np, mean, rtol=1e-5, atol=1e-6)
            assert same(explanation.q_theta, stream.values(h)[e].numpy())
            assert same(explanation.q_eva, q_eva[e].numpy())
            np.testing.assert_allclose(
                explanation.q_eva, 0.7 * explanation.q_theta + 0.3 * explanation.q_np, rtol=1e-5, atol=1e-6
            )
            distances = [neighbour.distance for neighbour in explanation.neighbours]
            assert distances == sorted(distances)
    assert terminal > 50
    assert overwritten > 0, "some memories have left the replay buffer, and are explained all the same"


def test_arrays_and_tensors_give_the_same_numbers() -> None:
    arrays, tensors = Stream(SMALL, as_arrays=True), Stream(SMALL, as_arrays=False)
    for _ in range(60):
        arrays.step()
        tensors.step()
    assert same(arrays.mixed, tensors.mixed)
    assert same(frozen(arrays.adjuster.state_dict()), frozen(tensors.adjuster.state_dict()))
    assert same(frozen(arrays.adjuster.memory.state_dict()), frozen(tensors.adjuster.memory.state_dict()))
    h = tensors.query()
    q = tensors.values(h)
    assert same(
        arrays.adjuster.explain(q[1].numpy(), h[1].numpy(), 0.3, 1), tensors.adjuster.explain(q[1], h[1], 0.3, 1)
    )
    mixed = arrays.adjuster.adjust(q.numpy(), h.numpy(), 0.3)
    assert isinstance(mixed, np.ndarray)
    assert same(mixed, tensors.adjuster.adjust(q, h, 0.3).numpy())
    assert not same(mixed, q.numpy())


def test_weight_0_returns_the_networks_values_to_the_bit() -> None:
    stream = Stream(SMALL)
    for _ in range(30):
        stream.step()
    h = stream.query()
    assert same(stream.adjuster.adjust(stream.values(h), h, 0.0), stream.values(h))
    assert not same(stream.adjuster.adjust(stream.values(h), h, 0.1), stream.values(h))


def test_adjust_does_not_change_its_arguments() -> None:
    stream = Stream(SMALL)
    for _ in range(30):
        stream.step()
    h = stream.query()
    q = stream.values(h)
    before = q.clone(), h.clone()
    stream.adjuster.adjust(q, h, 1.0)
    assert same((q, h), before)


def test_restored_adjuster_continues_identically() -> None:
    one, other = Stream(SMALL), Stream(SMALL)
    for _ in range(50):
        one.step()
    other.adjuster.memory.load_state_dict(frozen(one.adjuster.memory.state_dict()))
    other.adjuster.load_state_dict(frozen(one.adjuster.state_dict()))
    h = one.query()
    assert same(explained(other, h, 1), explained(one, h, 1))
    for adjuster in (one.adjuster, other.adjuster):
        for _ in range(9):
            adjuster.observe(h, np.array([0, 1]), np.array([0.5, 0.25]), np.zeros(2, bool), np.zeros(2, bool))
    assert same(explained(other, h, 0), explained(one, h, 0))


def test_adjust_without_plans_returns_q_theta() -> None:
    stream = Stream(SMALL)
    h = stream.query()
    assert same(stream.adjuster.adjust(stream.values(h), h), stream.values(h))
    assert explained(stream, h, 0).q_np is None
    assert explained(stream, h, 0).neighbours == ()


def test_truncation_without_last_embeddings_raises() -> None:
    stream = Stream(SMALL)
    h, nothing = stream.query(), np.zeros(2)
    with pytest.raises(ValueError, match="pass last_embeddings"):
        stream.adjuster.observe(h, nothing.astype(int), nothing, nothing > 0, np.array([False, True]))


def test_own_adjuster_keeps_no_observations() -> None:
    with pytest.raises(eva.UserError, match="leave remembered_values at 'stored'"):
        Stream(replace(SMALL, remembered_values="recomputed"))
    with pytest.raises(eva.UserError, match="leave embeddings at 'stored'"):
        Stream(replace(SMALL, embeddings="refreshed"))
    assert Stream(SMALL).adjuster.memory.state_dict()["observations"].size == 0


@pytest.mark.parametrize("value_buffers", ["shared", "per-environment"])
def test_own_loop_matches_the_agent(value_buffers: str) -> None:
    script = ["TT", "..", ".|", "..", "T.", "||", "..", "|T"] * 8
    config = tiny(2, eva={"value_buffers": value_buffers}, learner={"learning_starts_transitions": 1})
    agent, environment = scripted(config, script)
    network = agent.learner.network
    own: EphemeralValueAdjuster = eva.make_adjuster(
        network.values,
        embedding_size=config.network.embedding_size,
        num_actions=environment.spec.num_actions,
        num_environments=2,
        memory_capacity=config.replay.replay_capacity,
        discount=config.learner.discount,
        config=config.eva,
    )
    used: list[tuple[Tensor, Tensor]] = []
    watch(agent.adjuster, "adjust", lambda q_eva, q, h, weight: used.append((q_eva, own.adjust(q, h, weight))))
    observations = environment.reset()
    for step in range(len(script)):
        with torch.no_grad():
            _, h = network(torch.from_numpy(observations))
        actions = agent.act(observations)
        outcome = environment.step(actions)
        last_h, (cut,) = torch.zeros_like(h), outcome.truncated.nonzero()
        if len(cut) > 0:
            with torch.no_grad():
                last_h[cut] = network(torch.from_numpy(outcome.last_observations[cut]))[1]
        own.num_steps = agent.adjuster.num_steps  # P30: the agent's clock begins when EVA applies
        own.observe(h, actions, outcome.rewards, outcome.terminated, outcome.truncated, last_h)
        agent.observe(outcome)  # learns, so it comes last
        observations = outcome.observations
        if step % 10 == 9:
            mine = own.explain(*(x[1] for x in network(torch.from_numpy(observations))), 0.4, 1)
            theirs = agent.adjuster.explain(*(x[1] for x in network(torch.from_numpy(observations))), 0.4, 1)
            assert same(mine, theirs)
    assert len(used) == len(script) - 1
    assert all(same(theirs, mine) for theirs, mine in used)
    assert mine.q_np is not None
    assert same(frozen(own.memory.state_dict())["embeddings"], frozen(agent.replay.state_dict())["embeddings"])


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: {"config": EVAConfig(trace="tpc")},  # type: ignore[arg-type]
        lambda: {"config": EVAConfig(value_buffer_capacity=3)},
        lambda: {"config": EVAConfig(num_trajectories=0)},
        lambda: {"config": EVAConfig(remembered_values="recomputed")},
        lambda: {"memory_capacity": 1},
        lambda: {"num_environments": 0},
        lambda: {"discount": 7.0},
    ],
)
def test_own_adjuster_is_validated_like_a_run(wrong: Callable[[], dict[str, Any]]) -> None:
    with pytest.raises(eva.UserError):
        eva.make_adjuster(torch.nn.Linear(4, 2), **{"embedding_size": 4, "num_actions": 2, **wrong()})


def test_gradients_do_not_reach_the_memory() -> None:
    head = torch.nn.Linear(4, 2)
    adjuster = eva.make_adjuster(head, embedding_size=4, num_actions=2, config=EVAConfig(num_neighbours=1))
    no, step = np.zeros(1, np.bool_), (np.zeros(1, np.int64), np.ones(1))
    for _ in range(4):
        h = torch.randn(1, 4, requires_grad=True)
        q_eva = adjuster.adjust(head(h), h)
        adjuster.observe(h, *step, no, no)
    assert not q_eva.requires_grad
    assert len(adjuster.value_buffers[0]) > 0


def test_observe_accepts_tensors_and_flags_of_any_type() -> None:
    head = torch.nn.Linear(4, 2)
    arrays, tensors, floats = (eva.make_adjuster(head, embedding_size=4, num_actions=2) for _ in range(3))
    generator = np.random.default_rng(0)
    for step in range(8):
        h, actions, rewards = generator.random((1, 4)), generator.integers(2, size=1), generator.random(1)
        terminated, truncated = np.array([step == 3]), np.array([step == 5])
        given = (h, actions, rewards, terminated, truncated, h + 1)
        arrays.observe(*given)
        tensors.observe(*map(torch.as_tensor, (h, actions, rewards, terminated.astype(int), truncated * 1, h + 1)))
        floats.observe(h, actions, rewards, terminated.astype(float), truncated.astype(float), h + 1)
    one, *others = (pack(each.memory.state_dict())[0] for each in (arrays, tensors, floats))
    assert all(np.array_equal(one[name], other[name]) for other in others for name in one)
    assert arrays.memory.num_complete == tensors.memory.num_complete == floats.memory.num_complete


def an_adjuster(num_environments: int = 2, values: Any = None, **changes: Any) -> EphemeralValueAdjuster:
    config = EVAConfig(num_neighbours=1, plan_period_steps=1, **changes)
    sizes = {"embedding_size": 4, "num_actions": 2, "num_environments": num_environments}
    return eva.make_adjuster(values or torch.nn.Linear(4, 2), config=config, **sizes)


@pytest.mark.parametrize("wrong", ["embeddings", "actions", "rewards", "terminated", "truncated", "last_embeddings"])
def test_wrong_shapes_raise_before_anything_is_stored(wrong: str) -> None:
    adjuster, no = an_adjuster(), np.zeros(2, np.bool_)
    given = {"embeddings": np.ones((2, 4)), "actions": np.zeros(2, int), "rewards": np.ones(2)}
    given |= {"terminated": no, "truncated": no}
    adjuster.store(**given)
    before = {name: array.copy() for name, array in pack(adjuster.memory.state_dict())[0].items()}
    shape = {"embeddings": (2, 5), "last_embeddings": (1, 4)}.get(wrong, (2, 1))
    with pytest.raises(ValueError, match=f"{wrong} must have shape"):
        adjuster.store(**{**given, wrong: np.ones(shape)})
    after = pack(adjuster.memory.state_dict())[0]
    assert all(np.array_equal(before[name], after[name]) for name in before)
    assert adjuster.memory.num_complete == 0


@pytest.mark.parametrize("action", [-1, 2])
def test_out_of_range_actions_raise(action: int) -> None:
    no = np.zeros(2, np.bool_)
    with pytest.raises(ValueError, match=r"must be in 0\.\.1"):
        an_adjuster().observe(np.ones((2, 4)), np.array([0, action]), np.ones(2), no, no)


def test_adjust_accepts_any_dtype_and_rejects_invalid_arguments() -> None:
    adjuster, no = an_adjuster(1), np.zeros(1, np.bool_)
    h = np.ones((1, 4), np.float32)
    for _ in range(3):
        adjuster.observe(h, np.zeros(1, int), np.ones(1), no, no)
    of_floats, of_integers = (adjuster.adjust(np.zeros((1, 2), kind), h, 0.5) for kind in (np.float32, np.int64))
    of_tensors = adjuster.adjust(torch.zeros(1, 2, dtype=torch.int64), torch.from_numpy(h), 0.5).numpy()
    assert np.array_equal(of_floats, of_integers)
    assert np.array_equal(of_floats, of_tensors)
    assert of_floats.any()
    assert adjuster.adjust(np.zeros((1, 2), np.int64), h, 0.0).dtype == np.int64
    with pytest.raises(ValueError, match="q_theta has 3 states, but embeddings has 1"):
        adjuster.adjust(np.zeros((3, 2), np.float32), h)
    for weight in (-0.1, 1.5, np.nan):
        with pytest.raises(ValueError, match=r"nonparametric_weight must be in \[0, 1\]"):
            adjuster.adjust(np.zeros((1, 2), np.float32), h, weight)
        with pytest.raises(ValueError, match=r"nonparametric_weight must be in \[0, 1\]"):
            adjuster.explain(np.zeros(2, np.float32), h[0], weight)


def test_sizes_can_be_numpy_integers() -> None:
    sizes = {"embedding_size": np.prod((4,)), "num_actions": 2, "memory_capacity": np.int64(9)}
    adjuster = eva.make_adjuster(torch.nn.Linear(4, 2), **sizes, discount=np.float32(0.5))
    assert adjuster.memory.embeddings.shape == (9, 4)


def test_per_environment_buffers_require_one_state_each() -> None:
    adjuster = an_adjuster(value_buffers="per-environment")
    for call in (lambda h: adjuster.adjust(np.zeros((3, 2)), h), adjuster.plan):
        with pytest.raises(ValueError, match="expected states of 2 environments, got 3"):
            call(np.zeros((3, 4)))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_networks_of_other_precisions(dtype: torch.dtype) -> None:
    head = torch.nn.Linear(4, 2, dtype=dtype)
    adjuster, no = an_adjuster(1, lambda h: head(h.to(dtype))), np.zeros(1, np.bool_)
    for _ in range(3):
        h = torch.rand(1, 4, dtype=dtype)
        q_eva = adjuster.adjust(head(h), h)
        adjuster.observe(h.float().numpy()[:, ::-1], np.zeros(1, int), np.ones(1), no, no)
    assert q_eva.dtype == dtype
    assert len(adjuster.value_buffers[0]) > 0


def test_deep_copy_plans_with_its_own_memory() -> None:
    agent, environment = built(tiny())
    outcome = run(agent, environment, 60)[-1]

    def answer(copied: EVAAgent) -> np.ndarray:
        copied.adjuster.num_steps = 0  # a plan is due
        copied.act(outcome.observations)
        copied.plan()
        return copied.explain(outcome.observations[0]).q_eva

    expected, copied = answer(copy.deepcopy(agent)), copy.deepcopy(agent)
    run(agent, environment, 40)
    assert np.array_equal(answer(copied), expected)
