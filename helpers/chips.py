"""What is known of each TPU chip: every number with its source, date and scope.

The numbers live in ``chips.toml`` beside this module and nowhere else. What follows
from them (a ridge, a pod's total, the clock a peak needs) is computed, never stored.
``None`` means that nothing was published, or that there is nothing to publish; the fact
says which. Chip, TensorCore and JAX device differ: a chip of v2, v3 or TPU7x is two JAX
devices, one of v4 or v5p is one device of two TensorCores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from helpers.facts import Fact, read_table

__all__ = ["CHIPS", "Chip", "Pod", "chip"]

_PEAKS = {
    "bf16": "bf16_flops_per_s",
    "bfloat16": "bf16_flops_per_s",
    "int8": "int8_ops_per_s",
    "fp8": "fp8_flops_per_s",
    "float8_e4m3fn": "fp8_flops_per_s",
    "float8_e5m2": "fp8_flops_per_s",
}
# What a chip's JAX devices share equally.
_SHARED = {"tensorcores", "sparsecores", "hbm_bytes", "hbm_bytes_per_s", "cmem_bytes"}
_SHARED |= set(_PEAKS.values())


@dataclass(frozen=True)
class Pod:
    """Totals of many chips; None where the chip's own number is not known."""

    chips: int
    hosts: int | None
    tensorcores: int
    devices: int | None
    bf16_flops_per_s: float | None
    hbm_bytes: int
    hbm_bytes_per_s: float


@dataclass(frozen=True, kw_only=True)
class Chip:
    """A TPU chip; ``facts`` has the source of each number.

    Attributes:
        name: Its key in ``CHIPS``.
        aliases: Other names for it in JAX, besides ``device_kind``.
        marketing_name: What Google calls it.
        device_kind: What JAX calls one of its devices.
        topology_prefix: Its name in a topology to compile for.
        year: Of deployment or announcement.
        tensorcores: TensorCores on a chip.
        devices: JAX devices on a chip.
        mxus_per_tensorcore: Matrix units of a TensorCore.
        mxu_side: Rows, and columns, of cells in a matrix unit.
        vpu_shape: Sublanes and lanes of a TensorCore's vector unit.
        vpu_alus_per_lane: ALUs for each of its places.
        clock_hz: Of the TensorCore.
        bf16_flops_per_s: Peak of a chip.
        int8_ops_per_s: Peak of a chip.
        fp8_flops_per_s: Peak of a chip.
        hbm_bytes: Memory of a chip.
        hbm_usable_bytes: What the compiler can allocate on one JAX device.
        hbm_bytes_per_s: Memory bandwidth of a chip, reads and writes together.
        vmem_bytes_per_tensorcore: Vector memory.
        smem_bytes_per_tensorcore: Scalar memory.
        cmem_bytes: On-die memory that the TensorCores of a chip share.
        ici_links: Links of a chip to others.
        ici_oneway_bytes_per_s: One link, one direction.
        ici_wraparound: Which axes of a slice close into rings, in words.
        pod_chips: Chips of a full pod.
        pod_shape: Its axes.
        chips_per_host: Chips of one machine.
        sparsecores: SparseCores on a chip.
    """

    name: str
    aliases: tuple[str, ...]
    marketing_name: str
    device_kind: str | None
    topology_prefix: str | None
    year: int
    tensorcores: int
    devices: int | None
    mxus_per_tensorcore: int
    mxu_side: int
    vpu_shape: tuple[int, int] | None
    vpu_alus_per_lane: int | None
    clock_hz: float | None
    bf16_flops_per_s: float | None
    int8_ops_per_s: float | None
    fp8_flops_per_s: float | None
    hbm_bytes: int
    hbm_usable_bytes: int | None
    hbm_bytes_per_s: float
    vmem_bytes_per_tensorcore: int
    smem_bytes_per_tensorcore: int | None
    cmem_bytes: int | None
    ici_links: int | None
    ici_oneway_bytes_per_s: float | None
    ici_wraparound: str | None
    pod_chips: int | None
    pod_shape: tuple[int, ...] | None
    chips_per_host: int | None
    sparsecores: int | None

    @property
    def facts(self) -> Mapping[str, Fact]:
        """The fact behind each attribute, as the table has it."""
        return _TABLE[self.name].facts

    @property
    def mxu_cells(self) -> int:
        """Multiply-accumulate cells of a chip."""
        return self.tensorcores * self.mxus_per_tensorcore * self.mxu_side**2

    @property
    def clock_peak_flops_per_s(self) -> float | None:
        """The peak if each cell does one multiply-accumulate (2 FLOPs) a cycle."""
        return _product(2, self.mxu_cells, self.clock_hz)

    @property
    def clock_bound_hz(self) -> float:
        """The clock that the published peak implies at most.

        Cells that do one multiply-accumulate a cycle need this clock for the peak;
        cells that do two need half of it.
        """
        peak = self.bf16_flops_per_s or self.int8_ops_per_s
        assert peak, "every chip of the table has a peak"
        return peak / (2 * self.mxu_cells)

    @property
    def vpu_ops_per_s(self) -> float | None:
        """Vector operations of a chip, one for each ALU and cycle."""
        sublanes, lanes = self.vpu_shape or (None, None)
        alus = _product(self.tensorcores, sublanes, lanes, self.vpu_alus_per_lane)
        return _product(alus, self.clock_hz)

    @property
    def ici_bidirectional_bytes_per_s(self) -> float | None:
        """One link, both directions together."""
        return _product(2, self.ici_oneway_bytes_per_s)

    def peak_per_s(self, dtype: str = "bf16") -> float | None:
        """The peak of a chip for matrix products of a type.

        Args:
            dtype: ``"bf16"``, ``"int8"``, ``"fp8"`` or such a type's name in JAX.

        Returns:
            FLOP/s, or OP/s for integers; None if not published.

        Raises:
            ValueError: If the table has no peaks for the type.
        """
        if dtype not in _PEAKS:
            raise ValueError(f"expected one of {', '.join(_PEAKS)}, got {dtype!r}")
        return getattr(self, _PEAKS[dtype])

    def ridge_flops_per_byte(self, dtype: str = "bf16") -> float | None:
        """The intensity at which arithmetic and HBM take equally long.

        Args:
            dtype: As in ``peak_per_s``.

        Returns:
            FLOP/byte (not multiply-accumulates, of which it takes half as many).

        Raises:
            ValueError: If the table has no peaks for the type.
        """
        peak = self.peak_per_s(dtype)
        return peak and peak / self.hbm_bytes_per_s

    def per_device(self, attribute: str) -> float | None:
        """The part of a chip's number that falls to one of its JAX devices.

        Args:
            attribute: A name of what the devices share, such as ``"hbm_bytes"``.

        Returns:
            The chip's number over its devices; None if either is not known.

        Raises:
            ValueError: If the devices do not share what the attribute counts.
        """
        if attribute not in _SHARED:
            raise ValueError(
                f"expected one of {', '.join(sorted(_SHARED))}, got {attribute!r}"
            )
        whole = getattr(self, attribute)
        return whole and self.devices and whole / self.devices

    def pod(self, chips: int | None = None) -> Pod:
        """Adds up many chips.

        Args:
            chips: How many; a full pod unless given.

        Returns:
            Totals over all of them.

        Raises:
            ValueError: If the number is below 1, or not given for a chip without pods.
        """
        count = self.pod_chips if chips is None else chips
        if count is None or count < 1:
            raise ValueError(f"expected chips >= 1 of {self.name}, got {chips}")
        hosts = self.chips_per_host and -(-count // self.chips_per_host)
        return Pod(
            chips=count,
            hosts=hosts,
            tensorcores=count * self.tensorcores,
            devices=self.devices and count * self.devices,
            bf16_flops_per_s=_product(count, self.bf16_flops_per_s),
            hbm_bytes=count * self.hbm_bytes,
            hbm_bytes_per_s=count * self.hbm_bytes_per_s,
        )


def chip(name: str | Chip) -> Chip:
    """Finds a chip.

    Args:
        name: A key of ``CHIPS``, what JAX calls a device of it, or the chip itself.

    Returns:
        The chip.

    Raises:
        ValueError: If there is none of that name.
    """
    if isinstance(name, Chip):
        return name
    for found in CHIPS.values():
        if name in {found.name, found.device_kind, *found.aliases} - {None}:
            return found
    raise ValueError(
        f"expected one of {', '.join(CHIPS)} or a JAX device_kind, got {name!r}"
    )


def _product(*factors: float | None) -> float | None:
    """A product that is unknown as soon as a factor is."""
    result: float = 1
    for factor in factors:
        if factor is None:
            return None
        result *= factor
    return result


def _chip(name: str, facts: Mapping[str, Fact], aliases: list[str]) -> Chip:
    values = {key: fact.value for key, fact in facts.items()}
    return Chip(name=name, aliases=tuple(aliases), **values)


_TABLE = read_table("chips")
CHIPS: Mapping[str, Chip] = MappingProxyType(
    {key: _chip(key, row.facts, row.extra["aliases"]) for key, row in _TABLE.items()}
)
"""The chips by name, oldest first."""
