"""Judge every claim by one rule (docs/protocol.md)."""

from dataclasses import dataclass, replace
from typing import Literal

from eva.experiments.framework.definition import Claim, Expected, Experiment, Requirement
from eva.experiments.framework.evidence import Evidence
from eva.report.statistics import Estimate, Verdict, holm, p_value, verdict

Agreement = Literal["yes", "no", "open"]
Result = Verdict | Literal["not judged"]
LEVEL = 0.05


@dataclass(frozen=True)
class Judgement:
    """A claim, the difference that was measured, and what follows from it."""

    claim: Claim
    task: str
    difference: Estimate
    margin: float
    p: float  # the smallest level at which the claim is decided; of secondary claims, adjusted by Holm's method
    verdict: Result
    agrees: Agreement

    @property
    def gain(self) -> Estimate:
        """The difference, positive if the arm is better."""
        return self.difference if self.claim.measure.higher_is_better else -self.difference


def judge(experiment: Experiment, evidence: Evidence) -> list[Judgement]:
    """Judge all claims of an experiment.

    A secondary claim is decided only if its p-value, adjusted for their number, is at most 0.05. Where a task's
    baseline does not meet its requirements, nothing is judged.
    """
    judgements = [_judge(claim, evidence) for claim in experiment.claims]
    secondary = [i for i, each in enumerate(judgements) if not each.claim.primary]
    for i, p in zip(secondary, holm([judgements[i].p for i in secondary]), strict=True):
        judgements[i] = replace(judgements[i], p=p)
        if not p <= LEVEL:  # negated so that NaN counts as undecided
            judgements[i] = replace(judgements[i], verdict="undecided", agrees="open")
    failed = {each.task for each, _ in failed_requirements(experiment, evidence)}
    return [replace(x, verdict="not judged", agrees="open") if x.task in failed else x for x in judgements]


def failed_requirements(experiment: Experiment, evidence: Evidence) -> list[tuple[Requirement, float]]:
    """Return the requirements that the baseline does not meet, and what was measured instead."""
    measured = [(each, each.measure.estimate(evidence, each.task, each.arm).value) for each in experiment.requirements]
    return [(each, value) for each, value in measured if not each.low <= value <= each.high]


def agreement(expected: Expected, found: Verdict, is_no_worse: bool) -> Agreement:
    """Return whether a verdict agrees with a claim; `is_no_worse`: the CI excludes a loss of the margin or more."""
    if expected == "no worse":
        return "yes" if is_no_worse else "no" if found == "worse" else "open"
    return "open" if found == "undecided" else "yes" if found == expected else "no"


def _judge(claim: Claim, evidence: Evidence) -> Judgement:
    task = claim.task or next(iter(evidence.arms))[0]
    difference = claim.measure.difference(evidence, task, claim.arm, claim.compared_with)
    margin = evidence.tasks[task].margin if claim.margin is None else claim.margin
    gain = difference if claim.measure.higher_is_better else -difference
    found = verdict(gain, margin)
    p = p_value(gain, margin)
    if claim.expected == "no worse":
        p = min(p, 2 * gain.tails(-margin)[0])
    return Judgement(claim, task, difference, margin, p, found, agreement(claim.expected, found, gain.low > -margin))
