"""Load the agent of a run: of a finished one its result, of any other one its newest checkpoint."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from eva.agent.agent import EVAAgent
from eva.agent.memory.rings import whole
from eva.build import EnvironmentFactory, NetworkSource, build_agent, environment_spec
from eva.config import Config, Device, parse_config
from eva.digests import MANIFEST, FileEntry, read_manifest
from eva.envs.maze_layout import check_recorded
from eva.errors import UserError
from eva.files import Folder, read_file
from eva.runs.checkpoint.state import pack, unpack
from eva.runs.checkpoint.store import CheckpointStore
from eva.runs.record.memory import read_memory
from eva.runs.record.safe_stream import unfailing
from eva.runs.record.status import read_status
from eva.types import EnvironmentSpec

_LEARNED = ("policy.safetensors", "memory.safetensors")
T = TypeVar("T")
_REMEDY = "restore it, or train the run again with --restart"
_MISFITS = (RuntimeError, LookupError, ValueError, TypeError, OverflowError, AttributeError)
"""What loading arrays raises that are not of this run."""


@dataclass(frozen=True)
class LoadedRun:
    """A run's configuration, and its agent as it was after some transitions."""

    config: Config
    agent: EVAAgent
    spec: EnvironmentSpec


@dataclass(frozen=True)
class _Learned:
    """What a run has learned after `step` transitions."""

    step: int
    policy: Mapping[str, Tensor]
    memory: Mapping[str, NDArray[Any]]


def load_run(
    path: Path | str,
    device: Device = "cpu",
    *,
    network: NetworkSource | None = None,
    environment: EnvironmentFactory | None = None,
) -> tuple[Config, EVAAgent]:
    """Return the configuration of a run and its agent, with its network and replay memory.

    If the run is not finished, they are those of its newest checkpoint. A run with a network or an environment of your
    own needs it again. Nothing in the files is executed. Random generators and optimiser are new: to continue training,
    use `train`.
    """
    loaded = load(path, device, network, environment)
    return loaded.config, loaded.agent


def load(
    path: Path | str, device: Device, network: NetworkSource | None, environment: EnvironmentFactory | None
) -> LoadedRun:
    """Return what `load_run` returns, and the spec of the run's environments."""
    path = Path(path)
    try:
        content = read_file(path / "config.json")
        manifest = _manifest(path)
        if "config.json" in manifest:
            with _refusing_damage(path / "config.json"):
                manifest["config.json"].check(BytesIO(content))
        config = parse_config(path / "config.json", content)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is no run directory ({error}): give one that 'eva train' wrote.") from None
    check_recorded(config.maze.layout)
    state = read_status(path).state
    if state in ("absent", "damaged"):
        raise UserError(f"{path / 'status.json'} is {'missing' if state == 'absent' else state}: {_REMEDY}.")
    # The policy and memory of a run that is not finished, if any, are those of an earlier finish.
    learned = None if state == "finished" else _newest_checkpoint(path, config)
    spec = environment_spec(config, environment)
    agent = build_agent(replace(config, run=replace(config.run, device=device)), spec, network)
    empty, _ = pack(agent.replay.state_dict())
    learned = learned or _result(path, config, manifest, empty)
    try:
        agent.learner.network.load_state_dict(learned.policy)
        agent.learner.target_network.load_state_dict(learned.policy)
        agent.load_replay(whole(dict(learned.memory), empty))
    except _MISFITS:
        raise UserError(f"the policy or memory in {path} does not fit its config.json: {_REMEDY}.") from None
    agent.transitions = learned.step
    return LoadedRun(config, agent, spec)


def _result(path: Path, config: Config, manifest: dict[str, FileEntry], empty: dict[str, NDArray[Any]]) -> _Learned:
    """Return what the files of a finished run hold; `empty` is the state of a new memory."""
    if not all(name in manifest for name in _LEARNED):
        print(f"{path} has no {MANIFEST}, so damage to its files is not noticed.", file=unfailing(sys.stderr))
    policy = _read(path / "policy.safetensors", manifest, load_file)
    memory = _read(path / "memory.safetensors", manifest, partial(read_memory, empty=empty))
    return _Learned(max(config.steps, config.learner.learning_starts_transitions), policy, memory)


def _newest_checkpoint(path: Path, config: Config) -> _Learned:
    """Return what the newest good checkpoint holds, also while the run writes others."""
    checkpoint, warnings = CheckpointStore(path / "checkpoints").load_newest(config.identity)
    state = read_status(path).state
    if checkpoint is None:
        raise UserError(
            f"the run in {path} is not finished (its state is {state}) and has no checkpoint yet: finish it with 'eva "
            "train', or wait for a checkpoint (run.checkpoint_period_minutes)."
        )
    try:
        agent = unpack(checkpoint.arrays, checkpoint.plain)["training"]["agent"]
        policy = {name: torch.as_tensor(value) for name, value in agent["learner"]["network"].items()}
        learned = _Learned(checkpoint.step, policy, agent["replay"])
    except _MISFITS:
        raise UserError(f"the checkpoint of {path} after {checkpoint.step:,} transitions is no run's.") from None
    for warning in (*warnings, f"{path} is {state}: this is its checkpoint after {checkpoint.step:,} transitions."):
        print(warning, file=unfailing(sys.stderr))
    return learned


def _manifest(path: Path) -> dict[str, FileEntry]:
    """Return the checksums of the run's files; none if it is older than they are."""
    with _refusing_damage(path / MANIFEST):
        return read_manifest(path)


def _read(path: Path, manifest: dict[str, FileEntry], load: Callable[[Path], T]) -> T:
    with _refusing_damage(path):
        with Folder(path.parent) as folder, folder.open(path.name) as file:  # a regular file, not a link or pipe
            if path.name in manifest:
                manifest[path.name].check(file)
        return load(path)


@contextmanager
def _refusing_damage(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else " ".join(str(error).split())
        raise UserError(f"cannot read {path} ({reason}): {_REMEDY}.") from None
