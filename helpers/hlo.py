"""Reads the text of optimised HLO modules: one instruction per object.

The compiler's own text is exact but wide: most of a line is metadata, sharding and
back-end settings. The functions here find instructions and shorten them for display
without changing what they say. They never compile.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass

__all__ = [
    "Instruction",
    "estimated_cycles",
    "instructions",
    "select",
    "show",
    "signature",
]

_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\) -> .* \{$")
_INSTRUCTION = re.compile(
    r"^  (?P<root>ROOT )?%?(?P<name>[\w.\-]+) = "
    r"(?P<shape>\(.*?\)|\S+) (?P<opcode>[\w\-]+)\("
)
# Attributes that name the source, the sharding or a back-end setting, not the work.
_NOISE = re.compile(
    r", (metadata|backend_config|frontend_attributes|sharding|origin)=\{"
)
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
# The TPU compiler writes numbers near 2**63 where it has no estimate.
_NO_ESTIMATE = 2**60
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')


@dataclass(frozen=True)
class Instruction:
    """One line of an HLO computation.

    Attributes:
        computation: Name of the computation that holds it.
        is_entry: Whether that computation is the program's entry.
        is_root: Whether its value is what the computation returns.
        name: The instruction's name, without ``%``.
        opcode: What it does: ``fusion``, ``add``, ``convolution``, and so on.
        shape: Type, shape and layout of its value, as printed.
        text: The line without metadata, sharding and back-end settings.
    """

    computation: str
    is_entry: bool
    is_root: bool
    name: str
    opcode: str
    shape: str
    text: str

    @property
    def calls(self) -> str | None:
        """Name of the computation that a fusion or a call runs, if any."""
        found = re.search(r"\b(?:calls|to_apply)=%?([\w.\-]+)", self.text)
        return found.group(1) if found else None

    def __str__(self) -> str:
        return self.text


def _end_of_braces(line: str, start: int) -> int:
    """The index after the brace that closes the one at ``start``."""
    depth = 0
    for index in range(start, len(line)):
        depth += {"{": 1, "}": -1}.get(line[index], 0)
        if depth == 0:
            return index + 1
    return len(line)


def _shortened(line: str) -> str:
    """An instruction's line without the attributes that do not describe its work."""
    # Quoted text may hold anything, braces included: it must not be read as HLO.
    bare = _QUOTED.sub(lambda quoted: "_" * len(quoted[0]), line)
    while noise := _NOISE.search(bare):
        start, end = noise.start(), _end_of_braces(bare, noise.end() - 1)
        bare, line = bare[:start] + bare[end:], line[:start] + line[end:]
    return line.strip()


def instructions(text: str, *opcodes: str) -> list[Instruction]:
    """Lists the instructions of an HLO module in the order they are printed.

    Args:
        text: What ``compiled.as_text()`` returns.
        *opcodes: Opcodes to keep, such as ``"fusion"``; none keeps all.

    Returns:
        The instructions of all computations; the entry computation's come in the
        order in which they are scheduled.

    Raises:
        ValueError: If the text is not that of a compiled module.
    """
    if not text.startswith("HloModule "):
        raise ValueError(
            f"expected text that starts with 'HloModule ', got {text[:40]!r}"
        )
    found, computation, is_entry = [], "", False
    for line in text.splitlines():
        if header := _COMPUTATION.match(line):
            computation, is_entry = header.group(2), bool(header.group(1))
        elif parsed := _INSTRUCTION.match(line):
            found.append(
                Instruction(
                    computation=computation,
                    is_entry=is_entry,
                    is_root=bool(parsed.group("root")),
                    name=parsed.group("name"),
                    opcode=parsed.group("opcode"),
                    shape=parsed.group("shape"),
                    text=_shortened(line),
                )
            )
    if not any(one.is_entry for one in found):
        # Lowered modules are printed in another form, and cut text may end early.
        raise ValueError("expected a compiled module with an ENTRY, found none")
    return [one for one in found if not opcodes or one.opcode in opcodes]


def select(
    text: str, *opcodes: str, computation: str | None = None
) -> list[Instruction]:
    """Picks instructions by what they do and where they stand.

    Args:
        text: An HLO module's text.
        *opcodes: Opcodes to keep, such as ``"fusion"``; none keeps all.
        computation: Name of the one computation to look in; the entry computation
            when not given.

    Returns:
        The matching instructions, in printed order.

    Raises:
        ValueError: If the text is no HLO module or has no such computation.
    """
    everything = instructions(text)
    names = {found.computation for found in everything}
    if computation is not None and computation not in names:
        raise ValueError(
            f"expected the name of a computation in this module, got {computation!r}"
        )
    return [
        found
        for found in everything
        if (found.is_entry if computation is None else found.computation == computation)
        and (not opcodes or found.opcode in opcodes)
    ]


def signature(text: str) -> dict[str, list[str]]:
    """What a program reads and what it returns: its entry parameters and its root.

    Args:
        text: An HLO module's text.

    Returns:
        ``{"reads": [...], "returns": [...]}``: for each entry parameter
        ``name: shape`` in order of its number, and the shape of the root.

    Raises:
        ValueError: If the text is no HLO module.
    """
    entry = [found for found in instructions(text) if found.is_entry]

    def number(parameter: Instruction) -> int:
        return int(re.search(r"parameter\((\d+)\)", parameter.text).group(1))

    def plain(shape: str) -> str:
        return re.sub(r"\{[^}]*\}|/\*.*?\*/", "", shape)

    parameters = sorted((i for i in entry if i.opcode == "parameter"), key=number)
    return {
        "reads": [f"{i.name.split('.')[0]}: {plain(i.shape)}" for i in parameters],
        "returns": [plain(i.shape) for i in entry if i.is_root],
    }


def estimated_cycles(text: str) -> int:
    """Adds up the TPU compiler's estimates for the instructions of the entry.

    An instruction without an estimate, such as a copy or a random-bit generator,
    counts nothing, and the body of a loop counts once.

    Args:
        text: The text of a module compiled for a TPU.

    Returns:
        Clock cycles (compiled).

    Raises:
        ValueError: If the text is not that of a compiled module, or has no estimates.
    """
    instructions(text)
    entry = text[text.index("\nENTRY ") :].partition("\n}")[0]
    found = [int(cycles) for cycles in _CYCLES.findall(entry)]
    if not found:
        raise ValueError("expected a module compiled for a TPU, found no estimates")
    return sum(cycles for cycles in found if cycles < _NO_ESTIMATE)


def show(*found: Instruction, width: int = 76) -> None:
    """Prints instructions, long ones over several lines, broken between words.

    Args:
        *found: What to print.
        width: The longest line, in characters, if no single word is longer.
    """
    for instruction in found:
        print(
            textwrap.fill(
                str(instruction),
                width,
                subsequent_indent="    ",
                break_long_words=False,
                break_on_hyphens=False,
            )
        )
