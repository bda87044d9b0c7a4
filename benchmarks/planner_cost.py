"""The time of planning for one environment, by the number and length of trajectories (M, T) and the memory size.

The memory holds random play in the maze, embedded by the untrained network with a little noise, since no two embeddings
are equal while a network learns. It draws docs/images/planner-cost.svg and .png.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch

from benchmarks.command_line import parser
from benchmarks.full_memory import embed
from benchmarks.medians import microseconds
from eva.agent.adjuster import EphemeralValueAdjuster
from eva.agent.kbrl import kernel_based_rl
from eva.agent.traces import n_step, trajectory_centric_planning
from eva.build import build_agent, build_environment, make_adjuster
from eva.config import Config, EVAConfig
from eva.experiments.timing.random_play import random_play
from eva.presets import preset
from eva.types import State

mpl.use("Agg")
import matplotlib.pyplot as plt

ROUNDS, REPEATS = 15, 50
GROWTH_ROUNDS, GROWTH_REPEATS = 7, 5
NOISE = 1e-3
PLOT = Path(__file__).resolve().parent.parent / "docs" / "images" / "planner-cost.svg"
TRACES = {"tcp": "trajectory-centric planning", "n-step": "n-step", "kbrl": "kernel-based RL"}
STYLES = {"tcp": ("#0072B2", "o"), "n-step": ("#D55E00", "s"), "kbrl": ("#009E73", "^")}  # Okabe and Ito
GROWTH: dict[str, tuple[str, tuple[int, ...]]] = {
    "num_trajectories": ("trajectories M", (1, 2, 5, 10, 20, 50)),
    "trajectory_length": ("trajectory length T", (5, 10, 20, 50, 100)),
    "memory_size": ("memory N", (5_000, 15_000, 50_000, 150_000, 500_000)),
}
Once = Callable[[], object]


class Bench:
    """Random play, and adjusters with a memory full of it."""

    def __init__(self, config: Config) -> None:
        environment = build_environment(config)
        agent = build_agent(config, environment.spec)
        self._play = random_play(environment, config.replay.replay_capacity)
        self._embeddings = embed(agent, self._play.pop("observations"))
        self._values = agent.learner.network.values
        self._size = len(self._embeddings)
        self.config = config

    def adjuster(self, eva: EVAConfig, size: int) -> EphemeralValueAdjuster:
        """Return an adjuster that plans at every step over a full memory of `size`."""
        adjuster = make_adjuster(
            self._values,
            embedding_size=self._embeddings.shape[1],
            num_actions=4,
            memory_capacity=size,
            config=replace(eva, plan_period_steps=1),
        )
        adjuster.memory.load_state_dict(self._state(size))
        return adjuster

    def queries(self, number: int) -> torch.Tensor:
        """Return embeddings of states drawn from the memory, (number, 1, D)."""
        chosen = np.random.default_rng(1).integers(self._size, size=number)
        return self._embeddings[torch.from_numpy(chosen)][:, None]

    def _state(self, size: int) -> State:
        slots = np.arange(size) % self._size
        noise = NOISE * torch.randn(size, self._embeddings.shape[1], generator=torch.Generator().manual_seed(0))
        state: State = {name: self._play[name][slots] for name in ("actions", "rewards", "discounts", "kinds")}
        state["observations"] = np.zeros((size, 0), np.uint8)
        state["embeddings"] = self._embeddings[torch.from_numpy(slots)] + noise
        return {**state, "lane_counts": np.array([size]), "born": np.arange(size)}


def main(argv: Sequence[str] | None = None) -> None:
    parser(__doc__).parse_args(argv)
    torch.set_num_threads(1)
    bench = Bench(preset("maze-1-coin"))
    print("The parts, in microseconds (50,000 x 64, M = 10, T = 50, value buffer of 2,000)")
    for name, time in microseconds(parts(bench), ROUNDS, REPEATS).items():
        print(f"  {name:28} {time:8.0f}")
    costs = {field: growth(bench, field, sizes) for field, (_, sizes) in GROWTH.items()}
    for field, (label, sizes) in GROWTH.items():
        print(f"\nOne plan and one read, in microseconds, by {label}")
        print("  " + " " * 28 + "".join(f"{size:>9,}" for size in sizes))
        for trace, name in TRACES.items():
            print(f"  {name:28}" + "".join(f"{costs[field][trace, size]:9.0f}" for size in sizes))
    draw(costs)


def parts(bench: Bench) -> dict[str, Once]:
    """Return a function for each part of a plan."""
    eva = bench.config.eva
    adjuster = bench.adjuster(eva, bench.config.replay.replay_capacity)
    memory, buffer = adjuster.memory, adjuster.value_buffers[0]
    for query in bench.queries(10):
        adjuster.plan(query, np.zeros(1, np.bool_))
    (query,) = bench.queries(1)
    starts, _ = memory.search(query, eva.num_trajectories)
    trajectories = memory.trajectories(starts, eva.trajectory_length)
    rows, columns = trajectories.valid.nonzero()
    h = memory.embeddings[torch.from_numpy(trajectories.slots)]
    q_theta, embeddings = np.zeros((*trajectories.slots.shape, 4), np.float32), h.numpy()
    entering = h[rows, columns], np.zeros((len(rows), 4), np.float32), np.zeros((len(rows), 3), np.int64)
    kernel = {"bandwidth": eva.kbrl_bandwidth, "parametric_similarity": eva.kbrl_similarity}
    return {
        "search": lambda: memory.search(query, eva.num_trajectories),
        "trajectories": lambda: memory.trajectories(starts, eva.trajectory_length),
        TRACES["tcp"]: lambda: trajectory_centric_planning(trajectories, q_theta),
        TRACES["n-step"]: lambda: n_step(trajectories, q_theta),
        TRACES["kbrl"]: lambda: kernel_based_rl(trajectories, q_theta, embeddings, **kernel),
        "value buffer, write": lambda: buffer.append(*entering),
        "value buffer, read": lambda: buffer.read(query),
    }


def growth(bench: Bench, field: str, sizes: tuple[int, ...]) -> dict[tuple[str, int], float]:
    """Return the time of one plan and one read for each trace computation and each value of `field`."""
    names = [(trace, size) for trace in TRACES for size in sizes]
    measures = {f"{trace} {size}": plan_and_read(bench, trace, field, size) for trace, size in names}
    times = microseconds(measures, GROWTH_ROUNDS, GROWTH_REPEATS)
    return {(trace, size): times[f"{trace} {size}"] for trace, size in names}


def plan_and_read(bench: Bench, trace: str, field: str, size: int) -> Once:
    changes: dict[str, Any] = {"trace": trace, **({} if field == "memory_size" else {field: size})}
    eva = replace(bench.config.eva, **changes)
    adjuster = bench.adjuster(eva, size if field == "memory_size" else bench.config.replay.replay_capacity)
    queries = itertools.cycle(bench.queries(50))
    q_theta, no_start = torch.zeros(1, 4), np.zeros(1, np.bool_)

    def once() -> None:
        query = next(queries)
        adjuster.plan(query, no_start)
        adjuster.adjust(q_theta, query)

    once()
    return once


def draw(costs: dict[str, dict[tuple[str, int], float]]) -> None:
    """Plot milliseconds over each of M, T and N, and mark the preset's value."""
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "eva", "font.size": 9})
    usual = {"num_trajectories": 10, "trajectory_length": 50, "memory_size": 50_000}
    figure, panels = plt.subplots(1, 3, figsize=(9.6, 3.0), sharey=True, layout="constrained")
    for panel, (field, (label, sizes)) in zip(panels, GROWTH.items(), strict=True):
        for trace, name in TRACES.items():
            colour, marker = STYLES[trace]
            panel.plot(sizes, [costs[field][trace, size] / 1e3 for size in sizes], marker, ls="-", c=colour, label=name)
        panel.axvline(usual[field], color="0.75", lw=1, zorder=0)
        panel.set(xscale="log", yscale="log", xlabel=label, xticks=sizes, xticklabels=[_short(size) for size in sizes])
        panel.minorticks_off()
        panel.yaxis.set_major_formatter("{x:g}")
        panel.grid(axis="y", color="0.92")
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("one plan and one read, ms")
    panels[0].legend(frameon=False, fontsize=8)
    PLOT.parent.mkdir(exist_ok=True)
    figure.savefig(PLOT, metadata={"Date": None})
    figure.savefig(PLOT.with_suffix(".png"), dpi=150)


def _short(size: int) -> str:
    return f"{size // 1_000}k" if size >= 1_000 else str(size)


if __name__ == "__main__":
    main()
