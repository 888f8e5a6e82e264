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

__all__ = ["PALETTE", "STYLE", "curves", "scatter"]

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
_DASHES = ("-", (0, (4, 2)), (0, (1, 1.5)), (0, (5, 1, 1, 1)))
_MARKERS = ("o", "s", "^", "D")
STYLE = {
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
    with plt.rc_context(STYLE):
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
    with plt.rc_context(STYLE):
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
