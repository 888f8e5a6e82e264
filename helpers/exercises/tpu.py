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

__all__ = ["clock_at_most", "fewest_bundles", "padded_bytes", "passes", "pipelined"]


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
        (once, "that is the bound for one product in each cell and cycle; here are 2"),
        (2 * once, "more work a cycle needs fewer cycles: divide by 2, not multiply"),
        (once / 4, "a multiply-accumulate is 2 FLOPs, once; the cells do 2 of them"),
        (once * ironwood.tensorcores / 2, "a chip has several TensorCores: count all"),
        (once * ironwood.mxus_per_tensorcore, "a TensorCore has several MXUs"),
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
        (((16, 256), (1, 0), (8, 128), 4), 16384, "whole tiles, nothing to pad"),
        (((9, 129), (1, 0), (8, 128), 4), 16384, "round up, not to the nearest"),
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


@exercise(
    "The unit that sets the pace",
    shows="a loop takes at least the bundles that its most wanted unit needs",
)
def fewest_bundles(answer: Any) -> None:
    """Checks a lower bound of bundles and the unit behind it.

    Args:
        answer: ``fewest_bundles(operations, capacity)``; see the exercise.
    """
    capacity = {"VLOAD": 3, "VALU": 4, "EUP": 1, "VSTORE": 1, "XLU": 3, "MXU": 4}
    for operations, wanted, hint in (
        (
            {"VLOAD": 512, "VALU": 1024, "EUP": 512, "VSTORE": 510},
            (512, "EUP"),
            "divide each unit's operations by its capacity, then take the largest",
        ),
        (
            {"VLOAD": 100, "VALU": 90, "VSTORE": 20},
            (34, "VLOAD"),
            "there is no part of a bundle: round up",
        ),
        ({"XLU": 7, "VSTORE": 2}, (3, "XLU"), "there is no part of a bundle: round up"),
        (
            {"VLOAD": 2, "EUP": 3, "MXU": 9},
            (3, None),
            "units work side by side, so their bundles do not add up",
        ),
        ({"VALU": 0, "EUP": 0}, (0, None), "no operations need no bundles"),
    ):
        given = call(answer, dict(operations), dict(capacity))
        expect(
            isinstance(given, Sequence) and not isinstance(given, str),
            f"expected a pair of a number and a unit's name, got {given!r}",
        )
        expect(len(given) == 2, f"expected a pair (bundles, unit), got {given!r}")
        bundles, unit = given
        shown = f"fewest_bundles({operations}, …) must be {wanted[0]}"
        expect(as_number(bundles) == wanted[0], f"{shown}, got {bundles}: {hint}")
        if wanted[1]:
            expect(
                unit == wanted[1],
                f"{shown} because of {wanted[1]}, got {unit!r}: {hint}",
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
    """Bundles that a good schedule stays within: 5% and one tile over the bound."""
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
            np.all(times >= 0) and np.all(times == np.round(times)),
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
        most = np.bincount(used).max() if used.size else 0
        expect(
            most <= capacity,
            f"{what}: {most} operations for {unit} in one bundle, and there is room "
            f"for {capacity}",
        )
    last = int(times.max())
    live = np.zeros(last + 2, int)
    for first, end in zip(times[:, 0], times[:, -1], strict=True):
        live[first : end + 1] += 1
    expect(
        live.max() <= registers,
        f"{what}: {live.max()} tiles are held at once, from their first step to their "
        f"last, and there are {registers} registers",
    )
    limit = _limit(len(times), steps, _CAPACITY, _LATENCY, registers)
    if last + 1 > limit:
        raise Wrong(
            f"{what}: correct, and {last + 1} bundles long, where {limit} suffice: "
            "start the next tile before the last one is done"
        )
