"""A line of HLO taken apart: nothing lost, and each piece named for what it is."""

from __future__ import annotations

import pytest
from stored_dumps import MODULES, module_text

from helpers import hlo
from helpers.hlo_anatomy import anatomy, settings

LINE = (
    "  ROOT %fusion.2 = (bf16[300,1000]{1,0:T(8,128)(2,1)S(1)}, u32[]{:S(2)}) "
    "fusion(%x.1, %x.1), kind=kOutput, calls=%inside, "
    'metadata={op_name="jit(f)/a, b" stack_frame_id=4}'
)


def meaning(line: str, text: str) -> str:
    (found,) = {piece.meaning for piece in anatomy(line) if piece.text == text}
    return found


@pytest.mark.parametrize("name", MODULES)
def test_the_pieces_of_every_stored_line_are_the_line(name):
    lines = module_text(name).split("\n")
    for computation in hlo.parse(module_text(name)).computations.values():
        for found in computation.instructions:
            line = lines[found.line - 1]
            pieces = anatomy(line)
            assert "".join(piece.text for piece in pieces) == line
            names = [
                piece.text
                for piece in pieces
                if piece.meaning.startswith("name of the instruction")
            ]
            assert [name.removeprefix("%") for name in names] == [found.name]
            opcodes = [p.text for p in pieces if p.meaning.startswith("opcode: ")]
            assert opcodes == [found.opcode]
            operands = [p.text for p in pieces if p.meaning.startswith("operand: ")]
            names = [text.split()[-1].removeprefix("%") for text in operands]
            assert tuple(names) == found.operands


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ROOT ", "the value that the computation returns"),
        ("bf16", "16 bits"),
        ("[300,1000]", "300,000 elements"),
        ("1,0", "fastest dimension 1, then 0"),
        ("T(8,128)(2,1)", "tiles of 8 by 128, each made of tiles of 2 by 1"),
        ("T(8,128)(2,1)", "622,592 bytes stored, 600,000 used"),
        ("S(1)", "memory space 1: VMEM"),
        ("S(2)", "memory space 2: another memory"),
        ("[]", "one element"),
        ("fusion", "opcode: runs another computation"),
        ("%x.1", "operand"),
        ("calls=%inside", "another computation"),
        ('metadata={op_name="jit(f)/a, b" stack_frame_id=4}', "in the Python program"),
    ],
)
def test_a_piece_says_what_it_is(text, said):
    assert said in meaning(LINE, text)


@pytest.mark.parametrize(
    ("line", "text", "said"),
    [
        ("%a = s32[]{:T(128)} constant(6)", "6", "the value"),
        ("%a = f32[2]{0} constant({1, 2})", "{1, 2}", "the value"),
        ("a = f32[8] parameter(3)", "3", "which argument, from 0"),
        ("%a = f32[<=8,?]{1,0} custom-call()", "[<=8,?]", "not all known"),
        ("%a = token[] after-all()", "token", "no size"),
        ("%a = s4[8]{0:T(1024)E(4)} sine(%b)", "E(4)", "a setting of the layout"),
        ("%a = f32[8] sine(%b), odd=3", "odd=3", "an attribute of this opcode"),
    ],
)
def test_unusual_lines_are_taken_apart_too(line, text, said):
    assert "".join(piece.text for piece in anatomy(line)) == line
    assert said in meaning(line, text)


@pytest.mark.parametrize("line", ["", "}", "ENTRY %main () -> f32[] {", "%a = f32[8]"])
def test_what_is_no_instruction_is_refused(line):
    with pytest.raises(ValueError, match="expected an? "):
        anatomy(line)


def test_settings_are_flat_and_without_empty_entries():
    text = (
        "HloModule m\n\nENTRY %e (p: f32[8]) -> f32[8] {\n"
        "  %p = f32[8]{0} parameter(0)\n"
        "  ROOT %a = f32[8]{0} negate(%p), backend_config="
        '{"flag_configs":[],"window_config":{"estimated_cycles":"7","is_mask":false,'
        '"bounds":["1","2"]},"used":[{"size":"9","offset":"0"}]}\n}\n'
    )
    entry = hlo.parse(text).entry
    assert settings(entry.root) == {
        "window_config.estimated_cycles": "7",
        "window_config.bounds": ["1", "2"],
        "used[0].size": "9",
    }
    assert settings(entry.parameters[0]) == {}
