"""The generated pages: `README.md` and `summary.json` of each experiment, and the table of all claims."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from eva.experiments.definition import Experiment, Judgement, Table
from eva.experiments.words import plain
from eva.report.reading import RunRecord

_BOOTSTRAP = (
    "Intervals are percentiles of 2,000 resamples, each arm drawn for itself. With five seeds or fewer they are rather "
    "too narrow than too wide."
)
_UNTESTED = "Why it does not hold has not been tested."


def contents(experiment: Experiment, judgement: Judgement, runs: Sequence[RunRecord]) -> dict[str, bytes]:
    """Return the files of an experiment's folder, by name."""
    files = {
        "README.md": readme(experiment, judgement, runs).encode(),
        "summary.json": summary(experiment, judgement, runs).encode(),
    }
    for name, (svg, png) in judgement.figures.items():
        files |= {f"{name}.svg": svg, f"{name}.png": png}
    return files


def summary(experiment: Experiment, judgement: Judgement, runs: Sequence[RunRecord]) -> str:
    """Return the text of summary.json."""
    findings = [
        {"where": claim.where, "claim": claim.text, **asdict(finding)}
        for claim, finding in zip(experiment.claims, judgement.findings, strict=True)
    ]
    content = {
        "experiment": experiment.name,
        "outcome": judgement.outcome,
        "findings": findings,
        "figures": list(judgement.figures),
        "runs": origin(runs),
        "numbers": judgement.numbers,
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def origin(runs: Sequence[RunRecord]) -> dict[str, Any]:
    """Return where numbers come from: seeds, transitions, commits, machines, time."""
    seconds = [run.seconds for run in runs if not math.isnan(run.seconds)]
    provenances = [run.provenance for run in runs]
    machines = [each.get("machine", {}) for each in provenances]
    return {
        "number": len(runs),
        "seeds": sorted({run.seed for run in runs}),
        "transitions": sum(run.transitions for run in runs),
        "hours": plain(sum(seconds) / 3600),
        "commits": _counted(_commit(each) for each in provenances),
        "machines": _counted(f"{each.get('processor')}, {each.get('cores')} cores" for each in machines),
        "torch": _counted(str(each.get("versions", {}).get("torch")) for each in provenances),
        "dates": sorted({str(each.get("started"))[:10] for each in provenances}),
    }


def readme(experiment: Experiment, judgement: Judgement, runs: Sequence[RunRecord]) -> str:
    """Return the page of one experiment."""
    claims = ["# " + experiment.title, "", f"**{judgement.outcome}**", ""]
    for claim, finding in zip(experiment.claims, judgement.findings, strict=True):
        untested = f" {_UNTESTED}" if finding.verdict == "does not hold" else ""
        claims += [
            f"## {finding.verdict.capitalize()}: {claim.text}",
            "",
            f"{claim.where} of the paper. We measured: {finding.measured}. How sure: {finding.certainty}.{untested}",
            "",
            f"Rule: {claim.rule}",
            "",
        ]
    figures = [line for name in judgement.figures for line in (f"![{name}]({name}.svg)", "")]
    tables = [line for each in judgement.tables for line in (*_table(each), "")]
    remarks = [f"- {remark}" for remark in (_BOOTSTRAP, *experiment.remarks)]
    return "\n".join(
        [
            *claims,
            "## Figures and numbers",
            "",
            *figures,
            *tables,
            "## Read with care",
            "",
            *remarks,
            "",
            "## Where this comes from",
            "",
            *_command(experiment.name),
            "",
            *_origin(origin(runs)),
            "",
            "Generated from the runs in [runs](runs); numbers in full: [summary.json](summary.json).",
            "",
        ]
    )


def all_claims(experiments: Iterable[Experiment], summaries: Mapping[str, Any]) -> str:
    """Return docs/results.md, from what summary.json of each experiment says; without one it was not run."""
    rows, sections = [], []
    for experiment in experiments:
        found = summaries.get(experiment.name)
        for number, claim in enumerate(experiment.claims):
            finding = (
                found["findings"][number] if found else {"verdict": "not run yet", "measured": "", "certainty": ""}
            )
            link = f"[page](../results/{experiment.name}/README.md)"
            shown = f"`eva experiment {experiment.name}`{f', {link}' if found else ''}"
            verdict = f"**{finding['verdict']}**" if found else finding["verdict"]
            cells = [claim.where, claim.text, verdict, finding["measured"], finding["certainty"], shown]
            rows.append(cells)
        sections += _section(experiment, found)
    heads = ["paper", "it says", "verdict", "we measured", "how sure", "shown by"]
    head = """\
# Results

Generated by `docs/generate_results.py` from the folders in `results`; do not edit. Claim by claim: what the paper says,
what we measured, how sure we are, and which command shows it: it repeats what is not kept, and writes the page.

**Holds**: the estimate agrees and its 95% interval excludes the contrary. **Holds in part**: only the estimate agrees,
or one half of the claim holds. **Does not hold**: else. Each claim's rule stands on its experiment's page, and was
written before the runs were made (P85, P86 in [paper.md](paper.md)).
"""
    return "\n".join([head, *_table(Table("", heads, rows))[2:], "", *sections])


def _section(experiment: Experiment, found: Mapping[str, Any] | None) -> list[str]:
    lines = [f"## {experiment.title}", ""]
    if found is None:
        return [*lines, "Not run yet.", "", *_command(experiment.name), ""]
    folder = f"../results/{experiment.name}"
    picture = f"![{experiment.title}]({folder}/{found['figures'][0]}.svg)"
    return [*lines, f"{found['outcome']} [Numbers and judgement]({folder}/README.md).", "", picture, ""]


def _command(name: str) -> list[str]:
    return ["```bash", f"eva experiment {name}", "```"]


def _origin(told: Mapping[str, Any]) -> list[str]:
    seeds = ", ".join(map(str, told["seeds"]))
    lines = [
        f"{told['number']} runs, {told['transitions']:,} transitions, {told['hours']:.1f} hours of one thread each; "
        f"seeds {seeds}; {' to '.join(dict.fromkeys((told['dates'][0], told['dates'][-1])))}."
    ]
    lines += [
        f"{name.capitalize()}: " + "; ".join(f"{thing} ({count} runs)" for thing, count in told[name].items()) + "."
        for name in ("commits", "machines", "torch")
    ]
    return lines


def _commit(provenance: Mapping[str, Any]) -> str:
    commit = str(provenance.get("commit"))[:12]
    return f"{commit}, with uncommitted changes" if provenance.get("dirty") else commit


def _counted(things: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(things).items()))


def _table(table: Table) -> list[str]:
    rows = [table.heads, ["---"] * len(table.heads), *table.rows]
    return [table.caption, "", *("| " + " | ".join(row) + " |" for row in rows)]
