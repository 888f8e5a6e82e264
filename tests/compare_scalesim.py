"""Times this book's systolic array against SCALE-Sim on the same products, in one run.

    SCALESIM_PYTHON=.venv-scalesim/bin/python .venv/bin/python tests/compare_scalesim.py

SCALE-Sim's seconds are those of its simulation alone, without start-up and reports.
Ours are of the closed form, and of the simulation cell by cell once compiled, with its
inputs prepared and its result checked; compiling is given apart.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np

from helpers.systolic import simulate
from helpers.systolic_counts import Array, add_counts, count

SCRIPT = Path(__file__).parent / "data" / "make_scalesim.py"


def seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """The median of several runs."""
    taken = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begin)
    return sorted(taken)[repeats // 2]


def layer(array: Array) -> object:
    """A transformer layer's products: 8 x 2048 tokens, D 4096, F 16384, 32 heads."""
    tokens, width, inner, heads, length = 16_384, 4096, 16_384, 32, 2048
    products = [(tokens, width, width)] * 4
    products += [(tokens, width, inner), (tokens, inner, width)]
    scores = count(length, width // heads, length, array)
    values = count(length, length, width // heads, array)
    parts = [count(*product, array) for product in products]
    return add_counts(parts + [scores, values] * (8 * heads))


def main() -> None:
    jax.config.update("jax_default_device", jax.devices("cpu")[0])
    python = os.environ["SCALESIM_PYTHON"]
    text = subprocess.run([python, SCRIPT, "-"], capture_output=True, check=True).stdout
    products = json.loads(text.splitlines()[-1])
    chance = np.random.default_rng(0)
    work = []
    for p in products:
        shapes = ((p["m"], p["k"]), (p["k"], p["n"]))
        pair = [chance.integers(-128, 128, s, dtype=np.int8) for s in shapes]
        work.append((*pair, Array(p["rows"], p["cols"], p["dataflow"])))

    def cell_by_cell() -> None:
        for a, b, array in work:
            run = simulate(a, b, array)
            assert (run.product == a.astype(np.int32) @ b.astype(np.int32)).all()

    def closed_form() -> None:
        for a, b, array in work:
            count(*a.shape, b.shape[1], array)

    begin = time.perf_counter()
    cell_by_cell()
    compiling = time.perf_counter() - begin
    theirs = sum(p["seconds"] for p in products)
    formula, cells = seconds(closed_form), seconds(cell_by_cell)
    print(f"{len(products)} products: SCALE-Sim {theirs:.3f} s")
    print(f"closed form {formula * 1e3:.3f} ms, {theirs / formula:,.0f} times as fast")
    print(f"cell by cell {cells:.3f} s, {theirs / cells:.1f} times as fast")
    print(f"  and {compiling:.1f} s the first time, compiling included")
    a, b = (
        chance.integers(-128, 128, s, dtype=np.int8) for s in ((1024, 256), (256,) * 2)
    )
    large = Array(256, 256)
    simulate(a, b, large)
    tile = seconds(lambda: simulate(a, b, large))
    print(f"256x256, M=1024 cell by cell: {tile:.3f} s")
    print(f"transformer layer by formula: {seconds(lambda: layer(large)) * 1e3:.3f} ms")


if __name__ == "__main__":
    main()
