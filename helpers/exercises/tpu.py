"""Checks of the chapter on the units of a TPU."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from helpers.check import (
    Wrong,
    as_array,
    as_number,
    call,
    exercise,
    expect,
    expect_close,
)
from helpers.chips import chip

__all__ = ["clock_at_most", "padded_bytes", "passes", "pipelined"]


@exercise(
    "A clock from a peak",
    shows="peak ÷ (2 · cells · products per cell and cycle) bounds the clock",
)
def clock_at_most(answer: Any) -> None:
    """Checks the bound on TPU7x's clock when a cell does two products a cycle.

    Args:
        answer: Hz.
    """
    found = as_number(answer)
    ironwood = chip("tpu7x")
    once = ironwood.clock_bound_hz
    expect(found > 1e6, f"the clock in Hz, such as 1.5e9; got {found:g}")
    for wrong, hint in (
        (
            once,
            "that is twice the clock: a cell does 2 products a cycle, and the MXUs of "
            "both TensorCores count",
        ),
        (
            2 * once,
            "that is four times the clock: divide by the products a cycle, and by the "
            "cells of all MXUs of all TensorCores",
        ),
        (
            once / 4,
            "that is half the clock: a multiply-accumulate is 2 FLOPs, and "
            "`tensorcores` times `mxus_per_tensorcore` is all the MXUs there are",
        ),
    ):
        expect(not math.isclose(found, wrong, rel_tol=0.01), hint)
    expect_close(
        found,
        once / 2,
        "the peak of the chip, divided by 2 FLOPs, by the cells of all its MXUs, and "
        "by 2 products a cycle",
        rtol=0.01,
    )


@exercise(
    "How many bytes?",
    shows="each dimension is rounded up to whole tiles, in the order of the layout",
)
def padded_bytes(answer: Any) -> None:
    """Checks the bytes of a tiled array.

    Args:
        answer: ``padded_bytes(shape, order, tile, item_bytes)``; see the exercise.
    """
    for arguments, wanted, hint in (
        (
            ((16, 256), (1, 0), (8, 128), 4),
            16384,
            "whole tiles, nothing to pad; the tile's last length lies on the fastest "
            "dimension",
        ),
        (
            ((9, 129), (1, 0), (8, 128), 4),
            16384,
            "round every length up to whole tiles",
        ),
        (((0, 5), (1, 0), (8, 128), 4), 0, "nothing takes no bytes"),
        (
            ((9, 129), (1, 0), (8, 128), 2),
            8192,
            "an element has item_bytes bytes",
        ),
        (
            ((1000, 3), (0, 1), (4, 128), 4),
            16384,
            "the order goes from the fastest dimension to the slowest, so with (0, 1) "
            "the tile's 128 falls on dimension 0",
        ),
        (
            ((5, 9, 129), (2, 1, 0), (8, 128), 4),
            81920,
            "only the two fastest dimensions are tiled: 5 stays 5",
        ),
        (
            ((4, 17, 129), (2, 0, 1), (4, 128), 4),
            69632,
            "with the order (2, 0, 1) the tile lies on dimensions 0 and 2",
        ),
        (((1000,), (0,), (1024,), 4), 4096, "a tile may have one dimension"),
    ):
        found = as_number(call(answer, *arguments))
        expect(
            found == wanted,
            f"padded_bytes{arguments} must be {wanted}, got {found:g}: {hint}",
        )


def _passes(m: int, k: int, n: int, side: int) -> int:
    def streamed(rows: int, columns: int) -> int:
        tiles = -(-k // side) * -(-columns // side)
        return tiles * 8 * -(-rows // 8)

    return min(streamed(m, n), streamed(n, m))


@exercise(
    "Which side streams?",
    shows="the operand that stays is padded to the array, the one that streams to 8",
)
def passes(answer: Any) -> None:
    """Checks the row steps of a product on one matrix unit.

    Args:
        answer: ``row_steps(m, k, n, side)``; see the exercise.
    """
    for (m, k, n, side), hint in (
        ((128, 128, 128, 128), "one tile stays and 128 rows stream through it"),
        ((4096, 512, 512, 128), "4 · 4 tiles stay, and all rows stream through each"),
        ((4096, 513, 512, 128), "a contraction of 513 needs a fifth row of tiles"),
        ((12, 128, 128, 128), "rows come in groups of 8: round 12 up to 16"),
        ((4096, 4096, 513, 128), "let the 513 stream, and let the other side stay"),
        ((385, 512, 4096, 256), "take the cheaper of the two ways"),
        ((64, 64, 64, 256), "a small product still fills whole tiles"),
    ):
        found = as_number(call(answer, m, k, n, side))
        wanted = _passes(m, k, n, side)
        expect(
            found == wanted,
            f"row_steps({m}, {k}, {n}, {side}) must be {wanted}, got {found:g}: {hint}",
        )


_CHAIN = ("VLOAD", "EUP", "VALU", "VSTORE")
_CAPACITY = {"VLOAD": 3, "EUP": 1, "VALU": 4, "VSTORE": 1}
_LATENCY = {"VLOAD": 3, "EUP": 7, "VALU": 2, "VSTORE": 1}


def _limit(
    tiles: int,
    steps: Sequence[str],
    capacity: Mapping[str, int],
    latency: Mapping[str, int],
    registers: int,
) -> int:
    """Bundles that a good schedule stays within: 5% and two tiles over the bound."""
    life = sum(latency[unit] for unit in steps[:-1]) + 1
    busiest = max(
        math.ceil(tiles * steps.count(unit) / capacity[unit]) for unit in steps
    )
    bound = max(busiest, math.ceil(tiles * life / registers))
    return math.ceil(1.05 * bound) + 2 * life


@exercise(
    "Your own scheduler",
    shows="many tiles in flight hide a unit's latency, as far as registers go",
)
def pipelined(answer: Any) -> None:
    """Checks a schedule of many tiles: its order, its units, its registers, its length.

    Args:
        answer: ``pipelined(tiles, steps, capacity, latency, registers)``; see the
            exercise.
    """
    for tiles, steps, registers, what in (
        (1, _CHAIN, 64, "one tile"),
        (100, _CHAIN, 64, "plenty of registers"),
        (100, ("VLOAD", "VALU", "VALU", "VSTORE"), 64, "a unit that is used twice"),
        (100, _CHAIN, 4, "four registers"),
        (30, _CHAIN, 1, "one register"),
    ):
        given = call(answer, tiles, steps, dict(_CAPACITY), dict(_LATENCY), registers)
        times = as_array(given)
        expect(
            times.shape == (tiles, len(steps)),
            f"{what}: expected times of shape {(tiles, len(steps))}, one row a tile "
            f"and one column a step, got {times.shape}",
        )
        expect(
            not np.iscomplexobj(times)
            and np.all((times >= 0) & (times < 1e9) & (times == np.round(times))),
            f"{what}: bundles are numbered 0, 1, 2, …",
        )
        _check_times(times.astype(int), steps, registers, what)


def _check_times(
    times: np.ndarray, steps: Sequence[str], registers: int, what: str
) -> None:
    for before, unit in enumerate(steps[:-1]):
        waits = times[:, before + 1] - times[:, before]
        expect(
            np.all(waits >= _LATENCY[unit]),
            f"{what}: a step must wait for the result of the one before; after {unit} "
            f"that takes {_LATENCY[unit]} bundles, the shortest wait is {waits.min()}",
        )
    for unit, capacity in _CAPACITY.items():
        used = times[:, [step == unit for step in steps]].ravel()
        most = np.unique(used, return_counts=True)[1].max(initial=0)
        expect(
            most <= capacity,
            f"{what}: {most} operations for {unit} in one bundle, and there is room "
            f"for {capacity}",
        )
    last = int(times.max())
    # Most tiles are held at the start of one of them.
    starts, ends = times[:, 0], times[:, -1]
    held = ((starts[:, None] <= starts) & (starts <= ends[:, None])).sum(0).max()
    expect(
        held <= registers,
        f"{what}: {held} tiles are held at once, from their first step to their "
        f"last, and there are {registers} registers",
    )
    limit = _limit(len(times), steps, _CAPACITY, _LATENCY, registers)
    if last + 1 > limit:
        raise Wrong(
            f"{what}: correct, and {last + 1} bundles long, where {limit} suffice: "
            "start the next tile before the last one is done"
        )
