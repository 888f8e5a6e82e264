"""How nbval judges a notebook here: what it compares, forgives and skips."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parent.parent
CELLS = {
    # source: (stored output, tags, what nbval shall say)
    "print(1 + 1)": ("2\n", [], "passed"),
    "print(1 + 2)": ("2\n", [], "failed"),
    "print(object())": ("<object object at 0x7f0000000000>\n", [], "passed"),
    "print('1.5 ms measured')": ("2,1 s measured\n", [], "passed"),
    "print('1.5 ms, an estimate')": ("2.5 ms, an estimate\n", [], "failed"),
    "print(7)": ("not compared\n", ["nbval-ignore-output"], "passed"),
    "raise SystemError": ("", ["needs-no_such_package"], "skipped"),
    "print(5)": ("5\n", ["needs-json"], "passed"),
}


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory) -> dict[str, str]:
    """Runs nbval once over all cells, as `make test` does."""
    path = tmp_path_factory.mktemp("nbval") / "cells.ipynb"
    cells = []
    for count, (source, (text, tags, _)) in enumerate(CELLS.items(), 1):
        outputs = [nbformat.v4.new_output("stream", text=text)] if text else []
        cells.append(
            nbformat.v4.new_code_cell(
                source, execution_count=count, outputs=outputs, metadata={"tags": tags}
            )
        )
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    options = ["--nbval", "--nbval-current-env", "--nbval-sanitize-with"]
    plugins = ["-p", "tests.nbval_plugin", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", *plugins, *options, "tests/nbval.cfg"),
            *("-rA", "--color=no", "--rootdir", ROOT, path),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    found = {"report": done.stdout}
    for number, source in enumerate(CELLS):
        for verdict in ("PASSED", "FAILED"):
            if any(
                line.startswith(verdict)
                and line.partition(" - ")[0].endswith(f"Cell {number}")
                for line in done.stdout.splitlines()
            ):
                found[source] = verdict.lower()
    return found


@pytest.mark.parametrize("source", [s for s in CELLS if CELLS[s][2] != "skipped"])
def test_cell_is(verdicts, source):
    assert verdicts[source] == CELLS[source][2]


def test_cell_whose_package_is_missing_is_skipped_and_says_so(verdicts):
    assert "raise SystemError" not in verdicts
    reason = "the cell needs no_such_package, which is not installed"
    assert "SKIPPED [1] " in verdicts["report"] and reason in verdicts["report"]
