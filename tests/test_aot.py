"""The TPU compiler on a machine without a TPU: what it reports, and its refusals."""

from __future__ import annotations

import subprocess
import sys

import pytest

from helpers import env

env.prepare()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax.sharding import NamedSharding, PartitionSpec  # noqa: E402

from helpers import aot, hlo  # noqa: E402

needs_libtpu = pytest.mark.skipif(not env.has("libtpu"), reason="libtpu is missing")


def matmul(x, y):
    return x @ y


@needs_libtpu
@pytest.mark.parametrize("chip", aot.CHIPS)
def test_compile_for_counts_a_product_as_by_hand_on_every_chip(chip):
    x, y = aot.abstract((256, 128)), aot.abstract((128, 512))
    program = aot.compile_for(matmul, x, y, chip=chip)
    assert program.flops == 2 * 256 * 128 * 512
    assert program.memory.arguments_bytes == 4 * (256 * 128 + 128 * 512)
    assert program.memory.outputs_bytes == 4 * 256 * 512
    assert program.device_count == 1 and program.device_kind.startswith("TPU")


@needs_libtpu
def test_memory_total_counts_a_donated_argument_once():
    def shift(x):
        return x + 1

    x = aot.abstract((1024, 1024))
    kept = aot.compile_for(shift, x).memory
    given = aot.compile_for(jax.jit(shift, donate_argnums=0), x).memory
    assert (kept.aliased_bytes, given.aliased_bytes) == (0, 2**22)
    assert kept.total_bytes - kept.code_bytes == 2 * 2**22
    assert given.total_bytes - given.code_bytes == 2**22


@needs_libtpu
def test_compile_for_takes_arrays_scalars_keys_and_pytrees():
    def noisy(key, params, scale):
        return params["w"] * scale + jax.random.normal(key, params["w"].shape)

    params = {"w": jnp.ones((8, 128), jnp.bfloat16)}
    program = aot.compile_for(noisy, jax.random.key(0), params, 2.0)
    reads = hlo.signature(program.hlo_text)["reads"]
    assert [read.split(": ")[1] for read in reads] == [
        "u32[2]",
        "bf16[8,128]",
        "f32[]",
    ]


@needs_libtpu
def test_compile_for_keeps_weak_types_as_jit_does():
    def double(x, factor):
        return x * factor

    program = aot.compile_for(double, aot.abstract((8, 128), "bfloat16"), 2.0)
    assert hlo.signature(program.hlo_text)["returns"] == ["bf16[8,128]"]


@needs_libtpu
@pytest.mark.parametrize("function", [lambda x: x, lambda x: None, lambda x: 1.0])
def test_a_program_that_computes_nothing_counts_nothing(function):
    assert aot.compile_for(function, aot.abstract((8, 128))).flops == 0


@needs_libtpu
def test_v4_is_compiled_for_a_whole_chip():
    assert aot._devices("v4", "2x2x1")[0].num_cores == 2


@needs_libtpu
@pytest.mark.parametrize(("name", "devices"), [("v5e:2x4", 8), ("tpu7x:2x2x2", 16)])
def test_compile_for_a_slice_counts_one_device_and_sums_over_all(name, devices):
    mesh = aot.slice_mesh(name, {"data": devices})
    rows = NamedSharding(mesh, PartitionSpec("data"))
    x = aot.abstract((32 * devices, 128), sharding=rows)
    program = aot.compile_for(
        lambda x, w: (x @ w).sum(), x, jnp.ones((128, 256)), mesh=mesh
    )
    assert program.device_count == devices
    assert program.memory.arguments_bytes == 4 * (32 * 128 + 128 * 256)
    product = 2 * 32 * 128 * 256
    assert product < program.flops < product + 2 * 32 * 256
    (exchange,) = hlo.instructions(program.hlo_text, "all-reduce")
    assert f"={devices}" in exchange.text or f"[1,{devices}]" in exchange.text


@needs_libtpu
@pytest.mark.parametrize(
    ("name", "axes", "message"),
    [
        ("v5e:16x16", {"data": 8}, r"multiply to the 256 devices .*, got {'data': 8}"),
        ("v5e:17x16", {"data": 272}, "slice shape that .*, got '17x16': Topology"),
        ("v5e", {"data": 4}, "slice shape that the compiler knows.*, got ''"),
        ("v9:2x2", {"data": 4}, "expected a chip among v2, .*, got 'v9'"),
    ],
)
def test_slice_mesh_says_what_is_wrong_with_a_slice(name, axes, message):
    with pytest.raises(ValueError, match=message):
        aot.slice_mesh(name, axes)


@needs_libtpu
def test_abstract_refuses_a_shard_that_does_not_divide():
    mesh = aot.slice_mesh("v5e:2x4", {"data": 8})
    with pytest.raises(ValueError, match="partitioned 8 times.*size is 12"):
        aot.abstract((12, 4), sharding=NamedSharding(mesh, PartitionSpec("data")))


@needs_libtpu
def test_compile_for_refuses_what_is_no_array():
    with pytest.raises(ValueError, match="functools.partial.*got 'relu'"):
        aot.compile_for(matmul, aot.abstract((1, 1)), "relu")


@pytest.mark.parametrize("shape", [(-1, 3), (1.5, 3), ("2",), None])
def test_abstract_refuses_an_impossible_shape(shape):
    with pytest.raises(ValueError, match="whole numbers >= 0, got"):
        aot.abstract(shape)


def test_abstract_refuses_a_type_that_jax_would_change():
    with pytest.raises(ValueError, match="at most 32 bits .*, got float64"):
        aot.abstract((2,), "float64")


@needs_libtpu
def test_compile_for_names_the_chips_it_knows():
    with pytest.raises(ValueError, match="expected a chip among v2, .*, got 'v9'"):
        aot.compile_for(matmul, aot.abstract((1, 1)), aot.abstract((1, 1)), chip="v9")


def test_compile_for_says_in_one_sentence_that_libtpu_is_missing():
    program = """
import sys
sys.modules["libtpu"] = None
from helpers import aot
try:
    aot.compile_for(lambda x: x, aot.abstract((1,)))
except aot.CompilerMissing as error:
    print(error)
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout == (
        "the TPU compiler (libtpu) is not installed here; it exists for Linux x86-64 "
        "only\n"
    )
