"""The set-up cell: what it installs, what it leaves alone, and how it fails."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import addresses
import pytest
from pins import pins
from setup_cell import render

ROOT = Path(__file__).resolve().parent.parent
BOOK = addresses.Addresses(
    repository="https://github.com/owner/book",
    branch="main",
    ref="v1",
    site="https://book.example/",
)


@pytest.fixture
def cell() -> str:
    return render(BOOK, pins(ROOT))


@pytest.fixture
def machine(monkeypatch):
    """A machine without the helpers; it records what pip is asked to install."""
    asked: list[list[str]] = []
    answer = SimpleNamespace(returncode=0, stderr="")

    def pip(command: list[str], **_: object) -> SimpleNamespace:
        assert command[:4] == [sys.executable, "-m", "pip", "install"]
        asked.append([word for word in command[4:] if not word.startswith("--disable")])
        return answer

    env = SimpleNamespace(prepare=lambda: None, describe=lambda: "a description")
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name: name != "helpers" and find(name) or None,
    )
    monkeypatch.setattr(subprocess, "run", pip)
    monkeypatch.setitem(sys.modules, "helpers", SimpleNamespace(env=env))
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    monkeypatch.delenv("BOOK_HELPERS", raising=False)
    return SimpleNamespace(asked=asked, answer=answer)


def run(cell: str) -> None:
    exec(compile(cell, "set-up", "exec"), {})


def test_missing_helpers_are_installed_and_numpy_is_held(cell, machine, capsys):
    run(cell)
    packages, helpers = machine.asked
    assert packages[:2] == ["jax==0.10.2", "jaxlib==0.10.2"]
    assert packages[2].startswith("libtpu==0.0.42.1; sys_platform")
    assert f"numpy=={version('numpy')}" in packages
    assert helpers == ["--no-deps", "https://github.com/owner/book/archive/v1.zip"]
    assert capsys.readouterr().out == "a description\n"


def test_what_is_installed_wins_over_the_pin(machine):
    pinned = pins(ROOT) | {"numpy": "numpy==1.0", "scipy": "scipy-not-here==1.0"}
    run(render(BOOK, pinned))
    assert f"numpy=={version('numpy')}" in machine.asked[0]
    assert "numpy==1.0" not in machine.asked[0]


def test_package_that_is_missing_gets_the_pin(cell, machine):
    run(cell.replace("'scipy': '", "'no-such-package': '"))
    assert any(word.startswith("no-such-package==") for word in machine.asked[0])


def test_environment_names_other_helpers(cell, machine, monkeypatch):
    monkeypatch.setenv("BOOK_HELPERS", "/wheels/book.whl")
    run(cell)
    assert machine.asked[1] == ["--no-deps", "/wheels/book.whl"]


def test_helpers_that_are_there_are_kept(cell, machine, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    run(cell)
    assert machine.asked == []


def test_other_jax_that_is_imported_already_is_named(cell, machine, monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(__version__="0.7.2"))
    with pytest.raises(RuntimeError, match="JAX 0.7.2 is already .* needs 0.10.2: res"):
        run(cell)
    assert machine.asked == []


def test_failure_is_one_sentence_with_pips_reason(cell, machine):
    machine.answer.returncode = 1
    machine.answer.stderr = "noise\nERROR: No matching distribution found\n"
    with pytest.raises(RuntimeError) as raised:
        run(cell)
    assert str(raised.value) == (
        "Cannot install JAX 0.10.2, which needs an internet connection (a switch in "
        "Kaggle's settings) and a published book; pip says: "
        "ERROR: No matching distribution found"
    )


def test_cell_is_short_and_shows_no_code_in_colab(cell):
    assert cell.startswith("# @title ")
    assert len(cell.splitlines()) <= 66
