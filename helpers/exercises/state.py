"""Checks of the chapter *What changes when state is an argument?*"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from helpers.check import Wrong, as_number, call, exercise, expect, expect_close

__all__ = ["adam", "checkpoint_arrays", "decayed_update", "pure_ones", "purify"]

_ABOUT_EACH = {
    "a": "a reads its argument alone and returns a new value: what else could change?",
    "b": "b appends to a list outside: call it twice and look at the list.",
    "c": "c is random, yet equal keys give equal results: the key is an argument.",
    "d": "d draws from NumPy's generator, which no argument mentions.",
    "e": "e changes a dictionary, but one it has made itself: its caller's is as it "
    "was.",
    "f": "f changes the dictionary that its caller passed in.",
    "g": "g writes into an array, but one that it created: nobody else can see it.",
}


@exercise(
    "The pure ones",
    shows="a function may change what it made itself; what counts is what goes in and "
    "what comes out",
)
def pure_ones(answer: Any) -> None:
    """Checks which of the functions a to g are pure.

    Args:
        answer: The letters, as a set, a list or one string.
    """
    expect(
        isinstance(answer, (set, frozenset, list, tuple, str)),
        f"expected the letters, such as {{'a', 'b'}}, got a {type(answer).__name__}",
    )
    letters = {str(letter).strip().lower() for letter in answer} - {"", ","}
    unknown = sorted(letters - set(_ABOUT_EACH))
    expect(not unknown, f"expected letters from a to g, got {', '.join(unknown)}")
    for letter, hint in _ABOUT_EACH.items():
        expect((letter in letters) == (letter in "aceg"), hint)


@exercise(
    "What a checkpoint holds",
    shows="Adam adds two arrays for each parameter, and one count: 2 + 2 + 2 + 1",
)
def checkpoint_arrays(answer: Any) -> None:
    """Checks how many arrays a checkpoint of the layer under Adam holds.

    Args:
        answer: The number of arrays, a scalar counted as one.
    """
    hints = {
        2: "2 are the parameters; the resumed run above had those, and parted.",
        3: "each of the two parameters has its own m and its own v.",
        4: "each parameter has an m and a v: that is two beside the parameter itself.",
        5: "count by parameter: weights and biases each need the same number.",
        6: "6 are the parameters, m and v; now look at 1 - beta**t: something must "
        "know t.",
        8: "PyTorch keeps 8, with a count of steps for each parameter; the two counts "
        "are always equal, so one will do.",
        9: "one count of steps serves both parameters, and the gradient is not state: "
        "the step makes it afresh.",
    }
    number = as_number(answer)
    expect(
        number == 7,
        hints.get(number, "list what the next step reads besides the data."),
    )


def _copied(leaf: Any) -> Any:
    return np.array(leaf) if hasattr(leaf, "dtype") else leaf


def _unchanged(before: Any, now: Any) -> bool:
    if not hasattr(now, "dtype"):
        return before is now or before == now
    if getattr(now, "is_deleted", bool)():
        return True  # donated, which the caller may do with what it made itself
    return np.array_equal(before, now, equal_nan=True)


def _call_purely(function: Any, *arguments: Any) -> Any:
    """Calls a learner's function and requires that its arguments are as before."""
    before = jax.tree.map(_copied, arguments)
    result = call(function, *arguments)
    pairs = zip(jax.tree.leaves(before), jax.tree.leaves(arguments), strict=False)
    expect(
        jax.tree.structure(before) == jax.tree.structure(arguments)
        and all(_unchanged(old, now) for old, now in pairs),
        "an argument was changed; build a new dictionary and return it",
    )
    return result


@exercise(
    "A schedule that thaws",
    shows="a count that is passed in and handed back is read afresh at every step",
)
def decayed_update(answer: Any) -> None:
    """Checks a gradient step whose rate is 0.5 over the number of the step.

    Args:
        answer: ``decayed_update(state, gradients)``; see the exercise.
    """
    one = {"params": jnp.zeros(2), "count": jnp.array(0)}
    new = _call_purely(answer, one, jnp.ones(2))
    expect(
        isinstance(new, dict) and set(new) == {"params", "count"},
        "expected a state like the one passed in, with 'params' and 'count'",
    )
    expect(int(new["count"]) == 1, "after one step the new state must count 1")
    gradients = {"layer": {"w": jnp.array([1.0, -2.0])}, "b": [jnp.array(3.0)]}
    params = jax.tree.map(lambda gradient: 2 * gradient, gradients)
    start = {"params": params, "count": jnp.array(0)}
    try:
        _call_purely(answer, jax.tree.map(jnp.copy, start), gradients)
    except Wrong as error:
        raise Wrong(
            f"it works for one array; for a nest of dictionaries and lists, {error}. "
            "jax.tree.map works for any pytree"
        ) from error
    _check_schedule(answer, start, gradients)


def _check_schedule(answer: Any, start: dict, gradients: Any) -> None:
    """Five steps under jit, whose traces must leave nothing behind."""
    jitted, state, total = jax.jit(answer), start, 0.0
    for number in range(1, 6):
        with jax.checking_leaks():
            state = call(jitted, state, gradients)
        total += 0.5 / number
        expect(
            int(state["count"]) == number,
            f"under jit the count after step {number} is {int(state['count'])}: it "
            "must come from the state, not from outside the function",
        )
        pairs = map(jax.tree.leaves, (state["params"], start["params"], gradients))
        for moved, begun, gradient in zip(*pairs, strict=True):
            expect_close(
                moved,
                begun - total * gradient,
                f"after step {number} the parameters are off: step {number} has the "
                f"rate 0.5/{number}, and subtracts rate times gradient from the "
                "parameters in the state",
                rtol=1e-5,
            )


def _adam_reference(
    params: np.ndarray, gradients: list[np.ndarray], *, wrong: str = ""
) -> np.ndarray:
    """Adam in float64, from the paper's Algorithm 1; ``wrong`` leaves a part out."""
    mean, square = np.zeros_like(params), np.zeros_like(params)
    for number, gradient in enumerate(gradients, 1):
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        age = 1 if wrong == "frozen" else number
        mean_hat = mean if wrong == "bias" else mean / (1 - 0.9**age)
        square_hat = square if wrong == "bias" else square / (1 - 0.999**age)
        root = np.sqrt(square_hat) + (0 if wrong == "size" else 1e-8)
        if wrong == "epsilon":
            root = np.sqrt(square_hat + 1e-8)
        params = params - 1e-3 * mean_hat / root
    return params


_ADAM_HINTS = {
    "bias": "the moments start at 0 and are biased towards it: divide them by "
    "1 - beta**t before you use them",
    "epsilon": "epsilon is added to the square root, not under it",
    "size": "epsilon is 1e-8, beside a square root that may be as small as that",
    "frozen": "every step is corrected as if it were the first: does the count in the "
    "state grow, also under jit?",
}


@exercise(
    "Adam, with its state in your hands",
    shows="an optimiser is two pure functions, one that makes its state and one that "
    "threads it",
)
def adam(init: Any, update: Any) -> None:
    """Checks Adam against the paper's algorithm over 20 steps.

    Args:
        init: ``init(params)`` that returns the optimiser's state.
        update: ``update(state, gradients, params)`` that returns the new parameters
            and the new state.
    """
    start = np.array([0.5, -1.0, 2.0, 0.1])
    # Small gradients, the last one smallest, so that a wrong epsilon shows.
    size = np.array([1e-4, 1e-4, 1e-4, 1e-7])
    history = [
        size * np.array([np.cos(i), 1.0, np.sin(2.0 * i), 1.0]) for i in range(1, 21)
    ]
    for transform in (lambda function: function, jax.jit):
        params = _nested(start)
        state, step = call(init, params), transform(update)
        for number, gradient in enumerate(history, 1):
            result = _call_purely(step, state, _nested(gradient), params)
            expect(
                isinstance(result, tuple) and len(result) == 2,
                "update must return a pair: the new parameters, the new state",
            )
            params, state = result
            moved = _flat(params)
            if number == 1:
                _compare_first_step(moved - start, gradient)
        _compare_adam(moved, start, history)


def _nested(values: np.ndarray) -> dict:
    return {"layer": {"w": jnp.array(values[:2])}, "b": [jnp.array(values[2:])]}


def _flat(params: Any) -> np.ndarray:
    wanted = jax.tree.structure(_nested(np.zeros(4)))
    expect(
        jax.tree.structure(params) == wanted,
        "the first result must be a pytree like the parameters passed in; are the two "
        "results in the other order?",
    )
    return np.concatenate([params["layer"]["w"], params["b"][0]], dtype=np.float64)


def _compare_first_step(step: np.ndarray, gradient: np.ndarray) -> None:
    """At step 1, Adam moves each parameter by the rate, against its gradient."""
    if np.isfinite(step).all():
        expect(
            not np.allclose(step[:3], 1e-3 * np.sign(gradient[:3]), rtol=1e-2),
            "the first step goes uphill: Adam subtracts",
        )
        expect(
            np.abs(step).max() < 5e-3,
            f"the first step moves a parameter by {np.abs(step).max():.3g}; with the "
            "rate 0.001 it moves each by about 0.001",
        )


def _compare_adam(
    moved: np.ndarray, start: np.ndarray, history: list[np.ndarray]
) -> None:
    expect(
        np.isfinite(moved).all(),
        "the parameters are not finite: the first step is t = 1, so that 1 - beta**t "
        "is not 0",
    )

    def is_like(wrong: str) -> bool:
        wanted = _adam_reference(start, history, wrong=wrong) - start
        return np.allclose(moved - start, wanted, rtol=1e-3, atol=1e-6)

    if not is_like(""):
        for wrong, hint in _ADAM_HINTS.items():
            expect(not is_like(wrong), hint)
        raise Wrong(
            "the parameters after 20 steps are off; compare line by line with "
            "Algorithm 1 of the paper, for one weight and one step"
        )


class _Tally:
    """A module as `purify` must handle it: numbers, arrays, dictionaries, lists."""

    def __init__(self) -> None:
        self.calls = 0
        self.total = jnp.zeros(2)
        self.seen = {"largest": jnp.array(-jnp.inf)}
        self.trace = [{"last": jnp.zeros(2)}]

    def __call__(self, x: jax.Array) -> jax.Array:
        self.calls = self.calls + 1
        self.total = self.total + x
        self.seen["largest"] = jnp.maximum(self.seen["largest"], x.max())
        change = x - self.trace[0]["last"]
        self.trace[0]["last"] = x
        return jnp.stack([self.total / self.calls, change]) + self.seen["largest"]


@exercise(
    "Purify",
    shows="any object whose attributes are a pytree is a pure function in disguise",
)
def purify(answer: Any) -> None:
    """Checks a transformation from a stateful object to a pure function.

    Args:
        answer: ``purify(module)`` that returns ``(state, apply)``; see the exercise.
    """
    module = _Tally()
    result = call(answer, module)
    expect(
        isinstance(result, tuple) and len(result) == 2,
        "purify must return a pair: the state and the pure function",
    )
    state, apply = result
    for transform, name in ((lambda function: function, "apply"), (jax.jit, "jit")):
        try:
            _check_threading(transform(apply), state, name)
        finally:
            # What happened to the module explains more than what follows from it.
            _check_untouched(module)


def _check_untouched(module: _Tally) -> None:
    expect(
        module.calls == 0 and not np.any(module.total),
        "the module itself changed; work on a copy of it",
    )
    expect(
        np.isneginf(np.asarray(module.seen["largest"]))
        and not np.any(module.trace[0]["last"]),
        "a dictionary inside the module changed: a copy of its attributes still shares "
        "what they contain; rebuild every container (jax.tree.map does)",
    )


def _check_threading(apply: Callable, state: Any, name: str) -> None:
    """Two calls in a row must see each other's effect, through the state alone."""
    x = jnp.array([1.0, 3.0])
    pair = _call_purely(apply, state, x)
    expect(
        isinstance(pair, tuple) and len(pair) == 2,
        f"{name}(state, x) must return a pair: the result and the new state",
    )
    first, middle = pair
    second, _ = _call_purely(apply, middle, 3 * x)
    wanted = _Tally()
    expect_close(first, wanted(x), f"{name}: the first result is off", rtol=1e-6)
    expect_close(
        second,
        wanted(3 * x),
        f"{name}: the second call must go on from the state that the first returned, "
        "with every attribute in it",
        rtol=1e-6,
    )
    again, _ = call(apply, state, x)
    expect_close(
        again,
        first,
        f"{name}: equal arguments gave different results; some state is left behind "
        "between calls",
        rtol=1e-6,
    )
