"""Checks of the chapter *How does one program run on many devices?*"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from helpers.check import Wrong, as_array, call, exercise, expect, expect_close

__all__ = [
    "eight_answers",
    "last_gradient",
    "normalised",
    "ring_sum",
    "which_train",
]

# What names the axis of devices without asking them for anything, and ppermute.
_ALLOWED = ("axis_index", "pvary", "pcast", "ppermute")


def _pmap(function: Any, *, size: int = 8, copied: int = 0, cut: int = 1) -> Callable:
    """``pmap`` over the axis "data", of ``copied`` arguments and then ``cut`` ones."""

    def checked(*arguments: Any) -> Any:
        try:
            return call(function, *arguments)
        except Wrong as wrong:
            raise Wrong(f"on {size} devices, {wrong}") from wrong.__cause__

    devices = jax.devices("cpu")[:size]
    expect(len(devices) == size, "run the chapter's first cell, and then this one")
    axes = (*[None] * copied, *[0] * cut)
    return jax.pmap(checked, axis_name="data", in_axes=axes, devices=devices)


@exercise("Eight answers", shows="nobody sends to device 0, so it receives zeros")
def eight_answers(answer: Any) -> None:
    """Checks the eight numbers after a mean and a shift.

    Args:
        answer: Eight numbers, as a sequence or an array.
    """
    given = as_array(answer)
    expect(given.shape == (8,), f"expected eight numbers, got the shape {given.shape}")
    ranks = np.arange(8.0)
    expect(
        not np.allclose(given, 3.5 + np.roll(ranks, 1)),
        "the pairs make no circle: 7 sends to nobody, so device 0 receives zeros.",
    )
    expect(
        not np.allclose(given, 3.5 + np.append(ranks[1:], 0))
        and not np.allclose(given, 3.5 + np.roll(ranks, -1)),
        "a pair is (from, to): device 1 receives what device 0 holds.",
    )
    shifted = np.append(0, ranks[:-1])
    expect(
        not np.allclose(given, 28 + shifted),
        "28 is the sum of 0 to 7; pmean divides it by eight.",
    )
    expect(
        not np.allclose(given, ranks + shifted),
        "pmean gives every device the same number, the mean of 0 to 7.",
    )
    expect(not np.allclose(given, shifted), "add the mean to what arrives.")
    expect(
        np.allclose(given, 3.5 + shifted),
        "write down two lists, one for each collective, and add them.",
    )


_ABOUT_EACH = {
    "a": "a: grad has summed the eighths over the devices already; what does psum make "
    "of eight equal sums?",
    "b": "b: the mean is inside what is differentiated, and it is what you want.",
    "c": "c: a sum over eight devices of means over examples is eight times the mean.",
    "d": "d: weights that vary are not summed over for you, so the mean is yours to "
    "take.",
    "e": "e: the inner gradient is right and equal everywhere; what does a mean do to "
    "eight equal numbers?",
    "f": "f: with varying weights nothing is summed for you: each device has an eighth "
    "of its own gradient, and what is the sum of these?",
}


@exercise(
    "The gradient of the whole batch",
    shows="what is summed for you depends on what varies",
)
def which_train(answer: Any) -> None:
    """Checks which of the steps a to f return the gradient of the whole batch.

    Args:
        answer: The letters, as a set, a list or one string.
    """
    expect(
        isinstance(answer, set | frozenset | list | tuple | str)
        and all(isinstance(letter, str) for letter in answer),
        'expected letters, such as {"a", "c"}',
    )
    letters = {letter.lower() for letter in answer} - {" ", ","}
    unknown = letters - set(_ABOUT_EACH)
    expect(not unknown, f"expected letters from a to f, got {sorted(unknown)}")
    for letter, about in _ABOUT_EACH.items():
        expect((letter in letters) == (letter in "bdef"), about)


@exercise(
    "The last batch",
    shows="sums and counts add up over devices; means of unequal parts do not",
)
def last_gradient(answer: Any, errors_of: Any, params: Any) -> None:
    """Checks a gradient over the real rows of a filled-up batch.

    Args:
        answer: ``last_gradient(params, x, y, real)``; see the exercise.
        errors_of: ``errors_of(params, x, y)``, the loss of each example.
        params: The parameters it takes, a pytree.
    """
    expect(
        isinstance(params, list) and len(params) > 1 and "weights" in params[0],
        "the third argument is params, the list of layers",
    )
    inputs = params[0]["weights"].shape[0]
    outputs = params[-1]["weights"].shape[1]
    rows, random = 4, np.random.default_rng(5)
    x = random.normal(size=(8 * rows, inputs)).astype(np.float32)
    y = random.normal(size=(8 * rows, outputs)).astype(np.float32)
    x[2] = 0  # a real row may look like one that fills up
    expect_close(
        call(errors_of, params, x, y),
        _errors(params, x, y),
        "errors_of and params must be those of the cells above",
        rtol=1e-4,
        atol=1e-5,
    )
    # Where all biases are zero, so are the errors of the rows that fill up.
    params = jax.tree.map(lambda leaf: leaf + 0.1, params)

    @jax.jit
    def right(params: Any, count: int) -> Any:
        def mean_error(params: Any) -> jax.Array:
            each = errors_of(params, x, y)
            return jnp.sum(jnp.where(jnp.arange(8 * rows) < count, each, 0)) / count

        return jax.grad(mean_error)(params)

    mapped = _pmap(answer, copied=1, cut=3)
    for count, about in (
        (32, "with every row real"),
        (21, "with 21 real rows, two devices having none"),
        (30, "with 30 real rows of 32"),
        (1, "with one real row in all"),
    ):
        real = np.arange(8 * rows) < count
        # What fills the batch up is zero, as the exercise says.
        filled_x, filled_y = (np.where(real[:, None], a, 0) for a in (x, y))
        wanted = right(params, count)
        parts = [a.reshape(8, rows, *a.shape[1:]) for a in (filled_x, filled_y, real)]
        got = mapped(params, *parts)
        expect(
            jax.tree.structure(got) == jax.tree.structure(wanted),
            "return the gradients alone, a pytree like the parameters",
        )
        _compare_gradients(got, wanted, count, about)


def _errors(params: Any, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The loss of each example in the chapter's network, computed by NumPy."""
    for index, layer in enumerate(params):
        x = x @ np.asarray(layer["weights"]) + np.asarray(layer["biases"])
        if index < len(params) - 1:
            x = np.maximum(x, 0)
    return np.mean((x - y) ** 2, axis=-1)


def _compare_gradients(got: Any, wanted: Any, count: int, about: str) -> None:
    for mine, right in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        mine, right = np.asarray(mine), np.asarray(right)
        expect(
            mine.shape == (8, *right.shape),
            f"each device's gradient of a leaf must have its shape {right.shape}, got "
            f"{mine.shape[1:]}",
        )
        expect(
            np.isfinite(mine).all(),
            f"{about}, a gradient is not a number: a device without real rows divides "
            "by zero",
        )
        scale = np.abs(right).max()
        close = functools.partial(np.allclose, rtol=1e-4, atol=1e-5 * scale)
        expect(
            close(mine, mine[:1]),
            f"{about}, the devices return different gradients: they must meet",
        )
        expect(
            not close(mine[0], right * count) or count == 1,
            f"{about}, that is the gradient of the sum: divide by the number of real "
            "rows",
        )
        expect(
            not close(mine[0], right * count / 32) or count == 32,
            f"{about}, you divide by the number of all rows, filled-up ones included",
        )
        expect(
            not close(mine[0] * 8, right),
            f"{about}, that is an eighth of the gradient: each part is divided by "
            "the number of all real rows, so add the parts up, and take no mean",
        )
        expect(
            close(mine[0], right),
            f"{about}, the gradient is not that of the mean over the real rows: do all "
            "real rows count alike, and the others not at all?",
        )


@exercise(
    "Batch normalisation over all devices",
    shows="mean and variance are those of all devices' rows, so the devices must meet",
)
def normalised(answer: Any) -> None:
    """Checks batch normalisation with statistics of the whole batch.

    Args:
        answer: ``normalised(x)``; see the exercise.
    """
    noise = np.random.default_rng(6).normal(size=(8, 6, 4))
    # Each device's rows lie elsewhere, so the parts' means differ.
    drift = np.arange(8.0)[:, None, None] * np.array([0.5, -1.0, 0.0, 0.0])
    # The last feature varies so little that the 1e-5 counts.
    wide = np.array([1.0, 1.0, 1.0, 0.0])
    noise *= np.where(wide, 1.0, 0.003)
    mapped = _pmap(answer)
    for offset in (0.0, 1000.0):
        x = (noise + drift + offset * wide).astype(np.float32)
        got = as_array(mapped(x))
        exact = np.asarray(x, np.float64)
        mean = exact.mean((0, 1))
        spread = np.sqrt(exact.var((0, 1)) + 1e-5)
        wanted = (exact - mean) / spread
        expect(
            got.shape == wanted.shape,
            f"expected the shape of x on each device, (6, 4), got {got.shape[1:]}",
        )
        local_mean = exact.mean(1, keepdims=True)
        local = (exact - local_mean) / np.sqrt(exact.var(1, keepdims=True) + 1e-5)
        expect(
            not np.allclose(got, local, atol=1e-2),
            "each device has normalised its own rows: the statistics must be those of "
            "the whole batch",
        )
        parts = np.sqrt(exact.var(1).mean(0) + 1e-5)
        expect(
            not np.allclose(got, (exact - mean) / parts, atol=1e-2),
            "the mean of the parts' variances leaves out that the parts' means differ: "
            "measure the distances from the mean of all",
        )
        about = (
            "that is not what one device computes for the whole batch: mean of all "
            "rows, variance of all rows, 1e-5 under the root"
            if not offset
            else "right near 0, but not for features near 1,000: E[x²] − E[x]² loses "
            "the difference in rounding; take the mean first, then the squares"
        )
        expect_close(got, wanted, about, rtol=0, atol=1e-3)


def _equations(
    jaxpr: core.Jaxpr, times: int | None = 1
) -> Iterator[tuple[Any, int | None]]:
    """All equations of a jaxpr, at any depth, with how often each runs."""
    for equation in jaxpr.eqns:
        yield equation, times
        name = equation.primitive.name
        repeat = equation.params["length"] if name == "scan" else 1
        for value in jax.tree.leaves(
            equation.params, is_leaf=lambda v: isinstance(v, core.Jaxpr)
        ):
            inner = getattr(value, "jaxpr", value)
            if isinstance(inner, core.Jaxpr):
                inside = None if name == "while" or times is None else times * repeat
                yield from _equations(inner, inside)


@exercise(
    "A ring",
    shows="an all-reduce is a reduce-scatter and an all-gather, each of n − 1 rounds",
)
def ring_sum(answer: Any) -> None:
    """Checks an all-reduce made of messages between neighbours.

    Args:
        answer: ``ring_sum(x)``; see the exercise.
    """
    for size, shape in ((8, (16, 3)), (4, (4,))):
        x = np.random.default_rng(size).normal(size=(size, *shape))
        x = x.astype(np.float32)
        mapped = _pmap(answer, size=size)
        # The check of what is sent comes first: a psum inside would pass on values.
        _check_messages(mapped, x, size)
        got = as_array(mapped(x))
        expect(
            got.shape == x.shape,
            f"each device must return an array of the shape {shape}, got "
            f"{got.shape[1:]}",
        )
        wanted = np.broadcast_to(np.asarray(x, np.float64).sum(0), x.shape)
        expect(
            np.allclose(got, got[:1], atol=1e-6),
            f"on {size} devices, not every device ends with the same numbers: do the "
            "complete chunks travel all the way round?",
        )
        expect_close(
            got,
            wanted,
            f"on {size} devices, the result is not the sum of all arrays: is every "
            "chunk added once, in its place?",
            rtol=1e-4,
            atol=1e-5,
        )


def _axes(equation: Any) -> tuple:
    """The axes that an equation works along; those of devices have names."""
    axes = equation.params.get("axis_name", equation.params.get("axes", ()))
    return axes if isinstance(axes, tuple) else (axes,)


def _check_messages(mapped: Callable, x: np.ndarray, size: int) -> None:
    sent_bytes, directions = 0, set()
    for equation, times in _equations(jax.make_jaxpr(mapped)(x).jaxpr):
        name = equation.primitive.name
        expect(
            name in _ALLOWED or "data" not in _axes(equation),
            f"{name} is a collective: exchange with ppermute alone",
        )
        if name != "ppermute":
            continue
        expect(
            times is not None,
            "the bytes sent inside a while loop cannot be counted: use a Python loop "
            "or fori_loop with fixed bounds",
        )
        directions |= {(to - source) % size for source, to in equation.params["perm"]}
        sent_bytes += times * sum(
            v.aval.size * v.aval.dtype.itemsize for v in equation.invars
        )
    expect(sent_bytes > 0, "nothing is sent, so no device can know the others' numbers")
    expect(
        directions in ({1}, {size - 1}),
        "send to one neighbour only, device i to i + 1, or all the other way round",
    )
    whole = x[0].size * x.dtype.itemsize
    allowed = 2 * (size - 1) * whole // size
    expect(
        sent_bytes <= allowed,
        f"on {size} devices each sends {sent_bytes / whole:g} times its array, and "
        f"{allowed / whole:g} times suffices: send one chunk at a time",
    )
