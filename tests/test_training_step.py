"""One step of training: what it keeps, and what it compiles to on a whole slice."""

from __future__ import annotations

from functools import partial

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
