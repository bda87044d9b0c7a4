"""Benchmarks that use the agent's internals still run, and every benchmark has a --help. The tests measure no speed."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks import atari_memory, atari_parts, choice_speeds, linear, search
from eva.experiments.beyond.memory_choices import CHOICES, arms
from eva.schema import changed

COMMANDS = [
    path.stem
    for path in sorted(Path(search.__file__).parent.glob("*.py"))
    if 'if __name__ == "__main__":' in path.read_text()
]


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (atari_parts, choice_speeds, linear, search):
        monkeypatch.setattr(module, "ROUNDS", 1)
    monkeypatch.setattr(search, "REPEATS", 1)
    monkeypatch.setattr(linear, "REPEATS", 1)
    monkeypatch.setattr(atari_parts, "STEPS_PER_ROUND", 3)
    monkeypatch.setattr(choice_speeds, "STEPS_PER_ROUND", 3)
    monkeypatch.setattr(atari_memory, "NUM_PLAYED", 50)


@pytest.mark.usefixtures("brief")
def test_search_matches_brute_force(capsys: pytest.CaptureFixture[str]) -> None:
    search.compare(search.walks(3_000))  # raises if a result differs
    size, dimensions, *_ = capsys.readouterr().out.split()
    assert (size, dimensions) == ("3,000", "256")


@pytest.mark.usefixtures("brief")
def test_linear_measures_every_batch_with_each_number_of_threads(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    monkeypatch.setattr("torch.set_num_threads", threads.append)
    linear.measure()
    assert threads == [1, 2]
    _, *rows = capsys.readouterr().out.splitlines()
    assert [row[:34].rstrip() for row in rows] == [
        f"{num} threads, batch {size}, {passes}"
        for num in (1, 2)
        for size in (4, 48)
        for passes in ("forward", "and backward")
    ]
    for row in rows:
        torch_time, our_time, ratio = map(float, row[34:].split())
        assert ratio == pytest.approx(torch_time / our_time, rel=0.2), "times are rounded to microseconds"


@pytest.mark.usefixtures("brief")
def test_every_choice_has_a_speed(capsys: pytest.CaptureFixture[str]) -> None:
    small = {"replay.replay_capacity": 400, "learner.learning_starts_transitions": 1}
    choice_speeds.report({arm.label: changed(arm.jobs[0].config, small) for arm in arms()})
    found = re.findall(r"^(.+?) +\d+ us +([\d.]+)$", capsys.readouterr().out, re.MULTILINE)
    assert [label for label, _ in found] == [choice.label for choice in CHOICES]
    assert all(float(speed) > 0 for _, speed in found)


@pytest.mark.usefixtures("brief")
def test_atari_parts_prints_the_adjusters_share(capsys: pytest.CaptureFixture[str]) -> None:
    atari_parts.report(400)
    found = re.search(r"^ *400 .* ([\d.]+)% +\d+$", capsys.readouterr().out, re.MULTILINE)
    assert found
    assert 0 < float(found[1]) < 100


def test_all_benchmarks_are_found() -> None:
    assert {"atari_pfrl", "linear", "maze_peers", "step_parts"} <= set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_exits_before_measuring(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    module = import_module(f"benchmarks.{name}")
    with pytest.raises(SystemExit) as stopped:
        module.main(["--help"])
    assert stopped.value.code == 0
    assert str(module.__doc__).splitlines()[0] in capsys.readouterr().out
