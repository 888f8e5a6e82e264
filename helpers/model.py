"""A decoder transformer as pure functions on a tree of parameters.

Shapes are written in the book's letters: B sequences, T tokens, V vocabulary, D width,
L layers, N query heads, K key and value heads, G = N/K, H head size, F the MLP's inner
width, E experts. Parameters are float32 and every product is of ``bfloat16``, unless
asked otherwise; norms, scores and the loss are float32.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from helpers.layout import Layout
from helpers.model_config import ModelConfig
from helpers.model_parameters import is_parameter, parameter_table

__all__ = [
    "REMAT",
    "apply",
    "loss",
]

# What a layer keeps for its backward pass: all, only its input, or its products too.
REMAT: dict[str, Callable | None] = {
    "none": None,
    "full": jax.checkpoint_policies.nothing_saveable,
    "products": jax.checkpoint_policies.dots_with_no_batch_dims_saveable,
}


def _norm(
    config: ModelConfig, weights: dict[str, jax.Array], x: jax.Array
) -> jax.Array:
    """RMSNorm or LayerNorm over the last axis, in float32."""
    wide = x.astype(jnp.float32)
    if config.layer_norm:
        wide = wide - wide.mean(-1, keepdims=True)
    square = jnp.square(wide).mean(-1, keepdims=True)
    wide = wide * jax.lax.rsqrt(square + config.norm_epsilon)
    weight = weights["weight"].astype(jnp.float32)
    wide = wide * (1 + weight if config.norm_offset else weight)
    return (wide + weights["bias"] if config.layer_norm else wide).astype(x.dtype)


def _linear(equation: str, x: jax.Array, weights: dict[str, jax.Array]) -> jax.Array:
    product = jnp.einsum(equation, x, weights["weight"].astype(x.dtype))
    return product + weights["bias"].astype(x.dtype) if "bias" in weights else product


def _cap(x: jax.Array, limit: float | None) -> jax.Array:
    return x if limit is None else limit * jnp.tanh(x / limit)


def _rotate(config: ModelConfig, x: jax.Array) -> jax.Array:
    """Turns each pair of a head's halves by an angle that grows with the position."""
    half = config.head_size // 2
    frequency = config.rotary_base ** -(jnp.arange(half) / half)
    angle = jnp.arange(x.shape[1])[:, None, None] * frequency
    left, right = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    turned = (left * cos - right * sin, right * cos + left * sin)
    return jnp.concatenate(turned, axis=-1).astype(x.dtype)


def _attention(config: ModelConfig, p: dict[str, Any], x: jax.Array) -> jax.Array:
    """Causal attention of K groups of G query heads: [B, T, D] to [B, T, D]."""
    query = _linear("btd,dnh->btnh", x, p["query"])
    key = _linear("btd,dkh->btkh", x, p["key"])
    value = _linear("btd,dkh->btkh", x, p["value"])
    if config.query_key_norm:
        query = _norm(config, p["query_norm"], query)
        key = _norm(config, p["key_norm"], key)
    if not config.positions:
        query, key = _rotate(config, query), _rotate(config, key)
    length, groups = x.shape[1], config.key_value_heads
    query = query.reshape(*query.shape[:2], groups, -1, config.head_size)
    scores = jnp.einsum(
        "btkgh,bskh->bkgts", query, key, preferred_element_type=jnp.float32
    )
    scale = config.score_scale or config.head_size**-0.5
    scores = _cap(scores * scale, config.score_cap)
    seen = jnp.arange(length)[:, None] >= jnp.arange(length)
    chances = jax.nn.softmax(jnp.where(seen, scores, -jnp.inf), axis=-1)
    mixed = jnp.einsum("bkgts,bskh->btkgh", chances.astype(x.dtype), value)
    mixed = mixed.reshape(*x.shape[:2], config.heads, config.head_size)
    return _linear("btnh,nhd->btd", mixed, p["output"])


def _mlp(config: ModelConfig, p: dict[str, Any], x: jax.Array) -> jax.Array:
    """The MLP of [B, T, D], or of each expert's own rows [B, E, C, D]."""
    rows, back = "btd,df->btf", "btf,fd->btd"
    if config.experts:
        rows, back = "becd,edf->becf", "becf,efd->becd"
    bend = {"silu": jax.nn.silu, "gelu": jax.nn.gelu}[config.activation]
    inner = _linear(rows, x, p["up"])
    if config.gated:
        inner = bend(_linear(rows, x, p["gate"])) * inner
    else:
        inner = bend(inner)
    return _linear(back, inner, p["down"])


def _experts(
    config: ModelConfig, p: dict[str, Any], x: jax.Array, room: float | None
) -> jax.Array:
    """Sends each token of a sequence to its experts, and adds what they return.

    Every expert has C places in each sequence; who comes when they are taken is not
    served by that expert.
    """
    batch, length, width = x.shape
    count, chosen = config.experts, config.experts_per_token
    places = length if room is None else math.ceil(length * chosen / count * room)
    scores = jnp.einsum("btd,de->bte", x, p["router"]["weight"].astype(x.dtype)).astype(
        jnp.float32
    )
    weights, experts = jax.lax.top_k(jax.nn.softmax(scores), chosen)
    if config.rescale_weights:
        weights = weights / weights.sum(-1, keepdims=True)

    experts = experts.reshape(batch, length * chosen)
    mine = jax.nn.one_hot(experts, count, dtype=jnp.int32)
    earlier = ((jnp.cumsum(mine, axis=1) - 1) * mine).sum(-1)
    nowhere = count * places
    place = jnp.where(earlier < places, experts * places + earlier, nowhere)
    token = jnp.arange(length * chosen) // chosen

    def enter(x: jax.Array, place: jax.Array) -> jax.Array:
        """[T, D] to [E C, D]: the token in each place, zeros where none is."""
        who = jnp.full(nowhere, length).at[place].set(token, mode="drop")
        return x.at[who].get(mode="fill", fill_value=0)

    entered = jax.vmap(enter)(x, place).reshape(batch, count, places, width)
    left = _mlp(config, p, entered).reshape(batch, nowhere, width)
    found = jax.vmap(lambda rows, place: rows.at[place].get(mode="fill", fill_value=0))(
        left, place
    ).reshape(batch, length, chosen, width)
    return jnp.einsum("btcd,btc->btd", found, weights.astype(x.dtype))


def _layer(
    config: ModelConfig, room: float | None, x: jax.Array, p: dict[str, Any]
) -> jax.Array:
    """Attention, then the MLP, each adding to what it was given: [B, T, D]."""
    mixed = _attention(config, p, _norm(config, p["attention_norm"], x))
    if config.output_norms:
        mixed = _norm(config, p["attention_output_norm"], mixed)
    x = x + mixed
    normed = _norm(config, p["mlp_norm"], x)
    if config.experts:
        changed = _experts(config, p, normed, room)
    else:
        changed = _mlp(config, p, normed)
    if config.output_norms:
        changed = _norm(config, p["mlp_output_norm"], changed)
    return x + changed


def apply(
    parameters: dict[str, Any],
    tokens: jax.Array,
    *,
    config: ModelConfig,
    dtype: Any = "bfloat16",
    remat: str = "none",
    layout: Layout | None = None,
    expert_room: float | None = 1.25,
) -> jax.Array:
    """Predicts each next token.

    Args:
        parameters: What ``init`` gives.
        tokens: Whole numbers below V, of shape [B, T].
        config: The model's shape.
        dtype: The type of activations and products.
        remat: A key of ``REMAT``: what each layer keeps for its backward pass.
        layout: How to cut activations over a mesh; None leaves it to the compiler.
        expert_room: Places of an expert in a sequence, in multiples of its fair share;
            None makes room for all.

    Returns:
        Logits, float32, of shape [B, T, V].

    Raises:
        ValueError: If ``remat`` is unknown, or T exceeds the learned positions.
    """
    if remat not in REMAT:
        raise ValueError(f"expected remat among {', '.join(REMAT)}, got {remat!r}")
    if tokens.ndim != 2:
        raise ValueError(f"expected tokens of shape [B, T], got {tokens.shape}")
    if config.positions and tokens.shape[1] > config.positions:
        raise ValueError(
            f"expected at most {config.positions} tokens, got {tokens.shape[1]}"
        )

    table = parameter_table(config)

    def place(x: jax.Array) -> jax.Array:
        if layout is None:
            return x
        cut = layout.sharding("batch", "sequence", "features")
        return jax.lax.with_sharding_constraint(x, cut)

    def ready(entry: Any, arrays: Any) -> Any:
        if layout is None:
            return arrays
        each = functools.partial(layout.ready, dtype=dtype)
        return jax.tree.map(each, entry, arrays, is_leaf=is_parameter)

    def layer(x: jax.Array, p: dict[str, Any]) -> tuple[jax.Array, None]:
        return place(_layer(config, expert_room, x, ready(table["layers"], p))), None

    if remat != "none":
        layer = jax.checkpoint(layer, policy=REMAT[remat], prevent_cse=False)
    x = parameters["embedding"][tokens].astype(dtype)
    if config.scale_embedding:
        x = x * jnp.asarray(config.width**0.5, dtype)
    if config.positions:
        x = x + parameters["positions"].astype(dtype)[: tokens.shape[1]]
    x, _ = jax.lax.scan(layer, place(x), parameters["layers"])
    x = _norm(config, parameters["final_norm"], x)
    name = "embedding" if config.tied else "unembedding"
    last = ready(table[name], parameters[name])
    last = last.T if config.tied else last
    logits = jnp.einsum(
        "btd,dv->btv", x, last.astype(dtype), preferred_element_type=jnp.float32
    )
    return _cap(logits, config.logit_cap)


def loss(parameters: dict[str, Any], tokens: jax.Array, **how: Any) -> jax.Array:
    """The mean cross-entropy of each token given those before it.

    Args:
        parameters: What ``init`` gives.
        tokens: Whole numbers below V, of shape [B, T + 1].
        **how: As for ``apply``.

    Returns:
        Nats per token, a float32 scalar.
    """
    logits = apply(parameters, tokens[:, :-1], **how)
    right = jnp.take_along_axis(logits, tokens[:, 1:, None], axis=-1)[..., 0]
    return (jax.nn.logsumexp(logits, axis=-1) - right).mean()
