"""Reads the TPU compiler's last dumps: the bundles a TensorCore issues, cycle by cycle.

A bundle is one very long instruction word: operations for several units, issued in the
same clock cycle. The dump of a fusion is two files: ``*-final_bundles.txt``, the words,
and ``*-final_hlo-static-per-bundle-utilization.txt``, a table of how many of each unit
are busy during each bundle. The table is the compiler's; a matrix unit counts as busy
for all the cycles a product takes, not for the one in which it is issued.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from helpers.vliw import Bundle, Loop, Operation, Schedule, Utilization

__all__ = ["Bundle", "Loop", "Operation", "Schedule", "Utilization", "parse_bundles"]

_START = re.compile(r"^ *(0x[0-9a-f]{1,8}|0) +([A-Z]{2})?: ([> ]*)\{", re.M)
_OPERATION = re.compile(
    r"(?:(?P<results>%[\w.]+|\([^()]*\)) = )?(?P<opcode>[a-z][\w.\-]*)(?P<rest>.*)",
    re.S,
)
_PREDICATE = re.compile(r"\((!?%p\w+)\)")
_REGION = re.compile(r"Start(?:/End empty)? region (\d+)")
# Operations that name or join values and occupy nothing.
_NAMES = re.compile(
    r"int_to_ptr|[svp]phi|inlined_call|reloc|compiler-scheduling|vset\.pattern|vdelay"
)
# The slot of vector loads takes waits and the logic of masks, too.
_LOADS = re.compile(r"vld|vm(and|or|xor)$|vsync|dma\.done|vtrace|vwait|vrng|sfence")
_STORES = re.compile(r"vst(?!v)|vsetiar|set\.")


def _slot(opcode: str, results: str) -> str:
    """The unit an operation is issued to, as the utilisation table counts it."""
    if _NAMES.match(opcode):
        return ""
    if _LOADS.match(opcode):
        return "VLOAD"
    if _STORES.match(opcode):
        return "VSTORE"
    if opcode.startswith("vpop"):
        return "VPOP"
    if opcode.startswith("vmat"):
        return "MXU"
    if ".xlu" in opcode:
        return "XLU"
    if not opcode.startswith("v"):
        return "SALU"
    # A value that waits in a unit's queue has a number and no register: %15905.
    return "EUP" if re.fullmatch(r"%\d+", results) else "VALU"


def _operations(body: str) -> Iterator[Operation]:
    for text in filter(None, (part.strip() for part in body.split(" ;; "))):
        parsed = _OPERATION.match(text)
        if not parsed:
            raise ValueError(f"expected an operation such as 'vld', got {text[:40]!r}")
        results, opcode = parsed["results"] or "", parsed["opcode"]
        predicate = _PREDICATE.search(parsed["rest"])
        yield Operation(
            opcode=opcode,
            slot=_slot(opcode, results),
            results=results,
            predicate=predicate.group(1) if predicate else "",
            text=text,
        )


def _utilization(text: str) -> Utilization:
    lines = [line for line in text.split("\n") if line.strip()]
    titles = [n for n, line in enumerate(lines) if line.startswith("==")]
    if len(titles) != 2 or titles != [0, 3]:
        raise ValueError(
            "line 1, column 1: expected a table of capacity and utilization, got "
            f"{text[:40]!r}"
        )
    names = [name.strip() for name in lines[1].split(",")]
    rows = []
    for number, line in enumerate(lines[2:], start=3):
        if line.startswith("=="):
            continue
        if not re.fullmatch(r"[\d\s]+", line) or len(line.split()) != len(names):
            raise ValueError(
                f"line {number}, column 1: expected {len(names)} numbers, got "
                f"{line[:40]!r}"
            )
        rows.append(tuple(int(n) for n in line.split() if len(n) < 16))
    capacity = dict(zip(names, rows[0], strict=True))
    return Utilization(capacity, tuple(rows[1:]))


def parse_bundles(text: str, utilization: str | None = None) -> Schedule:
    """Reads the dump of one fusion.

    Args:
        text: The text of a ``*-final_bundles.txt``.
        utilization: The text of the ``*-final_hlo-static-per-bundle-utilization.txt``
            beside it.

    Returns:
        Its bundles, loops and occupied units.

    Raises:
        ValueError: With line and column, if the text is no such dump, is cut, or the
            table has another number of bundles.
    """
    starts = list(_START.finditer(text))
    if not starts:
        raise ValueError(
            f"line 1, column 1: expected bundles such as '0x1   :  {{ … }}', got "
            f"{text[:40]!r}"
        )
    bundles = []
    ends = [start.start() for start in starts[1:]] + [len(text)]
    for index, (start, end) in enumerate(zip(starts, ends, strict=True)):
        chunk = text[start.end() : end]
        line = text.count("\n", 0, start.start()) + 1
        if "}" not in chunk or int(start.group(1), 16) != index:
            raise ValueError(
                f"line {line}, column 1: expected bundle {index:#x} up to its brace, "
                f"got {text[start.start() : start.start() + 20]!r}"
            )
        body, _, comments = chunk.rpartition("}")
        try:
            operations = tuple(_operations(body))
        except ValueError as error:
            raise ValueError(f"line {line}, column 1: {error}") from None
        regions = tuple(int(n) for n in _REGION.findall(comments) if len(n) < 10)
        depth = start.group(3).count(">")
        bundles.append(Bundle(index, start.group(2) or "", depth, operations, regions))
    table = _utilization(utilization) if utilization is not None else None
    if table and len(table.rows) != len(bundles):
        raise ValueError(
            f"expected a table of {len(bundles)} bundles, got {len(table.rows)}"
        )
    return Schedule(tuple(bundles), table)
