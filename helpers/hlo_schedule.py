"""Time and memory along a module's schedule: critical path and live bytes.

The compiler's estimates are clock cycles of single instructions. Added up they say how
long one core takes that does one thing after the other; along the longest chain of
instructions that need each other's results they say how long it takes at least, however
much runs at once. Instructions without an estimate (transfers, collectives, custom
calls) count nothing in either, so both are incomplete where there are many of those.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from helpers.hlo_loops import executions, trip_count
from helpers.hlo_module import Computation, Instruction, Module

__all__ = ["CriticalPath", "critical_path", "live_bytes"]

_INSIDE = ("call", "conditional", "while", "async-start")
_CONTROL = re.compile(r"[\w.\-]+")
# Their value is another's, under a new name.
_SAME_MEMORY = frozenset(
    "add-dependency bitcast copy-done get-tuple-element opt-barrier tuple while".split()
)


@dataclass(frozen=True)
class CriticalPath:
    """The longest chain of dependent instructions of a program's entry.

    Attributes:
        instructions: The chain, first to last.
        path_cycles: Estimated clock cycles along it (a bound, if the estimates hold).
        total_cycles: Estimated clock cycles of all instructions, loops multiplied by
            their trips (an estimate).
        without_estimate: Names of instructions of the entry that do or move something
            and have no estimate.
    """

    instructions: tuple[Instruction, ...]
    path_cycles: int
    total_cycles: int
    without_estimate: tuple[str, ...]


def _needs(where: Computation, found: Instruction) -> list[str]:
    """Names of what must come before an instruction."""
    control = _CONTROL.findall(found.attributes.get("control-predecessors", ""))
    return [*found.operands, *(name for name in control if name in where.by_name)]


def _own_cycles(
    module: Module,
    where: Computation,
    found: Instruction,
    lengths: dict[str, int],
    if_unknown: int | None,
) -> int:
    """Cycles of one instruction with all that it calls, by ``lengths``."""
    if found.opcode not in _INSIDE:
        return found.estimated_cycles or 0
    inside = [lengths[name] for name in found.called]
    if found.opcode != "while":
        return max(inside, default=0) if found.opcode == "conditional" else sum(inside)
    trips = trip_count(module, where, found)
    return sum(inside) * ((if_unknown or 1) if trips is None else trips)


def _chain(
    where: Computation, cycles: dict[str, int]
) -> tuple[int, tuple[Instruction, ...]]:
    """The longest chain of dependent instructions, by cycles."""
    ends: dict[str, int] = {}
    before: dict[str, str | None] = {}
    for found in where.instructions:
        needed = [name for name in _needs(where, found) if name in ends]
        last = max(needed, key=ends.__getitem__, default=None)
        before[found.name] = last
        ends[found.name] = cycles[found.name] + (ends[last] if last else 0)
    name = max(ends, key=ends.__getitem__)
    length, chain = ends[name], []
    while name is not None:
        chain.append(where.by_name[name])
        name = before[name]
    return length, tuple(reversed(chain))


def critical_path(module: Module, if_unknown: int | None = None) -> CriticalPath:
    """Finds the longest chain of dependent instructions in the entry.

    A loop counts as one instruction: its body's longest chain (or sum) times its trips.

    Args:
        module: A module compiled for a TPU.
        if_unknown: Trips to assume of a loop whose number of trips the text does not
            settle.

    Returns:
        The chain, its cycles and the cycles of all instructions.

    Raises:
        ValueError: If no instruction has an estimate, or a loop's trips are unknown and
            ``if_unknown`` is not given.
    """
    executions(module, if_unknown)  # refuses loops of unknown trips
    totals: dict[str, int] = {}
    longest: dict[str, int] = {}
    chain: tuple[Instruction, ...] = ()
    for where in module.computations.values():
        sums = {
            found.name: _own_cycles(module, where, found, totals, if_unknown)
            for found in where.instructions
        }
        paths = {
            found.name: _own_cycles(module, where, found, longest, if_unknown)
            for found in where.instructions
        }
        totals[where.name] = sum(sums.values())
        longest[where.name], found_chain = _chain(where, paths)
        if where.is_entry:
            chain = found_chain
    entry = module.entry
    if not totals[entry.name]:
        raise ValueError("expected a module compiled for a TPU, found no estimates")
    silent = (*_SAME_MEMORY, "parameter", "constant", *_INSIDE)
    return CriticalPath(
        instructions=chain,
        path_cycles=longest[entry.name],
        total_cycles=totals[entry.name],
        without_estimate=tuple(
            found.name
            for found in entry.instructions
            if found.opcode not in silent and found.estimated_cycles is None
        ),
    )


def live_bytes(module: Module, memory_space: int | None = None) -> list[int]:
    """Bytes in use while each instruction of the entry runs, in scheduled order.

    Arguments and what the program returns are in use to the end; any other value from
    the instruction that makes it to the last that uses it. This is an estimate: what an
    instruction needs for itself and what lives inside loops is not counted, and a
    fusion that updates an operand in place counts it twice.

    Args:
        module: A scheduled module.
        memory_space: Count the values in this memory alone; 0 is the main memory.

    Returns:
        One number for each of the entry's instructions.

    Raises:
        ValueError: If the module is not scheduled or an array has no known size.
    """
    if not module.is_scheduled:
        raise ValueError(f"expected a scheduled module, got {module.name!r}")
    order = module.entry.instructions
    homes: dict[str, set[str]] = {}
    last: dict[str, int] = {}
    for position, found in enumerate(order):
        used = {home for name in found.operands for home in homes[name]}
        homes[found.name] = used if found.opcode in _SAME_MEMORY else {found.name}
        last.update(dict.fromkeys(used | homes[found.name], position))
    kept = homes[module.entry.root.name] | {p.name for p in module.entry.parameters}
    changes = [0] * (len(order) + 1)
    for position, found in enumerate(order):
        if found.opcode in _SAME_MEMORY:
            continue
        size = sum(
            leaf.stored_bytes
            for leaf in found.result.leaves
            if memory_space in (None, leaf.layout.memory_space)
        )
        if found.opcode.endswith("-start") and found.opcode != "all-reduce-start":
            size -= _lent(module.entry, found, memory_space)
        changes[0 if found.opcode == "parameter" else position] += size
        changes[len(order) if found.name in kept else last[found.name] + 1] -= size
    live = [changes[0]]
    for change in changes[1:-1]:
        live.append(live[-1] + change)
    return live


def _lent(entry: Computation, start: Instruction, memory_space: int | None) -> int:
    """Bytes that a start's value names and its operands already hold."""
    return sum(
        leaf.stored_bytes
        for operand in entry.operands(start)
        for leaf in operand.result.leaves
        if memory_space in (None, leaf.layout.memory_space)
    )
