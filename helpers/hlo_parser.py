"""Reads the text of an optimised HLO module into ``helpers.hlo_module`` objects.

One line is one instruction. A computation stands above those that call it, an operand
above its uses; text that breaks this is refused, with line and column.

JAX's private ``jaxlib._hlo`` reads this text too, but shows in version 0.10.2 neither
attributes nor types of operands and does not promise to stay; ``xprof`` starts from a
profile. They are no base to build on, and the tests let the first one judge what is
read here.
"""

from __future__ import annotations

import functools
import re

from helpers.hlo_module import Computation, Instruction, Module
from helpers.hlo_text import read_sources, split_list
from helpers.shapes import Malformed, parse_shape

__all__ = ["parse"]

_HEADER = re.compile(r"(ENTRY )?%?([\w.\-]+) (?=[({]).*\{\s*$")
_HEAD = re.compile(r"\s*(?P<root>ROOT )?%?(?P<name>[\w.\-]+) = ")
_OPCODE = re.compile(r" (?P<opcode>[\w\-]+)\(")
_COMMENT = re.compile(r"/\*.*?\*/")
_OP_NAME = re.compile(r'\bop_name="([^"\\]*(?:\\.[^"\\]*)*)"')
# Attributes that name the source, the sharding or a back-end setting, not the work.
_NOISE = {"metadata", "backend_config", "frontend_attributes", "sharding", "origin"}
_NO_OPERANDS = ("parameter", "constant")


def _attributes(parts: list[str]) -> dict[str, str]:
    """The attributes of a list ``a=1, b={2}, …``, as text by name."""
    found: dict[str, str] = {}
    last = ""
    for part in parts:
        key, _, value = part.partition("=")
        # Groups over a mesh contain a comma: mesh['x'=2], device_ids=([2]) {'x'}.
        if key == "device_ids" and found.get(last, "").startswith("mesh["):
            found[last] += f", {part}"
        else:
            found[key] = value
            last = key
    return found


def _instruction(line: str, number: int, into: Computation) -> Instruction:
    head = _HEAD.match(line)
    if not head:
        raise Malformed(0, "an instruction such as '%a = f32[8]{0} add(%b, %c)'", line)
    result, end = parse_shape(line, head.end())
    opcode = _OPCODE.match(line, end)
    if not opcode:
        raise Malformed(end, "an opcode such as ' add('", line)
    parts, after = split_list(line, opcode.end(), ")")
    if line[after:].strip() and not line.startswith(", ", after):
        raise Malformed(after, "', ' or the end", line)
    attributes = _attributes(split_list(line, after + 2)[0])
    operands = []
    if opcode["opcode"] not in _NO_OPERANDS:
        # Older text repeats an operand's type before its name.
        words = [_COMMENT.sub("", part).split() for part in parts]
        operands = [word[-1].removeprefix("%") for word in words if word]
    for operand in operands:
        if operand not in into.by_name:
            raise Malformed(opcode.end(), f"{operand!r} on a line above", line)
    named = _OP_NAME.search(attributes.get("metadata", ""))
    kept = [
        f"{key}={value}" if value else key
        for key, value in attributes.items()
        if key not in _NOISE
    ]
    return Instruction(
        computation=into.name,
        is_entry=into.is_entry,
        is_root=bool(head["root"]),
        name=head["name"],
        opcode=opcode["opcode"],
        shape=line[head.end() : end],
        text=", ".join([line[:after].strip(), *kept]),
        result=result,
        operands=tuple(operands),
        arguments=line[opcode.end() : after - 1],
        attributes=attributes,
        line=number,
        op_name=named.group(1) if named else "",
    )


class _Reader:
    """What has been read of a module so far."""

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self.computations: dict[str, Computation] = {}
        self.open: Computation | None = None
        self.tables: dict[str, list[str]] = {}
        self.title = ""

    def read(self, line: str, number: int) -> None:
        """Takes one line in."""
        if self.open is not None:
            self._inside(line, number)
        elif header := _HEADER.match(line):
            if header[2] in self.computations:
                raise Malformed(0, "a computation of another name", line)
            self.open = Computation(header[2], bool(header[1]), {})
        elif re.fullmatch(r"\w+", line.strip()):
            self.title = line.strip()
            self.tables[self.title] = []
        elif self.title and re.match(r"\d", line):
            self.tables[self.title].append(line)
        elif line.strip():
            raise Malformed(
                0, "a computation such as 'ENTRY %main () -> s32[] {'", line
            )

    def _inside(self, line: str, number: int) -> None:
        if line.startswith("}"):
            self.computations[self.open.name] = self.open
            if not any(found.is_root for found in self.open.by_name.values()):
                raise Malformed(0, "an instruction marked ROOT before the end", line)
            self.open = None
        elif line.strip():
            found = _instruction(line, number, self.open)
            if found.name in self.open.by_name:
                raise Malformed(0, "an instruction of another name", line)
            for called in found.called:
                if called not in self.computations:
                    raise Malformed(0, f"a computation {called!r} above", line)
            self.open.by_name[found.name] = found


@functools.lru_cache(maxsize=4)
def parse(text: str) -> Module:
    """Reads a whole module.

    Args:
        text: What ``compiled.as_text()`` returns.

    Returns:
        The module. The entry's instructions stand in the order of the schedule.

    Raises:
        ValueError: With line and column, if the text is not that of a compiled module,
            is cut, or uses what is not defined above it.
    """
    if not text.startswith("HloModule "):
        raise ValueError(
            "line 1, column 1: expected text that starts with 'HloModule ', "
            f"got {text[:40]!r}"
        )
    return _module(text)


# A chapter asks several questions of one program; a module cannot be changed.
@functools.lru_cache(maxsize=8)
def _module(text: str) -> Module:
    reader = _Reader(text)
    number, line = 1, reader.lines[0]
    try:
        name, *header = split_list(line, len("HloModule "))[0] or [""]
        for number, line in enumerate(reader.lines[1:], start=2):
            reader.read(line, number)
        if reader.open is not None:
            raise Malformed(len(line), "'}' that ends a computation", line)
        entries = [found for found in reader.computations.values() if found.is_entry]
        if len(entries) != 1:
            # Lowered modules may be printed in another form.
            found = "none" if not entries else len(entries)
            raise ValueError(f"expected a compiled module with an ENTRY, found {found}")
    except Malformed as error:
        place = f"line {number}, column {error.column + 1}"
        raise ValueError(f"{place}: {error}") from None
    except ValueError as error:
        raise ValueError(f"line {number}, column 1: {error}") from None
    return Module(
        name=name,
        attributes=_attributes(header),
        computations=reader.computations,
        stacks=read_sources(reader.tables),
    )
