"""Answers to the exercises of the chapter on the way from Python to the chip."""

from __future__ import annotations

import functools
import math
import re

import numpy as np

WHO = ["Python", "JAX", "JAX", "XLA", "XLA", "back end", "XLA", "Python"]
READ = {
    "shape": (100, 200),
    "dtype": "f32",
    "padded": 614_400,
    "fused": "fusion.13",
    "trips": 6,
    "group": 4,
    "space": 1,
    "operand": "multiply_reduce_fusion",
    "cycles": 38_448,
    "fastest": 0,
}


def bytes_of(text, *, pad=True, ordered=True, width=None, scalar=True, rounded=True):
    """The bytes of a printed type, with a mistake for each option."""
    kind, inside = re.match(r"(\w+)\[([\d,]*)\]", text).groups()
    lengths = [int(n) for n in inside.split(",") if n]
    order = re.search(r"\{([\d,]+)", text)
    if order and ordered:
        lengths = [lengths[int(n)] for n in reversed(order[1].split(","))]
    tile = re.search(r"T\(([\d,]+)\)", text)
    tile = [int(n) for n in tile[1].split(",")] if tile and pad else []
    if scalar:
        lengths = [1] * (len(tile) - len(lengths)) + lengths
    for at in range(1, min(len(tile), len(lengths)) + 1):
        whole = -(-lengths[-at] // tile[-at]) if rounded else lengths[-at] // tile[-at]
        lengths[-at] = max(whole, 1) * tile[-at]
    return (width or {"f32": 4, "bf16": 2, "s8": 1, "pred": 1}[kind]) * math.prod(
        lengths
    )


def bytes_with_known_tiles(text):
    """Knows that tiles have 8 by 128 or 1024 elements, and does not look."""
    return bytes_of(re.sub(r"T\(\d+,\d+\)", "T(8,128)", text))


def bytes_without_table(text):
    """Another way: tile counts with NumPy."""
    kind, inside, rest = re.match(r"(\w+)\[(.*?)\](.*)", text).groups()
    shape = np.array([int(n) for n in inside.split(",") if n], int)
    order = re.match(r"\{([\d,]+)", rest)
    if order:
        shape = shape[[int(n) for n in order[1].split(",")]]
    tile = re.search(r"T\(([\d,]+)\)", rest)
    if tile:
        tile = [int(n) for n in tile[1].split(",")][::-1]
        shape = np.append(shape, [1] * max(0, len(tile) - len(shape)))
        for at, length in enumerate(tile):
            shape[at] = math.ceil(shape[at] / length) * length
    return np.int64(shape.prod()) * np.int64({"f": 4, "b": 2, "s": 1, "p": 1}[kind[0]])


OPS = {
    "add": lambda a, b: a + b,
    "multiply": lambda a, b: a * b,
    "tanh": math.tanh,
}


def optimised(
    lines,
    result,
    *,
    fold=True,
    neutral=True,
    swap=True,
    share=True,
    dead=True,
    repeat=True,
    keep_inputs=True,
    zero=False,
    follow=True,
):
    """All passes in one walk, repeated; an option is a pass left out or wrong."""
    before = None
    lines = list(lines)
    while before != (lines, result):
        before = (lines, result)
        number, same, known, new = {}, {}, {}, []
        for name, op, *operands in lines:
            operands = [same.get(o, o) for o in operands]
            if fold and op in OPS and all(o in number for o in operands):
                operands, op = [OPS[op](*(number[o] for o in operands))], "constant"
            if op == "constant":
                number[name] = operands[0]
            if op in ("add", "multiply"):
                if swap:
                    operands = sorted(operands)
                one = {"add": 0.0, "multiply": 1.0}[op]
                rest = [o for o in operands if number.get(o) != one]
                if neutral and len(rest) == 1:
                    same[name] = rest[0]
                    continue
                if zero and op == "multiply" and 0.0 in map(number.get, operands):
                    op, operands = "constant", [0.0]
            work = (op, *operands)
            if share and op != "input" and work in known:
                same[name] = known[work]
                continue
            known[work] = name
            new.append((name, *work))
        result = same.get(result, result) if follow else result
        if dead:
            used, kept = {result}, []
            for line in reversed(new):
                if line[0] in used or (keep_inputs and line[1] == "input"):
                    used.update(line[2:])
                    kept.append(line)
            new = kept[::-1]
        lines = new
        if not repeat:
            break
    return lines, result


def in_place(lines, result):
    lines[:], name = optimised(lines, result)
    return lines, name


def ordered_too_early(lines, result):
    """Puts operands in order before names are replaced, and never again."""
    lines = [
        (name, op, *(sorted(rest) if op in ("add", "multiply") else rest))
        for name, op, *rest in lines
    ]
    return optimised(lines, result, swap=False)


def as_lists(lines, result):
    new, name = optimised(lines, result)
    return [[list(line) for line in new], name]


def with_line(line):
    return lambda lines, result: ([*lines, line], result)


def only(**changed):
    return functools.partial(optimised, **changed)


def swapped(at, word):
    return [*WHO[:at], word, *WHO[at + 1 :]]


WRONG = {
    "pipeline.who_did_it": [
        (swapped(0, "JAX"), "number 1: a for loop runs while"),
        (swapped(1, "XLA"), "number 2: JAX narrows"),
        (swapped(2, "XLA"), "number 3: the maximum is in the jaxpr"),
        (swapped(3, "JAX"), "a pass called cse"),
        (swapped(4, "back end"), "layout-assignment"),
        (swapped(5, "XLA"), "in the bundles"),
        (swapped(6, "back end"), "in the HLO that the compiler prints"),
        (swapped(7, "JAX"), "printed by Python"),
        (swapped(7, "LLVM"), "expected Python, JAX, XLA or back end"),
        (WHO[:5], "eight words, got 5"),
        ("Python", "a list of eight words"),
    ],
    "pipeline.ten_readings": [
        (READ | {"padded": 480_000}, "1 of 10 is wrong: padded. padded: 6 matrices"),
        (READ | {"padded": 6 * 256 * 256 * 2}, "do not fill whole tiles of 128"),
        (
            READ | {"trips": 5, "group": 1},
            "2 of 10 are wrong: trips, group. trips: the",
        ),
        (READ | {"group": "four"}, "the axis in the last braces"),
        (READ | {"cycles": 2036 + 4372}, "do not forget the turns"),
        (READ | {"space": 0}, "first where to"),
        (READ | {"shape": (200, 100)}, "in the square brackets"),
        (READ | {"shape": 100}, "in the square brackets"),
        (READ | {"shape": (100.7, 200)}, "in the square brackets"),
        (READ | {"space": "S(2)"}, "first where to"),
        (READ | {"dtype": "bf16"}, "whose opcode is tanh"),
        (READ | {"fused": "tanh.6"}, "which instruction of the loop's body"),
        (READ | {"operand": "get-tuple-element.16"}, "after the opcode"),
        (READ | {"fastest": 1}, "comes first"),
        ({"shape": (100, 200)}, "not read yet: dtype, padded"),
        (READ | {"colour": 1}, "no reading called colour"),
        (list(READ.values()), "a dictionary of ten"),
    ],
    "pipeline.stored_bytes": [
        (functools.partial(bytes_of, pad=False), "round both lengths up"),
        (functools.partial(bytes_of, ordered=False), "the dimension named first"),
        (functools.partial(bytes_of, width=4), "bf16[300,1000]"),
        (functools.partial(bytes_of, scalar=False), "a single number takes a whole"),
        (functools.partial(bytes_of, rounded=False), "round both lengths up"),
        (bytes_with_known_tiles, "the one in the text"),
        (lambda text: bytes_of(text.replace("T(256)", "T(1024)")), "here 256"),
        (lambda text: str(bytes_of(text)), "drop the quotes"),
        (lambda text: (bytes_of(text),), "got a tuple"),
    ],
    "pipeline.optimise": [
        (only(dead=False), "b is used by nobody"),
        (only(keep_inputs=False), "the inputs must stay"),
        (only(share=False), "a and b are the same"),
        (only(swap=False), "x + y is y + x"),
        (ordered_too_early, "once z is a, both sums"),
        (only(fold=False), "one constant"),
        (only(neutral=False), "x · 1 is x"),
        (only(zero=True), "x · 0 is not 0"),
        (only(follow=False), "is the name of no line"),
        (in_place, "must stay as it is"),
        (lambda lines, result: lines, "expected two results"),
        (with_line(("q", "sine", "x")), "five operations"),
        (with_line(1), "expected lines such as"),
        (with_line(("q", "constant")), "one number in a constant"),
        (with_line((["q"], "tanh", "x")), "expected a name at the start"),
    ],
}

RIGHT = [
    ("pipeline.who_did_it", (tuple(word.upper() for word in WHO),)),
    ("pipeline.who_did_it", (swapped(5, "the back end"),)),
    ("pipeline.ten_readings", (READ | {"shape": [100, 200], "dtype": "float32"},)),
    ("pipeline.ten_readings", (READ | {"shape": "[100,200]", "fused": "%fusion.13"},)),
    ("pipeline.ten_readings", (READ | {"dtype": np.float32, "space": "S(1)"},)),
    ("pipeline.ten_readings", (READ | {"shape": "bf16[100,200]"},)),
    ("pipeline.ten_readings", (READ | {"cycles": np.int64(38_448), "trips": 6.0},)),
    ("pipeline.stored_bytes", (bytes_of,)),
    ("pipeline.stored_bytes", (bytes_without_table,)),
    ("pipeline.optimise", (optimised,)),
    ("pipeline.optimise", (as_lists,)),
]
