"""What work costs by formula: FLOPs, bytes moved, and sizes at which they balance."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

__all__ = [
    "Cost",
    "Counted",
    "critical_batch",
    "critical_size",
    "intensity",
    "matmul_cost",
    "useful_fraction",
]


class Counted(Protocol):
    """Work that has been counted: a `Cost`, or a compiled program."""

    @property
    def flops(self) -> float:
        """Arithmetic operations."""

    @property
    def bytes_accessed(self) -> float:
        """Bytes read from memory and written to it."""


@dataclass(frozen=True)
class Cost:
    """What a formula counts.

    Attributes:
        flops: Arithmetic operations; a multiply-accumulate is two.
        bytes_accessed: Bytes read from memory and written to it.
    """

    flops: float
    bytes_accessed: float


def intensity(work: Counted) -> float:
    """Divides the arithmetic of some work by the bytes it moves.

    Args:
        work: A `Cost`, or a program.

    Returns:
        FLOP/byte; infinite if it moves none.
    """
    return work.flops / work.bytes_accessed if work.bytes_accessed else math.inf


def matmul_cost(
    rows: float,
    inner: float,
    columns: float,
    *,
    products: float = 1,
    left_bytes: float = 2,
    right_bytes: float = 2,
    result_bytes: float = 2,
) -> Cost:
    """Counts a matrix product, each matrix moved once: BDF/(BD+DF+BF) in bf16.

    Args:
        rows: B, of the left matrix [B, D].
        inner: D, the contracted length.
        columns: F, of the right matrix [D, F].
        products: How many such products, each with its own matrices.
        left_bytes: Of an element of the left matrix; 0 if it is not moved.
        right_bytes: Of an element of the right matrix.
        result_bytes: Of an element of the result.

    Returns:
        2·B·D·F FLOPs and the bytes of the three matrices, for each product.
    """
    left, right = rows * inner * left_bytes, inner * columns * right_bytes
    moved = left + right + rows * columns * result_bytes
    return Cost(2 * products * rows * inner * columns, products * moved)


def critical_batch(
    ridge: float,
    *,
    inner: float = math.inf,
    columns: float = math.inf,
    left_bytes: float = 2,
    right_bytes: float = 2,
    result_bytes: float = 2,
) -> float:
    """The least rows B for which a product [B, D] by [D, F] is bound by arithmetic.

    Args:
        ridge: Of the machine, in FLOP/byte.
        inner: D; infinite for the rule of thumb, which is then half the ridge times
            the bytes of a weight.
        columns: F.
        left_bytes: Of an element of the left matrix.
        right_bytes: Of an element of the right matrix, the weights.
        result_bytes: Of an element of the result.

    Returns:
        B, not rounded; infinite if D and F are too small for any.
    """
    per_row = ridge * (left_bytes / columns + result_bytes / inner)
    return ridge * right_bytes / (2 - per_row) if per_row < 2 else math.inf


def critical_size(intensity_of: Callable[[float], float], ridge: float) -> float:
    """The least size at which work reaches a ridge, whatever its formula.

    Args:
        intensity_of: FLOP/byte at a size; must not fall as the size grows.
        ridge: In FLOP/byte.

    Returns:
        The size, to 12 digits; infinite if 2**64 is not enough.
    """
    high = 1.0
    while intensity_of(high) < ridge:
        high *= 2
        if high > 2.0**64:
            return math.inf
    low = high / 2 if high > 1 else 0.0
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if intensity_of(middle) < ridge else (low, middle)
    return high


def useful_fraction(shape: Sequence[int], tile: Sequence[int]) -> float:
    """The share of a padded array that holds data.

    Args:
        shape: Lengths, at least 1.
        tile: What each length is padded to a multiple of.

    Returns:
        Elements over elements after padding.

    Raises:
        ValueError: If there are not as many tile lengths, or one is below 1.
    """
    if len(shape) != len(tile) or min(*shape, *tile) < 1:
        raise ValueError(f"expected a tile of lengths >= 1 for {shape}, got {tile}")
    padded = (-(-n // t) * t for n, t in zip(shape, tile, strict=True))
    return math.prod(shape) / math.prod(padded)
