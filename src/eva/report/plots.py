"""Draw the learning curves: one panel per task, as PNG for a README and as SVG that takes its colours from the page."""

from __future__ import annotations

import io
import math
import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, MaxNLocator

from eva.report.curves import Task, Variant, curve, series_numbers
from eva.report.measures import Estimate
from eva.report.style import LIGHT, NUM_COLOURS
from eva.report.verdict import number

DASHES = ("-", (0, (6, 1.5)), (0, (1, 1)), (0, (4, 1, 1, 1)))  # the next round of colours gets the next pattern

STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "text.parse_math": False,  # a dollar sign in a file's name is a dollar sign
    "text.color": LIGHT["ink"],
    "axes.edgecolor": LIGHT["muted"],
    "axes.labelcolor": LIGHT["muted"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": LIGHT["rule"],
    "grid.linewidth": 0.8,
    "xtick.color": LIGHT["muted"],
    "ytick.color": LIGHT["muted"],
    "ytick.major.size": 0,
    "svg.fonttype": "none",
    "path.simplify": True,
}
FULL_COLUMNS = 3
MOST_RUNS = 12  # of a panel that are drawn one by one; more would hide the means
FULL_WIDTH, NARROW_WIDTH, CHARACTER, LEGEND_LINE = 8.0, 4.1, 0.09, 0.6  # inches, the last two on the safe side


@dataclass(frozen=True)
class Line:
    """A line of a chart, with an interval at each point."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


@dataclass(frozen=True)
class Chart:
    """Lines over something else than transitions.

    Attributes:
        level: A horizontal line: what it is, and where.
        markers: Show each point, and name it on the x axis.
    """

    x_label: str
    y_label: str
    lines: Sequence[Line]
    logarithmic: bool = False
    level: tuple[str, float] | None = None
    markers: bool = True


@dataclass(frozen=True)
class Panel:
    """A number for each row of labels; infinite ones were not reached.

    Attributes:
        level: Where there is no difference.
    """

    x_label: str
    estimates: Sequence[Estimate]
    level: float | None = None


@dataclass(frozen=True)
class Intervals:
    """Numbers and their intervals, row by row, in panels side by side."""

    labels: Sequence[str]
    panels: Sequence[Panel]


def png(tasks: Sequence[Task]) -> bytes:
    """Draw the figure for a light page: 1600 pixels wide, the same bytes for the same runs."""
    with matplotlib.rc_context(STYLE):
        return _saved(_figure(tasks, narrow=False), "png")


def figure_files(tasks: Sequence[Task]) -> tuple[bytes, bytes]:
    """Draw the learning curves as files, SVG and PNG, the same bytes for the same runs."""
    return _files(lambda: _figure(tasks, narrow=False))


def chart_files(chart: Chart) -> tuple[bytes, bytes]:
    """Draw a chart as files, SVG and PNG, the same bytes for the same numbers."""
    return _files(lambda: _chart(chart))


def intervals_files(intervals: Intervals) -> tuple[bytes, bytes]:
    """Draw numbers and their intervals as files, SVG and PNG, the same bytes for the same numbers."""
    return _files(lambda: _intervals(intervals))


def _files(draw: Callable[[], Figure]) -> tuple[bytes, bytes]:
    with matplotlib.rc_context(STYLE | {"svg.hashsalt": "eva"}):
        figure = draw()
        return _saved(figure, "svg"), _saved(figure, "png")


def svg(tasks: Sequence[Task], narrow: bool) -> str:
    """Draw the figure as an `<svg>` element whose colours are the CSS variables named in `LIGHT`.

    `narrow` stacks the panels for a phone.
    """
    # Two figures on one page must not share the ids of their clip paths.
    with matplotlib.rc_context(STYLE | {"svg.hashsalt": "narrow" if narrow else "wide"}):
        buffer = io.StringIO()
        _figure(tasks, narrow).savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", text, flags=re.DOTALL)
    view_box = re.search(r'viewBox="[^"]*"', text)
    text = re.sub(r"^<svg[^>]*>", f"<svg {view_box.group() if view_box else ''} aria-hidden='true'>", text)
    text = re.sub(r"'DejaVu Sans'[^;\"]*", "var(--font)", text)
    text = re.sub(r' id="[\w.]+_\d+"', "", text)  # nothing refers to these, and two figures would share them
    text = re.sub(r' d="[^"<]*"', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path.group()), text)  # half the size
    for name, colour in LIGHT.items():
        text = text.replace(colour, f"var(--{name})")
    return text


def _saved(figure: Figure, form: str) -> bytes:
    buffer = io.BytesIO()
    metadata = {"Software": None} if form == "png" else {"Date": None}
    figure.savefig(buffer, format=form, dpi=200, metadata=metadata)
    return buffer.getvalue()


def _chart(chart: Chart) -> Figure:
    figure = Figure(figsize=(FULL_WIDTH, 4.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for series, line in enumerate(chart.lines):
        stroke = _stroke(series)
        axes.fill_between(line.x, line.low, line.high, color=stroke["color"], alpha=0.16, linewidth=0)
        marker = "o" if chart.markers else None
        axes.plot(line.x, line.y, marker=marker, linewidth=2.2, label=line.label, **stroke)
    if chart.level is not None:
        _draw_level(axes, *chart.level)
    if chart.logarithmic:
        axes.set(xscale="log", yscale="log")
        axes.yaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_xlabel(chart.x_label)
    axes.set_ylabel(chart.y_label)
    if chart.markers:
        ticks = chart.lines[0].x
        axes.set_xticks(ticks, [EngFormatter(sep="")(tick) if chart.logarithmic else f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
    figure.legend(loc="outside upper left", ncols=len(chart.lines), frameon=False)
    return figure


def _intervals(intervals: Intervals) -> Figure:
    figure = Figure(figsize=(FULL_WIDTH, 0.28 * len(intervals.labels) + 0.9), layout="constrained")
    FigureCanvasAgg(figure)
    all_axes = figure.subplots(1, len(intervals.panels), sharey=True, squeeze=False)[0]
    rows = np.arange(len(intervals.labels))[::-1]
    for axes, panel in zip(all_axes, intervals.panels, strict=True):
        _draw_panel(axes, rows, panel)
    all_axes[0].set_yticks(rows, intervals.labels)
    return figure


def _draw_panel(axes: Axes, rows: npt.NDArray[np.int64], panel: Panel) -> None:
    numbers = np.array([(each.value, each.low, each.high) for each in panel.estimates])
    finite = numbers[np.isfinite(numbers)]
    least, most = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
    edge = most + 0.08 * ((most - least) or 1.0)
    values, lows, highs = np.clip(numbers, least, edge).T
    reached, colour = np.isfinite(numbers[:, 0]), LIGHT["series-0"]
    axes.hlines(rows, lows, highs, color=colour, alpha=0.45, linewidth=2.2)
    axes.plot(values[reached], rows[reached], "o", color=colour)
    axes.plot(values[~reached], rows[~reached], ">", color=LIGHT["series-1"])
    if not reached.all():
        axes.set_title("right-hand triangle: not reached", loc="right", fontsize="small", color=LIGHT["series-1"])
    if panel.level is not None:
        axes.axvline(panel.level, color=LIGHT["optimum"], linewidth=1.3, linestyle=(0, (5, 3)), zorder=0)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.set_xlabel(panel.x_label)


def _figure(tasks: Sequence[Task], narrow: bool) -> Figure:
    columns = 1 if narrow else min(len(tasks), FULL_COLUMNS)
    rows = math.ceil(len(tasks) / columns)
    width = NARROW_WIDTH if narrow else FULL_WIDTH
    panel_height = 2.9 if narrow else {1: 4.0, 2: 3.3}.get(columns, 2.7)
    numbers = series_numbers(tasks)
    shows_runs = max(len(task.runs) for task in tasks) <= MOST_RUNS
    labels = [_wrap(label, width - LEGEND_LINE) for label in numbers]
    legend_columns = max(1, int(width / (CHARACTER * max(map(len, numbers)) + LEGEND_LINE)))
    legend_rows = math.ceil(len(labels) / legend_columns) * max(label.count("\n") + 1 for label in labels)
    spacing = ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.06, wspace=0.04, hspace=0.05)
    figure = Figure(figsize=(width, panel_height * rows + 0.22 * legend_rows), layout=spacing)
    FigureCanvasAgg(figure)
    for index, task in enumerate(tasks):
        axes = figure.add_subplot(rows, columns, index + 1)
        _draw_task(axes, task, numbers, shows_runs)
        if len(tasks) > 1:
            axes.set_title(_wrap(task.name, 0.85 * width / columns), loc="left", fontsize="medium", fontweight="bold")
        if index % columns == 0:
            axes.set_ylabel("episode return")
    handles = [Line2D([], [], linewidth=2.4, label=label, **_stroke(series)) for series, label in enumerate(labels)]
    figure.legend(
        handles=handles,
        loc="outside upper left",
        ncols=legend_columns,
        frameon=False,
        handlelength=1.6,
        columnspacing=1.8,
        borderaxespad=0.2,
    )
    return figure


def _draw_task(axes: Axes, task: Task, numbers: dict[str, int], shows_runs: bool) -> None:
    for variant in task.variants:
        _draw_variant(axes, task, variant, numbers[variant.label], shows_runs)
    if task.optimum is not None:
        _draw_level(axes, f"optimal return {number(task.optimum)}", task.optimum)
    if task.chance is not None:
        _draw_level(axes, f"random play {number(task.chance)}", task.chance)
    axes.margins(y=0.08)
    axes.set_xlim(0, task.grid[-1])
    axes.set_xlabel("transitions")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.xaxis.set_major_locator(MaxNLocator(5))


def _draw_level(axes: Axes, name: str, value: float) -> None:
    axes.axhline(value, color=LIGHT["optimum"], linewidth=1.3, linestyle=(0, (5, 3)), zorder=2)
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


def _draw_variant(axes: Axes, task: Task, variant: Variant, series: int, shows_runs: bool) -> None:
    grid, band, stroke = task.grid, variant.band(task.grid), _stroke(series)
    axes.fill_between(grid, band.low, band.high, color=stroke["color"], alpha=0.16, linewidth=0)
    for run in variant.runs:
        if run.finished and not shows_runs:
            continue
        dashes = "-" if run.finished else ":"
        axes.plot(grid, curve(run, grid), color=stroke["color"], alpha=0.45, linewidth=0.8, linestyle=dashes)
    axes.plot(grid, band.mean, linewidth=2.2, solid_capstyle="round", zorder=3, **stroke)


def _stroke(series: int) -> dict[str, Any]:
    dashes = DASHES[series // NUM_COLOURS % len(DASHES)]
    return {"color": LIGHT[f"series-{series % NUM_COLOURS}"], "linestyle": dashes}


def _wrap(text: str, inches: float) -> str:
    return textwrap.fill(text, max(10, int(inches / CHARACTER)))
