"""The book's figures: one look for all, drawn from plain numbers.

Colours are Okabe and Ito's (2008), safe for colour-blind readers; lines differ in
dash as well as in colour. The background is opaque, so that a figure reads the same
on a light and on a dark page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

__all__ = ["PALETTE", "curves", "lanes", "scatter"]
__all__ = ["PALETTE", "curves", "scatter", "timeline"]

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
_DASHES = ("-", (0, (4, 2)), (0, (1, 1.5)), (0, (5, 1, 1, 1)))
_MARKERS = ("o", "s", "^", "D")
_OUTCOMES = {
    "traced": ("s", PALETTE[1], PALETTE[1]),
    "compiled": ("D", "white", PALETTE[1]),
    "cached": ("o", "white", PALETTE[0]),
}
_STYLE = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.grid": True,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "figure.dpi": 100,
    "figure.facecolor": "white",
    "font.size": 10,
    "grid.color": "#DDDDDD",
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "savefig.dpi": 150,
}


def curves(
    lines: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    x_label: str,
    y_label: str,
    title: str = "",
    log_x: bool = False,
    log_y: bool = False,
    points: bool = False,
    reference: tuple[str, float] | None = None,
) -> Figure:
    """Draws one or more lines on shared axes.

    Args:
        lines: For each label, the x and the y values, of equal length.
        x_label: What x is, with its unit.
        y_label: What y is, with its unit.
        title: One claim that the figure shows.
        log_x: Whether x is logarithmic.
        log_y: Whether y is logarithmic.
        points: Whether to mark the points between which the lines are drawn.
        reference: Label and height of a horizontal line to compare with.

    Returns:
        The figure; shown when it is a cell's last value.

    Raises:
        ValueError: If there is nothing to draw or a line's lengths differ.
    """
    _require_pairs(lines, "line")
    with plt.rc_context(_STYLE):
        figure, axes = plt.subplots(figsize=(5.4, 3.2), layout="constrained")
        for index, (label, (x, y)) in enumerate(lines.items()):
            axes.plot(
                x,
                y,
                label=label,
                color=PALETTE[index % len(PALETTE)],
                linestyle=_DASHES[index % len(_DASHES)],
                marker=_MARKERS[index % len(_MARKERS)] if points else "",
                markersize=4,
            )
        if reference:
            axes.axhline(reference[1], color="#555555", linewidth=1, label=reference[0])
        if log_x:
            axes.set_xscale("log")
        if log_y:
            axes.set_yscale("log")
        if not log_x and all(
            isinstance(value, int) for x, _ in lines.values() for value in x
        ):
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set(xlabel=x_label, ylabel=y_label, title=title)
        if len(lines) > 1 or reference:
            axes.legend()
    plt.close(figure)
    return figure


def scatter(
    panels: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    x_label: str,
    y_label: str,
    title: str = "",
) -> Figure:
    """Draws point clouds side by side on the same axes.

    Args:
        panels: For each panel's title, the x and the y values, of equal length.
        x_label: What x is, with its unit.
        y_label: What y is, with its unit.
        title: One claim that the figure shows.

    Returns:
        The figure; shown when it is a cell's last value.

    Raises:
        ValueError: If there is nothing to draw or a panel's lengths differ.
    """
    _require_pairs(panels, "panel")
    with plt.rc_context(_STYLE):
        figure, axes = plt.subplots(
            1,
            len(panels),
            figsize=(5.4, 3.2),
            layout="constrained",
            sharex=True,
            sharey=True,
            squeeze=False,
        )
        for panel, (label, (x, y)) in zip(axes[0], panels.items(), strict=True):
            panel.scatter(x, y, s=3, color=PALETTE[0], linewidths=0, rasterized=True)
            panel.set(xlabel=x_label, title=label)
        axes[0, 0].set_ylabel(y_label)
        figure.suptitle(title, fontsize=11, x=0.02, ha="left")
    plt.close(figure)
    return figure


def timeline(
    calls: Mapping[str, Sequence[str]],
    *,
    labels: Sequence[str] = (),
    x_label: str = "call",
    title: str = "",
) -> Figure:
    """Draws what became of each call of a jitted function, one row a function.

    Args:
        calls: For each row's label, the outcomes in order: ``"traced"``,
            ``"compiled"`` (from an older trace) or ``"cached"``.
        labels: What to write under each call, in place of its number.
        x_label: What the calls are.
        title: One claim that the figure shows.

    Returns:
        The figure; shown when it is a cell's last value.

    Raises:
        ValueError: If there is nothing to draw, an outcome is unknown, or there are
            labels but not one for each call of the longest row.
    """
    longest = max(map(len, calls.values()), default=0)
    if longest == 0:
        raise ValueError("expected at least one call, got none")
    if labels and len(labels) != longest:
        raise ValueError(f"expected {longest} labels, got {len(labels)}")
    for outcome in {outcome for row in calls.values() for outcome in row}:
        if outcome not in _OUTCOMES:
            raise ValueError(
                f"expected outcomes among {', '.join(_OUTCOMES)}, got {outcome!r}"
            )
    height = 1.3 + 0.4 * len(calls) + 0.06 * max(map(len, labels), default=0)
    with plt.rc_context(_STYLE):
        figure, axes = plt.subplots(figsize=(5.4, height), layout="constrained")
        for outcome, (marker, fill, edge) in _OUTCOMES.items():
            places = [
                (number, row)
                for row, outcomes in enumerate(calls.values())
                for number, found in enumerate(outcomes, start=1)
                if found == outcome
            ]
            if places:
                x, y = zip(*places, strict=True)
                style = {"facecolors": fill, "edgecolors": edge, "zorder": 3}
                axes.scatter(x, y, s=60, marker=marker, label=outcome, **style)
        names = list(labels) or [str(number) for number in range(1, longest + 1)]
        axes.set_xticks(range(1, longest + 1), names, rotation=90 if labels else 0)
        axes.set_yticks(range(len(calls)), list(calls))
        axes.set_ylim(len(calls) - 0.5, -0.5)
        axes.set_xlabel(x_label)
        figure.suptitle(title, fontsize=11, x=0.02, ha="left")
        figure.legend(loc="outside lower center", ncols=3)
    plt.close(figure)
    return figure


def _require_pairs(
    drawn: Mapping[str, tuple[Sequence[float], Sequence[float]]], noun: str
) -> None:
    if not drawn:
        raise ValueError(f"expected at least one {noun}, got none")
    for label, (x, y) in drawn.items():
        if len(x) != len(y):
            raise ValueError(
                f"expected as many x as y values for {label!r}, got {len(x)} and "
                f"{len(y)}"
            )


def lanes(
    steps: Sequence[int],
    *,
    first: int = 0,
    x_label: str,
    y_label: str,
    title: str = "",
) -> Figure:
    """Draws what each lane of a batched loop needs, and what it waits out.

    Args:
        steps: For each lane, the turns of the loop that it needs, at least 0.
        first: The number of the first lane.
        x_label: What a turn is.
        y_label: What a lane is.
        title: One claim that the figure shows.

    Returns:
        The figure; shown when it is a cell's last value.

    Raises:
        ValueError: If there are no lanes, or a count is negative.
    """
    counts = [int(count) for count in steps]
    if not counts or min(counts) < 0:
        raise ValueError(f"expected turns of at least one lane, all >= 0, got {counts}")
    rows = range(first, first + len(counts))
    with plt.rc_context(_STYLE):
        figure, axes = plt.subplots(figsize=(5.4, 3.6), layout="constrained")
        axes.barh(rows, counts, height=0.8, color=PALETTE[0], label="needed")
        axes.barh(
            rows,
            [max(counts) - count for count in counts],
            left=counts,
            height=0.8,
            color="#F2D9C9",
            edgecolor=PALETTE[1],
            linewidth=0,
            hatch="///",
            label="computed and thrown away",
        )
        axes.set(xlabel=x_label, ylabel=y_label, title=title)
        axes.set(xlim=(0, max(counts) or 1), ylim=(rows[-1] + 0.6, first - 0.6))
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(visible=False)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
    plt.close(figure)
    return figure
