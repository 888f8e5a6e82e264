"""Rooflines as SVG: the picture that a script may then change."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any

from helpers.units import format_number

__all__ = ["BOX", "axes_around", "picture"]

_WIDTH, _HEIGHT = 640, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = BOX = (62, 590, 12, 336)
_LABEL_GAP = 15


def axes_around(
    rates: Mapping[str, Any], listed: Sequence[Any]
) -> dict[str, list[int]]:
    """Finds whole powers of ten around everything that can be shown.

    Args:
        rates: For each chip its ``peak`` by type, ``memory`` and ``network``, a second.
        listed: Operations: their ``flops``, and bytes of ``memory`` and ``network``.

    Returns:
        The first and the last power of ``x``, in FLOP/byte, and of ``y``, in FLOP/s.
    """
    flat = [peak for r in rates.values() for peak in r["peak"].values() if peak]
    across = [max(flat) / min(r["memory"] for r in rates.values())]
    for operation in listed:
        for level in ("memory", "network"):
            pairs = zip(operation["flops"], operation[level] or (), strict=False)
            across += [flops / moved for flops, moved in pairs]
    x = [math.floor(math.log10(min(across))), math.ceil(math.log10(max(across)))]
    slowest = min(r["network"] or r["memory"] for r in rates.values())
    lowest = max(slowest * 10 ** x[0], min(flat) / 1e4)
    return {"x": x, "y": [math.floor(math.log10(lowest)), math.ceil(_log(max(flat)))]}


def _log(value: float) -> float:
    return math.log10(value) + 0.1


def picture(
    rates: Mapping[str, Any],
    listed: Sequence[Any],
    axes: Mapping[str, Sequence[int]],
    start: str,
    position: int,
) -> str:
    """Draws the figure as it is before a script touches it.

    Args:
        rates: As for `axes_around`.
        listed: As for `axes_around`; also their ``name`` and ``dtype``.
        axes: What `axes_around` found.
        start: The chosen chip.
        position: Place of the chosen batch size in the operations' lists.

    Returns:
        An SVG and the list of the operations' names.
    """

    def x(value: float) -> float:
        first, last = axes["x"]
        share = (math.log10(value) - first) / (last - first)
        return round(_LEFT + share * (_RIGHT - _LEFT), 1)

    def y(value: float) -> float:
        first, last = axes["y"]
        share = (math.log10(value) - first) / (last - first)
        return round(_BOTTOM - share * (_BOTTOM - _TOP), 1)

    low, high = (10.0**power for power in axes["x"])
    floor = 10.0 ** axes["y"][0]
    dtype = listed[0]["dtype"]
    marks = [*_ticks(axes, x, y)]
    heights = {n: y(r["peak"][dtype]) for n, r in rates.items() if r["peak"][dtype]}
    places = _spread(heights)
    for name, rate in rates.items():
        peak, memory = rate["peak"][dtype], rate["memory"]
        here = f'data-part="roof {name}"' + (' class="chosen"' if name == start else "")
        path = (
            ""
            if not peak
            else (
                f"M{x(max(low, floor / memory))} {y(max(low * memory, floor))}"
                f"L{x(peak / memory)} {y(peak)}H{x(high)}"
            )
        )
        marks.append(f'<path {here} d="{path}"/>')
        marks.append(
            f'<text {here.replace("roof", "label")} x="{_RIGHT + 6}" '
            f'y="{places.get(name, _TOP) + 4}">{html.escape(name)}</text>'
        )
    chosen = rates[start]
    for number, operation in enumerate(listed, 1):
        at = operation["flops"][position] / operation["memory"][position]
        peak = chosen["peak"][operation["dtype"]] or 0
        top = max(min(peak, at * chosen["memory"]), floor)
        marks.append(
            f'<g data-part="point {number}" transform="translate({x(at)} {y(top)})">'
            f'<circle r="11"/><text text-anchor="middle" y="4">{number}</text></g>'
        )
    names = "".join(f"<li>{html.escape(each['name'])}</li>" for each in listed)
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" aria-hidden="true">{"".join(marks)}'
        f'</svg><ol data-part="names">{names}</ol>'
    )


def _ticks(axes: Mapping[str, Sequence[int]], x: Any, y: Any) -> list[str]:
    marks = []
    for power in range(axes["x"][0], axes["x"][1] + 1):
        at, said = x(10.0**power), format_number(10.0**power)
        marks.append(f'<path class="grid" d="M{at} {_TOP}V{_BOTTOM}"/>')
        marks.append(
            f'<text text-anchor="middle" x="{at}" y="{_BOTTOM + 17}">{said}</text>'
        )
    for power in range(axes["y"][0], axes["y"][1] + 1):
        at = y(10.0**power)
        rate = f"{10 ** (power % 3)} {'GTPE'[power // 3 - 3]}"
        marks.append(f'<path class="grid" d="M{_LEFT} {at}H{_RIGHT}"/>')
        marks.append(
            f'<text text-anchor="end" x="{_LEFT - 6}" y="{at + 4}">{rate}</text>'
        )
    marks.append(
        f'<text text-anchor="middle" x="{(_LEFT + _RIGHT) / 2}" y="{_HEIGHT - 8}" '
        'data-part="across">FLOP/byte (HBM)</text>'
        f'<text x="{_LEFT + 6}" y="{_TOP + 14}">FLOP/s of one device</text>'
    )
    return marks


def _spread(heights: Mapping[str, float]) -> dict[str, float]:
    """Moves labels apart until none covers another, and no more than that."""
    places: dict[str, float] = {}
    last = -math.inf
    for name in sorted(heights, key=heights.__getitem__):
        places[name] = last = max(heights[name], last + _LABEL_GAP)
    moved = [places[name] - heights[name] for name in heights]
    middle = sum(moved) / len(moved) if moved else 0
    return {name: max(_TOP, round(at - middle, 1)) for name, at in places.items()}
