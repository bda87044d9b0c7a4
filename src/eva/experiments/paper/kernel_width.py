"""Fig. 4 once more, with a kernel that joins trajectories: the other reading of the paper's bandwidth (P133)."""

from __future__ import annotations

import math
from dataclasses import asdict, replace

from eva.config import EVAConfig
from eva.experiments.framework.common import DQN, changed, compare_arms, margin
from eva.experiments.framework.definition import OURS, Arm, Claim, Experiment, Finding, Judgement
from eva.experiments.framework.evidence import Evidence, variant
from eva.experiments.framework.judge import is_above
from eva.experiments.framework.words import gained, lesson, plain, seeds
from eva.experiments.paper.maze import TUNED_WITH_ONE_COIN
from eva.experiments.paper.maze_learning import learning_judgement
from eva.experiments.paper.trace_computations import KBRL, TCP
from eva.experiments.paper.trace_computations import arms as trace_arms
from eva.report.measures import difference, final_returns
from eva.report.verdict import number
from eva.runs.sweep.jobs import Job

JOINING = "KBRL, joining"
BANDWIDTH = math.sqrt(EVAConfig().kbrl_bandwidth / 2)
"""The length scale b with which 2 b^2 is the paper's parameter: squared distances are divided by that."""


def arms() -> tuple[Arm, ...]:
    """Return DQN, TCP and KBRL, whose runs are those of trace-computations, and KBRL with the wider kernel."""
    compared = {arm.label: arm for arm in trace_arms() if arm.label in (DQN, TCP, KBRL)}
    narrow = compared[KBRL]
    return (*compared.values(), replace(narrow, label=JOINING, jobs=tuple(_widened(job) for job in narrow.jobs)))


def judge(evidence: Evidence) -> Judgement:
    """Judge the wider kernel by its final return, against trajectory-centric planning and the narrow kernel."""
    (task,) = evidence.tasks
    finals = {each.label: final_returns(each) for each in task.variants}
    tcp_gain, joining_gain = difference(finals[TCP], finals[JOINING]), difference(finals[JOINING], finals[KBRL])
    certainty = seeds(len(variant(task, DQN).runs))
    as_good = Finding(
        is_above(tcp_gain, -margin(task)),
        f"the final return of trajectory-centric planning less that of the joining kernel is {gained(tcp_gain)}",
        f"{certainty}; a difference of up to {number(margin(task))} counts as none",
    )
    better = Finding(
        is_above(joining_gain),
        f"the final return with the joining kernel less that with the narrow one is {gained(joining_gain)}",
        certainty,
    )
    learning = learning_judgement(evidence.tasks, (as_good, better))
    where = "DQN in the maze with two coins, with kernel-based RL that joins trajectories"
    return replace(
        learning,
        numbers={
            "tcp_above_joining": plain(asdict(tcp_gain)),
            "joining_above_kbrl": plain(asdict(joining_gain)),
            **learning.numbers,
        },
        lessons=(lesson(where, compare_arms(task)[JOINING], margin(task)),),
    )


def _widened(job: Job) -> Job:
    config = replace(job.config, eva=replace(job.config.eva, kbrl_bandwidth=BANDWIDTH))
    return changed(job, f"{job.directory.parts[1]}-joining", config)


EXPERIMENT = Experiment(
    name="kernel-width",
    title="Kernel-based RL with a kernel that joins trajectories, two coins",
    claims=(
        Claim(
            "Fig. 4",
            "The standard trace computation is as good as, if not better than, kernel-based RL: here with a kernel "
            "that joins trajectories.",
            "Of the final return: holds if trajectory-centric planning is beyond doubt not below kernel-based RL by 5% "
            "of the optimal return.",
        ),
        Claim(
            OURS,
            "Kernel-based RL ends higher with a kernel that joins trajectories than with one that keeps to them.",
            "Of the final return: holds if it is higher beyond doubt.",
        ),
    ),
    arms=arms,
    judge=judge,
    remarks=(
        'The paper compares them on Atari, with "a bandwidth parameter of 1e-4". Read as the kernel\'s length scale b, '
        "that joins next to no two memories (KBRL, the runs of trace-computations). Here squared distances are divided "
        f"by it instead, that is b = {BANDWIDTH:.5f}, with which three of four planned states have another memory that "
        "counts for more than the network (P133).",
        "The sweeps of kernel-based RL begin with values of 0 (Algorithm 4). Where joined memories lead in a circle, "
        "what lies beyond the last of T + 1 sweeps is therefore worth 0, not what the network makes of it.",
        TUNED_WITH_ONE_COIN,
    ),
)
