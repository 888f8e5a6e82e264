"""Checks of the chapter on the way from Python to the chip."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from helpers import hlo
from helpers.check import Wrong, as_number, call, exercise, expect
from helpers.hlo_example import STEP
from helpers.hlo_loops import executions
from helpers.shapes import parse_shape

__all__ = [
    "optimise",
    "stored_bytes",
    "ten_readings",
    "who_did_it",
]

_WHO = {
    "python": "python",
    "jax": "jax",
    "xla": "xla",
    "back end": "back end",
    "backend": "back end",
    "back-end": "back end",
}
_DEEDS = (
    ("python", "a for loop runs while the function is traced: nobody else sees it"),
    ("jax", "JAX narrows an argument's type before it traces"),
    ("jax", "the maximum is in the jaxpr and no longer in the StableHLO"),
    ("xla", "the two are in the StableHLO, and a pass called cse merges them"),
    ("xla", "layouts appear with the pass called layout-assignment"),
    (
        "back end",
        "what is issued in which cycle is not in the HLO: it is in the bundles",
    ),
    ("xla", "copy-start and copy-done are in the HLO that the compiler prints"),
    ("python", "what a print shows was printed by Python, while it traced"),
)


@exercise(
    "Who did it?",
    shows="four parties share the work, and each leaves its text behind",
)
def who_did_it(answer: Any) -> None:
    """Checks who does each of eight things.

    Args:
        answer: Eight of the words Python, JAX, XLA and back end, in order.
    """
    expect(
        isinstance(answer, Iterable) and not isinstance(answer, str | bytes | Mapping),
        "expected a list of eight words",
    )
    words = list(answer)
    expect(len(words) == len(_DEEDS), f"expected eight words, got {len(words)}")
    for number, (word, (wanted, hint)) in enumerate(
        zip(words, _DEEDS, strict=True), start=1
    ):
        given = _WHO.get(str(word).strip().lower().removeprefix("the "))
        expect(
            given is not None,
            f"number {number}: expected Python, JAX, XLA or back end, got {word!r}",
        )
        expect(given == wanted, f"number {number}: {hint}")


def _same_name(answer: Any, wanted: str) -> bool:
    return str(answer).strip().removeprefix("%") == wanted


def _same_number(answer: Any, wanted: float) -> bool:
    return not isinstance(answer, str) and as_number(answer) == wanted


def _same_space(answer: Any, wanted: int) -> bool:
    return answer == f"S({wanted})" or _same_number(answer, wanted)


def _same_lengths(answer: Any, wanted: tuple[int, ...]) -> bool:
    if isinstance(answer, str):  # with or without the type before the brackets
        answer = [int(n) for n in re.findall(r"\d+", answer.rpartition("[")[2])]
    return tuple(as_number(n) for n in answer) == wanted


def _same_type(answer: Any, wanted: str) -> bool:
    if isinstance(answer, str):
        answer = answer.strip().lower()
        return answer == wanted or _TYPES.get(answer) == wanted
    return _TYPES.get(np.dtype(answer).name) == wanted


_TYPES = {"float32": "f32", "bfloat16": "bf16"}


def _readings() -> dict[str, tuple[Any, Callable[[Any, Any], bool], str]]:
    """What each reading is, how an answer is compared, and a hint."""
    module = hlo.parse(STEP)
    by_name = {
        found.name: found
        for computation in module.computations.values()
        for found in computation.instructions
    }
    loop = by_name["while.9"]
    body = module.computation(loop.attributes["body"].removeprefix("%"))
    turns = executions(module)[body.name]
    cycles = turns * sum(found.estimated_cycles or 0 for found in body.instructions)
    exchange = by_name["all-reduce"]
    started = by_name["copy-start"].result.leaves[0]
    return {
        "shape": (
            by_name["fusion.13"].result.dimensions,
            _same_lengths,
            "the lengths stand in the square brackets after the element type",
        ),
        "dtype": (
            by_name["tanh.6"].result.dtype,
            _same_type,
            "find the line whose opcode is tanh; its type stands before its opcode",
        ),
        "padded": (
            by_name["param.3"].result.stored_bytes,
            _same_number,
            "6 matrices; in each, 200 rows fill whole tiles of 8 and 200 columns do "
            "not fill whole tiles of 128; an element takes 2 bytes",
        ),
        "fused": (
            "fusion.13",
            _same_name,
            "which instruction of the loop's body calls the computation with the tanh?",
        ),
        "trips": (
            turns,
            _same_number,
            "the condition compares a counter with a constant; the counter begins at "
            "copy.9 and grows by what the body adds",
        ),
        "group": (
            len(exchange.groups[0]),
            _same_number,
            "a mesh of two axes of 4 and 1; the axis in the last braces is the one "
            "along which devices add up",
        ),
        "space": (
            started.layout.memory_space,
            _same_space,
            "the value of copy-start is a tuple: first where to, then where from",
        ),
        "operand": (
            exchange.operands[0],
            _same_name,
            "an operand stands in the parentheses after the opcode",
        ),
        "cycles": (
            cycles,
            _same_number,
            "two instructions of the body have an estimate; add them up, and do not "
            "forget the turns",
        ),
        "fastest": (
            by_name["param.2"].result.layout.minor_to_major[0],
            _same_number,
            "in the braces, the dimension whose neighbours are adjacent comes first",
        ),
    }


@exercise(
    "Ten readings",
    shows="a line of HLO says what is computed, where it lies, and what it may cost",
)
def ten_readings(answer: Any) -> None:
    """Checks ten readings, names all that are wrong, and gives a hint for the first.

    Args:
        answer: A dictionary with the ten names of the exercise.
    """
    expect(isinstance(answer, Mapping), "expected a dictionary of ten readings")
    readings = _readings()
    missing = [name for name in readings if name not in answer]
    expect(not missing, f"not read yet: {', '.join(missing)}")
    unknown = [str(name) for name in answer if name not in readings]
    expect(not unknown, f"there is no reading called {', '.join(unknown)}")
    wrong = []
    for name, (wanted, same, _) in readings.items():
        try:
            right = same(answer[name], wanted)
        except (Wrong, TypeError, ValueError):
            right = False
        if not right:
            wrong.append(name)
    if wrong:
        verb = "is" if len(wrong) == 1 else "are"
        hint = readings[wrong[0]][2]
        raise Wrong(
            f"{len(wrong)} of 10 {verb} wrong: {', '.join(wrong)}. {wrong[0]}: {hint}"
        )


@exercise(
    "Bytes from braces",
    shows="a tile is stored whole, however little of it is used",
)
def stored_bytes(answer: Any) -> None:
    """Checks the bytes of a printed type.

    Args:
        answer: ``stored_bytes(text)``; see the exercise.
    """
    rng = np.random.default_rng()
    rows, columns = (int(n) for n in rng.integers(300, 3000, 2))
    tile = int(rng.integers(4, 7))  # 16, 32 or 64 rows: tiles that no line above has
    for text, hint in (
        ("f32[16,256]{1,0:T(8,128)}", "nothing is padded here"),
        ("f32[10,300]{1,0:T(8,128)}", "round both lengths up to whole tiles"),
        (
            "f32[10,300]{0,1:T(8,128)}",
            "the tile's last length, 128, belongs to the dimension named first in the "
            "braces, which varies fastest",
        ),
        (
            "bf16[300,1000]{1,0:T(8,128)(2,1)}",
            "the inner tiles, (2,1), say in what order a tile is stored; they add "
            "nothing where they divide the outer one",
        ),
        ("bf16[300,1000]{1,0:T(8,128)(2,1)S(1)}", "S(1) is no tile"),
        ("f32[5,8,8]{2,1,0:T(8,128)}", "only the two fastest dimensions are tiled"),
        ("f32[5,9,7]{0,2,1:T(8,128)}", "the two fastest are those named first"),
        ("f32[64,3]{0,1:T(4,128)}", "the tile is the one in the text, here 4 by 128"),
        (f"f32[{rows},{columns}]{{1,0:T({2**tile},128)}}", "for any tile"),
        ("f32[200]{0:T(256)S(1)}", "a tile of one length, here 256"),
        ("f32[1000]{0:T(1024)}", "a tile of one length"),
        ("bf16[1000]{0:T(1024)(128)(2,1)}", "a tile of one length, cut further"),
        ("s8[100,100]{1,0:T(8,128)(4,1)}", "s8 takes one byte"),
        ("pred[100,100]{1,0:T(8,128)(4,1)}", "pred is stored as one byte"),
        ("f32[]{:T(128)}", "a single number takes a whole tile, too"),
        ("f32[300,1000]{1,0}", "without tiles there is no padding"),
        ("f32[300,1000]", "without a layout there is no padding"),
        (f"bf16[{rows},{columns}]{{1,0:T(8,128)(2,1)}}", "for any lengths"),
    ):
        array, _ = parse_shape(text)
        found = as_number(call(answer, text))
        wanted = array.stored_bytes
        expect(
            found == wanted, f"{text} takes {wanted:,} bytes, got {found:,.0f}: {hint}"
        )


_OPS: dict[str, tuple[int, Callable[..., float]]] = {
    "add": (2, lambda a, b: a + b),
    "multiply": (2, lambda a, b: a * b),
    "tanh": (1, math.tanh),
}


def _require_line(line: Any) -> None:
    """Says what is wrong with a line by itself."""
    if not isinstance(line, tuple | list) or len(line) < 2:
        raise Wrong(f"expected lines such as ('y', 'tanh', 'x'), got {line!r}")
    name, op, *operands = line
    if not isinstance(name, str):
        raise Wrong(f"expected a name at the start of a line, got {line!r}")
    if op == "constant":
        expect(len(operands) == 1, f"expected one number in a constant, got {line!r}")
        as_number(operands[0])


def _run(lines: Any, result: Any, inputs: Mapping[str, float]) -> float:
    """Plays a program; says what is wrong with one that cannot be played."""
    values: dict[Any, float] = {}
    for line in lines:
        name, op, *operands = line
        if name in values:
            raise Wrong(f"two lines have the name {name!r}")
        if op == "input":
            values[name] = inputs[name]
        elif op == "constant":
            values[name] = float(operands[0])
        elif op in _OPS and len(operands) == _OPS[op][0]:
            for operand in operands:
                if operand not in values:
                    raise Wrong(f"{line!r} uses {operand!r}, which no line above makes")
            values[name] = _OPS[op][1](*(values[operand] for operand in operands))
        else:
            raise Wrong(f"expected one of the five operations, got {line!r}")
    if result not in values:
        raise Wrong(f"the result {result!r} is the name of no line")
    return values[result]


_X = ("x", "input")
_Y = ("y", "input")
_PROGRAMS: tuple[tuple[list[tuple], str, int, str], ...] = (
    ([_X, ("a", "tanh", "x"), ("b", "tanh", "a")], "a", 2, "b is used by nobody"),
    (
        [_X, ("a", "tanh", "x"), ("b", "tanh", "a"), ("c", "tanh", "b")],
        "a",
        2,
        "b is used by c alone, and c by nobody",
    ),
    ([_X, _Y, ("a", "tanh", "x")], "a", 3, "inputs stay, also unused ones"),
    (
        [_X, ("a", "tanh", "x"), ("b", "tanh", "x"), ("c", "add", "a", "b")],
        "c",
        3,
        "a and b are the same",
    ),
    (
        [
            _X,
            ("a", "tanh", "x"),
            ("b", "tanh", "x"),
            ("c", "tanh", "a"),
            ("d", "tanh", "b"),
            ("e", "multiply", "c", "d"),
        ],
        "e",
        4,
        "once a and b are one, c and d are the same, too",
    ),
    (
        [
            _X,
            _Y,
            ("a", "add", "x", "y"),
            ("b", "add", "y", "x"),
            ("c", "add", "a", "b"),
        ],
        "c",
        4,
        "x + y is y + x",
    ),
    (
        [
            _X,
            _Y,
            ("a", "tanh", "x"),
            ("z", "tanh", "x"),
            ("c", "add", "z", "y"),
            ("d", "add", "a", "y"),
            ("e", "multiply", "c", "d"),
        ],
        "e",
        5,
        "once z is a, both sums are a + y: put operands in order after names have been "
        "replaced, or go on until nothing changes",
    ),
    (
        [
            _X,
            ("two", "constant", 2.0),
            ("three", "constant", 3.0),
            ("a", "multiply", "two", "three"),
            ("b", "tanh", "a"),
            ("c", "add", "x", "b"),
        ],
        "c",
        3,
        "tanh(2 · 3) depends on no input: one constant",
    ),
    (
        [
            _X,
            ("one", "constant", 1.0),
            ("a", "multiply", "x", "one"),
            ("b", "tanh", "a"),
        ],
        "b",
        2,
        "x · 1 is x",
    ),
    (
        [_X, ("one", "constant", 1.0), ("a", "multiply", "one", "x")],
        "a",
        1,
        "1 · x is x, and the result may be an input",
    ),
    (
        [
            _X,
            ("one", "constant", 1.0),
            ("minus", "constant", -1.0),
            ("zero", "add", "one", "minus"),
            ("a", "add", "x", "zero"),
            ("b", "tanh", "a"),
            ("c", "tanh", "x"),
            ("d", "add", "b", "c"),
        ],
        "d",
        3,
        "folding 1 + -1 gives a 0, the 0 frees x, and then b and c are the same: "
        "each pass must come after those that make work for it",
    ),
    (
        [
            _X,
            ("a", "constant", 2.0),
            ("b", "constant", 2.0),
            ("c", "multiply", "x", "a"),
            ("d", "multiply", "x", "b"),
            ("e", "add", "c", "d"),
        ],
        "e",
        4,
        "two constants of one value are the same",
    ),
    (
        [_X, ("zero", "constant", 0.0), ("a", "multiply", "x", "zero")],
        "a",
        3,
        "x · 0 is not 0 where x is infinite: leave it",
    ),
)


@exercise(
    "Passes of your own",
    shows="passes are small, their order matters, and so does what they may assume",
)
def optimise(answer: Any) -> None:
    """Checks that programs get as short as they can and compute the same.

    Args:
        answer: ``optimise(lines, result)``; see the exercise.
    """
    rng = np.random.default_rng()
    for lines, result, wanted, hint in _PROGRAMS:
        given = list(lines)
        found = call(answer, given, result)
        expect(given == lines, "the list that you are given must stay as it is")
        expect(
            isinstance(found, tuple | list) and len(found) == 2,
            "expected two results: the lines, and the name of the result",
        )
        new, name = list(found[0]), found[1]
        for line in new:
            _require_line(line)
        kept = {line[0] for line in new if line[1] == "input"}
        inputs = [line[0] for line in lines if line[1] == "input"]
        expect(set(inputs) == kept, f"{_shown(lines)}: the inputs must stay: {inputs}")
        for value in (*rng.normal(size=2), math.inf):
            values = {key: float(value) + at for at, key in enumerate(inputs)}
            before, after = _run(lines, result, values), _run(new, name, values)
            same = before == after or (math.isnan(before) and math.isnan(after))
            expect(
                same,
                f"{_shown(lines)} must be {before:g} at {values}, and is {after:g} "
                f"after your passes: {hint}",
            )
        expect(
            len(new) <= wanted,
            f"{_shown(lines)} can be {wanted} lines, yours has {len(new)}: {hint}",
        )


def _shown(lines: list[tuple]) -> str:
    return "; ".join(" ".join(map(str, line)) for line in lines)
