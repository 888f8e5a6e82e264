"""Answers questions about a whole module: work by opcode, and fusions.

Counts are those of one device and one run of the program, with the body of each loop
multiplied by its trips.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from helpers.hlo_flops import arithmetic
from helpers.hlo_loops import executions
from helpers.hlo_module import Instruction, Module
from helpers.hlo_traffic import traffic

__all__ = [
    "Fusion",
    "Work",
    "fusions",
    "total_work",
    "work_by_opcode",
]


@dataclass(frozen=True)
class Work:
    """What one opcode does in a run of the program, on one device.

    Attributes:
        opcode: The opcode; ``all`` for a sum.
        runs: How often its instructions run, inside fusions too.
        flops: Floating-point operations.
        transcendentals: Exponentials, roots and the like, which are not in ``flops``.
        operations: What XLA's cost analysis calls flops: integers, comparisons,
            selections and conversions too.
        bytes: Bytes read and written, in any memory; a fusion's are the fusion's.
        main_bytes: Of these the ones in the device's main memory (HBM on a TPU).
    """

    opcode: str
    runs: int = 0
    flops: int = 0
    transcendentals: int = 0
    operations: int = 0
    bytes: int = 0
    main_bytes: int = 0


@dataclass(frozen=True)
class Fusion:
    """Several operations that the compiler made into one.

    Attributes:
        instruction: The fusion.
        kind: ``kLoop``, ``kOutput``, ``kInput`` or ``kCustom``.
        contents: Opcodes in it, those of fusions inside it too, without parameters and
            constants.
        runs: How often it runs.
    """

    instruction: Instruction
    kind: str
    contents: tuple[str, ...]
    runs: int


def _fused(module: Module) -> set[str]:
    """Names of the computations that are the inside of a fusion."""
    return {
        found.calls
        for where in module.computations.values()
        for found in where.instructions
        if found.opcode == "fusion" and found.calls
    }


def _sum(opcode: str, works: list[Work]) -> Work:
    fields = ("runs", "flops", "transcendentals", "operations", "bytes", "main_bytes")
    return Work(opcode, *(sum(getattr(w, name) for w in works) for name in fields))


def work_by_opcode(module: Module, if_unknown: int | None = None) -> dict[str, Work]:
    """Adds up arithmetic and memory traffic for each opcode.

    Args:
        module: The module.
        if_unknown: Trips to assume of a loop whose number of trips the text does not
            settle.

    Returns:
        The sums by opcode, in the order of their first printed instruction.

    Raises:
        ValueError: If a loop's trips are unknown and ``if_unknown`` is not given, or
            shapes and attributes contradict each other.
    """
    runs, moved, fused = executions(module, if_unknown), traffic(module), _fused(module)
    parts: dict[str, list[Work]] = {}
    for where in module.computations.values():
        times = runs[where.name]
        for found in where.instructions if times else ():
            counts = arithmetic(module, where, found)
            bytes_ = None
            if where.name not in fused:
                bytes_ = moved.get((where.name, found.name))
            parts.setdefault(found.opcode, []).append(
                Work(
                    opcode=found.opcode,
                    runs=times,
                    flops=times * counts.flops,
                    transcendentals=times * counts.transcendentals,
                    operations=times * counts.operations,
                    bytes=times * bytes_.bytes if bytes_ else 0,
                    main_bytes=times * bytes_.main_bytes if bytes_ else 0,
                )
            )
    return {opcode: _sum(opcode, works) for opcode, works in parts.items()}


def total_work(module: Module, if_unknown: int | None = None) -> Work:
    """Adds up arithmetic and memory traffic of the whole program.

    Args:
        module: The module.
        if_unknown: Trips to assume of a loop whose number of trips the text does not
            settle.

    Returns:
        The sum over all opcodes.

    Raises:
        ValueError: As ``work_by_opcode`` does.
    """
    return _sum("all", list(work_by_opcode(module, if_unknown).values()))


def _contents(module: Module, fusion: Instruction) -> Iterator[str]:
    pending = [fusion]
    while pending:
        inner = module.computation(pending.pop().calls or "")
        for found in inner.instructions:
            if found.opcode == "fusion":
                pending.append(found)
            elif found.opcode not in ("parameter", "constant"):
                yield found.opcode


def fusions(module: Module, if_unknown: int | None = None) -> list[Fusion]:
    """Lists the fusions that are not inside another.

    Args:
        module: The module.
        if_unknown: Trips to assume of a loop whose number of trips the text does not
            settle.

    Returns:
        The fusions, in printed order.

    Raises:
        ValueError: As ``work_by_opcode`` does.
    """
    runs, fused = executions(module, if_unknown), _fused(module)
    return [
        Fusion(
            instruction=found,
            kind=found.attributes.get("kind", ""),
            contents=tuple(_contents(module, found)),
            runs=runs[where.name],
        )
        for where in module.computations.values()
        if where.name not in fused
        for found in where.instructions
        if found.opcode == "fusion"
    ]
