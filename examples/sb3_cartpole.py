"""Stable-Baselines3's DQN on CartPole, with EVA: only the import and the argument `eva` differ from plain SB3.

    python examples/sb3_cartpole.py --steps 50000 --weight 0.4

Saves the model, and its memory with the replay buffer, in --out. Weight 0 is SB3's DQN to the bit.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from stable_baselines3.common.evaluation import evaluate_policy

from eva import EVAConfig
from eva.integrations.sb3 import EVADQN


def main(argv: Sequence[str] | None = None) -> None:
    """Train, save, load, and evaluate the loaded model."""
    parser = argparse.ArgumentParser(description="Stable-Baselines3's DQN on CartPole, with EVA.")
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--weight", type=float, default=0.4, help="weight of the planned values; 0 is plain DQN")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/sb3-cartpole"))
    arguments = parser.parse_args(argv)
    arguments.out.mkdir(parents=True, exist_ok=True)

    model = EVADQN(
        "MlpPolicy",
        "CartPole-v1",
        learning_rate=2.3e-3,
        buffer_size=50_000,
        learning_starts=1_000,
        batch_size=64,
        train_freq=(256, "step"),
        gradient_steps=128,
        target_update_interval=10,
        exploration_fraction=0.16,
        exploration_final_eps=0.04,
        policy_kwargs={"net_arch": [256, 256]},
        seed=arguments.seed,
        eva=EVAConfig(nonparametric_weight=arguments.weight),
    )
    model.learn(arguments.steps)
    model.save(arguments.out / "model")
    model.save_replay_buffer(arguments.out / "memory")

    loaded = EVADQN.load(arguments.out / "model", env=model.get_env())
    loaded.load_replay_buffer(arguments.out / "memory")
    mean, deviation = evaluate_policy(loaded, loaded.get_env(), n_eval_episodes=5)
    print(f"weight {arguments.weight}: mean return of 5 episodes {mean:.1f} (standard deviation {deviation:.1f})")


if __name__ == "__main__":
    main()
