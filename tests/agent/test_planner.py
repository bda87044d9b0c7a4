from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eva.agent import adjuster
from eva.agent.network import QNetwork
from eva.agent.value_buffer import ValueBuffer
from eva.build import build_adjuster, build_agent
from eva.config import Config, EnvironmentConfig, EVAConfig, LearnerConfig, NetworkConfig, ReplayConfig, RunConfig
from eva.types import EnvironmentSpec, Neighbour, StepOutcome
from tests.helpers.reference.agent import Trace, each, mix, plan
from tests.helpers.reference.kbrl import kernel_based_rl
from tests.helpers.reference.neighbours import nearest
from tests.helpers.reference.traces import n_step, trajectory_centric_planning
from tests.helpers.reference.value_buffer import ReferenceValueBuffer
from tests.helpers.strategies import EMBEDDING_SIZE, NUM_ACTIONS, STEP, MemoryCase, generators, memory_cases


def small_network(generator: np.random.Generator) -> QNetwork:
    """Return a network whose values are exact in single precision: all parameters are quarters or whole numbers."""
    network = QNetwork(
        (1,),
        NUM_ACTIONS,
        channels=(),
        filter_sizes=(),
        strides=(),
        hidden_sizes=(),
        embedding_size=EMBEDDING_SIZE,
        white=1,
        generator=generator,
    )
    with torch.no_grad():
        for parameter in network.torso.parameters():
            parameter.copy_(torch.tensor(generator.integers(-1, 4, tuple(parameter.shape))))
        for parameter in network.head.parameters():
            parameter.copy_(torch.tensor(generator.integers(-4, 5, tuple(parameter.shape)) / 4))
    return network


class PlannerCase:
    """A round of planning by the code under test and by the oracle, over the same memory."""

    def __init__(self, memory: MemoryCase, config: EVAConfig) -> None:
        self.memory, self.config = memory, config
        self.network = small_network(memory.generator)
        self.adjuster = build_adjuster(config, memory.replay, self.network.values, self.network, NUM_ACTIONS)
        shared = config.value_buffers == "shared"
        num_buffers = 1 if shared else memory.num_environments
        buffers = [
            ReferenceValueBuffer(config.value_buffer_capacity // num_buffers, config.num_neighbours)
            for _ in range(num_buffers)
        ]
        self.references = buffers * memory.num_environments if shared else buffers  # of each environment
        self.num_steps = 0

    def plan(self, queries: torch.Tensor, episode_starts: list[bool]) -> None:
        self.adjuster.plan(queries, np.array(episode_starts))
        config = self.config
        for query, starts, value_buffer in zip(queries.tolist(), episode_starts, self.references, strict=True):
            if self.num_steps % config.plan_period_steps == 0 or (config.plan_at_episode_start and starts):
                plan(
                    query,
                    self.memory.reference,
                    value_buffer,
                    self._q_theta,
                    self._trace(),
                    config.num_trajectories,
                    config.trajectory_length,
                    start_only=config.value_buffer_entries == "start",
                    recompute=self._recompute if config.remembered_values == "recomputed" else None,
                )
        self.num_steps += bool(self.memory.reference.starts())  # P30: the clock stands still until there is something

    def assert_equal(self, queries: torch.Tensor, weight: float) -> None:
        """Compare what lies in the value buffers, in order, and the values that decisions are made with."""
        references = list({id(x): x for x in self.references}.values())
        for buffer, expected in zip(self.adjuster.value_buffers, references, strict=True):
            order = buffer.index.born.argsort()
            order = order[buffer.index.admitted[order]]
            assert buffer.index.keys[order].tolist() == [h for h, _ in expected.entries]
            q_np = np.array([q for _, q in expected.entries]).reshape(-1, NUM_ACTIONS)
            tolerance = 1e-5 if self.config.trace == "kbrl" else 0
            np.testing.assert_allclose(buffer.values[order], q_np, rtol=tolerance, atol=tolerance)
        q_theta = self.network.values(queries).detach()
        q_eva = self.adjuster.adjust(q_theta, queries, weight)
        rows = zip(q_theta.tolist(), queries.tolist(), self.references, strict=True)
        expected_q_eva = [mix(q, value_buffer.read(h), weight) for q, h, value_buffer in rows]
        np.testing.assert_allclose(q_eva, expected_q_eva, rtol=1e-5, atol=1e-4)
        for e, (q, h, value_buffer) in enumerate(zip(q_theta, queries, self.references, strict=True)):
            explanation = self.adjuster.explain(q, h, weight, e)
            np.testing.assert_allclose(explanation.q_eva, expected_q_eva[e], rtol=1e-5, atol=1e-4)
            self._assert_neighbours(explanation.neighbours, h.tolist(), value_buffer)

    def _assert_neighbours(self, found: Sequence[Neighbour], h: list[float], expected: ReferenceValueBuffer) -> None:
        """An explanation looks up the values where they were planned; they must be those that were averaged."""
        keys = [key for key, _ in expected.entries]
        k = expected.k if len(keys) >= expected.k else 0
        for neighbour, (i, squared_distance) in zip(found, nearest(keys, range(len(keys)), h, k), strict=True):
            assert neighbour.distance == pytest.approx(math.sqrt(squared_distance))
            np.testing.assert_allclose(neighbour.q_np, expected.entries[i][1], rtol=1e-5, atol=1e-5)
            np.testing.assert_array_equal(neighbour.trajectory.q_np[neighbour.step], neighbour.q_np)

    def _trace(self) -> Trace:
        if self.config.trace == "kbrl":
            return partial(
                kernel_based_rl,
                bandwidth=self.config.kbrl_bandwidth,
                parametric_similarity=self.config.kbrl_similarity,
                num_sweeps=self.config.trajectory_length + 1,
            )
        return each({"n-step": n_step, "tcp": trajectory_centric_planning}[self.config.trace])

    def _q_theta(self, embedding: list[float]) -> list[float]:
        weight, bias = self.network.head.weight.tolist(), self.network.head.bias.tolist()
        return [
            sum(w * h for w, h in zip(row, embedding, strict=True)) + b for row, b in zip(weight, bias, strict=True)
        ]

    def _recompute(self, observation_id: int) -> list[float]:
        weight, bias = (parameter.tolist() for parameter in self.network.torso.parameters())
        return [max(0.0, w * observation_id + b) for (w,), b in zip(weight, bias, strict=True)]


configs = st.builds(
    EVAConfig,
    trace=st.sampled_from(["tcp", "n-step", "kbrl"]),
    num_trajectories=st.integers(1, 6),
    trajectory_length=st.integers(1, 5),
    plan_period_steps=st.integers(1, 3),
    plan_at_episode_start=st.booleans(),
    num_neighbours=st.integers(1, 4),
    value_buffer_capacity=st.integers(4, 80),
    value_buffer_entries=st.sampled_from(["all", "start"]),
    value_buffers=st.sampled_from(["shared", "per-environment"]),
    remembered_values=st.sampled_from(["stored", "recomputed"]),
    kbrl_bandwidth=st.sampled_from([1e-4, 1.0]),
    kbrl_similarity=st.sampled_from([1e-2, 1.0]),
)


@settings(max_examples=250)
@given(memory=memory_cases(), config=configs, num_rounds=st.integers(1, 4), data=st.data())
def test_planning_rounds_match_the_paper(
    memory: MemoryCase, config: EVAConfig, num_rounds: int, data: st.DataObject
) -> None:
    case = PlannerCase(memory, config)
    num = memory.num_environments
    for _ in range(num_rounds):
        case.plan(memory.queries(num), data.draw(st.lists(st.booleans(), min_size=num, max_size=num)))
        case.assert_equal(memory.queries(num), data.draw(st.sampled_from([0.0, 0.4, 1.0])))
        memory.remember([STEP] * num)


# --- The readings of the paper, one by one, over one lane of nine states ---------------------------------------------

PLAIN = EVAConfig(num_trajectories=2, trajectory_length=3, num_neighbours=1, value_buffer_capacity=100)


def nine_states(num_environments: int = 1) -> MemoryCase:
    memory = MemoryCase(num_environments, 20, np.random.default_rng(0))
    for _ in range(9):
        memory.remember([STEP] * num_environments)
    return memory


def planned(config: EVAConfig, num_environments: int = 1) -> tuple[PlannerCase, Sequence[ValueBuffer]]:
    case = PlannerCase(nine_states(num_environments), config)
    case.query = case.memory.queries(num_environments)
    case.plan(case.query, [True] * num_environments)
    return case, case.adjuster.value_buffers


def test_p2_all_steps_enter_the_value_buffer_or_only_the_first() -> None:
    case, (all_steps,) = planned(PLAIN)
    _, (only_starts,) = planned(replace(PLAIN, value_buffer_entries="start"))
    (starts,) = case.memory.replay.search(case.query, 2)[0].tolist()
    all_slots = [slot for start in starts for slot in range(start, min(start + 3, 8))]  # T = 3; slot 8 is the newest
    for buffer, slots in ((only_starts, starts), (all_steps, all_slots)):
        assert buffer.index.keys[: len(buffer)].tolist() == case.memory.replay.embeddings[slots].tolist()


@pytest.mark.parametrize("remembered_values", ["stored", "recomputed"])
def test_p6_keys_are_stored_or_recomputed_but_the_search_is_among_the_stored(remembered_values: str) -> None:
    config = replace(PLAIN, remembered_values=remembered_values, value_buffer_entries="start")
    case, (buffer,) = planned(config)
    (slots,) = case.memory.replay.search(case.query, 2)[0]
    stored = case.memory.replay.embeddings[slots]
    recomputed = case.network(torch.tensor(case.memory.replay.observations_at(slots)))[1]
    assert not torch.equal(stored, recomputed)
    assert torch.equal(buffer.index.keys[: len(buffer)], stored if remembered_values == "stored" else recomputed)


def test_p8_per_environment_buffers_hold_their_own_plans_and_share_the_capacity() -> None:
    config = replace(PLAIN, value_buffer_entries="start")
    _, (shared,) = planned(config, num_environments=3)
    _, buffers = planned(replace(config, value_buffers="per-environment"), num_environments=3)
    assert len(shared.values) == 100
    assert [len(buffer.values) for buffer in buffers] == [33, 33, 33]
    for e, buffer in enumerate(buffers):
        assert len(buffer) == 2
        assert buffer.values[:2].tolist() == shared.values[2 * e : 2 * e + 2].tolist()


def test_p4_plans_at_the_first_step_and_then_every_twenty() -> None:
    case = PlannerCase(nine_states(), replace(PLAIN, value_buffer_entries="start"))
    (buffer,) = case.adjuster.value_buffers
    planned_at = []
    for step in range(61):
        before = buffer.index.num_written
        case.adjuster.plan(case.memory.queries(1), np.array([step == 7]))  # an episode's start changes nothing
        if buffer.index.num_written > before:
            planned_at.append(step)
    assert planned_at == [0, 20, 40, 60]


@pytest.mark.parametrize("array", [np.array, torch.tensor])
def test_p23_may_also_plan_where_an_episode_begins_and_only_there(array: Callable[[list[bool]], Any]) -> None:
    config = replace(PLAIN, value_buffer_entries="start", value_buffers="per-environment", plan_at_episode_start=True)
    case = PlannerCase(nine_states(3), config)
    for step in range(21):
        case.adjuster.plan(case.memory.queries(3), array([step == 0, step == 7, step in (8, 20)]))
    # two entries for each plan: at steps 0 and 20, and at 7 or 8
    assert [buffer.index.num_written for buffer in case.adjuster.value_buffers] == [4, 6, 6]


def test_p24_without_plans_q_theta_decides() -> None:
    case = PlannerCase(nine_states(), replace(PLAIN, num_neighbours=3, value_buffer_entries="start"))
    h, q_theta = case.memory.queries(1), torch.tensor([[1.0, 2.0, 3.0]])
    case.plan(h, [True])  # two entries, one too few
    q_eva = case.adjuster.adjust(q_theta, h, 1.0)
    assert torch.equal(q_eva, q_theta)
    q_eva[:] = 0  # and it is not the same memory
    assert q_theta.tolist() == [[1.0, 2.0, 3.0]]


def test_planning_without_memories_does_nothing() -> None:
    case = PlannerCase(MemoryCase(2, 4, np.random.default_rng(0)), PLAIN)
    case.plan(case.memory.queries(2), [True, True])
    assert [len(buffer) for buffer in case.adjuster.value_buffers] == [0]


class Recorder:
    """Stand in for an adjuster; write down what is in the memory when it is called."""

    def __init__(self, lane_counts: np.ndarray) -> None:
        self.lane_counts, self.calls = lane_counts, []

    def adjust(self, q_theta: torch.Tensor, embeddings: torch.Tensor, nonparametric_weight: float) -> torch.Tensor:
        self.calls.append(("adjust", self.lane_counts.tolist()))
        return q_theta

    def plan(self, embeddings: torch.Tensor, episode_starts: np.ndarray) -> None:
        self.calls.append(("plan", self.lane_counts.tolist(), episode_starts.tolist()))


def test_p22_plans_are_made_after_the_decision_and_before_its_state_is_stored() -> None:
    config = Config(
        environment=EnvironmentConfig(num_environments=2),
        network=NetworkConfig(hidden_sizes=(4,), embedding_size=2),
        replay=ReplayConfig(replay_capacity=40),
        learner=LearnerConfig(batch_size=2, learning_starts_transitions=1),
        run=RunConfig(device="cpu"),
    )
    agent = build_agent(config, EnvironmentSpec(2, 3, (1,), np.dtype(np.float32)))
    agent.adjuster = Recorder(agent.replay.lane_counts)
    observations = np.zeros((2, 1), np.float32)
    for step in range(4):
        agent.act(observations)
        truncated = np.array([False, step == 2])
        agent.observe(StepOutcome(observations, np.zeros(2), np.zeros(2, np.bool_), truncated, observations))
    # one complete transition is needed, so that it begins at the third state, while two are stored; the truncation
    # stores one more
    assert agent.adjuster.calls == [
        ("adjust", [2, 2]),
        ("plan", [2, 2], [False, False]),
        ("adjust", [3, 4]),
        ("plan", [3, 4], [False, True]),
    ]


@settings(max_examples=50)
@given(generator=generators, weight=st.sampled_from([0.0, 0.25, 0.4, 1.0]))
def test_p1_the_weight_is_on_the_planned_values(generator: np.random.Generator, weight: float) -> None:
    q_theta, q_np = torch.tensor(generator.standard_normal((2, 3, 4)))
    expected = [mix(q, n, weight) for q, n in zip(q_theta.tolist(), q_np.tolist(), strict=True)]
    assert adjuster.mix(q_theta, q_np, weight).tolist() == expected
