"""The cells of a systolic array, and its clock.

`_cycle_kept` and `_cycle_across` are the whole machine: what every cell holds after a
cycle, from what it and its neighbours held before. A cell multiplies, adds and passes
on; nothing else reaches memory. Each register of the grid is one array of its shape, a
step to a neighbour is a shift of it, and ``lax.scan`` is the clock. Beside each value
goes its tag, see ``helpers.systolic_tiling``; it decides nothing but when a cell turns
to the next tile, and lets what happens be counted.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from helpers.systolic_tiling import Entries

__all__ = ["SUM_TYPES", "Trace", "run"]

SUM_TYPES = {"int8": jnp.int32, "bfloat16": jnp.float32, "float32": jnp.float32}
"""The type in which a cell adds, by that of its operands."""
_HALF = 0xFFFF


class Trace(NamedTuple):
    """What is seen of each cycle.

    Attributes:
        leaving: Values in the row of cells at which results leave, [cycles, cols].
        left: Which of them belong to a result, [cycles, cols].
        occupied: Whether something reaches the far side of the array in this cycle:
            an operand its last column, or a sum the row at which it leaves.
        busy: Cells that multiply, in each column; so are the next three.
        conflicts: Cells with the weight of another tile, or in which two sums meet.
        operand_moves: Copies of an operand from a neighbour, padding left out.
        sum_passes: Sums passed on, with nothing added.
        frames: Each register, [cycles, rows, cols], with whether it is no padding; none
            unless recorded.
    """

    leaving: jax.Array
    left: jax.Array
    occupied: jax.Array
    busy: jax.Array
    conflicts: jax.Array
    operand_moves: jax.Array
    sum_passes: jax.Array
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


def _cycle_kept(cell: _Kept, entry: Entries) -> tuple[_Kept, Trace]:
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
    work = _count(busy, wrong)
    moved = _count((arriving_tag & 1) + (operand_tag & 1), sum_real & ~busy)
    return after, Trace(
        leaving=total[-1],
        left=sum_real[-1],
        occupied=jnp.any(operand_tag[:, -1] > 0),
        busy=work & _HALF,
        conflicts=work >> 16,
        operand_moves=_inner(moved & _HALF, operand_tag, arriving_tag),
        sum_passes=moved >> 16,
        frames={
            "operand": (operand, operand_tag & 1 > 0),
            "weight": (weight, weight_tag & 1 > 0),
            "arriving": (arriving, arriving_tag & 1 > 0),
            "next": (after.next, _waits(after)),
            "sum": (total, sum_real),
            "busy": (busy, busy),
        },
    )


def _cycle_across(cell: _Across, entry: Entries) -> tuple[_Across, Trace]:
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
    work = _count(busy, done & (passing_tag > 0))
    moved = _count((below_tag & 1) + (operand_tag & 1), passing_tag & ~done & 1)
    return after, Trace(
        leaving=leaving[0],
        left=leaving_tag[0] & 1,
        occupied=jnp.any(leaving_tag[0] > 0),
        busy=work & _HALF,
        conflicts=work >> 16,
        operand_moves=_inner(moved & _HALF, operand_tag, below_tag),
        sum_passes=moved >> 16,
        frames={
            "operand": (operand, operand_tag & 1 > 0),
            "operand_down": (below, below_tag & 1 > 0),
            "sum": (total, after.sum_tag & 1 > 0),
            "leaving": (leaving, leaving_tag & 1 > 0),
            "busy": (busy, busy),
        },
    )


@functools.partial(jax.jit, static_argnames=("across", "record"))
def run(entries: Entries, across: bool, record: bool) -> Trace:
    """Starts with empty registers and lets the clock tick once for each entry.

    Args:
        entries: What enters at the rim in each cycle.
        across: Whether sums stay in the cells, and not weights.
        record: Whether to keep all registers of all cycles.

    Returns:
        What is seen, cycle by cycle.
    """
    grid = (entries.left.shape[1], entries.top.shape[1])
    kind = _Across if across else _Kept
    value, total = entries.left.dtype, SUM_TYPES[entries.left.dtype.name]
    types = {"sum": total, "leaving": total, "sum_real": jnp.bool_}
    empty = {
        name: jnp.zeros(
            grid,
            entries.left_tag.dtype if name.endswith("tag") else types.get(name, value),
        )
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


def _waits(cell: _Kept) -> jax.Array:
    """Where the next weight is in place, and the operand that makes it the weight
    has yet to come."""
    return _other_tile(cell.next_tag, cell.weight_tag) & (cell.next_tag & 1 > 0)


def _other_tile(tag: jax.Array, other: jax.Array) -> jax.Array:
    return (tag ^ other) > 3


def _count(first: jax.Array, second: jax.Array) -> jax.Array:
    """Two counts for each column, in the halves of one number: each sum takes time."""
    both = first.astype(jnp.int32) + (second.astype(jnp.int32) << 16)
    return jnp.sum(both, axis=0)


def _inner(moves: jax.Array, right_tag: jax.Array, down_tag: jax.Array) -> jax.Array:
    """Moves without those that come from outside: into the first row and column."""
    from_left = jnp.sum(right_tag[:, 0] & 1, dtype=jnp.int32)
    return (moves - (down_tag[0] & 1)).at[0].add(-from_left)
