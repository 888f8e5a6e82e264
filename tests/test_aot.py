"""The TPU compiler on a machine without a TPU: what it reports, and its refusals."""

from __future__ import annotations

import gzip
import subprocess
import sys

import pytest

from helpers import env

env.prepare()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax.sharding import NamedSharding, PartitionSpec  # noqa: E402

from helpers import aot, hlo, store, topology  # noqa: E402

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
def test_the_compiler_may_be_loaded_by_several_threads_at_once():
    script = """
from concurrent.futures import ThreadPoolExecutor
from helpers import env
env.prepare()
from helpers.topology import devices_of
with ThreadPoolExecutor(8) as pool:
    found = list(pool.map(devices_of, ["v5e", "v6e", "v4", "v5p"] * 2))
print(sorted({devices[0].device_kind for devices in found}))
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    kinds = "['TPU v4', 'TPU v5', 'TPU v5 lite', 'TPU v6 lite']\n"
    assert (run.stdout, run.stderr) == (kinds, "")


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
    assert topology.devices_of("v4")[0].num_cores == 2


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
        ("v5e", {"data": 4}, "expected a slice such as 'v5e:16x16', got 'v5e'"),
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


@needs_libtpu
def test_a_program_too_large_says_by_how_much_and_what_to_change():
    whole = aot.abstract((2**30, 128))
    with pytest.raises(aot.OutOfDeviceMemory, match=r"exceeds.*15\.75G.*smaller"):
        aot.compile_for(lambda x: x * 2, whole)


@needs_libtpu
def test_a_function_that_needs_values_is_untraceable():
    def signed(x):
        return x if x.sum() > 0 else -x

    with pytest.raises(aot.Untraceable, match="the value of an argument"):
        aot.compile_for(signed, aot.abstract((8,)))


@needs_libtpu
def test_options_reach_the_compiler_and_unknown_ones_are_named():
    with pytest.raises(ValueError, match="options of XLA, got .*'xla_no_such'"):
        aot.compile_for(lambda x: x, aot.abstract((8,)), options={"xla_no_such": "1"})


@needs_libtpu
def test_flops_count_the_body_of_a_loop_by_its_trips():
    def layers(x, ws):
        return jax.lax.scan(lambda x, w: (x @ w, None), x, ws)[0]

    x, ws = aot.abstract((256, 256)), aot.abstract((12, 256, 256))
    program = aot.compile_for(layers, x, ws)
    assert program.flops == 12 * 2 * 256**3
    assert program.xla_cost["flops"] < 2 * 2 * 256**3
    assert program.estimated_s is None, "XLA's estimate counts the body once"


@needs_libtpu
def test_a_program_carries_every_stage_and_its_estimate():
    x = aot.abstract((8192, 8192), "bfloat16")
    program = aot.compile_for(matmul, x, x)
    assert "dot_general" in program.jaxpr_text
    assert "stablehlo.dot_general" in program.stablehlo_text
    assert program.hlo.entry.instructions
    assert program.estimated_s == pytest.approx(2 * 8192**3 / 197e12, rel=0.01)
    assert program.bytes_accessed == 3 * 2 * 8192**2
    assert program.hbm_free_bytes + program.memory.total_bytes == 15.75 * 2**30


# The store


@pytest.fixture
def store_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("BOOK_CACHE", str(tmp_path))
    return tmp_path


def compile_in_a_process(count=1):
    program = """
from helpers import env
env.prepare()
from helpers import aot
x = aot.abstract((128, 128))
print(aot.compile_for(lambda x, y: x @ y, x, x).flops)
"""
    command = [sys.executable, "-c", program]
    runs = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(count)]
    return [run.communicate()[0].decode().strip() for run in runs]


@needs_libtpu
def test_processes_that_compile_at_once_share_one_entry(store_folder):
    assert compile_in_a_process(2) == [str(2 * 128**3)] * 2
    assert len(list(store_folder.iterdir())) == 1


@needs_libtpu
def test_a_kept_program_is_not_compiled_again(store_folder, monkeypatch):
    x = aot.abstract((64, 64))
    first = aot.compile_for(matmul, x, x)
    monkeypatch.setattr(aot, "_compiled", None)
    assert aot.compile_for(matmul, x, x) == first


@needs_libtpu
@pytest.mark.parametrize("damage", ["truncated", "altered", "foreign", "empty"])
def test_a_damaged_entry_is_made_again(store_folder, damage):
    def altered(data):
        return data[:200] + bytes([data[200] ^ 255]) + data[201:]

    damages = {
        "truncated": lambda data: data[: len(data) // 2],
        "altered": altered,
        "foreign": lambda data: gzip.compress(b'{"hello": 1}'),
        "empty": lambda data: b"",
    }
    programs = []
    for turn in range(2):
        programs.append(aot.compile_for(lambda x: x + 1, aot.abstract((64, 32))))
        (entry,) = store_folder.iterdir()
        if turn == 0:
            entry.write_bytes(damages[damage](entry.read_bytes()))
    assert programs[0] == programs[1]
    assert store.kept(entry.name.partition(".")[0], dict, dict)["hlo_text"]


@needs_libtpu
@pytest.mark.parametrize(
    "change",
    [
        {"chip": "v6e"},
        {"options": {"xla_tpu_enable_latency_hiding_scheduler": "false"}},
    ],
)
def test_whatever_decides_a_program_is_part_of_its_name(store_folder, change):
    x = aot.abstract((64, 64))
    aot.compile_for(matmul, x, x)
    aot.compile_for(matmul, x, x, **change)
    assert len(list(store_folder.iterdir())) == 2


@needs_libtpu
def test_a_folder_that_cannot_be_written_loses_nothing(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("BOOK_CACHE", str(tmp_path / "file" / "below"))
    x = aot.abstract((64, 16))
    assert aot.compile_for(lambda x: x - 1, x).memory.outputs_bytes
    monkeypatch.setenv("BOOK_CACHE", "")
    assert store.folder() is None
    assert aot.compile_for(lambda x: x - 1, x).memory.outputs_bytes
