"""The transformer against other people's code, and against what it promises."""

from __future__ import annotations

import json
from functools import cache, partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hf_weights import ARCHITECTURES, golden

from helpers import model
from helpers.model_config import ModelConfig
from helpers.model_parameters import Parameter, init, parameter_count, parameter_table
from helpers.published_models import config_from

TINY = ModelConfig(
    vocabulary=50,
    width=16,
    layers=3,
    heads=4,
    key_value_heads=2,
    head_size=8,
    feed_forward=24,
)
SPARSE = ModelConfig(**{**vars(TINY), "experts": 4, "experts_per_token": 2})
TOKENS = np.random.default_rng(0).integers(0, 50, (2, 13))


@cache
def drawn(config):
    """Parameters as ``init`` scales them, from NumPy: its compilation takes seconds."""
    random = np.random.default_rng(0)

    def draw(leaf):
        scale = 0.1 if leaf.scale is None else leaf.scale
        wanted = random.normal(leaf.scale is None, scale, leaf.shape)
        return jnp.asarray(wanted, jnp.float32)

    table = parameter_table(config)
    return jax.tree.map(draw, table, is_leaf=lambda leaf: isinstance(leaf, Parameter))


def run(config, tokens=TOKENS, **how):
    """Logits, compiled: a model run operation by operation takes seconds."""
    return jax.jit(partial(model.apply, config=config, **how))(drawn(config), tokens)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_logits_equal_those_of_hugging_face(architecture):
    config, parameters, arrays = golden(architecture)
    shapes = jax.tree.map(
        lambda leaf: leaf.shape,
        parameter_table(config),
        is_leaf=lambda leaf: isinstance(leaf, Parameter),
    )
    assert shapes == jax.tree.map(np.shape, parameters)
    how = {"config": config, "dtype": "float32", "expert_room": None}
    logits = jax.jit(partial(model.apply, **how))(parameters, arrays["tokens"])
    spread = np.abs(arrays["logits"]).max()
    assert np.abs(logits - arrays["logits"]).max() < 3e-5 * spread


def test_all_architectures_have_a_golden_model():
    from helpers.published_models import ARCHITECTURES as named

    assert sorted(named) == ARCHITECTURES


CONFIGS = json.loads((Path(__file__).parent / "data/model_configs.json").read_text())


@pytest.mark.parametrize("name", CONFIGS)
def test_parameters_equal_the_published_count(name):
    case = CONFIGS[name]
    assert parameter_count(config_from(case["fields"])) == case["parameters"]


def test_active_parameters_leave_out_the_experts_not_taken():
    mixtral = config_from(CONFIGS["Mixtral 8x7B v0.1"]["fields"])
    # facts: 12.88 thousand million of 46.7; the paper rounds to 13.
    assert parameter_count(mixtral, active=True) == 12_879_925_248
    assert parameter_count(TINY, active=True) == parameter_count(TINY)


def test_init_has_the_shapes_of_the_table_and_is_reproducible():
    make = jax.jit(partial(init, SPARSE))
    first, again, other = (make(jax.random.key(seed)) for seed in (0, 0, 1))
    assert jax.tree.map(jnp.shape, first) == jax.tree.map(jnp.shape, drawn(SPARSE))
    assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), first, again))
    assert not (first["embedding"] == other["embedding"]).any()
    assert float(first["layers"]["query"]["weight"].std()) == pytest.approx(
        SPARSE.width**-0.5, rel=0.05
    )
    assert (first["final_norm"]["weight"] == 1).all()


def test_a_token_is_never_told_what_comes_after_it():
    later = TOKENS.copy()
    later[:, 7:] = (later[:, 7:] + 1) % 50
    first, second = run(TINY), run(TINY, later)
    assert (first[:, :7] == second[:, :7]).all()
    assert not (first[:, 7:] == second[:, 7:]).any()


def test_loss_of_logits_that_know_nothing_is_the_log_of_the_vocabulary():
    blind = jnp.zeros_like(drawn(TINY)["unembedding"])
    parameters = drawn(TINY) | {"unembedding": blind}
    assert float(
        jax.jit(partial(model.loss, config=TINY))(parameters, TOKENS)
    ) == pytest.approx(np.log(50), rel=1e-6)


@pytest.mark.parametrize("config", [TINY, SPARSE], ids=["dense", "experts"])
def test_what_a_layer_keeps_changes_no_gradient(config):
    def gradient(remat):
        how = {"config": config, "remat": remat, "dtype": "float32"}
        return jax.jit(jax.grad(partial(model.loss, **how)))(drawn(config), TOKENS)

    none, full, products = map(gradient, model.REMAT)
    for other in (full, products):
        gap = jax.tree.map(lambda a, b: float(jnp.abs(a - b).max()), none, other)
        assert max(jax.tree.leaves(gap)) < 1e-6


def test_an_expert_without_room_leaves_the_token_as_it_was():
    roomy, wide, tight = (
        run(SPARSE, expert_room=room, dtype="float32") for room in (None, 2.0, 0.25)
    )
    assert np.abs(roomy - wide).max() < 1e-5, "two fair shares of four are all"
    assert np.abs(roomy - tight).max() > 1e-3


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"remat": "some"}, "expected remat among none, full, products, got 'some'"),
    ],
)
def test_apply_refuses(how, words):
    with pytest.raises(ValueError, match=words):
        run(TINY, **how)


def test_apply_refuses_tokens_of_another_rank():
    with pytest.raises(ValueError, match=r"expected tokens of shape \[B, T\], got"):
        run(TINY, TOKENS[0])


def test_learned_positions_end():
    config = ModelConfig(**{**vars(TINY), "positions": 8})
    with pytest.raises(ValueError, match="expected at most 8 tokens, got 13"):
        run(config)
