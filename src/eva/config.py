"""Every hyper-parameter, described once, with its unit and its source.

The docstrings of fields are the text of `eva train --help`. "paper: 10" marks a value that the paper states; other
values are our choice. A comment such as P27 names the choice's section in docs/, which docs/paper.md lists. Durations
carry their unit: `_steps` are agent steps of one environment, `_transitions` are summed over environments, `_updates`
are optimiser steps, `_frames` are emulator frames. One exception: `steps`, the length of the run, counts transitions.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from eva import schema
from eva.errors import UserError
from eva.files import read_file
from eva.ids import ATARI_ID, MAZE_ID, MINATAR_PREFIX
from eva.schema import NO_ARGUMENTS, Arguments, Count, CountOrZero, Name, Positive, Scale, Share, Shares, Sizes, Threads

Device = Literal["auto", "cpu", "cuda"]
Tools = tuple[Literal["tensorboard", "wandb", "trackio"], ...]
NOT_IDENTITY = (
    *("steps", "evaluation.", "network.fit_images", "run.device", "run.checkpoint", "run.stop_when_diverged"),
    "run.track",
)
"""Prefixes of the fields that may change when a run is resumed."""
ADDED_FIELDS = {
    "eva.embeddings": "stored",
    "environment.kwargs": NO_ARGUMENTS,
    "environment.wrappers": (),
    "network.factory": None,
    "network.fingerprint": None,
    "minatar.repeat_action_probability": 0.1,
    "minatar.difficulty_ramping": True,
    "minatar.max_episode_steps": 10_000,
    "learner.precision": "float32",
}
"""Fields that older runs do not have, and the values that describe these runs. A field with this value is left out of
the identity, so that an older run stays the same run: in its directory, and when it is resumed."""


@dataclass(frozen=True)
class EnvironmentConfig:
    """The environment."""

    id: str = MAZE_ID
    """Gymnasium id of the environment."""
    num_environments: Count = 1  # P27
    """E, number of environments stepped together (paper: 4 on Atari)."""
    kwargs: Arguments = NO_ARGUMENTS
    """Keyword arguments of gymnasium.make, as a JSON object; only for Gymnasium environments."""
    wrappers: tuple[str, ...] = ()
    """Wrappers as `module:Class`, each called with the environment, the innermost first; as `environment.kwargs`."""

    def __post_init__(self) -> None:
        if isinstance(self.kwargs, Mapping) and not isinstance(self.kwargs, Arguments):
            object.__setattr__(self, "kwargs", Arguments(self.kwargs))  # hashable and immutable, as all fields are

    @property
    def is_ours(self) -> bool:
        """Whether it is the maze, Atari or MinAtar, which have their own groups of fields."""
        return self.id in (MAZE_ID, ATARI_ID) or self.id.startswith(MINATAR_PREFIX)


@dataclass(frozen=True)
class MazeConfig:
    """The coin maze of Section 5.1; used only if `environment.id` is eva/CoinMaze-v0."""

    layout: str = "paper"  # P14
    """`paper` (59 free cells), `open` (65 free cells), or the path of a text file with `#` for walls and `.`."""
    num_coins: Count = 1
    """Coins in the maze at the start of an episode (paper: 1, 2 and 4)."""
    max_episode_steps: Count = 500
    """Truncate an episode after this number of steps (paper: 500)."""


@dataclass(frozen=True)
class AtariConfig:
    """An Atari game, preprocessed as for DQN; used only if `environment.id` is eva/Atari-v0."""

    game: str = "pong"
    """One of the usual 57 games, in any spelling: `ms_pacman`, `ms-pacman`, `MsPacman`."""
    frame_skip: Count = 4  # P61
    """Number of frames that each action is repeated for; the last two are max-pooled (DQN: 4)."""
    num_stacked: Count = 4  # P60
    """Number of frames in an observation (DQN: 4)."""
    max_noop_frames: CountOrZero = 30  # P62
    """An episode starts with 1 to this number of no-op frames, drawn uniformly (DQN: 30)."""
    max_episode_frames: Count = 108_000  # P63
    """Truncate an episode after this number of frames; 108,000 frames are half an hour."""
    repeat_action_probability: Share = 0.0  # P64
    """Probability, at each frame, of repeating the previous frame's action ("sticky actions"; DQN: 0)."""


@dataclass(frozen=True)
class MinAtarConfig:
    """A game of MinAtar; used only if `environment.id` is one of its ids, such as MinAtar/Breakout-v0."""

    repeat_action_probability: Share = 0.1  # P151
    """Probability, at each step, of repeating the previous action ("sticky actions"; Young and Tian: 0.1)."""
    difficulty_ramping: bool = True  # P151
    """Make enemies faster over time in Asterix, Seaquest and Space Invaders (Young and Tian: true)."""
    max_episode_steps: Count | None = 10_000  # P152
    """Truncate an episode after this number of steps; null never does."""


@dataclass(frozen=True)
class NetworkConfig:
    """The parametric value function Q_theta."""

    channels: Sizes = (16, 32)
    """Output channels of each convolution, for image observations (paper: two convolutions in the maze)."""
    filter_sizes: Sizes = (3, 3)
    """Filter size of each convolution, in pixels; no padding."""
    strides: Sizes = (1, 2)
    """Stride of each convolution, in pixels."""
    hidden_sizes: Sizes = (64,)
    """Units of each fully connected layer before the embedding, for vector observations only."""
    embedding_size: Count = 64
    """D, units of the second to last layer (paper: 64 in the maze)."""
    fit_images: bool = True
    """Choose convolutions and replay capacity, where they have their defaults, by the size of your own images."""
    factory: str | None = None
    """A network of your own, as `module:function`: called with the EnvironmentSpec, it returns a torch module."""
    fingerprint: str | None = None
    """Class and structure of a network of your own; the run writes it, and rejects any other network."""


@dataclass(frozen=True)
class ReplayConfig:
    """The replay buffer."""

    replay_capacity: Count = 50_000
    """Number of states stored, over all environments (paper: 50,000 in the maze)."""
    frames: Literal["raw", "compressed"] = "compressed"  # P70, P71
    """How to store the frames of stacked observations: raw, or compressed without loss by zstd."""
    prioritised: bool = False  # P75
    """Sample the learner's batches by priority instead of uniformly (Schaul et al., 2016). Planning is unaffected."""
    priority_exponent: Share = 0.6  # P76
    """alpha, exponent of the priorities; 0 samples uniformly (Schaul et al.: 0.6)."""
    priority_floor: Positive = 1e-6  # P76
    """epsilon, added to each absolute error, so that every transition can be sampled."""
    importance_exponent_start: Share = 0.4  # P78
    """beta at the start, exponent of the importance weights; it ends at 1 (Schaul et al.: 0.4)."""
    importance_anneal_transitions: CountOrZero = 60_000  # P78
    """Transitions until beta reaches 1; in most presets the length of the run."""
    search: Literal["auto", "brute", "projected"] = "auto"  # P80
    """Nearest-neighbour search, always exact: brute force, or candidates from a projection; auto chooses by size."""


@dataclass(frozen=True)
class LearnerConfig:  # P16, P48
    """DQN's learner. In the maze, learning rate and target period were tuned at weight 0."""

    discount: Share = 0.99  # P12
    """gamma, the discount of each transition (DQN: 0.99)."""
    batch_size: Count = 48
    """B, transitions in a batch (paper: 48)."""
    optimiser: Literal["adam", "rmsprop"] = "adam"
    """Adam (paper: Adam), or RMSProp with centred squared gradients (DQN)."""
    optimiser_epsilon: Positive = 1e-8
    """epsilon in the denominator of the optimiser's step."""
    learning_rate: Positive = 2.5e-4
    """Learning rate of the optimiser."""
    learning_rate_end: Positive | None = None
    """Learning rate after the decay; by default it stays constant."""
    learning_rate_decay_updates: CountOrZero = 0
    """Updates that the linear decay of the learning rate takes."""
    error: Literal["squared", "huber"] = "squared"  # P15
    """Loss between value and target (paper: squared; DQN: clipped errors, which have the gradient of Huber)."""
    target_period_updates: Count = 50  # P48
    """Updates between copies to the target network (paper: 50 on Atari)."""
    learning_starts_transitions: Count = 1_000
    """Transitions before the first update (paper: 40,000 frames on Atari, which are 10,000)."""
    max_gradient_norm: Positive | None = None
    """Scale gradients with a larger Euclidean norm down to this norm; by default never."""
    update_period_steps: Count = 1  # P17, P27
    """Agent steps between rounds of updates (paper: 1)."""
    updates_per_round: Count = 1
    """Updates in each round, each with its own batch."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Arithmetic of the layers in an update; parameters, acting and memory are always float32 (docs/performance.md)."""
    double: bool = False  # P75
    """Double DQN: Q_theta selects the next action, the target network evaluates it (van Hasselt et al., 2016)."""
    clip_rewards: bool = False  # P65
    """Clip rewards to [-1, 1] for learning and planning (DQN: true); recorded returns are not clipped."""


@dataclass(frozen=True)
class ExplorationConfig:  # P12, P48
    """Epsilon-greedy exploration, drawn for each environment."""

    epsilon_start: Share = 1.0
    """Probability of a random action at the first transition (DQN: 1)."""
    epsilon_end: Share = 0.1
    """Probability of a random action after the decay (DQN: 0.1)."""
    epsilon_decay_transitions: CountOrZero = 10_000
    """Transitions that the linear decay takes (DQN: 1M frames, which are 250,000 transitions)."""


@dataclass(frozen=True)
class EVAConfig:
    """Ephemeral Value Adjustments: planning over the replay buffer, and the value buffer."""

    nonparametric_weight: Share = 0.4  # P1
    """Weight of Q_NP in Eq. 1; 0 is exactly DQN (paper: 0.4)."""
    trace: Literal["tcp", "n-step", "kbrl"] = "tcp"
    """Trace computation: trajectory-centric planning, n-step returns or kernel-based RL (paper: tcp)."""
    num_trajectories: Count = 10  # P3
    """M, trajectories retrieved from the replay buffer for each plan (paper: 10)."""
    trajectory_length: Count = 50
    """T, transitions followed in each trajectory (paper: 50)."""
    plan_period_steps: Count = 20  # P4
    """Agent steps between plans (paper: 20)."""
    plan_at_episode_start: bool = False  # P23
    """Also plan at the first step of each episode."""
    num_neighbours: Count = 5  # P3
    """k, entries of the value buffer averaged for a decision (paper: 5)."""
    value_buffer_capacity: Count = 2_000
    """Entries of the value buffer (paper: 2000)."""
    value_buffer_entries: Literal["all", "start"] = "all"  # P2
    """Steps of a trajectory that enter the value buffer: all, or only the first state."""
    value_buffers: Literal["shared", "per-environment"] = "shared"  # P8
    """One value buffer for all environments, or one for each, with an equal share of the capacity."""
    remembered_values: Literal["stored", "recomputed"] = "stored"  # P6
    """Q_theta of remembered states: from the stored embedding, or recomputed from the stored observation."""
    embeddings: Literal["stored", "refreshed"] = "stored"  # P160
    """Embeddings in memory: as stored when the state was seen, or refreshed whenever the learner samples the state."""
    start: Literal["learning", "full"] = "learning"  # P9
    """Apply EVA once learning starts, or once the replay buffer is full (paper: full on Atari)."""
    anneal_start_transitions: CountOrZero | None = None  # P29
    """Transitions until the weight starts to decay linearly to 0 (consolidation); by default it never does."""
    anneal_transitions: CountOrZero = 2_000_000  # P29
    """Transitions that this decay takes (paper: 2 million steps)."""
    kbrl_bandwidth: Scale = 1e-4  # P7
    """b, length scale of the Gaussian kernel of kernel-based RL, a distance of embeddings (paper: 1e-4)."""
    kbrl_similarity: Positive = 1e-2  # P7
    """C, similarity of every state to the parametric pseudo-state of kernel-based RL (paper: 0.01)."""

    def __post_init__(self) -> None:
        schema.check(self, "eva.")


EVALUATION_EPSILON = 0.05
"""Exploration in the single episodes of `eva evaluate` and `eva inspect` (P28)."""
EVALUATION_WEIGHTS, EVALUATION_EPISODES = (0.0, 0.2, 0.4), 100
"""Weights that `eva evaluate` compares, and the number of episodes for each."""
MAX_INSPECTED_STEPS = 2_000
"""Decisions of an episode that `eva inspect` shows by default."""


@dataclass(frozen=True)
class EvaluationConfig:
    """Single episodes played during training with the current network and memory; they do not affect training."""

    period_transitions: Count | None = None
    """Transitions between evaluations; by default there are none."""
    num_episodes: Count = 50
    """Episodes for each weight and epsilon, always from the same start states."""
    weights: Shares = (0.0, 0.4)
    """Weights of Q_NP to compare; 0 is the network alone."""
    epsilons: Shares = (0.0,)
    """Probabilities of a random action; 0 is greedy."""
    seed: CountOrZero = 0
    """Seed of start states and exploration; independent of the seed of training."""
    accuracy: bool = False
    """Also compare Q_theta, Q_NP and Q_EVA with the exact values, in accuracy.jsonl; only in the maze."""


@dataclass(frozen=True)
class RunConfig:
    """How the run is executed and recorded."""

    device: Device = "auto"
    """Device of the network, the learner and the search; auto is cuda if there is a GPU."""
    threads: Threads = 1
    """CPU threads of torch; 0 is all cores. A run is repeatable to the byte only with the same number of threads."""
    metrics_period_transitions: Count = 1_000
    """Transitions between lines of metrics.jsonl."""
    checkpoint_period_minutes: Positive = 5.0
    """Minutes between checkpoints; one more is written when the run ends or is stopped."""
    checkpoint_period_transitions: Count | None = None
    """Transitions between further checkpoints; by default there are none."""
    checkpoints_kept: Count = 2
    """Number of newest checkpoints to keep."""
    stop_when_diverged: bool = True
    """If true, stop when abs(Q) exceeds 10 r_max / (1 - gamma); if false, stop only on inf or NaN."""
    track: Tools = ()
    """Tools that also get the numbers of the run: TensorBoard, Weights & Biases, trackio; see docs/tracking.md."""


@dataclass(frozen=True)
class Config:
    """One run."""

    name: Name = "maze-1-coin"
    """Name of the run directory: the preset, or the environment's id."""
    seed: CountOrZero = 0
    """Seed of all random numbers of the run."""
    steps: Count = 60_000
    """Transitions to train for, over all environments. No schedule depends on it, so a run can be made longer."""
    environment: EnvironmentConfig = EnvironmentConfig()
    maze: MazeConfig = MazeConfig()
    atari: AtariConfig = AtariConfig()
    minatar: MinAtarConfig = MinAtarConfig()
    network: NetworkConfig = NetworkConfig()
    replay: ReplayConfig = ReplayConfig()
    learner: LearnerConfig = LearnerConfig()
    exploration: ExplorationConfig = ExplorationConfig()
    eva: EVAConfig = EVAConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    run: RunConfig = RunConfig()

    def __post_init__(self) -> None:
        schema.check(self)
        network, eva = self.network, self.eva
        if not len(network.channels) == len(network.filter_sizes) == len(network.strides):
            raise UserError("network.channels, network.filter_sizes and network.strides must be of equal length.")
        num_buffers = 1 if eva.value_buffers == "shared" else self.environment.num_environments
        if eva.value_buffer_capacity // num_buffers < eva.num_neighbours:
            raise UserError(
                f"eva.value_buffer_capacity is {eva.value_buffer_capacity}, but must hold eva.num_neighbours "
                f"({eva.num_neighbours}) entries in each value buffer: raise it or lower eva.num_neighbours."
            )
        if self.evaluation.accuracy and self.environment.id != MAZE_ID:
            raise UserError("evaluation.accuracy needs exact values, which only the maze has: leave it False.")
        if (self.environment.kwargs or self.environment.wrappers) and self.environment.is_ours:
            raise UserError(
                f"environment.kwargs and environment.wrappers are for Gymnasium environments: {self.environment.id} "
                "has fields of its own (docs/configuration.md)."
            )
        if self.replay.replay_capacity < 2 * self.environment.num_environments:
            raise UserError("replay.replay_capacity must be at least 2 for each environment: raise it.")

    @property
    def identity(self) -> dict[str, Any]:
        """The fields that must be equal for two runs to be the same run; see `NOT_IDENTITY` and `ADDED_FIELDS`."""
        identity = schema.to_dict(self)
        for name, value in schema.flatten(self):
            if name.startswith(NOT_IDENTITY) or value == ADDED_FIELDS.get(name, ...):
                group, _, field = name.rpartition(".")
                del (identity[group] if group else identity)[field]
        return {name: value for name, value in identity.items() if value != {}}  # without groups that are now empty

    @property
    def settings(self) -> dict[str, Any]:
        """The identity without the fields that the path of a run directory contains: name, weight and seed."""
        settings = self.identity
        del settings["name"], settings["seed"], settings["eva"]["nonparametric_weight"]
        return settings

    def settings_hash(self) -> str:
        """Return 8 hexadecimal digits of the SHA-256 of the settings."""
        return hashlib.sha256(json.dumps(self.settings, sort_keys=True).encode()).hexdigest()[:8]

    def to_json(self) -> str:
        """Return the text of config.json, which `from_json` reads back."""
        return json.dumps(schema.to_dict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Config":
        """Read the text of config.json."""
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UserError(f"the configuration is not JSON ({error}): pass a config.json that eva wrote.") from None
        return schema.from_dict(cls, data)


def read_config(path: Path) -> Config:
    """Read a config.json; raises UserError with its path if it is invalid, OSError if it cannot be read."""
    return parse_config(path, path.read_bytes())


def parse_config(path: Path, content: bytes) -> Config:
    """Parse the content of the config.json in `path`."""
    try:
        return Config.from_json(content.decode())
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def find_config(directory: Path) -> Config | None:
    """Return the configuration of the run in a directory, or None if there is no valid one."""
    try:
        return parse_config(directory / "config.json", read_file(directory / "config.json"))
    except (OSError, UnicodeDecodeError, UserError):
        return None
