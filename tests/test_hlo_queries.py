"""What a module computes and moves: by hand, and as the compilers count it."""

from __future__ import annotations

import dataclasses

import pytest
from stored_dumps import JAXES, LIBTPUS, MODULES, costs, module_text

from helpers import hlo
from helpers.hlo_collectives import collectives
from helpers.hlo_flops import arithmetic
from helpers.hlo_loops import executions, trip_count
from helpers.hlo_queries import fusions, total_work, work_by_opcode
from helpers.hlo_schedule import critical_path, live_bytes

TPUS = [f"v5e-{libtpu}" for libtpu in LIBTPUS]
CPUS = [f"cpu-{jax}" for jax in JAXES]


def module(name: str) -> hlo.Module:
    return hlo.parse(module_text(name))


def entry(lines: str, header: str = "", before: str = "") -> hlo.Module:
    """A module with one computation of the given lines."""
    indented = "\n".join(f"  {line}" for line in lines.strip().splitlines())
    return hlo.parse(
        f"HloModule test, is_scheduled=true{header}\n\n{before}\n"
        f"ENTRY %main () -> s32[] {{\n{indented}\n}}\n"
    )


def products(name: str) -> int:
    """FLOPs of matrix products and convolutions."""
    work = work_by_opcode(module(name))
    return sum(work[word].flops for word in ("convolution", "dot") if word in work)


@pytest.mark.parametrize("target", TPUS + CPUS)
def test_flops_of_a_matmul_are_two_per_product(target):
    assert total_work(module(f"matmul-{target}")).flops == 2 * 256 * 512 * 384


@pytest.mark.parametrize("target", TPUS + CPUS)
def test_flops_of_a_convolution_leave_out_the_padding(target):
    # 32 pixels, kernel 3, stride 2, one column of padding at the end: 16 outputs, of
    # which the last meets 2 pixels only. Twice, for rows and columns.
    positions = (15 * 3 + 2) ** 2
    by_hand = 2 * 8 * 16 * 32 * positions
    assert total_work(module(f"convolution-{target}")).flops == by_hand


@pytest.mark.parametrize("target", TPUS + CPUS)
def test_flops_of_scanned_layers_count_every_layer(target):
    work = total_work(module(f"layers-{target}"))
    assert work.flops == 12 * 2 * 32 * 256 * 256
    assert work.transcendentals == 12 * 32 * 256


@pytest.mark.parametrize("target", TPUS + CPUS)
def test_flops_of_a_gradient_are_three_times_the_products(target):
    # Forward, towards the input, towards the weights; for all of the 12 layers.
    assert products(f"gradient-{target}") == 3 * 12 * 2 * 32 * 256 * 256


@pytest.mark.parametrize("target", TPUS + CPUS)
def test_loops_in_loops_multiply(target):
    # 3 times 5 sines and multiplications, and 3 additions, of 32 by 256 numbers.
    work = work_by_opcode(module(f"nested-{target}"))
    assert work["sine"].transcendentals == 15 * 32 * 256
    assert work["multiply"].flops == 15 * 32 * 256
    assert work["add"].flops == 3 * 32 * 256


def test_flops_of_a_sharded_step_are_those_of_one_device():
    # 10 layers of 2 products, each three times; no gradient of the first input.
    one = 2 * 8192 * 1024 * 4096 // 8
    assert products("unrolled-v5e-libtpu-0.0.42.1") == (10 * 2 * 3 - 1) * one


@pytest.mark.parametrize("name", MODULES)
def test_operations_agree_with_xla(name, monkeypatch):
    """XLA counts loop bodies once, and not the test after a loop's last trip."""
    read = module(name)
    monkeypatch.setattr("helpers.hlo_loops.trip_count", lambda *_: 1)
    work = total_work(read)
    xla = costs()[name]
    # It also leaves out a few sums of device numbers that choose a shard.
    assert 0 <= work.operations - xla["flops"] <= 24
    assert work.transcendentals == xla.get("transcendentals", 0)


@pytest.mark.parametrize("name", [n for n in MODULES if "-cpu-" in n])
def test_bytes_agree_with_xla_on_the_cpu(name, monkeypatch):
    """XLA counts a few bytes for tuples, and its own loop bodies once."""
    read = module(name)
    monkeypatch.setattr("helpers.hlo_loops.executions", None)
    monkeypatch.setattr(
        "helpers.hlo_queries.executions",
        lambda m, _: {k: min(1, n) for k, n in executions(m).items()},
    )
    ours = total_work(read)
    assert ours.bytes == ours.main_bytes
    assert ours.bytes == pytest.approx(costs()[name]["bytes accessed"], rel=1e-3)


@pytest.mark.parametrize("target", TPUS)
def test_bytes_of_a_matmul_on_a_tpu_are_its_operands_and_its_result(target):
    work = total_work(module(f"matmul-{target}"))
    assert work.main_bytes == 2 * (256 * 512 + 512 * 384 + 256 * 384)
    # XLA counts the copy of the weights to the vector memory twice, here and there.
    assert work.bytes < costs()[f"matmul-{target}"]["bytes accessed"]


def test_slices_and_updates_move_what_they_cut_and_change():
    moved = work_by_opcode(
        entry("""%big = f32[100,256]{1,0} parameter(0)
%new = f32[1,256]{1,0} parameter(1)
%at = s32[] parameter(2)
%cut = f32[1,256]{1,0} dynamic-slice(%big, %at, %at), dynamic_slice_sizes={1,256}
ROOT %put = f32[100,256]{1,0} dynamic-update-slice(%big, %cut, %at, %at)""")
    )
    assert moved["dynamic-slice"].bytes == 2 * 1024 + 2 * 4
    assert moved["dynamic-update-slice"].bytes == 2 * 1024 + 2 * 4


@pytest.mark.parametrize(
    ("window", "kernel", "size", "out", "flops"),
    [
        # One channel, one example: 2 FLOPs for each product, counted on the fingers.
        ("size=3", 3, 5, 3, 2 * 9),
        ("size=3 pad=1_1", 3, 5, 5, 2 * 13),
        ("size=2 stride=2", 2, 6, 3, 2 * 6),
        ("size=3 rhs_dilate=2", 3, 7, 3, 2 * 9),
        # Input spread to a0b0c: kernel of 2 meets 1 element at each of 4 places.
        ("size=2 lhs_dilate=2", 2, 3, 4, 2 * 4),
        ("size=2 pad=-1_0", 2, 5, 3, 2 * 6),
    ],
)
def test_windows_count_products_that_meet_an_element(window, kernel, size, out, flops):
    read = entry(
        f"""%a = f32[1,{size},1]{{2,1,0}} parameter(0)
%k = f32[{kernel},1,1]{{2,1,0}} parameter(1)
ROOT %c = f32[1,{out},1]{{2,1,0}} convolution(%a, %k), window={{{window}}}, """
        "dim_labels=b0f_0io->b0f"
    )
    assert arithmetic(read, read.entry, read.entry.root).flops == flops


@pytest.mark.parametrize(
    ("window", "out", "operations"),
    [
        # Rows of 128 in windows of 2: one sum for each of 4 times 64 results.
        ("size=1x2 stride=1x2", "4,64", 4 * 64),
        # Every element gets its row's sum: 127 sums for each of 4 rows.
        ("size=1x255 pad=0_0x127_127", "4,128", 4 * 127),
        # A running sum is counted with its padding, as XLA does.
        ("size=1x128 pad=0_0x127_0", "4,128", 4 * 128 * 127),
    ],
)
def test_reduced_windows_count_their_sums(window, out, operations):
    adder = """%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %s = f32[] add(%x, %y)
}
"""
    read = entry(
        f"""%a = f32[4,128]{{1,0}} parameter(0)
%z = f32[] constant(0)
ROOT %r = f32[{out}] reduce-window(%a, %z), to_apply=%add, window={{{window}}}""",
        before=adder,
    )
    counted = arithmetic(read, read.entry, read.entry.root)
    assert counted.operations == counted.flops == operations


@pytest.mark.parametrize(
    ("root", "message"),
    [
        ("convolution(%a, %a), dim_labels=bf", "expected dim_labels such as bf_io->bf"),
        ("convolution(%a), dim_labels=bf_io->bf", "expected 2 operands in c, got '%a'"),
        (
            "convolution(%a, %a), window={size=8 stride=0}, dim_labels=b0_io->b0",
            "expected dim_labels such as",
        ),
        ("dot(%a, %a), lhs_contracting_dims={4}", r"expected axes of f32\[8,8\] in c"),
    ],
)
def test_contradicting_shapes_are_refused(root, message):
    read = entry(f"""%a = f32[8,8]{{1,0}} parameter(0)
ROOT %c = f32[8,8]{{1,0}} {root}""")
    with pytest.raises(ValueError, match=message):
        arithmetic(read, read.entry, read.entry.root)


LOOP = """%cond (s: (s32[], s32[])) -> pred[] {{
  %s = (s32[], s32[]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %n = s32[] get-tuple-element(%s), index=1
  %bound = s32[] constant({bound})
  ROOT %test = pred[] compare({sides}), direction={direction}
}}

%body (t: (s32[], s32[])) -> (s32[], s32[]) {{
  %t = (s32[], s32[]) parameter(0)
  %j = s32[] get-tuple-element(%t), index=0
  %m = s32[] get-tuple-element(%t), index=1
  %step = s32[] constant({step})
  %next = s32[] {word}(%j, %step)
  ROOT %u = (s32[], s32[]) tuple(%next, %m)
}}
"""


@pytest.mark.parametrize(
    ("bound", "sides", "direction", "step", "word", "trips"),
    [
        (10, "%i, %bound", "LT", 1, "add", 8),
        (10, "%i, %bound", "LE", 1, "add", 9),
        (10, "%i, %bound", "LT", 3, "add", 3),
        (10, "%i, %bound", "NE", 2, "add", 4),
        (10, "%i, %bound", "NE", 3, "add", None),
        (10, "%bound, %i", "GT", 1, "add", 8),
        (-4, "%i, %bound", "GT", 2, "subtract", 3),
        (-4, "%i, %bound", "GE", 1, "subtract", 7),
        (2, "%i, %bound", "LT", 1, "add", 0),
        (0, "%i, %n", "LT", 1, "add", 4),
        (10, "%i, %bound", "LT", 0, "add", None),
        (10, "%i, %bound", "LT", 1, "multiply", None),
    ],
)
def test_trips_follow_from_start_step_and_bound(
    bound, sides, direction, step, word, trips
):
    loop = LOOP.format(
        bound=bound, sides=sides, direction=direction, step=step, word=word
    )
    read = entry(
        """%start = s32[] constant(2)
%limit = s32[] constant(6)
%state = (s32[], s32[]) tuple(%start, %limit)
%w = (s32[], s32[]) while(%state), condition=%cond, body=%body
ROOT %r = s32[] get-tuple-element(%w), index=0""",
        before=loop,
    )
    assert trip_count(read, read.entry, read.entry.by_name["w"]) == trips
    if trips is None:
        with pytest.raises(ValueError, match="trips can be counted, or if_unknown"):
            executions(read)
        trips = 5
    assert executions(read, 5) == {"main": 1, "cond": trips + 1, "body": trips}


@pytest.mark.parametrize("name", [n for n in MODULES if n.startswith(("lay", "grad"))])
def test_trips_without_the_compilers_word_are_the_same(name):
    """TPU modules do not say how often a loop runs; CPU modules do."""
    read = module(name)
    found = 0
    for where in read.computations.values():
        for loop in where.instructions:
            if loop.opcode == "while":
                said = loop.known_trip_count
                assert said == (12 if "-cpu-" in name else None)
                silent = dataclasses.replace(loop, attributes={**loop.attributes})
                silent.attributes.pop("backend_config", None)
                assert trip_count(read, where, silent) == 12
                found += 1
    assert found == (1 if name.startswith("layers") else 2)


@pytest.mark.parametrize("target", TPUS)
def test_fusions_name_what_they_contain(target):
    (fusion,) = fusions(module(f"matmul-{target}"))
    assert fusion.kind == "kOutput" and fusion.runs == 1
    assert sorted(fusion.contents) == ["bitcast", "bitcast", "convolution"]
    in_loop = {f.runs for f in fusions(module(f"layers-{target}"))}
    assert in_loop == {12}


# A quarter of 1024 rows by a half of 2048 columns, float32, on each device.
SHARD = 256 * 1024 * 4
EXPECTED = [
    ("all-to-all", SHARD, SHARD, 4),
    ("collective-permute", SHARD, SHARD, 4),
    ("reduce-scatter", SHARD, SHARD // 2, 2),
    ("all-reduce", SHARD // 2, SHARD // 2, 8),
    ("all-gather", SHARD // 2, SHARD * 2, 4),
    ("all-reduce", SHARD * 2, SHARD * 2, 4),
]


@pytest.mark.parametrize("target", TPUS + CPUS)
def test_collectives_have_bytes_and_groups(target):
    found = collectives(module(f"communication-{target}"))
    seen = [(c.opcode, c.operand_bytes, c.result_bytes, c.group_size) for c in found]
    assert sorted(seen) == sorted(EXPECTED)
    assert {c.dtype for c in found} == {"f32"}
    asynchronous = [c.opcode for c in found if c.is_async]
    assert asynchronous == (["collective-permute"] if "v5e" in target else [])
    if "v5e" in target:
        assert {c.algorithm for c in found if c.opcode == "all-reduce"} == {
            "StrategyRing",
            "UniDirection1DRingStrategy",
        }


def test_starts_and_dones_are_one_collective():
    found = collectives(module("gpu-by-hand"))
    assert [(c.opcode, c.instruction.name, c.done) for c in found] == [
        ("all-reduce", "all-reduce-start", "all-reduce-done"),
        ("reduce-scatter", "scatter-start", "scatter-done"),
        ("all-gather", "all-gather-start", "all-gather-done"),
    ]
    assert [(c.operand_bytes, c.result_bytes) for c in found] == [
        (4096, 4096),
        (4096, 512),
        (512, 4096),
    ]
    assert [c.group_size for c in found] == [4, 8, 8]


def test_a_transfer_cut_over_fusions_is_one_collective():
    text = module_text("unrolled-v5e-libtpu-0.0.42.1")
    found = [c for c in collectives(hlo.parse(text)) if c.opcode == "all-gather"]
    starts = [i for i in hlo.select(text, "fusion") if "collective-start" in i.name]
    cut = [c for c in found if c.instruction.opcode == "fusion"]
    assert len(cut) == len(starts) > 20
    assert len(hlo.instructions(text, "all-gather")) > 3 * len(starts)
    for one in cut:
        assert one.done == one.instruction.name.replace("start", "done")
        assert one.result_bytes == 4 * one.operand_bytes


@pytest.mark.parametrize("target", TPUS)
def test_a_sum_that_is_cut_at_once_is_a_reduce_scatter(target):
    found = collectives(module(f"step-{target}"))
    scattered = [c for c in found if c.opcode == "reduce-scatter"]
    assert scattered, "the compiler fuses the sum of gradients with their cut"
    for one in scattered:
        assert one.instruction.opcode == "fusion"
        assert one.operand_bytes == 4 * one.result_bytes


def test_groups_without_a_list_are_all_devices_and_pairs_a_ring():
    read = entry(
        """%a = f32[8]{0} parameter(0)
%b = f32[8]{0} all-to-all(%a), replica_groups={}, dimensions={0}
ROOT %c = f32[8]{0} collective-permute(%b), source_target_pairs={{0,1},{1,2},{2,0}}""",
        header=", num_partitions=2, replica_count=3",
    )
    assert [c.group_size for c in collectives(read)] == [6, 3]


TIMED = """%a = f32[8]{0} parameter(0)
%b = f32[8]{0} add(%a, %a), backend_config={"estimated_cycles":"10"}
%c = f32[8]{0} add(%a, %a), backend_config={"estimated_cycles":"40"}
%d = f32[8]{0} add(%b, %b), backend_config={"estimated_cycles":"20"}
%e = f32[8]{0} add(%b, %c), backend_config={"estimated_cycles":"9223372036854775807"}
ROOT %f = f32[8]{0} add(%d, %e), backend_config={"estimated_cycles":"5"}"""


def test_critical_path_is_the_longest_chain():
    path = critical_path(entry(TIMED))
    assert [found.name for found in path.instructions] == ["a", "c", "e", "f"]
    assert (path.path_cycles, path.total_cycles) == (45, 75)
    assert path.without_estimate == ("e",)


def test_critical_path_heeds_control_predecessors():
    text = TIMED.replace("add(%b, %b),", "add(%b, %b), control-predecessors={%c},")
    path = critical_path(entry(text))
    assert [found.name for found in path.instructions] == ["a", "c", "d", "f"]
    assert path.path_cycles == 65


@pytest.mark.parametrize("target", TPUS)
def test_critical_path_multiplies_loops(target):
    read = module(f"layers-{target}")
    body = next(c for name, c in read.computations.items() if ".sunk" in name)
    once = sum(found.estimated_cycles or 0 for found in body.instructions)
    path = critical_path(read)
    outside = hlo.estimated_cycles(module_text(f"layers-{target}"))
    assert path.total_cycles == outside + 12 * once
    assert path.path_cycles <= path.total_cycles


def test_critical_path_needs_estimates():
    with pytest.raises(ValueError, match="compiled for a TPU, found no estimates"):
        critical_path(module("matmul-cpu-jax-0.10.2"))


def test_live_bytes_follow_first_and_last_use():
    read = entry("""%a = f32[256]{0} parameter(0)
%b = f32[512]{0:S(1)} broadcast(%a), dimensions={0}
%c = f32[1024]{0} broadcast(%b), dimensions={0}
%d = (f32[1024]{0}) tuple(%c)
%e = f32[1024]{0} get-tuple-element(%d), index=0
%f = f32[256]{0} slice(%e), slice={[0:256]}
ROOT %g = f32[256]{0} add(%f, %a)""")
    kib = [n / 1024 for n in live_bytes(read)]
    # a is kept, b goes after c is made, c after f, whatever its name is in between.
    assert kib == [1, 3, 7, 5, 5, 6, 3]
    assert [n / 1024 for n in live_bytes(read, 1)] == [0, 2, 2, 0, 0, 0, 0]


def test_live_bytes_count_an_operand_of_a_copy_once():
    read = entry("""%a = f32[256]{0} parameter(0)
%s = (f32[256]{0:S(1)}, f32[256]{0}, u32[]{:S(2)}) copy-start(%a)
ROOT %d = f32[256]{0:S(1)} copy-done(%s)""")
    assert live_bytes(read, 0) == [1024, 1024, 1024]
    assert live_bytes(read, 1) == [0, 1024, 1024]


def test_live_bytes_need_a_schedule():
    text = module_text("matmul-cpu-jax-0.10.2").replace("is_scheduled=true", "a=1")
    with pytest.raises(ValueError, match="expected a scheduled module, got 'jit_mat"):
        live_bytes(hlo.parse(text))
