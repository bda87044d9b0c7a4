"""Load the agent of a finished run."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TypeVar

from safetensors import SafetensorError
from safetensors.torch import load_file

from eva.agent.agent import EVAAgent
from eva.agent.memory.rings import whole
from eva.build import build_agent, environment_spec
from eva.config import Config, Device, parse_config
from eva.digests import MANIFEST, FileEntry, read_manifest
from eva.errors import UserError
from eva.files import Folder, read_file
from eva.runs.checkpoint.state import pack
from eva.runs.record.memory import read_memory
from eva.runs.record.safe_stream import unfailing
from eva.runs.record.status import read_status

_LEARNED = ("policy.safetensors", "memory.safetensors")
T = TypeVar("T")
_REMEDY = "restore it, or train the run again with --restart"


def load_run(path: Path | str, device: Device = "cpu") -> tuple[Config, EVAAgent]:
    """Return the configuration of a finished run and its agent, with its network and replay memory.

    Nothing in the files is executed. Random generators and optimiser are new: to continue training, use `train`.
    """
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
    if (state := read_status(path).state) != "finished":  # policy and memory, if any, are those of an earlier finish
        raise UserError(f"the run in {path} is not finished (its state is {state}): finish it with 'eva train'.")
    if not all(name in manifest for name in _LEARNED):
        print(f"{path} has no {MANIFEST}, so damage to its files is not noticed.", file=unfailing(sys.stderr))
    spec = environment_spec(config)
    agent = build_agent(replace(config, run=replace(config.run, device=device)), spec)
    empty, _ = pack(agent.replay.state_dict())
    policy = _read(path / "policy.safetensors", manifest, load_file)
    memory = _read(path / "memory.safetensors", manifest, partial(read_memory, empty=empty))
    try:
        agent.learner.network.load_state_dict(policy)
        agent.learner.target_network.load_state_dict(policy)
        agent.load_replay(whole(memory, empty))
    except (RuntimeError, LookupError, ValueError, TypeError, OverflowError):
        raise UserError(f"the policy or memory in {path} does not fit its config.json: {_REMEDY}.") from None
    agent.transitions = max(config.steps, config.learner.learning_starts_transitions)
    return config, agent


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
