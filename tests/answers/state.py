"""Answers to the exercises of the chapter on state."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

# --- state.decayed_update ---------------------------------------------------------


def rate_of_the_step_before(state, gradients):
    rate = 0.5 / jnp.maximum(state["count"], 1)
    params = jax.tree.map(lambda p, g: p - rate * g, state["params"], gradients)
    return {"params": params, "count": state["count"] + 1}


def global_count() -> Callable:
    number = 0

    def decayed_update(state, gradients):
        nonlocal number
        number += 1
        params = jax.tree.map(
            lambda p, g: p - 0.5 / number * g, state["params"], gradients
        )
        return {"params": params, "count": number}

    return decayed_update


def overwrites_its_argument(state, gradients):
    state["count"] = state["count"] + 1
    state["params"] = jax.tree.map(
        lambda p, g: p - 0.5 / state["count"] * g, state["params"], gradients
    )
    return state


def forgets_the_count(state, gradients):
    return {
        "params": jax.tree.map(lambda p, g: p - 0.5 * g, state["params"], gradients),
        "count": state["count"],
    }


def for_one_array_only(state, gradients):
    count = state["count"] + 1
    params = state["params"] - 0.5 / count * gradients
    return {"params": params, "count": count}


def one_level_only(state, gradients):
    count = state["count"] + 1
    if not isinstance(gradients, dict):
        return {"params": state["params"] - 0.5 / count * gradients, "count": count}
    params = {k: state["params"][k] - 0.5 / count * gradients[k] for k in gradients}
    return {"params": params, "count": count}


def starts_from_nothing(state, gradients):
    count = state["count"] + 1
    rate = sum(jnp.where(n <= count, 0.5 / n, 0.0) for n in range(1, 9))
    return {"params": jax.tree.map(lambda g: -rate * g, gradients), "count": count}


def leaks() -> Callable:
    kept = []

    def decayed_update(state, gradients):
        kept.append(jax.tree.leaves(gradients)[0] + 1)
        return decays(state, gradients)

    return decayed_update


def decays(state, gradients):
    count = state["count"] + 1
    params = jax.tree.map(lambda p, g: p - 0.5 / count * g, state["params"], gradients)
    return {"count": count, "params": params}


def climbs(state, gradients):
    count = state["count"] + 1
    params = jax.tree.map(lambda p, g: p + 0.5 / count * g, state["params"], gradients)
    return {"params": params, "count": count}


# --- state.adam -------------------------------------------------------------------


def adam_init(params):
    zeros = jax.tree.map(jnp.zeros_like, params)
    return {"mean": zeros, "square": zeros, "count": jnp.array(0)}


def adam_update(
    state,
    gradients,
    params,
    *,
    bias=True,
    under=False,
    count=None,
    swap=False,
    rate=0.001,
    epsilon=1e-8,
):
    step = state["count"] + 1 if count is None else count
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["mean"], gradients)
    square = jax.tree.map(
        lambda s, g: 0.999 * s + 0.001 * g**2, state["square"], gradients
    )

    def move(p, m, s):
        if bias:
            m, s = m / (1 - 0.9**step), s / (1 - 0.999**step)
        root = jnp.sqrt(s + epsilon) if under else jnp.sqrt(s) + epsilon
        return p - rate * m / root

    state = {"mean": mean, "square": square, "count": step}
    moved = jax.tree.map(move, params, mean, square)
    return (state, moved) if swap else (moved, state)


def adam_with(**changes) -> tuple[Callable, Callable]:
    return adam_init, lambda *arguments: adam_update(*arguments, **changes)


def adam_for_these_names(state, gradients, params):
    pick = {"w": params["w"]}
    return adam_update(state, gradients, pick)


def adam_with_one_moment(state, gradients, params):
    moved, new = adam_update(state, gradients, params)
    leaves, form = jax.tree.flatten(new["square"])
    shared = [jnp.full_like(leaf, leaves[0].mean()) for leaf in leaves]
    return moved, {**new, "square": jax.tree.unflatten(form, shared)}


def adam_that_overwrites(state, gradients, params):
    moved, new = adam_update(state, gradients, params)
    state.update(new)
    return moved, state


def adam_for_one_array(state, gradients, params):
    return params - 0.001 * gradients, state


def adam_from_step_zero(state, gradients, params):
    moved, new = adam_update(state, gradients, params, count=state["count"])
    return moved, {**new, "count": state["count"] + 1}


# --- state.purify -----------------------------------------------------------------


def runs_the_module_itself(module):
    def apply(state, *arguments):
        vars(module).update(state)
        return module(*arguments), dict(vars(module))

    return dict(vars(module)), apply


def shares_the_inner_dictionary(module):
    def apply(state, *arguments):
        twin = object.__new__(type(module))
        vars(twin).update(state)
        return twin(*arguments), dict(vars(twin))

    return dict(vars(module)), apply


def ignores_the_state(module):
    import copy

    twin = copy.deepcopy(module)

    def apply(state, *arguments):
        return twin(*arguments), state

    return dict(vars(twin)), apply


def returns_the_old_state(module):
    import copy

    def apply(state, *arguments):
        twin = copy.deepcopy(module)
        vars(twin).update(jax.tree.map(lambda leaf: leaf, state))
        return twin(*arguments), state

    return jax.tree.map(lambda leaf: leaf, dict(vars(module))), apply


def overwrites_the_given_state(module):
    def apply(state, *arguments):
        twin = object.__new__(type(module))
        vars(twin).update(state)
        result = twin(*arguments)
        return result, jax.tree.map(lambda leaf: leaf, dict(vars(twin)))

    return jax.tree.map(lambda leaf: leaf, dict(vars(module))), apply


def forgets_an_attribute(module):
    import copy

    def apply(state, *arguments):
        twin = copy.deepcopy(module)
        twin.calls, twin.total = state["calls"], state["total"]
        return twin(*arguments), {"calls": twin.calls, "total": twin.total}

    return {"calls": module.calls, "total": module.total}, apply


def one_level_of_dictionaries(module):
    def rebuilt(attributes):
        return {
            name: dict(value) if isinstance(value, dict) else value
            for name, value in attributes.items()
        }

    def apply(state, *arguments):
        twin = object.__new__(type(module))
        vars(twin).update(rebuilt(state))
        return twin(*arguments), rebuilt(vars(twin))

    return rebuilt(vars(module)), apply


class Moments(NamedTuple):
    mean: object
    square: object
    powers: object


def adam_with_running_powers(state, gradients, params):
    """The same algorithm from another hand: a named tuple, and no count."""
    mean = jax.tree.map(lambda m, g: m + 0.1 * (g - m), state.mean, gradients)
    square = jax.tree.map(lambda s, g: s + 0.001 * (g * g - s), state.square, gradients)
    powers = state.powers * jnp.array([0.9, 0.999])
    moved = jax.tree.map(
        lambda p, m, s: (
            p - 0.001 * (m / (1 - powers[0])) / (jnp.sqrt(s / (1 - powers[1])) + 1e-8)
        ),
        params,
        mean,
        square,
    )
    return moved, Moments(mean, square, powers)


def purify_by_leaves(module):
    import copy

    leaves, form = jax.tree.flatten(dict(vars(module)))

    def apply(state, *arguments):
        twin = copy.copy(module)
        twin.__dict__ = jax.tree.unflatten(form, state)
        result = twin(*arguments)
        return result, jax.tree.leaves(dict(vars(twin)))

    return leaves, apply


WRONG = {
    "state.pure_ones": [
        ({"a", "b", "c", "e", "g"}, "b appends"),
        ({"a", "e", "g"}, "c is random, yet"),
        ({"a", "c", "d", "e", "g"}, "NumPy's generator"),
        ({"a", "c", "g"}, "one it has made itself"),
        ({"a", "c", "e", "f", "g"}, "caller passed in"),
        ({"a", "c", "e"}, "nobody else can see"),
        (3, "expected the letters"),
        ({"a", "z"}, "from a to g, got z"),
    ],
    "state.checkpoint_arrays": [
        (2, "2 are the parameters"),
        (4, "an m and a v"),
        (6, "something must know t"),
        (8, "one will do"),
        (9, "gradient is not state"),
        (6.5, "list what the next step reads"),
        ("7", "drop the quotes"),
    ],
    "state.decayed_update": [
        (rate_of_the_step_before, "after step 2 the parameters are off"),
        (for_one_array_only, "jax.tree.map works for any pytree"),
        (global_count(), "come from the state"),
        (overwrites_its_argument, "an argument was changed"),
        (forgets_the_count, "must count 1"),
        (one_level_only, "jax.tree.map works for any pytree"),
        (starts_from_nothing, "from the parameters in the state"),
        (leaks(), "Leaked trace"),
        (climbs, "subtracts rate times gradient"),
        (lambda state, gradients: state["params"], "expected a state like"),
        (lambda state: state, "your function raised TypeError"),
    ],
    "state.adam": [
        (adam_with(bias=False), "biased towards it"),
        (adam_with(under=True), "not under it"),
        (adam_with(count=1), "as if it were the first"),
        (adam_with(swap=True), "other order"),
        (adam_with(epsilon=0.0), "epsilon is 1e-8"),
        (adam_with(epsilon=1e-7), "after 20 steps are off"),
        ((adam_init, adam_for_these_names), "your function raised KeyError"),
        ((adam_init, adam_with_one_moment), "after 20 steps are off"),
        (adam_with(rate=0.01), "with the rate 0.001"),
        (adam_with(rate=-0.001), "uphill"),
        ((adam_init, adam_that_overwrites), "an argument was changed"),
        ((adam_init, adam_from_step_zero), "not finite"),
        ((adam_init, adam_for_one_array), "your function raised TypeError"),
        ((adam_init, lambda *arguments: arguments[2]), "must return a pair"),
    ],
    "state.purify": [
        (runs_the_module_itself, "the module itself changed"),
        (shares_the_inner_dictionary, "a dictionary inside the module changed"),
        (returns_the_old_state, "go on from the state that the first returned"),
        (overwrites_the_given_state, "an argument was changed"),
        (forgets_an_attribute, "with every attribute in it"),
        (one_level_of_dictionaries, "changed"),
        (ignores_the_state, "an argument was changed"),
        (lambda module: vars(module), "must return a pair"),
        (lambda module: (dict(vars(module)), module), "your function raised"),
    ],
}

RIGHT = [
    ("state.decayed_update", (decays,)),
    ("state.decayed_update", (jax.jit(decays, donate_argnums=0),)),
    ("state.adam", (adam_init, adam_update)),
    (
        "state.adam",
        (
            lambda params: Moments(
                *2 * [jax.tree.map(jnp.zeros_like, params)], jnp.ones(2)
            ),
            adam_with_running_powers,
        ),
    ),
    ("state.purify", (purify_by_leaves,)),
]
