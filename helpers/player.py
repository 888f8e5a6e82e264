"""A small systolic array to step through, forward and back, without a kernel.

It plays what `helpers.systolic` recorded: Python writes every text of every cycle, and
the script puts the chosen cycle's texts in their places.
"""

from __future__ import annotations

import html
from collections.abc import Sequence

from helpers.player_scenes import QUEUE, Place, Scene, scenes
from helpers.systolic import Run
from helpers.systolic_counts import Array
from helpers.tables import table
from helpers.widgets import Fragment, companion, fragment

__all__ = ["play", "strip"]

_CELL, _GAP, _QUEUED, _LINE = 74, 22, 30, 18
_PITCH = _CELL + _GAP
_LEFT, _TOP = 18 + QUEUE * _QUEUED, 38 + QUEUE * _LINE
_MOST_CELLS, _MOST_CYCLES = 25, 60
# Where a text stands in its cell, where its line ends, and whence it came.
_IN_CELL = {
    "kept": (7, 20, "start", ""),
    "next": (_CELL - 7, 20, "end", "above"),
    "up": (_CELL - 7, 20, "end", "below"),
    "work": (_CELL // 2, 43, "middle", "left"),
    "sum": (_CELL // 2, 66, "middle", "above"),
    "to-right": (-_GAP // 2, 43, "middle", ""),
    "to-below": (_CELL - 12, -6, "middle", ""),
    "sum-below": (_CELL // 2, -6, "middle", ""),
    "sum-above": (_CELL - 30, -6, "middle", ""),
}
_SIDES = {
    "ws": ("A's rows", "B, the weights", "sums"),
    "is": ("B's columns", "A, which stays", "sums"),
    "os": ("A's rows", "B's columns", "sums"),
}
_LEGEND = {
    "ws": (("kept", "weight that stays"), ("next", "weight on its way or waiting")),
    "is": (("kept", "element of A that stays"), ("next", "one on its way or waiting")),
    "os": (("up", "sum on its way out"),),
}


def play(run: Run, array: Array, *, title: str, cycle: int = 1) -> Fragment:
    """Makes a player of a recorded run.

    Args:
        run: Of `helpers.systolic.simulate`, with ``record=True``.
        array: The array on which it ran; at most 25 cells.
        title: The claim that the player shows.
        cycle: The cycle that is shown first, from 1.

    Returns:
        The figure: buttons, a slider and arrow keys step through the cycles.

    Raises:
        ValueError: If nothing was recorded on such an array, the array or the run is
            too large to be read, or there is no such cycle.
    """
    shown = _checked(run, array, [cycle])
    places = _places(array)
    data = {
        "texts": [[scene.texts.get(place, "") for place in places] for scene in shown],
        "busy": [[int(cell) for cell in scene.busy.flat] for scene in shown],
        "said": [scene.sentence for scene in shown],
        "start": cycle - 1,
        "step": _PITCH,
    }
    rows = [
        {
            "cycle": number,
            "from the left": " ".join(scene.entering[0]),
            "from the top": " ".join(scene.entering[1]),
            "cells that multiply": int(scene.busy.sum()),
            "sums that leave": " ".join(text for text, _ in scene.leaving),
            "utilisation so far": f"{scene.utilization:.0%}",
        }
        for number, scene in enumerate(shown, 1)
    ]
    final = shown[-1]
    return fragment(
        "player",
        data,
        title=title,
        text=(
            f"An array of {array.rows} by {array.cols} cells, {array.dataflow}, in "
            f"{len(shown)} cycles, with what each cell holds in each. In all "
            f"{final.done} multiplications, {final.utilization:.0%} of cells times "
            "cycles."
        ),
        content=_picture(shown, cycle - 1, array, named=True) + _legend(array),
        script=companion(__file__, "js"),
        style=companion(__file__, "css"),
        table=table(rows, "simulated, cycle by cycle"),
    )


def strip(run: Run, array: Array, cycles: Sequence[int], *, title: str) -> Fragment:
    """Draws some cycles of a recorded run side by side.

    Args:
        run: Of `helpers.systolic.simulate`, with ``record=True``.
        array: The array on which it ran; at most 25 cells.
        cycles: Which to draw, from 1.
        title: The claim that the drawings show.

    Returns:
        The drawings, without controls.

    Raises:
        ValueError: As for `play`.
    """
    shown = _checked(run, array, cycles)
    drawn = "".join(
        f"<li><p>Cycle {cycle}</p>{_picture(shown, cycle - 1, array)}</li>"
        for cycle in cycles
    )
    return fragment(
        "player-strip",
        None,
        title=title,
        text=" ".join(shown[cycle - 1].sentence for cycle in cycles),
        content=f'<ol data-part="strip">{drawn}</ol>{_legend(array)}',
        script="",
        style=companion(__file__, "css"),
    )


def _checked(run: Run, array: Array, cycles: Sequence[int]) -> list[Scene]:
    shown = scenes(run, array)
    if array.cells > _MOST_CELLS or len(shown) > _MOST_CYCLES:
        raise ValueError(
            f"expected at most {_MOST_CELLS} cells and {_MOST_CYCLES} cycles, got "
            f"{array.cells} and {len(shown)}"
        )
    if not cycles or not all(1 <= cycle <= len(shown) for cycle in cycles):
        raise ValueError(f"expected cycles of 1 to {len(shown)}, got {list(cycles)}")
    return shown


def _places(array: Array) -> list[Place]:
    """Every place of a text, in the order in which they are drawn."""
    mine = {"kept", "next", "sum-below"} if array.dataflow != "os" else set()
    mine |= {"up", "sum-above"} if array.dataflow == "os" else set()
    mine |= {"work", "sum", "to-right", "to-below"}
    kinds = [kind for kind in _IN_CELL if kind in mine]
    grid = [(row, col) for row in range(array.rows) for col in range(array.cols)]
    places = [(kind, row, col) for row, col in grid for kind in kinds]
    for kind, lanes in (("left", array.rows), ("top", array.cols), ("out", array.cols)):
        places += [(kind, lane, i) for lane in range(lanes) for i in range(QUEUE)]
    return places


def _where(place: Place, array: Array) -> tuple[int, int, str, str]:
    """A place's x and y, which end of the text stands there, and whence it came."""
    kind, lane, i = place
    across = array.dataflow == "os"
    if kind in _IN_CELL:
        x, y, anchor, whence = _IN_CELL[kind]
        x, y = _LEFT + i * _PITCH + x, _TOP + lane * _PITCH + y
        stays = kind == "sum" and (across or not lane)
        return x, y, anchor, "" if stays else whence
    if kind == "left":
        x = _LEFT - _GAP - 4 - i * _QUEUED
        return x, _TOP + lane * _PITCH + 43, "end", "left"
    x = _LEFT + lane * _PITCH + _CELL - 7
    if kind == "top":
        return x, _TOP - _GAP - 2 - i * _LINE, "end", "above"
    if across:
        return x - 34, _TOP - _GAP - 2 - i * _LINE, "end", "below"
    x = _LEFT + lane * _PITCH + _CELL // 2
    return x, _TOP + array.rows * _PITCH + 2 + i * _LINE, "middle", "above"


def _picture(
    shown: Sequence[Scene], index: int, array: Array, named: bool = False
) -> str:
    scene = shown[index]
    width = _LEFT + array.cols * _PITCH - _GAP + 4
    bottom = _TOP + array.rows * _PITCH + 2
    left, top, out = _SIDES[array.dataflow]
    across = array.dataflow == "os"
    height = bottom if across else bottom + QUEUE * _LINE
    before = _LEFT - _GAP - 4
    marks = [
        _text(before, _TOP - 8, "end", "side", left),
        _text(width - 4, 14, "end", "side", top),
        _text(before, 14 if across else bottom, "end", "side", out),
    ]
    for row in range(array.rows):
        for col in range(array.cols):
            busy = ' class="busy"' if scene.busy[row, col] else ""
            x, y = _LEFT + col * _PITCH, _TOP + row * _PITCH
            marks.append(
                f'<rect x="{x}" y="{y}" width="{_CELL}" height="{_CELL}" rx="5"{busy}/>'
            )
    for place in _places(array):
        x, y, anchor, whence = _where(place, array)
        text = scene.texts.get(place, "")
        # Only a player fills a place that is empty now.
        if text or named:
            marks.append(_text(x, y, anchor, place[0], text, whence if named else None))
    bars = _bars(shown, index, width, height) if named else ("", height)
    return (
        f'<svg viewBox="0 0 {width} {bars[1]}" style="max-width:{width * 1.25:.0f}px" '
        f'aria-hidden="true">{"".join(marks)}{bars[0]}</svg>'
    )


def _text(
    x: int, y: int, anchor: str, kind: str, text: str, whence: str | None = None
) -> str:
    moves = f' data-from="{whence}"' if whence is not None else ""
    return (
        f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}"{moves}>'
        f"{html.escape(text)}</text>"
    )


def _bars(shown: Sequence[Scene], index: int, width: int, top: int) -> tuple[str, int]:
    """The cells that multiply in each cycle, below the array."""
    wide, tall = (width - 8) / len(shown), 34
    marks = [_text(4, top + 14, "start", "side", "cells that multiply, by cycle")]
    for number, scene in enumerate(shown):
        high = 1 + tall * float(scene.busy.mean())
        now = " now" if number == index else ""
        marks.append(
            f'<rect class="bar{now}" x="{4 + number * wide:.1f}" '
            f'y="{top + 20 + tall - high:.1f}" width="{wide - 2:.1f}" '
            f'height="{high:.1f}"/>'
        )
    return "".join(marks), top + 24 + tall


def _legend(array: Array) -> str:
    entries = (
        *_LEGEND[array.dataflow],
        ("work", "operands that meet"),
        ("sum", "sum so far"),
    )
    spans = "".join(f'<span class="{kind}">{said}</span>' for kind, said in entries)
    return f'<p data-part="legend">{spans}<span class="busy">multiplies</span></p>'
