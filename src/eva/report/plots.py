"""Draw figures as SVG and PNG: learning curves with one panel per task, charts, and intervals."""

import io
import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, MaxNLocator

from eva.report.curves import CI_SEEDS, WINDOW_SHARE, Task, arms, curve, series_numbers
from eva.report.format import number
from eva.report.statistics import Estimate
from eva.report.style import LIGHT, NUM_COLOURS

DASHES = ("-", (0, (6, 1.5)), (0, (1, 1)), (0, (4, 1, 1, 1)))  # used when colours repeat

STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "text.parse_math": False,  # file names may contain dollar signs
    "text.color": LIGHT["ink"],
    "grid.color": LIGHT["rule"],
    "grid.linewidth": 0.8,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "ytick.major.size": 0,
    "svg.fonttype": "none",
    "svg.hashsalt": "eva",
    **dict.fromkeys(("axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), LIGHT["muted"]),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "axes.spines.left"), False),
}
BAND: dict[str, Any] = {"alpha": 0.16, "linewidth": 0}
LEVEL: dict[str, Any] = {"color": LIGHT["optimum"], "linewidth": 1.3, "linestyle": (0, (5, 3))}
FULL_COLUMNS = 3
MOST_RUNS = 12  # per panel that are drawn individually; more would hide the means
FULL_WIDTH, NARROW_WIDTH, CHARACTER, LEGEND_LINE = 8.0, 4.1, 0.09, 0.6  # inches; the last two are upper bounds


@dataclass(frozen=True)
class Line:
    """A line of a chart, with an interval at each point if `low` and `high` are given."""

    label: str
    x: npt.ArrayLike
    y: npt.ArrayLike
    low: npt.ArrayLike | None = None
    high: npt.ArrayLike | None = None

    @classmethod
    def through(cls, label: str, x: npt.ArrayLike, estimates: Sequence[Estimate]) -> "Line":
        """Return the line through estimates, with their CIs."""
        return cls(label, x, *np.array([(each.value, each.low, each.high) for each in estimates]).T)


@dataclass(frozen=True)
class Chart:
    """Lines over any x axis."""

    x_label: str
    y_label: str
    lines: Sequence[Line]
    logarithmic: bool = False
    level: tuple[str, float] | None = None  # label and height of a horizontal line
    markers: bool = True  # mark each point, and label it on the x axis
    tick_labels: Sequence[str] = ()  # of the points, instead of their numbers

    def draw(self) -> Figure:
        """Draw all lines in one panel."""
        figure = Figure(figsize=(FULL_WIDTH, 4.0), layout="constrained")
        axes = figure.add_subplot()
        numbers = series_numbers(line.label for line in self.lines)
        for line in self.lines:
            stroke = _stroke(numbers[line.label])
            if line.low is not None and line.high is not None:
                axes.fill_between(line.x, line.low, line.high, color=stroke["color"], **BAND)
            axes.plot(line.x, line.y, marker="o" if self.markers else None, linewidth=2.2, label=line.label, **stroke)
        if self.level is not None:
            _draw_level(axes, *self.level)
        if self.logarithmic:
            axes.set(xscale="log", yscale="log")
            axes.yaxis.set_major_formatter(EngFormatter(sep=""))
        axes.set(xlabel=self.x_label, ylabel=self.y_label)
        if self.markers:
            ticks = np.asarray(self.lines[0].x)
            form = EngFormatter(sep="") if self.logarithmic else "{:g}".format
            axes.set_xticks(ticks, self.tick_labels or [form(tick) for tick in ticks])
            axes.minorticks_off()
        figure.legend(loc="outside upper left", ncols=len(self.lines))
        return figure


@dataclass(frozen=True)
class Intervals:
    """Estimates with their 95% CIs, one row for each label; a margin is drawn around 0."""

    x_label: str
    estimates: Mapping[str, Estimate]
    margin: float | None = None

    def draw(self) -> Figure:
        """Draw a point and its CI in each row."""
        figure = Figure(figsize=(FULL_WIDTH, 0.28 * len(self.estimates) + 1.1), layout="constrained")
        axes, colour = figure.add_subplot(), LIGHT["series-0"]
        numbers = [(each.value, each.low, each.high) for each in self.estimates.values()]
        values, lows, highs = np.array(numbers, dtype=float).T
        rows = np.arange(len(values))[::-1]
        axes.hlines(rows, lows, highs, color=colour, alpha=0.45, linewidth=2.2)
        axes.plot(values, rows, "o", color=colour)
        if self.margin is not None:
            axes.axvline(0, zorder=0, **LEVEL)
            axes.axvspan(-self.margin, self.margin, zorder=0, color=LIGHT["optimum"], **BAND)
        axes.set_yticks(rows, list(self.estimates))
        axes.set_xlabel(self.x_label)
        shaded = "" if self.margin is None else f" Shaded: differences within the margin of {number(self.margin)}."
        _note(figure, f"Lines: 95% CI over n = {_range(each.n for each in self.estimates.values())} seeds.{shaded}")
        return figure


@dataclass(frozen=True, eq=False)
class LearningCurves:
    """Learning curves, one panel for each task; `narrow` stacks the panels for a phone."""

    tasks: Sequence[Task]
    narrow: bool = False

    def draw(self) -> Figure:
        """Draw the panels and a legend that they share."""
        columns = 1 if self.narrow else min(len(self.tasks), FULL_COLUMNS)
        rows = math.ceil(len(self.tasks) / columns)
        width = NARROW_WIDTH if self.narrow else FULL_WIDTH
        panel_height = 2.9 if self.narrow else {1: 4.0, 2: 3.3}.get(columns, 2.7)
        numbers = arms(self.tasks)
        shows_runs = max(len(task.runs) for task in self.tasks) <= MOST_RUNS
        labels = [_wrap(label, width - LEGEND_LINE) for label in numbers]
        legend_columns = max(1, int(width / (CHARACTER * max(map(len, numbers)) + LEGEND_LINE)))
        legend_rows = math.ceil(len(labels) / legend_columns) * max(label.count("\n") + 1 for label in labels)
        spacing = ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.06, wspace=0.04, hspace=0.05)
        figure = Figure(figsize=(width, panel_height * rows + 0.22 * legend_rows), layout=spacing)
        for index, task in enumerate(self.tasks):
            axes = figure.add_subplot(rows, columns, index + 1)
            _draw_task(axes, task, numbers, shows_runs)
            if len(self.tasks) > 1:
                title = _wrap(task.name, 0.85 * width / columns)
                axes.set_title(title, loc="left", fontsize="medium", fontweight="bold")
            if index % columns == 0:
                axes.set_ylabel("episode return")
        strokes = map(_stroke, numbers.values())
        handles = [
            Line2D([], [], linewidth=2.4, label=label, **stroke) for label, stroke in zip(labels, strokes, strict=True)
        ]
        figure.legend(
            handles=handles,
            loc="outside upper left",
            ncols=legend_columns,
            handlelength=1.6,
            columnspacing=1.8,
            borderaxespad=0.2,
        )
        _note(figure, _wrap(self._caption(shows_runs), width))
        return figure

    def _caption(self, shows_runs: bool) -> str:
        counts = [len(group.counted) for task in self.tasks for group in task.groups]
        unfinished = not all(run.finished for task in self.tasks for run in task.runs)
        band = "95% CI of the mean" + f" from {CI_SEEDS} seeds on, else the range" * (min(counts) < CI_SEEDS)
        return (
            f"Training episodes, trailing window of {WINDOW_SHARE:.0%}. Thick: mean over n = {_range(counts)} seeds. "
            f"{'Thin: single seeds. ' * shows_runs}Band: {band}.{' Dotted: unfinished runs.' * unfinished}"
        )


Drawing = Chart | Intervals | LearningCurves


def files(drawing: Drawing) -> tuple[bytes, bytes]:
    """Return a drawing as SVG and PNG; deterministic bytes."""
    with matplotlib.rc_context(STYLE):
        figure = drawing.draw()
        return _saved(figure, "svg"), _saved(figure, "png")


def svg(tasks: Sequence[Task], narrow: bool) -> str:
    """Draw learning curves as an `<svg>` element whose colours are the CSS variables named in `LIGHT`."""
    # Two figures on one page must not share the ids of their clip paths.
    salt = {"svg.hashsalt": "narrow" if narrow else "wide", "savefig.transparent": True}
    with matplotlib.rc_context(STYLE | salt):
        text = _saved(LearningCurves(tasks, narrow).draw(), "svg").decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r'^<svg[^>]*(viewBox="[^"]*")[^>]*>', r"<svg \1 aria-hidden='true'>", text)
    text = re.sub(r"'DejaVu Sans'[^;\"]*", "var(--font)", text)
    text = re.sub(r' id="[\w.]+_\d+"', "", text)  # unused ids, which two figures would share
    text = re.sub(r' d="[^"<]*"', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path.group()), text)  # half the size
    for name, colour in LIGHT.items():
        text = text.replace(colour, f"var(--{name})")
    return text


def _saved(figure: Figure, form: str) -> bytes:
    buffer = io.BytesIO()
    metadata = {"Software": None} if form == "png" else {"Date": None}
    figure.savefig(buffer, format=form, dpi=200, metadata=metadata)
    return buffer.getvalue()


def _draw_task(axes: Axes, task: Task, numbers: dict[str, int], shows_runs: bool) -> None:
    grid = task.grid
    for group in task.groups:
        stroke = _stroke(numbers[group.label])
        mean, low, high = group.band(grid)
        axes.fill_between(grid, low, high, color=stroke["color"], **BAND)
        for run in group.runs:
            if shows_runs or not run.finished:
                dashes = "-" if run.finished else ":"
                axes.plot(grid, curve(run, grid), color=stroke["color"], alpha=0.45, linewidth=0.8, linestyle=dashes)
        axes.plot(grid, mean, linewidth=2.2, solid_capstyle="round", zorder=3, **stroke)
    for name, level in (("optimum", task.optimum), ("random play", task.chance)):
        if level is not None:
            _draw_level(axes, f"{name} {number(level)}", level)
    axes.margins(y=0.08)
    axes.set(xlim=(0, grid[-1]), xlabel="transitions")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.xaxis.set_major_locator(MaxNLocator(5))


def _note(figure: Figure, text: str) -> None:
    figure.supxlabel(text, fontsize="small", color=LIGHT["muted"])


def _range(counts: Iterable[int]) -> str:
    values = sorted(set(counts))
    return " to ".join(map(str, dict.fromkeys((values[0], values[-1]))))


def _draw_level(axes: Axes, name: str, value: float) -> None:
    axes.axhline(value, zorder=2, **LEVEL)
    axes.annotate(
        name,
        (1.0, value),
        xycoords=("axes fraction", "data"),
        xytext=(0, 4),
        textcoords="offset points",
        horizontalalignment="right",
        color=LIGHT["optimum"],
        fontsize="small",
        bbox={"facecolor": LIGHT["paper"], "edgecolor": "none", "pad": 1},
    )


def _stroke(series: int) -> dict[str, Any]:
    dashes = DASHES[series // NUM_COLOURS % len(DASHES)]
    return {"color": LIGHT[f"series-{series % NUM_COLOURS}"], "linestyle": dashes}


def _wrap(text: str, inches: float) -> str:
    return textwrap.fill(text, max(10, int(inches / CHARACTER)))
