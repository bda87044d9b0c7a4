"""How far kernel-based RL departs from trajectory-centric planning (TCP) in finished runs.

It plans for states drawn from the runs' memories, with their last network. A kernel with bandwidth b = 1e-4 is measured
with stored and with recomputed embeddings, and so is the other reading of the paper's "bandwidth parameter of 1e-4", in
which squared distances are divided by 1e-4. It also prints how often a plan contains the same memory several times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from benchmarks.command_line import parser
from eva.agent.agent import EVAAgent
from eva.agent.kbrl import squared_distances
from eva.agent.planner import PlanningRound
from eva.build import build_planner
from eva.config import Config, EVAConfig
from eva.experiments.paper.trace_computations import BANDWIDTH
from eva.runs.loading import load_run
from eva.types import Bools

NUM_PLANS = 40


@dataclass(frozen=True)
class Reach:
    """How one plan of kernel-based RL differs from trajectory-centric planning."""

    merged: float  # share of states for which another memory has more weight than the network
    largest_difference: float  # of any value
    other_actions: float  # share of states whose best action differs
    distinct: float  # number of different memories / number of states
    distinct_read: int  # number of different memories among the k that a decision reads


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser(__doc__)
    arguments.add_argument("runs", nargs="+", metavar="RUN", help="finished run directories")
    options = arguments.parse_args(argv)
    torch.set_num_threads(1)
    print("| kernel | states merged | largest difference to TCP | best actions changed |\n|---|---|---|---|")
    runs = [load_run(path) for path in options.runs]
    kernels: dict[str, dict[str, object]] = {
        "stored, exp(-d² / 2b²), b = 1e-4": {},
        "recomputed, exp(-d² / 2b²), b = 1e-4": {"remembered_values": "recomputed"},
        "stored, exp(-d² / 1e-4)": {"kbrl_bandwidth": BANDWIDTH},
    }
    for name, changes in kernels.items():
        found = [each for config, agent in runs for each in reaches(config, agent, changes)]
        merged, actions = (np.mean([getattr(each, field) for each in found]) for field in ("merged", "other_actions"))
        print(f"| {name} | {merged:.1%} | {max(each.largest_difference for each in found):.3f} | {actions:.1%} |")
    print(
        f"\n{len(found)} plans of {len(runs)} runs. Of a plan's states "
        f"{np.mean([each.distinct for each in found]):.0%} are different memories; the "
        f"{EVAConfig().num_neighbours} nearest that a decision reads contain "
        f"{np.mean([each.distinct_read for each in found]):.1f} different ones."
    )


@torch.no_grad()
def reaches(config: Config, agent: EVAAgent, changes: dict[str, object]) -> list[Reach]:
    """Plan with both trace computations for states drawn at random from the memory."""
    eva = replace(config.eva, **changes)  # type: ignore[arg-type]
    network = agent.learner.network
    kernel_based, centred = (
        build_planner(replace(eva, trace=name), agent.replay, network.values, network) for name in ("kbrl", "tcp")
    )
    slots = np.random.default_rng(0).choice(agent.replay.num_complete, NUM_PLANS, replace=False)
    _, queries = network(agent.replay.gather(slots))
    return [compare(kernel_based.plan(q[None]), centred.plan(q[None]), q, eva) for q in queries]


def compare(kernel_based: PlanningRound, centred: PlanningRound, query: torch.Tensor, eva: EVAConfig) -> Reach:
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
