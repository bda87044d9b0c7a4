"""The table of `eva evaluate`: hand-computed means, paired differences and CIs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from eva.cli.evaluate import summary, table
from eva.report.statistics import mean_interval
from eva.runs.record.episodes import Evaluation


def summary_of(played: Sequence[tuple[float, Any, float | None]]) -> list[dict[str, Any]]:
    """Summarise weights, returns and shares of changed decisions."""
    return summary(
        [Evaluation(60, weight, 0.05, returns, np.ones(len(returns), int), x) for weight, returns, x in played]
    )


def test_intervals_match_student_t() -> None:
    (row,) = summary_of([(0.4, np.array([1.0, 2.0, 6.0]), 0.5)])
    error = 4.302653 * math.sqrt(7 / 3)  # the quantile of t with 2 degrees of freedom
    np.testing.assert_allclose(row["interval"], [3 - error, 3 + error], rtol=1e-6)


def test_single_episode_has_no_interval() -> None:
    rows = summary_of([(0.0, np.array([1.0]), None), (0.4, np.array([3.0]), 0.5)])
    assert [(row["interval"], row["gain_interval"]) for row in rows] == [(None, None)] * 2
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows
    assert table(rows).splitlines()[2].split() == ["0.4", "3.000", "+2.000", "50.0%"]


def test_gains_are_paired_with_weight_0() -> None:
    played = [
        (0.4, np.array([1.0, 2.0, 6.0]), 0.25),
        (0.0, np.array([0.0, 1.0, 5.0]), None),
        (0.2, np.array([3.0, 0.0, 3.0]), 0.5),
    ]
    gaining, baseline, other = summary_of(played)
    assert (gaining["weight"], gaining["episodes"], gaining["mean_return"]) == (0.4, 3, 3.0)
    assert (gaining["gain"], gaining["changed_share"]) == (1.0, 0.25)
    np.testing.assert_allclose(gaining["gain_interval"], [1.0, 1.0])  # every difference is 1
    assert gaining["interval"][0] < 3.0 < gaining["interval"][1]
    assert (baseline["gain"], baseline["gain_interval"]) == (0.0, [0.0, 0.0])
    assert other["gain"] == 0.0
    np.testing.assert_allclose(other["gain_interval"], mean_interval(np.array([3.0, -1.0, -2.0])))
    assert json.loads(json.dumps([gaining, baseline, other])) == [gaining, baseline, other]


def test_gain_is_none_without_weight_0() -> None:
    (row,) = summary_of([(0.4, np.array([1.0, 2.0]), 0.5)])
    assert (row["gain"], row["gain_interval"]) == (None, None)


def test_table_is_aligned() -> None:
    rows = summary_of([(0.0, np.array([1.0, 1.0]), None), (0.25, np.array([1.5, 1.5]), 0.125)])
    lines = table(rows).splitlines()
    ends, first, second = ([cell.end() for cell in re.finditer(r"\S+(?: \S+)*", line)] for line in lines)
    assert ends == [*first, len(lines[0])] == second  # the first row has no share of changed decisions
    assert lines[1].split() == ["0", "1.000", "[1.000,", "1.000]", "+0.000", "[0.000,", "0.000]"]
    assert lines[2].split() == ["0.25", "1.500", "[1.500,", "1.500]", "+0.500", "[0.500,", "0.500]", "12.5%"]
