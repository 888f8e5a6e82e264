"""A systolic array, cycle by cycle and cell by cell.

The machine is in ``helpers.systolic_cells``, what enters it and when in
``helpers.systolic_tiling``; here is a matrix product from beginning to end.

The simulator neither knows the closed forms of ``helpers.systolic_counts`` nor uses
them to count: cycles are those until no operand and no sum is left in any cell. From
there it takes only how many cycles apart tiles start, and says where that is too few.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import jax
import numpy as np

from helpers.systolic_cells import SUM_TYPES, Trace, run
from helpers.systolic_counts import Array, Counts, interval
from helpers.systolic_tiling import Entries, entries_across, entries_kept, plan, results

__all__ = ["Run", "simulate"]

# Programs are compiled for so many cycles at a time.
_CYCLES = 256


@dataclass(frozen=True)
class Run:
    """What an array did.

    Attributes:
        product: The matrix, in int32 or float32.
        counts: What was counted while it ran.
        busy: Cells that multiplied, for each cycle.
        conflicts: Times that a cell used another tile's weight, or a sum met another;
            the product is right only if there was none.
        frames: If recorded, each register of the cells by name, [cycles, rows, cols]:
            ``operand``, ``weight``, ``arriving`` (a weight on its way), ``next`` (one
            in place, not yet in use) and ``sum``, or ``operand``, ``operand_down``,
            ``sum`` and ``leaving``; and ``busy``.
        present: For each of them, where it holds an element rather than padding.
    """

    product: np.ndarray
    counts: Counts
    busy: np.ndarray
    conflicts: int
    frames: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)
    present: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)


def simulate(
    a: jax.typing.ArrayLike,
    b: jax.typing.ArrayLike,
    array: Array,
    *,
    every: int | None = None,
    record: bool = False,
) -> Run:
    """Multiplies two matrices on a systolic array.

    Args:
        a: A[M, K], int8, bfloat16 or float32.
        b: B[K, N], of the same type.
        array: The grid, its dataflow and whether it overlaps tiles.
        every: Cycles from the start of one tile to the next; `interval` unless given.
        record: Whether to keep all registers of all cycles; for small arrays.

    Returns:
        The product, the counts and, if recorded, the frames.

    Raises:
        ValueError: If the matrices do not fit each other, are of another type, or tiles
            start before the last one's operands have entered.
    """
    a, b = np.asarray(a), np.asarray(b)
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(f"expected A[M, K] and B[K, N], got {a.shape} and {b.shape}")
    if a.dtype != b.dtype or a.dtype.name not in SUM_TYPES:
        raise ValueError(
            f"expected matrices of {', '.join(SUM_TYPES)}, got {a.dtype} and {b.dtype}"
        )
    (m, k), n = a.shape, b.shape[1]
    if array.dataflow == "is":
        # The same machine, fed with the transposed product.
        a, b = b.T, a.T
    across = array.dataflow == "os"
    stream = k if across else a.shape[0]
    every = interval(m, k, n, array) if every is None else every
    if every < stream:
        raise ValueError(f"expected every >= {stream}, the operands, got {every}")
    tiles = plan(a.shape[0] if across else k, b.shape[1], array, every)
    last = tiles[-1].start + stream + 2 * array.rows + array.cols
    length = -(-last // _CYCLES) * _CYCLES
    enter = entries_across if across else entries_kept
    entries = enter(a, b, tiles, array, length)
    trace = jax.tree.map(np.asarray, run(entries, across, record))
    offset = 0 if not across else stream - 1
    product = results(trace.leaving[offset:], (a.shape[0], b.shape[1]), tiles, array)
    if array.dataflow == "is":
        product = product.T
    return _report(product, entries, trace, array)


def _report(product: np.ndarray, entries: Entries, trace: Trace, array: Array) -> Run:
    cycles = int(np.flatnonzero(trace.occupied)[-1]) + 1
    left, top = (int((tag & 1).sum()) for tag in (entries.left_tag, entries.top_tag))
    sums = int(trace.left.sum())
    a_reads, b_reads = (top, left) if array.dataflow == "is" else (left, top)
    counts = Counts(
        cycles=cycles,
        cell_cycles=cycles * array.cells,
        macs=int(trace.busy.sum(dtype=np.int64)),
        a_reads=a_reads,
        b_reads=b_reads,
        sum_writes=sums,
        sum_reads=sums - product.size,
        operand_moves=int(trace.operand_moves.sum(dtype=np.int64)),
        sum_passes=int(trace.sum_passes.sum(dtype=np.int64)),
    )
    frames = {name: values[:cycles] for name, (values, _) in trace.frames.items()}
    present = {name: real[:cycles] for name, (_, real) in trace.frames.items()}
    conflicts = int(trace.conflicts.sum())
    busy = trace.busy[:cycles].sum(axis=1)
    return Run(product, counts, busy, conflicts, frames, present)
