"""Answers to the exercises of the chapter on vmap."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

RIGHT_AXES = {
    "a": (None, 0),
    "b": ({"w": None, "scale": 0}, 1),
    "c": ({"w": 2, "scale": 0}, None),
    "d": ({"w": 0, "scale": None}, 0),
}


def _each(loss, params, xs, ys):
    return jax.vmap(jax.grad(loss), in_axes=(None, 0, 0))(params, xs, ys)


def _norms(each):
    squares = [jnp.sum(g**2, axis=range(1, g.ndim)) for g in jax.tree.leaves(each)]
    return jnp.sqrt(sum(squares))


def _scaled(each, factors):
    def scale(g):
        return g * factors.reshape((-1,) + (1,) * (g.ndim - 1))

    return jax.tree.map(scale, each)


def clips_each(loss, params, xs, ys, limit, *, reduce=jnp.mean):
    each = _each(loss, params, xs, ys)
    factors = jnp.minimum(1, limit / jnp.maximum(_norms(each), 1e-9))
    return jax.tree.map(lambda g: reduce(g, axis=0), _scaled(each, factors))


def clips_sum(*arguments):
    return clips_each(*arguments, reduce=jnp.sum)


def keeps_batch(*arguments):
    return clips_each(*arguments, reduce=lambda g, axis: g)


def clips_the_mean(loss, params, xs, ys, limit):
    mean = jax.tree.map(lambda g: g.mean(0), _each(loss, params, xs, ys))
    norm = jnp.sqrt(sum(jnp.sum(g**2) for g in jax.tree.leaves(mean)))
    return jax.tree.map(lambda g: g * jnp.minimum(1, limit / norm), mean)


def clips_each_leaf(loss, params, xs, ys, limit):
    each = _each(loss, params, xs, ys)

    def clip(g):
        factors = limit / jnp.maximum(_norms(g), limit)
        return _scaled(g, factors).mean(0)

    return jax.tree.map(clip, each)


def never_clips(loss, params, xs, ys, limit):
    return jax.tree.map(lambda g: g.mean(0), _each(loss, params, xs, ys))


def normalises(loss, params, xs, ys, limit):
    each = _each(loss, params, xs, ys)
    factors = limit / jnp.maximum(_norms(each), 1e-9)
    return jax.tree.map(lambda g: g.mean(0), _scaled(each, factors))


def divides_by_zero(loss, params, xs, ys, limit):
    each = _each(loss, params, xs, ys)
    return jax.tree.map(lambda g: g.mean(0), _scaled(each, limit / _norms(each)))


def clips_with_a_loop(loss, params, xs, ys, limit):
    total = None
    for x, y in zip(xs, ys, strict=True):
        gradient = jax.grad(loss)(params, x, y)
        norm = float(np.sqrt(sum(np.sum(g**2) for g in jax.tree.leaves(gradient))))
        factor = min(1.0, limit / norm) if norm else 1.0
        gradient = jax.tree.map(lambda g, f=factor: f * g, gradient)
        total = gradient if total is None else jax.tree.map(jnp.add, total, gradient)
    return jax.tree.map(lambda g: g / len(xs), total)


def as_they_come(turns, width):
    order = list(range(len(turns)))
    return [order[i : i + width] for i in range(0, len(order), width)]


def from_the_shortest(turns, width):
    order = np.argsort(np.asarray(turns))
    return [order[i : i + width] for i in range(0, len(order), width)]


def one_group(turns, width):
    return [list(range(len(turns)))]


def turns_for_jobs(turns, width):
    order = sorted(turns, reverse=True)
    return [order[i : i + width] for i in range(0, len(order), width)]


def forgets_the_rest(turns, width):
    order = sorted(range(len(turns)), key=lambda job: -turns[job])
    whole = len(order) // width * width
    return [order[i : i + width] for i in range(0, whole, width)]


def longest_first(turns, width):
    order = np.argsort(-np.asarray(turns))
    return tuple(order[i : i + width] for i in range(0, len(order), width))


def _factors(params, xs, ys, two=2):
    hidden = jnp.tanh(xs @ params["w1"])
    slope = two * (hidden @ params["w2"] - ys)
    return hidden, slope, (slope @ params["w2"].T) * (1 - hidden**2)


def _outer(a, b):
    return jnp.sum(a**2, axis=1) * jnp.sum(b**2, axis=1)


def ghost(params, xs, ys, two=2):
    hidden, slope, hidden_slope = _factors(params, xs, ys, two)
    return _outer(xs, hidden_slope) + _outer(hidden, slope)


def ghost_jitted_by_vmap(params, xs, ys):
    return jax.jit(
        jax.vmap(lambda x, y: ghost(params, x[None], y[None])[0], in_axes=(0, 0))
    )(xs, ys)


def materialises(params, xs, ys):
    def loss(params, x, y):
        return jnp.sum((jnp.tanh(x @ params["w1"]) @ params["w2"] - y) ** 2)

    return _norms(_each(loss, params, xs, ys)) ** 2


def one_by_one(params, xs, ys):
    def loss(params, x, y):
        return jnp.sum((jnp.tanh(x @ params["w1"]) @ params["w2"] - y) ** 2)

    def norm(pair):
        gradient = jax.grad(loss)(params, *pair)
        return sum(jnp.sum(g**2) for g in jax.tree.leaves(gradient))

    return jax.lax.map(norm, (xs, ys))


def last_layer_alone(params, xs, ys):
    hidden, slope, _ = _factors(params, xs, ys)
    return _outer(hidden, slope)


def forgets_the_two(params, xs, ys):
    return ghost(params, xs, ys, two=1)


def forgets_the_square(params, xs, ys):
    return jnp.sqrt(ghost(params, xs, ys))


def forgets_the_curve(params, xs, ys):
    hidden, slope, _ = _factors(params, xs, ys)
    return _outer(xs, slope @ params["w2"].T) + _outer(hidden, slope)


def summed_over_all(params, xs, ys):
    return ghost(params, xs, ys).sum()


def maps_with_vmap(function, in_axes):
    return jax.vmap(function, in_axes=in_axes)


def vectorises(function, in_axes):
    def mapped(*arguments):
        batched = dict(zip(range(len(in_axes)), in_axes, strict=True))
        signature = ",".join(
            "(" + ",".join(f"a{n}{i}" for i in range(a.ndim - (batched[n] == 0))) + ")"
            for n, a in enumerate(arguments)
        )
        one = [a if batched[n] is None else a[0] for n, a in enumerate(arguments)]
        rank = len(jax.eval_shape(function, *one).shape)
        out = "(" + ",".join(f"o{i}" for i in range(rank)) + ")"
        return jnp.vectorize(function, signature=f"{signature}->{out}")(*arguments)

    return mapped


def forgets_to_repeat(function, in_axes):
    return own_vmap_moving_axes(function, in_axes, repeat=False)


def loops_in_python(function, in_axes):
    def mapped(*arguments):
        size = next(
            len(a) for a, axis in zip(arguments, in_axes, strict=True) if axis == 0
        )
        return jnp.stack(
            [
                function(
                    *[
                        a if axis is None else a[i]
                        for a, axis in zip(arguments, in_axes, strict=True)
                    ]
                )
                for i in range(size)
            ]
        )

    return mapped


def loops_with_map(function, in_axes):
    def mapped(*arguments):
        def one(parts):
            rest = iter(parts)
            return function(
                *[
                    a if axis is None else next(rest)
                    for a, axis in zip(arguments, in_axes, strict=True)
                ]
            )

        pairs = zip(arguments, in_axes, strict=True)
        return jax.lax.map(one, [a for a, axis in pairs if axis == 0])

    return mapped


def calls_with_the_batch(function, in_axes):
    return function


def returns_the_result(function, in_axes):
    return jnp.zeros((5, 3))


def own_vmap_moving_axes(function, in_axes, *, repeat=True):
    """A batch at the last axis in place of the first, with einsum for products."""
    from jax.extend.core import Literal

    letters = "abcdefghij"

    def run(closed, inputs):
        known = dict(zip(closed.jaxpr.invars, inputs, strict=True))
        known |= {
            v: (c, False)
            for v, c in zip(closed.jaxpr.constvars, closed.consts, strict=True)
        }

        def read(atom):
            if isinstance(atom, Literal):
                return jnp.asarray(atom.val, atom.aval.dtype), False
            return known[atom]

        for eqn in closed.jaxpr.eqns:
            found = [read(atom) for atom in eqn.invars]
            if eqn.primitive.name in ("jit", "pjit"):
                known |= dict(
                    zip(eqn.outvars, run(eqn.params["jaxpr"], found), strict=True)
                )
                continue
            values, flags = [v for v, _ in found], [f for _, f in found]
            name, params = eqn.primitive.name, eqn.params
            if not any(flags):
                out = eqn.primitive.bind(*values, **params)
            elif name == "dot_general":
                (lc, rc), _ = params["dimension_numbers"]
                left = list(letters[: len(eqn.invars[0].aval.shape)])
                right = list(letters[5 : 5 + len(eqn.invars[1].aval.shape)])
                for a, b in zip(lc, rc, strict=True):
                    right[b] = left[a]
                kept = [c for i, c in enumerate(left) if i not in lc]
                kept += [c for i, c in enumerate(right) if i not in rc]
                left += "z" * flags[0]
                right += "z" * flags[1]
                spec = f"{''.join(left)},{''.join(right)}->{''.join(kept)}z"
                out = jnp.einsum(spec, *values)
            elif name == "reduce_sum":
                out = jnp.sum(values[0], axis=tuple(params["axes"]))
            elif name == "transpose":
                order = (*params["permutation"], len(params["permutation"]))
                out = jnp.transpose(values[0], order)
            elif name == "broadcast_in_dim":
                shape = (*params["shape"], values[0].shape[-1])
                dims = (*params["broadcast_dimensions"], len(params["shape"]))
                out = jax.lax.broadcast_in_dim(values[0], shape, dims)
            else:
                rank = len(eqn.outvars[0].aval.shape)
                full = []
                for value, flag in found:
                    value = value if flag else jnp.asarray(value)[..., None]
                    full.append(
                        value.reshape((1,) * (rank + 1 - value.ndim) + value.shape)
                    )
                out = {
                    "add": jnp.add,
                    "sub": jnp.subtract,
                    "mul": jnp.multiply,
                    "sin": jnp.sin,
                    "exp": jnp.exp,
                    "tanh": jnp.tanh,
                }[name](*full)
            known[eqn.outvars[0]] = (out, any(flags))
        return [read(atom) for atom in closed.jaxpr.outvars]

    def mapped(*arguments):
        pairs = list(zip(arguments, in_axes, strict=True))
        one = [a if axis is None else a[0] for a, axis in pairs]
        closed = jax.make_jaxpr(function)(*one)
        moved = [
            (a, False) if axis is None else (jnp.moveaxis(a, 0, -1), True)
            for a, axis in pairs
        ]
        size = next(len(a) for a, axis in pairs if axis == 0)
        return [
            jnp.moveaxis(out, -1, 0)
            if flag
            else jnp.stack([out] * size)
            if repeat
            else out
            for out, flag in run(closed, moved)
        ]

    return jax.jit(mapped)


WRONG = {
    "vmap.axes_for_calls": [
        (RIGHT_AXES | {"a": (0, 0)}, "what is shared gets None"),
        (RIGHT_AXES | {"b": ({"w": None, "scale": 0}, 0)}, "which has 8"),
        (RIGHT_AXES | {"b": ({"w": None}, 1)}, "needs the keys"),
        (RIGHT_AXES | {"b": (None, 1)}, "passed whole, with None"),
        (RIGHT_AXES | {"c": ({"w": 0, "scale": 0}, None)}, "which has 8"),
        (RIGHT_AXES | {"d": 0}, "expected a pair"),
        (RIGHT_AXES | {"a": (None, None)}, "nothing is mapped"),
        (RIGHT_AXES | {"a": (None, 1)}, "call a"),
        ({"a": (None, 0)}, "expected the letters"),
        ([(None, 0)], "expected a dictionary"),
    ],
    "vmap.clipped_mean": [
        (clips_sum, "the sum of the clipped"),
        (keeps_batch, "average over the examples"),
        (clips_the_mean, "clipped the mean"),
        (clips_each_leaf, "over all its leaves"),
        (never_clips, "not clipped at all"),
        (normalises, "stays as it is"),
        (divides_by_zero, "one gradient is zero"),
        (lambda loss, params, xs, ys, limit: 0.0, "structure of params"),
    ],
    "vmap.fewest_turns": [
        (as_they_come, "about as many turns"),
        (from_the_shortest, "which jobs should it hold"),
        (one_group, "more than 2 jobs"),
        (turns_for_jobs, "by its number from 0"),
        (forgets_the_rest, "every job must be in one group"),
        (lambda turns, width: [0, 1, 2, 3], "a list of groups"),
    ],
    "vmap.squared_norms": [
        (materialises, "that is the 64 gradients"),
        (one_by_one, "a loop over the examples"),
        (last_layer_alone, "the part of w2 alone"),
        (forgets_the_two, "a factor of 2"),
        (forgets_the_square, "their squares are asked for"),
        (forgets_the_curve, "differ from those of vmap(grad)"),
        (summed_over_all, "expected 7 numbers"),
    ],
    "vmap.own_vmap": [
        (maps_with_vmap, "do without jax.vmap"),
        (vectorises, "done by jax.vmap"),
        (forgets_to_repeat, "expected the shape (5, 4, 3)"),
        (loops_in_python, "a loop over the examples"),
        (loops_with_map, "is a loop over the examples"),
        (calls_with_the_batch, "in_axes="),
        (returns_the_result, "must return a function"),
    ],
}

RIGHT = [
    (
        "vmap.axes_for_calls",
        (
            {
                "a": [{"w": None, "scale": None}, -2],
                "b": ({"w": None, "scale": -1}, -1),
                "c": ({"w": -1, "scale": 0}, None),
                "d": ({"w": 0, "scale": None}, 0),
            },
        ),
    ),
    ("vmap.clipped_mean", (clips_each,)),
    ("vmap.clipped_mean", (jax.jit(clips_each, static_argnums=0),)),
    ("vmap.clipped_mean", (clips_with_a_loop,)),
    ("vmap.fewest_turns", (longest_first,)),
    ("vmap.squared_norms", (jax.jit(ghost),)),
    ("vmap.squared_norms", (ghost_jitted_by_vmap,)),
    ("vmap.own_vmap", (own_vmap_moving_axes,)),
]
