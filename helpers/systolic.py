"""A systolic array, cycle by cycle and cell by cell.

The whole machine is `_cycle_kept` and `_cycle_across`: what every cell holds after a
cycle, from what it and its neighbours held before. A cell multiplies, adds and passes
on; nothing else reaches memory. Each register of the grid is one array of its shape, a
step to a neighbour is a shift of it, and ``lax.scan`` is the clock.

The simulator neither knows the closed forms of ``helpers.systolic_counts`` nor uses
them to count: cycles are those until no operand and no sum is left in any cell. From
there it takes only how many cycles apart tiles start, and says where that is too few.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from helpers.systolic_counts import Array, Counts, interval
from helpers.systolic_tiling import Entries, entries_across, entries_kept, plan, results

__all__ = ["Run", "simulate"]

_SUMS = {"int8": jnp.int32, "bfloat16": jnp.float32, "float32": jnp.float32}
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
            ``operand``, ``weight``, ``arriving`` (a weight on its way) and ``sum``, or
            ``operand``, ``operand_down``, ``sum`` and ``leaving``; and ``busy``.
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
    if a.dtype != b.dtype or a.dtype.name not in _SUMS:
        raise ValueError(
            f"expected two matrices of {', '.join(_SUMS)}, got {a.dtype} and {b.dtype}"
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
    trace = jax.tree.map(np.asarray, _run(entries, across, record))
    offset = 0 if not across else stream - 1
    product = results(trace.leaving[offset:], (a.shape[0], b.shape[1]), tiles, array)
    if array.dataflow == "is":
        product = product.T
    return _report(product, entries, trace, array)


def _report(product: np.ndarray, entries: Entries, trace: _Trace, array: Array) -> Run:
    cycles = int(np.flatnonzero(trace.occupied)[-1]) + 1
    left, top = (int((tag & 1).sum()) for tag in (entries.left_tag, entries.top_tag))
    sums = int(trace.left_cells.sum())
    a_reads, b_reads = (top, left) if array.dataflow == "is" else (left, top)
    counts = Counts(
        cycles=cycles,
        cell_cycles=cycles * array.cells,
        macs=int(trace.busy.sum(dtype=np.int64)),
        a_reads=a_reads,
        b_reads=b_reads,
        sum_writes=sums,
        sum_reads=sums - product.size,
        moves=int(trace.moves.sum(dtype=np.int64)),
    )
    frames = {name: values[:cycles] for name, (values, _) in trace.frames.items()}
    present = {name: real[:cycles] for name, (_, real) in trace.frames.items()}
    conflicts = int(trace.conflicts.sum())
    return Run(product, counts, trace.busy[:cycles], conflicts, frames, present)


class _Trace(NamedTuple):
    """What is seen of a cycle from outside, and with ``frames`` from inside."""

    leaving: jax.Array
    left_cells: jax.Array
    busy: jax.Array
    occupied: jax.Array
    conflicts: jax.Array
    moves: jax.Array
    frames: dict


class _Kept(NamedTuple):
    """The registers of cells that keep a weight: each an array [rows, cols]."""

    operand: jax.Array
    operand_tag: jax.Array
    weight: jax.Array
    weight_tag: jax.Array
    next: jax.Array
    next_tag: jax.Array
    arriving: jax.Array
    arriving_tag: jax.Array
    sum: jax.Array
    sum_real: jax.Array


class _Across(NamedTuple):
    """The registers of cells that keep a sum."""

    operand: jax.Array
    operand_tag: jax.Array
    operand_down: jax.Array
    operand_down_tag: jax.Array
    sum: jax.Array
    sum_tag: jax.Array
    leaving: jax.Array
    leaving_tag: jax.Array


def _cycle_kept(cell: _Kept, entry: Entries) -> tuple[_Kept, _Trace]:
    operand = _right(cell.operand, entry.left)
    operand_tag = _right(cell.operand_tag, entry.left_tag)
    # The first operand of a tile finds the weight of the last one and replaces it.
    turn = (operand_tag > 0) & _other_tile(operand_tag, cell.weight_tag)
    weight = jnp.where(turn, cell.next, cell.weight)
    weight_tag = jnp.where(turn, cell.next_tag, cell.weight_tag)
    busy = (operand_tag & weight_tag & 1) > 0
    total = _down(cell.sum) + operand.astype(cell.sum.dtype) * weight
    sum_real = _down(cell.sum_real) | busy
    arriving = _down(cell.arriving, entry.top)
    arriving_tag = _down(cell.arriving_tag, entry.top_tag)
    after = _Kept(
        operand=operand,
        operand_tag=operand_tag,
        weight=weight,
        weight_tag=weight_tag,
        next=jnp.where(entry.latch, arriving, cell.next),
        next_tag=jnp.where(entry.latch, arriving_tag, cell.next_tag),
        arriving=arriving,
        arriving_tag=jnp.where(entry.latch, 0, arriving_tag),
        sum=total,
        sum_real=sum_real,
    )
    wrong = (operand_tag > 0) & _other_tile(operand_tag, weight_tag)
    moves = _count(operand_tag[:, 1:] & 1) + _count(arriving_tag[1:] & 1)
    return after, _Trace(
        leaving=total[-1],
        left_cells=_count(sum_real[-1]),
        busy=_count(busy),
        occupied=jnp.any((operand_tag | arriving_tag) > 0),
        conflicts=_count(wrong),
        moves=moves + _count(sum_real[1:]),
        frames={
            "operand": (operand, operand_tag & 1 > 0),
            "weight": (weight, weight_tag & 1 > 0),
            "arriving": (arriving, arriving_tag & 1 > 0),
            "sum": (total, sum_real),
            "busy": (busy, busy),
        },
    )


def _cycle_across(cell: _Across, entry: Entries) -> tuple[_Across, _Trace]:
    operand = _right(cell.operand, entry.left)
    operand_tag = _right(cell.operand_tag, entry.left_tag)
    below = _down(cell.operand_down, entry.top)
    below_tag = _down(cell.operand_down_tag, entry.top_tag)
    busy = (operand_tag & below_tag & 1) > 0
    new_tile = (operand_tag > 0) & _other_tile(operand_tag, cell.sum_tag)
    before = jnp.where(new_tile, 0, cell.sum)
    total = before + operand.astype(cell.sum.dtype) * below
    done = (operand_tag & 2) > 0
    # A finished sum takes the register in which those from below travel up.
    passing_tag = _up(cell.leaving_tag)
    leaving = jnp.where(done, total, _up(cell.leaving))
    leaving_tag = jnp.where(done, operand_tag & below_tag, passing_tag)
    after = _Across(
        operand=operand,
        operand_tag=operand_tag,
        operand_down=below,
        operand_down_tag=below_tag,
        sum=total,
        sum_tag=jnp.where(operand_tag > 0, operand_tag, cell.sum_tag),
        leaving=leaving,
        leaving_tag=leaving_tag,
    )
    moved = leaving_tag[:-1] * ~done[:-1]
    moves = _count(operand_tag[:, 1:] & 1) + _count(below_tag[1:] & 1)
    return after, _Trace(
        leaving=leaving[0],
        left_cells=_count(leaving_tag[0] & 1),
        busy=_count(busy),
        occupied=jnp.any((operand_tag | leaving_tag) > 0),
        conflicts=_count(done & (passing_tag > 0)),
        moves=moves + _count(moved & 1),
        frames={
            "operand": (operand, operand_tag & 1 > 0),
            "operand_down": (below, below_tag & 1 > 0),
            "sum": (total, after.sum_tag & 1 > 0),
            "leaving": (leaving, leaving_tag & 1 > 0),
            "busy": (busy, busy),
        },
    )


@functools.partial(jax.jit, static_argnames=("across", "record"))
def _run(entries: Entries, across: bool, record: bool) -> _Trace:
    """Starts with empty registers and lets the clock tick once for each entry."""
    grid = (entries.left.shape[1], entries.top.shape[1])
    kind = _Across if across else _Kept
    value, total = entries.left.dtype, _SUMS[entries.left.dtype.name]
    types = {"sum": total, "leaving": total, "sum_real": jnp.bool_}
    empty = {
        name: jnp.zeros(grid, jnp.int32 if name.endswith("tag") else types.get(name, value))
        for name in kind._fields
    }

    def tick(cell, entry):
        after, trace = (_cycle_across if across else _cycle_kept)(cell, entry)
        return after, trace if record else trace._replace(frames={})

    return lax.scan(tick, kind(**empty), entries)[1]


def _right(grid: jax.Array, entering: jax.Array) -> jax.Array:
    return jnp.concatenate([entering[:, None], grid[:, :-1]], axis=1)


def _down(grid: jax.Array, entering: jax.Array | None = None) -> jax.Array:
    first = jnp.zeros_like(grid[0]) if entering is None else entering
    return jnp.concatenate([first[None], grid[:-1]])


def _up(grid: jax.Array) -> jax.Array:
    return jnp.concatenate([grid[1:], jnp.zeros_like(grid[:1])])


def _other_tile(tag: jax.Array, other: jax.Array) -> jax.Array:
    return (tag ^ other) > 3


def _count(mask: jax.Array) -> jax.Array:
    return jnp.sum(mask, dtype=jnp.int32)
