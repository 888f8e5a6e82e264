"""Six workloads on the first TPU, as its paper reports them, against the bound.

Values of tables 1, 3 and 6 of N. P. Jouppi and others, "In-datacenter performance
analysis of a tensor processing unit", ISCA 2017, arXiv:1704.04760, read in a public
transcription, 2026-12-01. The chip's own numbers are in ``helpers.chips``. The paper
counts a multiply-accumulate as one operation for each byte of weights, but as two
operations for TOPS; here `bound_ops_per_s` puts both in operations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from helpers.chips import CHIPS
from helpers.roofline import roof

__all__ = [
    "PEAK_FROM_CELLS",
    "REPORTED_MEANS",
    "RIDGE_MACS_PER_BYTE",
    "WORKLOADS",
    "Workload",
    "bound_ops_per_s",
    "cycles_per_row",
    "implied_ops_per_s",
    "weight_tile_cycles",
]


@dataclass(frozen=True)
class Workload:
    """A row of the paper's tables.

    Attributes:
        name: What the paper calls it.
        layers: Of all kinds.
        weights: How many, and their bytes: 8 bits each.
        macs_per_weight_byte: Multiply-accumulates for each byte of weights read.
        batch: Examples at once.
        active: Share of cycles in which the array multiplies at all, in percent.
        useful: Cells doing useful multiplications, in percent of cells times cycles.
        unused: Cells idle while the array is active, likewise.
        weight_stall: Share of cycles waiting for weights from memory, in percent.
        weight_shift: Share of cycles that shift weights into the array.
        non_matrix: Share of cycles spent otherwise.
        tops: Reported 10^12 operations a second.
        gpu_relative: Speed of the GPU (a K80 die) as a multiple of the CPU's.
        tpu_relative: Speed of the TPU as a multiple of the CPU's.
    """

    name: str
    layers: int
    weights: float
    macs_per_weight_byte: int
    batch: int
    active: float
    useful: float
    unused: float
    weight_stall: float
    weight_shift: float
    non_matrix: float
    tops: float
    gpu_relative: float
    tpu_relative: float

    @property
    def ops_per_s(self) -> float:
        """Reported operations a second."""
        return self.tops * 1e12


_COLUMNS = (
    ("MLP0", 5, 20e6, 200, 200, 12.7, 12.5, 0.3, 53.9, 15.9, 17.5, 12.3, 2.5, 41.0),
    ("MLP1", 4, 5e6, 168, 168, 10.6, 9.4, 1.2, 44.2, 13.4, 31.9, 9.7, 0.3, 18.5),
    ("LSTM0", 58, 52e6, 64, 64, 8.2, 8.2, 0.0, 58.1, 15.8, 17.9, 3.7, 0.4, 3.5),
    ("LSTM1", 56, 34e6, 96, 96, 10.5, 6.3, 4.2, 62.1, 17.1, 10.3, 2.8, 1.2, 1.2),
    ("CNN0", 16, 8e6, 2888, 8, 78.2, 78.2, 0.0, 0.0, 0.0, 21.8, 86.0, 1.6, 40.3),
    ("CNN1", 89, 100e6, 1750, 32, 46.2, 22.5, 23.7, 28.1, 7.0, 18.7, 14.1, 2.7, 71.0),
)
WORKLOADS: tuple[Workload, ...] = tuple(Workload(*column) for column in _COLUMNS)
"""In the order of the paper."""

REPORTED_MEANS = {
    ("geometric", "tpu"): 14.5,
    ("geometric", "gpu"): 1.1,
    ("weighted", "tpu"): 29.2,
    ("weighted", "gpu"): 1.9,
}
"""Table 6: speed as a multiple of the CPU's, over the six workloads."""

_CHIP = CHIPS["v1"]
PEAK_FROM_CELLS: float = _CHIP.clock_peak_flops_per_s or math.nan
"""Cells times two operations times the clock, in operations a second."""
RIDGE_MACS_PER_BYTE: float = (
    _CHIP.clock_bound_hz * _CHIP.mxu_cells / (_CHIP.hbm_bytes_per_s)
)
"""Where the published peak meets the memory, as the paper counts."""


def bound_ops_per_s(workload: Workload) -> float:
    """The roofline's bound: what weight memory can feed, or the published peak.

    Args:
        workload: Of which every weight is read once for a batch.

    Returns:
        Operations a second.
    """
    roofline = roof("v1", per="chip", dtype="int8")
    return float(roofline.attainable_flops_per_s(2 * workload.macs_per_weight_byte))


def implied_ops_per_s(workload: Workload) -> float:
    """What the share of useful cells says the workload reaches.

    Args:
        workload: A row of the tables.

    Returns:
        Operations a second: the published peak times that share. It should be what the
        paper reports.
    """
    return workload.useful / 100 * (_CHIP.int8_ops_per_s or math.nan)


def weight_tile_cycles() -> float:
    """The cycles in which memory delivers the weights of one filling of the array.

    Returns:
        Clock cycles, at one byte a cell.
    """
    seconds = _CHIP.mxu_cells / _CHIP.hbm_bytes_per_s
    return seconds * (_CHIP.clock_hz or math.nan)


def cycles_per_row(workload: Workload) -> float:
    """How long the array works on one example, from the reported shares of cycles.

    Args:
        workload: One that waits for weights, so that memory delivers them all the time
            that is not spent outside the matrix unit.

    Returns:
        Cycles that the array is active for each row and filling: 1 if a row enters
        every cycle.
    """
    streaming = workload.active + workload.weight_stall + workload.weight_shift
    return workload.active / streaming * weight_tile_cycles() / workload.batch
