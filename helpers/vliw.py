"""A schedule for a very long instruction word: bundles, busy units, loops.

The schedule is static: it does not say how long a bundle waits for memory, nor which
branches are taken. Cycles here are bundles issued if nothing waits and only loops
branch (an estimate). A loop around transfers is pipelined: its first and last trips,
one for each stage, skip most of its body.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

__all__ = ["Bundle", "Loop", "Operation", "Schedule", "Utilization"]

_TARGET = re.compile(r"target = \$region(\d+)")
# After a branch the core issues this many bundles before it jumps (v5e and TPU7x).
_DELAY_SLOTS = 4
_EXIT_TEST = re.compile(
    r"scmp\.ge\.s32\.totalorder (%s\w+), (\d{1,9}) /\* loop exit test"
)


@dataclass(frozen=True)
class Operation:
    """One operation of a bundle.

    Attributes:
        opcode: What it does, such as ``vmatmul.bf16.gmra.mxu0``.
        slot: The unit it is issued to, by the utilisation table's name; empty for
            what only names a value.
        results: Registers it sets, as printed.
        predicate: The register that decides whether it runs; empty if it always does.
        text: The operation as printed.
    """

    opcode: str
    slot: str
    results: str
    predicate: str
    text: str


@dataclass(frozen=True)
class Bundle:
    """What is issued in one cycle.

    Attributes:
        index: Its position in the program, which is its address.
        label: ``LB`` where a loop begins, ``PF`` where a skipped part ends; or empty.
        depth: How many loops it is in, as the dump marks it.
        operations: Its operations.
        regions: Numbers of the regions that begin with it; branches name them.
    """

    index: int
    label: str
    depth: int
    operations: tuple[Operation, ...]
    regions: tuple[int, ...] = field(repr=False)


@dataclass(frozen=True)
class Loop:
    """A part of the program that a branch repeats.

    Attributes:
        first: Index of its first bundle.
        last: Index of its last bundle, that in the branch's last delay slot.
        trips: How often it runs, where its exit test says so.
    """

    first: int
    last: int
    trips: int | None

    @property
    def body_cycles(self) -> int:
        """Bundles of one trip: clock cycles if nothing waits and nothing is skipped."""
        return self.last - self.first + 1


@dataclass(frozen=True)
class Utilization:
    """How many of each unit are busy during each bundle, as the compiler reports it.

    Attributes:
        capacity: How many there are of each unit, by the dump's name.
        rows: For each bundle the busy units, in the order of ``capacity``.
    """

    capacity: dict[str, int] = field(hash=False)
    rows: tuple[tuple[int, ...], ...] = field(repr=False)

    def over_time(self, slot: str) -> list[int]:
        """Busy units of one kind, bundle by bundle.

        Args:
            slot: A key of ``capacity``, such as ``"MXU"``.

        Returns:
            One number for each bundle.

        Raises:
            ValueError: If the table has no such column.
        """
        if slot not in self.capacity:
            raise ValueError(
                f"expected a slot among {', '.join(self.capacity)}, got {slot!r}"
            )
        column = list(self.capacity).index(slot)
        return [row[column] for row in self.rows]

    def share(self, slot: str, first: int = 0, last: int | None = None) -> float:
        """What part of a unit's capacity a stretch of bundles uses.

        Args:
            slot: A key of ``capacity``.
            first: Index of the stretch's first bundle.
            last: Index of its last bundle; the program's last when not given.

        Returns:
            A number from 0 to 1.

        Raises:
            ValueError: If there is no such column or no such stretch.
        """
        used = self.over_time(slot)[first : None if last is None else last + 1]
        if not used:
            raise ValueError(f"expected bundles from {first} to {last}, found none")
        return sum(used) / (len(used) * self.capacity[slot])


@dataclass(frozen=True)
class Schedule:
    """The bundles of one fusion, or of the program around the fusions.

    Attributes:
        bundles: All bundles, by address.
        utilization: The compiler's table of busy units; None if there is none.
    """

    bundles: tuple[Bundle, ...] = field(repr=False)
    utilization: Utilization | None = None

    @functools.cached_property
    def loops(self) -> tuple[Loop, ...]:
        """Its loops, in the order of their branches: an inner before its outer one."""
        return tuple(_loops(self.bundles))

    @property
    def runs(self) -> list[int] | None:
        """How often each bundle is issued; None if a loop's trips are unknown."""
        counts = [1] * len(self.bundles)
        for loop in self.loops:
            if loop.trips is None:
                return None
            for index in range(loop.first, loop.last + 1):
                counts[index] *= loop.trips
        return counts

    @property
    def cycles(self) -> int | None:
        """Bundles issued, loops multiplied by trips; None if trips are unknown."""
        return None if self.runs is None else sum(self.runs)

    def busy_share(self, slot: str) -> float:
        """What part of a unit's capacity a whole run uses, loops multiplied by trips.

        Args:
            slot: A unit's name in the utilisation table, such as ``"MXU"``.

        Returns:
            A number from 0 to 1.

        Raises:
            ValueError: If there is no table, no such unit, or a loop of unknown trips.
        """
        if self.utilization is None or self.runs is None:
            raise ValueError(
                "expected a schedule with a table of busy units and loops of known "
                f"trips, got {self.utilization} and {self.loops}"
            )
        busy = self.utilization.over_time(slot)
        used = sum(n * times for n, times in zip(busy, self.runs, strict=True))
        return used / (sum(self.runs) * self.utilization.capacity[slot])

    def issued(self, slot: str) -> list[int]:
        """Operations issued to one kind of unit, bundle by bundle.

        Args:
            slot: A unit's name, such as ``"MXU"`` or ``"VALU"``. An ``"EUP"`` operation
                (exponential, tanh, …) is issued through the vector unit's slot, and so
                counts for ``"VALU"`` too.

        Returns:
            One number for each bundle.
        """
        counted = ("VALU", "EUP") if slot == "VALU" else (slot,)
        return [sum(o.slot in counted for o in b.operations) for b in self.bundles]


def _loops(bundles: tuple[Bundle, ...]) -> Iterator[Loop]:
    begins = {region: b.index for b in bundles for region in b.regions}
    for bundle in bundles:
        for operation in bundle.operations:
            target = _TARGET.search(operation.text)
            first = begins.get(int(target.group(1)), -1) if target else -1
            if not 0 <= first <= bundle.index:
                continue
            tests = [
                _EXIT_TEST.search(o.text)
                for b in bundles[first : bundle.index + 1]
                for o in b.operations
                if o.results == operation.predicate.removeprefix("!")
            ]
            trips = int(tests[-1].group(2)) if tests and tests[-1] else None
            last = min(bundle.index + _DELAY_SLOTS, len(bundles) - 1)
            yield Loop(first, last, trips)
