"""Passes read from dumps: real compilers here, and file names that mislead."""

from __future__ import annotations

import tempfile

import pytest

from helpers import env

env.prepare()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

from helpers import passes  # noqa: E402
from helpers.aot import Untraceable, abstract, compile_for  # noqa: E402

needs_libtpu = pytest.mark.skipif(not env.has("libtpu"), reason="libtpu is missing")


def twice(x, y):
    return jnp.tanh(x @ y.T) + jnp.tanh(x @ y.T) / 2.0


ARGUMENTS = (abstract((128, 256)), abstract((512, 256)))


def module(*lines: str) -> str:
    body = "\n".join(f"  {line}" for line in lines)
    return f"HloModule m\n\nENTRY %e (p: f32[8]) -> f32[8] {{\n{body}\n}}\n"


PARAMETER = "%p = f32[8]{0} parameter(0)"
A = module(PARAMETER, "%n = f32[8]{0} negate(%p)", "ROOT %r = f32[8]{0} negate(%n)")
B = module(PARAMETER, "ROOT %r = f32[8]{0} copy(%p)")
C = module("ROOT %p = f32[8]{0} parameter(0)")


def files(*parts: tuple[str, str]) -> dict[str, str]:
    found = {"module_0003.jit_f.cl_1.before_optimizations.txt": A}
    for number, (name, text) in enumerate(parts):
        found[f"module_0003.jit_f.cl_1.{number:04}.{name}.txt"] = text
    return found


def names(texts: dict[str, str], final: str) -> list[tuple[str, str]]:
    snapshots = passes._grouped(texts, final)
    return [(pipeline, name) for pipeline, name, _ in snapshots[1:]]


def test_a_change_belongs_to_the_pass_that_signs_it():
    given = files(
        ("inner.after_pipeline-start.before_dce", A),
        ("inner.after_algsimp.before_dce", B),
        ("outer.after_inner.before_cse", B),
        ("outer.after_dce.before_pipeline-end", C),
    )
    assert names(given, C) == [("inner", "algsimp"), ("outer", "dce")]


def test_parts_of_a_pass_are_the_pass():
    given = files(
        ("rewriter.before_tiling", B),
        ("rewriter.after_tiling", B),
        ("Layout.after_layout-assignment.before_pipeline-end", B),
    )
    assert names(given, B) == [("Layout", "layout-assignment")]


def test_a_change_between_pipelines_or_at_the_end_has_no_name():
    given = files(
        ("second.after_pipeline-start.before_dce", B),
        ("second.after_cse.before_dce", B),
    )
    assert names(given, C) == [("second", ""), ("", "")]


def test_modules_that_the_compiler_compiles_on_the_way_are_left_out():
    small = {"module_0001.jit_g.before_optimizations.txt": C}
    small["module_0001.jit_g.0000.p.after_dce.before_cse.txt"] = C
    given = small | files(("p.after_algsimp.before_dce", B))
    assert names(given, B) == [("p", "algsimp")]


def test_nothing_written_is_an_error_that_says_why():
    with pytest.raises(passes.PassesMissing, match="cache on disk"):
        passes._grouped({}, A)


def test_a_pass_counts_opcodes_and_shows_lines():
    first, second = passes._parsed([["", "", A], ["p", "x", B], ["q", "y", C]])
    assert (first.name, first.pipeline) == ("x", "p")
    assert (first.removed, first.added) == ({"negate": 2}, {"copy": 1})
    assert first.lines_added == ("ROOT %r = f32[8]{0} copy(%p)",)
    assert len(first.lines_removed) == 2
    assert second.removed == {"copy": 1} and second.before == first.after


def test_the_cpu_compiler_signs_what_it_does(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = passes.passes_for(twice, *ARGUMENTS, chip="cpu")
    by_name = {one.name: one for one in found}
    assert by_name["transpose-folding"].removed == {"transpose": 2}
    assert by_name["cse"].removed["tanh"] == 1
    text = jax.jit(twice).lower(*ARGUMENTS).compile().as_text()
    assert "is_scheduled=true" in text and found[-1].after.is_scheduled
    assert list(tmp_path.iterdir()) == [], "the dumps are gone"


@needs_libtpu
def test_the_passes_lead_from_what_jax_lowers_to_what_is_compiled(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("BOOK_CACHE", str(tmp_path))
    found = passes.passes_for(jax.jit(twice), *ARGUMENTS)
    assert [one.after for one in found[:-1]] == [one.before for one in found[1:]]
    program = compile_for(jax.jit(twice), *ARGUMENTS)
    compiled = passes._lines(program.hlo)
    assert passes._lines(found[-1].after) == compiled
    assert passes._opcodes(found[0].before)["dot"] == 2
    signed = [one.name for one in found]
    for name in ("transpose-folding", "cse", "algsimp", "layout-assignment"):
        assert name in signed
    monkeypatch.setattr(passes, "_snapshots", None)  # the second time from disk
    again = passes.passes_for(jax.jit(twice), *ARGUMENTS)
    assert [one.name for one in again] == signed


def test_values_are_refused_before_anything_is_compiled():
    def of_values(x):
        return x if x > 0 else -x

    with pytest.raises(jax.errors.ConcretizationTypeError):
        passes.passes_for(of_values, abstract(()), chip="cpu")


@needs_libtpu
def test_values_are_refused_for_a_tpu_in_the_words_of_compile_for():
    with pytest.raises(Untraceable):
        passes.passes_for(lambda x: x if x > 0 else -x, abstract(()))


@pytest.mark.parametrize("chip", ["CPU", "v9", None])
def test_an_unknown_chip_is_named_with_those_that_are_known(chip):
    with pytest.raises(ValueError, match=f"expected one of cpu, v2.*, got {chip!r}"):
        passes.passes_for(twice, *ARGUMENTS, chip=chip)
