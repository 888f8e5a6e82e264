"""The parameters of a decoder transformer: one table decides every shape.

Letters: V vocabulary, D width, L layers, N query heads, K key and value heads, H head
size, F the MLP's inner width, E experts.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from helpers.model_config import ModelConfig

__all__ = ["Parameter", "init", "is_parameter", "parameter_count", "parameter_table"]


@dataclass(frozen=True)
class Parameter:
    """One array of the model, before it exists.

    Attributes:
        shape: Its shape; of a layer's array, with L in front.
        axes: A name for each of its axes, by which a layout cuts it.
        scale: The standard deviation it starts with; ``None`` for ones, 0 for zeros.
    """

    shape: tuple[int, ...]
    axes: tuple[str, ...]
    scale: float | None


def is_parameter(leaf: Any) -> bool:
    """Tells an array of the table from the tree around it, for ``is_leaf``.

    Args:
        leaf: A node of the tree.

    Returns:
        Whether it is a ``Parameter``.
    """
    return isinstance(leaf, Parameter)


def parameter_table(config: ModelConfig) -> dict[str, Any]:
    """Lists every array of the model: the one place where shapes are decided.

    Args:
        config: The model's shape.

    Returns:
        A tree of ``Parameter``, of the structure that ``init`` gives.
    """
    c = config
    narrow = c.width**-0.5
    heads = c.heads * c.head_size

    def norm(*shape: int, axes: tuple[str, ...]) -> dict[str, Parameter]:
        start = 0.0 if c.norm_offset else None
        bias = {"bias": Parameter(shape, axes, 0.0)} if c.layer_norm else {}
        return {"weight": Parameter(shape, axes, start)} | bias

    def linear(
        shape: tuple[int, ...],
        axes: tuple[str, ...],
        scale: float,
        out: int,
        bias: bool,
    ) -> dict[str, Parameter]:
        """A projection whose last ``out`` axes are its result's."""
        weight = {"weight": Parameter(shape, axes, scale)}
        lead = 1 + (axes[1] == "experts")
        kept = (*shape[:lead], *shape[-out:]), (*axes[:lead], *axes[-out:])
        return weight | ({"bias": Parameter(*kept, 0.0)} if bias else {})

    def project(count: int, name: str) -> dict[str, Parameter]:
        shape = (c.layers, c.width, count, c.head_size)
        axes = ("layers", "embed", name, "head")
        return linear(shape, axes, narrow, 2, c.attention_bias or c.biases)

    experts = (c.experts,) if c.experts else ()
    named = ("experts",) if c.experts else ()
    up = (
        (c.layers, *experts, c.width, c.feed_forward),
        (*("layers", *named, "embed", "mlp"),),
    )
    down = (
        (c.layers, *experts, c.feed_forward, c.width),
        (*("layers", *named, "mlp", "embed"),),
    )
    wide = functools.partial(norm, c.layers, c.width, axes=("layers", "features"))
    small = functools.partial(norm, c.layers, c.head_size, axes=("layers", "head"))
    layer: dict[str, Any] = {
        "attention_norm": wide(),
        "query": project(c.heads, "heads"),
        "key": project(c.key_value_heads, "kv_heads"),
        "value": project(c.key_value_heads, "kv_heads"),
        "output": linear(
            (c.layers, c.heads, c.head_size, c.width),
            ("layers", "heads", "head", "embed"),
            heads**-0.5 / math.sqrt(2 * c.layers),
            1,
            c.biases,
        ),
        "mlp_norm": wide(),
        "up": linear(*up, narrow, 1, c.biases),
        "down": linear(
            *down, c.feed_forward**-0.5 / math.sqrt(2 * c.layers), 1, c.biases
        ),
    }
    if c.gated:
        layer["gate"] = linear(*up, narrow, 1, c.biases)
    if c.experts:
        shape, axes = (c.layers, c.width, c.experts), ("layers", "embed", "choice")
        layer["router"] = {"weight": Parameter(shape, axes, narrow)}
    if c.query_key_norm:
        layer |= {"query_norm": small(), "key_norm": small()}
    if c.output_norms:
        layer |= {"attention_output_norm": wide(), "mlp_output_norm": wide()}
    table: dict[str, Any] = {
        "embedding": Parameter((c.vocabulary, c.width), ("vocab", "embed"), narrow),
        "layers": layer,
        "final_norm": norm(c.width, axes=("features",)),
    }
    if c.positions:
        shape = (c.positions, c.width)
        table["positions"] = Parameter(shape, ("position", "embed"), narrow)
    if not c.tied:
        shape = (c.width, c.vocabulary)
        table["unembedding"] = Parameter(shape, ("embed", "vocab"), narrow)
    return table


def parameter_count(config: ModelConfig, active: bool = False) -> int:
    """Counts the parameters of a model.

    Args:
        config: The model's shape.
        active: Whether to count of the experts only those that a token takes.

    Returns:
        The number of elements of all arrays.
    """
    chosen = config.experts_per_token if active else config.experts
    total = 0
    for leaf in jax.tree.leaves(parameter_table(config), is_leaf=is_parameter):
        size = math.prod(leaf.shape)
        if "experts" in leaf.axes:
            size = size // config.experts * chosen
        total += size
    return total


def init(config: ModelConfig, key: jax.Array, dtype: Any = "float32") -> dict[str, Any]:
    """Makes the parameters, each from a key of its own.

    Args:
        config: The model's shape.
        key: A key of ``jax.random``.
        dtype: The type the parameters are kept in.

    Returns:
        A tree of arrays, the layers' stacked along a leading axis L.
    """
    leaves, tree = jax.tree.flatten(parameter_table(config), is_leaf=is_parameter)

    def draw(place: int, leaf: Parameter) -> jax.Array:
        if not leaf.scale:
            return jnp.full(leaf.shape, 1 if leaf.scale is None else 0, dtype)
        own = jax.random.fold_in(key, place)
        return leaf.scale * jax.random.normal(own, leaf.shape, dtype)

    return jax.tree.unflatten(tree, [draw(*each) for each in enumerate(leaves)])
