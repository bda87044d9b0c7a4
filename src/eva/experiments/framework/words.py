"""Numbers in words and tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from eva.experiments.framework.definition import Table
from eva.experiments.framework.judge import effect
from eva.report.curves import FINAL_SHARE, Task
from eva.report.measures import Comparison, Estimate, Measures
from eva.report.statistics import CONFIDENCE
from eva.report.verdict import number

_ENDLESS = {math.inf: "+\N{INFINITY}", -math.inf: "-\N{INFINITY}"}  # where one of two never gets there
DIGITS = 4  # of what summary.json says: the rest may change from one machine to the next


def brief(estimate: Estimate) -> str:
    """Return an estimate with its interval, for a table."""
    return _with_interval(estimate, number)


def brief_gain(gain: Estimate) -> str:
    """Return a difference with its interval, for a table."""
    return _with_interval(gain, _signed)


def gained(gain: Estimate, confidence: float = CONFIDENCE) -> str:
    """Return a difference with its interval, for a sentence."""
    return _with_interval(gain, _signed, f"{100 * confidence:.3g}% interval ")


def times(ratio: Estimate) -> str:
    """Return a ratio with its interval, for a sentence."""
    return _with_interval(ratio, number, "95% interval ")


def share(estimate: Estimate) -> str:
    """Return a share of the data with its interval, for a sentence."""
    return _with_interval(estimate, _percent, "95% interval ")


def saving(estimate: Estimate) -> str:
    """Return a share of the data that is saved, with its interval, for a sentence."""
    return _with_interval(estimate, lambda value: _ENDLESS.get(value, f"{value:+.0%}"), "95% interval ")


def brief_share(estimate: Estimate) -> str:
    """Return a share of the data with its interval, for a table."""
    return _with_interval(estimate, _percent)


def seeds(count: int) -> str:
    """Return what intervals are taken over."""
    return f"bootstrap over {count} seed{'s' * (count > 1)} of each"


def lesson(where: str, gain: Comparison, margin: float) -> str:
    """Return what EVA does somewhere, with the numbers that decide."""
    said = {
        "better": "EVA helps",
        "worse": "EVA harms",
        "no difference": f"EVA makes no difference of {number(margin)} or more",
        "undecided": "whether EVA helps is undecided",
    }[effect(gain.area_gain, margin)]
    return (
        f"{capital(where)}: {said}. The mean return over training changes by {gained(gain.area_gain)}, the final "
        f"return by {gained(gain.final_gain)}."
    )


def levels_in_words(task: Task) -> list[str]:
    """Return what returns in a task are to be compared with, as far as that is known."""
    known = (("the optimum is", task.optimum), ("random play returns", task.chance))
    return [f"{what} {number(value)}" for what, value in known if value is not None]


def measured_by(measured: Mapping[str, Any]) -> str:
    """Return by which code, where and when something was measured that is no run."""
    provenance = measured["provenance"]
    return (
        f"commit {commit(provenance)}; {machine(provenance)}; torch {provenance['versions']['torch']}; "
        f"{str(provenance['started'])[:10]}"
    )


def commit(provenance: Mapping[str, Any]) -> str:
    """Return which code it was."""
    return str(provenance.get("commit"))[:12] + ", with uncommitted changes" * bool(provenance.get("dirty"))


def machine(provenance: Mapping[str, Any]) -> str:
    """Return what it ran on."""
    host, device = provenance.get("machine", {}), str(provenance.get("device", "cpu"))
    return f"{host.get('processor')}, {host.get('cores')} cores" + f", {device}" * (device != "cpu")


def plain(content: Any) -> Any:
    """Return nested content as JSON types: numbers rounded, null where they are infinite (never reached) or missing."""
    if isinstance(content, dict):
        return {str(key): plain(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [plain(value) for value in content]
    if isinstance(content, float):
        return round(content, DIGITS) + 0.0 if math.isfinite(content) else None
    return content


def measures_table(task: Task, measures: Mapping[str, Measures]) -> Table:
    """Return what was measured of each arm of a task."""
    best = "" if task.optimum is None else f" The optimal return is {number(task.optimum)}."
    worst = "" if task.chance is None else f" Random play returns {number(task.chance)}."
    caption = (
        f"{capital(task.name)}: mean over seeds, and its 95% bootstrap interval. Final: the episodes that finished in "
        f"the last {FINAL_SHARE:.0%} of the transitions.{best}{worst}"
    )
    rows = [
        [name, str(len(each.seeds)), brief(each.final), brief(each.area), _each(each.finals)]
        for name, each in measures.items()
    ]
    return Table(caption, ["", "seeds", "final return", "mean return over training", "final return of each seed"], rows)


def comparison_table(task: Task, comparisons: Mapping[str, Comparison], measures: Mapping[str, Measures]) -> Table:
    """Return how each arm of a task compares with the first."""
    baseline = next(iter(comparisons))
    heads = ["", "final return", "mean return over training", f"share of {baseline}'s data", "seeds that reach it"]
    rows = []
    for name, each in comparisons.items():
        gains = [] if name == baseline else [brief_gain(gain) for gain in (each.final_gain, each.area_gain)]
        reached = f"{each.num_reached} of {len(measures[name].seeds)}"
        rows.append([name, *(gains or ["", ""]), brief_share(each.data_share), reached])
    least = max(each.data_share_from for each in comparisons.values())
    caption = (
        f"{capital(task.name)}: differences to {baseline}, and the share of {baseline}'s transitions after which the "
        f"mean learning curve first reaches {baseline}'s final return: looked for from {least:.0%} on, when "
        f"exploration has decayed, so {least:.0%} means no later than that."
    )
    return Table(caption, heads, rows)


def _with_interval(estimate: Estimate, form: Callable[[float], str], introduction: str = "") -> str:
    if math.isnan(estimate.value):
        return "no value"
    if math.isnan(estimate.low):
        return f"{form(estimate.value)} (one seed: no interval)"
    return f"{form(estimate.value)} ({introduction}{form(estimate.low)} to {form(estimate.high)})"


def _each(values: Sequence[float]) -> str:
    return ", ".join(number(value) for value in values)


def capital(sentence: str) -> str:
    """Return a sentence with a capital."""
    return sentence[:1].upper() + sentence[1:]


def _signed(value: float) -> str:
    text = number(value)
    return text if text.startswith("-") else f"+{text}"


def _percent(value: float) -> str:
    return f"{value:.0%}" if math.isfinite(value) else "not reached"
