"""Bounds from counting: arithmetic against memory, and against the links between chips.

A roofline says what cannot be beaten: work of so many FLOPs that moves so many bytes
takes at least the longer of its two times, and at most their sum if nothing overlaps.
Peaks and bandwidths come from a chip of the table (`roof`) or are given as numbers
(`Roof`), for a GPU, a link or a host as well. Everything here is a bound: no estimate,
no measurement.

A ridge is in FLOP/byte. The TPU v1 paper counts multiply-accumulates for each byte of
weights: its ridge of 1350 is 2700 FLOP/byte.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from helpers.chips import Chip, chip
from helpers.costs import Counted

__all__ = ["Bound", "Roof", "bound", "roof", "transfer_s"]


@dataclass(frozen=True)
class Bound:
    """The least time that work can take, by what it needs.

    Attributes:
        compute_s: Of its arithmetic at peak.
        memory_s: Of its bytes at the memory's bandwidth.
        network_s: Of its bytes over links at their bandwidth.
    """

    compute_s: float
    memory_s: float
    network_s: float = 0.0

    @property
    def bound_s(self) -> float:
        """Everything overlapped: no machine of these rates is faster."""
        return max(self.compute_s, self.memory_s, self.network_s)

    @property
    def serial_s(self) -> float:
        """Nothing overlapped: at most three times `bound_s`, twice without links."""
        return self.compute_s + self.memory_s + self.network_s

    @property
    def limited_by(self) -> str:
        """``"compute"``, ``"memory"`` or ``"network"``; the first of equals."""
        times = {
            "compute": self.compute_s,
            "memory": self.memory_s,
            "network": self.network_s,
        }
        return max(times, key=times.__getitem__)

    @property
    def peak_fraction(self) -> float:
        """The share of the peak that cannot be exceeded; 0 for no arithmetic."""
        return self.compute_s / self.bound_s if self.bound_s else 0.0


@dataclass(frozen=True)
class Roof:
    """The rates of a machine.

    Attributes:
        flops_per_s: Peak arithmetic.
        bytes_per_s: Memory bandwidth; None to leave memory out of account.
        link_bytes_per_s: All links in use, in the direction that the data go; None
            for a machine without.
    """

    flops_per_s: float
    bytes_per_s: float | None = None
    link_bytes_per_s: float | None = None

    def __post_init__(self) -> None:
        _require_rate(self.flops_per_s, "flops_per_s")
        for name in ("bytes_per_s", "link_bytes_per_s"):
            if getattr(self, name) is not None:
                _require_rate(getattr(self, name), name)

    @property
    def ridge_flops_per_byte(self) -> float:
        """The intensity at which arithmetic and memory take equally long.

        Raises:
            ValueError: If there is no memory bandwidth.
        """
        return self.flops_per_s / _known(self.bytes_per_s, "bytes_per_s")

    @property
    def network_ridge_flops_per_byte(self) -> float:
        """The FLOPs for each byte sent at which arithmetic and links are equal.

        Raises:
            ValueError: If there are no links.
        """
        return self.flops_per_s / _known(self.link_bytes_per_s, "link_bytes_per_s")

    def attainable_flops_per_s(self, intensity: Any) -> Any:
        """The roof itself: the lower of the peak and what memory can feed.

        Args:
            intensity: FLOP/byte, a number or an array.

        Returns:
            FLOP/s, of the shape of the intensity.

        Raises:
            ValueError: If there is no memory bandwidth.
        """
        fed = np.asarray(intensity) * _known(self.bytes_per_s, "bytes_per_s")
        return np.minimum(self.flops_per_s, fed)[()]


def roof(
    name: str | Chip, *, per: str, dtype: str = "bf16", links: int = 0, count: int = 1
) -> Roof:
    """Takes the rates of a chip from the table.

    Args:
        name: A chip, or its name.
        per: ``"chip"``, or ``"device"`` for one JAX device, as compiled programs are
            counted: on v2, v3 and TPU7x that is half a chip and half its links.
        dtype: Of the matrix products, such as ``"bf16"`` or ``"int8"``.
        links: How many of a chip's links are used at once, in one direction each; a
            ring sends over two.
        count: How many chips or devices work together.

    Returns:
        Their rates together.

    Raises:
        ValueError: If a rate is not published, the chip has no such devices or links,
            or an argument is unknown.
    """
    found = chip(name)
    if per not in ("chip", "device"):
        raise ValueError(f"expected per to be 'chip' or 'device', got {per!r}")
    if not 0 <= links <= (found.ici_links or 0):
        raise ValueError(f"expected 0 to {found.ici_links} links, got {links}")
    if count < 1:
        raise ValueError(f"expected count >= 1, got {count}")
    parts = (
        1
        if per == "chip"
        else _known(found.devices, f"the JAX devices of {found.name}")
    )
    peak = _known(found.peak_per_s(dtype), f"the {dtype} peak of {found.name}")
    link = links and links * _known(
        found.ici_oneway_bytes_per_s, f"the links of {found.name}"
    )
    return Roof(
        flops_per_s=count * peak / parts,
        bytes_per_s=count * found.hbm_bytes_per_s / parts,
        link_bytes_per_s=count * link / parts if links else None,
    )


def bound(work: Counted, machine: Roof, *, link_bytes: float = 0.0) -> Bound:
    """Bounds the time of some work.

    Args:
        work: A `Cost`, or a program with ``flops`` and ``bytes_accessed``.
        machine: The rates of what it runs on: for a program, of one device.
        link_bytes: Bytes that it sends over the links of the machine.

    Returns:
        The times, from which follow the bound and what sets it.

    Raises:
        ValueError: If the work needs memory or links of which the machine has none,
            or a count is negative.
    """
    counts = {"flops": work.flops, "bytes_accessed": work.bytes_accessed}
    for name, value in (counts | {"link_bytes": link_bytes}).items():
        if not value >= 0:
            raise ValueError(f"expected {name} >= 0, got {value}")
    memory = _known(machine.bytes_per_s, "bytes_per_s") if work.bytes_accessed else 1
    link = _known(machine.link_bytes_per_s, "link_bytes_per_s") if link_bytes else 1
    return Bound(
        compute_s=work.flops / machine.flops_per_s,
        memory_s=work.bytes_accessed / memory,
        network_s=link_bytes / link,
    )


def transfer_s(
    size_bytes: float, bytes_per_s: float, *, hops: int = 0, hop_s: float = 0.0
) -> float:
    """Bounds the time to send bytes: the longer of bandwidth and latency.

    Args:
        size_bytes: What is sent.
        bytes_per_s: Of all links that carry it, in its direction.
        hops: Links on the way of the first byte.
        hop_s: Latency of each.

    Returns:
        Seconds.
    """
    _require_rate(bytes_per_s, "bytes_per_s")
    return max(size_bytes / bytes_per_s, hops * hop_s)


def _known(value: Any, name: str) -> Any:
    if value is None:
        raise ValueError(f"expected {name} to be known, got None")
    return value


def _require_rate(value: float, name: str) -> None:
    if not (value > 0 and math.isfinite(value)):
        raise ValueError(f"expected {name} to be positive and finite, got {value}")
