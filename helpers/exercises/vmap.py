"""Checks of the chapter on vmap."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr

from helpers.check import Wrong, call, exercise, expect, expect_close

__all__ = [
    "axes_for_calls",
    "clipped_mean",
    "fewest_turns",
    "own_vmap",
    "squared_norms",
]


def _scored(params: dict, x: jax.Array) -> jax.Array:
    return params["scale"] * (params["w"] @ x)


def _calls() -> dict[str, tuple[tuple, tuple]]:
    """For each call of the exercise: its arguments and axes that are right."""
    w, xs = np.arange(12.0).reshape(4, 3), np.arange(24.0).reshape(8, 3) + 1
    ws = np.arange(96.0).reshape(8, 4, 3) - 40
    scales = np.arange(8.0) + 1
    return {
        "a": (({"w": w, "scale": 2.0}, xs), (None, 0)),
        "b": (({"w": w, "scale": scales}, xs.T), ({"w": None, "scale": 0}, 1)),
        "c": (
            ({"w": ws.transpose(1, 2, 0), "scale": scales}, xs[0]),
            ({"w": 2, "scale": 0}, None),
        ),
        "d": (({"w": ws, "scale": 2.0}, xs), ({"w": 0, "scale": None}, 0)),
    }


@exercise(
    "Four calls", shows="in_axes names, for each leaf, where the examples lie, or None"
)
def axes_for_calls(answer: Any) -> None:
    """Checks ``in_axes`` for the four calls of the exercise.

    Args:
        answer: A dictionary from the letter of a call to its ``in_axes``.
    """
    expect(isinstance(answer, dict), "expected a dictionary from letters to in_axes")
    calls = _calls()
    expect(set(answer) == set(calls), f"expected the letters {', '.join(calls)}")
    for letter, (arguments, right) in calls.items():
        axes = answer[letter]
        expect(
            isinstance(axes, tuple | list) and len(axes) == 2,
            f"call {letter}: expected a pair, one entry for params and one for x",
        )
        wanted = jax.vmap(_scored, in_axes=right)(*arguments)
        try:
            found = jax.vmap(_scored, in_axes=tuple(axes))(*arguments)
        except Exception as error:
            raise Wrong(f"call {letter}: {_why(error)}") from error
        expect(
            found.shape == wanted.shape,
            f"call {letter}: the result must be (8, 4), got {found.shape}: which axis "
            "has length 8?",
        )
        expect_close(found, wanted, f"call {letter}: the shape is right, the rows not")


def _why(error: Exception) -> str:
    text = str(error)
    if "rank should be at least" in text:
        return "an array that has no such axis is mapped; what is shared gets None"
    if "prefix" in text:
        return "a dictionary in in_axes needs the keys of its argument"
    if "at least one non-None" in text:
        return "nothing is mapped; where are the 8 examples?"
    if "inconsistent sizes" in text:
        return "the mapped axes have different lengths; which has 8?"
    if isinstance(error, TypeError):
        return (
            "the shapes of one example do not fit together; is an array that holds "
            "something for each of the 8 examples passed whole, with None?"
        )
    return "the mapped axes are not there; which has 8?"


def _clipping_problem() -> tuple[Callable, dict, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)

    def loss(params: dict, x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.sum((jnp.tanh(x @ params["w"]) @ params["v"] - y) ** 2)

    params = {"w": rng.normal(size=(5, 4)), "v": rng.normal(size=(4, 2))}
    params = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), params)
    xs = rng.normal(size=(6, 5)).astype(np.float32)
    ys = rng.normal(size=(6, 2)).astype(np.float32)
    # The first example is predicted without an error, so its gradient is zero.
    xs[0], ys[0] = 0, 0
    return loss, params, jnp.asarray(xs), jnp.asarray(ys)


def _norm(tree: Any) -> float:
    leaves = jax.tree.leaves(tree)
    squares = [np.sum(np.asarray(leaf, np.float64) ** 2) for leaf in leaves]
    return float(np.sqrt(sum(squares)))


@exercise(
    "Clip each, then average",
    shows="a limit on each example's gradient bounds what one example can do",
)
def clipped_mean(answer: Any) -> None:
    """Checks the mean of gradients that were clipped one by one.

    Args:
        answer: ``clipped_mean(loss, params, xs, ys, limit)``; see the exercise.
    """
    loss, params, xs, ys = _clipping_problem()
    call(answer, loss, params, xs, ys, 1.0)
    together = jax.jit(jax.vmap(jax.grad(loss), in_axes=(None, 0, 0)))(params, xs, ys)
    each = [
        {name: np.asarray(leaf[i]) for name, leaf in together.items()} for i in range(6)
    ]
    norms = [_norm(gradient) for gradient in each]
    above = sorted(norms)[1:]
    # All are longer than the first limit, the mean's too; one is shorter than the next.
    limits = above[0] / 10, (above[0] + above[1]) / 2, 2 * above[-1]
    for limit in limits:
        found = call(answer, loss, params, xs, ys, limit)
        expect(
            jax.tree.structure(found) == jax.tree.structure(params),
            "the result must have the structure of params: one gradient",
        )
        shapes = jax.tree.map(jnp.shape, found)
        expect(
            shapes == jax.tree.map(jnp.shape, params),
            f"the result must have the shapes of params, got {shapes}: average over "
            "the examples",
        )
        _judge_clipping(found, each, norms, limit)


def _judge_clipping(
    found: dict, each: list[dict], norms: list[float], limit: float
) -> None:
    def mean(factors: list[float]) -> dict:
        pairs = list(zip(factors, each, strict=True))
        count = len(each)
        return {name: sum(f * g[name] for f, g in pairs) / count for name in each[0]}

    def close(other: dict) -> bool:
        return all(
            np.allclose(found[name], other[name], rtol=1e-4, atol=1e-6)
            for name in other
        )

    wanted = mean([limit / max(norm, limit) for norm in norms])
    expect(
        all(np.isfinite(np.asarray(leaf)).all() for leaf in found.values()),
        "NaN: one gradient is zero, and limit / 0 is infinite; scale down only, by "
        "min(1, limit / norm)",
    )
    if close(wanted):
        return
    plain = mean([1.0] * len(each))
    shrunk = limit / max(_norm(plain), limit)
    by_leaf = mean([1.0] * len(each))
    for name in by_leaf:
        clipped = [g[name] * limit / max(_norm(g[name]), limit) for g in each]
        by_leaf[name] = sum(clipped) / len(each)
    unit = mean([limit / norm if norm else 1.0 for norm in norms])
    expect(
        not close({name: leaf * len(each) for name, leaf in wanted.items()}),
        "that is the sum of the clipped gradients, not the mean",
    )
    expect(not close(plain), "with this limit the gradients were not clipped at all")
    expect(
        not close({name: leaf * shrunk for name, leaf in plain.items()}),
        "you clipped the mean; clip each example's gradient, and average then",
    )
    expect(
        not close(by_leaf),
        "the norm is that of the whole gradient, over all its leaves together",
    )
    expect(
        not close(unit), "a gradient shorter than the limit stays as it is: min(1, …)"
    )
    raise Wrong("the values differ: scale each gradient by min(1, limit / its norm)")


@exercise(
    "Fewer wasted turns",
    shows="lanes that run together should need about as many turns",
)
def fewest_turns(answer: Any) -> None:
    """Checks a grouping of jobs for a batched loop.

    Args:
        answer: ``groups(turns, width)``; see the exercise.
    """
    rng = np.random.default_rng(1)
    cases = [
        ([5, 1, 5, 1], 2),
        ([9, 1, 2, 8, 3], 2),
        ([4], 3),
        (rng.integers(0, 112, 32).tolist(), 8),
        (rng.integers(0, 50, 23).tolist(), 7),
    ]
    for turns, width in cases:
        found = call(answer, list(turns), width)
        try:
            groups = [[int(job) for job in group] for group in found]
        except TypeError:
            raise Wrong(
                "expected a list of groups, each a list of job numbers"
            ) from None
        expect(
            all(len(group) <= width for group in groups),
            f"a group has more than {width} jobs",
        )
        jobs = sorted(job for group in groups for job in group)
        expect(
            jobs == list(range(len(turns))),
            "every job must be in one group, by its number from 0, and no job twice",
        )
        runs = sum(max(turns[job] for job in group) for group in groups if group)
        descending = sorted(turns, reverse=True)
        ascending = descending[::-1]
        fewest = sum(descending[::width])
        if runs == fewest:
            continue
        example = f"turns={turns} in groups of {width}" if len(turns) < 6 else "a case"
        from_below = sum(
            max(ascending[i : i + width]) for i in range(0, len(turns), width)
        )
        expect(
            runs != from_below,
            f"for {example}, {runs} turns where {fewest} are enough: when the jobs do "
            "not fill the last group, which jobs should it hold?",
        )
        raise Wrong(
            f"for {example}, {runs} turns where {fewest} are enough: put jobs together "
            "that need about as many turns"
        )


def _jaxprs(value: Any) -> Iterator[Jaxpr]:
    """The jaxprs inside an equation's parameter."""
    if isinstance(value, ClosedJaxpr):
        yield value.jaxpr
    elif isinstance(value, Jaxpr):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _jaxprs(item)


def _equations(jaxpr: Jaxpr) -> Iterator[Any]:
    for equation in jaxpr.eqns:
        yield equation
        for value in equation.params.values():
            for inner in _jaxprs(value):
                yield from _equations(inner)


def _parts_by_hand(params: dict, xs: Any, ys: Any) -> dict[str, np.ndarray]:
    """Squared norms by leaf, from gradients that are formed, in float64."""
    w1, w2, xs, ys = (np.float64(a) for a in (params["w1"], params["w2"], xs, ys))
    hidden = np.tanh(xs @ w1)
    slope = 2 * (hidden @ w2 - ys)
    back = (slope @ w2.T) * (1 - hidden**2)
    gradients = {
        "w1": np.einsum("bi,bo->bio", xs, back),
        "w2": np.einsum("bi,bo->bio", hidden, slope),
    }
    return {name: np.sum(g**2, axis=(1, 2)) for name, g in gradients.items()}


@exercise(
    "Norms without gradients",
    shows="64 norms need neither 64 gradients nor the time to make them",
)
def squared_norms(answer: Any) -> None:
    """Checks squared norms of per-example gradients that are never formed.

    Args:
        answer: ``squared_norms(params, xs, ys)``; see the exercise.
    """

    rng = np.random.default_rng(2)
    for batch, width, outputs in ((7, 6, 3), (64, 40, 10)):
        params = {
            "w1": rng.normal(size=(width, 2 * width)).astype(np.float32) / width**0.5,
            "w2": rng.normal(size=(2 * width, outputs)).astype(np.float32) / width**0.5,
        }
        params = jax.tree.map(jnp.asarray, params)
        xs = jnp.asarray(rng.normal(size=(batch, width)), jnp.float32)
        ys = jnp.asarray(rng.normal(size=(batch, outputs)), jnp.float32)
        found = jax.jit(lambda *arguments: call(answer, *arguments))(params, xs, ys)
        parts = _parts_by_hand(params, xs, ys)
        wanted = parts["w1"] + parts["w2"]
        found = jnp.asarray(found)
        expect(found.shape == (batch,), f"expected {batch} numbers, got {found.shape}")
        for name, part in parts.items():
            expect(
                not np.allclose(found, part, rtol=1e-3),
                f"that is the part of {name} alone; the gradient has two leaves",
            )
        expect(
            not np.allclose(found**2, wanted, rtol=1e-3),
            "those are the norms; their squares are asked for",
        )
        expect(
            not np.allclose(found * 4, wanted, rtol=1e-3),
            "a quarter of what it must be: the square's derivative has a factor of 2",
        )
        expect_close(
            found, wanted, "the values differ from those of vmap(grad)", rtol=1e-3
        )
    traced = jax.make_jaxpr(answer)(params, xs, ys)
    limit = max(batch * 2 * width, params["w1"].size) * 2
    for equation in _equations(traced.jaxpr):
        for made in equation.outvars:
            expect(
                made.aval.size <= limit,
                f"an array of shape {made.aval.shape} is made on the way: that is the "
                "64 gradients. Use that each is an outer product",
            )
        expect(
            equation.primitive.name not in ("scan", "while"),
            "a loop over the examples makes the gradients one by one; no gradient of a "
            "weight is needed at all",
        )


@contextmanager
def _without_vmap() -> Iterator[None]:
    kept = jax.vmap

    def refused(*_args: Any, **_kwargs: Any) -> None:
        raise Wrong("this exercise is about your own vmap: do without jax.vmap")

    jax.vmap = refused
    try:
        yield
    finally:
        jax.vmap = kept


def _functions() -> list[tuple[str, Callable, tuple, tuple]]:
    """Name, function, in_axes and arguments for a batch of 5 and of 3."""

    def arrays(batch: int) -> dict[str, jax.Array]:
        rng = np.random.default_rng(batch)
        shapes = {
            "w": (4, 3),
            "ws": (batch, 4, 3),
            "xs": (batch, 3),
            "ys": (batch, 4),
            "s": (batch,),
            "ms": (batch, 3, 3),
        }
        return {
            name: jnp.asarray(rng.normal(size=shape), jnp.float32)
            for name, shape in shapes.items()
        }

    def both(*names: str) -> tuple:
        return tuple(tuple(arrays(b)[name] for name in names) for b in (5, 3))

    def attention(w: jax.Array, m: jax.Array) -> jax.Array:
        return jnp.exp(m) @ jnp.tanh(w.T)

    return [
        ("sin(x) * 2", lambda x: jnp.sin(x) * 2, (0,), both("xs")),
        ("x - y with y shared", lambda x, y: x - y[0], (0, None), both("xs", "xs")),
        ("sin(y), y shared", lambda x, y: jnp.sin(y), (0, None), both("xs", "w")),
        ("x * sum(x)", lambda x: x * jnp.sum(x), (0,), both("xs")),
        ("s * x with s a scalar", lambda s, x: s * x, (0, None), both("s", "w")),
        ("s * x, both mapped", lambda s, x: s * x, (0, 0), both("s", "ms")),
        ("w @ x, w shared", lambda w, x: w @ x, (None, 0), both("w", "xs")),
        ("w @ x, x shared", lambda w, x: w @ x[0], (0, None), both("ws", "xs")),
        ("w @ x, both mapped", lambda w, x: w @ x, (0, 0), both("ws", "xs")),
        ("exp(m) @ tanh(w.T)", attention, (None, 0), both("w", "ms")),
        ("exp(m) @ tanh(w.T), swapped", attention, (0, 0), both("ws", "ms")),
        ("m.T + x", lambda m, x: m.T + x, (0, 0), both("ms", "xs")),
        ("x[:, None] * y", lambda x, y: x[:, None] * y, (0, 0), both("xs", "ys")),
        ("sum over axis 1", lambda m: jnp.sum(m, axis=1), (0,), both("ms")),
        (
            "a jitted function",
            lambda w, x: jax.jit(lambda v: jnp.sin(v) - 1)(w @ x),
            (None, 0),
            both("w", "xs"),
        ),
    ]


@exercise(
    "Your own vmap",
    shows="a batch is a rule for each operation, and the program has no loop",
)
def own_vmap(answer: Any) -> None:
    """Checks a batching transformation that interprets jaxprs.

    Args:
        answer: ``own_vmap(function, in_axes)``; see the exercise.
    """
    for name, function, in_axes, (five, three) in _functions():
        with _without_vmap():
            mapped = call(answer, function, in_axes)
            expect(callable(mapped), "own_vmap must return a function")
            try:
                found = jax.jit(lambda *args, of=mapped: call(of, *args))(*five)
                traced = [jax.make_jaxpr(mapped)(*args).jaxpr for args in (five, three)]
            except Wrong as error:
                raise Wrong(f"{name} with in_axes={in_axes}: {error}") from error
        if isinstance(found, tuple | list) and len(found) == 1:
            found = found[0]
        wanted = jax.jit(jax.vmap(function, in_axes=in_axes))(*five)
        expect(
            jnp.shape(found) == wanted.shape,
            f"{name} with in_axes={in_axes}: expected the shape {wanted.shape}, got "
            f"{jnp.shape(found)}",
        )
        expect_close(
            found,
            wanted,
            f"{name} with in_axes={in_axes}: the shape is right, the values are not",
            rtol=1e-4,
            atol=1e-4,
        )
        steps = [list(_equations(jaxpr)) for jaxpr in traced]
        expect(
            not any("vmap" in str(e.source_info.name_stack) for e in steps[0]),
            f"{name}: the work was done by jax.vmap; this exercise is about your own",
        )
        expect(
            len(steps[0]) == len(steps[1]),
            f"{name}: {len(steps[0])} operations for 5 examples and {len(steps[1])} "
            "for 3: that is a loop over the examples",
        )
        looped = {e.primitive.name for e in steps[0]} & {
            "scan",
            "while",
            "pure_callback",
        }
        expect(not looped, f"{name}: a {', '.join(looped)} is a loop over the examples")
