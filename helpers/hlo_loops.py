"""How often each computation of a module runs: trip counts of loops, multiplied.

The CPU and GPU compilers write a loop's trip count into the text; the TPU compiler
mostly does not. It is then worked out from what the loop compares: a counter that
begins at a constant, grows by a constant and is held against a constant.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from helpers.hlo_module import Computation, Instruction, Module

__all__ = ["executions", "trip_count"]

_SAME_VALUE = ("bitcast", "convert", "copy", "copy-done", "copy-start", "reshape")
_RUNS = ("async-start", "call", "conditional", "custom-call", "fusion")
_FLIPPED = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE", "NE": "NE"}
# A value is followed through at most this many instructions.
_MOST_STEPS = 1000


@dataclass(frozen=True)
class _Place:
    """A value inside nested calls: part ``path`` of what ``found`` returns."""

    found: Instruction
    where: Computation
    callers: tuple[tuple[Computation, Instruction], ...] = ()
    path: tuple[int, ...] = ()


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?\d{1,15}", text) else None


def _back(module: Module, place: _Place) -> _Place | None:
    """The place one step nearer to where a value is made, or None where it is."""
    found, where, callers, path = place.found, place.where, place.callers, place.path
    if found.opcode in _SAME_VALUE and found.operands:
        return _Place(where.by_name[found.operands[0]], where, callers, path)
    if found.opcode in ("fusion", "call") and found.calls:
        inner = module.computation(found.calls)
        return _Place(inner.root, inner, (*callers, (where, found)), path)
    index = _number(found.attributes.get("index", ""))
    if found.opcode == "get-tuple-element" and index is not None and found.operands:
        operand = where.by_name[found.operands[0]]
        return _Place(operand, where, callers, (index, *path))
    if found.opcode == "tuple" and path and 0 <= path[0] < len(found.operands):
        operand = where.by_name[found.operands[path[0]]]
        return _Place(operand, where, callers, path[1:])
    position = _number(found.arguments)
    if found.opcode == "parameter" and callers and position is not None:
        outer, caller = callers[-1]
        if position < len(caller.operands):
            operand = outer.by_name[caller.operands[position]]
            return _Place(operand, outer, callers[:-1], path)
    return None


def _origin(module: Module, place: _Place) -> _Place:
    """Follows a value back through copies, tuples and calls to where it is made."""
    for _ in range(_MOST_STEPS):
        earlier = _back(module, place)
        if earlier is None:
            return place
        place = earlier
    return place


def _operand(module: Module, place: _Place, number: int) -> _Place:
    operand = place.where.by_name[place.found.operands[number]]
    return _origin(module, _Place(operand, place.where, place.callers))


def _constant(place: _Place) -> int | None:
    if place.found.opcode != "constant":
        return None
    return _number(place.found.arguments)


def _carried(place: _Place) -> int | None:
    """Which part of a loop's state a value is, if it is one unchanged."""
    if place.found.opcode == "parameter" and not place.callers and len(place.path) == 1:
        return place.path[0]
    return None


def _loop_of(module: Module, body: str) -> tuple[Computation, Instruction] | None:
    """The loop that runs a computation as its body, and where the loop stands."""
    for where in module.computations.values():
        for found in where.instructions:
            if found.attributes.get("body", "").lstrip("%") == body:
                return where, found
    return None


def _start(
    module: Module, where: Computation, loop: Instruction, part: int
) -> int | None:
    """The constant with which part of a loop's state begins, if one."""
    while loop.operands:
        state = where.by_name[loop.operands[0]]
        place = _origin(module, _Place(state, where, path=(part,)))
        part = _carried(place)
        if part is None:
            return _constant(place)
        # It comes in with the state of a loop around this one; there it must stay.
        last = _origin(module, _Place(where.root, where, path=(part,)))
        outer = _loop_of(module, where.name)
        if outer is None or _carried(last) != part:
            return None
        where, loop = outer
    return None


def _step(module: Module, body: Computation, part: int) -> int | None:
    """What each trip adds to part of a loop's state, if a constant."""
    place = _origin(module, _Place(body.root, body, path=(part,)))
    if place.found.opcode not in ("add", "subtract") or len(place.found.operands) != 2:
        return None
    left, right = (_operand(module, place, number) for number in (0, 1))
    if _carried(left) == part and _constant(right) is not None:
        return _constant(right) * (1 if place.found.opcode == "add" else -1)
    if _carried(right) == part and place.found.opcode == "add":
        return _constant(left)
    return None


def _steps(start: int, bound: int, step: int, direction: str) -> int | None:
    """How many values of a counter pass its test."""
    if direction in ("GT", "GE"):
        start, bound, step = -start, -bound, -step
    if direction == "NE":
        exact = step and (bound - start) % step == 0 and (bound - start) // step >= 0
        return (bound - start) // step if exact else None
    if step <= 0:
        return None
    return max(0, -(-(bound - start + (direction in ("LE", "GE"))) // step))


def _parts(module: Module, loop: Instruction) -> tuple[Computation, Computation]:
    """A loop's condition and its body."""
    names = [loop.attributes.get(key, "") for key in ("condition", "body")]
    condition, body = (module.computation(name.lstrip("%")) for name in names)
    return condition, body


def trip_count(module: Module, where: Computation, loop: Instruction) -> int | None:
    """How often a loop's body runs.

    Args:
        module: The module.
        where: The computation that holds the loop.
        loop: A ``while`` instruction.

    Returns:
        The number of trips, or None where the text does not settle it.
    """
    if loop.known_trip_count is not None:
        return loop.known_trip_count
    condition, body = _parts(module, loop)
    test = _origin(module, _Place(condition.root, condition))
    direction = test.found.attributes.get("direction", "")
    if test.found.opcode != "compare" or direction not in _FLIPPED:
        return None
    if len(test.found.operands) != 2:
        return None
    sides = [_operand(module, test, number) for number in (0, 1)]
    for counter, limit in (sides, sides[::-1]):
        part = _carried(counter)
        step = None if part is None else _step(module, body, part)
        if step is not None:
            other = _carried(limit)
            bound = _constant(limit)
            if other is not None:
                bound = _start(module, where, loop, other)
            start = _start(module, where, loop, part)
            if start is None or bound is None:
                return None
            return _steps(start, bound, step, direction)
        direction = _FLIPPED[direction]
    return None


def executions(module: Module, if_unknown: int | None = None) -> dict[str, int]:
    """How often each computation runs when the program runs once.

    A computation that is applied to elements, such as the sum inside a ``reduce``,
    counts 0: what applies it counts. All branches of a ``conditional`` count as taken.

    Args:
        module: The module.
        if_unknown: Trips to assume where the text does not settle them.

    Returns:
        The number of runs by the name of the computation.

    Raises:
        ValueError: If a loop's trip count is unknown and ``if_unknown`` is not given.
    """
    runs = dict.fromkeys(module.computations, 0)
    runs[module.entry.name] = 1
    # Callers stand below what they call: from the last to the first, each is complete.
    for where in reversed(module.computations.values()):
        for found in where.instructions:
            if found.opcode == "while":
                trips = trip_count(module, where, found)
                trips = if_unknown if trips is None else trips
                if trips is None:
                    raise ValueError(
                        f"line {found.line}: expected a loop whose trips can be "
                        f"counted, or if_unknown, got {found.name}"
                    )
                condition, body = _parts(module, found)
                runs[condition.name] += runs[where.name] * (trips + 1)
                runs[body.name] += runs[where.name] * trips
            elif found.opcode in _RUNS:
                for name in found.called:
                    runs[name] += runs[where.name]
    return runs
