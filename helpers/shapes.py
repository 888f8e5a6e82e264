"""Reads XLA's notation for types: ``bf16[256,512]{1,0:T(8,128)(2,1)S(1)}`` and tuples.

A type names the element, the lengths of the dimensions and, in braces, the layout: the
dimensions from the one that varies fastest to the slowest, then the tiles that a TPU
stores, the bits of an element where they are packed (``E``) and the memory space
(``S``).

Source: xla/shape_util.cc, xla/layout.cc and xla/hlo/parser/hlo_parser.cc, read through
what jaxlib 0.10.2 and 0.12.0 parse and print, 2026-12-01.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

__all__ = ["Array", "Layout", "Malformed", "Tuple", "parse_shape"]

# XLA prints no tuple deeper than a handful; a limit keeps broken text from exhausting
# Python's stack, here and wherever a nested value is printed or compared.
_DEPTH = 64
_SPACE = re.compile(r"(?:\s|/\*.*?\*/)*")
_ARRAY = re.compile(r"([a-z]\w*)\[([\d,<=? ]*)\]")
_LAYOUT = re.compile(r"\{([\d,]*)(:[^{}]*)?\}")
_SETTING = re.compile(r"([A-Z]+|[#*])((?:\([^()]*\))+)")
_LENGTHS = re.compile(r"\(([\d,]+)\)")
_WIDTH = re.compile(r"(?:[a-z]+)(\d+)")
# No value can be stored in these, or XLA gives them no size.
_WITHOUT_SIZE = ("token", "opaque")


class Malformed(ValueError):
    """Text that breaks the notation.

    Attributes:
        column: Where in its line, from 0.
    """

    def __init__(self, column: int, expected: str, text: str) -> None:
        found = repr(text[column : column + 20]) if column < len(text) else "the end"
        super().__init__(f"expected {expected}, got {found}")
        self.column = column


@dataclass(frozen=True)
class Layout:
    """How an array lies in memory.

    Attributes:
        minor_to_major: Dimensions, the one whose neighbours are adjacent first.
        tiles: Lengths of the tiles, outermost first; a tile inside a tile follows it.
        memory_space: 0 is the device's main memory; on a TPU 1 is the vector memory.
        element_bits: Bits of a packed element, 0 where the type's own size holds.
    """

    minor_to_major: tuple[int, ...] = ()
    tiles: tuple[tuple[int, ...], ...] = ()
    memory_space: int = 0
    element_bits: int = 0


@dataclass(frozen=True)
class Array:
    """The type of one array.

    Attributes:
        dtype: Element type as XLA names it, such as ``bf16``, ``s32``, ``pred``.
        dimensions: Lengths; the bound of a dynamic one, -1 if it has none.
        layout: How it lies in memory; empty where none is printed.
    """

    dtype: str
    dimensions: tuple[int, ...] = ()
    layout: Layout = Layout()

    @property
    def size(self) -> int:
        """The number of elements."""
        if -1 in self.dimensions:
            raise ValueError(f"expected dimensions of known length, got {self}")
        return math.prod(self.dimensions)

    @property
    def bits(self) -> int:
        """Bits that an element takes in memory: whole bytes unless it is packed."""
        if self.layout.element_bits:
            return self.layout.element_bits
        if self.dtype in _WITHOUT_SIZE:
            return 0
        width = _WIDTH.match(self.dtype)
        bits = 8 if self.dtype == "pred" else int(width.group(1)) if width else 0
        if not bits:
            raise ValueError(f"expected an element type of known size, got {self}")
        return max(8, bits)

    @property
    def size_bytes(self) -> int:
        """Bytes of the elements alone."""
        return -(-self.size * self.bits // 8)

    @property
    def stored_bytes(self) -> int:
        """Bytes in memory, with every dimension rounded up to whole tiles."""
        lengths = [self.dimensions[i] for i in reversed(self.layout.minor_to_major)]
        if not lengths:
            lengths = list(self.dimensions)
        for tile in self.layout.tiles:
            lengths = [1] * (len(tile) - len(lengths)) + lengths
            outer, inner = lengths[: -len(tile)], lengths[-len(tile) :]
            counts = [-(-n // t) for n, t in zip(inner, tile, strict=True)]
            lengths = [*outer, *counts, *tile]
        return -(-math.prod(lengths) * self.bits // 8)

    @property
    def leaves(self) -> tuple[Array, ...]:
        """The arrays it consists of: itself."""
        return (self,)

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.dimensions))}]"


@dataclass(frozen=True)
class Tuple:
    """The type of several values.

    Attributes:
        parts: Their types, in order.
    """

    parts: tuple[Array | Tuple, ...]

    @property
    def leaves(self) -> tuple[Array, ...]:
        """All arrays in it, in printed order."""
        return tuple(leaf for part in self.parts for leaf in part.leaves)

    @property
    def size_bytes(self) -> int:
        """Bytes of all elements."""
        return sum(leaf.size_bytes for leaf in self.leaves)

    @property
    def stored_bytes(self) -> int:
        """Bytes in memory of all arrays, in whole tiles."""
        return sum(leaf.stored_bytes for leaf in self.leaves)

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.parts))})"


def _layout(text: str, at: int, rank: int) -> tuple[Layout, int]:
    """The layout whose brace stands at ``at``, and where it ends."""
    found = _LAYOUT.match(text, at)
    if not found:
        raise Malformed(at, "a layout such as {1,0:T(8,128)}", text)
    order = tuple(int(i) for i in found.group(1).split(",") if i)
    if sorted(order) != list(range(rank)):
        raise Malformed(at, f"a layout of {rank} dimensions", text)
    settings = dict(_SETTING.findall(found.group(2) or ""))
    tiles = []
    for lengths in _LENGTHS.findall(settings.get("T", "")):
        # An empty length is refused below, with those that no memory could hold.
        tiles.append(
            tuple(int(n) if 0 < len(n) < 16 else 0 for n in lengths.split(","))
        )
    if "*" in settings.get("T", "") or not all(map(all, tiles)):
        raise Malformed(at, "tiles of lengths above 0", text)
    numbers = [settings.get(key, "(0)")[1:-1] for key in "SE"]
    if not all(number.isdigit() and len(number) < 5 for number in numbers):
        raise Malformed(at, "a memory space or a number of bits", text)
    return Layout(order, tuple(tiles), *map(int, numbers)), found.end()


def _array(text: str, at: int) -> tuple[Array, int]:
    found = _ARRAY.match(text, at)
    if not found:
        raise Malformed(at, "a type such as f32[8,128]", text)
    lengths = []
    for length in found.group(2).split(",") if found.group(2) else []:
        number = length.strip().removeprefix("<=")
        # Fifteen digits: what Python multiplies and prints without a limit in sight.
        if number != "?" and not (number.isdigit() and len(number) < 16):
            raise Malformed(found.start(2), "lengths of dimensions", text)
        lengths.append(-1 if number == "?" else int(number))
    layout, end = Layout(), found.end()
    if text.startswith("{", end):
        layout, end = _layout(text, end, len(lengths))
    return Array(found.group(1), tuple(lengths), layout), end


def _shape(text: str, at: int, depth: int) -> tuple[Array | Tuple, int]:
    """The type that begins at ``at``, and the index after it."""
    if depth > _DEPTH:
        raise Malformed(at, f"tuples nested at most {_DEPTH} deep", text)
    if text.startswith("b(", at):  # a buffer: memory that is an array's and stays so
        shape, end = _shape(text, at + 2, depth + 1)
        if not text.startswith(")", end):
            raise Malformed(end, "')'", text)
        return shape, end + 1
    if not text.startswith("(", at):
        return _array(text, at)
    parts, at = [], _SPACE.match(text, at + 1).end()
    while not text.startswith(")", at):
        if parts:
            if not text.startswith(",", at):
                raise Malformed(at, "',' or ')'", text)
            at = _SPACE.match(text, at + 1).end()
        part, at = _shape(text, at, depth + 1)
        parts.append(part)
        at = _SPACE.match(text, at).end()
    return Tuple(tuple(parts)), at + 1


def parse_shape(text: str, start: int = 0) -> tuple[Array | Tuple, int]:
    """Reads one type.

    Args:
        text: Text that holds it, such as a line of an HLO module.
        start: The index of its first character.

    Returns:
        The type, and the index after its last character.

    Raises:
        Malformed: A ``ValueError`` with the column, if no type begins there.
    """
    return _shape(text, start, 0)
