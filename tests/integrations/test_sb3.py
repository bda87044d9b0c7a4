"""EVADQN: bit-identical to Stable-Baselines3's DQN with weight 0, and to an adjuster driven by hand otherwise."""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback, CallbackList, CheckpointCallback, EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.envs import FakeImageEnv, IdentityEnv, SimpleMultiObsEnv
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.logger import configure
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecFrameStack, VecMonitor, VecNormalize
from stable_baselines3.dqn.policies import DQNPolicy, QNetwork
from torch import Tensor

import eva
from eva.agent.adjuster import EphemeralValueAdjuster
from eva.agent.memory.replay import CLOSING, STEP, TERMINATION
from eva.config import EVAConfig
from eva.errors import UserError
from eva.integrations.sb3 import EVADQN
from eva.runs.checkpoint.state import pack

EVA = EVAConfig(
    nonparametric_weight=0.7,
    num_trajectories=3,
    trajectory_length=5,
    plan_period_steps=3,
    num_neighbours=2,
    value_buffer_capacity=60,
)
DQN_0 = EVAConfig(nonparametric_weight=0.0)
NOTHING_RECALLED = replace(EVA, num_neighbours=2_000, value_buffer_capacity=2_000)  # never so many entries (P24)
PACKED = dict[str, Any]


class Walk(gymnasium.Env[np.ndarray, int]):
    """A random walk with random rewards and terminations, truncated after 7 steps; `diary` records every episode."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float32)

    def __init__(self) -> None:
        self.action_space = gymnasium.spaces.Discrete(3)
        self.diary: list[list[tuple[np.ndarray, int | None, float, int]]] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.state = self.np_random.normal(size=3).astype(np.float32)
        self.diary.append([])
        return self.state, {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        before, episode = self.state, self.diary[-1]
        self.state = (self.state + self.np_random.normal(size=3) + action - 1).astype(np.float32)
        reward, terminated = float(self.np_random.normal() + action), bool(self.np_random.random() < 0.1)
        truncated = len(episode) == 6
        episode.append((before, int(action), reward, TERMINATION if terminated else STEP))
        if truncated and not terminated:
            episode.append((self.state, None, 0.0, CLOSING))
        return self.state, reward, terminated, truncated, {}


@pytest.fixture(scope="module", autouse=True)
def _temporary_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """SB3's logger makes a folder for each `learn`, and leaves it there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("temporary")))
        yield


def walks(num_environments: int = 3) -> DummyVecEnv:
    return DummyVecEnv([Walk] * num_environments)


def images() -> VecEnv:
    """Two environments of small images, stacked; what they show is seeded."""

    def make(seed: int) -> Callable[[], gymnasium.Env[Any, Any]]:
        def made() -> gymnasium.Env[Any, Any]:
            environment = FakeImageEnv(action_dim=3, screen_height=36, screen_width=36)
            environment.observation_space.seed(seed)
            return environment

        return made

    return VecFrameStack(DummyVecEnv([make(0), make(1)]), 2)


def model(environment: Any, config: EVAConfig | None = EVA, policy: str = "MlpPolicy", **changed: Any) -> Any:
    """Return a small EVADQN, or DQN without a config, with a short exploration phase."""
    arguments: dict[str, Any] = {
        "learning_rate": 1e-3,
        "buffer_size": 300,
        "learning_starts": 12,
        "batch_size": 8,
        "train_freq": 1,
        "target_update_interval": 9,
        "exploration_fraction": 0.3,
        "exploration_final_eps": 0.2,
        "policy_kwargs": {"net_arch": [16, 8]} if policy == "MlpPolicy" else None,
        "seed": 3,
        "device": "cpu",
        **changed,
    }
    return (
        DQN(policy, environment, **arguments)
        if config is None
        else EVADQN(policy, environment, eva=config, **arguments)
    )


class Watch(BaseCallback):
    """Records each step before it is stored."""

    def __init__(self, look: Callable[[Any], None] = lambda _: None) -> None:
        super().__init__()
        self.actions: list[np.ndarray] = []
        self._look = look

    def _on_step(self) -> bool:
        self.actions.append(self.locals["actions"])
        self._look(self)
        return True


def embed(agent: DQN, observations: np.ndarray) -> tuple[Tensor, Tensor]:
    """Return the output and the input of the last layer: values and embeddings."""
    seen: list[Tensor] = []
    hook = agent.q_net.q_net[-1].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    with torch.no_grad():
        values = agent.q_net(agent.policy.obs_to_tensor(observations)[0])
    hook.remove()
    return values, seen[0]


def everything(agent: EVADQN) -> PACKED:
    """Return the bytes of the memory and of the training's value buffers."""
    arrays, plain = pack({"adjuster": agent.adjuster.state_dict(), "memory": agent.adjuster.memory.state_dict()})
    return {**{name: array.tobytes() for name, array in arrays.items()}, "plain": plain}


def by_hand(agent: EVADQN, config: EVAConfig, num_environments: int) -> EphemeralValueAdjuster:
    return eva.make_adjuster(
        agent.q_net.q_net[-1],
        embedding_size=8,
        num_actions=3,
        num_environments=num_environments,
        memory_capacity=300,
        config=config,
    )


@pytest.fixture(scope="module")
def trained() -> Iterator[EVADQN]:
    """A trained agent that no test changes."""
    agent = model(walks(2)).learn(150)
    before = everything(agent)
    yield agent
    assert everything(agent) == before


@pytest.mark.parametrize("config", [DQN_0, NOTHING_RECALLED], ids=["weight 0", "nothing recalled"])
@pytest.mark.parametrize(
    ("make", "policy", "steps"),
    [(walks, "MlpPolicy", 240), (images, "CnnPolicy", 40), (lambda: IdentityEnv(3, ep_length=5), "MlpPolicy", 120)],
    ids=["vectors", "images", "numbers"],
)
def test_weight_0_is_sb3s_dqn_to_the_bit(make: Callable[[], Any], policy: str, steps: int, config: EVAConfig) -> None:
    pasts = []
    for each in (None, config):
        watch, agent = Watch(), model(make(), each, policy)
        agent.learn(steps, callback=watch)
        evaluation = [agent.predict(agent.get_env().reset(), deterministic=False)[0] for _ in range(20)]
        parameters = torch.cat([parameter.flatten() for parameter in agent.policy.parameters()]).detach().numpy()
        drawn, stored = np.random.rand(), agent.replay_buffer.actions  # noqa: NPY002
        pasts.append((np.array(watch.actions), parameters, drawn, stored, np.array(evaluation)))
    for theirs, ours in zip(*pasts, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert agent.num_timesteps >= steps
    assert agent.adjuster.memory.lane_counts.any() == (config.nonparametric_weight > 0)


@pytest.mark.parametrize("num_environments", [1, 3])
@pytest.mark.parametrize("value_buffers", ["shared", "per-environment"])
def test_actions_in_training_follow_an_adjuster_driven_by_hand(num_environments: int, value_buffers: Any) -> None:
    config = replace(EVA, value_buffers=value_buffers)
    agent = model(
        walks(num_environments), config, learning_starts=0, exploration_initial_eps=0.0, exploration_final_eps=0.0
    )
    hand, differing = by_hand(agent, config, num_environments), []

    def compare(watch: Watch) -> None:
        q, h = embed(agent, agent._last_obs)
        greedy = hand.adjust(q, h, 0.7).argmax(dim=1).numpy()
        np.testing.assert_array_equal(watch.actions[-1], greedy)
        differing.append((greedy != q.argmax(dim=1).numpy()).any())
        dones, infos, last = watch.locals["dones"], watch.locals["infos"], watch.locals["new_obs"].copy()
        for i in dones.nonzero()[0]:
            last[i] = infos[i]["terminal_observation"]
        truncated = np.array([info["TimeLimit.truncated"] for info in infos])
        hand.observe(h, greedy, watch.locals["rewards"], dones & ~truncated, truncated, embed(agent, last)[1])

    agent.learn(100 * num_environments, callback=Watch(compare))
    assert len(differing) == 100
    assert sum(differing) > 10
    assert hand.num_steps == agent.adjuster.num_steps > 90


@pytest.mark.parametrize("handle_timeouts", [True, False])
def test_memory_keeps_episodes_apart(handle_timeouts: bool) -> None:
    """Terminations, time limits, resets by SB3 and resets by `learn`, against the environments' diaries."""
    environment = walks()
    timeouts = {"handle_timeout_termination": handle_timeouts}  # decides what the learner does (P103)
    agent = model(environment, gradient_steps=0, buffer_size=100_000, replay_buffer_kwargs=timeouts)
    agent.learn(90)
    agent.learn(60)  # resets the environments amid their episodes
    agent.learn(60, reset_num_timesteps=False)  # does not
    memory, num_cut = agent.adjuster.memory, 0
    for lane, walk in enumerate(environment.envs):
        episodes = [episode for episode in walk.unwrapped.diary if episode]
        kinds = [[kind for *_, kind in episode] for episode in episodes]
        for each in kinds[:-1]:
            if each[-1] == STEP:
                each[-1] = CLOSING  # its last action led to nothing that was kept
                num_cut += 1
        slots = lane * memory.lane_capacity + np.arange(memory.lane_counts[lane])
        expected = [row for episode in episodes for row in episode]
        assert memory.kinds[slots].tolist() == [kind for each in kinds for kind in each]
        assert memory.actions[slots].tolist() == [action or 0 for _, action, _, _ in expected]
        np.testing.assert_allclose(memory.rewards[slots], [reward for _, _, reward, _ in expected], rtol=1e-6)
        _, h = embed(agent, np.array([state for state, *_ in expected]))
        np.testing.assert_allclose(memory.embeddings[slots], h, atol=1e-6)
        assert {STEP, TERMINATION, CLOSING} == set(memory.kinds[slots])
    assert num_cut > 0, "by the second `learn`"


class StopAtAnEnd(BaseCallback):
    """Stops training on the step that ends an episode, before SB3 has stored it."""

    def _on_step(self) -> bool:
        return self.num_timesteps < 30 or not self.locals["dones"].any()


def test_episode_stopped_by_a_callback_is_cut() -> None:
    environment = walks(1)
    agent = model(environment, gradient_steps=0, buffer_size=1_000)
    agent.learn(200, callback=StopAtAnEnd())
    diary = environment.envs[0].unwrapped.diary
    assert agent.num_timesteps < 200
    stopped = len(diary) - 2  # the environment has begun the next
    agent.learn(20, reset_num_timesteps=False)
    kept = [[state for state, *_ in episode] for episode in diary if episode]
    kept[stopped] = kept[stopped][: 6 if len(diary[stopped]) == 8 else -1]  # without the state of the last action
    memory = agent.adjuster.memory
    slots = np.arange(memory.lane_counts[0])
    _, h = embed(agent, np.array([state for states in kept for state in states]))
    np.testing.assert_allclose(memory.embeddings[slots], h, atol=1e-6)
    seam = sum(map(len, kept[: stopped + 1]))
    assert memory.kinds[seam - 1] == CLOSING
    assert 0 < seam < len(slots)


def test_stacked_images_are_closed_with_their_last_observation() -> None:
    agent = model(images(), policy="CnnPolicy", gradient_steps=0)
    lasts: list[np.ndarray] = []
    watch = Watch(lambda it: lasts.extend(x["terminal_observation"] for x in it.locals["infos"] if "episode" in x))
    agent.set_env(VecMonitor(agent.get_env()))
    agent.learn(60, callback=watch)
    memory = agent.adjuster.memory
    closing = (memory.kinds == CLOSING).nonzero()[0]
    assert len(closing) == len(lasts) > 1
    _, h = embed(agent, np.array(lasts))
    order = np.argsort(memory.index.born[closing])
    np.testing.assert_allclose(memory.embeddings[closing[order]], h, atol=1e-6)
    assert h.shape[1] == 512


def test_evaluation_uses_its_own_plans(trained: EVADQN) -> None:
    """Driven by hand: the first decision is planned for, the next ones as in training (P100)."""
    environment = walks(4)
    observations, state, differing = environment.reset(), None, 0
    for step in range(40):
        q, h = embed(trained, observations)
        starts = np.full(4, step == 0)
        if step == 0:
            hand = trained._player(4)
            hand.plan(h, starts)
            expected = hand.adjust(q, h, 0.7)
        else:
            expected = hand.adjust(q, h, 0.7)
            hand.plan(h, starts)
        actions, state = trained.predict(observations, state, starts, deterministic=True)
        np.testing.assert_array_equal(actions, expected.argmax(dim=1))
        differing += (expected.argmax(dim=1) != q.argmax(dim=1)).sum().item()
        observations, *_ = environment.step(actions)
    assert differing > 5
    assert state is not None
    assert len(state.value_buffers[0]) == 60


def test_predict_without_state_depends_on_the_observation_alone(trained: EVADQN) -> None:
    observations = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
    singly = [trained.predict(each, deterministic=True)[0] for each in observations]
    assert all(action.shape == () for action in singly)
    again = [trained.predict(each, deterministic=True)[0] for each in observations]
    assert singly == again
    assert (np.array(singly) != embed(trained, observations)[0].argmax(dim=1).numpy()).any()


def test_tuple_observation_raises_as_in_sb3(trained: EVADQN) -> None:
    with pytest.raises(ValueError, match="probably mixing Gym API with SB3 VecEnv API"):
        trained.predict(Walk().reset(), deterministic=True)  # type: ignore[arg-type]


def test_evaluate_policy_does_not_change_training(trained: EVADQN) -> None:
    before = everything(trained)
    returns, lengths = evaluate_policy(trained, VecMonitor(walks(3)), n_eval_episodes=6, return_episode_rewards=True)
    assert len(returns) == len(lengths) == 6
    assert everything(trained) == before


@pytest.mark.parametrize("per_environment", [False, True])
def test_value_buffers_in_evaluation_are_those_of_its_environments(per_environment: bool) -> None:
    config = replace(EVA, value_buffers="per-environment" if per_environment else "shared")
    agent = model(walks(3), config).learn(90)
    _, state = agent.predict(walks(5).reset())
    assert [len(buffer.values) for buffer in state.value_buffers] == ([20] * 5 if per_environment else [60])


def test_a_model_is_saved_and_loaded(trained: EVADQN, tmp_path: Path) -> None:
    trained.save(tmp_path / "model")
    trained.save_replay_buffer(tmp_path / "memory")
    loaded = EVADQN.load(tmp_path / "model", env=walks(2))
    loaded.load_replay_buffer(tmp_path / "memory")
    assert loaded.eva == EVA
    assert loaded.nonparametric_weight == 0.7
    before, after = everything(trained), everything(loaded)
    cut = {"memory/kinds"}  # running episodes ended
    assert {name for name in before if before[name] != after[name]} <= cut
    observations = np.random.default_rng(1).normal(size=(50, 3)).astype(np.float32)
    for each in observations:
        np.testing.assert_array_equal(
            loaded.predict(each, deterministic=True)[0], trained.predict(each, deterministic=True)[0]
        )
    loaded.learn(30, reset_num_timesteps=False)
    assert loaded.num_timesteps == 180
    plain = EVADQN.load(tmp_path / "model", env=walks(2), eva=DQN_0)
    plain.load_replay_buffer(tmp_path / "memory")
    q, _ = embed(plain, observations)
    np.testing.assert_array_equal(plain.predict(observations, deterministic=True)[0], q.argmax(dim=1))


def test_loaded_memory_can_continue_its_episodes(trained: EVADQN, tmp_path: Path) -> None:
    trained.save_replay_buffer(tmp_path / "memory")
    loaded = model(walks(2))
    loaded.load_replay_buffer(tmp_path / "memory", truncate_last_traj=False)
    assert everything(loaded) == everything(trained)


@pytest.mark.parametrize(
    "changed", [{"value_buffer_capacity": 100}, {"value_buffer_capacity": 20}, {"value_buffers": "per-environment"}]
)
def test_a_memory_is_loaded_under_another_configuration_of_eva(
    trained: EVADQN, tmp_path: Path, changed: dict[str, Any]
) -> None:
    trained.save(tmp_path / "model")
    trained.save_replay_buffer(tmp_path / "memory")
    loaded = EVADQN.load(tmp_path / "model", env=walks(2), eva=replace(EVA, **changed))
    loaded.load_replay_buffer(tmp_path / "memory")
    memory, saved = loaded.adjuster.memory, trained.adjuster.memory
    np.testing.assert_array_equal(memory.embeddings, saved.embeddings)
    assert memory.lane_counts.tolist() == saved.lane_counts.tolist()
    assert sum(map(len, loaded.adjuster.value_buffers)) == 0, "plans of another form are not kept"
    loaded.learn(12, reset_num_timesteps=False)
    assert sum(map(len, loaded.adjuster.value_buffers)) > 0


def test_a_model_without_its_memory_warns_once_and_acts_as_dqn(trained: EVADQN, tmp_path: Path) -> None:
    trained.save(tmp_path / "model")
    loaded = EVADQN.load(tmp_path / "model", env=walks(2))
    observations = np.random.default_rng(1).normal(size=(9, 3)).astype(np.float32)
    with pytest.warns(UserWarning, match="has no memory: it acts as DQN until it has some"):
        actions, state = loaded.predict(observations, deterministic=True)
    np.testing.assert_array_equal(actions, embed(loaded, observations)[0].argmax(dim=1))
    assert state is None
    loaded.predict(observations)
    loaded.learn(30, reset_num_timesteps=False)
    assert loaded.predict(observations)[1] is not None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(walks(2)).predict(observations)  # never trained: nothing is missing
    with pytest.warns(UserWarning, match="has no memory"):
        EVADQN.load(tmp_path / "model", env=walks(2)).learn(2)


def test_a_dqn_of_sb3_becomes_an_evadqn(tmp_path: Path) -> None:
    plain = model(walks(2), None).learn(40)
    plain.save(tmp_path / "model")
    plain.save_replay_buffer(tmp_path / "memory")
    agent = EVADQN.load(tmp_path / "model", env=walks(2), eva=EVA)
    agent.load_replay_buffer(tmp_path / "memory")
    with pytest.warns(UserWarning, match="has no memory"):
        agent.learn(40, reset_num_timesteps=False)
    assert agent.nonparametric_weight == 0.7


def test_memory_of_another_shape_raises(trained: EVADQN, tmp_path: Path) -> None:
    trained.save_replay_buffer(tmp_path / "memory")
    with pytest.raises(UserError, match="2 environments and 300 embeddings of 8 numbers, but this model has 3, 300"):
        model(walks(3)).load_replay_buffer(tmp_path / "memory")


def test_callbacks_and_loggers_work(tmp_path: Path) -> None:
    agent = model(walks(2))
    agent.set_logger(configure(str(tmp_path), ["csv"]))
    checkpoints = CheckpointCallback(20, str(tmp_path / "saved"), save_replay_buffer=True)
    evaluation = EvalCallback(VecMonitor(walks(1)), eval_freq=25, n_eval_episodes=2, verbose=0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Training and eval env are not of the same type")
        agent.learn(120, callback=CallbackList([checkpoints, evaluation]), log_interval=1)
    agent.logger.close()
    header, *lines = (tmp_path / "progress.csv").read_text().splitlines()
    last = dict(zip(header.split(","), lines[-1].split(","), strict=True))
    assert float(last["eva/weight"]) == 0.7
    assert 0 <= float(last["eva/changed_share"]) <= 1
    assert float(last["eva/replay_transitions"]) > 90
    assert float(last["eva/value_buffer_entries"]) == 60
    assert np.isfinite(evaluation.last_mean_reward)
    restored = EVADQN.load(tmp_path / "saved" / "rl_model_80_steps.zip", env=walks(2))
    restored.load_replay_buffer(tmp_path / "saved" / "rl_model_replay_buffer_80_steps.pkl")
    assert restored.adjuster.memory.num_complete > 60


def test_tensorboard_run_name(tmp_path: Path) -> None:
    agent = model(walks(1), tensorboard_log=str(tmp_path))
    assert agent.learn(20, log_interval=1) is agent
    agent.learn(20, tb_log_name="mine")
    assert {path.name for path in tmp_path.iterdir()} == {"EVADQN_1", "mine_1"}


def test_start_and_annealing_of_the_weight() -> None:
    config = replace(EVA, start="full", anneal_start_transitions=60, anneal_transitions=40)
    agent, weights = model(walks(2), config, buffer_size=40), []
    agent.learn(120, callback=Watch(lambda _: weights.append((agent.num_timesteps, agent.nonparametric_weight))))
    by_step = dict(weights)
    assert by_step[34] == 0, "the memory is not full"
    assert by_step[50] == 0.7
    assert by_step[80] == pytest.approx(0.35)
    assert by_step[110] == 0


def test_nothing_is_planned_before_learning_starts() -> None:
    agent = model(walks(2), learning_starts=40).learn(40)
    assert agent.adjuster.memory.num_complete > 30
    assert agent.adjuster.num_steps == 0
    agent.learn(12, reset_num_timesteps=False)
    assert agent.adjuster.num_steps == 6


@pytest.mark.parametrize(
    "changed",
    [
        {"n_steps": 3},
        {"optimize_memory_usage": True, "replay_buffer_kwargs": {"handle_timeout_termination": False}},
        {"train_freq": (1, "episode"), "gradient_steps": -1},
    ],
)
def test_sb3s_variants_of_replay_and_training(changed: dict[str, Any]) -> None:
    agent = model(walks(1), **changed).learn(60)
    assert agent.nonparametric_weight == 0.7
    assert agent.adjuster.memory.num_complete > 50


def test_normalised_environments_are_remembered_as_the_network_sees_them() -> None:
    environment = VecNormalize(walks(2))
    agent, rewards = model(environment), []
    agent.learn(60, callback=Watch(lambda it: rewards.append(it.locals["rewards"][0])))
    memory = agent.adjuster.memory
    slots = np.arange(memory.lane_counts[0])
    stored = memory.rewards[slots[memory.kinds[slots] != CLOSING]]
    np.testing.assert_allclose(stored, rewards, rtol=1e-6)


class Squashed(QNetwork):
    """Values that are not linear in an embedding."""

    def forward(self, obs: Any) -> Tensor:
        return super().forward(obs).tanh()


class SquashedPolicy(DQNPolicy):
    def make_q_net(self) -> QNetwork:
        return Squashed(**self._update_features_extractor(self.net_args, features_extractor=None))


def test_unsupported_models_raise() -> None:
    with pytest.raises(UserError, match="does not take several inputs: flatten"):
        EVADQN("MultiInputPolicy", SimpleMultiObsEnv(), buffer_size=100)
    with pytest.raises(UserError, match="leave remembered_values at 'stored'"):
        model(walks(), replace(EVA, remembered_values="recomputed"))
    with pytest.raises(UserError, match="a linear layer over an embedding: use MlpPolicy or CnnPolicy"):
        EVADQN(SquashedPolicy, walks(), buffer_size=100)
    with pytest.raises(TypeError, match="bufer_size"):
        EVADQN("MlpPolicy", walks(), bufer_size=100)


def test_too_large_memory_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eva.machine.free_memory", lambda: 10_000)
    with pytest.raises(UserError, match=r"of 300 states .* lower its capacity .* to \d+ or less"):
        model(walks())
    model(walks(), DQN_0)  # remembers nothing


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "eva.integrations.sb3")
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    with pytest.raises(UserError, match=r'pip install "ephemeral-value-adjustments\[sb3\]"'):
        import eva.integrations.sb3  # noqa: F401


def test_evadqn_learns_the_identity_task() -> None:
    environment = Monitor(IdentityEnv(2, ep_length=10))
    agent = model(environment, learning_starts=50, exploration_final_eps=0.05, gamma=0.5).learn(600)
    mean, _ = evaluate_policy(agent, environment, n_eval_episodes=5)
    assert mean > 9


def test_a_memory_is_loaded_whole_or_not_at_all(tmp_path: Path) -> None:
    one, three = (
        EVADQN("MlpPolicy", make_vec_env("CartPole-v1", n), learning_starts=20, buffer_size=90) for n in (1, 3)
    )
    for model in (one, three):
        model.learn(120)
    one.save_replay_buffer(tmp_path / "memory")
    before = three.replay_buffer, three.adjuster
    with pytest.raises(UserError, match="build the model as the one that saved it"):
        three.load_replay_buffer(tmp_path / "memory")
    assert (three.replay_buffer, three.adjuster) == before
    three.learn(30, reset_num_timesteps=False)


def test_a_loaded_memory_has_the_discount_of_the_model(tmp_path: Path) -> None:
    model = EVADQN("MlpPolicy", "CartPole-v1", learning_starts=20, buffer_size=90).learn(120)
    model.save(tmp_path / "model")
    model.save_replay_buffer(tmp_path / "memory")
    loaded = EVADQN.load(tmp_path / "model", gamma=0.5)
    loaded.load_replay_buffer(tmp_path / "memory")
    assert set(loaded.adjuster.memory.discounts.tolist()) <= {0.0, 0.5}
    assert np.array_equal(loaded.adjuster.memory.discounts > 0, model.adjuster.memory.discounts > 0)


def test_trained_model_applies_eva_when_learning_again() -> None:
    model = EVADQN("MlpPolicy", "CartPole-v1", learning_starts=100, buffer_size=500).learn(200)
    assert model.learn(50).nonparametric_weight == 0.4


def test_tiny_replay_buffers_and_numpy_sizes(tmp_path: Path) -> None:
    model = EVADQN("MlpPolicy", "CartPole-v1", learning_starts=20, buffer_size=np.int64(90), gamma=np.float32(0.9))
    model.learn(60).save(tmp_path / "model")
    with pytest.warns(UserWarning, match="has no memory"):
        EVADQN.load(tmp_path / "model", buffer_size=1).predict(np.zeros(4, np.float32))


@pytest.mark.parametrize("weight", [0.0, 0.7])
def test_reward_that_is_not_finite_stops_learning_before_it_is_stored(weight: float) -> None:
    class Faulty(Walk):
        def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
            observation, reward, *rest = super().step(action)
            return observation, reward if sum(map(len, self.diary)) < 30 else np.nan, *rest  # type: ignore[return-value]

    model = EVADQN("MlpPolicy", Faulty(), learning_starts=10, eva=replace(EVA, nonparametric_weight=weight), seed=0)
    with pytest.raises(UserError, match=r"environment 0 gave the reward nan at step \d+ "):
        model.learn(100)
    assert np.isfinite(model.replay_buffer.rewards).all()
    assert np.isfinite(model.adjuster.memory.rewards).all()
