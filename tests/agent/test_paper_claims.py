"""Claims of the paper, tested on real agents; P-numbers refer to docs/paper.md."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from itertools import pairwise
from types import FunctionType
from typing import Any

import numpy as np
import pytest
import torch

import eva.build
from eva.agent.adjuster import WeightSchedule
from eva.agent.exploration import LinearSchedule
from eva.agent.kbrl import kernel_based_rl
from eva.agent.learner import Update
from eva.agent.traces import trajectory_centric_planning
from eva.runs.loop import interact
from eva.types import Batch, Trajectories
from tests.helpers.agents import Poisoned, built, dqn, ran, run, same_learning, scripted, tiny, watch, watch_entries

CPU = torch.device("cpu")
BOTH_SIZES = pytest.mark.parametrize("num_environments", [1, 4])


# --- Weight 0 is DQN ----------------------------------------------------------------------------------------------


@BOTH_SIZES
def test_weight_0_is_dqn_to_the_bit_and_plans_nothing(num_environments: int) -> None:
    """Every experiment of Section 5: lambda = 0 is DQN (P1). It costs no planning: the adjuster is never called."""
    config = tiny(
        num_environments,
        eva={"nonparametric_weight": 0.0},
        exploration={"epsilon_start": 1.0, "epsilon_end": 0.1, "epsilon_decay_transitions": 60},
    )
    agent, environment = built(config)
    agent.adjuster = Poisoned()  # type: ignore[assignment]
    actions: list[list[int]] = []
    watch(environment, "step", lambda _, taken: actions.append(taken.tolist()))
    outcomes = run(agent, environment, 90)

    expected_actions, expected = dqn(config, 90)
    assert any(outcome.truncated.any() for outcome in outcomes)
    assert any(outcome.terminated.any() for outcome in outcomes)
    assert actions == expected_actions
    assert agent.learner.num_updates == expected.num_updates > 70
    assert same_learning(agent.learner, expected)


def test_a_weight_above_0_is_not_dqn() -> None:
    """Section 3: the adjusted values decide. Without this, the test above would pass for an agent without EVA."""
    config = tiny(4, eva={"nonparametric_weight": 0.4})
    assert not same_learning(ran(config, 60).learner, dqn(config, 60)[1])


# --- Planning -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "function"), [("tcp", "trajectory_centric_planning"), ("n-step", "n_step")])
def test_actions_not_taken_keep_q_theta_to_the_bit(name: str, function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eq. 4: off the trajectory, Q_NP(s_t, a) is Q_theta(s_t, a); from the trace into the value buffer."""
    given: list[tuple[Trajectories, np.ndarray]] = []
    kept: list[torch.Tensor] = []
    trace = getattr(eva.build, function)

    def watched(trajectories: Trajectories, q_theta: np.ndarray) -> np.ndarray:
        given.append((trajectories, q_theta.copy()))
        return trace(trajectories, q_theta)

    monkeypatch.setattr(eva.build, function, watched)
    agent, environment = built(tiny(2, eva={"trace": name}))
    watch_entries(agent, lambda _, keys, q_np, slots: kept.append(q_np.copy()))
    run(agent, environment, 60)

    assert len(given) == len(kept) > 5
    for (trajectories, q_theta), q_np in zip(given, kept, strict=True):
        states = q_theta[:, :-1][trajectories.valid]
        not_taken = trajectories.actions[trajectories.valid][:, None] != np.arange(q_theta.shape[2])
        assert q_theta.dtype == np.float32
        assert q_np.dtype == np.float32
        assert q_np[not_taken].tobytes() == states[not_taken].tobytes()
        assert not np.array_equal(q_np[~not_taken], states[~not_taken])


def remembered(num: int, length: int) -> tuple[Trajectories, np.ndarray, np.ndarray]:
    """Return trajectories of one plan through distinct states, their Q_theta and their embeddings."""
    generator = np.random.default_rng(0)
    discounts = np.full((num, length), 0.9)
    discounts[0, -1] = 0.0
    trajectories = Trajectories(
        plans=np.zeros(num, np.int64),
        slots=np.arange(num * (length + 1)).reshape(num, length + 1),
        actions=generator.integers(3, size=(num, length)),
        rewards=generator.standard_normal((num, length)),
        discounts=discounts,
        valid=np.ones((num, length), np.bool_),
    )
    q_theta = generator.standard_normal((num, length + 1, 3))
    return trajectories, q_theta, generator.standard_normal((num, length + 1, 4))


def errors(q_np: list[np.ndarray], limit: np.ndarray) -> list[float]:
    return [float(np.abs(q - limit).max()) for q in q_np]


def assert_vanishes(values: list[float], below: float) -> None:
    assert all(later < earlier for earlier, later in pairwise(values)), values
    assert values[0] > 0.1
    assert values[-1] < below


def test_kbrl_tends_to_trajectory_centric_planning() -> None:
    """Section 3.3: with a narrow kernel, states that differ do not share values, and KBRL is TCP (P7)."""
    trajectories, q_theta, embeddings = remembered(num=4, length=5)
    q_np = [
        kernel_based_rl(trajectories, q_theta, embeddings, bandwidth=bandwidth, parametric_similarity=similarity)
        for bandwidth, similarity in [(2.0, 1.0), (0.5, 1e-2), (0.2, 1e-4), (0.05, 1e-8)]
    ]
    assert_vanishes(errors(q_np, trajectory_centric_planning(trajectories, q_theta)), below=1e-6)


def test_kbrl_tends_to_q_theta_where_the_pseudo_state_is_more_similar() -> None:
    """Section 3.3: the larger the similarity to the parametric pseudo-state, the closer to Q_theta (P7)."""
    trajectories, q_theta, embeddings = remembered(num=4, length=5)
    q_np = [
        kernel_based_rl(trajectories, q_theta, embeddings, bandwidth=1.0, parametric_similarity=similarity)
        for similarity in [1e-2, 1.0, 1e2, 1e4, 1e8]
    ]
    assert_vanishes(errors(q_np, q_theta[:, :-1]), below=1e-6)


def test_kbrl_tends_to_q_theta_far_from_the_data() -> None:
    """Section 3.3: an action tried only in states far away is worth Q_theta (P7)."""
    trajectories = Trajectories(
        plans=np.zeros(2, np.int64),
        slots=np.arange(4).reshape(2, 2),
        actions=np.array([[0], [1]]),
        rewards=np.array([[0.0], [5.0]]),
        discounts=np.zeros((2, 1)),
        valid=np.ones((2, 1), np.bool_),
    )
    q_theta = np.full((2, 2, 2), -1.0)
    values = []
    for distance in [0.0, 1.0, 2.0, 4.0, 8.0]:
        embeddings = np.array([[[0.0], [100.0]], [[distance], [200.0]]])
        q_np = kernel_based_rl(trajectories, q_theta, embeddings, bandwidth=1.0, parametric_similarity=1e-2)
        values.append(q_np[0, 0, 1])  # the first state has not seen action 1; the other state has
    assert values[0] == pytest.approx((5 - 1e-2) / 1.01)
    assert_vanishes([abs(value + 1) for value in values], below=1e-9)


# --- What is ephemeral --------------------------------------------------------------------------------------------


@BOTH_SIZES
def test_mixing_never_reaches_the_learners_targets(num_environments: int) -> None:
    """Section 3: Q_EVA is for acting; training is exactly as in DQN.

    With epsilon 1 both agents see the same, so all that the weight can change is what is learned from it.
    """
    targets: dict[float, list[torch.Tensor]] = {}
    agents = {}
    for weight in (0.0, 1.0):
        config = tiny(
            num_environments,
            eva={"nonparametric_weight": weight},
            exploration={"epsilon_start": 1.0, "epsilon_end": 1.0},
        )
        agent, environment = built(config)
        agents[weight], targets[weight] = agent, []
        watch(agent.learner, "targets", lambda y, _, seen=targets[weight]: seen.append(y.clone()))
        run(agent, environment, 60)

    assert agents[1.0].metrics()["changed_share"] > 0.1
    assert len(targets[0.0]) > 40
    assert all(torch.equal(a, b) for a, b in zip(targets[0.0], targets[1.0], strict=True))
    assert same_learning(agents[0.0].learner, agents[1.0].learner)


def test_the_learner_never_reads_the_value_buffer() -> None:
    """Section 3: the value buffer serves decisions only: an update does not depend on it."""
    agent, other = ran(tiny(2), 60), ran(tiny(2), 60)
    (buffer,) = other.adjuster.value_buffers
    assert len(buffer) > 0
    buffer.values.fill(np.nan)
    buffer.index.keys.fill_(torch.nan)
    losses = [x.learner.update(x.replay.batch(x.replay.sample(x.generator, 8))).loss for x in (agent, other)]
    assert losses[0].isfinite()
    assert torch.equal(*losses)
    assert same_learning(agent.learner, other.learner)


def arrays_in(thing: Any, seen: set[int] | None = None) -> Iterator[np.ndarray]:
    """Walk attributes, containers and closures; yields every tensor and array."""
    seen = set() if seen is None else seen
    if id(thing) in seen:
        return
    seen.add(id(thing))
    inside: list[Any] = []
    if isinstance(thing, torch.Tensor):
        yield thing.detach().numpy()
        inside = [thing.grad]
    elif isinstance(thing, np.ndarray):
        yield thing
    elif isinstance(thing, dict):
        inside = [*thing.keys(), *thing.values()]
    elif isinstance(thing, list | tuple | set):
        inside = list(thing)
    elif isinstance(thing, FunctionType):
        inside = [*(cell.cell_contents for cell in thing.__closure__ or ()), *(thing.__defaults__ or ())]
    elif not isinstance(thing, type):
        inside = [getattr(thing, "__dict__", None), getattr(thing, "__self__", None)]
    for part in inside:
        yield from arrays_in(part, seen)


def holds(thing: Any, row: np.ndarray) -> bool:
    """Whether these action-values lie anywhere within."""
    fitting = (x.reshape(-1, len(row)) for x in arrays_in(thing) if x.ndim > 0 and x.shape[-1] == len(row))
    return any((x == row).all(axis=1).any() for x in fitting)


def test_nothing_of_q_eva_outlives_the_decision() -> None:
    """Section 1: the adjustments are ephemeral: used for one action and dropped."""
    agent, environment = built(tiny(2))
    decided: list[tuple[weakref.ref[np.ndarray], np.ndarray, np.ndarray]] = []

    def adjusted(q_eva: np.ndarray, q_theta: np.ndarray, *_: Any) -> None:
        decided.append((weakref.ref(q_eva), q_eva.copy(), q_theta.copy()))

    watch(agent.adjuster, "adjust", adjusted)
    decisions = 0
    observations = environment.reset()
    for _ in range(30):
        actions = agent.act(observations)
        if decided:
            reference, q_eva, q_theta = decided.pop()
            assert reference() is None
            for mixed, parametric in zip(q_eva, q_theta, strict=True):
                if not np.array_equal(mixed, parametric):  # P24: where nothing was planned, Q_EVA is Q_theta
                    decisions += 1
                    assert not holds(agent, mixed)
                    assert holds([agent, {"kept": lambda kept=mixed: kept}], mixed)
        outcome = environment.step(actions)
        agent.observe(outcome)
        observations = outcome.observations
    assert decisions > 20


# --- When EVA applies ---------------------------------------------------------------------------------------------


def test_the_annealed_weight_ends_in_dqn() -> None:
    """Section 5.2, consolidation (P29): the weight goes to 0, and from then on EVA is DQN and plans no more."""
    config = tiny(2, eva={"anneal_start_transitions": 40, "anneal_transitions": 20})
    (agent, environment), (twin, twin_environment) = built(config), built(config)
    weights: dict[int, float] = {}
    actions: list[list[int]] = []
    twin_actions: list[list[int]] = []
    watch(agent.adjuster, "adjust", lambda *args: weights.update({agent.transitions: args[-1]}))
    watch(environment, "step", lambda _, taken: actions.append(taken.tolist()))
    watch(twin_environment, "step", lambda _, taken: twin_actions.append(taken.tolist()))
    planned: list[int] = []
    watch_entries(agent, lambda *_: planned.append(agent.transitions))
    steps, twin_steps = interact(agent, environment), interact(twin, twin_environment)
    for _ in range(30):
        next(steps)
        next(twin_steps)

    assert list(weights) == list(range(16, 60, 2))
    assert {weights[t] for t in range(16, 41, 2)} == {0.4}
    assert [weights[t] for t in (44, 50, 58)] == pytest.approx([0.32, 0.2, 0.04])
    assert agent.weight == 0.0

    num_rounds = len(planned)
    twin.weight_schedule = WeightSchedule(LinearSchedule(0.0, 0.0))
    twin.adjuster = Poisoned()  # type: ignore[assignment]
    for _ in range(30):
        next(steps)
        next(twin_steps)
    assert actions == twin_actions
    assert same_learning(agent.learner, twin.learner)
    assert max(weights) == 58
    assert len(planned) == num_rounds > 0


def test_eva_can_wait_for_a_full_replay_buffer() -> None:
    """P9, Atari: EVA applies once the replay buffer is fully occupied: every environment's lane."""
    config = tiny(2, replay={"replay_capacity": 24}, eva={"start": "full"})
    agent, environment = scripted(config, ["|."] * 3 + [".."] * 20)  # truncations fill the first lane sooner
    adjusted: list[int] = []
    planned: list[int] = []
    watch(agent.adjuster, "adjust", lambda *_: adjusted.append(agent.num_steps))
    watch(agent.adjuster, "plan", lambda *_: planned.append(agent.num_steps))
    run(agent, environment, 11)
    assert agent.learner.num_updates == 4  # learning began long ago
    assert agent.replay.lane_counts.tolist() == [14, 11]
    assert agent.weight == 0.0
    assert adjusted == planned == []
    run(agent, environment, 1)
    assert agent.replay.lane_counts.tolist() == [15, 12]
    assert agent.weight == 0.4
    run(agent, environment, 3)
    assert adjusted == planned == [12, 13, 14]


@BOTH_SIZES
def test_eva_applies_from_when_learning_starts(num_environments: int) -> None:
    """P9, the maze: EVA applies from when learning starts, long before the replay buffer is full."""
    agent, environment = scripted(tiny(num_environments))
    adjusted: list[int] = []
    planned: list[int] = []
    watch(agent.adjuster, "adjust", lambda *_: adjusted.append(agent.transitions))
    watch(agent.adjuster, "plan", lambda *_: planned.append(agent.transitions))
    run(agent, environment, 16 // num_environments + 2)
    assert adjusted == planned == [16, 16 + num_environments]
    assert not agent.replay.is_full


@pytest.mark.parametrize(("num_environments", "period", "updates"), [(1, 1, 25), (4, 1, 37), (4, 2, 19)])
def test_one_update_for_each_step_of_all_environments(num_environments: int, period: int, updates: int) -> None:
    """P17: E environments step together and one update follows, from the step on with which learning starts."""
    agent, environment = scripted(tiny(num_environments, learner={"update_period_steps": period}))
    run(agent, environment, 40)
    assert agent.transitions == 40 * num_environments
    assert agent.learner.num_updates == updates


def test_a_state_never_finds_itself() -> None:
    """P22: a plan searches before its state is stored, also where the state's own transition ends the episode."""
    agent, environment = scripted(
        tiny(2, eva={"plan_period_steps": 1, "num_trajectories": 40}), ["..", ".T", "|.", "T."] * 15
    )
    present: list[np.ndarray] = []
    stored: list[list[int]] = []
    watch(agent, "act", lambda _, observations: present.append(observations))

    def searched(found: tuple[np.ndarray, np.ndarray], *_: Any) -> None:
        slots, squared_distances = found
        assert (squared_distances > 0).all()
        for row, mine in zip(slots, present[-1], strict=True):
            assert not (agent.replay.observations_at(row) == mine).all(axis=-1).any()
        newest = agent.replay.observations_at(agent.replay.index.born.argmax(keepdims=True))
        stored.append(agent.replay.lane_counts.tolist())
        assert not (newest == present[-1]).all(axis=-1).any()

    watch(agent.replay, "search", searched)
    run(agent, environment, 60)
    assert len(stored) == 52
    assert stored[0] == [10, 8]  # 8 steps, and 2 closing slots of the first environment


# --- Switches -----------------------------------------------------------------------------------------------------


def planned_at(plan_at_episode_start: bool) -> list[tuple[int, int]]:
    """Return the steps at which plans were made, and for how many environments."""
    script = [".."] * 10 + ["..", "T.", "..", ".|", "..", "TT"] + [".."] * 20
    agent, environment = scripted(tiny(2, eva={"plan_at_episode_start": plan_at_episode_start}), script)
    rounds: list[tuple[int, int]] = []
    watch(agent.replay, "search", lambda _, queries, k: rounds.append((agent.num_steps, len(queries))))
    run(agent, environment, 25)
    return rounds


def test_plans_are_made_every_n_steps() -> None:
    """P4, P23: the clock starts with EVA and runs on across episodes; or a plan at each episode's start too."""
    assert planned_at(False) == [(8, 2), (13, 2), (18, 2), (23, 2)]
    assert planned_at(True) == [(8, 2), (12, 1), (13, 2), (14, 1), (16, 2), (18, 2), (23, 2)]


def test_shared_and_own_value_buffers_agree_for_one_environment() -> None:
    """P8: with one environment, a buffer for each is the shared one."""
    shared, separate = (ran(tiny(1, eva={"value_buffers": kind}), 60) for kind in ("shared", "per-environment"))
    (one,), (other,) = shared.adjuster.value_buffers, separate.adjuster.value_buffers
    assert len(one) == len(other) == 48
    assert np.array_equal(one.values, other.values)
    assert torch.equal(one.index.keys, other.index.keys)
    assert same_learning(shared.learner, separate.learner)


def test_each_environment_may_have_its_own_value_buffer() -> None:
    """P8: an environment's buffer holds what was planned for it, in its share of the capacity."""
    entries: dict[str, dict[int, list[int]]] = {}
    found: dict[str, list[list[int]]] = {}
    for kind, capacities in (("shared", [40]), ("per-environment", [20, 20])):
        config = tiny(2, eva={"value_buffers": kind, "trajectory_length": 1, "value_buffer_capacity": 40})
        agent, environment = scripted(config)
        entries[kind] = {}
        watch(agent.replay, "search", lambda result, *_, kind=kind: found.update({kind: result[0].tolist()}))
        watch_entries(agent, lambda n, keys, q, slots, seen=entries[kind]: seen.update({n: slots.tolist()}))
        run(agent, environment, 9)  # one round of plans
        assert [len(buffer.values) for buffer in agent.adjuster.value_buffers] == capacities
    assert found["shared"] == found["per-environment"]
    mine, others = found["shared"]
    assert mine != others
    assert entries == {"shared": {0: mine + others}, "per-environment": {0: mine, 1: others}}


def test_all_steps_or_only_the_starts_enter_the_value_buffer() -> None:
    """P2: all Q values of the trajectories, or one entry for each of the M that were retrieved."""
    counts: dict[str, list[int]] = {}
    for kind in ("all", "start"):
        agent, environment = scripted(tiny(1, eva={"value_buffer_entries": kind}), ["."] * 7 + ["T"])
        found: list[list[int]] = []
        lengths: list[int] = []
        kept: list[list[int]] = []
        watch(agent.replay, "search", lambda result, *_, found=found: found.append(result[0][0].tolist()))
        watch(agent.replay, "trajectories", lambda x, *_, lengths=lengths: lengths.append(int(x.valid.sum())))
        watch_entries(agent, lambda _, keys, q, slots, kept=kept: kept.append(slots.tolist()))
        run(agent, environment, 60)
        counts[kind] = [len(slots) for slots in kept]
        if kind == "start":
            assert kept == found
        else:
            assert counts["all"] == lengths
    assert counts["start"] == [4] * 9  # M
    assert all(4 < count <= 24 for count in counts["all"])  # M T


def test_recomputed_values_are_the_stored_ones_while_the_network_does_not_change() -> None:
    """The two readings differ only in that stored embeddings become stale (P6); here only by rounding."""
    buffers = []
    taken: dict[str, list[list[int]]] = {}
    for kind in ("stored", "recomputed"):
        agent, environment = built(tiny(2, eva={"remembered_values": kind}, learner={"learning_rate": 1e-30}))
        taken[kind] = []
        watch(environment, "step", lambda _, actions, seen=taken[kind]: seen.append(actions.tolist()))
        run(agent, environment, 50)
        buffers += agent.adjuster.value_buffers
    stored, recomputed = buffers
    assert len(stored) == len(recomputed) == 48
    assert taken["stored"] == taken["recomputed"]
    torch.testing.assert_close(recomputed.index.keys, stored.index.keys, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(recomputed.values, stored.values, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("remembered_values", ["stored", "recomputed"])
def test_remembered_values_and_keys_are_of_one_embedding(remembered_values: str) -> None:
    """P6: keys are the stored embeddings, or those of now; Q_theta is the final layer of now on either."""
    agent, environment = built(tiny(2, eva={"remembered_values": remembered_values}))
    network, replay = agent.learner.network, agent.replay
    aged: list[float] = []

    @torch.no_grad()
    def kept(_: int, keys: torch.Tensor, q_np: np.ndarray, slots: np.ndarray) -> None:
        stored, now = replay.embeddings[slots], network(torch.from_numpy(replay.observations_at(slots)))[1]
        aged.append((stored - now).abs().max().item())
        expected = stored if remembered_values == "stored" else now
        torch.testing.assert_close(keys, expected, rtol=1e-5, atol=1e-6)
        not_taken = replay.actions[slots][:, None] != np.arange(q_np.shape[1])
        np.testing.assert_allclose(q_np[not_taken], network.values(expected).numpy()[not_taken], rtol=1e-5, atol=1e-6)

    watch_entries(agent, kept)
    run(agent, environment, 50)
    assert len(aged) == 9
    assert max(aged) > 0.01


@pytest.mark.parametrize("search", ["brute", "projected"])
@pytest.mark.parametrize("updates", [1, 2])
def test_refreshed_embeddings_are_those_of_the_last_update_that_sampled_the_state(search: str, updates: int) -> None:
    """P160: a plain dict of slots, written at every append and before every update, holds the same embeddings."""
    config = tiny(2, eva={"embeddings": "refreshed"}, replay={"search": search}, learner={"updates_per_round": updates})
    agent, environment = built(config)
    replay, learner = agent.replay, agent.learner
    expected: dict[int, torch.Tensor] = {}
    sampled: list[np.ndarray] = []
    refreshed = 0
    written: dict[int, int] = {}

    def write(_: None, slots: np.ndarray, h: torch.Tensor) -> None:
        expected.update(zip(slots.tolist(), h.clone(), strict=True))
        written.update(zip(slots.tolist(), replay.index.born[slots].tolist(), strict=True))

    watch(replay.index, "write", write)
    watch(replay, "sample", lambda slots, *_: sampled.append(slots))
    update = learner.update

    def compute_first(batch: Batch) -> Update:
        nonlocal refreshed
        with torch.no_grad():
            h = learner.network(batch.observations)[1]
        expected.update(zip(sampled[-1].tolist(), h, strict=True))
        refreshed += len(h)
        return update(batch)

    learner.update = compute_first  # type: ignore[method-assign]
    run(agent, environment, 60)
    slots = sorted(expected)
    assert len(slots) == len(replay.index.born) == 80  # wrapped around
    assert refreshed > 300
    torch.testing.assert_close(replay.embeddings[slots], torch.stack([expected[i] for i in slots]), rtol=0, atol=1e-6)
    assert [written[i] for i in slots] == replay.index.born[slots].tolist()  # a refreshed state keeps its age


def test_refreshing_embeddings_changes_plans_but_not_dqn() -> None:
    """P160: at weight 0 the learner and its actions are the same to the bit; with EVA they are not."""
    for weight in (0.0, 0.4):
        eva = {"nonparametric_weight": weight}
        stored, refreshed = (ran(tiny(1, eva={**eva, "embeddings": each}), 80) for each in ("stored", "refreshed"))
        assert same_learning(stored.learner, refreshed.learner) == (weight == 0)
        assert not torch.equal(stored.replay.embeddings, refreshed.replay.embeddings)
