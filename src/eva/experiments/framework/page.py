"""Results pages: `summary.json` of an experiment, `README.md` rendered from it, and the table of all claims."""

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jinja2

from eva.experiments.framework.definition import Experiment, Requirement, Table
from eva.experiments.framework.evidence import Evidence
from eva.experiments.framework.judge import Judgement, failed_requirements, judge
from eva.experiments.framework.measures import num_failed
from eva.report import plots
from eva.report.format import number, signed
from eva.report.reading import RunRecord
from eva.report.statistics import Estimate

DIGITS = 4  # in summary.json: the rest may differ between machines


def contents(experiment: Experiment, evidence: Evidence) -> dict[str, bytes]:
    """Return the files of an experiment's folder by name."""
    figures = experiment.figures(evidence)
    tables = [_table(each) for each in experiment.tables(evidence)]
    content = _plain(
        {**summary(experiment, evidence), **({"tables": tables} if tables else {}), "figures": list(figures)}
    )
    files = {
        "README.md": _render("page.md.j2", content).encode(),
        "summary.json": (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode(),
    }
    for name, drawing in figures.items():
        files[f"{name}.svg"], files[f"{name}.png"] = plots.files(drawing)
    return files


def all_claims(summaries: Mapping[str, Any]) -> str:
    """Return results/README.md: every claim of every summary.json in one table."""
    return _render("index.md.j2", {"summaries": summaries})


def summary(experiment: Experiment, evidence: Evidence) -> dict[str, Any]:
    """Return all numbers of an experiment, with their provenance."""
    tables = [_table(each) for each in experiment.tables(evidence)]
    timed = evidence.measured["provenance"] if experiment.timing else None
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "question": experiment.question,
        "command": " ".join(experiment.command),
        "notes": experiment.notes,
        **({"unfinished": evidence.unfinished} if evidence.unfinished else {}),
        "claims": [_claim(each) for each in judge(experiment, evidence)],
        "failed": [_failed(*each) for each in failed_requirements(experiment, evidence)],
        **({"tables": tables} if tables else {}),
        "arms": _arms(experiment, evidence),
        "levels": {
            task.name: {"optimum": task.optimum, "random play": task.chance} for task in evidence.tasks.values()
        },
        "largest_abs_q": {"/".join(run.path.parts[-3:]): run.largest_abs_q for run in evidence.runs},
        "runs": _origin(evidence.runs),
        "timed": timed and {"commit": _commit(timed), "machine": _machine(timed), "date": str(timed["started"])[:10]},
    }


def _table(each: Table) -> dict[str, Any]:
    rows = [[cell.numbers if isinstance(cell, Estimate) else cell for cell in row] for row in each.rows]
    return {"title": each.title, "columns": each.columns, "rows": rows, "note": each.note}


def _failed(each: Requirement, value: float) -> dict[str, Any]:
    required = {"low": each.low, "high": each.high}
    return {"task": each.task, "arm": each.arm, "measure": each.measure.name, "value": value, **required}


def _claim(each: Judgement) -> dict[str, Any]:
    claim, difference = each.claim, each.difference
    stated = {"where": claim.where, "claim": claim.text, "primary": claim.primary}
    compared = {
        "task": None if claim.measure.over_tasks else each.task,
        "arm": claim.arm,
        "compared_with": claim.compared_with,
    }
    expected = {"measure": claim.measure.name, "expected": claim.expected}
    measured = {"difference": difference.value, "ci": [difference.low, difference.high], "n": difference.n}
    judged = {"unit": claim.measure.unit, "margin": each.margin, "verdict": each.verdict, "agrees": each.agrees}
    judged |= {"p": each.p, "largest_gain": each.gain.high if each.verdict == "undecided" else None}
    return {**stated, **compared, **expected, **measured, **judged}


def _arms(experiment: Experiment, evidence: Evidence) -> list[dict[str, Any]]:
    over_tasks = all(measure.over_tasks for measure in experiment.columns)
    rows = {("all" if over_tasks else task, label): arm for (task, label), arm in evidence.arms.items()}
    table = []
    for (shown, label), arm in rows.items():
        runs = evidence.group(arm.task, label).runs if arm.jobs else ()
        diverged = sum(run.diverged is not None for run in runs)
        row = {"task": shown, "arm": label, "diverged": diverged, "failed": num_failed(evidence, arm.task, label)}
        cells = {each.name: each.estimate(evidence, arm.task, label).numbers for each in experiment.columns}
        table.append({**row, **cells})
    return table


def _origin(runs: Sequence[RunRecord]) -> dict[str, Any]:
    """Return where the runs come from. A run that was continued counts for each commit and machine."""
    dates = sorted({str(each.get("started"))[:10] for run in runs for each in run.provenances})
    return {
        "number": len(runs),
        "seeds": sorted({run.seed for run in runs}),
        "transitions": sum(run.transitions for run in runs),
        "hours": sum(run.seconds for run in runs if not math.isnan(run.seconds)) / 3600,
        "commits": _counted(_commit, runs),
        "machines": _counted(_machine, runs),
        "torch": _counted(lambda each: str(each.get("versions", {}).get("torch")), runs),
        "dates": list(dict.fromkeys([*dates[:1], *dates[-1:]])),
    }


def _commit(provenance: Mapping[str, Any]) -> str:
    return str(provenance.get("commit"))[:12] + ", with uncommitted changes" * bool(provenance.get("dirty"))


def _machine(provenance: Mapping[str, Any]) -> str:
    host, device = provenance.get("machine", {}), str(provenance.get("device", "cpu"))
    return f"{host.get('processor')}, {host.get('cores')} cores" + f", {device}" * (device != "cpu")


def _counted(name: Callable[[Mapping[str, Any]], str], runs: Sequence[RunRecord]) -> dict[str, int]:
    return dict(sorted(Counter(each for run in runs for each in set(map(name, run.provenances))).items()))


def _plain(content: Any) -> Any:
    """Return JSON types: numbers rounded, null for NaN, "inf" and "-inf" for infinite values."""
    if isinstance(content, Mapping):
        return {str(key): _plain(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_plain(value) for value in content]
    if isinstance(content, float):
        return round(content, DIGITS) + 0.0 if math.isfinite(content) else None if math.isnan(content) else str(content)
    return content


def _render(template: str, content: Mapping[str, Any]) -> str:
    templates = jinja2.Environment(
        loader=jinja2.PackageLoader("eva.experiments.framework", "."),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    for name, form in (("number", number), ("signed", signed)):
        templates.filters[name] = lambda value, form=form: "" if value is None else form(float(value))
    return templates.get_template(template).render(content)
