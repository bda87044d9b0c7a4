"""The documents match the code: paths, commands, names, tests and ledger numbers exist."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import eva.experiments.framework.command
import eva.inspect.page
import eva.report.pages
import eva.runs.sweep.cost
import eva.runs.sweep.manifest
import eva.sharing.card
from eva.cli.main import COMMANDS, main
from eva.config import Config
from eva.schema import flatten, from_dict

ROOT = Path(__file__).parents[1]
README, PAPER = ROOT / "README.md", ROOT / "docs" / "paper.md"
GUIDES = [
    README,
    *(
        ROOT / "docs" / f"{name}.md"
        for name in (
            "getting-started",
            "atari",
            "minatar",
            "inspector",
            "sharing",
            "tracking",
            "api",
            "integrations",
            "scaling",
            "howto",
            "gpu",
        )
    ),
]
EACH_GUIDE = pytest.mark.parametrize("document", GUIDES, ids=lambda path: path.name)
DOCUMENTS = [README, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
EACH_DOCUMENT = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
FOLDERS = {"src", "tests", "docs", "examples", "benchmarks", "results", ".github", ".ci"}
FIELDS = {name for name, _ in flatten(Config())}
SECTIONS = {name.partition(".")[0] for name in FIELDS}
LABELS = ["The paper says", "We do", "Why", "Switch", "Test"]
NUMBER = re.compile(r"p\d+$")
CITING = {".py", ".js", ".md"}
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(text: str, language: str | None = None) -> list[str]:
    """Return the fenced code blocks, or those of one language."""
    return [code for marked, code in FENCE.findall(text) if language in (None, marked)]


def spans(text: str) -> list[str]:
    """Return the inline code outside fenced blocks."""
    return re.findall(r"`([^`\n]+)`", FENCE.sub("", text))


def paths(text: str) -> list[str]:
    """Return the inline code that looks like a path of this repository, without a test name after `::`."""
    names = [span.partition("::")[0] for span in spans(text)]
    plain = [name for name in names if re.fullmatch(r"[\w./-]+", name)]
    inside = [name for name in plain if "/" in name and name.split("/")[0] in FOLDERS]
    return inside + [name for name in plain if "/" not in name and name.endswith((".md", ".toml", ".cff"))]


def links(text: str) -> list[str]:
    """Return the targets of links within the repository."""
    targets = re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", text))
    return [target.partition("#")[0] for target in targets if not re.match(r"https?:|mailto:|#", target)]


def commands(text: str, program: str) -> list[list[str]]:
    """Return the arguments of each call of a program in fenced blocks; shell variables become 0."""
    lines = "\n".join(blocks(text)).replace("\\\n", " ").splitlines()
    parts = [part.strip().removeprefix("$ ") for line in lines for part in re.split(r"[;&|]+|\bdo\b", line)]
    calls = [re.sub(r"\$\w+", "0", part) for part in parts if re.match(rf"(\S*/)?{program}(\s|$)", part)]
    return [shlex.split(call, comments=True)[1:] for call in calls]


def entries(document: Path) -> dict[str, dict[str, str]]:
    """Return the readings of a document, "P5" -> its lines by label; each is a section below an anchor."""
    section = re.compile(r'^<a id="p(\d+)"></a>\n### P\1: \S.*\n\n((?:- \*\*.+\n(?:  .+\n)*)+)', re.MULTILINE)
    line = re.compile(r"^- \*\*(.+?):\*\* (.+\n(?:  .+\n)*)", re.MULTILINE)
    return {f"P{number}": dict(line.findall(body)) for number, body in section.findall(document.read_text())}


def anchors(text: str) -> list[str]:
    """Return the fragments that links can name: explicit anchors, and headings as GitHub spells them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE)
    return re.findall(r'<a id="([^"]+)"></a>', text) + [
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings
    ]


def resolve(name: str) -> Any:
    """Resolve a dotted name: import its modules, then follow attributes."""
    parts = name.split(".")
    thing: Any = importlib.import_module(parts[0])
    for i, part in enumerate(parts[1:], start=2):
        if not hasattr(thing, part):
            importlib.import_module(".".join(parts[:i]))
        thing = getattr(thing, part)
    return thing


def test_collectors_find_paths_links_commands_and_blocks() -> None:
    text = (
        "`src/x.py` [b](docs/y.md#z) `tests/a.py::test_b` [w](https://w.org)\n"
        "```sh\n$ eva train a \\\n  --seed $s  # note\nfor w in 0 1; do .venv/bin/eva report runs; done\n```\n"
        "```python\n1 / 0\n```\n"
    )
    assert paths(text) == ["src/x.py", "tests/a.py"]
    assert links(text) == ["docs/y.md"]
    assert commands(text, "eva") == [["train", "a", "--seed", "0"], ["report", "runs"]]
    assert blocks(text, "python") == ["1 / 0\n"]
    with pytest.raises(ModuleNotFoundError):
        resolve("eva.agent.nothing")


@EACH_DOCUMENT
def test_paths_exist(document: Path) -> None:
    text = document.read_text()
    assert paths(text) + links(text)
    assert [path for path in paths(text) if not (ROOT / path).exists()] == []
    assert [link for link in links(text) if not (document.parent / link).exists()] == []


@EACH_DOCUMENT
def test_dotted_names_exist(document: Path) -> None:
    for span in spans(document.read_text()):
        name = span.split(" = ")[0]
        if re.fullmatch(r"\w+(\.\w+)+", name) and name.split(".")[0] in SECTIONS and not name.endswith(".py"):
            assert name in FIELDS or resolve(name) is not None


def test_every_equation_and_algorithm_names_its_function_and_test() -> None:
    rows = [line for line in PAPER.read_text().splitlines() if re.match(r"\| (Eq|Algorithm|Section)", line)]
    numbered = " ".join(row.split("|")[1] for row in rows)
    equations = ["Eq. 1", "Eq. 2", "Eq. 3", "Eq. 4", "Eq. 5", "Eq. 6", "Eq. 7"]
    for thing in equations + [f"Algorithm {i}" for i in range(1, 5)]:
        assert thing in numbered
    for row in rows:
        assert "`eva." in row, row
        assert "::test_" in row, row


def test_named_tests_exist() -> None:
    named = [span for document in DOCUMENTS for span in spans(document.read_text()) if "::" in span]
    assert len(named) > 50
    for test in named:
        file, _, name = test.partition("::")
        functions = {x.name for x in ast.walk(ast.parse((ROOT / file).read_text())) if isinstance(x, ast.FunctionDef)}
        assert name in functions, test


def test_ledger_is_in_order_and_every_reading_names_a_test() -> None:
    ledger = entries(PAPER)
    numbers = [int(number[1:]) for number in ledger]
    assert numbers == sorted(numbers)
    assert len(numbers) > 60
    assert [f"P{number}" for number in re.findall(r"^#+ P(\d+)", PAPER.read_text(), re.MULTILINE)] == list(ledger)
    for number, lines in ledger.items():
        assert list(lines) in (LABELS, [label for label in LABELS if label != "Switch"]), number
        assert re.search(r"::test_|^nothing to test", lines["Test"]), number


def test_ledger_values_are_the_configs() -> None:
    """`field = value` is the default under "We do", and another allowed value under "Switch"."""
    found: dict[bool, list[str]] = {True: [], False: []}
    for lines in (lines for document in DOCUMENTS for lines in entries(document).values()):
        for label, is_default in (("We do", True), ("Switch", False)):
            for section, name, text in re.findall(r"`(\w+)\.(\w+) = ([^`]+)`", lines.get(label, "")):
                value = json.loads(text) if re.match(r"[\d\[]|true|false", text) else text
                config = from_dict(Config, {section: {name: value}})
                assert (config == Config()) == is_default, f"{section}.{name} = {text}"
                found[is_default].append(name)
    assert len(found[True]) > 20
    assert len(found[False]) > 5


def test_cited_numbers_have_exactly_one_anchor() -> None:
    source = [path for folder in ("src", "tests") for path in (ROOT / folder).rglob("*") if path.suffix in CITING]
    files = [*source, *DOCUMENTS, ROOT / "CHANGELOG.md"]
    cited = {number for file in files for number in re.findall(r"\bP\d+\b", file.read_text())}
    there = [name.upper() for document in DOCUMENTS for name in anchors(document.read_text()) if NUMBER.match(name)]
    assert {"P1", "P5", "P22"} <= cited
    assert len(there) == len(set(there))
    assert cited <= set(there)


@EACH_DOCUMENT
def test_links_to_sections_resolve(document: Path) -> None:
    for path, fragment in re.findall(r"\]\((?!https?:)([^)\s#]*)#([^)\s]+)\)", FENCE.sub("", document.read_text())):
        if path.endswith(".json"):  # numbers: tests/experiments/test_results.py compares them
            continue
        target = document.parent / path if path else document
        assert fragment in anchors(target.read_text()), f"{path}#{fragment}"


def test_readme_links_every_page() -> None:
    linked = {(ROOT / link).resolve() for link in links(README.read_text())}
    assert {path for path in DOCUMENTS if path.parent == ROOT / "docs"} <= linked


def test_architecture_page_names_existing_folders_files_and_methods() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    rows = re.findall(r"^\| `(src/eva[\w/]*)` \| (.+) \|$", text, re.MULTILINE)
    files = [f"{folder}/{name}" for folder, content in rows for name in spans(content) if name.endswith(".py")]
    assert "src/eva/agent/memory/replay.py" in files
    assert [file for file in files if not (ROOT / file).exists()] == []
    packages = {path.parent for path in (ROOT / "src" / "eva").glob("*/__init__.py")}
    assert {path.relative_to(ROOT).as_posix() for path in packages} <= set(spans(text))
    classes = {
        node.name: {inner.name for inner in node.body if isinstance(inner, ast.FunctionDef)}
        for path in (ROOT / "src").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    }
    methods = [span.split(".") for span in spans(text) if re.fullmatch(r"[A-Z]\w+\.\w+", span)]
    assert ["EVAAgent", "act"] in methods
    assert [f"{owner}.{method}" for owner, method in methods if method not in classes.get(owner, ())] == []


@EACH_GUIDE
def test_commands_in_guides_parse(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("eva.runs.loop.train", lambda *_, **__: done.append("train"))
    monkeypatch.setattr("eva.report.listing.readable_runs", lambda _: done.append("runs") or ([], []))
    monkeypatch.setattr("eva.report.export.export", lambda *_: done.append("export") or [])
    monkeypatch.setattr("eva.runs.evaluate.evaluate", lambda *_, **__: done.append("evaluate") or [])
    monkeypatch.setattr(
        eva.report.pages,
        "write_report",
        lambda *_: done.append("report") or SimpleNamespace(comparisons="", html="", left_out=[]),
    )
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    inspected = SimpleNamespace(summary="", html="")
    monkeypatch.setattr(eva.inspect.page, "inspect_run", lambda *_, **__: done.append("inspect") or inspected)
    monkeypatch.setattr(eva.sharing.card, "card", lambda *_, **__: done.append("card") or "")
    monkeypatch.setattr(eva.experiments.framework.command, "run_experiment", lambda *_: done.append("experiment") or "")
    for name in ("manifest.run_sweep", "manifest.sweep_status", "cost.estimate_cost"):
        monkeypatch.setattr(f"eva.runs.sweep.{name}", lambda *_: done.append("sweep") or "")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    calls = [call for call in commands(document.read_text(), "eva") if "--help" not in call]
    assert calls or document.name in {"api.md", "integrations.md"}
    for arguments in calls:
        assert arguments[0] in {*COMMANDS}, "stub this command above"
        if "--config" in arguments:
            file = Path(arguments[arguments.index("--config") + 1])
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(Config().to_json())
        assert main(arguments) == 0, arguments
    assert done == [call[0] for call in calls if call[0] != "presets" and "--list" not in call]


@EACH_DOCUMENT
def test_make_targets_exist(document: Path) -> None:
    targets = set(re.findall(r"^([\w-]+):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = document.read_text()
    calls = commands(text, "make") + [span.split()[1:] for span in spans(text) if span.startswith("make ")]
    assert calls or document.parent == ROOT / "docs"
    assert {word for call in calls for word in call if "=" not in word and not word.startswith("-")} <= targets


@EACH_GUIDE
def test_python_in_guides_runs(document: Path, tmp_path: Path) -> None:
    """Run all blocks of a guide as one script."""
    code = "\n".join(blocks(document.read_text(), "python"))
    assert code or document.name in {"README.md", "atari.md", "minatar.md", "scaling.md", "howto.md", "gpu.md"}
    environment = os.environ | {"TMPDIR": str(tmp_path)}  # SB3's logger creates a temporary folder
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_configuration_page_is_up_to_date_and_complete() -> None:
    script = ROOT / "docs" / "generate_configuration.py"
    code = "import runpy, sys; print(runpy.run_path(sys.argv[1])['page'](), end=''); assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code, script], capture_output=True, text=True, check=True)
    page = (ROOT / "docs" / "configuration.md").read_text()
    assert page == done.stdout, "stale: run python docs/generate_configuration.py"
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| `")]
    assert {row[0].strip("`") for row in rows} == FIELDS
    assert len(rows) == len(FIELDS)
    assert all(len(row) == 4 and all(row) for row in rows)
