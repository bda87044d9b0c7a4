"""EVA for Stable-Baselines3's DQN."""

import io
import pathlib
import warnings
from typing import Any, TypeVar

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor, nn

from eva.agent.adjuster import EphemeralValueAdjuster
from eva.build import build_adjuster, build_weight_schedule, make_adjuster
from eva.config import EVAConfig
from eva.errors import UserError, check_rewards
from eva.runs.checkpoint.state import pack, unpack
from eva.types import Bools, Floats, Ints, Observations, State

try:
    from stable_baselines3 import DQN
    from stable_baselines3.common.buffers import ReplayBuffer
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.logger import Logger
    from stable_baselines3.common.noise import ActionNoise
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
    from stable_baselines3.common.type_aliases import MaybeCallback
    from stable_baselines3.dqn.policies import QNetwork
except ImportError as error:
    raise UserError(
        f'EVADQN needs a package that is missing ({error}): run pip install "ephemeral-value-adjustments[sb3]".'
    ) from None

# For sb3_runs.py too: this module reports a missing SB3.
__all__ = ["DQN", "EVADQN", "BaseCallback", "BaseFeaturesExtractor", "Logger"]

_MEMORY = "eva_memory"  # where a saved replay buffer carries EVA's memory
_Self = TypeVar("_Self", bound="EVADQN")


class EVADQN(DQN):
    """`stable_baselines3.DQN`, and its arguments, with EVA as `eva` configures it.

    In training it acts with Q_EVA from when learning starts or the memory is full (`eva.start`), epsilon-greedily as
    DQN does: one draw for all environments. Its memory keeps an embedding of each state beside SB3's replay buffer, of
    the same size, and is saved and loaded with it. With weight 0 there is no memory, and this is DQN to the bit.
    """

    adjuster: EphemeralValueAdjuster

    def __init__(self, *arguments: Any, eva: EVAConfig = EVAConfig(), **named: Any) -> None:  # noqa: B008  (frozen)
        if not isinstance(eva, EVAConfig):
            raise UserError(f"eva is {eva!r}, but must be an EVAConfig: EVAConfig(nonparametric_weight=0.4).")
        self.eva = eva
        super().__init__(*arguments, **named)

    @property
    def nonparametric_weight(self) -> float:
        """The weight of Q_NP in the next decision; 0 while EVA does not apply yet (P9)."""
        is_learning = self._n_updates > 0 or self.num_timesteps >= self.learning_starts  # `learn` may reset the counter
        return build_weight_schedule(self.eva)(self.adjuster.memory, self.num_timesteps, is_learning)

    def learn(
        self: _Self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int = 4,
        tb_log_name: str = "EVADQN",
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> _Self:
        """Train as `DQN.learn` does; only the default name of TensorBoard's runs differs."""
        return super().learn(total_timesteps, callback, log_interval, tb_log_name, reset_num_timesteps, progress_bar)

    def predict(
        self,
        observation: Observations | dict[str, Observations],
        state: Any = None,
        episode_start: Bools | None = None,
        deterministic: bool = False,
    ) -> tuple[NDArray[Any], Any]:
        """Act as in training, but with separate plans: those that `state` carries from call to call.

        Pass the state that the last call returned. Without one, a plan is made for these very observations (P100).
        """
        self._warn_without_memory()
        weight = self.nonparametric_weight
        if weight == 0 or isinstance(observation, tuple):  # SB3 reports what is wrong with a tuple
            return super().predict(observation, state, episode_start, deterministic)
        self.policy.set_training_mode(False)
        q_theta, h, is_batch = self._look(observation)
        starts = np.full(len(h), state is None) if episode_start is None else np.asarray(episode_start, np.bool_)
        if state is None:
            state = self._player(len(h))
            state.plan(h, starts)
            q_eva = state.adjust(q_theta, h, weight)
        else:
            q_eva = state.adjust(q_theta, h, weight)
            state.plan(h, starts)
        actions = self._epsilon_greedy(q_eva, deterministic)
        return actions if is_batch else actions.squeeze(axis=0), state

    def save_replay_buffer(self, path: str | pathlib.Path | io.BufferedIOBase) -> None:
        """Save the replay buffer as a pickle file, and EVA's memory in it."""
        attributes = vars(self.replay_buffer)
        if self._remembers:
            state = {"memory": self.adjuster.memory.state_dict(), "adjuster": self.adjuster.state_dict()}
            attributes[_MEMORY] = pack(state)
        try:
            super().save_replay_buffer(path)
        finally:
            attributes.pop(_MEMORY, None)

    def load_replay_buffer(self, path: str | pathlib.Path | io.BufferedIOBase, truncate_last_traj: bool = True) -> None:
        """Load the replay buffer from a pickle file, and EVA's memory if it is there."""
        before = self.replay_buffer, self.adjuster
        try:
            super().load_replay_buffer(path, truncate_last_traj)
            self.adjuster = self._new_adjuster()
            if (packed := vars(self.replay_buffer).pop(_MEMORY, None)) and self._remembers:
                self._restore(unpack(*packed))
        except Exception:
            self.replay_buffer, self.adjuster = before
            raise
        if truncate_last_traj:
            self.adjuster.memory.cut()

    def _setup_model(self) -> None:
        if isinstance(self.observation_space, spaces.Dict):
            raise UserError("EVADQN does not take several inputs: flatten the observations into one Box.")
        super()._setup_model()
        self.adjuster = self._new_adjuster()
        self._decision: tuple[Tensor, float] | None = None  # embeddings acted in, (E, D), and the weight of Q_NP
        self._has_warned = False

    def _setup_learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        reset_num_timesteps: bool = True,
        tb_log_name: str = "run",
        progress_bar: bool = False,
    ) -> tuple[int, BaseCallback]:
        self._warn_without_memory()
        if self._decision is not None:  # a callback stopped the last call before the transition was stored
            self._decision = self._last_obs = None
        if reset_num_timesteps or self._last_obs is None:  # this resets running episodes (P101)
            self.adjuster.memory.cut()
        return super()._setup_learn(total_timesteps, callback, reset_num_timesteps, tb_log_name, progress_bar)

    def _sample_action(
        self, learning_starts: int, action_noise: ActionNoise | None = None, n_envs: int = 1
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        if not self._remembers:
            return super()._sample_action(learning_starts, action_noise, n_envs)
        assert self._last_obs is not None
        q_theta, h, _ = self._look(self._last_obs)
        weight = self.nonparametric_weight
        self._decision = h, weight
        if self.num_timesteps < learning_starts:
            return super()._sample_action(learning_starts, action_noise, n_envs)
        q_eva = self.adjuster.adjust(q_theta, h, weight)
        if weight > 0:
            changed = q_eva.argmax(dim=1) != q_theta.argmax(dim=1)
            self.logger.record_mean("eva/changed_share", float(changed.float().mean()))
        actions = self._epsilon_greedy(q_eva, deterministic=False)
        return actions, actions

    def _store_transition(
        self,
        replay_buffer: ReplayBuffer,
        buffer_action: NDArray[Any],
        new_obs: Observations | dict[str, Observations],
        reward: Floats,
        dones: Bools,
        infos: list[dict[str, Any]],
    ) -> None:
        check_rewards(reward.tolist(), self.num_timesteps)
        decision, self._decision = self._decision, None
        if decision is not None:
            h, weight = decision
            truncated = dones & np.array([info.get("TimeLimit.truncated", False) for info in infos], np.bool_)
            last_observations = np.array(new_obs)
            for i in truncated.nonzero()[0]:
                last_observations[i] = infos[i].get("terminal_observation", last_observations[i])
            last = self._look(last_observations)[1] if truncated.any() else None
            if weight > 0:
                self.adjuster.plan(h, self.adjuster.memory.episode_starts)  # before the state is stored (P22)
            self.adjuster.store(h, buffer_action, reward, dones & ~truncated, truncated, last)
        super()._store_transition(replay_buffer, buffer_action, new_obs, reward, dones, infos)

    def _on_step(self) -> None:
        super()._on_step()
        if self._remembers:
            self.logger.record("eva/weight", self.nonparametric_weight)
            for name, count in self.adjuster.metrics().items():
                self.logger.record(f"eva/{name}", count)

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "adjuster", "_decision", "_has_warned"]

    @property
    def _remembers(self) -> bool:
        return self.eva.nonparametric_weight > 0

    @torch.no_grad()
    def _look(self, observations: Any) -> tuple[Tensor, Tensor, bool]:
        """Return Q_theta, (E, A), embeddings, (E, D), and whether the observations had an axis for them."""
        tensor, is_batch = self.policy.obs_to_tensor(observations)
        features = self.q_net.extract_features(tensor, self.q_net.features_extractor)
        h = self.q_net.q_net[:-1](features)
        return self._head(h), h, is_batch

    @property
    def _head(self) -> nn.Linear:
        """From embeddings to Q_theta."""
        head = self.q_net.q_net[-1]
        if not isinstance(head, nn.Linear) or type(self.q_net).forward is not QNetwork.forward:
            raise UserError(
                "EVADQN needs values that are a linear layer over an embedding: "
                "use MlpPolicy or CnnPolicy, with a features extractor of your own if you like."
            )
        return head

    def _epsilon_greedy(self, values: Tensor, deterministic: bool) -> Ints:
        """Return the actions to take, (E,), with the draws of `DQN.predict`: all environments explore, or none."""
        if not deterministic and np.random.rand() < self.exploration_rate:  # noqa: NPY002
            return np.array([self.action_space.sample() for _ in values])
        greedy: Ints = values.argmax(dim=1).cpu().numpy()
        return greedy

    def _new_adjuster(self) -> EphemeralValueAdjuster:
        head = self._head
        return make_adjuster(
            head,
            embedding_size=head.in_features,
            num_actions=head.out_features,
            num_environments=self.n_envs,
            memory_capacity=max(self.buffer_size * self._remembers, 2 * self.n_envs),
            discount=self.gamma,
            config=self.eva,
            device=str(self.device),
        )

    def _player(self, num_environments: int) -> EphemeralValueAdjuster:
        """Return an adjuster over the same memory with an empty value buffer; call only `adjust` and `plan`."""
        head, memory = self._head, self.adjuster.memory
        num_buffers = None if self.eva.value_buffers == "shared" else num_environments  # None: as in training
        return build_adjuster(self.eva, memory, head, None, head.out_features, num_buffers)

    def _restore(self, state: State) -> None:
        memory = self.adjuster.memory
        saved, here = ((len(m["lane_counts"]), *m["embeddings"].shape) for m in (state["memory"], memory.state_dict()))
        if saved != here:
            raise UserError(
                "the replay buffer was saved with {} environments and {} embeddings of {} numbers, but this model has "
                "{}, {} and {}: build the model as the one that saved it.".format(*saved, *here)
            )
        memory.load_state_dict(state["memory"])
        memory.discounts[memory.discounts > 0] = self.gamma  # the learner uses this model's gamma too
        saved_plans, plans = state["adjuster"], self.adjuster.state_dict()
        first, second = ([x["values"].shape for x in each["value_buffers"].values()] for each in (saved_plans, plans))
        if first != second:  # `eva` has changed: only the plans are lost
            saved_plans = {**saved_plans, "value_buffers": plans["value_buffers"], "rounds": {}}
        self.adjuster.load_state_dict(saved_plans)

    def _warn_without_memory(self) -> None:
        is_blank = self.num_timesteps > 0 and not self.adjuster.memory.lane_counts.any()
        if self._remembers and is_blank and not self._has_warned:
            self._has_warned = True
            warnings.warn(
                "this model was trained but has no memory: it acts as DQN until it has some. "
                "Save it with save_replay_buffer and load it with load_replay_buffer.",
                stacklevel=3,
            )
