"""Energy of a product: by hand, and what the ratio to fetching depends on."""

from __future__ import annotations

import dataclasses

import pytest

from helpers.energy import ENERGIES, fetching_bill, systolic_bill
from helpers.systolic_counts import Array, count


def test_one_multiplication_by_hand():
    # One cell, A[1, 1] B[1, 1]: 0.2 + 0.1 pJ; two bytes in and four out at 100 pJ for
    # eight; one sum of four bytes in a register at 1 pJ.
    bill = systolic_bill(count(1, 1, 1, Array(1, 1)))
    assert bill.arithmetic_pj == pytest.approx(0.3)
    assert bill.memory_pj == pytest.approx(6 * 12.5)
    assert bill.registers_pj == pytest.approx(1.0)
    assert bill.total_pj == pytest.approx(76.3)
    # Two cells above each other: the lower one passes the sum on, 1 pJ more.
    below = systolic_bill(count(1, 1, 1, Array(2, 1)))
    assert below.registers_pj == pytest.approx(2.0)


@pytest.mark.parametrize("memory", ["sram 8 KB", "sram 1 MB", "dram"])
@pytest.mark.parametrize("dtype", ["int8", "bfloat16", "float32"])
def test_a_grid_of_one_cell_saves_nothing(dtype, memory):
    array = systolic_bill(count(1, 9, 1, Array(1, 1, "os")), dtype, memory)
    assert array == fetching_bill(1, 9, 1, dtype, memory)


def test_memory_energy_falls_with_the_side_and_arithmetic_does_not():
    sizes = [1, 8, 64, 256]
    bills = [systolic_bill(count(512, 512, 512, Array(s, s, "os"))) for s in sizes]
    fetching = fetching_bill(512, 512, 512)
    assert {bill.arithmetic_pj for bill in bills} == {fetching.arithmetic_pj}
    operands = fetching.memory_pj - 512 * 512 * 4 * 12.5
    for side, bill in zip(sizes, bills, strict=True):
        assert bill.memory_pj - 512 * 512 * 4 * 12.5 == pytest.approx(operands / side)


def test_one_row_gains_nothing_from_kept_weights():
    # Each weight is used once: the array reads as many as it multiplies.
    counts = count(1, 256, 256, Array(256, 256))
    assert counts.b_reads == counts.macs
    ratio = fetching_bill(1, 256, 256).total_pj / systolic_bill(counts).total_pj
    many = count(4096, 256, 256, Array(256, 256))
    assert ratio < 2.1
    assert fetching_bill(4096, 256, 256).total_pj > 10 * systolic_bill(many).total_pj


def test_figures_have_sources_and_wider_costs_more():
    for name, energy in ENERGIES.items():
        fields = dataclasses.asdict(energy)
        assert "20" in fields["source"] and energy.picojoules > 0, name
    pj = {name: energy.picojoules for name, energy in ENERGIES.items()}
    for kind in ("add", "multiply"):
        assert pj[f"int8 {kind}"] < pj[f"int32 {kind}"] < pj[f"float32 {kind}"]
    # Half an access of 64 bits is what Han's paper gives for 32: 5 and 640 pJ.
    assert ENERGIES["sram 8 KB"].per_byte * 4 == 5.0
    assert 2 * 640 / pj["dram"] == pytest.approx(1, abs=0.02)


def test_unknown_types_and_memories_are_refused():
    counts = count(1, 1, 1, Array(1, 1))
    with pytest.raises(ValueError, match="expected one of int8, .*, got 'int4'"):
        systolic_bill(counts, "int4")
    with pytest.raises(ValueError, match="expected a memory of .*, got 'int8 add'"):
        systolic_bill(counts, "int8", "int8 add")
