"""Every hyper-parameter, described once, with its unit and its source.

`paper` marks a number that the paper states, `P` a decision of docs/paper.md, the rest is our choice. Durations carry
their unit: `_steps` are agent steps of one environment, `_transitions` are summed over environments, `_updates` are
optimiser steps, `_frames` are frames of an emulator. The one exception is `steps`, the length of the run, which counts
transitions.
"""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from eva.errors import UserError
from eva.ids import MAZE_ID
from eva.schema import Count, CountOrZero, Name, Positive, Scale, Share, Sizes, Threads, check, from_dict, to_dict

Device = Literal["auto", "cpu", "cuda"]
NOT_IDENTITY = (
    "steps",
    "run.device",
    "run.checkpoint_period_minutes",
    "run.checkpoint_period_transitions",
    "run.checkpoints_kept",
    "run.stop_when_diverged",
)
"""Fields that may change from one part of a run to the next."""


@dataclass(frozen=True)
class EnvironmentConfig:
    """Where the agent acts."""

    id: str = MAZE_ID
    """Gymnasium id of the environment."""
    num_environments: Count = 1
    """E, environments stepped together (paper: 4 on Atari; P27: 1 in the maze)."""


@dataclass(frozen=True)
class MazeConfig:
    """The coin maze of Section 5.1; read only where `environment.id` is eva/CoinMaze-v0."""

    layout: str = "paper"
    """`paper` (P14: 59 cells), `open` (65 cells), or the path of a text map of `#` and `.`."""
    num_coins: Count = 1
    """Coins in the maze at the start of an episode (paper: 1, 2, 4)."""
    max_episode_steps: Count = 500
    """An episode is truncated after so many steps (paper)."""


@dataclass(frozen=True)
class AtariConfig:
    """An Atari game, preprocessed as for DQN; read only where `environment.id` is eva/Atari-v0."""

    game: str = "pong"
    """One of the usual 57, in any spelling: `ms_pacman`, `ms-pacman`, `MsPacman`."""
    frame_skip: Count = 4
    """Frames for which each action is repeated; of the last two, the maximum is seen (paper: as DQN; P61)."""
    num_stacked: Count = 4
    """Frames in an observation (paper: as DQN; P60)."""
    max_noop_frames: CountOrZero = 30
    """An episode begins with 1 to so many frames without an action (paper: as DQN; P62)."""
    max_episode_frames: Count = 108_000
    """An episode is truncated after so many frames: half an hour (P63)."""
    repeat_action_probability: Share = 0.0
    """Of each frame to repeat the action of the frame before ("sticky actions") instead (P64)."""


@dataclass(frozen=True)
class NetworkConfig:
    """The parametric value function Q_theta."""

    channels: Sizes = (16, 32)
    """Of each convolution, for image observations (paper: two convolutions in the maze)."""
    filter_sizes: Sizes = (3, 3)
    """Of each convolution; no padding."""
    strides: Sizes = (1, 2)
    """Of each convolution."""
    hidden_sizes: Sizes = (64,)
    """Of the fully connected layers before the embedding, for vector observations only."""
    embedding_size: Count = 64
    """D, the second to last layer (paper: 64 in the maze)."""


@dataclass(frozen=True)
class ReplayConfig:
    """The replay buffer."""

    replay_capacity: Count = 50_000
    """States stored, over all environments (paper: 50K in the maze)."""
    frames: Literal["raw", "compressed"] = "compressed"
    """How frames are kept where observations are stacks of them: as they are, or without loss in zstd (P70, P71)."""
    prioritised: bool = False
    """Draw the learner's batches by priority instead of uniformly (Schaul et al., 2016; P75). EVA plans as ever."""
    priority_exponent: Share = 0.6
    """alpha, how much the priorities count; 0 is uniform (Schaul et al.; P76)."""
    priority_floor: Positive = 1e-6
    """epsilon, added to each absolute error, so that no transition is out of reach (P76)."""
    importance_exponent_start: Share = 0.4
    """beta at the start, how much of the bias the importance weights undo; it ends at 1 (Schaul et al.; P78)."""
    importance_anneal_transitions: CountOrZero = 60_000
    """How long beta takes to reach 1 (P78: as long as the preset's run)."""
    search: Literal["auto", "brute", "projected"] = "auto"
    """How the nearest are found, exactly: among all, or among those that a projection cannot exclude (P80)."""


@dataclass(frozen=True)
class LearnerConfig:
    """The slow system: DQN. Learning rate and target period were searched for in the maze at weight 0 (P16, P48)."""

    discount: Share = 0.99
    """gamma (P12)."""
    batch_size: Count = 48
    """B (paper)."""
    learning_rate: Positive = 2.5e-4
    """Of Adam."""
    learning_rate_end: Positive | None = None
    """Of Adam, after the decay; without one it stays as it is."""
    learning_rate_decay_updates: CountOrZero = 0
    """Length of the linear decay."""
    error: Literal["squared", "huber"] = "squared"
    """Between value and target (P15: squared in the maze, Huber on Atari)."""
    target_period_updates: Count = 50
    """Updates from one copy of the target network to the next (paper: 50 on Atari; P48)."""
    learning_starts_transitions: Count = 1_000
    """No updates before."""
    update_period_steps: Count = 1
    """Agent steps from one update to the next (P17, P27)."""
    double: bool = False
    """Double DQN: Q_theta chooses the next action, the target network values it (van Hasselt et al., 2016; P75)."""
    clip_rewards: bool = False
    """Learn from and plan with rewards clipped to [-1, 1] (P65: on Atari); records keep the score as it is."""


@dataclass(frozen=True)
class ExplorationConfig:
    """Epsilon-greedy, drawn for each environment (P12 on Atari, P48 in the maze)."""

    epsilon_start: Share = 1.0
    """Epsilon at the first transition."""
    epsilon_end: Share = 0.1
    """Epsilon after the decay."""
    epsilon_decay_transitions: CountOrZero = 10_000
    """Length of the linear decay."""


@dataclass(frozen=True)
class EVAConfig:
    """The fast system."""

    nonparametric_weight: Share = 0.4
    """The weight of Q_NP in Eq. 1; 0 is exactly DQN (P1; paper: 0.4)."""
    trace: Literal["tcp", "n-step", "kbrl"] = "tcp"
    """Trace computation: trajectory-centric planning, n-step or kernel-based RL."""
    num_trajectories: Count = 10
    """M, trajectories retrieved from the replay buffer for a plan (paper; P3)."""
    trajectory_length: Count = 50
    """T, transitions followed in each (paper)."""
    plan_period_steps: Count = 20
    """Steps from one plan to the next (paper; P4)."""
    plan_at_episode_start: bool = False
    """Plan at each episode's first step too (P23)."""
    num_neighbours: Count = 5
    """k, entries of the value buffer averaged for a decision (paper; P3)."""
    value_buffer_capacity: Count = 2_000
    """Entries of the value buffer (paper)."""
    value_buffer_entries: Literal["all", "start"] = "all"
    """What of each trajectory enters the value buffer: all its steps, or only its first state (P2)."""
    value_buffers: Literal["shared", "per-environment"] = "shared"
    """One value buffer, or one for each environment, each with its share of the capacity (P8)."""
    remembered_values: Literal["stored", "recomputed"] = "stored"
    """Q_theta of remembered states: from the stored embedding, or by running the network on them again (P6)."""
    start: Literal["learning", "full"] = "learning"
    """EVA applies from when learning starts, or from when the replay buffer is full (P9)."""
    anneal_start_transitions: CountOrZero | None = None
    """When the weight begins to move to 0 (consolidation; P29); never if not given."""
    anneal_transitions: CountOrZero = 2_000_000
    """How long that takes (paper)."""
    kbrl_bandwidth: Scale = 1e-4
    """b, length scale of the Gaussian kernel (paper; P7)."""
    kbrl_similarity: Positive = 1e-2
    """C, similarity of every state to the parametric pseudo-state (paper; P7)."""


@dataclass(frozen=True)
class RunConfig:
    """How the run is carried out and recorded."""

    device: Device = "auto"
    """Where the network, the learner and the search run."""
    threads: Threads = 1
    """CPU threads of torch, part of what makes a run repeatable to the byte; 0 is all cores where the run begins."""
    metrics_period_transitions: Count = 1_000
    """Transitions from one line of metrics.jsonl to the next."""
    checkpoint_period_minutes: Positive = 5.0
    """Minutes from one checkpoint to the next; the last is written when the run ends or is stopped."""
    checkpoint_period_transitions: Count | None = None
    """Transitions from one checkpoint to the next, besides those by the clock; none if not given."""
    checkpoints_kept: Count = 2
    """The newest checkpoints that are kept."""
    stop_when_diverged: bool = True
    """Stop when values are beyond all that rewards allow; otherwise only infinite ones and what is no number."""


@dataclass(frozen=True)
class Config:
    """One run."""

    name: Name = "maze-1-coin"
    """The preset, or the environment's id: the run directory's name."""
    seed: CountOrZero = 0
    """All random numbers of the run follow from it."""
    steps: Count = 60_000
    """Transitions to train for, over all environments. No schedule depends on it, so a longer run begins the same."""
    environment: EnvironmentConfig = field(default_factory=EnvironmentConfig)
    maze: MazeConfig = field(default_factory=MazeConfig)
    atari: AtariConfig = field(default_factory=AtariConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    learner: LearnerConfig = field(default_factory=LearnerConfig)
    exploration: ExplorationConfig = field(default_factory=ExplorationConfig)
    eva: EVAConfig = field(default_factory=EVAConfig)
    run: RunConfig = field(default_factory=RunConfig)

    def __post_init__(self) -> None:
        check(self)
        network, eva = self.network, self.eva
        if not len(network.channels) == len(network.filter_sizes) == len(network.strides):
            raise UserError("network.channels, network.filter_sizes and network.strides must be of equal length.")
        num_buffers = 1 if eva.value_buffers == "shared" else self.environment.num_environments
        if eva.value_buffer_capacity // num_buffers < eva.num_neighbours:
            raise UserError(
                f"eva.value_buffer_capacity is {eva.value_buffer_capacity}, but must hold eva.num_neighbours "
                f"({eva.num_neighbours}) entries in each value buffer: raise it or lower eva.num_neighbours."
            )
        if self.replay.replay_capacity < 2 * self.environment.num_environments:
            raise UserError("replay.replay_capacity must be at least 2 for each environment: raise it.")

    @property
    def identity(self) -> dict[str, Any]:
        """What makes two runs the same run: everything but how long it goes on, where, and how it is kept safe."""
        identity = to_dict(self)
        for name in NOT_IDENTITY:
            *groups, last = name.split(".")
            del functools.reduce(dict.__getitem__, groups, identity)[last]
        return identity

    @property
    def variant(self) -> dict[str, Any]:
        """The identity without what a run directory spells out itself: name, weight and seed."""
        variant = self.identity
        del variant["name"], variant["seed"], variant["eva"]["nonparametric_weight"]
        return variant

    def variant_hash(self) -> str:
        """Return 8 hexadecimal digits that tell variants apart."""
        return hashlib.sha256(json.dumps(self.variant, sort_keys=True).encode()).hexdigest()[:8]

    def to_json(self) -> str:
        """Return the text of config.json, which `from_json` reads back."""
        return json.dumps(to_dict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Config:
        """Read the text of config.json."""
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UserError(f"the configuration is not JSON ({error}): pass a config.json that eva wrote.") from None
        return from_dict(cls, data)


def read_config(path: Path) -> Config:
    """Read a config.json; one that is not understood is named, one that cannot be read raises what `read_text` does."""
    try:
        return Config.from_json(path.read_text())
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def find_config(directory: Path) -> Config | None:
    """Return the configuration of the run in a directory; None where there is none that is understood."""
    try:
        return read_config(directory / "config.json")
    except (OSError, UnicodeDecodeError, UserError):
        return None
