"""Load the agent of a finished run."""

from dataclasses import replace
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from eva.agent.agent import EVAAgent
from eva.build import build_agent, environment_spec
from eva.config import Config, Device, parse_config
from eva.errors import UserError
from eva.files import read_file
from eva.runs.record.status import read_status

_REMEDY = "restore it, or train the run again with --restart"


def load_run(path: Path | str, device: Device = "cpu") -> tuple[Config, EVAAgent]:
    """Return the configuration of a finished run and its agent, with its network and replay memory.

    Nothing in the files is executed. Random generators and optimiser are new: to continue training, use `train`.
    """
    path = Path(path)
    try:
        config = parse_config(path / "config.json", read_file(path / "config.json"))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is no run directory ({error}): give one that 'eva train' wrote.") from None
    if (state := read_status(path).state) != "finished":  # policy and memory, if any, are those of an earlier finish
        raise UserError(f"the run in {path} is not finished (its state is {state}): finish it with 'eva train'.")
    spec = environment_spec(config)
    agent = build_agent(replace(config, run=replace(config.run, device=device)), spec)
    policy, memory = (_read(path / f"{name}.safetensors") for name in ("policy", "memory"))
    try:
        agent.learner.network.load_state_dict(policy)
        agent.learner.target_network.load_state_dict(policy)
        agent.replay.load_state_dict({name: tensor.numpy() for name, tensor in memory.items()})
        if agent.replay.actions.min() < 0 or agent.replay.actions.max() >= spec.num_actions:
            raise ValueError("an action is out of range")
    except (RuntimeError, KeyError, ValueError, TypeError):
        raise UserError(f"the policy or memory in {path} does not fit its config.json: {_REMEDY}.") from None
    agent.transitions = max(config.steps, config.learner.learning_starts_transitions)
    return config, agent


def _read(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (OSError, SafetensorError, ValueError) as error:
        raise UserError(f"cannot read {path} ({' '.join(str(error).split())}): {_REMEDY}.") from None
