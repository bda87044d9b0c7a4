"""Benchmarks that reach into the agent still run: here briefly, for what they say of speed means nothing."""

from __future__ import annotations

import pytest

from benchmarks import atari_memory, atari_parts, linear, search


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (atari_parts, linear, search):
        monkeypatch.setattr(module, "ROUNDS", 1)
    monkeypatch.setattr(search, "REPEATS", 1)
    monkeypatch.setattr(linear, "REPEATS", 1)
    monkeypatch.setattr(atari_parts, "STEPS_PER_ROUND", 3)
    monkeypatch.setattr(atari_memory, "NUM_PLAYED", 50)


def test_search(capsys: pytest.CaptureFixture[str]) -> None:
    """It compares every answer with brute force's."""
    search.compare(search.walks(3_000))
    size, dimensions, *_ = capsys.readouterr().out.split()
    assert (size, dimensions) == ("3,000", "256")


def test_linear(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear.torch, "set_num_threads", lambda _: None)
    linear.main()
    assert len(capsys.readouterr().out.splitlines()) == 9


def test_atari_parts(capsys: pytest.CaptureFixture[str]) -> None:
    atari_parts.report(400)
    cells = capsys.readouterr().out.split()
    assert cells[0] == "400"
    assert cells[-2].endswith("%")
