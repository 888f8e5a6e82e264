"""The program that the chapter's readers read is the one that the compiler makes."""

from __future__ import annotations

from importlib import metadata

import pytest

from helpers import env

env.prepare()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax.sharding import NamedSharding, PartitionSpec  # noqa: E402

from helpers import hlo  # noqa: E402
from helpers.aot import abstract, compile_for, slice_mesh  # noqa: E402
from helpers.hlo_example import STEP  # noqa: E402


def step(w, x):
    def body(x, w):
        return jnp.tanh(x @ w), None

    with jax.named_scope("layers"):
        y, _ = jax.lax.scan(body, x, w)
    with jax.named_scope("loss"):
        return jnp.mean(y.astype(jnp.float32) ** 2, axis=0)


@pytest.mark.skipif(not env.has("libtpu"), reason="libtpu is missing")
def test_the_stored_step_is_what_its_compiler_makes():
    if metadata.version("libtpu") != "0.0.42.1":
        pytest.skip("stored for libtpu 0.0.42.1")
    mesh = slice_mesh("v5e:2x2", {"data": 4})
    w = abstract((6, 200, 200), "bfloat16", NamedSharding(mesh, PartitionSpec()))
    cut = NamedSharding(mesh, PartitionSpec("data"))
    x = abstract((400, 200), "bfloat16", cut)
    made = hlo.instructions(compile_for(step, w, x, mesh=mesh).hlo_text)
    kept = hlo.instructions(STEP)
    assert [found.text for found in kept] == [found.text for found in made]
    for ours, theirs in zip(kept, made, strict=True):
        assert ours.estimated_cycles == theirs.estimated_cycles
        assert ours.op_name == theirs.op_name
