"""Pictures of busy units: what they draw of stored schedules, and what they refuse."""

from __future__ import annotations

import pytest
from stored_dumps import LIBTPUS, bundle_texts

from helpers.bundles import parse_bundles
from helpers.slots import UNITS, busy_shares, hot_loop, longest_piece, slot_picture
from helpers.vliw import Bundle, Loop, Schedule, Utilization


def stored(name):
    return parse_bundles(*bundle_texts(name))


def made(rows, capacity=None):
    bundles = tuple(Bundle(n, "", 0, (), ()) for n in range(len(rows)))
    return Schedule(bundles, Utilization(capacity or {"MXU": 4}, tuple(rows)))


class WithLoops(Schedule):
    """A schedule whose loops are given, not found."""

    loops = (Loop(1, 4, 3), Loop(5, 20, 2), Loop(22, 25, None))


def strips(figure, panel=0):
    return figure.axes[panel].images[0].get_array()


def test_the_hot_loop_is_the_one_that_issues_most_bundles():
    bundles = tuple(Bundle(n, "", 0, (), ()) for n in range(30))
    assert hot_loop(WithLoops(bundles)) == Loop(5, 20, 2)
    assert hot_loop(Schedule(bundles)) == Loop(0, 29, 1)
    with pytest.raises(ValueError, match="expected a schedule with bundles, got none"):
        hot_loop(Schedule(()))


def test_the_longest_piece_is_not_the_program_around_the_pieces():
    short, long = made([(0,)]), made([(0,), (1,)])
    around = made([(0,)] * 9)
    program = {"<late-initialization>": around, "TLP": around, "a": short, "b": long}
    assert longest_piece(program) is long
    with pytest.raises(ValueError, match="expected pieces of a program, got .'TLP'."):
        longest_piece({"TLP": around})


def test_a_short_schedule_has_a_column_for_each_bundle():
    rows = [(5,), (0,), (2,)]
    figure = slot_picture({"a": made(rows, {"MXU": 5})}, units=["MXU"])
    assert strips(figure).tolist() == [[1.0, 0.0, 0.4]]
    assert figure.get_facecolor() == (1, 1, 1, 1)


def test_a_long_schedule_is_averaged_and_loses_nothing():
    rows = [(n % 5,) for n in range(1001)]
    drawn = strips(slot_picture({"a": made(rows)}, units=["MXU"], columns=10))
    assert drawn.shape == (1, 10)
    whole = busy_shares(made(rows), ["MXU"])["MXU"]
    assert drawn.mean() == pytest.approx(whole, abs=0.1)
    half = [(4 * (n >= 500),) for n in range(1000)]
    drawn = strips(slot_picture({"a": made(half)}, units=["MXU"], columns=10))
    assert drawn.tolist() == [[0.0] * 5 + [1.0] * 5], "time runs to the right"


@pytest.mark.parametrize("libtpu", LIBTPUS)
def test_stored_schedules_keep_the_units_busy_that_their_work_needs(libtpu):
    product, power = stored(f"matmul-v5e-{libtpu}"), stored(f"exponential-v5e-{libtpu}")
    by_product = busy_shares(product)
    assert max(by_product, key=by_product.get) == "MXU" and by_product["EUP"] == 0
    loop = hot_loop(power)
    assert loop.trips and loop.trips > 1
    by_power = busy_shares(power, first=loop.first, last=loop.last)
    assert by_power["EUP"] > 0.5 and by_power["MXU"] == 0
    figure = slot_picture({"product": product, "power": power}, title="Two")
    assert strips(figure).shape[0] == strips(figure, 1).shape[0] == len(UNITS)
    titles = [axes.get_title(loc="left") for axes in figure.axes[:2]]
    assert titles == ["product", f"power (orange: loop × {loop.trips})"]
    (bar,) = figure.axes[1].lines
    assert list(bar.get_xdata()) == [loop.first, loop.last + 1]
    assert not figure.axes[0].lines
    names = [label.get_text() for label in figure.axes[1].get_yticklabels()]
    assert names == list(UNITS)


def test_pictures_refuse_nothing_no_table_and_unknown_units():
    with pytest.raises(ValueError, match="schedules and units to draw, got 0 and 7"):
        slot_picture({})
    with pytest.raises(ValueError, match="to draw, got 1 and 0"):
        slot_picture({"a": made([(1,)])}, units=[])
    bare = Schedule(made([(1,)]).bundles)
    with pytest.raises(ValueError, match="with a table of busy units, got none"):
        slot_picture({"a": bare})
    with pytest.raises(ValueError, match="with a table of busy units, got none"):
        busy_shares(bare)
    with pytest.raises(ValueError, match="schedule with bundles, got none"):
        slot_picture({"a": made([])}, units=["MXU"])
    with pytest.raises(ValueError, match="at least one column, got 0"):
        slot_picture({"a": made([(1,)])}, units=["MXU"], columns=0)
    with pytest.raises(ValueError, match="expected a slot among MXU, got 'GPU'"):
        slot_picture({"a": made([(1,)])}, units=["GPU"])
