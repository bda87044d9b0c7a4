"""Train on the maze, watch an episode as a video, and write a folder for the Hugging Face Hub.

python examples/make_video.py --steps 20000 --video maze.mp4   # .mp4 needs the extra `video`, .gif does not
"""

import argparse
from dataclasses import replace

import eva

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--steps", type=int, default=20_000)
parser.add_argument("--video", default="maze.mp4")
parser.add_argument("--card", help="also write a model card to this folder")
options = parser.parse_args()

run = "runs/make-video"
eva.train(replace(eva.preset("maze-1-coin"), steps=options.steps), run)
(played,) = eva.evaluate(run, weights=[0.4], num_episodes=1, video=options.video)
print(f"{options.video}: {played.episode_lengths[0]} steps, return {played.episode_returns[0]:.2f}")
if options.card:
    print(eva.card(run, options.card, num_episodes=20, video=options.video.endswith(".mp4")))
