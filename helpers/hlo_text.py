"""Takes lines of HLO text apart: brackets, device groups, places in the source.

Nothing here knows what an operation does. Every function walks its text once, without
recursion, so that broken or deeply nested text ends in an error and not in a hang.
"""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass

from helpers.shapes import Malformed

__all__ = ["Source", "device_groups", "read_sources", "split_list"]

_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|/\*.*?\*/|[(){}\[\],"]')
_PAIRS = {")": "(", "}": "{", "]": "["}
_EXPLICIT = re.compile(r"\{((?:\{[\d,]*\},?)*)\}")
_IOTA = re.compile(r"\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_MESH = re.compile(r"mesh\[([^\]]*)\](?:, device_ids=\((.*)\))? ?\{([^}]*)\}")
_MESH_AXIS = re.compile(r"'([^']+)'=(\d+)")
_GROUP_AXIS = re.compile(r"'([^']+)'(?::\((\d+)\)(\d+))?")
# The largest slice has 18,432 devices; a number far beyond it is broken text.
_MOST_DEVICES = 2**20
_MOST_CALLERS = 100
_FIELD = re.compile(r"(\w+)=(\d+)")
_ROW = re.compile(r'(\d{1,15}) (?:"([^"\\]*(?:\\.[^"\\]*)*)"|\{([^}]*)\})$')


@dataclass(frozen=True)
class Source:
    """A place in the program that was compiled.

    Attributes:
        file: Path of the file.
        line: Line in it, from 1.
        function: Name of the function there; empty where the text has none.
    """

    file: str
    line: int
    function: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def split_list(text: str, start: int, closer: str = "") -> tuple[list[str], int]:
    """Splits text at the commas outside of brackets, strings and comments.

    Args:
        text: One line.
        start: Where the list begins.
        closer: The bracket that ends it; the end of the text when empty.

    Returns:
        The parts without surrounding space, and the index after the list.

    Raises:
        Malformed: If brackets or quotes do not match.
    """
    parts, open_brackets, begin = [], [], start
    for token in _TOKEN.finditer(text, start):
        sign, at = token[0], token.start()
        if sign in "({[":
            open_brackets.append(sign)
        elif sign in _PAIRS:
            if not open_brackets and sign == closer:
                parts.append(text[begin:at].strip())
                return [part for part in parts if part], at + 1
            if not open_brackets or open_brackets.pop() != _PAIRS[sign]:
                raise Malformed(at, "matching brackets", text)
        elif sign == "," and not open_brackets:
            parts.append(text[begin:at].strip())
            begin = at + 1
        elif sign == '"':
            raise Malformed(at, "a closing quote", text)
    if open_brackets or closer:
        expected = closer or f"the end of {open_brackets[-1]!r}"
        raise Malformed(len(text), expected, text)
    parts.append(text[begin:].strip())
    return [part for part in parts if part], len(text)


def _numbers(text: str) -> list[int]:
    return [int(n) for n in text.split(",") if n and len(n) < 16]


def _transposed(lengths: list[int], order: list[int]) -> list[int]:
    """0, 1, 2, … in the order they have after a transpose of an array of them."""
    if sorted(order) != list(range(len(lengths))):
        raise ValueError(f"expected an order of {len(lengths)} axes, got {order}")
    if not 0 < math.prod(lengths) <= _MOST_DEVICES:
        raise ValueError(f"expected a number of devices, got {lengths}")
    strides = [math.prod(lengths[axis + 1 :]) for axis in range(len(lengths))]
    steps = [range(0, lengths[axis] * strides[axis], strides[axis]) for axis in order]
    return [sum(position) for position in itertools.product(*steps)]


def _cut(devices: list[int], size: int) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(devices[at : at + size]) for at in range(0, len(devices), size))


def _iota(count_and_size: str, source: str, order: str | None) -> list[list[int]]:
    lengths = _numbers(source)
    axes = _numbers(order) if order else list(range(len(lengths)))
    devices = _transposed(lengths, axes)
    shape = _numbers(count_and_size)
    if math.prod(shape) != len(devices):
        raise ValueError(f"expected {len(devices)} devices in groups, got {shape}")
    return [shape, devices]


def _mesh(axes: str, devices: str | None, grouped: str) -> tuple[tuple[int, ...], ...]:
    """Groups along named axes of a mesh, ``mesh['x'=2,'y'=4] {'y'}``.

    ``'y':(2)2`` takes a part of an axis: cut into 2 and 2 (and what remains), the
    second of them.
    """
    lengths, inside = [], []
    chosen = {n: (before, size) for n, before, size in _GROUP_AXIS.findall(grouped)}
    for name, size in _MESH_AXIS.findall(axes):
        length = _numbers(size)[0] if len(size) < 16 else 0
        before, part = chosen.pop(name, ("", None))
        if part is None:
            lengths.append(length)
        elif not part:
            inside.append(len(lengths))
            lengths.append(length)
        else:
            cuts = [int(before), int(part)] if len(before + part) < 16 else [0, 0]
            if not math.prod(cuts) or length % math.prod(cuts):
                raise ValueError(f"expected a part of {length} devices, got {cuts}")
            inside.append(len(lengths) + 1)
            lengths += [*cuts, length // math.prod(cuts)]
    if chosen or not lengths:
        raise ValueError(f"expected axes among {axes}, got {grouped}")
    outside = [axis for axis in range(len(lengths)) if axis not in inside]
    order = _transposed(lengths, outside + inside)
    if devices:
        table = _IOTA.fullmatch(devices) or _IOTA.fullmatch(
            re.sub(r"^(\[[\d,]+\])", lambda m: f"[{len(order)}]<={m[1]}", devices)
        )
        if not table:
            raise ValueError(f"expected device ids as [..]T(..), got {devices!r}")
        names = _iota(*table.groups())[1]
        if len(names) != len(order):
            raise ValueError(f"expected {len(order)} device ids, got {len(names)}")
        order = [names[device] for device in order]
    return _cut(order, math.prod(lengths[axis] for axis in inside))


def device_groups(text: str) -> tuple[tuple[int, ...], ...]:
    """Reads which devices talk to each other, in any of XLA's three notations.

    Args:
        text: ``{{0,2},{1,3}}``; or ``[2,4]<=[4,2]T(1,0)``, which is 2 groups of 4 from
            the numbers 0 to 7 laid out as 4 by 2 and transposed; or, since libtpu
            0.0.50, ``mesh['x'=2,'y'=4] {'y'}``, one group for each row of a mesh.

    Returns:
        The devices of each group; empty for ``{}``, which stands for one group of all.

    Raises:
        ValueError: If it is none of them or names an impossible set.
    """
    if explicit := _EXPLICIT.fullmatch(text.replace(" ", "")):
        groups = re.findall(r"\{([\d,]*)\}", explicit.group(1))
        return tuple(tuple(_numbers(group)) for group in groups)
    if iota := _IOTA.fullmatch(text):
        shape, devices = _iota(*iota.groups())
        return _cut(devices, shape[-1])
    if mesh := _MESH.fullmatch(text):
        return _mesh(*mesh.groups())
    raise ValueError(f"expected groups of devices, got {text[:40]!r}")


def read_sources(tables: dict[str, list[str]]) -> dict[int, tuple[Source, ...]]:
    """Resolves the tables at the head of a module into places in the source.

    Args:
        tables: The rows of ``FileNames``, ``FunctionNames``, ``FileLocations`` and
            ``StackFrames``.

    Returns:
        For each stack frame its place and its callers', the innermost first.
    """
    rows = {}
    for title, lines in tables.items():
        found = filter(None, (_ROW.match(line.strip()) for line in lines))
        rows[title] = {int(row[1]): row[2] or row[3] or "" for row in found}
    places = {}
    for number, text in rows.get("FileLocations", {}).items():
        field = {key: int(n) for key, n in _FIELD.findall(text) if len(n) < 16}
        file = rows.get("FileNames", {}).get(field.get("file_name_id"))
        names = rows.get("FunctionNames", {})
        if file is not None:
            name = names.get(field.get("function_name_id"), "")
            places[number] = Source(file, field.get("line", 0), name)
    stacks: dict[int, tuple[Source, ...]] = {}
    for number, text in sorted(rows.get("StackFrames", {}).items()):
        field = {key: int(n) for key, n in _FIELD.findall(text) if len(n) < 16}
        place = places.get(field.get("file_location_id"))
        # XLA prints the caller's number plus 1, so that 1 stands for "no caller".
        callers = stacks.get(field.get("parent_frame_id", 1) - 1, ())
        stacks[number] = ((place,) if place else ()) + callers[:_MOST_CALLERS]
    return stacks
