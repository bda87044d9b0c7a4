"""Each learner with each planner: DQN or Double DQN, uniform or prioritised replay, with and without EVA."""

from __future__ import annotations

import numpy as np
import pytest

from eva.config import Config
from eva.runs.loop import Training
from tests.helpers.agents import Poisoned, built, dqn, frozen, ran, run, same, same_learning, tiny, watch

LEARNERS = {
    "DQN": (False, False),
    "DDQN": (True, False),
    "PER": (False, True),
    "DDQN+PER": (True, True),
}
EACH_LEARNER = pytest.mark.parametrize("learner", LEARNERS)
NUM_STEPS = 60  # of two environments: the memory of 80 states wraps around


def combined(learner: str, trace: str | None = None) -> Config:
    """Return a small run of a learner with a trace, or without EVA."""
    double, prioritised = LEARNERS[learner]
    return tiny(
        2,
        learner={"double": double},
        replay={"prioritised": prioritised, "importance_anneal_transitions": 100},
        eva={"trace": trace} if trace else {"nonparametric_weight": 0.0},
    )


def advance(training: Training, num_steps: int) -> None:
    steps = training.steps()
    for _ in range(num_steps):
        next(steps)


@EACH_LEARNER
@pytest.mark.parametrize("trace", [None, "tcp", "n-step", "kbrl"])
def test_agents_resume_to_the_bit(learner: str, trace: str | None) -> None:
    config = combined(learner, trace)
    whole, half, resumed = (Training(config) for _ in range(3))
    advance(whole, NUM_STEPS)
    advance(half, 45)
    resumed.load_state_dict(frozen(half.state_dict()))
    advance(resumed, NUM_STEPS - 45)
    assert same(frozen(resumed.state_dict()), frozen(whole.state_dict()))

    agent = resumed.agent
    metrics = agent.metrics()
    assert metrics["updates"] > 50
    assert all(np.isfinite(value) for value in metrics.values())
    assert (metrics["value_buffer_entries"] > 0) == (trace is not None)
    if agent.replay.priorities is not None:
        values = agent.replay.priorities.values
        assert np.array_equal(values > 0, agent.replay.complete)
        assert len(set(values.tolist())) > 20


@EACH_LEARNER
def test_weight_0_is_the_plain_agent_to_the_bit(learner: str) -> None:
    """With weight 0, EVA affects no learner."""
    config = combined(learner)
    agent, environment = built(config)
    agent.adjuster = Poisoned()  # type: ignore[assignment]
    actions: list[list[int]] = []
    watch(environment, "step", lambda _, taken: actions.append(taken.tolist()))
    run(agent, environment, NUM_STEPS)
    expected_actions, expected = dqn(config, NUM_STEPS)
    assert actions == expected_actions
    assert agent.learner.num_updates == expected.num_updates > 50
    assert same_learning(agent.learner, expected)


def test_the_learners_differ() -> None:
    """Without this, the tests above would pass for options without effect."""
    agents = [ran(combined(learner), NUM_STEPS) for learner in LEARNERS]
    pairs = [(one, other) for i, one in enumerate(agents) for other in agents[:i]]
    assert not any(same_learning(one.learner, other.learner) for one, other in pairs)


def test_priorities_and_planning_do_not_affect_each_other() -> None:
    """With epsilon 1 both agents see the same, so the weight can change neither what is learned nor the priorities."""
    agents = []
    for weight in (0.0, 1.0):
        config = tiny(
            2,
            eva={"nonparametric_weight": weight},
            exploration={"epsilon_start": 1.0, "epsilon_end": 1.0},
            learner={"double": True},
            replay={"prioritised": True},
        )
        agents.append(ran(config, NUM_STEPS))
    without, with_eva = agents
    assert with_eva.metrics()["changed_share"] > 0.1
    assert same_learning(without.learner, with_eva.learner)
    assert same(without.replay.priorities.state_dict(), with_eva.replay.priorities.state_dict())
