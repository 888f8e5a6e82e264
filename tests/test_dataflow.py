"""Drawings of compiled programs: what they count is what the program moves."""

from __future__ import annotations

import functools

import pytest

from helpers import env

env.prepare()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

from helpers.aot import abstract, compile_for  # noqa: E402
from helpers.dataflow import Step, _shortened, draw, flow  # noqa: E402
from helpers.hlo import parse  # noqa: E402

needs_libtpu = pytest.mark.skipif(not env.has("libtpu"), reason="needs libtpu")
barrier = jax.lax.optimization_barrier
TEXT = """HloModule m, is_scheduled=true

%inside (p: bf16[1024,1024]) -> bf16[1024,1024] {
  %p = bf16[1024,1024]{1,0:T(8,128)(2,1)} parameter(0)
  ROOT %t = bf16[1024,1024]{1,0:T(8,128)(2,1)S(1)} tanh(%p)
}

ENTRY %main (x: bf16[1024,1024]) -> bf16[1024,1024] {
  %x = bf16[1024,1024]{1,0:T(8,128)(2,1)} parameter(0)
  %f = bf16[1024,1024]{1,0:T(8,128)(2,1)S(1)} fusion(%x), kind=kLoop, calls=%inside
  %b = bf16[1024,1024]{1,0:T(8,128)(2,1)S(1)} bitcast(%f)
  ROOT %n = bf16[1024,1024]{1,0:T(8,128)(2,1)} negate(%b)
}
"""


def test_flow_follows_names_and_memories():
    steps, flows = flow(parse(TEXT))
    assert steps == [Step("f", ("tanh",)), Step("n", ("negate",))]
    assert [(f.source, f.target, f.in_main_memory) for f in flows] == [
        ("x", "f", True),
        ("f", "n", False),
        ("n", "result", True),
    ]
    assert {f.size_bytes for f in flows} == {2**21}


def test_small_arrays_are_left_out():
    assert flow(parse(TEXT), ignore_below=2**22) == ([], [])


def test_a_drawing_has_a_panel_for_each_program_and_its_total():
    figure = draw({"one": parse(TEXT), "two": parse(TEXT)}, title="claim")
    texts = [[text.get_text() for text in axes.texts] for axes in figure.axes]
    assert len(texts) == 2
    assert "over the bar: 4 MiB" in texts[0]
    assert {"tanh", "negate"} <= set(texts[0])


def test_nothing_to_draw_is_refused():
    with pytest.raises(ValueError, match="expected programs with steps"):
        draw({})
    with pytest.raises(ValueError, match="expected programs with steps"):
        draw({"empty": parse(TEXT)}, ignore_below=2**30)


def test_long_contents_are_cut_with_a_count():
    assert _shortened(("a", "b", "c", "d", "e")) == ["a", "b", "c", "and 2 more"]
    assert _shortened(("a", "b", "c")) == ["a", "b", "c"]


def crossing(module):
    """Bytes over the bar: each read, and each written array once."""
    steps, flows = flow(module, ignore_below=0)
    names = {step.name for step in steps}
    main = [each for each in flows if each.in_main_memory]
    read = sum(each.size_bytes for each in main if each.target in names)
    written = {(each.array, each.size_bytes) for each in main if each.source in names}
    return read + sum(size for _, size in written)


@needs_libtpu
@pytest.mark.parametrize("between", [lambda x: x, barrier], ids=["fused", "fenced"])
def test_a_drawing_counts_what_the_program_moves(between):
    x = abstract((2048, 256), "bfloat16")
    w = abstract((256, 2048), "bfloat16")
    program = compile_for(lambda x, w: jax.nn.relu(between(x @ w)), x, w, chip="v5p")
    assert crossing(program.hlo) == program.bytes_accessed


def chain(x, length, between):
    for number in range(length):
        x = between(x * 1.5 if number % 2 else jnp.maximum(x, 0.5) + 1)
    return x


@needs_libtpu
@pytest.mark.parametrize("chip", ["v2", "v3", "v4", "v5e", "v5p", "v6e", "tpu7x"])
@pytest.mark.parametrize(
    ("length", "dtype", "shape"),
    [
        (1, "bfloat16", (8192, 8192)),
        (3, "float32", (8192, 8192)),
        (12, "float32", (10000, 8190)),
        (5, "int32", (4, 4096, 8192)),
    ],
)
def test_bytes_of_a_chain_are_those_of_the_count_by_hand(chip, length, dtype, shape):
    # 8190 is no whole number of tiles: what is stored is 0.02% larger.
    x = abstract(shape, dtype)
    size = x.size * x.dtype.itemsize
    fused = functools.partial(chain, length=length, between=lambda x: x)
    fenced = functools.partial(chain, length=length, between=barrier)
    found = compile_for(fused, x, chip=chip).bytes_accessed
    assert found == pytest.approx(2 * size, rel=0.01)
    found = compile_for(fenced, x, chip=chip).bytes_accessed
    assert found == pytest.approx(2 * size * length, rel=0.01)
