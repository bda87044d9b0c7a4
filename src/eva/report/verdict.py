"""What the final returns say, in words that do not outrun the number of seeds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eva.report.curves import BOOTSTRAP_SEEDS, FINAL_SHARE, Task, Variant, differing
from eva.report.measures import difference


def verdict(variants: Sequence[Variant], optimum: float | None) -> str:
    """Return one sentence: where each variant ends, over how many seeds, and whether EVA is ahead of DQN."""
    judged = [variant for variant in variants if variant.finals]
    if not judged:
        return f"No episode has finished in the last {FINAL_SHARE:.0%} of any run: nothing to compare yet."
    baselines = [variant for variant in judged if variant.kind == "DQN"]
    candidates = [variant for variant in judged if variant.kind == "EVA"]
    ordered = candidates + baselines
    ends = ", ".join(f"{_name(v)} {'ends ' if v is ordered[0] else ''}at {_end(v.finals)}" for v in ordered)
    best = "" if optimum is None else f", optimum {number(optimum)}"
    so_far = "" if all(run.finished for v in judged for run in v.counted) else "So far, with unfinished runs: "
    return f"{so_far}{ends} over {_seeds(ordered)}{best}: {_conclusion(variants, candidates, baselines)}."


def caveats(tasks: Sequence[Task]) -> list[str]:
    """Return one sentence for everything that makes the numbers less comparable than they look."""
    notes = []
    for task in tasks:
        for variant in task.variants:
            notes += _variant_caveats(f"{task.name}, {variant.label}" if len(tasks) > 1 else variant.label, variant)
        if len({run.planned for run in task.runs}) > 1:
            notes.append(f"{task.name}: the runs were planned with different numbers of transitions.")
        kinds = [variant.fields for variant in task.variants]
        others = [name for name in differing(kinds) if name not in ("name", "eva.nonparametric_weight")]
        if others and len({variant.kind for variant in task.variants}) > 1:
            notes.append(f"{task.name}: the variants differ in more than the weight ({', '.join(others)}).")
    provenances = [each for task in tasks for run in task.runs for each in run.provenances]
    if len({str(each.get("commit")) for each in provenances}) > 1:
        notes.append("The runs were made by different commits.")
    if any(each.get("dirty") for each in provenances):
        notes.append("Some runs were made with uncommitted changes.")
    return notes


def number(value: float) -> str:
    """Print a return: two decimals for small ones, thousands grouped for game scores."""
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.2f}"
    return "0.00" if text == "-0.00" else text


def _variant_caveats(name: str, variant: Variant) -> list[str]:
    notes = []
    unfinished = [run for run in variant.runs if not run.finished]
    if unfinished:
        seeds = ", ".join(f"seed {run.seed} ({run.state} at {run.transitions:,})" for run in unfinished)
        effect = "shown as they stand" if len(unfinished) == len(variant.runs) else "shown, but not in mean and band"
        notes.append(f"{name}: unfinished runs, {effect}: {seeds}.")
    if len({run.seed for run in variant.runs}) < len(variant.runs):
        notes.append(f"{name}: a seed occurs more than once; of its runs, the longest counts.")
    notes += [f"{name}: seed {run.seed} diverged: {run.diverged}." for run in variant.runs if run.diverged]
    if len(variant.finals) < len(variant.counted):
        notes.append(f"{name}: a run without an episode in its last {FINAL_SHARE:.0%} is not in the mean.")
    return notes


def _name(variant: Variant) -> str:
    return f"{variant.kind} ({', '.join(variant.details)})" if variant.details else variant.kind


def _end(finals: Sequence[float]) -> str:
    mean = number(sum(finals) / len(finals))
    return mean if len(finals) == 1 else f"{mean} ({number(min(finals))} to {number(max(finals))})"


def _seeds(variants: Sequence[Variant]) -> str:
    counts = [len(variant.finals) for variant in variants]
    if len(set(counts)) > 1:
        return f"{', '.join(map(str, counts[:-1]))} and {counts[-1]} seeds"
    return f"{counts[0]} seed{'s' * (counts[0] > 1)}{' each' * (len(counts) > 1)}"


def _conclusion(all_variants: Sequence[Variant], candidates: Sequence[Variant], baselines: Sequence[Variant]) -> str:
    for kind, judged in (("EVA", candidates), ("DQN", baselines)):
        if not judged and any(variant.kind == kind for variant in all_variants):
            return f"no {kind} run has finished an episode in its last {FINAL_SHARE:.0%} to compare with"
        if not judged:
            return f"no {kind} run to compare with"
    if len(baselines) != 1:
        return "more than one DQN, so no single comparison"
    findings = [_comparison(candidate, baselines[0]) for candidate in candidates]
    if len(set(findings)) == 1:
        return f"{'each ' * (len(candidates) > 1)}EVA {findings[0]}"
    named = zip(candidates, findings, strict=True)
    return "against DQN, " + "; ".join(f"{', '.join(variant.details)} {finding}" for variant, finding in named)


def _comparison(candidate: Variant, baseline: Variant) -> str:
    """Return who is ahead: by a bootstrap interval where there are seeds enough for it, else on every seed."""
    mine, theirs = candidate.finals, baseline.finals
    if min(len(mine), len(theirs)) >= BOOTSTRAP_SEEDS:
        gain = difference(np.array(mine), np.array(theirs))
        ahead = "is ahead" if gain.low > 0 else "is behind" if gain.high < 0 else "is not surely ahead or behind"
        return f"{ahead} (difference {number(gain.value)}, 95% interval {number(gain.low)} to {number(gain.high)})"
    extent = "on a single seed" if min(len(mine), len(theirs)) == 1 else "on every seed"
    if min(mine) > max(theirs):
        return f"is ahead {extent}"
    if max(mine) < min(theirs):
        return f"is behind {extent}"
    return f"overlaps with DQN, too close to call with {_seeds([candidate, baseline]).removesuffix(' each')}"
