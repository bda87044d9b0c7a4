"""Comparisons of Q_theta, Q_NP and Q_EVA with exact values during training."""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eva.config import Config
from eva.errors import UserError
from eva.runs import accuracy
from eva.runs.accuracy import Values, measures, summary
from eva.runs.loop import train
from eva.runs.record.columns import ACCURACY, AGE_LIMITS, NUM_FIFTHS, OWN, SHADOWS
from tests.helpers.agents import tiny

FILES = (
    "episodes.csv",
    "metrics.jsonl",
    "evaluations.jsonl",
    "status.json",
    "policy.safetensors",
    "memory.safetensors",
)


def trained(config: Config, path: Path) -> list[dict[str, Any]]:
    """Train; returns the comparisons with exact values, if there are any."""
    train(config, path, stream=io.StringIO())
    record = path / ACCURACY
    return [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []


def compared(weight: float, *, is_compared: bool = True, **sections: Any) -> Config:
    evaluation = {"period_transitions": 40, "num_episodes": 2, "accuracy": is_compared}
    eva = {"nonparametric_weight": weight, **sections.pop("eva", {})}
    return tiny(1, steps=120, evaluation=evaluation, eva=eva, **sections)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accuracy, "NUM_LANES", 3)
    monkeypatch.setattr(accuracy, "MEASURED_STEPS", 10)


@pytest.mark.parametrize("search", ["brute", "projected"])
@pytest.mark.parametrize("weight", [0.0, 0.4])
def test_comparisons_change_no_byte_of_the_run(weight: float, search: str, tmp_path: Path) -> None:
    lines = trained(compared(weight, replay={"search": search}), tmp_path / "with")
    assert trained(compared(weight, is_compared=False, replay={"search": search}), tmp_path / "without") == []
    for file in FILES:
        assert (tmp_path / "with" / file).read_bytes() == (tmp_path / "without" / file).read_bytes(), file
    ways = list(SHADOWS) if weight == 0 else [OWN]
    assert [(line["step"], line["way"]) for line in lines] == [(s, way) for s in (40, 80, 120) for way in ways]
    assert {line["n"] for line in lines} == {30}


def test_a_resumed_run_has_the_same_comparisons(tmp_path: Path) -> None:
    config = compared(0.4, run={"checkpoint_period_transitions": 20})
    trained(config, tmp_path / "whole")
    trained(replace(config, steps=60), tmp_path / "resumed")
    with (tmp_path / "resumed" / ACCURACY).open("a") as file:
        file.write("of transitions that are repeated\n")
    trained(config, tmp_path / "resumed")
    assert (tmp_path / "resumed" / ACCURACY).read_bytes() == (tmp_path / "whole" / ACCURACY).read_bytes()


def test_all_ways_see_the_same_states(tmp_path: Path) -> None:
    for line in (lines := trained(compared(0.0), tmp_path / "run")):
        (first,) = (each for each in lines if (each["step"], each["way"]) == (line["step"], "TCP"))
        for name in ("error", "optimal"):
            assert line[name]["q_theta"] == first[name]["q_theta"]
    assert len({line["error"]["q_np"] for line in lines}) > 3, "they plan differently"


def test_a_run_with_eva_is_compared_as_configured(tmp_path: Path) -> None:
    by_trace = [
        trained(compared(0.4, eva={"trace": trace}), tmp_path / trace)[0]["error"]["q_np"]
        for trace in ("tcp", "n-step")
    ]
    assert by_trace[0] != by_trace[1]


@pytest.mark.parametrize("action", range(4))
def test_exact_values_have_no_error(action: int) -> None:
    exact = np.eye(4)[[action, action]]
    found = measures(Values(exact, exact, exact, exact, np.zeros(2), np.zeros(2, np.int64)))
    assert found["error"] == dict.fromkeys(("q_theta", "q_np", "q_eva"), 0.0)
    assert found["optimal"] == dict.fromkeys(("q_theta", "q_np", "q_eva"), 1.0)
    assert (found["overruled"], found["right"], found["network_right"]) == (0.0, None, None)


@given(st.integers(0, 2**32 - 1), st.integers(5, 40))
def test_summaries_match_plain_python(seed: int, n: int) -> None:
    draw = np.random.default_rng(seed)
    q_star, q_theta, q_np, q_eva = draw.integers(0, 3, (4, n, 4)) / 2
    values = Values(q_star, q_theta, q_np, q_eva, draw.integers(0, 9, n) / 2, draw.integers(1, 50_000, n))
    found = summary(values)
    rows = sorted(range(n), key=lambda i: (values.distances[i], i))
    sizes = [n // NUM_FIFTHS + (i < n % NUM_FIFTHS) for i in range(NUM_FIFTHS)]
    fifths = [[rows.pop(0) for _ in range(size)] for size in sizes]
    limits = [*AGE_LIMITS, 10**9]
    ages = [[i for i in range(n) if ([0, *limits][j] < values.ages[i] <= limits[j])] for j in range(len(limits))]
    for group, states in [
        (found, list(range(n))),
        *zip(found["by_distance"], fifths, strict=True),
        *zip(found["by_age"], ages, strict=True),
    ]:
        expected = plain_measures(values, states)
        assert {name: group[name] for name in expected} == pytest.approx(expected, abs=1e-6)


def plain_measures(values: Values, states: list[int]) -> dict[str, Any]:
    """Return what `measures` returns, without its nested groups."""

    def greedy(q: Any, i: int) -> int:
        return max(range(4), key=lambda a: (q[i][a], -a))

    def is_optimal(q: Any, i: int) -> bool:
        return bool(values.q_star[i][greedy(q, i)] == max(values.q_star[i]))

    overruled = [i for i in states if greedy(values.q_eva, i) != greedy(values.q_theta, i)]
    return {
        "n": len(states),
        "overruled": len(overruled) / len(states) if states else None,
        "right": sum(is_optimal(values.q_eva, i) for i in overruled) / len(overruled) if overruled else None,
        "network_right": sum(is_optimal(values.q_theta, i) for i in overruled) / len(overruled) if overruled else None,
    }


def test_only_the_maze_has_exact_values() -> None:
    config = tiny()
    elsewhere = replace(config.environment, id="CartPole-v1")
    with pytest.raises(UserError, match="only the maze has"):
        replace(config, environment=elsewhere, evaluation=replace(config.evaluation, accuracy=True))
