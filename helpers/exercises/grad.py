"""Checks of the chapter *What does grad return?*"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from helpers.check import as_array, as_number, call, exercise, expect, expect_close

__all__ = ["agrees", "fixed_point", "freezing", "hessian_diagonal", "safe_norm"]


@exercise(
    "What freezing saves",
    shows="what trains lowest decides how far the sensitivity must travel",
)
def freezing(answer: Any) -> None:
    """Checks the cost of a gradient in three of ten layers.

    Args:
        answer: Two multiples of the function's cost: for the last three layers, and
            for the first three.
    """
    pair = as_array(answer)
    expect(pair.shape == (2,), "expected two numbers: for the last three, the first.")
    last, first = (as_number(number) for number in pair)
    hints = {
        1.6: "the last three: the sensitivity stops at the output of layer 8, so it "
        "passes layers 10 and 9 alone.",
        1.3: "the last three: layer 8 needs the sensitivity of its output, which comes "
        "through layers 10 and 9.",
        2.9: "2.9 is the cost with all ten layers trained.",
        3.0: "3 would be all ten layers, and the input too.",
        0.5: "add the forward pass: its ten products are part of the gradient.",
        2.2: "that is the answer for the first three: the last come first here.",
        15.0: "give multiples of the function, which takes ten products.",
    }
    expect(
        abs(last - 1.5) < 0.02,
        hints.get(round(last, 2), "count for the last three: forward, weights, way."),
    )
    hints = {
        1.5: "the sensitivity has a longer way to the first layers than to the last.",
        2.3: "the first three: nobody needs the gradient in x, so the sensitivity does "
        "not pass layer 1.",
        2.0: "the first three: it is three matrices that train, and layers 2 and 3 "
        "hand the sensitivity on as well.",
        1.2: "add the forward pass: its ten products are part of the gradient.",
    }
    expect(
        abs(first - 2.2) < 0.02,
        hints.get(round(first, 2), "count for the first three: forward, weights, way."),
    )


@exercise("A length without a hole", shows="a root that never sees 0 has a slope there")
def safe_norm(answer: Any) -> None:
    """Checks a vector's length whose gradient at 0 is 0.

    Args:
        answer: ``safe_norm(x)``; see the exercise.
    """
    vector, zero = jnp.array([3.0, 4.0]), jnp.zeros(2)
    wrong = "the length of [3, 4] is 5"
    expect_close(call(answer, vector), 5.0, wrong, rtol=1e-6)
    expect_close(call(answer, zero), 0.0, "the length of 0 is 0, exactly")
    slope = call(jax.grad(answer), zero)
    expect(
        not np.isnan(as_array(slope)).any(),
        "the gradient at 0 is NaN: the root still sees a 0 in the branch not taken",
    )
    expect_close(slope, zero, "the gradient at 0 must be 0")
    for scale in (1.0, 1e-4, 1e-12):
        hint = f"for [3, 4] times {scale:g}, the {{}} is off: add no epsilon"
        short = scale * vector
        expect_close(call(answer, short), 5 * scale, hint.format("length"), rtol=1e-5)
        slope = call(jax.grad(answer), short)
        expect_close(slope, [0.6, 0.8], hint.format("gradient"), rtol=1e-5)
    batch = jnp.array([[0.0, 0.0], [3.0, 4.0], [-5.0, 12.0]])
    slopes = call(jax.jit(jax.vmap(jax.grad(answer))), batch)
    wanted = [[0, 0], [0.6, 0.8], [-5 / 13, 12 / 13]]
    expect_close(slopes, wanted, "a batch with a zero in it goes wrong", rtol=1e-5)
    many = jnp.arange(1.0, 8.0)
    expect_close(
        call(jax.grad(answer), many),
        many / np.linalg.norm(many),
        "it works for two numbers; for seven the gradient is off",
        rtol=1e-5,
    )


def _temporaries_bytes(function: Callable, *arguments: Any) -> int:
    compiled = jax.jit(function).lower(*arguments).compile()
    return compiled.memory_analysis().temp_size_in_bytes


@exercise(
    "The Hessian's diagonal",
    shows="one column at a time, the Hessian never exists as a whole",
)
def hessian_diagonal(answer: Any) -> None:
    """Checks second derivatives made without the whole Hessian.

    Args:
        answer: ``hessian_diagonal(f, x)``; see the exercise.
    """

    def f(x: Any) -> Any:
        return jnp.sum(jnp.roll(x, 1) ** 2 * x**2) + jnp.sum(x**3)

    x = np.linspace(-1.0, 2.0, 7, dtype="float32")
    wanted = 2 * np.roll(x, 1) ** 2 + 2 * np.roll(x, -1) ** 2 + 6 * x
    found = call(answer, f, jnp.asarray(x))
    expect(
        np.shape(found) != (7, 7),
        "that is the whole Hessian: return its diagonal, n numbers",
    )
    sums = wanted + 4 * x * np.roll(x, 1) + 4 * x * np.roll(x, -1)
    expect(
        not (np.shape(found) == (7,) and np.allclose(found, sums, rtol=1e-4)),
        "that is the sum of each row: a push in the direction of all ones mixes the "
        "columns",
    )
    expect_close(
        found, wanted, "these are not the second derivatives", rtol=1e-4, atol=1e-5
    )
    other = call(answer, lambda x: jnp.prod(jnp.sin(x)), jnp.ones(3))
    expect_close(
        other,
        np.full(3, -(np.sin(1.0) ** 3)),
        "right for one function; for a product of sines it is off",
        rtol=1e-4,
    )
    n = 1024
    vector = jax.ShapeDtypeStruct((n,), jnp.float32)
    reserved = call(lambda: _temporaries_bytes(lambda x: answer(f, x), vector))
    expect(
        reserved < n * n,
        f"for {n} numbers it reserves {reserved:,} bytes, and n times n float32 are "
        f"{4 * n * n:,}: take the directions one after another",
    )


def _wrong_rule() -> Callable:
    """A function whose custom rule is off by 1%."""

    @jax.custom_jvp
    def power(x: Any) -> Any:
        return x**2

    @power.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        (x,), (change,) = primals, tangents
        return power(x), 2.02 * x * change

    return jax.jit(lambda x: jnp.sum(power(x)))


@jax.jit
def _waves(x: Any) -> Any:
    return 1000.0 + jnp.sum(jnp.sin(x) * jnp.arange(1, 51) / 50)


@jax.jit
def _bowl(x: Any) -> Any:
    return jnp.sum(jnp.roll(x, 1) ** 2 * x) / 3


def _scaled_slopes(f: Callable, x: Any, factors: Any) -> Any:
    return factors * jax.grad(f)(x)


@exercise("Trust, but check", shows="a difference needs digits, and no derivative")
def agrees(answer: Any) -> None:
    """Checks a test of gradients with right and with planted wrong ones.

    Args:
        answer: ``agrees(f, gradient, x)``; see the exercise.
    """
    x = np.random.default_rng(0).uniform(0.5, 1.2, 50)

    def verdict(f: Callable, gradient: Callable) -> bool:
        said = call(answer, f, gradient, x.copy())
        expect(np.size(said) == 1, "answer True or False, one for the whole gradient")
        return bool(said)

    def scaled(f: Callable, factors: Any) -> Callable:
        factors = np.broadcast_to(np.asarray(factors, "float64"), x.shape)
        return partial(slopes_of[f], factors=factors)

    def one(place: int, factor: float) -> np.ndarray:
        return np.where(np.arange(len(x)) == place, factor, 1.0)

    # One compiled gradient for each function serves all the planted errors.
    slopes_of = {f: jax.jit(partial(_scaled_slopes, f)) for f in (_waves, _bowl)}
    steepest = int(np.argmax(np.abs(np.cos(x) * np.arange(1, 51))))
    expect(
        verdict(_bowl, jax.grad(_bowl)),
        "a right gradient was refused: with a step too small, or float32, the "
        "difference has no digits left",
    )
    expect(
        verdict(_waves, jax.grad(_waves)),
        "a right gradient was refused where f is about 1000: in float32 the "
        "difference has no digits left; compute in float64",
    )
    by_hand = lambda x: jnp.cos(x) * jnp.arange(1, 51) / 50  # noqa: E731
    expect(verdict(_waves, by_hand), "a right gradient, written by hand, was refused")
    planted = {
        "with the wrong sign": -1.0,
        "of zeros": 0.0,
        "twice too large": 2.0,
        "with a NaN in it": one(3, np.nan),
        "off by one part in a thousand": 1.001,
        "off by one part in a thousand in the entry of the largest slope": one(
            steepest, 1.001
        ),
        "off by one part in a thousand in a single entry": one(7, 0.999),
    }
    for name, factors in planted.items():
        wrong = scaled(_waves, factors)
        expect(not verdict(_waves, wrong), f"a gradient {name} has passed")
    reverse = jax.jit(lambda x: jax.grad(_waves)(x)[::-1])
    expect(
        not verdict(_waves, reverse),
        "a gradient with its entries in reverse has passed",
    )
    expect(
        not verdict(_bowl, scaled(_bowl, one(9, 1.001))),
        "right for one function; for another, an error of one part in a thousand in "
        "a single entry has passed",
    )
    doubtful = _wrong_rule()
    expect(
        not verdict(doubtful, jax.grad(doubtful)),
        "f has a custom rule that is wrong by 1%, and you have believed it: compare "
        "with values of f alone",
    )
    expect(
        verdict(doubtful, lambda x: 2 * x),
        "2x is the gradient of the sum of squares, whatever a custom rule says",
    )


def _linear(theta: dict, x: Any) -> Any:
    return theta["a"] @ x + theta["b"]


def _slow(theta: Any, x: Any) -> Any:
    return 0.97 * jnp.tanh(x) + theta


@exercise(
    "The derivative of an answer",
    shows="a fixed point's gradient needs the point, and not the way to it",
)
def fixed_point(answer: Any) -> None:
    """Checks a differentiable fixed point.

    Args:
        answer: ``fixed_point(f, theta, start)``; see the exercise.
    """
    a = np.array([[0.3, 0.4, 0.0], [-0.2, 0.1, 0.5], [0.0, 0.3, -0.4]])
    b, care = np.array([1.0, -2.0, 0.5]), np.array([1.0, 2.0, -1.0])
    theta = {"a": jnp.asarray(a, jnp.float32), "b": jnp.asarray(b, jnp.float32)}
    wanted = np.linalg.solve(np.eye(3) - a, b)
    found = call(answer, _linear, theta, jnp.zeros(3))
    expect_close(
        found, wanted, "the result is not the fixed point: iterate on", rtol=1e-4
    )

    def loss(theta: Any, start: Any) -> Any:
        return jnp.dot(jnp.asarray(care, jnp.float32), answer(_linear, theta, start))

    slopes, of_start = call(jax.grad(loss, argnums=(0, 1)), theta, jnp.ones(3))
    expect(
        isinstance(slopes, dict) and set(slopes) == {"a", "b"},
        "the gradient must have the structure of theta",
    )
    u = np.linalg.solve(np.eye(3) - a.T, care)
    mixed = np.linalg.solve(np.eye(3) - a, care)
    expect(
        not np.allclose(slopes["b"], care, rtol=1e-3),
        "that is the derivative of one last step: x moves too, and moves f again",
    )
    expect(
        not np.allclose(slopes["b"], mixed, rtol=1e-3),
        "that solves with df/dx; a pull needs it transposed: jax.vjp gives you that",
    )
    expect_close(
        slopes["b"],
        u,
        "the gradient in theta is off: is it u that you pull through f, and did you "
        "solve it to convergence?",
        rtol=1e-3,
    )
    expect_close(
        slopes["a"],
        np.outer(u, wanted),
        "the gradient in the matrix is off",
        rtol=1e-3,
        atol=1e-4,
    )
    expect_close(
        of_start,
        np.zeros(3),
        "the gradient in start must be 0: another start, the same answer",
        atol=1e-5,
    )
    _check_slow(answer)


def _check_slow(answer: Any) -> None:
    """A contraction of hundreds of steps: right, and in memory that they do not fill.

    The vector is so short that a rule which solves with the n times n matrix of
    derivatives passes: its memory does not grow with the steps.
    """
    n = 16
    theta = jnp.linspace(-0.003, 0.003, n)

    def total(theta: Any) -> Any:
        return jnp.sum(answer(_slow, theta, jnp.zeros(n)))

    x = np.zeros(n)
    for _ in range(5000):
        x = 0.97 * np.tanh(x) + np.asarray(theta, "float64")
    wanted = 1 / (1 - 0.97 * (1 - np.tanh(x) ** 2))
    slope = call(jax.jit(jax.grad(total)), theta)
    expect_close(
        slope,
        wanted,
        "right for a fast contraction; for one of hundreds of steps the gradient is "
        "off: iterate to convergence, in both directions",
        rtol=1e-2,
    )
    reserved = call(lambda: _temporaries_bytes(jax.grad(total), theta))
    expect(
        reserved < 100 * 4 * n,
        f"the gradient reserves {reserved:,} bytes for {n} numbers: something is kept "
        "for each step",
    )
