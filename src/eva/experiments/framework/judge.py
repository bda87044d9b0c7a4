"""Judge every claim by one rule (docs/protocol.md)."""

from dataclasses import dataclass
from typing import Literal

from eva.experiments.framework.definition import Claim, Expected, Experiment
from eva.experiments.framework.evidence import Evidence
from eva.report.statistics import Estimate, Verdict, verdict

Agreement = Literal["yes", "no", "open"]


@dataclass(frozen=True)
class Judgement:
    """A claim, the difference that was measured, and what follows from it."""

    claim: Claim
    task: str
    difference: Estimate
    margin: float
    verdict: Verdict
    agrees: Agreement


def judge(experiment: Experiment, evidence: Evidence) -> list[Judgement]:
    """Judge all claims of an experiment."""
    judgements = []
    for claim in experiment.claims:
        measure, task = claim.measure, claim.task or next(iter(evidence.arms))[0]
        difference = measure.difference(evidence, task, claim.arm, claim.compared_with)
        margin = evidence.tasks[task].margin if claim.margin is None else claim.margin
        gain = difference if measure.higher_is_better else -difference
        found = verdict(gain, margin)
        agrees = agreement(claim.expected, found, gain.low > -margin)
        judgements.append(Judgement(claim, task, difference, margin, found, agrees))
    return judgements


def agreement(expected: Expected, found: Verdict, is_no_worse: bool) -> Agreement:
    """Return whether a verdict agrees with a claim; `is_no_worse`: the CI excludes a loss of the margin or more."""
    if expected == "no worse":
        return "yes" if is_no_worse else "no" if found == "worse" else "open"
    return "open" if found == "undecided" else "yes" if found == expected else "no"
