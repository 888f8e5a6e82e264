"""A compiled program as numbers and texts: what it needs, what it does, how long.

Nothing here compiles. What XLA counts itself is kept as it gave it; operations and
bytes are counted again from the HLO text, since XLA counts the body of a loop once.
"""

from __future__ import annotations

import functools
import math
from dataclasses import asdict, dataclass, field
from typing import Any

from helpers.chips import chip
from helpers.hlo import parse
from helpers.hlo_module import Module
from helpers.hlo_queries import Work, total_work

__all__ = ["Memory", "Program"]


@dataclass(frozen=True)
class Memory:
    """Device memory of a compiled program, in bytes of one device (compiled).

    Attributes:
        arguments_bytes: Arguments, padded to the tiles the chip stores.
        outputs_bytes: Results, padded likewise.
        aliased_bytes: Results that reuse the memory of a donated argument.
        temporaries_bytes: Room for values that live only inside the program.
        code_bytes: The program itself.
    """

    arguments_bytes: int
    outputs_bytes: int
    aliased_bytes: int
    temporaries_bytes: int
    code_bytes: int

    @property
    def total_bytes(self) -> int:
        """What must fit at once: everything, with aliased results counted once."""
        return (
            self.arguments_bytes
            + self.outputs_bytes
            - self.aliased_bytes
            + self.temporaries_bytes
            + self.code_bytes
        )


@dataclass(frozen=True)
class Program:
    """A function compiled for one TPU device, or for all devices of a slice.

    A program for many devices is one program that each of them runs on its own part of
    the data; memory, operations and bytes are those of one device.

    Attributes:
        device_kind: The name the compiler has for the chip.
        device_count: The number of JAX devices it runs on.
        jaxpr_text: What JAX traced.
        stablehlo_text: What JAX handed to the compiler.
        hlo_text: What the compiler made of it: the optimised, scheduled HLO module.
        memory: What it needs in device memory (compiled).
        xla_cost: XLA's own counts by its own names, such as ``"flops"``: operations of
            integers too, the body of a loop once (compiled).
    """

    device_kind: str
    device_count: int
    jaxpr_text: str = field(repr=False)
    stablehlo_text: str = field(repr=False)
    hlo_text: str = field(repr=False)
    memory: Memory
    xla_cost: dict[str, float] = field(repr=False)

    @functools.cached_property
    def hlo(self) -> Module:
        """The HLO module, parsed."""
        return parse(self.hlo_text)

    @functools.cached_property
    def work(self) -> Work:
        """Operations and bytes of one run on one device, loops by their trips.

        Raises:
            ValueError: If the text does not settle how often a loop runs.
        """
        return total_work(self.hlo)

    @property
    def flops(self) -> int:
        """Floating-point operations of one run on one device (compiled).

        Additions, multiplications and their like, those of a loop's body by its trips;
        not transcendental functions, comparisons or arithmetic of integers.
        """
        return self.work.flops

    @property
    def bytes_accessed(self) -> int:
        """Bytes read from and written to main memory in one run (compiled)."""
        return self.work.main_bytes

    @property
    def estimated_s(self) -> float | None:
        """The compiler's own estimate of the time, in seconds; None if it has none.

        It counts the body of a loop once, so a program with loops has none here, and
        for some programs XLA gives a number that is no time.
        """
        seconds = self.xla_cost.get("optimal_seconds", math.nan)
        loops = any(
            found.opcode == "while"
            for computation in self.hlo.computations.values()
            for found in computation.instructions
        )
        return seconds if seconds > 0 and not loops else None

    @property
    def hbm_free_bytes(self) -> int | None:
        """Usable memory of one device that the program leaves; None if not known."""
        usable = chip(self.device_kind).hbm_usable_bytes
        return None if usable is None else usable - self.memory.total_bytes

    def to_json(self) -> dict[str, Any]:
        """Gives what ``from_json`` takes.

        Returns:
            Texts and numbers by the names of the attributes.
        """
        return asdict(self)

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Program:
        """Makes a program again.

        Args:
            stored: What ``to_json`` gave.

        Returns:
            The program.

        Raises:
            ValueError: If something is missing, or more is there.
        """
        try:
            return cls(**stored | {"memory": Memory(**stored["memory"])})
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"expected a stored program, got {error}") from None
