"""Costs and bounds: worked problems of others, limits, and a real program."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from helpers.chips import CHIPS, chip
from helpers.costs import (
    Cost,
    critical_batch,
    critical_size,
    intensity,
    matmul_cost,
    useful_fraction,
)
from helpers.roofline import Bound, Roof, bound, roof, transfer_s

DATA = Path(__file__).parent / "data" / "worked_problems.json"
PROBLEMS = {p["id"]: p for p in json.loads(DATA.read_text(encoding="utf-8"))}
Numbers = dict[str, float]


def only_arithmetic(work: float, peak_h100: float, peak_v6e: float) -> Numbers:
    times = {"time_h100": peak_h100, "time_v6e": peak_v6e}
    return {
        name: bound(Cost(work, 0), Roof(peak)).bound_s for name, peak in times.items()
    }


def matrix_product(
    B: float, D: float, F: float, peak_flops: float, hbm_bandwidth: float
) -> Numbers:
    work = matmul_cost(B, D, F)
    result = bound(work, Roof(peak_flops, hbm_bandwidth))
    return {
        "intensity": intensity(work),
        "t_math": result.compute_s,
        "t_comms": result.memory_s,
        "lower_bound": result.bound_s,
        "upper_bound": result.serial_s,
    }


def product_for_each_row(B: float, D: float, F: float) -> Numbers:
    sizes = {"left_bytes": 1, "right_bytes": 1, "result_bytes": 1}
    return {"intensity": intensity(matmul_cost(1, D, F, products=B, **sizes))}


def halves_exchanged(peak_flops: float, link_oneway: float) -> Numbers:
    def flops_per_byte_sent(inner: float) -> float:
        half = matmul_cost(1, inner / 2, 1, left_bytes=0, right_bytes=0)
        return intensity(half)  # its result is what goes over the link

    machine = Roof(peak_flops, link_bytes_per_s=link_oneway)
    ridge = machine.network_ridge_flops_per_byte
    return {"d_min": critical_size(flops_per_byte_sent, ridge)}


def full_pod(
    pod_x: int,
    pod_y: int,
    host_x: int,
    host_y: int,
    cores_per_chip: int,
    peak_flops: float,
    hbm_bytes: float,
) -> Numbers:
    changed = dataclasses.replace(
        chip("v5e"),
        pod_chips=pod_x * pod_y,
        chips_per_host=host_x * host_y,
        tensorcores=cores_per_chip,
        bf16_flops_per_s=peak_flops,
        hbm_bytes=hbm_bytes,
    )
    pod = changed.pod()
    return {
        "hosts": pod.hosts,
        "cores": pod.tensorcores,
        "flops": pod.bf16_flops_per_s,
        "hbm_bytes": pod.hbm_bytes,
    }


def vector_unit(
    sublanes: int, lanes: int, alus: int, cores: int, clock: float, mxu_chip: float
) -> Numbers:
    changed = dataclasses.replace(
        chip("v5p"),
        vpu_shape=(sublanes, lanes),
        vpu_alus_per_lane=alus,
        tensorcores=cores,
        clock_hz=clock,
    )
    one = dataclasses.replace(changed, tensorcores=1)
    return {
        "vpu_core": one.vpu_ops_per_s,
        "vpu_chip": changed.vpu_ops_per_s,
        "mxu_to_vpu": mxu_chip / changed.vpu_ops_per_s,
    }


def padding(K: int, N: int, mxu_small: int, mxu_large: int) -> Numbers:
    return {
        f"useful_{side}": useful_fraction((K, N), (side, side))
        for side in (mxu_small, mxu_large)
    }


def weights_read_once(D: int, F: int, chips: int, hbm_bandwidth: float) -> Numbers:
    params = 2 * D * F
    machine = Roof(1e15, chips * hbm_bandwidth)
    return {"params": params, "time": bound(Cost(0, 2 * params), machine).memory_s}


def precision_over_links(
    F: float, peak_bf16: float, peak_int8: float, link_bidi: float
) -> Numbers:
    wide = Roof(peak_bf16, link_bytes_per_s=link_bidi).network_ridge_flops_per_byte
    narrow = Roof(peak_int8, link_bytes_per_s=link_bidi).network_ridge_flops_per_byte
    # A byte sent in int8 carries twice the elements.
    return {"alpha_int8": narrow, "y_bf16": F / wide, "y_int8": 2 * F / narrow}


SOLUTIONS: dict[str, Callable[..., Numbers]] = {
    "roofline-02": only_arithmetic,
    "roofline-05": matrix_product,
    "roofline-11": product_for_each_row,
    "roofline-13": halves_exchanged,
    "hardware-02": full_pod,
    "hardware-09": vector_unit,
    "hardware-13": padding,
    "serving-15": weights_read_once,
    "parallel-08": precision_over_links,
}


@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_library_reproduces_the_worked_problem(problem):
    entry = PROBLEMS[problem]
    inputs = {name: given["value"] for name, given in entry["inputs"].items()}
    answers = {name: given["value"] for name, given in entry["answer"].items()}
    found = SOLUTIONS[problem](**inputs)
    assert found.keys() == answers.keys()
    for name, answer in answers.items():
        assert found[name] == pytest.approx(answer, rel=entry["tolerance_relative"])


# Other problems of How to Scale Your Model, tpus.md (2025-02-18), with its inputs.
def test_reading_200b_parameters_on_32_chips_takes_10_ms():
    machine = Roof(275e12, 32 * 1.23e12)
    assert bound(Cost(0, 400e9), machine).bound_s == pytest.approx(10.16e-3, rel=1e-3)


def test_a_product_over_pcie_needs_61_000_rows():
    ridge = Roof(9.2e14, 1.5e10).ridge_flops_per_byte
    assert critical_batch(ridge) == pytest.approx(61_333, rel=1e-4)


# The book prints 271: its 2·D·F is rounded to 1.3e8, which the exact one exceeds by 3%.
@pytest.mark.parametrize(("faster", "rows"), [(1, 262.7), (22, 11.1)])
def test_an_int8_product_needs_263_rows_from_hbm_and_11_from_vmem(faster, rows):
    ridge = Roof(3.94e14, 8.1e11 * faster).ridge_flops_per_byte
    sizes = {"left_bytes": 1, "right_bytes": 1, "result_bytes": 1}
    found = critical_batch(ridge, inner=4096, columns=16384, **sizes)
    assert found == pytest.approx(rows, abs=0.05)


def test_16_mib_over_two_links_are_bound_by_bandwidth_not_by_six_hops():
    size = 2 * 8 * 128 * 8192
    found = transfer_s(size, 2 * 4.5e10, hops=6, hop_s=1e-6)
    assert found == pytest.approx(186.4e-6, rel=1e-3)
    assert transfer_s(1, 2 * 4.5e10, hops=6, hop_s=1e-6) == 6e-6
    with pytest.raises(ValueError, match="bytes_per_s to be positive .*, got 0"):
        transfer_s(1, 0)


# Jouppi et al., ISCA 2017, table 4 and figure 5: multiply-accumulates per weight byte,
# and the roof in TOPS, here from 34 GB/s and 92 TOPS.
@pytest.mark.parametrize(
    ("macs_per_byte", "tops"),
    [(200, 13.6), (168, 11.4), (64, 4.4), (96, 6.5), (2888, 92), (1750, 92)],
)
def test_the_roof_of_v1_stands_over_the_applications_of_its_paper(macs_per_byte, tops):
    machine = roof("v1", per="chip", dtype="int8")
    found = machine.attainable_flops_per_s(2 * macs_per_byte)
    assert found / 1e12 == pytest.approx(tops, abs=0.05)
    assert machine.ridge_flops_per_byte / 2 == pytest.approx(1353, abs=0.1)


# Hand-worked for v5e with 820 GB/s: 2r/(2 - 4r/side), r = 240.2.
@pytest.mark.parametrize(("side", "rows"), [(1024, 453), (4096, 272), (8192, 255)])
def test_small_weights_need_a_larger_batch(side, rows):
    ridge = Roof(197e12, 820e9).ridge_flops_per_byte
    assert round(critical_batch(ridge, inner=side, columns=side)) == rows
    assert critical_batch(ridge) == ridge


def test_the_critical_batch_is_where_the_intensity_meets_the_ridge():
    for sizes in ({}, {"right_bytes": 1}, {"left_bytes": 1, "result_bytes": 4}):
        for inner, columns in ((1024, 4096), (8192, 512), (700, 900)):

            def at(rows: float, d=inner, f=columns, sizes=sizes) -> float:
                return intensity(matmul_cost(rows, d, f, **sizes))

            exact = critical_batch(100, inner=inner, columns=columns, **sizes)
            assert at(exact) == pytest.approx(100)
            assert critical_size(at, 100) == pytest.approx(exact, rel=1e-11)


def test_int8_weights_with_bf16_arithmetic_halve_the_critical_batch():
    ridge = roof("v5e", per="chip").ridge_flops_per_byte
    assert critical_batch(ridge, right_bytes=1) == critical_batch(ridge) / 2


def test_some_products_are_never_bound_by_arithmetic():
    # Intensity stays below DF/(D+F) = 64 for any batch.
    assert critical_batch(240, inner=128, columns=128) == math.inf
    never = critical_size(lambda rows: intensity(matmul_cost(rows, 128, 128)), 240)
    assert never == math.inf
    assert critical_size(lambda size: 500.0, 240) == pytest.approx(0)


def test_a_product_has_the_intensity_of_the_formula():
    B, D, F = 512, 4096, 16384
    assert intensity(matmul_cost(B, D, F)) == B * D * F / (B * D + D * F + B * F)
    # A dot product: one FLOP for two bytes; a tile that stays: mn/(m+n).
    assert intensity(matmul_cost(1, 1e9, 1)) == pytest.approx(0.5)
    tile = matmul_cost(256, 1024, 512, result_bytes=0)
    assert intensity(tile) == pytest.approx(256 * 512 / (256 + 512))
    assert intensity(Cost(1, 0)) == math.inf


def test_a_bound_names_what_sets_it():
    machine = Roof(100.0, 10.0, 1.0)
    assert bound(Cost(1000, 10), machine).limited_by == "compute"
    assert bound(Cost(10, 1000), machine).limited_by == "memory"
    assert bound(Cost(10, 10), machine, link_bytes=5).limited_by == "network"
    assert bound(Cost(100, 10), machine).limited_by == "compute"  # at the ridge
    found = bound(Cost(100, 20), machine, link_bytes=3)
    assert found == Bound(compute_s=1, memory_s=2, network_s=3)
    assert (found.bound_s, found.serial_s) == (3, 6)
    assert found.peak_fraction == pytest.approx(1 / 3)
    nothing = bound(Cost(0, 0), Roof(1.0))
    assert (nothing.bound_s, nothing.peak_fraction) == (0, 0)


def test_the_roof_has_two_slopes_that_meet_at_the_ridge():
    machine = roof("v5p", per="chip")
    ridge = machine.ridge_flops_per_byte
    below, at, above = machine.attainable_flops_per_s([ridge / 2, ridge, ridge * 2])
    assert below == pytest.approx(machine.flops_per_s / 2)
    assert at == pytest.approx(machine.flops_per_s)
    assert above == machine.flops_per_s
    assert machine.attainable_flops_per_s(0) == 0
    assert machine.attainable_flops_per_s(np.ones((2, 3))).shape == (2, 3)


def test_the_roof_and_the_bound_agree():
    machine = roof("v6e", per="chip")
    for rows in (1, 64, 560, 8192):
        work = matmul_cost(rows, 8192, 8192)
        rate = work.flops / bound(work, machine).bound_s
        assert rate == pytest.approx(machine.attainable_flops_per_s(intensity(work)))


@pytest.mark.parametrize("name", [n for n, c in CHIPS.items() if c.devices])
def test_devices_of_a_chip_together_have_its_rates(name):
    found = chip(name)
    links = found.ici_links or 0
    whole = roof(name, per="chip", links=links)
    parts = roof(name, per="device", links=links, count=found.devices)
    assert parts == whole
    assert whole.flops_per_s == found.bf16_flops_per_s
    assert whole.ridge_flops_per_byte == found.ridge_flops_per_byte()
    if links:
        assert whole.link_bytes_per_s == links * found.ici_oneway_bytes_per_s


def test_a_roof_takes_types_links_and_counts():
    one = roof("v6e", per="chip", dtype="int8", links=2)
    v6e = chip("v6e")
    assert one.flops_per_s == v6e.int8_ops_per_s
    assert one.link_bytes_per_s == v6e.ici_bidirectional_bytes_per_s
    assert roof(v6e, per="chip", count=4).bytes_per_s == 4 * v6e.hbm_bytes_per_s
    assert roof("v6e", per="chip").link_bytes_per_s is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "v9", "per": "chip"}, "expected one of v1, .* got 'v9'"),
        ({"name": "v5e", "per": "core"}, "expected per to be 'chip' or .*, got 'core'"),
        ({"name": "v5e", "per": "chip", "links": 5}, "expected 0 to 4 links, got 5"),
        ({"name": "v5e", "per": "chip", "count": 0}, "expected count >= 1, got 0"),
        ({"name": "v5e", "per": "chip", "dtype": "f"}, "expected one of bf16, .* 'f'"),
        ({"name": "v1", "per": "chip"}, "the bf16 peak of v1 to be known, got None"),
        (
            {"name": "v1", "per": "device", "dtype": "int8"},
            "the JAX devices of v1 to be known, got None",
        ),
        ({"name": "v1", "per": "chip", "links": 1}, "expected 0 to None links, got 1"),
        ({"name": "v2", "per": "chip", "dtype": "fp8"}, "the fp8 peak of v2 to be"),
    ],
)
def test_a_roof_refuses_what_the_table_does_not_know(arguments, message):
    with pytest.raises(ValueError, match=message):
        roof(**arguments)


@pytest.mark.parametrize("rate", [0, -1.0, math.inf, math.nan])
def test_a_roof_refuses_rates_that_are_none(rate):
    for name in ("flops_per_s", "bytes_per_s", "link_bytes_per_s"):
        with pytest.raises(ValueError, match=f"expected {name} to be positive"):
            Roof(**({"flops_per_s": 1.0} | {name: rate}))


def test_a_bound_refuses_work_that_the_machine_cannot_do():
    machine = Roof(1.0)
    with pytest.raises(ValueError, match="expected bytes_per_s to be known, got None"):
        bound(Cost(1, 1), machine)
    with pytest.raises(ValueError, match="expected link_bytes_per_s to be known"):
        bound(Cost(1, 0), machine, link_bytes=1)
    with pytest.raises(ValueError, match="expected flops >= 0, got -1"):
        bound(Cost(-1, 0), machine)
    for attribute in ("ridge_flops_per_byte", "network_ridge_flops_per_byte"):
        with pytest.raises(ValueError, match="to be known, got None"):
            getattr(machine, attribute)
    with pytest.raises(ValueError, match="to be known, got None"):
        machine.attainable_flops_per_s(1)


def test_a_tile_wastes_what_it_pads():
    assert useful_fraction((128, 256), (128, 128)) == 1
    assert useful_fraction((1,), (128,)) == 1 / 128
    for shape, tile in (((1, 2), (8,)), ((0,), (8,)), ((8,), (0,))):
        with pytest.raises(ValueError, match="expected a tile of lengths >= 1 for"):
            useful_fraction(shape, tile)


def test_a_compiled_program_is_bounded_by_its_own_counts():
    jax = pytest.importorskip("jax")

    class Compiled:
        """What a chapter hands over: counts of a program for one device."""

        def __init__(self, rows: int, inner: int, columns: int) -> None:
            left = jax.ShapeDtypeStruct((rows, inner), "bfloat16")
            right = jax.ShapeDtypeStruct((inner, columns), "bfloat16")
            product = jax.jit(lambda x, y: x @ y).lower(left, right)
            # Of the lowered program: the CPU's own compiler would widen bfloat16.
            counted = product.cost_analysis()
            self.flops = counted["flops"]
            self.bytes_accessed = counted["bytes accessed"]

    shape = (512, 1024, 2048)
    machine = roof("v5e", per="device")
    assert bound(Compiled(*shape), machine) == bound(matmul_cost(*shape), machine)
