"""The array's counts against what the TPU compiler schedules and estimates."""

from __future__ import annotations

import pytest
from stored_dumps import bundle_texts

from helpers import env
from helpers.bundles import parse_bundles
from helpers.chips import chip
from helpers.systolic_counts import Array, count, cycles

LIBTPU = "libtpu-0.0.42.1"
# Rows of bfloat16 in a vector register: 8 sublanes of 32 bits.
REGISTER_ROWS = 16


def issued(chip_name: str) -> dict[str, dict[str, list[int]]]:
    """Bundles that give rows or weights to each matrix unit, 1024 by 256 by 256."""
    schedule = parse_bundles(*bundle_texts(f"rows-{chip_name}-{LIBTPU}"))
    assert not schedule.loops
    found: dict[str, dict[str, list[int]]] = {}
    for bundle in schedule.bundles:
        for operation in bundle.operations:
            kind = operation.opcode.split(".")[0].rstrip("12")
            if kind in ("vmatmul", "vmatpush"):
                unit = operation.opcode.rsplit(".", 1)[1]
                found.setdefault(unit, {}).setdefault(kind, []).append(bundle.index)
    return found


@pytest.mark.parametrize("name", ["v5e", "v6e"])
def test_rows_given_to_the_matrix_units_are_those_that_enter_the_array(name):
    found, side = issued(name), chip(name).mxu_side
    assert len(found) == chip(name).mxus_per_tensorcore
    passes = REGISTER_ROWS * sum(len(unit["vmatmul"]) for unit in found.values())
    # Each row of A enters once for every tile of weights, `side` elements at a time.
    entered = count(1024, 256, 256, Array(side, side)).a_reads
    assert passes * side == entered


@pytest.mark.parametrize(("name", "copies"), [("v5e", 1), ("v6e", 2)])
def test_weights_enter_once_for_each_unit_that_needs_them(name, copies):
    found, side = issued(name), chip(name).mxu_side
    pushed = REGISTER_ROWS * sum(len(unit["vmatpush"]) for unit in found.values())
    # Four tiles for four units on v5e; on v6e one tile, in both units, half the rows
    # of A each.
    assert pushed * side == copies * count(1024, 256, 256, Array(side, side)).b_reads


@pytest.mark.parametrize(("name", "longest", "first"), [("v5e", 13, 4), ("v6e", 8, 3)])
def test_rows_are_issued_faster_than_cells_that_take_one_a_cycle_could(
    name, longest, first
):
    for unit in issued(name).values():
        at = unit["vmatmul"]
        gaps = [after - before for before, after in zip(at, at[1:], strict=False)]
        # Until the results of the first come back, rows queue up before the unit.
        assert gaps[0] == first and sorted(gaps)[-4] == longest < REGISTER_ROWS


@pytest.mark.skipif(not env.has("libtpu"), reason="libtpu is missing")
@pytest.mark.parametrize(
    ("name", "rows_per_cycle", "most"),
    [
        # One row a cycle is what the published peak needs at 1.5 GHz; on v6e the peak
        # needs two at half of 3.5 GHz.
        ("v5e", 1, 1.06),
        ("v6e", 2, 1.2),
    ],
)
def test_estimates_of_large_products_are_near_the_arrays_cycles(
    name, rows_per_cycle, most
):
    import jax
    import jax.numpy as jnp

    from helpers.aot import compile_for
    from helpers.hlo import estimated_cycles

    found, length = chip(name), 4096
    shape = jax.ShapeDtypeStruct((length, length), jnp.bfloat16)
    program = compile_for(jnp.matmul, shape, shape, chip=name)
    # The units share the columns; each keeps a tile while all rows pass.
    share = length // found.mxus_per_tensorcore
    array = Array(found.mxu_side, found.mxu_side, overlap=True)
    needed = cycles(length // rows_per_cycle, length, share, array)
    assert 1 < estimated_cycles(program.hlo_text) / needed < most
