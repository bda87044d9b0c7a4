"""Consolidation: the weight annealed to 0, and what the network can do alone (P29)."""

from __future__ import annotations

from dataclasses import replace

from eva.experiments.framework.common import NO_CHANGES, PAPER_WEIGHT, WEIGHT, Changes, arm
from eva.experiments.framework.definition import Arm, Claim, Experiment
from eva.experiments.framework.measures import FINAL_RETURN, single_episodes
from eva.experiments.paper.maze import ONE_COIN
from eva.presets import preset
from eva.runs.sweep.jobs import Play

STEPS = 100_000
START, LENGTH = 60_000, 20_000
ANNEALED, KEPT = "annealed, network alone", f"kept at {PAPER_WEIGHT:g}"
PLAYS = tuple(Play(steps, (0.0, PAPER_WEIGHT), num_episodes=200) for steps in (START, STEPS))
BEFORE = single_episodes("single episodes before annealing", occasion=0)
AFTER = single_episodes("single episodes at the end", occasion=1)
FINAL = replace(FINAL_RETURN, paired=True)  # runs of one seed are the same until annealing begins
WHERE = "Section 5.2"


def _arm(label: str, folder: str, played_weight: float, changes: Changes = NO_CHANGES) -> Arm:
    changes = {"steps": STEPS, WEIGHT: PAPER_WEIGHT, **changes}
    place = f"consolidation/{folder}"
    return arm(ONE_COIN, label, place, preset("maze-1-coin"), changes, plays=PLAYS, played_weight=played_weight)


EXPERIMENT = Experiment(
    name="consolidation",
    title="The weight annealed to 0, one coin",
    question="Can the weight be annealed to 0 late in training without a loss?",
    arms=lambda: (
        _arm(ANNEALED, "annealed", 0.0, {"eva.anneal_start_transitions": START, "eva.anneal_transitions": LENGTH}),
        _arm(KEPT, "kept", PAPER_WEIGHT),
    ),
    claims=(
        Claim(WHERE, "Annealing costs nothing during training.", FINAL, ANNEALED, KEPT, "no worse", primary=True),
        Claim(WHERE, "The network alone ends no worse than EVA.", AFTER, ANNEALED, KEPT, "no worse"),
    ),
    columns=(FINAL, BEFORE, AFTER),
    notes=(
        "The paper reports this on Atari; this is the maze.",
        f"Annealed from {START:,} to {START + LENGTH:,} transitions. Single episodes are played with weight 0 "
        "(annealed) and 0.4 (kept).",
    ),
)
