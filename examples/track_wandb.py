"""Log a run to Weights & Biases, here without an account: python examples/track_wandb.py --steps 20000."""

import argparse
import os
from dataclasses import replace

import eva

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=20_000)
steps = parser.parse_args().steps

os.environ.setdefault("WANDB_MODE", "offline")  # leave this out once `wandb login` has been run
config = eva.for_environment("CartPole-v1")
config = replace(config, steps=steps, run=replace(config.run, track=("wandb",)))
eva.train(config, "runs/wandb")
print("To upload it: wandb sync runs/wandb/tracking/wandb/offline-run-*")
