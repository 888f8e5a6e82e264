"""What arithmetic and memory cost in energy, as published, and a product's bill.

The figures are rough by their author's own word: one 45 nm process at 0.9 V, ten years
older than today's chips. They serve for ratios, between fetching and computing, and
never for the power of a chip. What a bill leaves out: clocks, control, leakage, wires
longer than to a neighbour. So everything here is an estimate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from helpers.systolic_counts import Counts

__all__ = [
    "Bill",
    "ENERGIES",
    "Energy",
    "HAN",
    "HOROWITZ",
    "fetching_bill",
    "systolic_bill",
]

HOROWITZ = (
    "M. Horowitz, Computing's energy problem (and what we can do about it), ISSCC "
    "2014, pages 10-14; 45 nm, 0.9 V; read in two public transcriptions, 2026-12-01"
)
HAN = (
    "S. Han and others, Learning both weights and connections for efficient neural "
    "networks, arXiv:1506.02626 (2015), figure 1; 45 nm; read in a public "
    "transcription, 2026-12-01"
)
_SUM_BYTES = 4


@dataclass(frozen=True)
class Energy:
    """A published energy.

    Attributes:
        picojoules: Of one operation, or of one access.
        bits: Width of the operation or of the access.
        source: Where it is published.
        note: What else to know.
    """

    picojoules: float
    bits: int
    source: str
    note: str = ""

    @property
    def per_byte(self) -> float:
        """Picojoules for each byte of an access."""
        return self.picojoules / (self.bits / 8)


_CACHE = (
    "An access of 64 bits. Halved to 32 bits, the 8 KB figure is the 5 pJ of Han; the "
    "same authors' EIE (arXiv:1602.01528, table I) gives 5 pJ to a memory of 32 KB, "
    "where half of Horowitz's figure is 10 pJ."
)
ENERGIES: Mapping[str, Energy] = MappingProxyType(
    {
        "int8 add": Energy(0.03, 8, HOROWITZ),
        "int32 add": Energy(0.1, 32, HOROWITZ),
        "int8 multiply": Energy(0.2, 8, HOROWITZ),
        "int32 multiply": Energy(3.1, 32, HOROWITZ),
        "float16 add": Energy(0.4, 16, HOROWITZ),
        "float32 add": Energy(0.9, 32, HOROWITZ),
        "float16 multiply": Energy(1.1, 16, HOROWITZ),
        "float32 multiply": Energy(3.7, 32, HOROWITZ),
        "register": Energy(1.0, 32, HAN, "Of a register file: a bound for a latch."),
        "sram 8 KB": Energy(10.0, 64, HOROWITZ, _CACHE),
        "sram 32 KB": Energy(20.0, 64, HOROWITZ, _CACHE),
        "sram 1 MB": Energy(100.0, 64, HOROWITZ, _CACHE),
        "dram": Energy(1300.0, 64, HOROWITZ, "The low end of 1.3 to 2.6 nJ."),
    }
)
"""The figures by what costs them."""

# A product and a sum, and the bytes of an operand. bfloat16 has no figure of its own;
# its significand is shorter than float16's, so this is a bound.
_ARITHMETIC = {
    "int8": ("int8 multiply", "int32 add", 1),
    "bfloat16": ("float16 multiply", "float32 add", 2),
    "float32": ("float32 multiply", "float32 add", 4),
}


@dataclass(frozen=True)
class Bill:
    """The energy of a product, by what it is spent on.

    Attributes:
        arithmetic_pj: Multiplications and additions, in picojoules.
        memory_pj: Operands and sums read from memory and written to it.
        registers_pj: Values written to a register, a neighbour's or one's own.
    """

    arithmetic_pj: float
    memory_pj: float
    registers_pj: float

    @property
    def total_pj(self) -> float:
        """The sum, in picojoules."""
        return self.arithmetic_pj + self.memory_pj + self.registers_pj


def systolic_bill(
    counts: Counts, dtype: str = "int8", memory: str = "sram 1 MB"
) -> Bill:
    """Prices what a systolic array was counted to do.

    Args:
        counts: Of a product, simulated or in closed form.
        dtype: Of the operands: ``"int8"``, ``"bfloat16"`` or ``"float32"``; sums take
            four bytes.
        memory: A key of `ENERGIES`, from which operands come and to which sums go.

    Returns:
        An estimate, in picojoules.

    Raises:
        ValueError: If there is no figure for the type or the memory.
    """
    mac_pj, operand_bytes = _mac(dtype)
    sums = counts.sum_writes + counts.sum_reads
    moved = (counts.a_reads + counts.b_reads) * operand_bytes + sums * _SUM_BYTES
    in_cells = counts.operand_moves * operand_bytes
    in_cells += (counts.macs + counts.sum_passes) * _SUM_BYTES
    return Bill(
        arithmetic_pj=counts.macs * mac_pj,
        memory_pj=moved * _figure(memory).per_byte,
        registers_pj=in_cells * ENERGIES["register"].per_byte,
    )


def fetching_bill(
    m: int, k: int, n: int, dtype: str = "int8", memory: str = "sram 1 MB"
) -> Bill:
    """Prices the same product where each multiplication fetches both its operands.

    A unit keeps its sum in a register of its own and writes it to memory once. It has
    no instructions: a processor pays for those as well.

    Args:
        m: M, rows of A[M, K].
        k: K, the contracted length.
        n: N, columns of B[K, N].
        dtype: Of the operands, as for `systolic_bill`.
        memory: A key of `ENERGIES`.

    Returns:
        An estimate, in picojoules.

    Raises:
        ValueError: If there is no figure for the type or the memory.
    """
    mac_pj, operand_bytes = _mac(dtype)
    macs = m * k * n
    moved = 2 * macs * operand_bytes + m * n * _SUM_BYTES
    return Bill(
        arithmetic_pj=macs * mac_pj,
        memory_pj=moved * _figure(memory).per_byte,
        registers_pj=macs * _SUM_BYTES * ENERGIES["register"].per_byte,
    )


def _mac(dtype: str) -> tuple[float, int]:
    """Picojoules of a multiply-accumulate, and the bytes of an operand."""
    if dtype not in _ARITHMETIC:
        raise ValueError(f"expected one of {', '.join(_ARITHMETIC)}, got {dtype!r}")
    product, total, size = _ARITHMETIC[dtype]
    return ENERGIES[product].picojoules + ENERGIES[total].picojoules, size


def _figure(memory: str) -> Energy:
    known = [name for name in ENERGIES if name.startswith(("sram", "dram", "register"))]
    if memory not in known:
        raise ValueError(f"expected a memory of {', '.join(known)}, got {memory!r}")
    return ENERGIES[memory]
