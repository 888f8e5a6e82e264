"""Quantities and tables as readers see them."""

from __future__ import annotations

import re
from fractions import Fraction
from xml.etree import ElementTree

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from helpers import units
from helpers.tables import KINDS, table
from helpers.units import (
    format_bytes,
    format_bytes_per_s,
    format_cycles,
    format_flops,
    format_flops_per_s,
    format_number,
    format_seconds,
)

QUANTITIES = [
    format_bytes,
    format_bytes_per_s,
    format_cycles,
    format_flops,
    format_flops_per_s,
    format_seconds,
]
SIZES = {"": 0, "Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5}


@pytest.mark.parametrize(
    ("function", "value", "text"),
    [
        (format_bytes, 0, "0 B"),
        (format_bytes, 0.5, "0.5 B"),
        (format_bytes, 1023, "1,023 B"),
        (format_bytes, 1024, "1 KiB"),
        (format_bytes, 1500, "1.46 KiB"),
        (format_bytes, 1024 * 1023.9996, "1.00 MiB"),
        (format_bytes, 16 * 2**30, "16 GiB"),
        (format_bytes, 95.0e9, "88.5 GiB"),
        (format_bytes, 3000 * 2**50, "3,000 PiB"),
        (format_bytes_per_s, 0.001, "0.001 B/s"),
        (format_bytes_per_s, 819e9, "819 GB/s"),
        (format_bytes_per_s, 999.4e9, "999 GB/s"),
        (format_bytes_per_s, 999.9e9, "1.00 TB/s"),
        (format_flops, 2 * 8192**3, "1.10 TFLOPs"),
        (format_flops, 6e24, "6 YFLOPs"),
        (format_flops_per_s, 197e12, "197 TFLOP/s"),
        (format_flops_per_s, 4.614e15, "4.61 PFLOP/s"),
        (format_cycles, 1, "1 cycle"),
        (format_cycles, 9557312, "9,557,312 cycles"),
        (format_seconds, 0, "0 s"),
        (format_seconds, 2e-12, "2 ps"),
        (format_seconds, 0.005581, "5.58 ms"),
        (format_seconds, 0.9999e-3, "1.00 ms"),
        (format_seconds, 1e-15, "0.001 ps"),
        (format_seconds, 1e-30, "1e-18 ps"),
        (format_seconds, 0.9996e-12, "1.00 ps"),
        (format_seconds, 119.4, "119 s"),
        (format_seconds, 119.5, "2 min 0 s"),
        (format_seconds, 119.999, "2 min 0 s"),
        (format_seconds, 120, "2 min 0 s"),
        (format_seconds, 150, "2 min 30 s"),
        (format_seconds, 7199.7, "2 h 0 min"),
        (format_seconds, 90 * 86400, "2,160 h 0 min"),
        (format_number, 8030261248, "8,030,261,248"),
        (format_number, -0.125, "-0.125"),
        (format_number, -0.0, "0"),
        (format_number, 999.4, "999"),
        (format_number, 999.5, "1,000"),
        (format_number, -999.6, "-1,000"),
        (format_number, 1.234e-7, "1.23e-07"),
        (format_number, 1234.5678, "1,235"),
        (format_number, 2**80, "1.21e+24"),
        (format_number, float("nan"), "nan"),
    ],
)
def test_format_gives_the_text_readers_see(function, value, text):
    assert function(value) == text


@settings(derandomize=True, deadline=None)
@given(st.floats(0, 2.0**60))
def test_bytes_keep_their_size_to_three_digits(size_bytes):
    number, unit = format_bytes(size_bytes).split()
    shown = float(number.replace(",", "")) * 1024 ** SIZES[unit.removesuffix("B")]
    assert shown == pytest.approx(size_bytes, rel=0.0051, abs=0.0051)


@settings(derandomize=True, deadline=None)
@given(st.floats(0, 1e24))
def test_rates_have_at_most_three_digits_before_the_point(rate_bytes_per_s):
    number = float(format_bytes_per_s(rate_bytes_per_s).split()[0].replace(",", ""))
    assert number < 1000


def test_formats_take_numpy_and_jax_scalars():
    import jax.numpy as jnp

    assert format_bytes(np.int64(2**20)) == "1 MiB"
    assert format_flops(jnp.float32(2e9)) == "2 GFLOPs"
    assert format_number(np.float32(0.5)) == "0.5"
    assert format_number(np.longdouble(0.5)) == "0.5"
    assert format_number(jnp.bfloat16(0.5)) == "0.5"


@pytest.mark.parametrize("function", QUANTITIES)
@pytest.mark.parametrize("value", [-1, float("nan"), float("inf")])
def test_quantities_are_finite_and_not_negative(function, value):
    message = rf"expected \w+ to be finite and at least 0, got {float(value)}"
    with pytest.raises(ValueError, match=message):
        function(value)


@pytest.mark.parametrize("function", [*QUANTITIES, format_number])
@pytest.mark.parametrize(
    "value",
    ["16", None, True, np.True_, [1], 1j, np.complex64(1), np.str_("16"), np.ones(1)],
)
def test_quantities_are_numbers(function, value):
    message = rf"expected \w+ to be a number, got {re.escape(repr(value))}"
    with pytest.raises(TypeError, match=message):
        function(value)


@pytest.mark.parametrize("function", [*QUANTITIES, format_number])
@pytest.mark.parametrize(
    "value",
    [10**400, -(10**5000), Fraction(10**400)],
    ids=["1e400", "-1e5000", "ratio"],
)
def test_quantities_fit_a_float(function, value):
    message = (
        rf"expected \w+ to be within ±1.8e308, got a larger {type(value).__name__}"
    )
    with pytest.raises(ValueError, match=message):
        function(value)


def test_jax_bools_and_shapes_are_not_numbers():
    import jax

    for value in [jax.numpy.array(True), jax.ShapeDtypeStruct((), "float32")]:
        with pytest.raises(TypeError, match="expected value to be a number, got "):
            format_number(value)


@pytest.mark.parametrize("function", QUANTITIES)
def test_errors_name_the_unit(function):
    name = function.__name__.removeprefix("format_").replace("seconds", "s")
    with pytest.raises(ValueError, match=rf"expected \w+_{name} "):
        function(-1)


def test_units_formats_every_quantity():
    formats = {name for name in units.__all__ if name.startswith("format_")}
    assert {function.__name__ for function in [*QUANTITIES, format_number]} == formats


@pytest.fixture
def chips():
    rows = [
        {"chip": "one & <b>", "HBM": format_bytes(16 * 2**30), "cores": 1, "ICI": None},
        {"chip": "two", "HBM": "1.5 TiB", "cores": 1234, "ICI": "90 GB/s"},
    ]
    return table(rows, "memory of a chip", kind="compiled")


def test_table_is_aligned_text(chips):
    assert repr(chips).splitlines() == [
        "Compiled: memory of a chip",
        "chip           HBM  cores      ICI",
        "---------  -------  -----  -------",
        "one & <b>   16 GiB      1        —",
        "two        1.5 TiB  1,234  90 GB/s",
    ]


def test_table_is_html_with_caption_headings_and_alignment(chips):
    root = ElementTree.fromstring(chips._repr_html_())
    assert root.findtext("caption") == "Compiled: memory of a chip"
    heads = root.findall("thead/tr/th")
    assert [head.text for head in heads] == ["chip", "HBM", "cores", "ICI"]
    assert {head.get("scope") for head in heads} == {"col"}
    cells = root.findall("tbody/tr/td")
    assert cells[0].text == "one & <b>"
    sides = [cell.get("style").removeprefix("text-align:") for cell in cells]
    assert sides == ["left", "right", "right", "right"] * 2


def test_table_cells_of_each_type():
    row = {"a": True, "b": 0.125, "c": np.int64(4096), "d": (1, 2), "e": "x"}
    assert table([row]).rows == (("yes", "0.125", "4,096", "(1, 2)", "x"),)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.array([1, 2]), "[1 2]"),
        (np.eye(2, dtype=int), "[[1 0] [0 1]]"),
        (np.array([0.5]), "[0.5]"),
        (np.array(0.5), "0.5"),
        (np.True_, "yes"),
        (np.array([True]), "[ True]"),
        (np.complex64(1j), "1j"),
        ("one\n  two", "one two"),
        ("  indented", "  indented"),
    ],
)
def test_table_cells_are_one_line_of_text(value, text):
    assert table([{"a": value}]).rows == ((text,),)


def test_table_cells_take_jax_values():
    import jax
    import jax.numpy as jnp

    row = {"a": jnp.arange(2), "b": jnp.array(False), "c": jnp.float32(2048)}
    assert table([row]).rows == (("[0 1]", "no", "2,048"),)
    shape = jax.ShapeDtypeStruct((), "bool")
    assert table([{"a": shape}]).rows == ((str(shape),),)


def test_table_without_caption_has_none():
    shown = table([{"a": 1}])
    assert repr(shown) == "a\n-\n1"
    assert "caption" not in shown._repr_html_()


@pytest.mark.parametrize("kind", KINDS)
def test_table_captions_say_what_a_figure_is(kind):
    assert table([{"a": 1}], "sizes", kind=kind).caption == f"{kind.title()}: sizes"
    assert table([{"a": 1}], kind=kind).caption == kind.title()


@pytest.mark.parametrize(
    ("rows", "kind", "message"),
    [
        ([], None, "expected at least one row, got none"),
        ([{"a": 1}, {"b": 2}], None, r"expected the keys \('a',\) in each row, got"),
        ([{"a": 1}], "guess", r"expected kind to be one of \('bound', .*got 'guess'"),
    ],
)
def test_table_refuses(rows, kind, message):
    with pytest.raises(ValueError, match=message):
        table(rows, kind=kind)


@pytest.mark.parametrize(
    ("rows", "caption", "message"),
    [
        ([{8: 1}], "", "expected column names that are text, got 8"),
        ([{"a": 1, None: 2}], "", "expected column names that are text, got None"),
        ({"a": 1}, "", "expected a sequence of mappings as rows, got {'a': 1}"),
        ([[1, 2]], "", "expected a sequence of mappings as rows, got [[1, 2]]"),
        ([{"a": 1}], 5, "expected a caption that is text, got 5"),
    ],
)
def test_table_refuses_other_types(rows, caption, message):
    with pytest.raises(TypeError, match=re.escape(message)):
        table(rows, caption)
