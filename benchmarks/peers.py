"""Measure agents of several packages alternately, each in its own process, one at a time.

Each peer has its own virtual environment with this environment's version of torch.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent
CLOCKS = ("per_second", "per_cpu_second")
Rounds = list[dict[str, dict[str, float]]]


@dataclass(frozen=True)
class Peer:
    """Another package and its requirements."""

    name: str
    packages: tuple[str, ...]

    @property
    def python(self) -> str:
        """Its Python interpreter."""
        return str(self._home / "bin" / "python")

    @property
    def _home(self) -> Path:
        return ROOT / "benchmarks" / f".venv-{self.name}"

    def install(self) -> None:
        """Create its virtual environment, unless it exists."""
        wanted = "\n".join(self.packages)
        stamp = self._home / ".installed"
        if stamp.exists() and stamp.read_text() == wanted:
            return
        venv.create(self._home, with_pip=True, clear=True)
        pip = [self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        same_torch = f"torch=={torch.__version__.split('+')[0]}"
        subprocess.run([*pip, "-c", str(ROOT / "constraints.txt"), same_torch, *self.packages], check=True)
        subprocess.run([*pip, "--no-deps", "-e", str(ROOT)], check=True)
        (self._home / ".gitignore").write_text("*\n")
        stamp.write_text(wanted)


def compare(
    commands: Mapping[str, Sequence[str]], ratios: Sequence[tuple[str, str]], num_rounds: int, threads: int
) -> None:
    """Run the commands alternately for `num_rounds` rounds; print medians, median ratios, and all results as JSON."""
    load_before = os.getloadavg()[0]
    rounds = [{name: _measure(command, threads) for name, command in commands.items()} for _ in range(num_rounds)]
    num_parameters = {result["parameters"] for results in rounds for result in results.values()}
    assert len(num_parameters) == 1, f"the networks differ: {num_parameters} parameters"
    print(f"{'':24}{'transitions/s':>15}{'per CPU second':>16}")
    for name in commands:
        median = {clock: statistics.median(results[name][clock] for results in rounds) for clock in CLOCKS}
        print(f"{name:24}{median['per_second']:15.0f}{median['per_cpu_second']:16.0f}")
    measured = {f"{ours} / {theirs}": _ratios(rounds, ours, theirs) for ours, theirs in ratios}
    for name, ratio in measured.items():
        print(f"{name}: {ratio['per_second']:.2f}, by CPU time {ratio['per_cpu_second']:.2f}")
    loads = {"before": load_before, "after": os.getloadavg()[0]}
    print(f"load average {loads['before']:.1f} before, {loads['after']:.1f} after; {len(rounds)} rounds")
    print(json.dumps({"torch": torch.__version__, "load": loads, "ratios": measured, "rounds": rounds}))


def _measure(command: Sequence[str], threads: int) -> dict[str, float]:
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    finished = subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, float] = json.loads(finished.stdout.splitlines()[-1])
    return result


def _ratios(rounds: Rounds, ours: str, theirs: str) -> dict[str, float]:
    """Return the median over rounds of the ratio, for each clock."""
    return {
        clock: statistics.median(results[ours][clock] / results[theirs][clock] for results in rounds)
        for clock in CLOCKS
    }
