"""Drawings of arrays that lie on several devices, taken from the arrays themselves.

Nothing here knows what a program meant to do: a drawing shows where the parts of an
array are, and which of them hold the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from helpers.plots import STYLE

__all__ = ["holdings"]

_OUTLINE, _EMPTY = "#555555", "#F2F2F2"
# Perceptually ordered and safe for colour-blind readers; the letters say it again.
_RAMP = "viridis"
_SIDE, _GAP = 1.0, 0.28


def holdings(arrays: Mapping[str, Any], *, title: str = "") -> Figure:
    """Draws, for each array and each device, which part of it the device holds.

    Every frame is the whole array; what is filled is the part on that device. Parts
    of an array with equal numbers have the same colour and letter, so copies can be
    told from values that differ. Letters of different arrays have nothing to do with
    each other.

    Args:
        arrays: For each row's label, a `jax.Array` of numbers with at most two
            dimensions, all on the same devices; those of this process are drawn.
        title: One claim that the figure shows.

    Returns:
        The figure; shown when it is a cell's last value.

    Raises:
        ValueError: If there is nothing to draw, something is no array of numbers or
            is traced, has more than two dimensions or no elements, or the arrays lie
            on different devices.
    """
    if not arrays:
        raise ValueError("expected at least one array, got none")
    parts = {label: _parts(label, array) for label, array in arrays.items()}
    devices = list(next(iter(parts.values())))
    for label, held in parts.items():
        if list(held) != devices:
            raise ValueError(
                f"expected all arrays on the devices {devices}, got {label!r} on "
                f"{list(held)}"
            )
    step = _SIDE + _GAP
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(
            figsize=(5.4, 0.55 + 0.52 * (len(parts) + 0.5)), layout="constrained"
        )
        for row, (label, held) in enumerate(parts.items()):
            top = -row * step
            axes.text(-0.35, top - _SIDE / 2, label, ha="right", va="center")
            letters = _letters([numbers for _, numbers in held.values()])
            for column, (span, _) in enumerate(held.values()):
                corner = (column * step, top)
                _draw_part(axes, corner, span, *letters[column])
        for column, device in enumerate(devices):
            x = column * step + _SIDE / 2
            axes.text(x, 0.25, str(device), ha="center", va="bottom")
        axes.text(-0.35, 0.25, "device", ha="right", va="bottom", color=_OUTLINE)
        axes.set_xlim(-4.6, len(devices) * step)
        axes.set_ylim(-len(parts) * step + _GAP - 0.1, 0.9)
        axes.set_aspect("equal")
        axes.axis("off")
        axes.set_title(title)
    plt.close(figure)
    return figure


def _parts(label: str, array: Any) -> dict[int, tuple[tuple, np.ndarray]]:
    """For each device: where its part begins and ends, as fractions, and what it is."""
    try:
        shards = array.addressable_shards
    except (AttributeError, TypeError):  # the latter from a traced array
        raise ValueError(
            f"expected a jax.Array, got {label!r}, a {type(array).__name__}"
        ) from None
    if not isinstance(array.dtype, np.dtype) or not array.size:
        raise ValueError(
            f"expected arrays of numbers, at least one, got {label!r}: "
            f"{array.dtype}{list(array.shape)}"
        )
    if array.ndim > 2:
        raise ValueError(
            f"expected arrays of at most 2 dimensions, got {label!r} of shape "
            f"{array.shape}"
        )
    found = {}
    for shard in sorted(shards, key=lambda shard: shard.device.id):
        spans = []
        for length, piece in zip(array.shape, shard.index, strict=True):
            start, stop, _ = piece.indices(length)
            spans.append((start / length, stop / length))
        spans += [(0.0, 1.0)] * (2 - len(spans))
        # Adding 0 gives the two zeros of floating point one form.
        found[shard.device.id] = (tuple(spans), np.asarray(shard.data) + 0)
    return found


def _letters(pieces: list[np.ndarray]) -> list[tuple[str, tuple]]:
    """A letter and a colour for each piece, the same for equal numbers."""
    names: dict[bytes, int] = {}
    order = [names.setdefault(piece.tobytes(), len(names)) for piece in pieces]
    # The dark and the bright end of the ramp hide a letter least when it is alone.
    place = np.linspace(0.25, 0.95, len(names)) if len(names) > 1 else [0.5]
    letters = [chr(ord("a") + i % 26) * (1 + i // 26) for i in range(len(names))]
    return [(letters[i], plt.get_cmap(_RAMP)(place[i])) for i in order]


def _draw_part(
    axes: Axes, corner: tuple[float, float], span: tuple, letter: str, colour: tuple
) -> None:
    x, top = corner
    (row_start, row_stop), (start, stop) = span
    axes.add_patch(
        Rectangle((x, top - _SIDE), _SIDE, _SIDE, facecolor=_EMPTY, edgecolor="none")
    )
    part = Rectangle(
        (x + start * _SIDE, top - row_stop * _SIDE),
        (stop - start) * _SIDE,
        (row_stop - row_start) * _SIDE,
        facecolor=colour,
        edgecolor="none",
    )
    axes.add_patch(part)
    axes.add_patch(
        Rectangle((x, top - _SIDE), _SIDE, _SIDE, fill=False, edgecolor=_OUTLINE)
    )
    tall = (row_stop - row_start) > 0.4 and (stop - start) > 0.4
    # A thin stripe leaves no room inside: its letter stands on the empty side.
    y = (row_start + row_stop) / 2 if tall else (0.75 if row_start < 0.5 else 0.25)
    across = (start + stop) / 2 if tall else 0.5
    dark = tall and sum(colour[:3]) < 1.5
    axes.text(
        x + across * _SIDE,
        top - y * _SIDE,
        letter,
        ha="center",
        va="center",
        color="white" if dark else "black",
    )
