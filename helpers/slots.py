"""Pictures of a schedule: which units of a TensorCore are busy, bundle by bundle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from helpers.plots import PALETTE, STYLE
from helpers.vliw import Loop, Schedule, Utilization

__all__ = ["UNITS", "busy_shares", "hot_loop", "longest_piece", "slot_picture"]

UNITS = ("MXU", "XLU", "VALU", "EUP", "VLOAD", "VSTORE", "SALU")
"""The units that a picture shows, by the dump's names, from the matrix unit down."""

# A page of pictures stays small, and a strip readable, with at most so many columns.
_COLUMNS = 100


def hot_loop(schedule: Schedule) -> Loop:
    """Finds where a schedule spends its bundles.

    Args:
        schedule: The bundles of one piece of a program.

    Returns:
        The loop whose body times trips is largest, an inner one before an outer one of
        the same weight; the whole schedule, run once, if it has no loop. A loop of
        unknown trips counts once, and trips of a loop around it do not count.

    Raises:
        ValueError: If the schedule has no bundles.
    """
    if not schedule.bundles:
        raise ValueError("expected a schedule with bundles, got none")
    whole = Loop(0, len(schedule.bundles) - 1, 1)
    return max(
        schedule.loops,
        key=lambda loop: loop.body_cycles * (loop.trips or 1),
        default=whole,
    )


def longest_piece(schedules: Mapping[str, Schedule]) -> Schedule:
    """Picks the piece of a program with the most bundles to look at.

    Args:
        schedules: The schedules of a program's pieces by name, as ``schedules_for``
            gives them.

    Returns:
        The longest, loops counted once; not the top-level program that calls the
        pieces, and not what surrounds it.

    Raises:
        ValueError: If the program has no pieces.
    """
    pieces = [
        schedule
        for name, schedule in schedules.items()
        if name != "TLP" and not name.startswith("<")
    ]
    if not pieces:
        raise ValueError(f"expected pieces of a program, got {list(schedules)}")
    return max(pieces, key=lambda schedule: len(schedule.bundles))


def busy_shares(
    schedule: Schedule,
    units: Sequence[str] = UNITS,
    first: int = 0,
    last: int | None = None,
) -> dict[str, float]:
    """Averages what part of each unit's capacity a stretch of bundles keeps busy.

    Args:
        schedule: A schedule with the compiler's table of busy units.
        units: Names of units, as the table has them.
        first: Index of the stretch's first bundle.
        last: Index of its last bundle; the schedule's last when not given.

    Returns:
        A number from 0 to 1 for each unit.

    Raises:
        ValueError: If there is no table, no such unit, or no such stretch.
    """
    found = _table(schedule)
    return {unit: found.share(unit, first, last) for unit in units}


def _table(schedule: Schedule) -> Utilization:
    if schedule.utilization is None:
        raise ValueError("expected a schedule with a table of busy units, got none")
    return schedule.utilization


def slot_picture(
    schedules: Mapping[str, Schedule],
    *,
    units: Sequence[str] = UNITS,
    title: str = "",
    columns: int = _COLUMNS,
) -> Figure:
    """Draws busy units over time, one panel a schedule, one strip a unit.

    Time runs to the right, one bundle a step, each bundle once; the darker a strip,
    the more of the unit's capacity is busy, in steps of a fifth (a long schedule is
    averaged over stretches of equal length). An orange bar under the strips marks the
    loop that ``hot_loop`` finds, and the panel's title says how often it runs.

    Args:
        schedules: For each panel's title, a schedule with a table of busy units.
        units: The strips, from the top.
        title: One claim that the figure shows.
        columns: The most stretches that a panel is averaged over.

    Returns:
        The figure; shown when it is a cell's last value.

    Raises:
        ValueError: If there is nothing to draw, a schedule has no bundles or no table,
            a unit is not in it, or ``columns`` is below 1.
    """
    if columns < 1:
        raise ValueError(f"expected at least one column, got {columns}")
    if not schedules or not units:
        raise ValueError(
            f"expected schedules and units to draw, got {len(schedules)} and "
            f"{len(units)}"
        )
    with plt.rc_context(STYLE | {"axes.grid": False}):
        figure, panels = plt.subplots(
            len(schedules),
            1,
            figsize=(5.4, 0.7 + len(schedules) * (0.5 + 0.13 * len(units))),
            layout="constrained",
            squeeze=False,
        )
        for axes, (name, schedule) in zip(panels[:, 0], schedules.items(), strict=True):
            strips = np.array([_strip(schedule, unit, columns) for unit in units])
            _draw(axes, strips, units, schedule)
            axes.set_title(name + _loop_of(schedule), fontsize=9)
        panels[-1, 0].set_xlabel("bundle, in the order of issue")
        figure.suptitle(title, fontsize=11, x=0.02, ha="left")
        figure.colorbar(
            panels[0, 0].images[0],
            ax=panels[:, 0].tolist(),
            label="share of the unit's capacity",
            shrink=max(0.3, 1 / len(schedules)),
            format="{x:.0%}",
            ticks=[0, 0.5, 1],
        )
    plt.close(figure)
    return figure


def _strip(schedule: Schedule, unit: str, columns: int) -> np.ndarray:
    """Busy shares of one unit, averaged over at most so many equal stretches."""
    found = _table(schedule)
    busy = np.array(found.over_time(unit), dtype=np.float64)
    if not busy.size:
        raise ValueError("expected a schedule with bundles, got none")
    busy /= found.capacity[unit]
    edges = np.linspace(0, len(busy), min(columns, len(busy)) + 1).astype(int)
    sums = np.add.reduceat(busy, edges[:-1])
    # Steps of a fifth: shades that an eye tells apart, in a file half as large.
    return np.round(5 * sums / np.diff(edges)) / 5


def _loop_of(schedule: Schedule) -> str:
    if not schedule.loops:
        return ""
    return f" (orange: loop × {hot_loop(schedule).trips or '?'})"


def _draw(
    axes: Axes, strips: np.ndarray, units: Sequence[str], schedule: Schedule
) -> None:
    """Fills one panel: the strips, their names, and the bar of the hot loop."""
    bundles = len(schedule.bundles)
    axes.imshow(
        strips,
        aspect="auto",
        cmap="Blues",
        vmin=0,
        vmax=1,
        interpolation="nearest",
        extent=(0, bundles, len(units) - 0.5, -0.5),
    )
    axes.hlines(np.arange(len(units) - 1) + 0.5, 0, bundles, color="white")
    axes.set_yticks(range(len(units)), units, fontsize=7)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelsize=8)
    axes.xaxis.set_major_locator(MaxNLocator(3, integer=True))
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.set(xlim=(0, bundles), ylim=(len(units) + 0.2, -0.5))
    if schedule.loops:
        loop = hot_loop(schedule)
        row = len(units) - 0.15
        axes.plot([loop.first, loop.last + 1], [row, row], color=PALETTE[1], lw=3)
