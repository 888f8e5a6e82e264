"""The systolic array: against the matrix product, by hand, at its limits."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.systolic import simulate
from helpers.systolic_counts import (
    DATAFLOWS,
    Array,
    Counts,
    Phases,
    add_counts,
    count,
    cycles,
    interval,
    phases,
)

# Few grids, since a program is compiled for each.
GRIDS = ((1, 1), (3, 4), (4, 4), (5, 2))
ARRAYS = [
    Array(rows, cols, dataflow, overlap)
    for rows, cols in GRIDS
    for dataflow in DATAFLOWS
    for overlap in (False, True)
]
LENGTHS = st.integers(1, 14)
SETTINGS = settings(max_examples=40, deadline=None, derandomize=True)


def matrices(m, k, n, seed=0):
    chance = np.random.default_rng(seed)
    return tuple(chance.integers(-128, 128, s, dtype=np.int8) for s in ((m, k), (k, n)))


def exact(a, b):
    return a.astype(np.int32) @ b.astype(np.int32)


@pytest.mark.parametrize("array", ARRAYS, ids=str)
@SETTINGS
@given(m=LENGTHS, k=LENGTHS, n=LENGTHS, seed=st.integers(0, 99))
def test_simulation_multiplies_and_takes_what_the_formulas_say(array, m, k, n, seed):
    a, b = matrices(m, k, n, seed)
    run = simulate(a, b, array)
    np.testing.assert_array_equal(run.product, exact(a, b))
    assert run.conflicts == 0
    assert run.counts == count(m, k, n, array)
    assert run.busy.sum() == m * k * n and len(run.busy) == run.counts.cycles


@pytest.mark.parametrize("dataflow", DATAFLOWS)
def test_bfloat16_products_are_added_in_float32(dataflow):
    chance = np.random.default_rng(1)
    a, b = (chance.standard_normal(s).astype(jnp.bfloat16) for s in ((9, 40), (40, 6)))
    run = simulate(a, b, Array(4, 4, dataflow))
    assert run.product.dtype == np.float32
    right = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(run.product, right, atol=1e-5)
    # A sum in bfloat16 would be off by far more.
    assert np.abs(right.astype(jnp.bfloat16).astype(np.float64) - right).max() > 1e-3


def test_int8_products_do_not_overflow_in_the_cells():
    a = np.full((3, 300), -128, np.int8)
    run = simulate(a, a.T, Array(4, 4, "os"))
    assert (run.product == 300 * 128 * 128).all()


def test_weight_stationary_two_by_two_by_hand():
    a, b = np.int8([[1, 2], [3, 4]]), np.int8([[5, 6], [7, 8]])
    run = simulate(a, b, Array(2, 2), record=True)
    # Weights enter in cycles 0 and 1, the lower row first, columns one cycle apart;
    # row m of A meets row k of the cells in column n in cycle 2 + m + k + n.
    assert run.counts.cycles == 6
    assert run.busy.tolist() == [0, 0, 1, 3, 3, 1]
    operand, weight, total = (run.frames[k] for k in ("operand", "weight", "sum"))
    assert run.frames["arriving"][0].tolist() == [[7, 0], [0, 0]]
    assert run.frames["arriving"][1].tolist() == [[5, 8], [7, 0]]
    assert operand[3].tolist() == [[3, 1], [2, 0]]
    assert run.present["operand"][3].tolist() == [[True, True], [True, False]]
    assert weight[3].tolist() == [[5, 6], [7, 0]]
    assert weight[4].tolist() == [[5, 6], [7, 8]]
    # A weight in place waits for the first operand, which comes down the diagonal.
    waiting = [run.present["next"][t].tolist() for t in (0, 1, 2, 3, 4)]
    assert waiting[0] == [[False, False], [False, False]]
    assert waiting[1] == [[True, False], [True, False]]
    assert waiting[2] == [[False, True], [True, True]]
    assert waiting[3] == [[False, False], [False, True]]
    assert not run.present["next"][4].any()
    assert run.frames["next"][2].tolist() == [[5, 6], [7, 8]]
    # 1·5 in cycle 2, then + 2·7 below it; the last to leave is 3·6 + 4·8.
    assert total[2, 0, 0] == 5 and total[3, 1, 0] == 19 and total[5, 1, 1] == 50
    assert run.frames["busy"].sum(axis=(1, 2)).tolist() == run.busy.tolist()
    assert run.counts == Counts(
        cycles=6,
        cell_cycles=24,
        macs=8,
        a_reads=4,
        b_reads=4,
        sum_writes=4,
        sum_reads=0,
        operand_moves=4 + 2,
        sum_passes=0,
    )


def test_output_stationary_two_by_two_by_hand():
    a, b = np.int8([[1, 2], [3, 4]]), np.int8([[5, 6], [7, 8]])
    run = simulate(a, b, Array(2, 2, "os"), record=True)
    # Cell (i, j) adds A[i, k] B[k, j] in cycle i + j + k; then sums leave upwards.
    assert run.busy.tolist() == [1, 3, 3, 1, 0]
    assert run.counts.cycles == 5
    assert run.frames["sum"][:4, 0, 0].tolist()[:2] == [5, 19]
    assert run.frames["leaving"][1].tolist() == [[19, 0], [0, 0]]
    assert run.frames["leaving"][2].tolist() == [[0, 22], [43, 0]]
    assert run.frames["leaving"][4, 0].tolist() == [0, 50]
    assert run.counts.sum_passes == 2, "the lower row's two sums, one step each"


def test_input_stationary_is_the_transposed_machine():
    a, b = matrices(7, 5, 9)
    kept = simulate(a, b, Array(4, 4, "is"))
    turned = simulate(b.T.copy(), a.T.copy(), Array(4, 4, "ws"))
    np.testing.assert_array_equal(kept.product, turned.product.T)
    assert kept.counts.a_reads == turned.counts.b_reads == 7 * 5
    assert kept.counts.cycles == turned.counts.cycles


def test_one_cell_takes_its_operands_one_after_another():
    assert phases(10, 1, 1, Array(1, 1)) == Phases(1, 10, 0, 0)
    assert phases(1, 10, 1, Array(1, 1, "os")) == Phases(0, 10, 0, 0)
    one = count(5, 6, 7, Array(1, 1))
    assert (one.operand_moves, one.sum_passes, one.macs) == (0, 0, 210)
    assert one.a_reads == 210, "a grid of one cell reuses no operand of A"


@pytest.mark.parametrize(
    ("m", "k", "n", "side", "overlap", "total"),
    [
        # By hand: the first weights enter in S cycles, each tile but the last keeps the
        # array for max(M, S) and the last for M, and its last operand needs 2 S - 2
        # more; without overlap each of the tiles takes M + 3 S - 2.
        (128, 128, 128, 128, True, 510),
        (1024, 1024, 1024, 128, True, 65_918),
        (1024, 1024, 1024, 128, False, 64 * (1024 + 3 * 128 - 2)),
        (8, 1024, 1024, 128, True, 128 + 63 * 128 + 8 + 254),
    ],
)
def test_cycles_of_square_weight_stationary_arrays(m, k, n, side, overlap, total):
    assert cycles(m, k, n, Array(side, side, overlap=overlap)) == total


def test_utilization_approaches_one_with_rows_and_falls_with_few():
    array = Array(128, 128, overlap=True)
    shares = [count(m, 1024, 1024, array).utilization for m in (1, 8, 128, 4096)]
    assert shares == sorted(shares) and shares[0] < 0.01 and shares[-1] > 0.99
    assert count(130, 130, 130, array).utilization < 0.25, (
        "two tiles of 2 for one of 128"
    )


@pytest.mark.parametrize("dataflow", DATAFLOWS)
@SETTINGS
@given(m=LENGTHS, k=LENGTHS, n=st.integers(5, 14))
def test_tiles_one_cycle_closer_disturb_each_other(dataflow, m, k, n):
    array = Array(4, 4, dataflow, overlap=True)
    least = interval(m, k, n, array)
    stream = {"ws": m, "is": n, "os": k}[dataflow]
    a, b = matrices(m, k, n)
    tiles = (phases(m, k, n, array).stream // stream) - 1
    if least == stream or not tiles:
        return
    run = simulate(a, b, array, every=least - 1)
    assert run.conflicts > 0


def test_without_overlap_only_the_start_of_a_tile_could_be_earlier():
    a, b = matrices(6, 8, 8)
    alone, overlapped = Array(4, 4), Array(4, 4, overlap=True)
    assert interval(6, 8, 8, alone) == 6 + 6 + 4 and interval(6, 8, 8, overlapped) == 6
    # The same machine: tiles as close as with overlap do the same work in less time.
    close = simulate(a, b, alone, every=interval(6, 8, 8, overlapped))
    np.testing.assert_array_equal(close.product, exact(a, b))
    assert close.counts == count(6, 8, 8, overlapped)


def test_phases_add_up_and_name_what_is_lost():
    array = Array(8, 8, overlap=True)
    found = phases(3, 20, 20, array)
    assert found == Phases(load=8, stream=27, skew=14, drain=0, wait=8 * 5)
    assert found.total == cycles(3, 20, 20, array)


def test_layers_are_sums_of_their_products():
    array = Array(8, 8)
    parts = [count(4, 8, 16, array), count(4, 16, 8, array)]
    whole = add_counts(parts)
    assert whole.macs == 2 * 4 * 8 * 16
    assert whole.cycles == parts[0].cycles + parts[1].cycles
    assert whole.utilization == pytest.approx(parts[0].utilization)
    assert whole.reads_per_mac < 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a, b: Array(4, 4, "rs"), "a dataflow of ws, os, is, got 'rs'"),
        (lambda a, b: Array(0, 4), "expected rows >= 1, got 0"),
        (lambda a, b: cycles(1, 0, 1, Array(4, 4)), "expected k >= 1, got 0"),
        (lambda a, b: simulate(a, a, Array(4, 4)), r"got \(3, 5\) and \(3, 5\)"),
        (
            lambda a, b: simulate(a, b.astype(float), Array(4, 4)),
            "expected matrices of int8, bfloat16, float32, got int8 and float64",
        ),
        (
            lambda a, b: simulate(a, b, Array(4, 4), every=2),
            "expected every >= 3, the operands, got 2",
        ),
    ],
)
def test_what_cannot_be_simulated_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(*matrices(3, 5, 6))
