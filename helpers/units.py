"""Quantities as readers see them.

Capacities are in binary units (GiB), rates in decimal ones (GB/s); FLOPs are
counted, FLOP/s are a rate. Three significant digits, unless a value is exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, SupportsFloat

__all__ = [
    "format_bytes",
    "format_bytes_per_s",
    "format_cycles",
    "format_flops",
    "format_flops_per_s",
    "format_number",
    "format_seconds",
    "python_scalar",
]

_BINARY = tuple(
    (1024.0**power, f"{prefix}B")
    for power, prefix in enumerate(["", "Ki", "Mi", "Gi", "Ti", "Pi"])
)
_DECIMAL = tuple(
    (1000.0**power, prefix)
    for power, prefix in enumerate(["", "k", "M", "G", "T", "P", "E", "Z", "Y"])
)
_SECONDS = ((1e-12, "ps"), (1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms"), (1.0, "s"))


def format_bytes(size_bytes: SupportsFloat) -> str:
    """Formats a capacity or a size in binary units.

    Args:
        size_bytes: A number of bytes, at least 0.

    Returns:
        For example ``"16 GiB"``.

    Raises:
        TypeError: If the value is not a number.
        ValueError: If it is negative, not finite or too large for a float.
    """
    return _scaled(_quantity(size_bytes, "size_bytes"), _BINARY)


def format_bytes_per_s(rate_bytes_per_s: SupportsFloat) -> str:
    """Formats a bandwidth in decimal units.

    Args:
        rate_bytes_per_s: Bytes per second, at least 0.

    Returns:
        For example ``"819 GB/s"``.

    Raises:
        TypeError: If the value is not a number.
        ValueError: If it is negative, not finite or too large for a float.
    """
    value = _quantity(rate_bytes_per_s, "rate_bytes_per_s")
    return _scaled(value, _decimal("B/s"))


def format_seconds(time_s: SupportsFloat) -> str:
    """Formats a duration.

    Args:
        time_s: Seconds, at least 0.

    Returns:
        For example ``"5.58 ms"``; from two minutes ``"2 min 30 s"``, from two
        hours ``"2 h 30 min"``.

    Raises:
        TypeError: If the value is not a number.
        ValueError: If it is negative, not finite or too large for a float.
    """
    value = _quantity(time_s, "time_s")
    if value < 119.5:
        return _scaled(value, _SECONDS) if value else "0 s"
    minutes, seconds = divmod(round(value), 60)
    if minutes < 120:
        return f"{minutes} min {seconds} s"
    hours, minutes = divmod(round(value / 60), 60)
    return f"{hours:,} h {minutes} min"


def format_flops(count_flops: SupportsFloat) -> str:
    """Formats a count of floating-point operations.

    Args:
        count_flops: FLOPs, at least 0.

    Returns:
        For example ``"1.10 TFLOPs"``.

    Raises:
        TypeError: If the value is not a number.
        ValueError: If it is negative, not finite or too large for a float.
    """
    return _scaled(_quantity(count_flops, "count_flops"), _decimal("FLOPs"))


def format_flops_per_s(rate_flops_per_s: SupportsFloat) -> str:
    """Formats a rate of floating-point operations.

    Args:
        rate_flops_per_s: FLOPs per second, at least 0.

    Returns:
        For example ``"197 TFLOP/s"``.

    Raises:
        TypeError: If the value is not a number.
        ValueError: If it is negative, not finite or too large for a float.
    """
    value = _quantity(rate_flops_per_s, "rate_flops_per_s")
    return _scaled(value, _decimal("FLOP/s"))


def format_cycles(count_cycles: SupportsFloat) -> str:
    """Formats a count of clock cycles, in full.

    Args:
        count_cycles: Cycles, at least 0.

    Returns:
        For example ``"9,557,312 cycles"``.

    Raises:
        TypeError: If the value is not a number.
        ValueError: If it is negative, not finite or too large for a float.
    """
    value = _quantity(count_cycles, "count_cycles")
    return f"{round(value):,} cycle{'' if round(value) == 1 else 's'}"


def format_number(value: SupportsFloat) -> str:
    """Formats a number without a unit: whole numbers in full, others to 3 digits.

    Args:
        value: Any number, also negative, infinite or NaN.

    Returns:
        For example ``"8,030,261,248"``, ``"0.125"`` or ``"1.23e-07"``.

    Raises:
        TypeError: If the value is not a number.
        ValueError: If it is too large for a float.
    """
    number = _float(value, "value")
    if not math.isfinite(number):
        return str(number)
    whole = number.is_integer() or abs(number) >= 999.5
    return f"{round(number):,}" if whole and abs(number) < 1e15 else f"{number:.3g}"


def python_scalar(value: Any) -> Any:
    """Takes a number or a bool out of the array of no dimensions that holds it.

    Args:
        value: A NumPy, JAX or PyTorch scalar, or anything else.

    Returns:
        The Python value, or what was given if it is no such scalar.
    """
    wrapped = getattr(value, "shape", None) == () and hasattr(value, "item")
    return value.item() if wrapped else value


def _float(value: SupportsFloat, name: str) -> float:
    # NumPy's text and complex scalars have __float__; what is in them has not.
    plain = python_scalar(value)
    sized = getattr(plain, "shape", ()) != ()
    if isinstance(plain, bool) or sized or not hasattr(plain, "__float__"):
        raise TypeError(f"expected {name} to be a number, got {value!r}")
    try:
        return float(plain)
    except OverflowError:
        # Not quoted: Python refuses to print an int of more than 4,300 digits.
        raise ValueError(
            f"expected {name} to be within ±1.8e308, "
            f"got a larger {type(plain).__name__}"
        ) from None


def _quantity(value: SupportsFloat, name: str) -> float:
    number = _float(value, name)
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(f"expected {name} to be finite and at least 0, got {number}")
    return number


def _decimal(unit: str) -> tuple[tuple[float, str], ...]:
    return tuple((size, prefix + unit) for size, prefix in _DECIMAL)


def _scaled(value: float, units: Sequence[tuple[float, str]]) -> str:
    """Picks the largest unit that leaves at least 1, if any, rounded to 3 digits."""
    size, unit = units[0]
    for larger, name in units[1:]:
        if float(f"{value / larger:.3g}") < 1:
            break
        size, unit = larger, name
    scaled = value / size
    if scaled.is_integer() or scaled >= 999.5:
        return f"{scaled:,.0f} {unit}"
    if scaled < 0.9995:
        return f"{scaled:.3g} {unit}"
    digits = 2 if scaled < 9.995 else 1 if scaled < 99.95 else 0
    return f"{scaled:.{digits}f} {unit}"
