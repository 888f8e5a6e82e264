"""What an HLO module consists of: computations, instructions and what they declare.

A computation calls only what is printed above it, and an instruction uses only values
from lines above it. ``helpers.hlo.parse`` refuses other text, so that nothing that
follows calls or operands can run in a circle.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from helpers.hlo_text import Source, device_groups
from helpers.shapes import Array, Tuple

__all__ = ["Alias", "Computation", "Instruction", "Module"]

_CALLS = (
    "calls",
    "to_apply",
    "condition",
    "body",
    "branch_computations",
    "true_computation",
    "false_computation",
    "called_computations",
    "select",
    "scatter",
)
_NAME = re.compile(r"[\w.\-]+")
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
# The TPU compiler writes numbers near 2**63 where it has no estimate.
_NO_ESTIMATE = 2**60
_FRAME = re.compile(r"\bstack_frame_id=(\d{1,15})\b")
_INLINE_SOURCE = re.compile(r'source_file="([^"]*)"(?: source_line=(\d{1,15}))?')
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d{1,15})"\}')
_ALIAS = re.compile(r"\{([\d, ]*)\}: *\((\d{1,9}), *\{([\d, ]*)\}(?:, *([\w-]+))?\)")
_PAIR = re.compile(r"\{(\d{1,9}),(\d{1,9})\}")


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
        result: Type, shape and layout of its value, to compute with.
        operands: Names of the instructions whose values it uses.
        arguments: What stands in its parentheses, as printed.
        attributes: What follows them, as printed, by name.
        line: Its line in the module's text, from 1.
        op_name: The path of JAX functions and transformations it comes from.
    """

    computation: str
    is_entry: bool
    is_root: bool
    name: str
    opcode: str
    shape: str
    text: str
    result: Array | Tuple = field(repr=False)
    operands: tuple[str, ...] = field(repr=False)
    arguments: str = field(repr=False)
    attributes: Mapping[str, str] = field(repr=False, hash=False)
    line: int = field(repr=False)
    op_name: str = field(repr=False)

    @property
    def calls(self) -> str | None:
        """Name of the computation that a fusion or a call runs, if any."""
        found = self.attributes.get("calls") or self.attributes.get("to_apply", "")
        return found.removeprefix("%") or None

    @functools.cached_property
    def called(self) -> tuple[str, ...]:
        """Names of all computations that it runs."""
        texts = [self.attributes[key] for key in _CALLS if key in self.attributes]
        return tuple(name for text in texts for name in _NAME.findall(text))

    @functools.cached_property
    def backend_config(self) -> Any:
        """Settings of the back end: what the JSON holds, or the text if it is none."""
        text = self.attributes.get("backend_config")
        try:
            value = json.loads(text) if text else None
            return json.loads(value) if isinstance(value, str) else value
        except (ValueError, RecursionError):
            return text

    @property
    def estimated_cycles(self) -> int | None:
        """Clock cycles by the TPU compiler's estimate; ``None`` without one."""
        config = self.attributes.get("backend_config", "")
        found = [int(n) for n in _CYCLES.findall(config) if len(n) < 20]
        found = [cycles for cycles in found if cycles < _NO_ESTIMATE]
        return sum(found) if found else None

    @property
    def known_trip_count(self) -> int | None:
        """How often a loop's body runs, where the compiler has written it down."""
        found = _TRIPS.search(self.attributes.get("backend_config", ""))
        return int(found.group(1)) if found else None

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Devices that talk to each other; empty where all do, or none."""
        return device_groups(self.attributes.get("replica_groups", "{}"))

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Senders and receivers of a ``collective-permute``."""
        found = _PAIR.findall(self.attributes.get("source_target_pairs", ""))
        return tuple((int(sender), int(receiver)) for sender, receiver in found)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Computation:
    """A list of instructions that something calls, or the entry.

    Attributes:
        name: Its name, without ``%``.
        is_entry: Whether the program begins with it.
        by_name: Its instructions in printed order, by name.
    """

    name: str
    is_entry: bool
    by_name: Mapping[str, Instruction] = field(repr=False, hash=False)

    @functools.cached_property
    def instructions(self) -> tuple[Instruction, ...]:
        """Its instructions, in printed order."""
        return tuple(self.by_name.values())

    @functools.cached_property
    def root(self) -> Instruction:
        """The instruction whose value it returns."""
        return next(found for found in self.instructions if found.is_root)

    @functools.cached_property
    def parameters(self) -> tuple[Instruction, ...]:
        """Its parameters, in order of their numbers."""
        found = [i for i in self.instructions if i.opcode == "parameter"]
        for parameter in found:
            if not re.fullmatch(r"\d{1,9}", parameter.arguments):
                raise ValueError(
                    f"line {parameter.line}: expected the number of a parameter, "
                    f"got {parameter.arguments!r}"
                )
        return tuple(sorted(found, key=lambda parameter: int(parameter.arguments)))

    def operands(self, instruction: Instruction) -> tuple[Instruction, ...]:
        """The instructions whose values an instruction of this computation uses.

        Args:
            instruction: One of ``instructions``.

        Returns:
            Its operands, in order.
        """
        return tuple(self.by_name[name] for name in instruction.operands)


@dataclass(frozen=True)
class Alias:
    """A result that is written over an argument.

    Attributes:
        output: Position of the result in the entry's value, level by level.
        parameter: Number of the entry's parameter.
        part: Position in that parameter, level by level.
        kind: ``may-alias`` or ``must-alias``.
    """

    output: tuple[int, ...]
    parameter: int
    part: tuple[int, ...]
    kind: str


@dataclass(frozen=True)
class Module:
    """A compiled program.

    Attributes:
        name: Its name, such as ``jit_step``.
        attributes: What its first line declares, as printed, by name.
        computations: All of them by name; each calls only those before it.
        stacks: For each stack frame its place in the source and its callers'.
    """

    name: str
    attributes: Mapping[str, str] = field(repr=False, hash=False)
    computations: Mapping[str, Computation] = field(repr=False, hash=False)
    stacks: Mapping[int, tuple[Source, ...]] = field(repr=False, hash=False)

    @functools.cached_property
    def entry(self) -> Computation:
        """The computation the program begins with."""
        return next(found for found in self.computations.values() if found.is_entry)

    @property
    def is_scheduled(self) -> bool:
        """Whether the order of its instructions is that of execution."""
        return self.attributes.get("is_scheduled") == "true"

    @property
    def device_count(self) -> int:
        """On how many devices it runs."""
        counts = [
            self.attributes.get(k, "1") for k in ("num_partitions", "replica_count")
        ]
        numbers = [int(n) if re.fullmatch(r"\d{1,9}", n) else 1 for n in counts]
        return numbers[0] * numbers[1]

    @property
    def aliases(self) -> tuple[Alias, ...]:
        """Results that reuse the memory of donated arguments."""

        def path(text: str) -> tuple[int, ...]:
            return tuple(int(n) for n in re.findall(r"\d{1,9}", text))

        found = _ALIAS.findall(self.attributes.get("input_output_alias", ""))
        return tuple(
            Alias(path(output), int(number), path(part), kind)
            for output, number, part, kind in found
        )

    def computation(self, name: str) -> Computation:
        """Finds a computation.

        Args:
            name: Its name, without ``%``.

        Returns:
            The computation.

        Raises:
            ValueError: If the module has none of this name.
        """
        if name not in self.computations:
            raise ValueError(
                f"expected the name of a computation in this module, got {name!r}"
            )
        return self.computations[name]

    def stack(self, instruction: Instruction) -> tuple[Source, ...]:
        """Where in the source an instruction comes from.

        Args:
            instruction: One of the module's instructions.

        Returns:
            Its place and the callers', innermost first; empty where none is recorded.
        """
        metadata = instruction.attributes.get("metadata", "")
        if frame := _FRAME.search(metadata):
            return self.stacks.get(int(frame.group(1)), ())
        if inline := _INLINE_SOURCE.search(metadata):
            return (Source(inline.group(1), int(inline.group(2) or 0)),)
        return ()
