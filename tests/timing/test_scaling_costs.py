"""What a step costs as the memory grows: how it is measured, and what known numbers are judged to say."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from eva.timing import scaling_costs
from eva.timing.full_memory import random_play
from eva.timing.scaling_costs import BRUTE, FIT, PARTS, PROJECTED, SEARCH, UPDATE, Bench, Clock, made_up, spectrum
from eva.types import EnvironmentSpec, Ints, StepOutcome
from tests.helpers.synthetic import Learned
from tests.test_judging import judged, verdicts

pytestmark = pytest.mark.usefixtures("_numbers_only")


def costs(search: dict[str, list[float]], update: float) -> dict[str, Any]:
    sizes = (10_000, 500_000, 2_000_000)

    def parts(name: str) -> dict[str, list[list[float]]]:
        each = {part: [[10.0, 10.0]] * 3 for part in (*PARTS, FIT)}
        return each | {SEARCH: [[x - 1, x + 1] for x in search[name]], UPDATE: [[update] * 2] * 3}

    microseconds = {name: parts(name) for name in (BRUTE, PROJECTED)}
    return {"sizes": sizes, "microseconds": microseconds, "fallbacks": [0.0, 0.0, 0.5]}


@pytest.mark.parametrize(
    ("projected", "update", "expected"),
    [
        ([20.0, 100.0, 400.0], 1000.0, ["holds", "holds", "holds"]),
        ([20.0, 300.0, 400.0], 100.0, ["does not hold", "does not hold", "does not hold"]),
    ],
)
def test_scaling(projected: list[float], update: float, expected: list[str], tmp_path: Path) -> None:
    content = costs({BRUTE: [30.0, 500.0, 2000.0], PROJECTED: projected}, update)
    summary = judged(tmp_path, "scaling", lambda _: Learned(0.0), measured=content)
    assert verdicts(summary) == expected
    rest = 10.0 * (len(PARTS) + 1 - 2) + update  # all parts and the fit, but for search and update
    assert summary["numbers"]["growth"]["value"] == pytest.approx((400 + rest) / (20 + rest), abs=1e-3)
    assert summary["numbers"]["search_by_projection"]["2000000"]["value"] == pytest.approx(410 / 2010, abs=1e-3)
    assert summary["runs"]["number"] == 0
    page = (tmp_path / "scaling" / "README.md").read_text()
    assert "No runs: everything was measured at once" in page
    assert "| 2,000,000 |" in page
    assert "| 50% |" in page


def test_made_up_embeddings_have_the_spectrum_of_real_ones() -> None:
    variances = torch.tensor(spectrum()["variances"], dtype=torch.float64)
    embeddings = made_up(20_000, 64, seed=3).double()
    found = torch.linalg.eigvalsh(embeddings.T @ embeddings / len(embeddings)).flip(0)
    torch.testing.assert_close(found[:16], variances[:16], rtol=0.1, atol=0.0)
    assert not torch.equal(made_up(10, 64, seed=1), made_up(10, 64, seed=2))


def test_the_clock_counts_a_part_without_the_parts_within_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "process_time", lambda: now[0])

    def spend(seconds: float) -> None:
        now[0] += seconds

    clock = Clock()
    search = clock.watched(spend, SEARCH)

    def plan() -> None:
        spend(1.0)
        search(5.0)
        spend(2.0)

    outer = clock.watched(clock.watched(plan, "plan"), "rest")
    outer()
    taken = clock.take()
    assert (taken[SEARCH], taken["plan"], taken["rest"], taken[UPDATE]) == (5.0, 3.0, 0.0, 0.0)
    assert set(clock.take().values()) == {0.0}


def test_a_step_is_measured_part_by_part_with_either_search() -> None:
    bench = Bench(1_000)  # what the learner waits for
    for search in (BRUTE, PROJECTED):
        taken = bench.measure(search)
        assert set(taken) == {*PARTS, FIT}
        assert all(each > 0 for part, each in taken.items() if part != FIT)
        assert (taken[FIT] > 0) == (search == PROJECTED)
    query = made_up(1, 64, seed=5)
    found = []
    for search in (BRUTE, PROJECTED):
        bench._search, bench._queries = search, iter([query])
        found.append(bench._nearest(query, 10))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])


def test_quick_scaling_measures_every_size_in_every_round() -> None:
    content = scaling_costs.measure_scaling(is_quick=True)
    for parts in content["microseconds"].values():
        assert set(parts) == {*PARTS, FIT}
        assert all(np.shape(rounds) == (2, 2) for rounds in parts.values())
    assert len(content["fallbacks"]) == 2


class Counting:
    """Environments whose observations tell time and environment."""

    spec = EnvironmentSpec(2, 3, (1,), np.dtype(np.float32))

    def __init__(self) -> None:
        self.time = 0

    def reset(self) -> np.ndarray[Any, Any]:
        return np.array([[0.0], [1.0]], np.float32)

    def step(self, actions: Ints) -> StepOutcome:
        self.time += 10
        seen = self.reset() + self.time
        ends = np.array([False, self.time == 20])
        return StepOutcome(seen, seen[:, 0], ends, np.zeros(2, np.bool_), seen)


def test_random_play_lies_lane_after_lane() -> None:
    state = random_play(Counting(), 7)  # type: ignore[arg-type]
    assert state["observations"][:, 0].tolist() == [0.0, 10.0, 20.0, 1.0, 11.0, 21.0]
    assert state["rewards"].tolist() == [10.0, 20.0, 30.0, 11.0, 21.0, 31.0]
    assert state["discounts"].tolist() == [0.99, 0.99, 0.99, 0.99, 0.0, 0.99]
    assert state["born"].tolist() == [0, 2, 4, 1, 3, 5]
    assert state["lane_counts"].tolist() == [3, 3]
