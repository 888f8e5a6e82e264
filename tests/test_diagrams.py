"""Drawings of arrays on devices: where the parts are, and which of them are equal."""

from __future__ import annotations

import pytest

from helpers import env

env.prepare()

import jax  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import AxisType, NamedSharding, PartitionSpec  # noqa: E402
from matplotlib.patches import Rectangle  # noqa: E402

from helpers.diagrams import _letters, holdings  # noqa: E402


def mesh(rows=2, columns=2, first=0):
    devices = jax.devices("cpu")[first : first + rows * columns]
    return jax.make_mesh(
        (rows, columns), ("x", "y"), axis_types=(AxisType.Auto,) * 2, devices=devices
    )


def placed(array, *spec, first=0):
    return jax.device_put(array, NamedSharding(mesh(first=first), PartitionSpec(*spec)))


def filled(figure):
    """Corner and size of the coloured parts, in order: the second of three patches."""
    patches = [p for p in figure.axes[0].patches if isinstance(p, Rectangle)]
    return [
        (*np.round(p.get_xy(), 3), p.get_width(), p.get_height()) for p in patches[1::3]
    ]


def letters(figure):
    found = [text.get_text() for text in figure.axes[0].texts]
    return [text for text in found if len(text) == 1 and text.isalpha()]


def test_holdings_fills_the_part_that_each_device_holds():
    numbers = np.arange(16.0).reshape(4, 4)
    figure = holdings({"cut": placed(numbers, "x", "y")})
    step = 1.28
    assert filled(figure) == [
        (0.0, -0.5, 0.5, 0.5),
        (step + 0.5, -0.5, 0.5, 0.5),
        (2 * step, -1.0, 0.5, 0.5),
        (round(3 * step + 0.5, 3), -1.0, 0.5, 0.5),
    ]
    assert letters(figure) == ["a", "b", "c", "d"]


def test_holdings_gives_equal_parts_one_letter_and_one_colour():
    numbers = np.arange(16.0).reshape(4, 4)
    figure = holdings({"copies": placed(numbers), "rows": placed(numbers, "x")})
    assert letters(figure) == list("aaaa") + list("aabb")
    colours = [p.get_facecolor() for p in figure.axes[0].patches[1::3]]
    assert len(set(colours[:4])) == 1 and len(set(colours[4:])) == 2


def test_holdings_shows_copies_that_have_come_apart():
    apart = jax.shard_map(
        lambda: jax.lax.axis_index("x") * np.ones(3, np.float32),
        mesh=mesh(),
        in_specs=(),
        out_specs=PartitionSpec(),
        check_vma=False,
    )()
    assert letters(holdings({"said to be equal": apart})) == list("aabb")


def test_holdings_goes_by_numbers_and_not_by_bits():
    zeros = np.array([0.0, -0.0, np.nan, np.nan], np.float32)
    assert letters(holdings({"zeros": placed(zeros, ("x", "y"))})) == list("aabb")


def test_more_parts_than_letters_have_names_of_their_own():
    names = [name for name, _ in _letters([np.float32(i) for i in range(53)])]
    assert names[25:28] == ["z", "aa", "bb"] and names[52] == "aaa"
    assert len(set(names)) == 53


def test_holdings_takes_vectors_and_single_numbers():
    figure = holdings({"v": placed(np.arange(4.0), "x"), "s": placed(np.float32(1))})
    assert [size[2:] for size in filled(figure)] == [(1.0, 0.5)] * 4 + [(1.0, 1.0)] * 4
    assert {text.get_text() for text in figure.axes[0].texts} >= {"v", "s", "device"}
    assert figure.get_facecolor() == (1, 1, 1, 1)


def test_holdings_refuses_what_it_cannot_draw():
    with pytest.raises(ValueError, match="expected at least one array, got none"):
        holdings({})
    with pytest.raises(ValueError, match=r"at most 2 dimensions, got 'c' of shape \(2"):
        holdings({"c": placed(np.zeros((2, 2, 2)))})
    for wrong in (np.zeros(4), [1, 2], None):
        with pytest.raises(ValueError, match=r"expected a jax\.Array, got 'n'"):
            holdings({"n": wrong})
    with pytest.raises(ValueError, match=r"expected a jax\.Array, got 't'"):
        jax.jit(lambda x: holdings({"t": x}))(placed(np.zeros(4)))
    for odd in (np.zeros((0, 4)), jax.random.split(jax.random.key(0), 4)):
        with pytest.raises(ValueError, match="expected arrays of numbers, at least"):
            holdings({"o": placed(odd)})
    one, other = placed(np.zeros(4)), placed(np.zeros(4), first=4)
    with pytest.raises(ValueError, match=r"devices \[0, 1, 2, 3\], got 'b' on \[4, 5"):
        holdings({"a": one, "b": other})
