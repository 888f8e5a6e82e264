"""One training step as a pure function of a state, and that state before it exists.

Parameters and Adam's two moments are float32, gradients too; only activations and
products are narrow. The optimiser is Optax's.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.sharding import NamedSharding, PartitionSpec

from helpers import model
from helpers.layout import Layout
from helpers.lowering import abstract
from helpers.model_config import ModelConfig
from helpers.model_parameters import Parameter, init, is_parameter, parameter_table

__all__ = [
    "State",
    "abstract_state",
    "abstract_tokens",
    "adamw",
    "start",
    "train_step",
]


class State(NamedTuple):
    """What a step takes and gives back.

    Attributes:
        step: How many steps have been taken, an int32 scalar.
        parameters: The model's, a tree of arrays.
        moments: The optimiser's state.
    """

    step: jax.Array
    parameters: Any
    moments: Any


def adamw(
    peak: float = 3e-4, warm_up: int = 100, steps: int = 1000, clip: float = 1.0
) -> optax.GradientTransformation:
    """AdamW behind a limit on the gradient, its rate rising, then falling as a cosine.

    Args:
        peak: The highest learning rate.
        warm_up: Steps in which it rises from zero.
        steps: All steps, those of the warm-up included.
        clip: The largest norm of all gradients together.

    Returns:
        Optax's transformation.

    Raises:
        ValueError: If the warm-up is not shorter than the training.
    """
    if not 0 <= warm_up < steps:
        raise ValueError(f"expected warm_up below {steps} steps, got {warm_up}")
    rate = optax.warmup_cosine_decay_schedule(0.0, peak, warm_up, steps, peak / 10)
    return optax.chain(
        optax.clip_by_global_norm(clip),
        optax.adamw(rate, b1=0.9, b2=0.95, weight_decay=0.1),
    )


def start(
    config: ModelConfig, optimizer: optax.GradientTransformation, key: jax.Array
) -> State:
    """Makes the state before the first step.

    Args:
        config: The model's shape.
        optimizer: Such as ``adamw()``.
        key: A key of ``jax.random``.

    Returns:
        The state; under ``jax.jit`` with ``out_shardings`` it is born cut.
    """
    parameters = init(config, key)
    return State(jnp.zeros((), jnp.int32), parameters, optimizer.init(parameters))


def train_step(
    state: State,
    tokens: jax.Array,
    *,
    config: ModelConfig,
    optimizer: optax.GradientTransformation,
    **how: Any,
) -> tuple[State, dict[str, jax.Array]]:
    """Takes one step.

    Args:
        state: What ``start`` or the last step gave; donate it.
        tokens: Whole numbers below V, of shape [B, T + 1].
        config: The model's shape.
        optimizer: That of ``start``.
        **how: As for ``model.apply``.

    Returns:
        The next state, and ``loss`` (nats per token) with ``gradient_norm``.
    """
    loss = functools.partial(model.loss, config=config, **how)
    nats, gradients = jax.value_and_grad(loss)(state.parameters, tokens)
    updates, moments = optimizer.update(gradients, state.moments, state.parameters)
    parameters = optax.apply_updates(state.parameters, updates)
    seen = {"loss": nats, "gradient_norm": optax.tree.norm(gradients)}
    return State(state.step + 1, parameters, moments), seen


def abstract_state(
    config: ModelConfig,
    optimizer: optax.GradientTransformation,
    layout: Layout | None = None,
) -> State:
    """Shapes, types and places of a state that no memory here could hold.

    Args:
        config: The model's shape.
        optimizer: Such as ``adamw()``.
        layout: How parameters, and moments like them, are cut; None for one device.

    Returns:
        A state for ``compile_for``, or of shardings' carriers for ``out_shardings``.

    Raises:
        ValueError: If the layout does not divide an array.
    """
    whole = layout and NamedSharding(layout.mesh, PartitionSpec())

    def cut(leaf: Parameter) -> jax.ShapeDtypeStruct:
        place = layout and layout.sharding(*leaf.axes)
        return abstract(leaf.shape, "float32", place)

    def copied(leaf: Any) -> jax.ShapeDtypeStruct:
        return abstract(leaf.shape, leaf.dtype, whole)

    table = parameter_table(config)
    parameters = jax.tree.map(cut, table, is_leaf=is_parameter)
    moments = optax.tree.map_params(
        optimizer,
        lambda _, like: like,
        jax.eval_shape(optimizer.init, parameters),
        parameters,
        transform_non_params=copied,
    )
    return State(abstract((), "int32", whole), parameters, moments)


def abstract_tokens(
    batch: int, length: int, layout: Layout | None = None
) -> jax.ShapeDtypeStruct:
    """The tokens of a step, before they exist.

    Args:
        batch: B, sequences.
        length: T, predicted tokens of a sequence; one more is needed.
        layout: How they are cut.

    Returns:
        An argument for ``compile_for``, int32 [B, T + 1].
    """
    place = layout and layout.sharding("batch", None)
    return abstract((batch, length + 1), "int32", place)
