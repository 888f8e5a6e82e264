"""Checks of the chapter on systolic arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from helpers.check import as_array, as_number, call, exercise, expect
from helpers.systolic_counts import Array, cycles, phases

__all__ = [
    "best_side",
    "finish",
    "idle_cells",
    "leaving_cycle",
    "output_stationary",
]

_CELLS = 65_536
_SIDES = (32, 64, 128, 256)


@exercise(
    "When does a sum leave?",
    shows="a sum leaves when its weights were loaded, its row entered, and it has come "
    "down and across: 2R + m + n",
)
def leaving_cycle(answer: Any) -> None:
    """Checks the cycle in which a sum leaves.

    Args:
        answer: ``leaving_cycle(m, n, rows)``; see the exercise.
    """
    for (m, n, rows), hint in (
        ((0, 0, 3), "look at the player: column 1 gives its first sum in cycle 6"),
        ((0, 0, 1), "one cell: a cycle to load, and one to multiply"),
        ((1, 0, 3), "the next row of A is one cycle behind"),
        ((0, 1, 3), "the next column gets each operand one cycle later"),
        ((5, 2, 4), "m and n add up"),
        ((0, 0, 128), "a row of cells more costs two cycles: to load, and to pass"),
        ((1023, 127, 128), "this is the last sum of a full tile"),
    ):
        found, wanted = as_number(call(answer, m, n, rows)), 2 * rows + m + n
        shown = f"for m={m}, n={n}, rows={rows} expected {wanted}, got {found:g}"
        if (m, n) == (0, 0) and found == wanted - 1:
            hint = "cycles are counted from 1 here"
        if (m, n) == (0, 0) and found == wanted - rows:
            hint = "the weights have to be loaded first, a row a cycle"
        expect(found == wanted, f"{shown}: {hint}")


@exercise(
    "Where did the cells idle?",
    shows="fill, waiting and padding, with the useful ones, are all cells times cycles",
)
def idle_cells(answer: Any) -> None:
    """Checks where cells times cycles went that multiplied nothing.

    Args:
        answer: ``idle_cells(m, k, n, side)``; see the exercise.
    """
    for m, k, n, side in (
        (128, 128, 128, 128),
        (4, 8, 8, 8),
        (20, 9, 17, 8),
        (3, 20, 20, 8),
        (1, 300, 200, 64),
        (1000, 130, 130, 128),
    ):
        spent = phases(m, k, n, Array(side, side, overlap=True))
        cells = side**2
        wanted = {
            "fill": cells * (spent.load + spent.skew),
            "wait": cells * spent.wait,
            "padding": cells * spent.stream - m * k * n,
        }
        found = call(answer, m, k, n, side)
        expect(
            isinstance(found, Mapping) and set(found) == set(wanted),
            'expected a dictionary with the keys "fill", "wait" and "padding"',
        )
        numbers = {name: as_number(found[name]) for name in wanted}
        shown = f"for M={m}, K={k}, N={n} on {side} × {side}"
        _expect_idle(numbers, wanted, shown, cells, spent.load + spent.skew)


def _expect_idle(
    found: Mapping[str, float],
    wanted: Mapping[str, int],
    shown: str,
    cells: int,
    fill_cycles: int,
) -> None:
    if cells > 1:
        expect(
            found["fill"] != fill_cycles,
            f"{shown}: these are cycles; in each of them {cells} cells idle",
        )
    for name, hint in (
        (
            "fill",
            "loading takes `load` cycles and the way of the last operand `skew`: "
            "once, since tiles overlap",
        ),
        (
            "wait",
            "a tile that ends before the next one's weights are in makes all cells "
            "wait: see `wait`",
        ),
        (
            "padding",
            "while operands enter, cells × stream could multiply, and M · K · N did",
        ),
    ):
        expect(
            found[name] == wanted[name],
            f"{shown} expected {wanted[name]} for {name!r}, got {found[name]:g}: "
            f"{hint}",
        )


def _total(products: Sequence[tuple[int, int, int]], side: int) -> int:
    arrays = _CELLS // side**2
    array = Array(side, side, overlap=True)
    return sum(cycles(m, k, -(-n // arrays), array) for m, k, n in products)


@exercise(
    "One large array or many small ones?",
    shows="few rows and narrow products want small arrays; large ones take any",
)
def best_side(answer: Any) -> None:
    """Checks the side of the arrays that suit some products.

    Args:
        answer: ``best_side(products)``; see the exercise.
    """
    chance = np.random.default_rng()
    some = [
        [tuple(map(int, chance.integers(1, 700, 3))) for _ in range(3)]
        for _ in range(6)
    ]
    for products, hint in (
        ([(8, 4096, 4096)], "few rows: a small array loads its weights sooner"),
        ([(512, 256, 256)], "64 arrays of 32 get 4 columns each, and leave 28 empty"),
        ([(4096, 256, 32)], "one array of 256 has columns to spare for so narrow a B"),
        ([(600, 256, 514)], "N over the arrays is rounded up"),
        ([(1, 1, 1)], "one element fills the smallest array soonest"),
        (
            [(4, 64, 4096), (4096, 512, 512)],
            "the products run one after another: add their cycles, then compare",
        ),
        *((products, "compare the sums of `cycles`") for products in some),
    ):
        wanted = min(_SIDES, key=lambda side: (_total(products, side), -side))
        found = as_number(call(answer, list(products)))
        expect(found in _SIDES, f"expected one of {_SIDES}, got {found:g}")
        totals = {side: _total(products, side) for side in _SIDES}
        expect(
            found == wanted,
            f"for {products} expected {wanted}, got {found:g}; cycles by side are "
            f"{totals}: {hint}",
        )


def _finished(work: Sequence[int], fetch: int, buffers: int) -> int:
    fetched, worked = [0], [0] * buffers
    for length in work:
        fetched.append(max(fetched[-1], worked[-buffers]) + fetch)
        worked.append(max(fetched[-1], worked[-1]) + length)
    return worked[-1]


@exercise(
    "How many buffers?",
    shows="two buffers hide the shorter of fetch and work; more help uneven work alone",
)
def finish(answer: Any) -> None:
    """Checks when the last tile is done.

    Args:
        answer: ``finish(work, fetch, buffers)``; see the exercise.
    """
    chance = np.random.default_rng()
    for (work, fetch, buffers), hint in (
        (([7], 5, 1), "one tile: it is fetched, then worked on"),
        (
            ([7, 7], 5, 1),
            "with one place, nothing is fetched during work",
        ),
        (([7, 7], 5, 2), "with two, the second fetch runs during the first work"),
        (([3, 3, 3], 5, 2), "memory is slower: each tile waits for its fetch"),
        (([9, 9, 9, 9], 5, 2), "work is slower: memory waits for a place"),
        (
            ([1, 20, 1, 1, 1], 5, 2),
            "a long tile holds its place until its work is done: fetch i waits for "
            "work i - buffers",
        ),
        (([1, 1, 20, 1, 1, 1], 5, 4), "with four, memory fetches ahead of long work"),
        *(
            (
                (chance.integers(1, 30, 9).tolist(), int(chance.integers(1, 20)), b),
                "follow the two recurrences of the hint",
            )
            for b in (1, 2, 3, 4, 12)
        ),
    ):
        wanted = _finished(work, fetch, buffers)
        found = as_number(call(answer, list(work), fetch, buffers))
        expect(
            found == wanted,
            f"for work={work}, fetch={fetch}, buffers={buffers} expected {wanted}, got "
            f"{found:g}: {hint}",
        )


@exercise(
    "An array that keeps its sums",
    shows="operands that meet on a diagonal leave every sum in its own cell",
)
def output_stationary(answer: Any) -> None:
    """Checks the cells of an output-stationary array, cycle by cycle.

    Args:
        answer: ``output_stationary(a, b)``; see the exercise.
    """
    chance = np.random.default_rng()
    for m, k, n in ((1, 1, 1), (2, 2, 2), (3, 3, 3), (2, 5, 4), (4, 1, 3), (5, 7, 2)):
        # No zeros and no repeats: a value in a cell says which element it is.
        numbers = chance.permutation(np.arange(1, m * k + k * n + 1))
        a, b = numbers[: m * k].reshape(m, k), numbers[m * k :].reshape(k, n)
        history = call(answer, a.copy(), b.copy())
        shown = f"A[{m}, {k}] · B[{k}, {n}]"
        expect(
            isinstance(history, Sequence) and len(history) > 0,
            "expected a list with an entry for each cycle",
        )
        frames = [_frame(entry, (m, n), shown) for entry in history]
        _expect_physics(frames, a, b, shown)
        expect(
            len(frames) == m + n + k - 2,
            f"{shown}: all sums are complete after {m + n + k - 2} cycles, the last "
            f"entry, and there are {len(frames)}",
        )


def _frame(
    entry: Any, shape: tuple[int, int], shown: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    expect(
        isinstance(entry, Sequence) and len(entry) == 3,
        "each entry holds three arrays: (right, down, total)",
    )
    right, down, total = (as_array(part) for part in entry)
    for part in (right, down, total):
        expect(
            part.shape == shape,
            f"{shown}: expected arrays of shape {shape}, got {part.shape}",
        )
    return right, down, total


def _expect_physics(
    frames: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]],
    a: np.ndarray,
    b: np.ndarray,
    shown: str,
) -> None:
    before = tuple(np.zeros((len(a), b.shape[1])) for _ in range(3))
    for number, (right, down, total) in enumerate(frames, 1):
        where = f"{shown}, cycle {number}"
        expect(
            np.array_equal(right[:, 1:], before[0][:, :-1]),
            f"{where}: an operand moved right that was not in the left neighbour a "
            "cycle before; if two entries are one array, make a new one each cycle",
        )
        expect(
            np.array_equal(down[1:], before[1][:-1]),
            f"{where}: an operand moved down that was not in the upper neighbour a "
            "cycle before",
        )
        expect(
            np.array_equal(total, before[2] + right * down),
            f"{where}: a sum changed by something else than the product of the two "
            "operands in its cell",
        )
        before = (right, down, total)
    expect(
        np.array_equal(before[2], a @ b),
        f"{shown}: the sums at the end are not A · B; the operands of a cell must have "
        "the same k when they meet, so row i and column j start i and j cycles late",
    )
    rims = (
        [[frame[0][i, 0] for frame in frames] for i in range(len(a))],
        [[frame[1][0, j] for frame in frames] for j in range(b.shape[1])],
    )
    for rim, wanted, side in zip(rims, (a, b.T), ("left", "top"), strict=True):
        for lane, values in zip(rim, wanted, strict=True):
            entered = [value for value in lane if value != 0]
            expect(
                sorted(entered) == sorted(values),
                f"{shown}: from the {side} each element must enter once, and nothing "
                "else",
            )
