"""HLO text read back: hand-made modules, a stored one from libtpu, and bad input."""

from __future__ import annotations

import pytest
from stored_dumps import module_text

from helpers import hlo

STORED = "layer-v5e-libtpu-0.0.42.1"
SMALL = """HloModule jit_f, is_scheduled=true

%inner (a: f32[4]) -> f32[4] {
  %a = f32[4]{0} parameter(0)
  ROOT %double = f32[4]{0} add(%a, %a), metadata={op_name="jit(f)/}{/add"}
}

ENTRY %main.1 (y.1: f32[4], x.1: s32[]) -> (f32[4], s32[]) {
  %y.1 = f32[4]{0} parameter(1), sharding={replicated}, metadata={op_name="y[\\'a\\']"}
  %x.1 = s32[] parameter(0)
  %f = f32[4]{0} fusion(%y.1), kind=kLoop, calls=%inner, backend_config={"a":{"b":[]}}
  ROOT %both = (f32[4]{0}, s32[]) tuple(%f, %x.1)
}
"""


def test_instructions_come_in_printed_order_with_their_computation():
    found = hlo.instructions(SMALL)
    assert [(i.computation, i.name, i.opcode) for i in found] == [
        ("inner", "a", "parameter"),
        ("inner", "double", "add"),
        ("main.1", "y.1", "parameter"),
        ("main.1", "x.1", "parameter"),
        ("main.1", "f", "fusion"),
        ("main.1", "both", "tuple"),
    ]
    assert [i.name for i in found if i.is_root] == ["double", "both"]
    assert {i.computation for i in found if i.is_entry} == {"main.1"}


def test_shortened_text_drops_settings_and_keeps_the_work():
    texts = [str(i) for i in hlo.instructions(SMALL)]
    assert texts[1] == "ROOT %double = f32[4]{0} add(%a, %a)"
    assert texts[2] == "%y.1 = f32[4]{0} parameter(1)"
    assert texts[4] == "%f = f32[4]{0} fusion(%y.1), kind=kLoop, calls=%inner"


def test_select_looks_in_the_entry_or_where_it_is_told():
    (fusion,) = hlo.select(SMALL, "fusion")
    assert fusion.calls == "inner"
    assert [i.opcode for i in hlo.select(SMALL, computation="inner")] == [
        "parameter",
        "add",
    ]
    assert hlo.select(SMALL, "add") == []


def test_signature_orders_parameters_by_number():
    assert hlo.signature(SMALL) == {
        "reads": ["x: s32[]", "y: f32[4]"],
        "returns": ["(f32[4], s32[])"],
    }


def test_quoted_text_is_not_read_as_hlo():
    tricky = SMALL.replace("kind=kLoop", 'note="a, metadata={x"')
    (fusion,) = hlo.select(tricky, "fusion")
    assert str(fusion).endswith('note="a, metadata={x", calls=%inner')


def test_calls_names_the_computation_of_a_call():
    called = SMALL.replace("fusion(%y.1), kind=kLoop, calls", "call(%y.1), to_apply")
    assert hlo.select(called, "call")[0].calls == "inner"


def test_signature_drops_the_numbering_of_long_tuples():
    numbered = SMALL.replace(
        "(f32[4]{0}, s32[]) tuple", "(f32[4]{0}, /*index=1*/s32[]) tuple"
    )
    assert hlo.signature(numbered)["returns"] == ["(f32[4], s32[])"]


def test_a_lowered_module_without_entry_is_refused():
    with pytest.raises(ValueError, match="with an ENTRY, found none"):
        hlo.signature(SMALL.replace("ENTRY ", ""))


def test_estimated_cycles_leave_out_what_is_no_estimate():
    first, second = (f'"estimated_cycles":"{n}"' for n in (40, 2**63 - 1))
    text = SMALL.replace('"a":', f'{first},"c":').replace(
        "%x.1 = s32[] parameter(0)",
        f"%x.1 = s32[] parameter(0), backend_config={{{second}}}",
    )
    assert hlo.estimated_cycles(text) == 40
    with pytest.raises(ValueError, match="compiled for a TPU"):
        hlo.estimated_cycles(SMALL)


def test_show_breaks_long_lines_between_words(capsys):
    hlo.show(*hlo.instructions(SMALL, "fusion"), width=30)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 1 and all(len(line) <= 30 for line in lines)
    assert " ".join("".join(lines).split()).startswith("%f = f32[4]{0}")


def test_select_names_an_unknown_computation():
    with pytest.raises(ValueError, match="computation in this module, got 'outer'"):
        hlo.select(SMALL, computation="outer")


@pytest.mark.parametrize("text", ["", "not HLO", "jit_f HloModule"])
def test_instructions_refuse_text_that_is_no_module(text):
    with pytest.raises(ValueError, match="expected text that starts with 'HloModule '"):
        hlo.instructions(text)


def test_stored_layer_has_one_fusion_with_product_bias_and_relu():
    text = module_text(STORED)
    (fusion,) = hlo.select(text, "fusion")
    inside = [i.opcode for i in hlo.select(text, computation=fusion.calls)]
    assert {"convolution", "add", "maximum"} <= set(inside)
    assert not any("metadata" in str(i) or "config" in str(i) for i in [fusion])
