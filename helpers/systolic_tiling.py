"""When what enters a systolic array: tiles, their start cycles, the skew of each row.

Everything here happens at the rim of the array, in memories and counters outside it.
What enters carries a tag, as a control signal beside the value: four times the tile's
number (from 1), two more with the tile's last operand, one more if the value belongs to
a matrix and is not padding; 0 where nothing enters. Tiles with a common slice of K
follow each other, so that sums outside the array are complete soonest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from helpers.systolic_counts import Array

__all__ = [
    "Entries",
    "Tile",
    "entries_across",
    "entries_kept",
    "plan",
    "results",
]

LAST, REAL, NUMBER = 2, 1, 4


@dataclass(frozen=True)
class Tile:
    """One filling of the array.

    Attributes:
        number: From 1.
        start: The cycle in which its first operand enters the first row of cells.
        rows: What part of the length along the array's rows it covers.
        cols: What part of the length along its columns.
    """

    number: int
    start: int
    rows: slice
    cols: slice


class Entries(NamedTuple):
    """What enters in each cycle.

    Attributes:
        left: Values into the first column of cells, [cycles, rows].
        left_tag: Their tags, [cycles, rows], int16.
        top: Values into the first row of cells, [cycles, cols].
        top_tag: Their tags, [cycles, cols], int16.
        latch: Whether a column's weights are in place and are taken, [cycles, cols].
    """

    left: np.ndarray
    left_tag: np.ndarray
    top: np.ndarray
    top_tag: np.ndarray
    latch: np.ndarray


def plan(over_rows: int, over_cols: int, array: Array, every: int) -> list[Tile]:
    """Cuts two lengths into tiles and gives each its start.

    Args:
        over_rows: The length along the array's rows of cells.
        over_cols: The length along its columns.
        array: The grid.
        every: Cycles from one start to the next.

    Returns:
        The tiles, in the order in which they run.
    """
    first = 0 if array.dataflow == "os" else array.rows
    pairs = [
        (rows, cols)
        for cols in _slices(over_cols, array.cols)
        for rows in _slices(over_rows, array.rows)
    ]
    return [
        Tile(index + 1, first + index * every, rows, cols)
        for index, (rows, cols) in enumerate(pairs)
    ]


def entries_kept(
    moving: np.ndarray, kept: np.ndarray, tiles: list[Tile], array: Array, length: int
) -> Entries:
    """What enters an array that keeps a matrix and lets another pass.

    Args:
        moving: [T, D]: row t of a tile's slice enters as operand t.
        kept: [D, F], of which a tile stays in the cells.
        tiles: Their slices of D and F, and their starts.
        array: The grid.
        length: Cycles in all.

    Returns:
        Operands from the left, each row of cells a cycle after the one above; weights
        from the top, the lowest row first, in place in the cycle before they are used.
    """
    entries = _nothing(array, length, moving.dtype, kept.dtype)
    for tile in tiles:
        operands = _padded(moving[:, tile.rows], array.rows)
        _skewed(entries.left, entries.left_tag, *operands, tile)
        weights = _padded(kept[tile.rows, tile.cols].T, array.rows)
        upside_down = [_padded(part.T[::-1], array.cols)[0] for part in weights]
        early = Tile(tile.number, tile.start - array.rows, tile.rows, tile.cols)
        _skewed(entries.top, entries.top_tag, *upside_down, early)
        columns = np.arange(array.cols)
        entries.latch[tile.start - 1 + columns, columns] = True
    return entries


def entries_across(
    left: np.ndarray, top: np.ndarray, tiles: list[Tile], array: Array, length: int
) -> Entries:
    """What enters an array that keeps sums and lets both matrices pass.

    Args:
        left: [M, D]: a tile's row i enters row i of the cells.
        top: [D, N]: a tile's column j enters column j.
        tiles: Their slices of M and N, and their starts.
        array: The grid.
        length: Cycles in all.

    Returns:
        Operands from the left and from the top, skewed so that those with the same
        place in D meet.
    """
    entries = _nothing(array, length, left.dtype, top.dtype)
    for tile in tiles:
        operands = _padded(left[tile.rows].T, array.rows)
        _skewed(entries.left, entries.left_tag, *operands, tile)
        operands = _padded(top[:, tile.cols], array.cols)
        _skewed(entries.top, entries.top_tag, *operands, tile)
    return entries


def results(
    leaving: np.ndarray, shape: tuple[int, int], tiles: list[Tile], array: Array
) -> np.ndarray:
    """Collects a product from what left the array.

    Args:
        leaving: [cycles, cols], of the last row of cells (``"os"``: the first).
        shape: Of the matrix: [T, F], or [M, N] for ``"os"``.
        tiles: As they ran.
        array: The grid.

    Returns:
        The matrix. Where several tiles have sums for the same place, the accumulators
        outside the array have added them in the order of the tiles.
    """
    product = np.zeros(shape, leaving.dtype)
    stream = shape[0]
    for tile in tiles:
        columns = np.arange(tile.cols.stop - tile.cols.start)
        if array.dataflow == "os":
            rows = np.arange(tile.rows.stop - tile.rows.start)[:, None]
            # Sums leave upwards, against the wave that completes them.
            product[tile.rows, tile.cols] = leaving[
                tile.start + 2 * rows + columns, columns
            ]
        else:
            steps = np.arange(stream)[:, None] + array.rows - 1
            product[:, tile.cols] += leaving[tile.start + steps + columns, columns]
    return product


def _slices(length: int, side: int) -> Iterator[slice]:
    return (slice(at, min(at + side, length)) for at in range(0, length, side))


def _nothing(array: Array, length: int, left: np.dtype, top: np.dtype) -> Entries:
    by_row, by_column = (length, array.rows), (length, array.cols)
    return Entries(
        left=np.zeros(by_row, left),
        left_tag=np.zeros(by_row, np.int16),
        top=np.zeros(by_column, top),
        top_tag=np.zeros(by_column, np.int16),
        latch=np.zeros(by_column, bool),
    )


def _padded(block: np.ndarray, side: int) -> tuple[np.ndarray, np.ndarray]:
    """A block with columns of padding up to a side, and which elements are real."""
    width = ((0, 0), (0, side - block.shape[1]))
    return np.pad(block, width), np.pad(np.full(block.shape, REAL, np.int16), width)


def _skewed(
    values: np.ndarray,
    tags: np.ndarray,
    block: np.ndarray,
    real: np.ndarray,
    tile: Tile,
) -> None:
    """Writes a tile's block so that each lane begins one cycle after the one before."""
    lanes = np.arange(block.shape[1])
    cycles = tile.start + np.arange(len(block))[:, None] + lanes
    values[cycles, lanes] = block
    tags[cycles, lanes] = NUMBER * tile.number + real
    tags[cycles[-1], lanes] += LAST
