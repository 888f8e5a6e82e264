"""Figures of what happens turn by turn: calls of a function, lanes of a loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from helpers.plots import PALETTE, STYLE

__all__ = ["lanes", "timeline"]

_OUTCOMES = {
    "traced": ("s", PALETTE[1], PALETTE[1]),
    "compiled": ("D", "white", PALETTE[1]),
    "cached": ("o", "white", PALETTE[0]),
}


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
    with plt.rc_context(STYLE):
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
    with plt.rc_context(STYLE):
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
