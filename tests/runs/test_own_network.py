"""Runs with a network of the user's own: exact resume, identity, loading, import paths, and what is rejected."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import eva
from eva.agent.own_network import OwnNetwork
from eva.build import generators
from eva.cli.main import main
from eva.config import Config, NetworkConfig
from eva.files import Folder
from eva.inspect.page import inspect_run
from eva.runs.loading import load_run
from eva.runs.sweep.jobs import Job
from eva.types import EnvironmentSpec
from eva.wiring.networks import own_network
from tests.helpers.agents import changed, same, tiny

SPEC = EnvironmentSpec(1, 4, (3, 5), np.dtype(np.float32))
VECTOR = EnvironmentSpec(2, 4, (6,), np.dtype(np.float32))
RECORDS = ("config.json", "episodes.csv", "metrics.jsonl", "policy.safetensors", "memory.safetensors")


class Net(nn.Module):
    """Values and embedding of the maze's pictures."""

    def __init__(self, spec: EnvironmentSpec, size: int = 12) -> None:
        super().__init__()
        self.fc1 = nn.Linear(int(np.prod(spec.observation_shape)), size)
        self.fc2 = nn.Linear(size, spec.num_actions)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = self.fc1(x.flatten(1) / 255).relu()
        return self.fc2(h), h


class Plain(Net):
    """The same network, but it returns its values alone."""

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x)[0]


class Dueling(Net):
    """Values that are no single layer, but a function of the embedding."""

    def values(self, h: Tensor) -> Tensor:
        return self.fc2(h) - self.fc2(h).mean(dim=1, keepdim=True)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        _, h = super().forward(x)
        return self.values(h), h


def named(spec: EnvironmentSpec) -> nn.Module:
    return eva.with_embedding(Plain(spec), layer="fc1")


def trained(config: Config, path: Path, **own: Any) -> Path:
    eva.train(config, path, io.StringIO(), **own)
    return path


@pytest.mark.parametrize(("factory", "remembered"), [(Net, "stored"), (named, "recomputed"), (Dueling, "stored")])
def test_stopped_run_ends_with_the_same_bytes(
    factory: Callable[[EnvironmentSpec], nn.Module], remembered: str, tmp_path: Path
) -> None:
    config = tiny(2, eva={"remembered_values": remembered})
    whole = trained(changed(config, steps=120), tmp_path / "whole", network=factory)
    trained(changed(config, steps=60), tmp_path / "parts", network=factory)
    torch.manual_seed(5)  # the global generator must not matter
    before = torch.random.get_rng_state()
    parts = trained(changed(config, steps=120), tmp_path / "parts", network=factory)
    assert torch.equal(torch.random.get_rng_state(), before), "and is left alone"
    for name in RECORDS:
        assert (whole / name).read_bytes() == (parts / name).read_bytes(), name
    assert json.loads((whole / "config.json").read_text())["network"]["embedding_size"] == 12


def test_seed_determines_the_parameters_of_a_function_and_a_module_is_copied() -> None:
    def initial(seed: int, source: Any) -> dict[str, Tensor]:
        generator = np.random.default_rng(seed)
        return own_network(NetworkConfig(), VECTOR, generator, source).state_dict()

    assert same(initial(0, Net), initial(0, Net))
    assert not same(initial(0, Net), initial(1, Net))
    module = Net(VECTOR)
    copied = own_network(NetworkConfig(), VECTOR, np.random.default_rng(0), module)
    assert same(copied.module.state_dict(), module.state_dict())
    assert copied.module is not module


def test_own_network_computes_what_the_module_computes() -> None:
    x = torch.rand(5, 6)
    for module in (Net(VECTOR), eva.with_embedding(Plain(VECTOR), "fc1"), Dueling(VECTOR)):
        network = OwnNetwork(module, VECTOR)
        q, h = network(x)
        base = module.module if isinstance(module, type(eva.with_embedding(Plain(VECTOR), "fc1"))) else module
        expected = base.fc1(x / 255).relu()
        torch.testing.assert_close(h, expected)
        torch.testing.assert_close(network.values(h), q)
        assert network.embedding_size == 12


def test_other_network_is_rejected_and_the_same_one_is_needed(tmp_path: Path) -> None:
    config = tiny(steps=60)
    run = trained(config, tmp_path / "run", network=Net)
    fingerprint = json.loads((run / "config.json").read_text())["network"]["fingerprint"]
    assert fingerprint.startswith("Net ")
    for other in (lambda spec: Net(spec, 13), Plain, lambda spec: nn.Sequential(Net(spec))):
        with pytest.raises(eva.UserError, match=r"network|another run"):
            eva.train(config, run, io.StringIO(), network=other)
    with pytest.raises(eva.UserError, match="holds another run"):
        eva.train(config, run, io.StringIO())
    with pytest.raises(eva.UserError, match=r"has a network of its own, Net .*pass it as network="):
        load_run(run)
    with pytest.raises(eva.UserError, match=f"another network, {fingerprint} instead of Net "):
        load_run(run, network=lambda spec: Net(spec, 13))
    trained(Config.from_json((run / "config.json").read_text()), run, network=Net)  # the fingerprint is that of Net


def test_stride_is_part_of_the_fingerprint() -> None:
    spec = EnvironmentSpec(1, 2, (1, 8, 8), np.dtype(np.float32))

    def network(padding_mode: str) -> OwnNetwork:
        layers = nn.Sequential(
            nn.Conv2d(1, 2, 3, padding=1, padding_mode=padding_mode), nn.Flatten(), nn.Linear(128, 2)
        )
        return OwnNetwork(eva.with_embedding(layers, "1"), spec)

    assert network("zeros").fingerprint == network("zeros").fingerprint != network("circular").fingerprint


def test_run_with_a_network_is_evaluated_inspected_and_used(tmp_path: Path) -> None:
    run = trained(tiny(steps=120), tmp_path / "run", network=named)
    (played,) = eva.evaluate(run, [0.4], 2, network=named)
    assert len(played.episode_returns) == 2
    assert inspect_run(run, max_steps=5, network=named).html.exists()
    assert 0 <= eva.load_policy(run, network=named)(_picture(run)) < 4
    config, agent = load_run(run, network=named)
    assert isinstance(agent.learner.network, OwnNetwork)
    assert config.network.fingerprint == agent.learner.network.fingerprint


def _picture(run: Path) -> np.ndarray:
    return eva.build_environment(Config.from_json((run / "config.json").read_text())).reset()[0]


MODULE = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.torso, self.head = nn.Linear(4, 7), nn.Linear(7, spec.num_actions)

    def forward(self, x):
        h = self.torso(x).relu()
        return self.head(h), h
"""


def test_command_line_finds_a_network_by_its_import_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cli_network.py").write_text(MODULE)
    flags = ["--env", "CartPole-v1", "--network.factory", "cli_network:Net", "--steps", "60", "--out", "run"]
    flags += ["--learner.learning-starts-transitions", "20", "--device", "cpu"]
    assert main(["train", *flags]) == 0
    assert main(["train", *flags, "--steps", "80"]) == 0
    assert main(["train", "--config", "run/config.json", "--out", "again"]) == 0
    assert main(["evaluate", "run", "--episodes", "1"]) == 0
    assert main(["inspect", "run", "--max-steps", "3"]) == 0
    config = Config.from_json(Path("run/config.json").read_text())
    assert (config.network.factory, config.network.embedding_size) == ("cli_network:Net", 7)
    assert Job(Path("run"), config).is_done_in(Path("run"))
    capsys.readouterr()
    for path, expected in (("cli_network:Nothing", "no attribute 'Nothing'"), ("nowhere_else:f", "No module named")):
        assert main(["train", *flags, "--network.factory", path]) == 2
        assert expected in capsys.readouterr().err
    with pytest.raises(eva.UserError, match="give one of them"):
        eva.train(config, "other", network=Net)


# Networks that are rejected


class Wrong(Net):
    def __init__(self, what: str) -> None:
        super().__init__(VECTOR)
        self.what = what
        self.extra = nn.Linear(2, 2)
        self.extra.requires_grad_(what == "unused")
        self.dropout, self.norm = nn.Dropout(0.5), nn.BatchNorm1d(12)
        self.norm.requires_grad_(what == "batch")

    def forward(self, x: Tensor) -> Any:
        q, h = super().forward(x)
        results: dict[str, Any] = {
            "unused": (q, h),
            "single": q,
            "shape": (q[:, :3], h),
            "half": (q.half(), h.half()),
            "bent": (q.square(), h),
            "dropout": (self.fc2(hidden := self.dropout(h)), hidden) if self.what == "dropout" else None,
            "batch": (self.fc2(hidden := self.norm(h)), hidden) if self.what == "batch" else None,
        }
        return results[self.what]


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("unused", "do not depend on its parameter extra.weight"),
        ("single", r"returned a Tensor, but must return a tuple .values, embedding."),
        ("shape", r"returned values \(3, 3\)"),
        ("half", "return float32"),
        ("bent", "not one torch.nn.Linear over the embedding"),
        ("dropout", "depend on more than the observation"),
        ("batch", "depend on more than the observation"),
        ("nothing", "failed .KeyError"),
    ],
)
def test_unusable_network_is_one_sentence(what: str, expected: str) -> None:
    with pytest.raises(eva.UserError, match=expected) as error:
        OwnNetwork(Wrong(what), VECTOR)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: eva.with_embedding(Plain(VECTOR), "fc3"), "no layer 'fc3': did you mean 'fc"),
        (lambda: eva.with_embedding(Plain(VECTOR), "fc2"), "'fc2' is not the one before 'fc2'"),
        (lambda: eva.with_embedding(Net(VECTOR), "fc1"), "returned a tuple: with_embedding is for"),
        (lambda: eva.with_embedding(nn.Sequential(Plain(VECTOR), nn.Tanh()), "0.fc1"), "not the output of a torch.nn"),
        (lambda: Net(SPEC), "failed .RuntimeError"),
        (lambda: 3, "network is a int"),
    ],
)
def test_unusable_layer_or_size_is_one_sentence(make: Callable[[], Any], expected: str) -> None:
    with pytest.raises(eva.UserError, match=expected):
        own_network(NetworkConfig(), VECTOR, np.random.default_rng(0), make())


def test_copy_of_a_named_network_uses_its_own_parameters() -> None:
    """The target network is a deep copy: a hook that it shared would return the original's embedding."""
    config = tiny(steps=1)
    environment = eva.build_environment(config)
    agent = eva.build_agent(config, environment.spec, network=named)
    with torch.no_grad():
        for parameter in agent.learner.network.parameters():
            parameter.zero_()
    x = torch.from_numpy(environment.reset())
    q, h = agent.learner.target_network(x)
    torch.testing.assert_close(agent.learner.target_network.values(h), q)
    assert h.abs().max() > 0
    assert agent.learner.network(x)[1].abs().max() == 0


def test_frozen_parameters_are_not_trained(tmp_path: Path) -> None:
    def frozen(spec: EnvironmentSpec) -> nn.Module:
        network = Net(spec)
        network.fc1.requires_grad_(False)
        return network

    run = trained(tiny(steps=60), tmp_path / "run", network=frozen)
    before = own_network(
        NetworkConfig(), eva.build_environment(tiny()).spec, generators(0)["network"], frozen
    ).state_dict()
    after = load_run(run, network=frozen)[1].learner.network.state_dict()
    assert torch.equal(before["module.fc1.weight"], after["module.fc1.weight"])
    assert not torch.equal(before["module.fc2.weight"], after["module.fc2.weight"])


def test_inode_changes_with_the_entry(tmp_path: Path) -> None:
    with Folder(tmp_path) as folder:
        assert folder.inode("a") is None
        (tmp_path / "a").mkdir()
        before = folder.inode("a")
        assert before == folder.inode("a")
        (tmp_path / "b").mkdir()
        (tmp_path / "a").rmdir()
        (tmp_path / "b").rename(tmp_path / "a")
        assert folder.inode("a") != before
