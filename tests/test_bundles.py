"""Dumped schedules: what is issued when, against the compiler's own table."""

from __future__ import annotations

import random
import re

import pytest
from stored_dumps import LIBTPUS, bundle_texts

from helpers.bundles import Loop, Schedule, Utilization, parse_bundles

SMALL = """= control target key start
LB: loop body
= control target key end

     0   :  { %s1_s0 = smov 0 } /* Start region 1 */
   0x1 LB: > { %v2_v0 = vld [vmem:[#a + $0x8]] /* x */  ;;  %4 = vexp2.f32 %v2_v0 \
 ;;  %s9_s1 = sphi %s1_s0, %s3_s1 } /* Start region 7 :: End region 1 */
   0x2   : > { %5 = dma.hbm_to_vmem [thread:$0]  (!%p1_p0), /*hbm=*/%s1 /* {a:
bounds: (1, 2) } */ }
   0x3   : > { %s3_s1 = sadd.s32 1, %s9_s1  ;;  %v6_v1 = vpop.eup %4 }
   0x4   : > { %p7_p1 = scmp.ge.s32.totalorder %s3_s1, 5 /* loop exit test */ }
   0x5   :  { %8 = sbr.rel (!%p7_p1) target = $region7 }
   0x6   :  {}
   0x7   :  {}
   0x8   :  {}
   0x9   :  {} /* End region 7 */
   0xa   :  { %9 = vst [vmem:[#b]] %v6_v1 }"""
TABLE = """== CAPACTIY:
MXU, VALU
  4    2
== UTILIZATION:
4 0
2 1
"""


def stored(name: str) -> Schedule:
    return parse_bundles(*bundle_texts(name))


def test_bundles_have_operations_by_slot():
    bundles = parse_bundles(SMALL).bundles
    assert [bundle.index for bundle in bundles] == list(range(11))
    assert [b.index for b in bundles if b.label] == [1]
    assert [bundle.depth for bundle in bundles[:6]] == [0, 1, 1, 1, 1, 0]
    assert [(o.opcode, o.slot) for o in bundles[1].operations] == [
        ("vld", "VLOAD"),
        ("vexp2.f32", "EUP"),
        ("sphi", ""),
    ]
    assert bundles[1].operations[0].results == "%v2_v0"
    assert bundles[2].operations[0].predicate == "!%p1_p0"
    assert bundles[6].operations == ()


def test_loops_are_branches_back_with_their_delay_slots():
    schedule = parse_bundles(SMALL)
    assert schedule.loops == (Loop(first=1, last=9, trips=5),)
    # By hand: bundles 1 to 9 five times, and the two around them.
    assert schedule.loops[0].body_cycles == 9
    assert schedule.cycles == 2 + 5 * 9


def test_loops_in_loops_multiply():
    outer = "{ %10 = sbr.rel (!%p7_p1) target = $region1  ;;  %9"
    schedule = parse_bundles(SMALL.replace("{ %9", outer))
    assert [(loop.first, loop.trips) for loop in schedule.loops] == [(1, 5), (0, 5)]
    assert schedule.runs == [5, *[25] * 9, 5]
    assert schedule.cycles == 5 + 225 + 5


def test_busy_share_weighs_bundles_by_their_runs():
    rows = "\n".join(["4 0"] * 3 + ["0 1"] * 8)
    schedule = parse_bundles(SMALL, TABLE.replace("4 0\n2 1\n", rows))
    # By hand: bundle 0 once and bundles 1 and 2 five times, of 47 bundles.
    assert schedule.busy_share("MXU") == pytest.approx(11 / 47)
    with pytest.raises(ValueError, match="expected a schedule with a table"):
        parse_bundles(SMALL).busy_share("MXU")


def test_a_loop_without_a_constant_test_has_unknown_trips():
    schedule = parse_bundles(SMALL.replace("%s3_s1, 5", "%s3_s1, %s1_s0"))
    assert schedule.loops == (Loop(first=1, last=9, trips=None),)
    assert schedule.cycles is None


def test_a_branch_forward_is_no_loop():
    later = SMALL.replace("target = $region7", "target = $region9")
    assert parse_bundles(later + " /* Start region 9 */").loops == ()


def test_issued_operations_are_counted_by_bundle():
    schedule = parse_bundles(SMALL)
    assert schedule.issued("SALU")[:6] == [1, 0, 1, 1, 1, 1]
    # An exponential goes through the vector unit's slot.
    assert schedule.issued("VALU")[1] == schedule.issued("EUP")[1] == 1


def test_utilization_is_busy_units_by_capacity():
    text = SMALL.partition("   0x2")[0]
    busy = parse_bundles(text, TABLE).utilization
    assert busy == Utilization({"MXU": 4, "VALU": 2}, ((4, 0), (2, 1)))
    assert busy.over_time("MXU") == [4, 2]
    assert busy.share("MXU") == 6 / 8
    assert busy.share("MXU", 1, 1) == 1 / 2
    with pytest.raises(ValueError, match="expected a slot among MXU, VALU, got 'XLU'"):
        busy.share("XLU")
    with pytest.raises(ValueError, match="bundles from 5 to None, found none"):
        busy.share("MXU", 5)


@pytest.mark.parametrize(
    ("operation", "slot"),
    [
        # As the tables of a softmax and of the program around it count them (v5e,
        # libtpu 0.0.42.1, 2026-12-01).
        ("%vm1_vm0 = vmor %vm2_vm1, %vm3_vm2", "VLOAD"),
        ("%4 = vsyncadd [#allocation1], 4294901760", "VLOAD"),
        ("%5 = dma.done.wait [#allocation1], 64", "VLOAD"),
        ("%6 = vtrace %s1_s0", "VLOAD"),
        ("%v1_v0 = vrot.slane %v2_v1, 4", "VALU"),
        ("%v1_v0 = vstv %s4_s9", "VALU"),
        ("%7 = vperm.xlu1 %v2_v1, %v3_v2", "XLU"),
        ("%v1_v0 = vpop.permute.xlu2 %7", "VPOP"),
        ("%9 = vset.pattern.permute.xlu1 0", ""),
        ("%10 = vsetiar.raw.iar0 %v166_v7", "VSTORE"),
        ("%11 = set.rngseed %v157_v38", "VSTORE"),
        ("%s1_s0 = spop.drf %12", "SALU"),
        ("%p1_p0 = pnand %p2_p1, %p3_p2", "SALU"),
        ("%13 = dma.vmem_to_hbm [thread:$0]  /*vmem=*/%s1_s0", "SALU"),
        ("%s1_s0 = inlined_call_operand.hbm [shape: f32[8]]", ""),
    ],
)
def test_operations_are_issued_to_the_slot_that_the_table_counts(operation, slot):
    (bundle,) = parse_bundles(f"     0   :  {{ {operation} }}").bundles
    assert bundle.operations[0].slot == slot


@pytest.mark.parametrize("libtpu", LIBTPUS)
@pytest.mark.parametrize("name", ["matmul", "exponential"])
def test_issued_operations_are_those_of_the_compilers_table(name, libtpu):
    schedule = stored(f"{name}-v5e-{libtpu}")
    busy = schedule.utilization
    assert busy.capacity["MXU"] == 4, "matrix units of a v5e core"
    # The units that take one cycle for one operation.
    for slot in ("VALU", "VPOP", "VLOAD", "VSTORE", "SALU"):
        assert schedule.issued(slot) == busy.over_time(slot), slot
    # The exponential's unit is busy in the cycle after.
    assert sum(schedule.issued("EUP")) == sum(busy.over_time("EUP"))
    # A product occupies its matrix unit for several.
    issued, used = sum(schedule.issued("MXU")), sum(busy.over_time("MXU"))
    assert used >= issued and bool(issued) == (name == "matmul")


@pytest.mark.parametrize("libtpu", LIBTPUS)
def test_matmul_feeds_every_row_to_the_matrix_units(libtpu):
    schedule = stored(f"matmul-v5e-{libtpu}")
    words = [o.opcode for bundle in schedule.bundles for o in bundle.operations]
    products = [word for word in words if word.startswith("vmatmul")]
    # By hand: 256 rows are 16 registers of 16 (bf16); each goes to the 2 by 2 blocks
    # of 128 by 128 weights.
    assert len(products) == 16 * 4
    assert {word[-4:] for word in products} == {"mxu0", "mxu1", "mxu2", "mxu3"}
    assert schedule.loops == () and schedule.cycles == len(schedule.bundles)
    assert 0.5 < schedule.utilization.share("MXU") < 0.6


@pytest.mark.parametrize("libtpu", LIBTPUS)
def test_elementwise_loop_is_bound_by_its_exponential(libtpu):
    schedule = stored(f"exponential-v5e-{libtpu}")
    (loop,) = schedule.loops
    # By hand: 512 rows of 8 registers in windows of 103 rows are 5 trips, and the
    # pipeline of transfers in, work, transfers out adds 2.
    assert loop.trips == -(-512 // 103) + 2
    exponentials = schedule.issued("EUP")[loop.first : loop.last + 1]
    assert sum(exponentials) == 103 * 8 and max(exponentials) == 1
    assert schedule.cycles == len(schedule.bundles) + 6 * loop.body_cycles
    assert schedule.utilization.share("EUP", loop.first, loop.last) > 0.9


@pytest.mark.parametrize(
    ("text", "table", "message"),
    [
        ("", None, "line 1, column 1: expected bundles such as"),
        (
            SMALL.replace("0x3  ", "0x4  "),
            None,
            "line 9, column 1: expected bundle 0x3",
        ),
        (
            SMALL.replace(" %v6_v1 }", ""),
            None,
            "line 16, column 1: expected bundle 0xa",
        ),
        (SMALL.replace("smov", "!"), None, "line 5, column 1: expected an operation"),
        (SMALL, TABLE, "expected a table of 11 bundles, got 2"),
        (SMALL, "== CAPACITY", "line 1, column 1: expected a table of capacity"),
        (SMALL, TABLE.replace("2 1", "2"), "line 6, column 1: expected 2 numbers"),
    ],
)
def test_broken_dumps_are_refused_with_their_place(text, table, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_bundles(text, table)


def test_changed_dumps_give_a_result_or_a_value_error():
    text, table = bundle_texts("matmul-v5e-libtpu-0.0.42.1")
    for seed in range(40):
        chance = random.Random(seed)
        at, length = chance.randrange(len(text)), chance.choice([1, 3, 50, 2000])
        new = chance.choice(["", "}", "{", " ;; ", "0x1", text[at : at + length] * 2])
        changed = text[:at] + new + text[at + length :]
        cut = table[: chance.randrange(len(table))] if seed % 4 == 0 else table
        try:
            schedule = parse_bundles(changed, cut)
            assert schedule.loops is not None and schedule.cycles != 0
        except ValueError as error:
            assert "expected" in str(error)
