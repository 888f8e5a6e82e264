"""Counts the arithmetic of one HLO instruction, and of what a reduction applies.

``operations`` follows XLA's own cost analysis, which counts whatever touches elements:
conversions, selections, comparisons and integers too. ``flops`` is the count made by
hand: additions, multiplications and their like whose result is a floating-point number.

Source: xla/service/hlo_cost_analysis.cc for what is counted, checked against
``compiled.cost_analysis()`` of jaxlib 0.10.2 and 0.12.0 in the tests, 2026-12-01.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from helpers.hlo_module import Computation, Instruction, Module
from helpers.shapes import Array

__all__ = ["Arithmetic", "arithmetic"]

_TRANSCENDENTAL = frozenset(
    "acos acosh asin asinh atan2 atanh cbrt cosh cosine erf exponential "
    "exponential-minus-one log log-plus-one logistic power rsqrt sine sinh sqrt tan "
    "tanh".split()
)
_ARITHMETIC = frozenset(
    "abs add ceil clamp divide floor maximum minimum multiply negate remainder "
    "round-nearest-afz round-nearest-even sign subtract".split()
)
_MOVING = frozenset(
    "and compare complex convert count-leading-zeros imag is-finite not or popcnt real "
    "reduce-precision select shift-left shift-right-arithmetic shift-right-logical "
    "stochastic-convert xor".split()
)
_NUMBERS = re.compile(r"-?\d{1,9}")
_WINDOW = re.compile(r"(\w+)=([\d_x\-]+)")
_LABELS = re.compile(r"([bf\d?]+)_([io\d?]+)->([bf\d?]+)")
# Kernels are counted position by position; a longer one is broken text.
_LONGEST_KERNEL = 2**20


@dataclass(frozen=True)
class Arithmetic:
    """What one run of an instruction computes.

    Attributes:
        flops: Floating-point operations.
        transcendentals: Exponentials, roots and the like, which are not in ``flops``.
        operations: What XLA's cost analysis calls flops.
    """

    flops: int = 0
    transcendentals: int = 0
    operations: int = 0


def _is_float(shape: Array) -> bool:
    return shape.dtype[0] in "fc" or shape.dtype.startswith("bf")


def _fault(instruction: Instruction, expected: str, found: object) -> ValueError:
    return ValueError(
        f"line {instruction.line}: expected {expected} in {instruction.name}, "
        f"got {found!r}"
    )


def _array(where: Computation, instruction: Instruction, number: int) -> Array:
    if number >= len(instruction.operands):
        raise _fault(instruction, f"{number + 1} operands", instruction.arguments)
    return where.by_name[instruction.operands[number]].result.leaves[0]


def _dot(where: Computation, instruction: Instruction) -> int:
    left = _array(where, instruction, 0)
    axes = [
        int(n)
        for n in _NUMBERS.findall(
            instruction.attributes.get("lhs_contracting_dims", "")
        )
    ]
    if not all(0 <= axis < len(left.dimensions) for axis in axes):
        raise _fault(instruction, f"axes of {left}", axes)
    contracted = math.prod(left.dimensions[axis] for axis in axes)
    return 2 * instruction.result.leaves[0].size * contracted


def _valid(size: int, kernel: int, out: int, window: dict[str, int]) -> int:
    """How many products of one spatial dimension do not fall on padding."""
    stride, spread = window["stride"], window["lhs_dilate"]
    span, count = (size - 1) * spread + 1, 0
    for position in range(kernel):
        offset = position * window["rhs_dilate"] - window["pad"]
        low = max(0, -(offset // stride))
        high = min(out, (span - 1 - offset) // stride + 1)
        # Of the outputs in reach, those that meet an element and no dilation.
        period = spread // math.gcd(stride, spread)
        first = next(
            (
                o
                for o in range(low, min(high, low + period))
                if not (o * stride + offset) % spread
            ),
            high,
        )
        count += max(0, -(-(high - first) // period))
    return count


def _windows(instruction: Instruction, rank: int) -> list[dict[str, int]]:
    """Stride, padding and dilation of each spatial dimension."""
    text = dict(_WINDOW.findall(instruction.attributes.get("window", "")))
    columns = {}
    for key in ("stride", "pad", "lhs_dilate", "rhs_dilate"):
        default = "x".join(["0_0" if key == "pad" else "1"] * rank)
        values = [_NUMBERS.match(part) for part in text.get(key, default).split("x")]
        numbers = [int(value[0]) if value else 0 for value in values]
        smallest = -(2**30) if key == "pad" else 1
        if rank and (len(numbers) != rank or min(numbers) < smallest):
            raise _fault(instruction, f"a window of {rank} dimensions", text)
        columns[key] = numbers
    return [{key: columns[key][axis] for key in columns} for axis in range(rank)]


def _convolution(where: Computation, instruction: Instruction) -> int:
    left, right = (_array(where, instruction, number) for number in (0, 1))
    out = instruction.result.leaves[0]
    labels = _LABELS.fullmatch(instruction.attributes.get("dim_labels", ""))
    shapes = (left, right, out)
    if not labels or any(
        len(label) != len(shape.dimensions) or len(set(label)) != len(label)
        for label, shape in zip(labels.groups(), shapes, strict=True)
    ):
        raise _fault(instruction, "dim_labels such as bf_io->bf", instruction.text)
    sizes = [
        dict(zip(label, shape.dimensions, strict=True))
        for label, shape in zip(labels.groups(), shapes, strict=True)
    ]
    spatial = sorted(key for key in sizes[1] if key.isdigit())
    for size, keys in zip(sizes, ("bf", "io", "bf"), strict=True):
        if not {*keys, *spatial} <= set(size):
            raise _fault(instruction, "dim_labels such as bf_io->bf", instruction.text)
    positions = 1
    for axis, window in zip(spatial, _windows(instruction, len(spatial)), strict=True):
        if sizes[1][axis] > _LONGEST_KERNEL or window["lhs_dilate"] > _LONGEST_KERNEL:
            raise _fault(instruction, "a shorter kernel", sizes[1][axis])
        positions *= _valid(sizes[0][axis], sizes[1][axis], sizes[2][axis], window)
    batches = instruction.attributes.get("batch_group_count", "1")
    batch = sizes[0]["b"] // (
        int(batches) if re.fullmatch("[1-9][0-9]{0,8}", batches) else 1
    )
    return 2 * batch * sizes[1]["i"] * sizes[1]["o"] * positions


def _applied(module: Module, instruction: Instruction) -> int:
    """Operations of the computation that a reduction applies to two elements."""
    inner = module.computation(instruction.calls or "").instructions
    return sum(found.opcode in _ARITHMETIC | _MOVING for found in inner)


def _window_repeats(whole: Array, instruction: Instruction) -> int:
    """How often a window's elements are combined, padding included as XLA counts it."""
    text = dict(_WINDOW.findall(instruction.attributes.get("window", "")))
    lengths = [int(n) for n in _NUMBERS.findall(text.get("size", ""))]
    out = instruction.result.leaves[0].dimensions
    if not len(lengths) == len(out) == len(whole.dimensions):
        raise _fault(instruction, f"a window of {len(out)} dimensions", text)
    outputs = combined = 1
    for length, size, count in zip(lengths, whole.dimensions, out, strict=True):
        # The TPU compiler writes a row's sum, given to the whole row, as a window that
        # reaches all of it from everywhere: it is computed once.
        everywhere = size == count > 1 and length >= 2 * size - 1
        outputs *= 1 if everywhere else count
        combined *= size if everywhere else length
    return outputs * max(0, combined - 1)


def _repeats(where: Computation, instruction: Instruction) -> int | None:
    """How often an instruction applies its computation, if it does."""
    size = instruction.result.leaves[0].size if instruction.result.leaves else 0
    if instruction.opcode == "reduce":
        return max(0, _array(where, instruction, 0).size - size)
    if instruction.opcode == "reduce-window":
        return _window_repeats(_array(where, instruction, 0), instruction)
    if instruction.opcode in ("all-reduce", "all-reduce-start"):
        return sum(leaf.size for leaf in instruction.result.leaves)
    if instruction.opcode == "scatter":
        return _array(where, instruction, len(instruction.operands) - 1).size
    return size if instruction.opcode == "map" else None


def arithmetic(
    module: Module, where: Computation, instruction: Instruction
) -> Arithmetic:
    """Counts what one run of an instruction computes itself.

    What it calls is not included: a ``fusion`` or a ``while`` counts nothing. Neither
    does a ``custom-call``, whose work the text does not tell, a ``sort`` or an ``fft``.

    Args:
        module: The module.
        where: The computation that holds the instruction.
        instruction: What to count.

    Returns:
        The counts, of one device.

    Raises:
        ValueError: If its shapes and attributes contradict each other.
    """
    opcode = instruction.opcode
    if not instruction.result.leaves:
        return Arithmetic()
    result = instruction.result.leaves[0]
    if opcode in _TRANSCENDENTAL:
        return Arithmetic(transcendentals=result.size)
    if opcode in _ARITHMETIC or opcode in _MOVING:
        counts = opcode in _ARITHMETIC and _is_float(result)
        return Arithmetic(result.size * counts, 0, result.size)
    if opcode in ("dot", "convolution"):
        count = (_dot if opcode == "dot" else _convolution)(where, instruction)
        return Arithmetic(count * _is_float(result), 0, count)
    repeats = _repeats(where, instruction)
    if repeats is None:
        return Arithmetic()
    count = repeats * _applied(module, instruction)
    return Arithmetic(count * _is_float(result), 0, count)
