"""Published results: pages follow from their runs, and prose quotes the numbers that were measured."""

from __future__ import annotations

import functools
import json
import re
import runpy
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from eva.experiments.catalogue import EXPERIMENTS
from eva.experiments.framework.evidence import Evidence, Records
from eva.experiments.framework.page import contents

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
PROSE = [ROOT / "docs" / "results.md", ROOT / "README.md"]
QUOTED = re.compile(r"\[([-+]?[\d.,]+)\]\((?:\.\./)?(results/[\w-]+/summary\.json)#(/[^)\s]+)\)")


def test_the_table_of_claims_is_up_to_date() -> None:
    page = runpy.run_path(str(ROOT / "docs" / "generate_results.py"))["page"]()
    assert (RESULTS / "README.md").read_text() == page, "stale: run python docs/generate_results.py"


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if (RESULTS / name / "summary.json").exists()])
def test_pages_follow_from_their_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eva.report.plots.files", lambda _: (b"", b""))
    each = EXPERIMENTS[name]
    evidence = Evidence(each.arms(), Records(RESULTS, name), task_by_task=each.task_by_task)
    for file, content in contents(each, evidence).items():
        there = (RESULTS / name / file).read_bytes()
        assert there == content or file.endswith((".svg", ".png")), f"stale: run eva experiment {name} --page"


def quotes() -> list[tuple[str, str, str]]:
    return [match for page in PROSE for match in QUOTED.findall(page.read_text())]


def test_prose_quotes_numbers() -> None:
    assert len(quotes()) > 10


@pytest.mark.parametrize(("text", "file", "pointer"), quotes())
def test_quoted_numbers_are_those_of_the_summary(text: str, file: str, pointer: str) -> None:
    content: Any = json.loads((ROOT / file).read_text())
    parts = [unquote(part) for part in pointer.strip("/").split("/")]
    value = functools.reduce(
        lambda tree, part: tree[int(part)] if isinstance(tree, list) else tree[part], parts, content
    )
    digits = len(text.partition(".")[2])
    assert f"{value:.{digits}f}" == text.replace(",", "").lstrip("+")
