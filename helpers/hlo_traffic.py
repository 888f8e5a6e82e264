"""Counts the bytes that one HLO instruction reads and writes.

An instruction outside of fusions reads its operands from memory and writes its result;
what happens inside a fusion stays in registers. Arrays count as they are stored, in
whole tiles. Slices count what they cut, updates in place what they change, and names
for a value that exists (tuples, bitcasts, results written over an operand) nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from helpers.hlo_module import Computation, Instruction, Module
from helpers.shapes import Array, Tuple

__all__ = ["Traffic", "traffic"]

_NAMES = frozenset(
    "add-dependency after-all bitcast call conditional constant get-tuple-element "
    "opt-barrier parameter partition-id replica-id tuple while".split()
)
_CUTS = ("dynamic-slice", "gather", "slice", "slice-start")
_ALIASED_LEAF = re.compile(r"\{([\d, ]*)\}: *\(\d+")
# What a fusion does with an operand that it only passes on.
_PASSES_ON = ("bitcast", "get-tuple-element", "tuple")


@dataclass(frozen=True)
class Traffic:
    """What one run of an instruction moves, on one device.

    Attributes:
        bytes: Bytes read and written, in any memory.
        main_bytes: Of these the ones in the device's main memory (HBM on a TPU).
    """

    bytes: int = 0
    main_bytes: int = 0


def _leaves(shape: Array | Tuple) -> Iterator[tuple[int, bool]]:
    """Bytes of each array, and whether it is in main memory."""
    for leaf in shape.leaves:
        if leaf.dtype not in ("token", "opaque"):
            yield leaf.stored_bytes, leaf.layout.memory_space == 0


def _target(instruction: Instruction) -> str:
    return instruction.attributes.get("custom_call_target", "").strip('"')


def _part(shape: Array | Tuple, number: int) -> Array | Tuple:
    if isinstance(shape, Tuple) and number < len(shape.parts):
        return shape.parts[number]
    return shape


def _used(
    where: Computation,
    user: Instruction,
    number: int,
    inner: dict[str, list[int | None]],
) -> int | None:
    """Bytes that ``user`` reads of its operand ``number``; None for all of it."""
    if user.opcode in _CUTS and number == 0:
        return user.result.leaves[0].stored_bytes if user.result.leaves else 0
    if user.opcode == "dynamic-update-slice" and number == 0:
        return 0
    if user.opcode == "fusion":
        reads = inner.get(user.calls or "", [])
        return reads[number] if number < len(reads) else None
    if _target(user).startswith("AsyncCollective"):
        return 0
    if "chain_id" in user.attributes.get("frontend_attributes", ""):
        # One transfer, cut over several fusions: it is read where it starts.
        starts = _target(where.root) == "AsyncCollectiveStart"
        return None if starts else 0
    return 0 if user.opcode == "tuple" and user.is_root else None


def _reads(module: Module) -> dict[str, list[int | None]]:
    """For each computation the bytes it reads of each parameter; None for all."""
    found: dict[str, list[int | None]] = {}
    for where in module.computations.values():
        uses: dict[str, list[int | None]] = {}
        # From the last line to the first: what a name passes on is known by then.
        for user in reversed(where.instructions):
            for number, name in enumerate(user.operands):
                if user.opcode == "bitcast" and not user.is_root:
                    uses.setdefault(name, []).extend(uses.get(user.name, []))
                else:
                    uses.setdefault(name, []).append(_used(where, user, number, found))
        found[where.name] = [
            None if None in uses.get(p.name, []) else sum(uses.get(p.name, []))
            for p in where.parameters
        ]
    return found


def _written(where: Computation, made: Instruction) -> Iterator[tuple[int, bool]]:
    """Bytes that a fusion writes for the value of an instruction inside it."""
    origin = made
    while origin.opcode == "bitcast" and origin.operands:
        origin = where.by_name[origin.operands[0]]
    if origin.opcode == "tuple":
        for part in where.operands(origin):
            if part.opcode != "tuple":
                yield from _written(where, part)
        return
    if origin.opcode == "parameter" and made is not where.root:
        return
    if origin.opcode == "dynamic-update-slice" and len(origin.operands) > 1:
        update = where.by_name[origin.operands[1]].result
        space = [main for _, main in _leaves(made.result)]
        yield sum(size for size, _ in _leaves(update)), all(space)
        return
    yield from _leaves(made.result)


def _results(module: Module, found: Instruction) -> Iterator[tuple[int, bool]]:
    """Bytes of each array that an instruction writes."""
    if found.opcode == "fusion":
        aliasing = found.attributes.get("output_to_operand_aliasing", "")
        aliased = {text.replace(" ", "") for text in _ALIASED_LEAF.findall(aliasing)}
        if "" in aliased:
            return
        if aliased and isinstance(found.result, Tuple):
            for number, part in enumerate(found.result.parts):
                if str(number) not in aliased:
                    yield from _leaves(part)
            return
        inner = module.computation(found.calls or "")
        yield from _written(inner, inner.root)
    elif found.opcode.endswith("-start"):
        # copy-start gives (target, source, …), the others (source, target, …).
        yield from _leaves(_part(found.result, int(found.opcode != "copy-start")))
    else:
        yield from _leaves(found.result)


def _moved(
    module: Module,
    where: Computation,
    found: Instruction,
    reads: dict[str, list[int | None]],
) -> Iterator[tuple[int, bool]]:
    for number, operand in enumerate(where.operands(found)):
        part = _used(where, found, number, reads)
        sizes = list(_leaves(operand.result))
        if part is None or len(sizes) != 1:
            yield from sizes if part is None or part else ()
        else:
            yield min(part, sizes[0][0]), sizes[0][1]
    if found.opcode == "dynamic-update-slice" and len(found.operands) > 1:
        yield from _leaves(where.by_name[found.operands[1]].result)
    else:
        yield from _results(module, found)


def traffic(module: Module) -> dict[tuple[str, str], Traffic]:
    """Counts what every instruction outside of fusions moves when it runs once.

    Args:
        module: The module.

    Returns:
        The counts by names of computation and instruction; those that move nothing
        are left out.

    Raises:
        ValueError: If an array has no known size.
    """
    reads, counts = _reads(module), {}
    for where in module.computations.values():
        for found in where.instructions:
            if found.opcode in _NAMES or found.opcode.endswith("-done"):
                continue
            moved = list(_moved(module, where, found, reads))
            counts[where.name, found.name] = Traffic(
                bytes=sum(size for size, _ in moved),
                main_bytes=sum(size for size, main in moved if main),
            )
    return counts
