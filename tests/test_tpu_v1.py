"""The first TPU's paper: what follows from first principles, and what does not."""

from __future__ import annotations

from statistics import fmean, geometric_mean

import pytest

from helpers.chips import CHIPS
from helpers.tpu_v1 import (
    PEAK_FROM_CELLS,
    REPORTED_MEANS,
    RIDGE_MACS_PER_BYTE,
    WORKLOADS,
    bound_ops_per_s,
    cycles_per_row,
    implied_ops_per_s,
    weight_tile_cycles,
)

BY_NAME = {workload.name: workload for workload in WORKLOADS}


def test_peak_and_ridge_follow_from_cells_clock_and_memory():
    published = CHIPS["v1"].int8_ops_per_s
    assert PEAK_FROM_CELLS == pytest.approx(256 * 256 * 2 * 0.7e9)
    assert round(PEAK_FROM_CELLS / 1e12) == round(published / 1e12) == 92
    assert RIDGE_MACS_PER_BYTE == pytest.approx(1350, rel=0.005)


@pytest.mark.parametrize(
    ("name", "tops"),
    [
        # By hand: 2 · 34 GB/s · intensity, or 92.
        ("MLP0", 13.6),
        ("MLP1", 11.424),
        ("LSTM0", 4.352),
        ("LSTM1", 6.528),
        ("CNN0", 92),
        ("CNN1", 92),
    ],
)
def test_bounds_by_hand_and_nothing_reported_is_above(name, tops):
    assert bound_ops_per_s(BY_NAME[name]) == pytest.approx(tops * 1e12)
    assert BY_NAME[name].ops_per_s < bound_ops_per_s(BY_NAME[name])


def test_shares_of_cycles_add_up():
    for w in WORKLOADS:
        parts = w.active + w.weight_stall + w.weight_shift + w.non_matrix
        assert parts == pytest.approx(100, abs=0.11), w.name
        assert w.useful + w.unused == pytest.approx(w.active, abs=0.11), w.name


def test_fully_connected_layers_do_a_batch_for_each_weight():
    for w in WORKLOADS[:4]:
        assert w.macs_per_weight_byte == w.batch
    for w in WORKLOADS[4:]:
        assert w.macs_per_weight_byte > 50 * w.batch, "a convolution reuses its weights"


def test_useful_cells_do_not_give_the_reported_rates():
    ratio = {w.name: w.ops_per_s / implied_ops_per_s(w) for w in WORKLOADS}
    # More than the array was active for, and half of what it was.
    assert BY_NAME["CNN0"].tops > BY_NAME["CNN0"].active / 100 * 92
    assert ratio["CNN0"] == pytest.approx(1.195, abs=0.001)
    assert ratio["LSTM0"] == pytest.approx(0.490, abs=0.001)
    assert ratio["LSTM1"] == pytest.approx(0.483, abs=0.001)
    assert ratio["CNN1"] == pytest.approx(0.681, abs=0.001)
    assert ratio["MLP0"] == pytest.approx(1.070, abs=0.001)


def test_means_follow_from_the_rows_but_not_from_the_shares_halved():
    for chip, column in (("tpu", "tpu_relative"), ("gpu", "gpu_relative")):
        values = [getattr(w, column) for w in WORKLOADS]
        mean = geometric_mean(values)
        assert mean == pytest.approx(REPORTED_MEANS["geometric", chip], abs=0.05)
    # Table 1 gives MLPs 61, LSTMs 29 and CNNs 5 percent; halved between their two, they
    # do not give the weighted mean, so the halves were not equal.
    tpu = [w.tpu_relative for w in WORKLOADS]
    halved = fmean(tpu, [61, 61, 29, 29, 5, 5])
    assert halved == pytest.approx(22.7, abs=0.1)
    most = fmean(tpu, [61, 0, 29, 0, 0, 5])
    assert halved < REPORTED_MEANS["weighted", "tpu"] < most


def test_an_array_filled_from_memory_works_a_batch_in_1349_cycles():
    assert weight_tile_cycles() == pytest.approx(65_536 / 34 * 0.7)
    # MLP0: for 200 rows in each filling, memory sets at most 14.8 percent active.
    bound = 200 / weight_tile_cycles()
    assert 0.8 * bound < BY_NAME["MLP0"].active / 100 < bound


def test_lstms_take_two_cycles_for_a_row_where_mlps_take_one():
    taken = {w.name: cycles_per_row(w) for w in WORKLOADS[:4]}
    # By hand for MLP0: 12.7 of 82.5 percent, of 1349 cycles, for 200 rows.
    assert taken["MLP0"] == pytest.approx(12.7 / 82.5 * 1349.27 / 200)
    assert taken["MLP0"] == pytest.approx(1, abs=0.05)
    assert taken["LSTM0"] == pytest.approx(2, rel=0.06)
    assert taken["MLP0"] < taken["MLP1"] < taken["LSTM1"] < taken["LSTM0"]


def test_means_by_hand():
    assert geometric_mean([2, 8]) == pytest.approx(4)
    assert fmean([1, 3], [1, 3]) == 2.5
