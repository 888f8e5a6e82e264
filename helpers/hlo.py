"""Reads the text of optimised HLO modules: one instruction per object.

The compiler's own text is exact but wide: most of a line is metadata, sharding and
back-end settings. ``parse`` reads all of it; the other functions find instructions and
shorten them for display without changing what they say. They never compile.
"""

from __future__ import annotations

import textwrap

from helpers.hlo_module import Alias, Computation, Instruction, Module
from helpers.hlo_parser import parse

__all__ = [
    "Alias",
    "Computation",
    "Instruction",
    "Module",
    "estimated_cycles",
    "instructions",
    "parse",
    "select",
    "show",
    "signature",
]


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
    return [
        found
        for computation in parse(text).computations.values()
        for found in computation.instructions
        if not opcodes or found.opcode in opcodes
    ]


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
    module = parse(text)
    where = module.entry if computation is None else module.computation(computation)
    return [i for i in where.instructions if not opcodes or i.opcode in opcodes]


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
    entry = parse(text).entry
    return {
        "reads": [f"{i.name.split('.')[0]}: {i.result}" for i in entry.parameters],
        "returns": [str(entry.root.result)],
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
    entry = parse(text).entry.instructions
    configs = [found.attributes.get("backend_config", "") for found in entry]
    if not any("estimated_cycles" in config for config in configs):
        raise ValueError("expected a module compiled for a TPU, found no estimates")
    return sum(found.estimated_cycles or 0 for found in entry)


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
