"""Transitions per second on the maze: DQN and EVA of this package, and Stable-Baselines3's DQN.

Same maze, network, batch, replay size and target period; one update for each transition; one thread; a memory that is
full. Each measurement is a process of its own, one at a time, in turn. Stable-Baselines3 gets a virtual environment of
its own with the torch that we run with.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import venv
from pathlib import Path

import torch

ROUNDS = 7
ROOT = Path(__file__).resolve().parent.parent
PEER = ROOT / "benchmarks" / ".venv-sb3"
SB3 = "stable-baselines3==2.9.2"
COMMANDS = {
    "DQN (weight 0)": [sys.executable, "-m", "benchmarks.maze_ours", "0"],
    "EVA (weight 0.4)": [sys.executable, "-m", "benchmarks.maze_ours", "0.4"],
    "Stable-Baselines3 DQN": [str(PEER / "bin" / "python"), "-m", "benchmarks.maze_sb3"],
}
RATIOS = (
    ("EVA (weight 0.4)", "Stable-Baselines3 DQN"),
    ("DQN (weight 0)", "Stable-Baselines3 DQN"),
    ("EVA (weight 0.4)", "DQN (weight 0)"),
)


def main() -> None:
    install_peer()
    load_before = os.getloadavg()[0]
    rounds = [{name: measure(command) for name, command in COMMANDS.items()} for _ in range(ROUNDS)]
    num_parameters = {result["parameters"] for results in rounds for result in results.values()}
    assert len(num_parameters) == 1, f"the networks differ: {num_parameters} parameters"
    report(rounds, load_before)


def install_peer() -> None:
    """Set up the peer's environment once."""
    if (PEER / ".installed").exists():
        return
    venv.create(PEER, with_pip=True, clear=True)
    pip = [str(PEER / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    same_torch = f"torch=={torch.__version__.split('+')[0]}"
    subprocess.run([*pip, "-c", str(ROOT / "constraints.txt"), same_torch, SB3, "gymnasium"], check=True)
    subprocess.run([*pip, "--no-deps", "-e", str(ROOT)], check=True)
    (PEER / ".gitignore").write_text("*\n")
    (PEER / ".installed").touch()


def measure(command: list[str]) -> dict[str, float]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    finished = subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, float] = json.loads(finished.stdout.splitlines()[-1])
    return result


def report(rounds: list[dict[str, dict[str, float]]], load_before: float) -> None:
    """Print medians, the median of each round's ratio, and all of it as JSON."""
    median = {name: statistics.median(results[name]["per_second"] for results in rounds) for name in COMMANDS}
    cpu = {name: statistics.median(results[name]["per_cpu_second"] for results in rounds) for name in COMMANDS}
    print(f"{'':24}{'transitions/s':>15}{'per CPU second':>16}")
    for name in COMMANDS:
        print(f"{name:24}{median[name]:15.0f}{cpu[name]:16.0f}")
    ratios = {}
    for ours, theirs in RATIOS:
        ratio = {
            clock: statistics.median(results[ours][clock] / results[theirs][clock] for results in rounds)
            for clock in ("per_second", "per_cpu_second")
        }
        ratios[f"{ours} / {theirs}"] = ratio
        print(f"{ours} / {theirs}: {ratio['per_second']:.2f}, by CPU time {ratio['per_cpu_second']:.2f}")
    loads = {"before": load_before, "after": os.getloadavg()[0]}
    print(f"load average {loads['before']:.1f} before, {loads['after']:.1f} after; {len(rounds)} rounds")
    print(json.dumps({"torch": torch.__version__, "load": loads, "ratios": ratios, "rounds": rounds}))


if __name__ == "__main__":
    main()
