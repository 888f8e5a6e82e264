"""The closed forms against SCALE-Sim 3, stored and, where it is installed, live."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from helpers.systolic_counts import Array, count, phases

DATA = Path(__file__).parent / "data"
STORED = json.loads((DATA / "scalesim" / "scalesim-3.0.0.json").read_text("utf-8"))
PYTHON = os.environ.get("SCALESIM_PYTHON")


def expected(product: dict) -> dict:
    """What SCALE-Sim reports, from our counts and what it does differently."""
    array = Array(product["rows"], product["cols"], product["dataflow"])
    lengths = (product["m"], product["k"], product["n"])
    ours, spent = count(*lengths, array), phases(*lengths, array)
    writes = ours.sum_writes
    # It numbers cycles from 0, and lets sums be written from where they are made, so
    # that nothing drains.
    cycles = spent.total - spent.drain - 1
    if array.dataflow == "os":
        # In this dataflow it adds a tile's rows and columns to its writes once more.
        tiles = -(-product["m"] // array.rows) * -(-product["n"] // array.cols)
        writes += tiles * (array.rows + array.cols)
    reads = {"a_reads": ours.a_reads, "b_reads": ours.b_reads}
    return {"cycles": cycles, "stalls": 0, "writes": writes} | reads


def name(product: dict) -> str:
    keys = ("dataflow", "rows", "cols", "m", "k", "n")
    return "-".join(str(product[key]) for key in keys)


@pytest.mark.parametrize("product", STORED, ids=name)
def test_counts_equal_scalesims(product):
    assert {key: product[key] for key in expected(product)} == expected(product)


def test_stored_products_are_many_and_most_do_not_fit():
    assert len(STORED) >= 60 and {p["dataflow"] for p in STORED} == {"ws", "os", "is"}
    known = [p["cycles"] for p in STORED if p["rows"] == 32 and p["dataflow"] == "ws"]
    assert known[-3:] == [221, 887, 1163]
    ragged = [p for p in STORED if p["m"] % p["rows"] and p["n"] % p["cols"]]
    assert len(ragged) > 40


@pytest.mark.skipif(PYTHON is None, reason="SCALESIM_PYTHON names no Python with it")
def test_scalesim_still_says_what_is_stored():
    script = DATA / "make_scalesim.py"
    run = subprocess.run([PYTHON, script, "-"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-400:]
    live = json.loads(run.stdout.splitlines()[-1])
    for product in live:
        assert product.pop("seconds") > 0
    assert live == STORED
