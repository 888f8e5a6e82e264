"""XLA's notation for types: what it says, what it weighs, and what is refused."""

from __future__ import annotations

import pytest

from helpers.shapes import Array, Layout, Malformed, Tuple, parse_shape


def shape(text: str) -> Array | Tuple:
    found, end = parse_shape(text)
    assert end == len(text), f"{text!r} was read up to {text[:end]!r}"
    return found


def test_array_has_type_lengths_layout_tiles_and_memory():
    assert shape("bf16[256,512]{0,1:T(8,128)(2,1)S(1)}") == Array(
        "bf16", (256, 512), Layout((0, 1), ((8, 128), (2, 1)), memory_space=1)
    )
    assert shape("f32[8]") == Array("f32", (8,))
    assert shape("s4[2,8]{1,0:T(8,128)(8,1)E(4)}").layout.element_bits == 4


def test_scalars_tokens_and_dynamic_lengths_are_read():
    assert shape("s32[]{:T(128)S(6)}").layout == Layout((), ((128,),), 6)
    assert shape("token[]").size_bytes == 0
    assert shape("f32[<=4,2]{1,0}").dimensions == (4, 2)
    assert shape("b(f32[4]{0})") == shape("f32[4]{0}")
    with pytest.raises(ValueError, match=r"known length, got f32\[-1\]"):
        _ = shape("f32[?]{0}").size_bytes


def test_unknown_settings_of_a_layout_do_no_harm():
    assert shape("f32[4,2]{1,0:T(8,128)L(2)#(u32)*(u64)SC(1:4)}") == Array(
        "f32", (4, 2), Layout((1, 0), ((8, 128),))
    )


def test_tuples_nest_and_ignore_numbering():
    found = shape("((f32[4]{0}, s32[]), /*index=1*/pred[2]{0})")
    assert str(found) == "((f32[4], s32[]), pred[2])"
    assert [leaf.dtype for leaf in found.leaves] == ["f32", "s32", "pred"]
    assert found.size_bytes == 16 + 4 + 2
    assert shape("()").leaves == ()


@pytest.mark.parametrize(
    ("text", "elements", "stored"),
    [
        # By hand: 1000 rows are 125 tiles of 8; 1000 columns round up to 1024.
        ("f32[1000,1000]{1,0:T(8,128)}", 4_000_000, 4 * 1000 * 1024),
        # Dimension 0 is the fastest: it is the one rounded to 128.
        ("f32[1000,8]{0,1:T(8,128)}", 32_000, 4 * 1024 * 8),
        ("bf16[5,3]{1,0:T(8,128)(2,1)}", 30, 2 * 8 * 128),
        # One dimension in tiles of two: one row of eight is used.
        ("f32[300]{0:T(8,128)}", 1200, 4 * 8 * 384),
        ("s32[]{:T(128)}", 4, 512),
        ("f32[12,256,256]{2,1,0}", 4 * 12 * 256 * 256, 4 * 12 * 256 * 256),
        # Packed: two elements to a byte.
        ("s4[64,128]{1,0:T(8,128)E(4)}", 64 * 128 // 2, 64 * 128 // 2),
        # Not packed: a byte each.
        ("s4[64,128]{1,0}", 64 * 128, 64 * 128),
    ],
)
def test_stored_bytes_round_up_to_whole_tiles(text, elements, stored):
    assert shape(text).size_bytes == elements
    assert shape(text).stored_bytes == stored


@pytest.mark.parametrize(
    ("text", "compiled_bytes"),
    [
        ("bf16[5,3]{0,1:T(4,128)(2,1)}", 1024),
        ("s8[100,100]{1,0:T(8,128)(4,1)}", 13312),
        ("f32[300]{0:T(512)}", 2048),
        ("f32[7,9,130]{2,0,1:T(8,128)}", 73728),
        ("s4[1000,1000]{1,0:T(8,128)(8,1)E(4)}", 512000),
        ("f8e4m3fn[33,17]{0,1:T(8,128)(4,1)}", 3072),
        ("bf16[1001]{0:T(1024)(128)(2,1)}", 2048),
        ("pred[10,3]{0,1:T(4,128)(4,1)}", 512),
    ],
)
def test_stored_bytes_are_those_of_memory_analysis(text, compiled_bytes):
    """Arguments of one array each, compiled for v5e by libtpu 0.0.42.1, 2026-12-01."""
    assert shape(text).stored_bytes == compiled_bytes


@pytest.mark.parametrize(
    ("dtype", "bits"),
    [("pred", 8), ("bf16", 16), ("f8e4m3fn", 8), ("c64", 64), ("f4e2m1fn", 8)],
)
def test_element_sizes_come_from_the_type(dtype, bits):
    assert Array(dtype).bits == bits


@pytest.mark.parametrize(
    ("text", "column", "expected"),
    [
        ("", 0, "expected a type such as f32[8,128], got the end"),
        ("f32[8]{1}", 6, "expected a layout of 1 dimensions, got '{1}'"),
        ("f32[8]{0:T(0)}", 6, "expected tiles of lengths above 0"),
        ("f32[8]{0:T(*,128)}", 6, "expected tiles of lengths above 0"),
        ("f32[8", 0, "expected a type such as"),
        ("f32[1=2]", 4, "expected lengths of dimensions, got '1=2]'"),
        ("(f32[8] s32[])", 8, "expected ',' or ')', got 's32[])'"),
        ("(f32[8],", 8, "expected a type such as f32[8,128], got the end"),
        ("f32[8]{0:S(12345)}", 6, "expected a memory space"),
        ("f32[" + "9" * 16 + "]", 4, "expected lengths of dimensions"),
    ],
)
def test_broken_types_are_refused_at_their_column(text, column, expected):
    with pytest.raises(Malformed) as raised:
        parse_shape(text)
    assert raised.value.column == column
    assert expected in str(raised.value)


def test_nesting_without_end_is_refused():
    with pytest.raises(Malformed, match="nested at most 64 deep"):
        parse_shape("(" * 100_000)


def test_an_element_of_unknown_size_is_refused_when_it_is_weighed():
    assert shape("future[8]").size == 8
    with pytest.raises(ValueError, match=r"known size, got future\[8\]"):
        _ = shape("future[8]").size_bytes
