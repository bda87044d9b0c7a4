"""The page of a long Atari episode stays small and opens quickly, even if no memory is recalled twice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from eva.agent.agent import EVAAgent
from eva.config import MAX_INSPECTED_STEPS, Config
from eva.inspect.episode import NEIGHBOUR_FACTOR, PlayedEpisode, RecordedDecision
from eva.inspect.memories import MAX_THUMBNAILS
from eva.inspect.page import inspect_run
from eva.presets import for_game, preset
from eva.runs.loop import Training
from eva.types import EnvironmentSpec, Explanation, Neighbour, RememberedTrajectory
from tests.helpers.agents import changed
from tests.helpers.browser import chromium
from tests.helpers.inspector import PONG, read_page

# Noisy frames and 18 actions: the game with the largest pages of all 57.
GAME = "yars_revenge"
NUM_SLOTS = 28_800
CONFIG = changed(
    for_game(preset("atari"), GAME),
    environment={"num_environments": 8},
    network={name: getattr(PONG.network, name) for name in ("channels", "filter_sizes", "strides", "embedding_size")},
    replay={"replay_capacity": NUM_SLOTS},
    learner={"learning_starts_transitions": 10**6},
    run={"device": "cpu", "threads": 1},
)


def explanations(config: Config, agent: EVAAgent, num_actions: int) -> list[Explanation]:
    """Return explanations with as many neighbours as the page can show, none of them recalled twice."""
    eva, generator = config.eva, np.random.default_rng(0)
    length = eva.trajectory_length
    shown = np.linspace(0, length - 1, MAX_THUMBNAILS).round().astype(int)
    others = np.setdiff1d(np.arange(length), shown)[: eva.plan_period_steps]
    unused = iter(generator.permutation(np.flatnonzero(agent.replay.complete)))

    def trajectory() -> RememberedTrajectory:
        slots = np.zeros(length, np.int64)
        slots[[*shown, *others]] = [next(unused) for _ in (*shown, *others)]
        values, rewards = generator.normal(size=(length, num_actions)), generator.normal(size=length)
        actions, ages = (generator.integers(high, size=length) for high in (num_actions, 500_000))
        return RememberedTrajectory(slots, actions, rewards.astype(np.float32), values.astype(np.float32), ages)

    made = []
    for _ in range(MAX_INSPECTED_STEPS // eva.plan_period_steps):
        planned = [trajectory() for _ in range(NEIGHBOUR_FACTOR * eva.num_neighbours)]
        for step in others:
            neighbours = tuple(
                Neighbour(float(generator.random()), each.q_np[step], each, int(step)) for each in planned
            )
            q_theta, q_np, q_eva = generator.normal(size=(3, num_actions)).astype(np.float32)
            made.append(Explanation(q_theta, q_np, q_eva, eva.nonparametric_weight, neighbours))
    return made


@pytest.mark.slow
def test_2000_atari_decisions_take_less_than_25_mb_and_open_in_2_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = Training(CONFIG)
    spec: EnvironmentSpec = training.environment.spec
    for _, _ in zip(range(NUM_SLOTS // spec.num_environments), training.steps(), strict=False):
        pass
    agent = training.agent
    explained = explanations(CONFIG, agent, spec.num_actions)
    observations = agent.replay.observations_at(np.flatnonzero(agent.replay.complete)[:MAX_INSPECTED_STEPS])
    shape = (MAX_INSPECTED_STEPS, CONFIG.network.embedding_size)
    embeddings = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    decisions = [RecordedDecision(*each, 0, 1.0) for each in zip(observations, embeddings, explained, strict=True)]
    monkeypatch.setattr("eva.inspect.page.load_run", lambda _, **__: (CONFIG, agent))
    monkeypatch.setattr("eva.inspect.page.play", lambda *_: PlayedEpisode(spec, tuple(decisions), ended=False))
    path = inspect_run(tmp_path).html
    page, size = read_page(path), path.stat().st_size / 1e6
    assert page.num_steps == MAX_INSPECTED_STEPS
    assert len(page.arrays["entryTiles"]) == MAX_INSPECTED_STEPS * NEIGHBOUR_FACTOR * CONFIG.eva.num_neighbours
    assert len(page.meta["tiles"]["files"]) * page.meta["tiles"]["perSheet"] >= 28_000
    assert size < 25

    with chromium() as browser:
        tab = browser.new_page()
        session = tab.context.new_cdp_session(tab)
        session.send("Performance.enable")
        tab.goto(path.as_uri())
        assert tab.locator("#memories > li").count() == CONFIG.eva.num_neighbours
        measured = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
    seconds = measured["ProcessTime"]  # CPU time of the page: wall time would include other processes
    print(f"{size:.1f} MB, {seconds:.2f} s")
    assert seconds < 2
