"""One step of training: what it keeps, and what it compiles to on a whole slice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.layout import Layout
from helpers.model_config import ModelConfig
from helpers.training_step import (
    abstract_state,
    adamw,
    start,
    train_step,
)

TINY = ModelConfig(
    vocabulary=32,
    width=16,
    layers=2,
    heads=2,
    key_value_heads=1,
    head_size=8,
    feed_forward=32,
)
HERE = Path(__file__).parent


def test_a_step_learns_and_keeps_every_type_and_shape():
    optimizer = adamw(1e-2, 1, 50)
    how = {"config": TINY, "optimizer": optimizer, "dtype": "float32"}
    step = jax.jit(partial(train_step, **how))
    first = state = jax.jit(partial(start, TINY, optimizer))(jax.random.key(0))
    tokens = jnp.asarray(np.tile(np.arange(17) % 5, (4, 1)), jnp.int32)
    losses = []
    for _ in range(12):
        state, seen = step(state, tokens)
        losses.append(float(seen["loss"]))
    assert losses[-1] < 0.5 * losses[0]
    assert int(state.step) == 12

    def kind(leaf):
        return leaf.shape, leaf.dtype

    promised = abstract_state(TINY, optimizer)
    assert jax.tree.map(kind, state) == jax.tree.map(kind, promised)
    assert jax.tree.structure(first) == jax.tree.structure(promised)


def test_moments_are_cut_like_their_parameters():
    mesh = jax.sharding.Mesh(np.array(jax.devices("cpu")[:1]), ("data",))
    layout = Layout(mesh, {"embed": "data", "batch": "data"})
    state = abstract_state(TINY, adamw(), layout)
    leaves = jax.tree.leaves(state)
    count = len(jax.tree.leaves(state.parameters))
    assert len(leaves) == 3 * count + 3, "parameters, two moments, three counters"
    spec = state.parameters["layers"]["up"]["weight"].sharding.spec
    assert tuple(spec) == (None, "data", None)
    specs = [str(leaf.sharding.spec) for leaf in leaves]
    assert specs.count(str(spec)) % 3 == 0


def test_a_layout_that_does_not_divide_is_refused():
    from helpers.topology import slice_mesh

    pytest.importorskip("libtpu")
    layout = Layout(slice_mesh("v5e:4x8", {"data": 32}), {"embed": "data"})
    with pytest.raises(ValueError, match="divisible|divide"):
        abstract_state(TINY, adamw(), layout)


def test_a_warm_up_longer_than_the_training_is_refused():
    with pytest.raises(ValueError, match="expected warm_up below 10 steps, got 10"):
        adamw(warm_up=10, steps=10)


CHILD = """
import json, resource, sys, time
from functools import partial
from helpers import env
env.prepare()
import jax
from helpers.aot import compile_for
from helpers.layout import Layout
from helpers.published_models import config_from
from helpers.topology import slice_mesh
from helpers.training_step import abstract_state, abstract_tokens, adamw, train_step

config = config_from(json.loads(sys.argv[1]))
mesh = slice_mesh("v5e:16x16", {"data": 256})
layout = Layout(mesh, {"batch": "data", "embed": "data"})
optimizer = adamw()
how = {"config": config, "optimizer": optimizer, "layout": layout, "remat": "full"}
step = jax.jit(partial(train_step, **how), donate_argnums=0)
state = abstract_state(config, optimizer, layout)
began = time.perf_counter()
program = compile_for(step, state, abstract_tokens(256, 2048, layout), mesh=mesh)
seconds = time.perf_counter() - began
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({
    "seconds": seconds,
    "cpu_seconds": time.process_time(),
    "peak_bytes": peak,
    "flops": program.flops,
    "total_bytes": program.memory.total_bytes,
    "arguments_bytes": program.memory.arguments_bytes,
    "devices": program.device_count,
}))
"""


def compiled_step(fields):
    """Compiles a model's step for 256 chips, in a process of its own, kept nowhere."""
    child = subprocess.run(
        [sys.executable, "-c", CHILD, json.dumps(fields)],
        env=os.environ | {"BOOK_CACHE": ""},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert child.returncode == 0, child.stderr[-2000:]
    return json.loads(child.stdout.splitlines()[-1])


if __name__ == "__main__":
    cases = json.loads((HERE / "data" / "model_configs.json").read_text())
    fields = cases["Llama 3.1 8B"]["fields"]
    fields["num_hidden_layers"] = int((sys.argv[1:] or [32])[0])
    print(compiled_step(fields))
