"""Every check of every chapter refuses the wrong answers that learners give.

Each wrong answer is paired with words of the hint that must meet it, so that a check
that refuses for another reason fails here. Right answers are in the chapters: their
solutions are cells, and cells are run.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest

import helpers.exercises
from helpers.check import Wrong, registered

for found in pkgutil.iter_modules(helpers.exercises.__path__):
    importlib.import_module(f"helpers.exercises.{found.name}")


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
):
    step = state["count"] + 1 if count is None else count
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["mean"], gradients)
    square = jax.tree.map(
        lambda s, g: 0.999 * s + 0.001 * g**2, state["square"], gradients
    )

    def move(p, m, s):
        if bias:
            m, s = m / (1 - 0.9**step), s / (1 - 0.999**step)
        root = jnp.sqrt(s + 1e-8) if under else jnp.sqrt(s) + 1e-8
        return p - rate * m / root

    state = {"mean": mean, "square": square, "count": step}
    moved = jax.tree.map(move, params, mean, square)
    return (state, moved) if swap else (moved, state)


def adam_with(**changes) -> tuple[Callable, Callable]:
    return adam_init, lambda *arguments: adam_update(*arguments, **changes)


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
        (climbs, "subtracts rate times gradient"),
        (lambda state, gradients: state["params"], "expected a state like"),
        (lambda state: state, "your function raised TypeError"),
    ],
    "state.adam": [
        (adam_with(bias=False), "biased towards it"),
        (adam_with(under=True), "not under it"),
        (adam_with(count=1), "as if it were the first"),
        (adam_with(swap=True), "other order"),
        (adam_with(rate=0.01), "with the rate 0.001"),
        (adam_with(rate=-0.001), "uphill"),
        ((adam_init, adam_that_overwrites), "an argument was changed"),
        ((adam_init, adam_from_step_zero), "not finite"),
        ((adam_init, adam_for_one_array), "your function raised TypeError"),
        ((adam_init, lambda *arguments: arguments[2]), "must return a pair"),
    ],
    "state.purify": [
        (runs_the_module_itself, "the module itself changed"),
        (shares_the_inner_dictionary, "the dictionary inside the module changed"),
        (returns_the_old_state, "go on from the state that the first returned"),
        (ignores_the_state, "equal arguments gave different results"),
        (lambda module: vars(module), "must return a pair"),
        (lambda module: (dict(vars(module)), module), "your function raised"),
    ],
}
CASES = [
    pytest.param(name, answer, hint, id=f"{name}-{index}")
    for name, answers in WRONG.items()
    for index, (answer, hint) in enumerate(answers)
]


@pytest.mark.parametrize(("name", "answer", "hint"), CASES)
def test_exercise_refuses_a_wrong_answer_with_its_own_hint(name, answer, hint):
    answers = answer if isinstance(answer, tuple) else (answer,)
    with pytest.raises(Wrong) as refused:
        registered()[name].check(*answers)
    assert hint in str(refused.value)


def test_every_exercise_refuses_at_least_three_answers():
    assert set(WRONG) == set(registered())
    assert min(len(answers) for answers in WRONG.values()) >= 3


@pytest.mark.parametrize("name", sorted(WRONG))
def test_exercise_says_that_a_starter_was_not_attempted(name, capsys):
    answers = (..., ...) if name == "state.adam" else (...,)
    registered()[name].check(*answers)
    assert capsys.readouterr().out.startswith("Not attempted yet: ")


def test_pure_ones_takes_letters_in_any_collection(capsys):
    for answer in ("aceg", ["A", "c", "E", "g"], ("a", "c", "e", "g")):
        registered()["state.pure_ones"].check(answer)
    assert capsys.readouterr().out.count("Correct") == 3


def test_adam_accepts_a_right_answer_from_this_file(capsys):
    registered()["state.adam"].check(adam_init, adam_update)
    assert "Correct" in capsys.readouterr().out
