"""Benchmarks that use the agent's internals still run, and every benchmark has a --help. The tests measure no speed."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from benchmarks import atari_memory, atari_parts, linear, search

COMMANDS = [
    path.stem
    for path in sorted(Path(search.__file__).parent.glob("*.py"))
    if 'if __name__ == "__main__":' in path.read_text()
]


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (atari_parts, linear, search):
        monkeypatch.setattr(module, "ROUNDS", 1)
    monkeypatch.setattr(search, "REPEATS", 1)
    monkeypatch.setattr(linear, "REPEATS", 1)
    monkeypatch.setattr(atari_parts, "STEPS_PER_ROUND", 3)
    monkeypatch.setattr(atari_memory, "NUM_PLAYED", 50)


@pytest.mark.usefixtures("brief")
def test_search_matches_brute_force(capsys: pytest.CaptureFixture[str]) -> None:
    search.compare(search.walks(3_000))  # raises if a result differs
    size, dimensions, *_ = capsys.readouterr().out.split()
    assert (size, dimensions) == ("3,000", "256")


@pytest.mark.usefixtures("brief")
def test_linear_prints_a_row_for_each_case(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.set_num_threads", lambda _: None)
    linear.measure()
    assert len(capsys.readouterr().out.splitlines()) == 9


@pytest.mark.usefixtures("brief")
def test_atari_parts_prints_the_adjusters_share(capsys: pytest.CaptureFixture[str]) -> None:
    atari_parts.report(400)
    cells = capsys.readouterr().out.split()
    assert cells[0] == "400"
    assert cells[-2].endswith("%")


def test_all_benchmarks_are_found() -> None:
    assert {"atari_pfrl", "linear", "maze_peers", "step_parts"} <= set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_exits_before_measuring(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    module = import_module(f"benchmarks.{name}")
    with pytest.raises(SystemExit) as stopped:
        module.main(["--help"])
    assert stopped.value.code == 0
    assert module.__doc__.splitlines()[0] in capsys.readouterr().out
