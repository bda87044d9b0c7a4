"""How far kernel-based RL departs from trajectory-centric planning: python -m benchmarks.kernel_reach RUN...

Over plans for states drawn from the memories of finished runs, seen with their last network. P7's kernel is measured
with stored and with recomputed embeddings (P6), and beside it the other reading of "a bandwidth parameter of 1e-4":
that squared distances are divided by it. Also told is how often one memory comes up several times (P35).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace

import numpy as np
import torch

from eva.agent.agent import EVAAgent
from eva.agent.kbrl import squared_distances
from eva.agent.planner import Plans
from eva.config import Config, EVAConfig
from eva.experiments.paper.kernel_width import BANDWIDTH
from eva.runs.loading import load_run
from eva.types import Bools
from eva.variants import planner

NUM_PLANS = 40


@dataclass(frozen=True)
class Reach:
    """Of one plan."""

    merged: float  # share of its states that another memory counts for, more than the network
    largest_difference: float  # to trajectory-centric planning, of any value
    other_actions: float  # share of its states whose best action is another
    distinct: float  # share of its states that are different memories
    distinct_read: int  # different memories among the k that a decision reads


def main() -> None:
    torch.set_num_threads(1)
    print("| kernel | states merged | largest difference to TCP | best actions changed |\n|---|---|---|---|")
    runs = [load_run(path) for path in sys.argv[1:]]
    for name, changes in {
        "stored, exp(-d² / 2b²), b = 1e-4 (P7)": {},
        "recomputed, exp(-d² / 2b²), b = 1e-4": {"remembered_values": "recomputed"},
        "stored, exp(-d² / 1e-4)": {"kbrl_bandwidth": BANDWIDTH},
    }.items():
        found = [each for config, agent in runs for each in reaches(config, agent, changes)]
        merged, actions = (np.mean([getattr(each, field) for each in found]) for field in ("merged", "other_actions"))
        print(f"| {name} | {merged:.1%} | {max(each.largest_difference for each in found):.3f} | {actions:.1%} |")
    print(
        f"\n{len(found)} plans of {len(runs)} runs. Of a plan's states "
        f"{np.mean([each.distinct for each in found]):.0%} are different memories; the "
        f"{EVAConfig().num_neighbours} nearest that a decision reads are "
        f"{np.mean([each.distinct_read for each in found]):.1f} different ones."
    )


@torch.no_grad()
def reaches(config: Config, agent: EVAAgent, changes: dict[str, object]) -> list[Reach]:
    """Plan by both traces, for states drawn at random from the memory."""
    eva = replace(config.eva, **changes)  # type: ignore[arg-type]
    network = agent.learner.network
    kernel_based, centred = (
        planner(replace(eva, trace=name), agent.replay, network.values, network) for name in ("kbrl", "tcp")
    )
    slots = np.random.default_rng(0).choice(agent.replay.num_complete, NUM_PLANS, replace=False)
    _, queries = network(agent.replay.gather(slots))
    return [compare(kernel_based.plan(q[None]), centred.plan(q[None]), q, eva) for q in queries]


def compare(kernel_based: Plans, centred: Plans, query: torch.Tensor, eva: EVAConfig) -> Reach:
    rows, columns = kernel_based.rows, kernel_based.columns
    slots, keys = kernel_based.trajectories.slots[rows, columns], kernel_based.embeddings[rows, columns]
    one, other = (each.q_np[rows, columns] for each in (kernel_based, centred))
    nearest = (keys - query).norm(dim=1).argsort(stable=True)[: eva.num_neighbours].numpy()
    squares = squared_distances(keys.numpy(), keys.numpy())
    counts: Bools = np.exp(squares / (-2 * eva.kbrl_bandwidth**2)) > eva.kbrl_similarity
    return Reach(
        merged=float((counts & (slots[:, None] != slots)).any(axis=1).mean()),
        largest_difference=float(np.abs(one - other).max()),
        other_actions=float((one.argmax(axis=1) != other.argmax(axis=1)).mean()),
        distinct=len(np.unique(slots)) / len(slots),
        distinct_read=len(np.unique(slots[nearest])),
    )


if __name__ == "__main__":
    main()
