"""Evaluate the network alone and with EVA every 10,000 transitions: python examples/evaluate_every.py."""

import argparse
from dataclasses import replace

import eva


class Print(eva.Callback):
    """Print the mean return of each evaluation."""

    def evaluation(self, run: eva.Run, evaluation: eva.Evaluation) -> None:
        print(f"{run.step:,}\t{evaluation.nonparametric_weight}\t{evaluation.episode_returns.mean():.3f}")


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=20_000)
parser.add_argument("--every", type=int, default=10_000)
arguments = parser.parse_args()

config = eva.for_environment("CartPole-v1")
evaluation = replace(config.evaluation, period_transitions=arguments.every, num_episodes=10, weights=(0.0, 0.4))
print("transitions\tweight\tmean return of 10 episodes")
eva.train(replace(config, steps=arguments.steps, evaluation=evaluation), "runs/evaluated", callbacks=[Print()])
