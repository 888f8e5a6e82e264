"""Bundles from a child process: real ones, a limit in time, and what a failure says."""

from __future__ import annotations

import pytest

from helpers import env

env.prepare()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

from helpers import dumps  # noqa: E402
from helpers.aot import Untraceable, abstract, compile_for  # noqa: E402

needs_libtpu = pytest.mark.skipif(not env.has("libtpu"), reason="libtpu is missing")


def noisy_step(key, state, x):
    noise = jax.random.bits(key, state["w"].shape).astype(jnp.float32)
    return {"w": state["w"] + x @ x + noise}


@needs_libtpu
def test_schedules_are_those_of_the_compiled_pieces(tmp_path, monkeypatch):
    monkeypatch.setenv("BOOK_CACHE", str(tmp_path))
    step = jax.jit(noisy_step, donate_argnums=1)
    x = abstract((256, 256))
    arguments = jax.random.key(0), {"w": x}, x
    for turn in range(2):
        found = dumps.schedules_for(step, *arguments)
        if turn == 0:
            monkeypatch.setattr(dumps, "_write_dumps", None)
    program = compile_for(step, *arguments)
    entry = {instruction.name for instruction in program.hlo.entry.instructions}
    assert "TLP" in found and entry & set(found)
    slots = {
        operation.slot
        for piece in found.values()
        for bundle in piece.bundles
        for operation in bundle.operations
    }
    assert {"MXU", "VALU", "VLOAD", "VSTORE"} <= slots


@needs_libtpu
def test_a_time_limit_ends_the_process_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("BOOK_CACHE", "")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(dumps.DumpFailed, match="the dumps within 0.01 s"):
        dumps.schedules_for(lambda x: x + 1, abstract((8,)), limit_s=0.01)
    assert list(tmp_path.iterdir()) == []


@needs_libtpu
def test_a_failing_process_says_why(monkeypatch):
    monkeypatch.setenv("BOOK_CACHE", "")
    monkeypatch.setattr(dumps, "_CHILD", "raise SystemExit('no chip here')")
    with pytest.raises(dumps.DumpFailed, match="for dumps failed: no chip here"):
        dumps.schedules_for(lambda x: x + 1, abstract((8,)))


@needs_libtpu
def test_what_cannot_be_traced_is_refused_before_any_process():
    with pytest.raises(Untraceable, match="value of an argument"):
        dumps.schedules_for(lambda x: x if x > 0 else -x, abstract(()))
