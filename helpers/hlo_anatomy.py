"""Takes one printed HLO instruction apart, piece by piece, and says what each piece is.

The pieces put together are the line: nothing is left out. What a number means on a chip
is said only where it can be read off the notation itself.

Source: openxla.org/xla/shapes for the notation of types, layouts and S(1), 2026-12-01.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from helpers.hlo_module import Instruction
from helpers.hlo_text import split_list
from helpers.shapes import Array, parse_shape

__all__ = ["Piece", "anatomy", "settings"]

_HEAD = re.compile(r"\s*(ROOT )?(%?[\w.\-]+)( = )")
_OPCODE = re.compile(r" ([\w\-]+)(?=\()")
_TYPE = re.compile(r"([a-z]\w*)(\[[^\]]*\])(?:\{([\d,]*)((?::[^{}]*)?)\})?")
_SETTING = re.compile(r"([A-Z]+)((?:\([^()]*\))+)")
_COMMENT = re.compile(r"/\*.*?\*/\s*")
_COMPUTATIONS = "calls to_apply condition body branch_computations".split()
_SPACES = {0: "the device's main memory (HBM on a TPU)", 1: "VMEM (on a TPU)"}
_OPCODES = {
    "add": "adds element by element",
    "all-reduce": "combines a value over the devices of each group",
    "bitcast": "the same bytes under another type; moves nothing",
    "broadcast": "repeats a value along new dimensions",
    "constant": "a value known to the compiler",
    "convert": "changes the element type",
    "convolution": "multiplies and adds; on a TPU also a matrix product",
    "copy": "copies, perhaps into another layout or memory",
    "copy-done": "waits for the copy that a copy-start began",
    "copy-start": "begins a copy and does not wait for it",
    "dot": "a matrix product",
    "fusion": "runs another computation as one operation",
    "get-tuple-element": "takes one value out of a tuple",
    "multiply": "multiplies element by element",
    "parameter": "an argument, by its number",
    "tuple": "several values as one",
    "while": "repeats its body while its condition holds",
}
_ROLES = {"parameter": "which argument, from 0", "constant": "the value"}
_ATTRIBUTES = {
    "backend_config": "settings of the back end",
    "channel_id": "the name of this exchange between devices",
    "cross_program_prefetch_index": "the copy may begin before the program does",
    "dim_labels": "what each dimension of the operands and of the result is",
    "dimensions": "the dimensions concerned",
    "dynamic_slice_sizes": "the size of what is cut out",
    "frontend_attributes": "what JAX attached",
    "index": "which part of the tuple",
    "kind": "the kind of fusion",
    "metadata": "where in the Python program it comes from",
    "replica_groups": "the devices that take part together",
    "sharding": "how the value is cut over devices",
}


@dataclass(frozen=True)
class Piece:
    """A part of a line.

    Attributes:
        text: The part as printed.
        meaning: What it is; empty for punctuation.
    """

    text: str
    meaning: str = ""


def anatomy(line: str) -> list[Piece]:
    """Takes a line of an HLO module apart.

    Args:
        line: One instruction, as printed, with all that follows it.

    Returns:
        The pieces in order; their texts put together are the line.

    Raises:
        ValueError: If the line is no instruction.
    """
    head = _HEAD.match(line)
    if not head:
        raise ValueError(f"expected an instruction, got {line.strip()[:40]!r}")
    pieces = [Piece(line[: head.start(1) if head[1] else head.start(2)])]
    if head[1]:
        pieces.append(Piece(head[1], "the value that the computation returns"))
    pieces += [Piece(head[2], "name of the instruction, and of its value")]
    pieces += [Piece(head[3])]
    _, end = parse_shape(line, head.end())
    pieces += _type_pieces(line[head.end() : end])
    opcode = _OPCODE.match(line, end)
    if not opcode:
        raise ValueError(f"expected an opcode, got {line[end : end + 20]!r}")
    meaning = _OPCODES.get(opcode[1], "what is done")
    pieces += [Piece(" "), Piece(opcode[1], f"opcode: {meaning}"), Piece("(")]
    operands, after = split_list(line, opcode.end() + 1, ")")
    role = _ROLES.get(opcode[1], "operand: a value from a line above")
    pieces += _listed(line, opcode.end() + 1, operands, dict.fromkeys(operands, role))
    attributes = split_list(line, after + 2)[0]
    meanings = {text: _attribute(text) for text in attributes}
    pieces += _listed(line, _end_of(pieces), attributes, meanings)
    pieces.append(Piece(line[_end_of(pieces) :]))
    return [piece for piece in pieces if piece.text]


def _end_of(pieces: list[Piece]) -> int:
    return sum(len(piece.text) for piece in pieces)


def _listed(
    line: str, start: int, parts: list[str], meanings: dict[str, str]
) -> Iterator[Piece]:
    """Parts of a list with what stands between them."""
    for part in parts:
        at = line.index(part, start)
        yield Piece(line[start:at])
        start = at + len(part)
        # XLA counts long lists for the reader: /*index=5*/%name.
        comment = _COMMENT.match(part)
        if comment:
            yield Piece(comment[0], "a comment")
        yield Piece(part[comment.end() if comment else 0 :], meanings[part])


def _attribute(text: str) -> str:
    key = text.partition("=")[0]
    if key in _COMPUTATIONS:
        return "another computation of the module that it runs"
    return _ATTRIBUTES.get(key, "an attribute of this opcode")


def _type_pieces(text: str) -> Iterator[Piece]:
    """A type, or a tuple of types."""
    at = 0
    for found in _TYPE.finditer(text):
        yield Piece(text[at : found.start()])
        array, _ = parse_shape(found[0])
        assert isinstance(array, Array)
        width = f"{array.bits} bits" if array.bits else "no size"
        yield Piece(found[1], f"element type, {width}")
        yield Piece(found[2], f"lengths of the dimensions: {_elements(array)}")
        if found[3] is not None:
            yield Piece("{")
            order = ", then ".join(map(str, array.layout.minor_to_major))
            yield Piece(found[3], f"order in memory: fastest dimension {order}")
            yield from _layout_pieces(found[4], array)
            yield Piece("}")
        at = found.end()
    yield Piece(text[at:])


def _elements(array: Array) -> str:
    if -1 in array.dimensions:
        return "not all known"
    count = math.prod(array.dimensions)
    return "one element" if count == 1 else f"{count:,} elements"


def _layout_pieces(text: str, array: Array) -> Iterator[Piece]:
    at = 0
    for found in _SETTING.finditer(text):
        yield Piece(text[at : found.start()])
        if found[1] == "T":
            tiles = ", each made of tiles of ".join(
                " by ".join(map(str, tile)) for tile in array.layout.tiles
            )
            stored = f"{array.stored_bytes:,} bytes stored, {array.size_bytes:,} used"
            yield Piece(found[0], f"stored in tiles of {tiles}; {stored}")
        elif found[1] == "S":
            space = array.layout.memory_space
            where = _SPACES.get(space, "another memory")
            yield Piece(found[0], f"memory space {space}: {where}")
        else:
            yield Piece(found[0], "a setting of the layout")
        at = found.end()
    yield Piece(text[at:])


def settings(instruction: Instruction) -> dict[str, Any]:
    """Lists what the back end has written on an instruction.

    Entries that are empty, zero or false are left out: they are what is not set.

    Args:
        instruction: An instruction of a compiled module.

    Returns:
        Values by their path, such as ``window_config.estimated_cycles``; empty where
        there are none.
    """
    return dict(_flat("", instruction.backend_config))


def _flat(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _flat(f"{path}.{key}" if path else key, part)
    elif isinstance(value, list) and any(isinstance(part, dict) for part in value):
        for number, part in enumerate(value):
            yield from _flat(f"{path}[{number}]", part)
    elif value not in ([], {}, "", "0", 0, False, None):
        yield path or "text", value
