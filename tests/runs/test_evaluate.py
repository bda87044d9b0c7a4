"""Evaluation of single episodes with a frozen network and memory (P28), and its statistics."""

from __future__ import annotations

import io
import json
import math
import pickle
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import eva
from eva.agent.agent import EVAAgent
from eva.agent.exploration import EpsilonGreedy
from eva.build import build_environment, build_player, generators
from eva.cli.main import main
from eva.config import Config
from eva.digests import write_manifest
from eva.files import Folder
from eva.runs import evaluate as module
from eva.runs.checkpoint.state import pack
from eva.runs.evaluate import environment_and_exploration
from eva.runs.loading import load_run
from eva.runs.loop import train
from eva.runs.record.columns import EVALUATIONS
from eva.types import VectorEnvironment
from eva.wiring.networks import build_network
from tests.helpers.agents import Bomb, Poisoned, tiny, watch

CONFIGS = {
    "one": tiny(steps=120),
    "three": tiny(3, steps=120, eva={"nonparametric_weight": 0.2}),
    "recomputed": tiny(2, steps=120, eva={"remembered_values": "recomputed"}),
    "per-environment": tiny(3, steps=120, eva={"value_buffers": "per-environment", "num_neighbours": 5}),
}
WEIGHTS, EPISODES = (0.0, 0.4, 1.0), 4


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One finished run of each kind."""
    root = tmp_path_factory.mktemp("runs")
    for name, config in CONFIGS.items():
        train(config, root / name, stream=io.StringIO())
    return {name: root / name for name in CONFIGS}


@pytest.fixture(params=CONFIGS)
def run(request: pytest.FixtureRequest, runs: dict[str, Path]) -> Path:
    return runs[request.param]


@pytest.fixture
def copy(runs: dict[str, Path], tmp_path: Path) -> Path:
    """A copy of a run that the test may damage."""
    return shutil.copytree(runs["one"], tmp_path / "run")


class Watched:
    """Sees the agent that `evaluate` loads and every player that it builds; each player plays one episode."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.agents: list[EVAAgent] = []
        self.before: list[dict[str, bytes]] = []
        self.players: list[EVAAgent] = []
        self.explorations: list[EpsilonGreedy] = []
        self.steps: list[list[tuple[np.ndarray, int, dict[str, Any]]]] = []  # observation, entries, generator
        self.searches: list[int] = []
        self.gathered = 0
        monkeypatch.setattr(module, "load_run", self._load)
        monkeypatch.setattr(module, "build_player", self._build)
        monkeypatch.setattr(module, "environment_and_exploration", self._environment_and_exploration)
        monkeypatch.setattr(module, "MAX_TOGETHER", 1)

    def _load(self, path: Path, **_: Any) -> tuple[Config, EVAAgent]:
        config, agent = load_run(path)
        self.agents.append(agent)
        self.before.append(frozen_parts(agent))
        watch(agent.replay, "search", lambda *_: self.searches.append(len(self.players) - 1))
        watch(agent.replay, "gather", lambda *_: setattr(self, "gathered", self.gathered + 1))
        return config, agent

    def _environment_and_exploration(self, *args: Any, **options: Any) -> tuple[VectorEnvironment, EpsilonGreedy]:
        environment, exploration = environment_and_exploration(*args, **options)
        self.explorations.append(exploration)
        return environment, exploration

    def _build(self, *args: Any) -> EVAAgent:
        player = build_player(*args)
        steps: list[tuple[np.ndarray, int, dict[str, Any]]] = []
        act = player.act

        def watched(observations: np.ndarray) -> np.ndarray:
            entries = sum(map(len, player.adjuster.value_buffers))
            steps.append((observations.copy(), entries, self.explorations[-1].generator.bit_generator.state))
            return act(observations)

        player.act = watched  # type: ignore[method-assign]
        self.players.append(player)
        self.steps.append(steps)
        return player

    def episodes(self) -> Iterator[list[list[tuple[np.ndarray, int, dict[str, Any]]]]]:
        """Return the steps of each episode, for all weights."""
        for i in range(EPISODES):
            yield self.steps[i::EPISODES]


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


def frozen_parts(agent: EVAAgent) -> dict[str, bytes]:
    """Return the bytes of network, optimiser and memory, with what the memory finds."""
    arrays, plain = pack({"learner": agent.learner.state_dict(), "replay": agent.replay.state_dict()})
    more = {"complete": agent.replay.complete}
    return {name: array.tobytes() for name, array in (arrays | more).items()} | {"plain": repr(plain).encode()}


def contents(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_network_memory_and_files_are_frozen(run: Path, watched: Watched) -> None:
    files = contents(run)
    eva.evaluate(run, WEIGHTS, EPISODES)
    (agent,), (before,) = watched.agents, watched.before
    assert len(before) > 10
    assert frozen_parts(agent) == before
    assert contents(run) == files
    assert len(watched.searches) > 0, "nothing was planned: the test would be empty"


def test_every_episode_begins_with_an_empty_value_buffer_that_fills(run: Path, watched: Watched) -> None:
    eva.evaluate(run, WEIGHTS, EPISODES)
    assert len(watched.players) == len(WEIGHTS) * EPISODES
    for player, steps in zip(watched.players, watched.steps, strict=True):
        entries = [entries for _, entries, _ in steps]
        assert entries[0] == 0
        assert (max(entries) > 0) == (player.weight > 0 and len(entries) > 1)


def test_planning_is_as_in_training(run: Path, watched: Watched) -> None:
    evaluations = eva.evaluate(run, WEIGHTS, EPISODES)
    period = Config.from_json((run / "config.json").read_text()).eva.plan_period_steps
    lengths = [int(length) for evaluation in evaluations for length in evaluation.episode_lengths]
    plans = [watched.searches.count(i) for i in range(len(lengths))]
    expected = [math.ceil(length / period) for length in lengths]
    assert plans == [0] * EPISODES + expected[EPISODES:]  # weight 0 plans nothing
    assert [len(steps) for steps in watched.steps] == lengths


def test_starts_and_random_numbers_are_the_same_for_every_weight(run: Path, watched: Watched) -> None:
    eva.evaluate(run, WEIGHTS, EPISODES)
    for with_0, *others in watched.episodes():
        for other in others:
            np.testing.assert_array_equal(with_0[0][0], other[0][0])
            pairs = list(zip(with_0, other, strict=False))
            assert all(one[2] == another[2] for one, another in pairs)
    starts = {steps[0][0].tobytes() for steps in watched.steps}
    draws = {repr(steps[0][2]) for steps in watched.steps}
    assert len(starts) == len(draws) == EPISODES, "every episode has its own"


def test_random_episodes_are_the_same_with_every_weight(runs: dict[str, Path]) -> None:
    first, *others = eva.evaluate(runs["three"], WEIGHTS, EPISODES, epsilon=1.0)
    for other in others:
        np.testing.assert_array_equal(other.episode_returns, first.episode_returns)
        np.testing.assert_array_equal(other.episode_lengths, first.episode_lengths)


def test_weight_and_epsilon_matter(runs: dict[str, Path], watched: Watched) -> None:
    plain, mixed, planned = eva.evaluate(runs["one"], WEIGHTS, EPISODES)
    assert plain.changed_share is None
    assert mixed.changed_share is not None
    assert planned.changed_share is not None
    assert 0 < planned.changed_share < 1
    draws = [exploration.epsilon(0) for exploration in watched.explorations]
    assert draws == [0.05] * len(draws)


def plainly(run: Path, num_episodes: int, seed: int, epsilon: float) -> tuple[list[float], list[int]]:
    """Play with the network alone: no adjuster, no agent, no memory."""
    config = Config.from_json((run / "config.json").read_text())
    config = replace(config, environment=replace(config.environment, num_environments=1))
    network = build_network(config, build_environment(config).spec, np.random.default_rng(5))
    network.load_state_dict(load_file(run / "policy.safetensors"))
    returns, lengths = [], []
    for i in range(num_episodes):
        first, second = map(int, np.random.SeedSequence([seed, i]).generate_state(2))
        environment = build_environment(replace(config, seed=first))
        draws = generators(second)["exploration"]
        observations = environment.reset()
        rewards: list[float] = []
        ended = False
        while not ended:
            with torch.no_grad():
                greedy = int(network(torch.from_numpy(observations))[0].argmax())
            explores, random_action = draws.random(1) < epsilon, draws.integers(network.num_actions, size=1)
            outcome = environment.step(random_action if explores[0] else np.array([greedy]))
            observations = outcome.observations
            rewards.append(float(outcome.rewards[0]))
            ended = bool(outcome.terminated[0] or outcome.truncated[0])
        returns.append(sum(rewards))
        lengths.append(len(rewards))
    return returns, lengths


@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_weight_0_is_the_network_alone(run: Path, epsilon: float) -> None:
    (evaluation,) = eva.evaluate(run, [0.0], 6, seed=3, epsilon=epsilon)
    returns, lengths = plainly(run, 6, seed=3, epsilon=epsilon)
    np.testing.assert_allclose(evaluation.episode_returns, returns, rtol=1e-12)
    assert evaluation.episode_lengths.tolist() == lengths
    assert evaluation.changed_share is None


def test_weight_0_never_calls_the_adjuster(runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def poisoned(*args: Any) -> EVAAgent:
        player = build_player(*args)
        player.adjuster = Poisoned()  # type: ignore[assignment]
        return player

    monkeypatch.setattr(module, "build_player", poisoned)
    eva.evaluate(runs["one"], [0.0], 1)
    with pytest.raises(AssertionError, match="the adjuster was asked"):
        eva.evaluate(runs["one"], [0.4], 1)


def test_evaluation_is_deterministic_and_a_longer_one_begins_the_same(run: Path) -> None:
    one, two = (eva.evaluate(run, [0.4], episodes, seed=1) for episodes in (3, 5))
    np.testing.assert_array_equal(one[0].episode_returns, two[0].episode_returns[:3])
    np.testing.assert_array_equal(one[0].episode_lengths, two[0].episode_lengths[:3])
    (alone,) = eva.evaluate(run, [0.4], 5, seed=1)
    after = eva.evaluate(run, [1.0, 0.4], 5, seed=1)[1]
    for again in (alone, after):
        np.testing.assert_array_equal(again.episode_returns, two[0].episode_returns)
        assert again.changed_share == two[0].changed_share


def test_episodes_side_by_side_equal_single_ones(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    together = eva.evaluate(run, WEIGHTS, 5, epsilon=0.1)
    monkeypatch.setattr(module, "MAX_TOGETHER", 1)
    for many, single in zip(together, eva.evaluate(run, WEIGHTS, 5, epsilon=0.1), strict=True):
        np.testing.assert_array_equal(many.episode_returns, single.episode_returns)
        np.testing.assert_array_equal(many.episode_lengths, single.episode_lengths)
        assert many.changed_share == pytest.approx(single.changed_share)


@pytest.mark.parametrize("search", ["brute", "projected"])
def test_evaluation_during_training_changes_no_byte_of_the_run(search: str, tmp_path: Path) -> None:
    config = tiny(2, steps=120, replay={"search": search})
    evaluation = replace(config.evaluation, period_transitions=40, num_episodes=3, epsilons=(0.0, 0.05))
    for name, each in (("without", config), ("with", replace(config, evaluation=evaluation))):
        train(each, tmp_path / name, stream=io.StringIO())
    for file in ("episodes.csv", "metrics.jsonl", "status.json", "policy.safetensors", "memory.safetensors"):
        assert (tmp_path / "with" / file).read_bytes() == (tmp_path / "without" / file).read_bytes(), file
    assert not (tmp_path / "without" / EVALUATIONS).exists()
    lines = [json.loads(line) for line in (tmp_path / "with" / EVALUATIONS).read_text().splitlines()]
    assert [line["step"] for line in lines] == [40] * 4 + [80] * 4 + [120] * 4
    for line, played in zip(lines[-4:-2], eva.evaluate(tmp_path / "with", (0.0, 0.4), 3, epsilon=0.0), strict=True):
        assert (line["epsilon"], line["weight"]) == (0.0, played.nonparametric_weight)
        assert line["returns"] == pytest.approx(played.episode_returns.tolist())
        assert line["lengths"] == played.episode_lengths.tolist()


def test_evaluate_every_sets_the_period(tmp_path: Path) -> None:
    run = tmp_path / "run"
    flags = ["--steps", "300", "--evaluate-every", "150", "--evaluation.num-episodes", "1", "--out", str(run)]
    assert main(["train", "smoke", *flags]) == 0
    lines = [json.loads(line) for line in (run / EVALUATIONS).read_text().splitlines()]
    assert [(line["step"], line["weight"]) for line in lines] == [(150, 0.0), (150, 0.4), (300, 0.0), (300, 0.4)]


def test_other_seeds_give_other_start_states(runs: dict[str, Path], watched: Watched) -> None:
    for seed in (0, 1):
        eva.evaluate(runs["one"], [0.0], EPISODES, seed=seed)
    starts = {steps[0][0].tobytes() for steps in watched.steps}
    assert len(starts) > EPISODES


def test_remembered_values_are_recomputed_if_training_recomputed_them(runs: dict[str, Path], watched: Watched) -> None:
    eva.evaluate(runs["one"], [0.4], 1)
    assert watched.gathered == 0
    eva.evaluate(runs["recomputed"], [0.4], 1)
    assert watched.gathered > 0


@pytest.mark.parametrize(("name", "capacity"), [("three", 48), ("per-environment", 16)])
def test_player_has_one_environments_share_of_the_value_buffer(
    name: str, capacity: int, runs: dict[str, Path], watched: Watched
) -> None:
    eva.evaluate(runs[name], [0.4], 1)
    (buffer,) = watched.players[0].adjuster.value_buffers
    assert len(buffer.values) == capacity
    assert buffer.num_neighbours == CONFIGS[name].eva.num_neighbours


def test_load_run_restores_policy_and_memory(run: Path) -> None:
    config, agent = load_run(str(run))
    assert config == Config.from_json((run / "config.json").read_text())
    policy, memory = (load_file(run / f"{name}.safetensors") for name in ("policy", "memory"))
    for network in (agent.learner.network, agent.learner.target_network):
        assert all(torch.equal(value, policy[name]) for name, value in network.state_dict().items())
    num_lanes = config.environment.num_environments
    for name, value in agent.replay.state_dict().items():  # the file holds the places in use, lane by lane
        array, saved = np.asarray(value), memory[name].numpy()
        lanes = array if saved.ndim == array.ndim else array.reshape(num_lanes, -1, *array.shape[1:])
        np.testing.assert_array_equal(lanes, saved)
    assert agent.weight == config.eva.nonparametric_weight
    assert agent.replay.num_complete > 0


def test_load_run_uses_the_requested_device(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    config = Config.from_json((copy / "config.json").read_text())
    trained_elsewhere = replace(config, run=replace(config.run, device="cuda"))
    (copy / "config.json").write_text(trained_elsewhere.to_json())
    resealed(copy)
    loaded, agent = load_run(copy)
    assert (agent.device.type, loaded) == ("cpu", trained_elsewhere)
    with pytest.raises(eva.UserError, match="no CUDA device"):
        load_run(copy, "cuda")


def test_command_prints_json(runs: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--weights", "0", "0.4", "--episodes", "3", "--seed", "2", "--epsilon", "0.1", "--json"]
    assert main(["evaluate", str(runs["one"]), *flags]) == 0
    printed = json.loads(capsys.readouterr().out)
    played = eva.evaluate(runs["one"], [0, 0.4], 3, seed=2, epsilon=0.1)
    assert {name: printed[name] for name in ("run", "seed", "epsilon")} == {
        "run": str(runs["one"]),
        "seed": 2,
        "epsilon": 0.1,
    }
    assert [result["returns"] for result in printed["results"]] == [x.episode_returns.tolist() for x in played]
    assert [result["changed_share"] for result in printed["results"]] == [x.changed_share for x in played]
    assert [result["weight"] for result in printed["results"]] == [0, 0.4]
    assert [result["mean_return"] for result in printed["results"]] == [np.mean(x.episode_returns) for x in played]


def test_command_prints_a_table(runs: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(runs["one"]), "--episodes", "2"]) == 0
    heads, *rows = capsys.readouterr().out.splitlines()
    assert "mean return" in heads
    assert [row.split()[0] for row in rows] == ["0", "0.2", "0.4"]  # the default


# Runs and options that are rejected


def refused(argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command that must fail with a user error; returns its sentence."""
    capsys.readouterr()
    assert main(["evaluate", *argv]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("eva: ")
    assert err.count("\n") == 1, "one sentence on one line"
    return err


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ("--weights 1.1", "--weights is (1.1,), but must be a list of numbers between 0 and 1."),
        ("--weights 0 -0.1", "--weights is (0.0, -0.1), but must be a list of numbers between 0 and 1."),
        ("--weights nan", "--weights is (nan,), but must be a list of numbers between 0 and 1."),
        ("--episodes 0", "--episodes is 0, but must be a whole number of at least 1."),
        ("--epsilon 2", "--epsilon is 2.0, but must be a number between 0 and 1."),
        ("--seed -1", "--seed is -1, but must be a whole number of at least 0."),
    ],
)
def test_out_of_range_options_are_rejected(
    flags: str, sentence: str, runs: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert sentence in refused([str(runs["one"]), *flags.split()], capsys)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"weights": []}, "there is no weight to evaluate"),
        ({"weights": [0.4, 2]}, "weights is .0.4, 2., but must be a list of numbers between 0 and 1"),
        ({"num_episodes": 0}, "num_episodes is 0, but must be a whole number of at least 1"),
        ({"seed": -1}, "seed is -1, but must be a whole number of at least 0"),
        ({"epsilon": 3}, "epsilon is 3, but must be a number between 0 and 1"),
    ],
)
def test_out_of_range_arguments_raise(changes: dict[str, Any], sentence: str, runs: dict[str, Path]) -> None:
    with pytest.raises(eva.UserError, match=sentence):
        eva.evaluate(runs["one"], **{"weights": [0.4], "num_episodes": 1, **changes})


def test_path_without_a_run_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "is no run directory" in refused([str(tmp_path / "nowhere")], capsys)
    assert "is no run directory" in refused([str(tmp_path)], capsys)
    (tmp_path / "config.json").write_text("{")
    assert "is not JSON" in refused([str(tmp_path)], capsys)
    refused([], capsys)


@pytest.mark.parametrize("state", ["running", "stopped", "failed"])
def test_unfinished_run_without_a_checkpoint_is_rejected(
    state: str, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also a finished run that continues: its saved policy is not the newest."""
    shutil.rmtree(copy / "checkpoints")
    (copy / "status.json").write_text(json.dumps({"state": state, "step": 60, "steps": 120}))
    assert f"not finished (its state is {state})" in refused([str(copy)], capsys)
    for text in ("", "[]", "{}"):
        (copy / "status.json").write_text(text)
        assert "status.json is damaged" in refused([str(copy)], capsys)


@pytest.mark.parametrize("name", ["policy.safetensors", "memory.safetensors"])
def test_damaged_files_are_rejected(name: str, copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = copy / name
    content = file.read_bytes()
    for damaged in (b"", content[:7], content[:100], content[:-1], b"\xff" * len(content)):
        file.write_bytes(damaged)
        assert f"cannot read {file}" in refused([str(copy)], capsys)
    file.unlink()
    assert f"cannot read {file}" in refused([str(copy)], capsys)


@pytest.mark.parametrize(
    ("name", "tensor"), [("policy", "head.weight"), ("memory", "rewards"), ("memory", "embeddings")]
)
def test_files_of_another_run_are_rejected(
    name: str, tensor: str, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = copy / f"{name}.safetensors"
    good = load_file(file)
    for tensors in (
        {key: value for key, value in good.items() if key != tensor},
        {**good, tensor: torch.cat([good[tensor], good[tensor]])},
    ):
        save_file(tensors, file)
        resealed(copy)
        assert "does not fit its config.json" in refused([str(copy)], capsys)


def resealed(run: Path) -> None:
    """Write the manifest of the files as they are now: as if the run had saved them so."""
    with Folder(run) as folder:
        write_manifest(folder, ("config.json", "policy.safetensors", "memory.safetensors"))


@pytest.mark.parametrize("name", ["config.json", "policy.safetensors", "memory.safetensors", "manifest.json"])
def test_changed_bits_are_rejected(name: str, copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = (copy / name).read_bytes()
    for place in np.random.default_rng(0).integers(len(content), size=8).tolist():
        changed = bytearray(content)
        changed[place] ^= 1 << place % 8
        (copy / name).write_bytes(changed)
        assert str(copy / name) in refused([str(copy)], capsys)


def test_run_without_a_manifest_loads_with_a_warning(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (copy / "manifest.json").unlink()
    load_run(copy)
    assert capsys.readouterr().err == f"{copy} has no manifest.json, so damage to its files is not noticed.\n"


def test_nan_parameters_are_rejected(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = copy / "policy.safetensors"
    save_file({name: tensor * torch.nan for name, tensor in load_file(file).items()}, file)
    resealed(copy)
    assert "the network's values are infinite or NaN" in refused([str(copy)], capsys)


@pytest.mark.parametrize("action", [99, -1])
def test_out_of_range_actions_are_rejected(action: int, copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = copy / "memory.safetensors"
    memory = load_file(file)
    save_file({**memory, "actions": torch.full_like(memory["actions"], action)}, file)
    resealed(copy)
    assert "does not fit its config.json: restore it, or train the run again with --restart" in refused(
        [str(copy)], capsys
    )


@pytest.mark.parametrize("name", ["policy.safetensors", "memory.safetensors"])
def test_pickle_is_not_executed(name: str, copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "exploded"
    (copy / name).write_bytes(pickle.dumps(Bomb(target)))
    assert "cannot read" in refused([str(copy)], capsys)
    torch.save({"head.weight": Bomb(target)}, copy / name)
    assert "cannot read" in refused([str(copy)], capsys)
    assert not target.exists()
    pickle.loads(pickle.dumps(Bomb(target)))  # it would have
    assert target.exists()
