"""Plain words in code, documents, test names, --help and error messages. Each rule is checked on an example."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from eva.cli.main import COMMANDS, main

ROOT = Path(__file__).parents[1]
RULES = {  # a pattern to avoid: (what to write instead, an example that breaks the rule)
    r"\banew\b": ("again, from scratch", "the sketch is made anew"),
    r"\bmend(s|ed|ing)?\b": ("fix", "the user's to mend"),
    r"\bno numbers?\b": ("NaN", "the loss is no number"),
    r"\bbeyond (all|doubt)\b": ("diverged; significant", "better beyond doubt"),
    r"\bwhoever\b": ("the process that, users who", "whoever is awake"),
    r"\bcome what may\b": ("always", "closed come what may"),
    r"\bsomebody\b": ("another process", "somebody is at it"),
    r"\bis at it\b": ("locked by another process", "another process is at it"),
    r"\b95% interval\b": ("95% CI [low, high]", "the 95% interval 1 to 2"),
    r"\bleaves? open which\b": ("undecided: the 95% CI includes 0", "this leaves open which"),
    r"\bso many\b": ("N; every N steps; that many", "after so many updates"),
    r"\blearner's numbers\b": ("hyper-parameters", "the learner's numbers are DQN's"),
    r"\bwhat is done otherwise\b": ("fallback", "this is what is done otherwise"),
    r"\bcrumbles?\b": ("fragment", "the memory neither grows nor crumbles"),
}
RIDDLES = re.compile(r"test_(it|what|who|whoever)_")
LEDGER_NUMBER = re.compile(r"\bP\d+\b")
PROSE = {".py", ".js", ".html", ".css", ".j2", ".md", ".toml", ".yml"}
TEXTS = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "Makefile", "pyproject.toml")] + [
    path
    for folder in ("src", "docs", "benchmarks", "examples", ".github")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in PROSE and not any(part.startswith(".venv") for part in path.parts)
]


def archaic(text: str) -> list[str]:
    """Return what a text should say instead of each phrase that breaks a rule."""
    plain = re.sub(r"\s+(# )?", " ", text)  # phrases may be broken over lines
    found = ((each, advice) for pattern, (advice, _) in RULES.items() for each in re.finditer(pattern, plain, re.I))
    return [
        f"'{each[0]}' in '{plain[max(0, each.start() - 30) : each.end() + 30]}': {advice}" for each, advice in found
    ]


def names_of_tests(path: Path) -> Iterator[str]:
    """Yield the names of the tests in a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node.name


def raised_texts(source: str) -> Iterator[str]:
    """Yield the string constants of all `raise` statements."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Raise):
            constants = (inner.value for inner in ast.walk(node) if isinstance(inner, ast.Constant))
            yield from (value for value in constants if isinstance(value, str))


@pytest.mark.parametrize("pattern", RULES)
def test_rules_find_their_examples(pattern: str) -> None:
    advice, example = RULES[pattern]
    assert any(each.endswith(advice) for each in archaic(example))
    assert archaic(example.replace(" ", "\n    # ")), "also over several lines of a comment"


def test_plain_sentences_break_no_rule() -> None:
    assert archaic("Return NaN if the number is not finite; retry N times. It is recommended to amend no commit.") == []


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_texts_use_plain_words(path: Path) -> None:
    assert archaic(path.read_text()) == []


@pytest.mark.parametrize("path", sorted((ROOT / "tests").rglob("test_*.py")), ids=lambda path: path.stem)
def test_test_names_state_behaviour_in_plain_words(path: Path) -> None:
    names = list(names_of_tests(path))
    assert names
    assert [name for name in names if archaic(name.replace("_", " ")) or RIDDLES.match(name)] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_help_cites_no_ledger_number(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    text = capsys.readouterr().out
    assert command in text
    assert LEDGER_NUMBER.findall(text) == []


def test_errors_cite_no_ledger_number() -> None:
    assert list(raised_texts('raise UserError(f"{x} is wrong (P5)")')) == [" is wrong (P5)"]
    sources = sorted((ROOT / "src").rglob("*.py"))
    texts = [text for path in sources for text in raised_texts(path.read_text())]
    assert len(texts) > 50
    assert [text for text in texts if LEDGER_NUMBER.search(text)] == []
