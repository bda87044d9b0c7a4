"""Let a trained agent act in an environment of Gymnasium: python examples/use_policy.py RUN ID."""

import sys

import gymnasium

import eva

run, environment_id = sys.argv[1:]
policy = eva.load_policy(run)  # greedy, with EVA as in training; weight=0.0 is the network alone
environment = gymnasium.make(environment_id)
for episode in range(3):
    policy.reset()  # its plans belong to the episode
    observation, _ = environment.reset(seed=episode)
    total, ended = 0.0, False
    while not ended:
        action = policy(observation)  # for a batch of observations, an array
        observation, reward, terminated, truncated, _ = environment.step(action)
        total, ended = total + float(reward), terminated or truncated
    print(f"episode {episode}: return {total:g}")
