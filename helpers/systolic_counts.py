"""What a systolic array does for a matrix product, counted without simulating it.

A[M, K] times B[K, N] on a grid of cells, each of which multiplies and adds once a cycle
and talks to its neighbours alone. One matrix stays in the cells, tile by tile; the rest
moves through them:

* weight-stationary (``"ws"``): a tile of B stays, rows of A move right, sums move down;
* input-stationary (``"is"``): a tile of A stays, columns of B move right: the same
  machine computing the transposed product;
* output-stationary (``"os"``): sums stay, A moves right and B down; then the sums
  leave upwards, against the wave of the operands.

Every number here is exact for the machine of ``helpers.systolic``, which moves each
operand cell by cell; tests hold the two together. Both leave out any wait for memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields

__all__ = [
    "Array",
    "Counts",
    "DATAFLOWS",
    "Phases",
    "add_counts",
    "count",
    "cycles",
    "interval",
    "phases",
]

DATAFLOWS = ("ws", "os", "is")
"""Weight-, output- and input-stationary."""


@dataclass(frozen=True)
class Array:
    """A grid of cells and what stays in them.

    Attributes:
        rows: R, cells from top to bottom.
        cols: C, cells from left to right.
        dataflow: One of ``DATAFLOWS``.
        overlap: Whether the next tile's weights enter (``"os"``: the last tile's sums
            leave) through registers of their own while the array works. Otherwise
            each tile waits until the one before has left.
    """

    rows: int
    cols: int
    dataflow: str = "ws"
    overlap: bool = False

    def __post_init__(self) -> None:
        if self.dataflow not in DATAFLOWS:
            raise ValueError(
                f"expected a dataflow of {', '.join(DATAFLOWS)}, got {self.dataflow!r}"
            )
        _require_lengths(rows=self.rows, cols=self.cols)

    @property
    def cells(self) -> int:
        """Multipliers."""
        return self.rows * self.cols


@dataclass(frozen=True)
class _Problem:
    """What passes a cell for one tile, and the lengths cut into tiles."""

    stream: int
    over_rows: int
    over_cols: int


@dataclass(frozen=True)
class Phases:
    """Where a product's cycles go if tiles follow one another.

    Attributes:
        load: Weights enter and nothing else happens.
        stream: An operand enters the first cell.
        skew: The last operands are still on their way to the last cell.
        drain: Nothing enters, nothing is multiplied, results still leave.
        wait: The next tile's weights are not in yet, or the last one's sums in the way.
    """

    load: int
    stream: int
    skew: int
    drain: int
    wait: int = 0

    @property
    def total(self) -> int:
        """All cycles, the last result's included."""
        return self.load + self.stream + self.skew + self.drain + self.wait


@dataclass(frozen=True)
class Counts:
    """What happens during a product.

    Attributes:
        cycles: Until the last result has left, the first cycle included.
        cell_cycles: Cells times cycles: what could have been multiplied.
        macs: Multiply-accumulates.
        a_reads: Elements of A that enter the array from memory.
        b_reads: Elements of B that enter.
        sum_writes: Results that leave the array: partial sums if K is cut into tiles.
        sum_reads: Partial sums that the accumulators outside read, to add to them.
        operand_moves: Copies of an element of A or B from a cell to its neighbour.
        sum_passes: Times that a cell passes on a sum and adds nothing to it.
    """

    cycles: int
    cell_cycles: int
    macs: int
    a_reads: int
    b_reads: int
    sum_writes: int
    sum_reads: int
    operand_moves: int
    sum_passes: int

    @property
    def utilization(self) -> float:
        """The share of cells times cycles that multiply."""
        return self.macs / self.cell_cycles

    @property
    def reads_per_mac(self) -> float:
        """Operands from memory for each multiplication; 2 without any reuse."""
        return (self.a_reads + self.b_reads) / self.macs


def count(m: int, k: int, n: int, array: Array) -> Counts:
    """Counts a product A[M, K] · B[K, N] in closed form.

    Args:
        m: M, rows of A.
        k: K, the contracted length.
        n: N, columns of B.
        array: The grid, its dataflow and whether it overlaps.

    Returns:
        Cycles, multiply-accumulates, reads, writes and register moves.

    Raises:
        ValueError: If a length is below 1.
    """
    p = _problem(m, k, n, array)
    down, across = _tiles(p, array)
    to_right = p.stream * p.over_rows * across
    if array.dataflow == "os":
        a_reads, b_reads = to_right, k * n * down
        sums = m * n
        down_moves, sum_passes = b_reads * (array.rows - 1), n * _hops(m, array.rows)
    else:
        a_reads, b_reads = to_right, k * n
        if array.dataflow == "is":
            a_reads, b_reads = m * k, to_right
        sums = m * n * down
        down_moves = p.over_cols * _hops(p.over_rows, array.rows)
        sum_passes = sums * array.rows - m * k * n
    total = cycles(m, k, n, array)
    return Counts(
        cycles=total,
        cell_cycles=total * array.cells,
        macs=m * k * n,
        a_reads=a_reads,
        b_reads=b_reads,
        sum_writes=sums,
        sum_reads=sums - m * n,
        operand_moves=down_moves + to_right * (array.cols - 1),
        sum_passes=sum_passes,
    )


def cycles(m: int, k: int, n: int, array: Array) -> int:
    """The cycles of a product, until the last result has left.

    Args:
        m: M, rows of A.
        k: K, the contracted length.
        n: N, columns of B.
        array: The grid, its dataflow and whether it overlaps.

    Returns:
        For one tile ``stream + 2·rows + cols - 2`` (one less for ``"os"``), as often as
        there are tiles; with overlap only the first tile fills and the last drains.

    Raises:
        ValueError: If a length is below 1.
    """
    return phases(m, k, n, array).total


def phases(m: int, k: int, n: int, array: Array) -> Phases:
    """The cycles of a product, by what they are spent on.

    Args:
        m: M, rows of A.
        k: K, the contracted length.
        n: N, columns of B.
        array: The grid, its dataflow and whether it overlaps.

    Returns:
        The phases; their sum is ``cycles``.

    Raises:
        ValueError: If a length is below 1.
    """
    p = _problem(m, k, n, array)
    tiles = math.prod(_tiles(p, array))
    load, skew, drain = _beside_stream(array)
    if not array.overlap:
        return Phases(tiles * load, tiles * p.stream, tiles * skew, tiles * drain)
    wait = (tiles - 1) * (interval(m, k, n, array) - p.stream)
    return Phases(load, tiles * p.stream, skew, drain, wait)


def interval(m: int, k: int, n: int, array: Array) -> int:
    """The cycles from the start of one tile to the start of the next.

    Args:
        m: M, rows of A.
        k: K, the contracted length.
        n: N, columns of B.
        array: The grid, its dataflow and whether it overlaps.

    Returns:
        The least number at which no tile disturbs another.

    Raises:
        ValueError: If a length is below 1.
    """
    stream = _problem(m, k, n, array).stream
    if not array.overlap:
        return stream + sum(_beside_stream(array))
    least = max(stream, array.rows)
    if array.dataflow == "os" and least % 2 == 0 and least < 2 * array.rows - 1:
        # Sums leave a column every second cycle: the next tile's fill the gaps.
        least += 1
    return least


def add_counts(parts: Iterable[Counts]) -> Counts:
    """Adds up products that run one after another.

    Args:
        parts: What each takes; at least one.

    Returns:
        The sums.
    """
    listed = list(parts)
    names = [each.name for each in fields(Counts)]
    return Counts(*(sum(getattr(part, name) for part in listed) for name in names))


def _problem(m: int, k: int, n: int, array: Array) -> _Problem:
    _require_lengths(m=m, k=k, n=n)
    roles = {"ws": (m, k, n), "is": (n, k, m), "os": (k, m, n)}
    return _Problem(*roles[array.dataflow])


def _tiles(problem: _Problem, array: Array) -> tuple[int, int]:
    return -(-problem.over_rows // array.rows), -(-problem.over_cols // array.cols)


def _beside_stream(array: Array) -> tuple[int, int, int]:
    """The cycles of one tile without its stream: loading, skew, draining."""
    load, drain = (0, array.rows - 1) if array.dataflow == "os" else (array.rows, 0)
    return load, array.rows + array.cols - 2, drain


def _hops(length: int, rows: int) -> int:
    """The sum of the row numbers of a column, cut into tiles of so many rows."""
    whole, rest = divmod(length, rows)
    return whole * rows * (rows - 1) // 2 + rest * (rest - 1) // 2


def _require_lengths(**lengths: int) -> None:
    for name, value in lengths.items():
        if value < 1:
            raise ValueError(f"expected {name} >= 1, got {value}")
