"""Answers to the exercises of the chapter on many devices."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax


def init(key, sizes):
    layers = []
    for inputs, outputs in zip(sizes, sizes[1:], strict=False):
        key, layer_key = jax.random.split(key)
        weights = jax.random.normal(layer_key, (inputs, outputs))
        layers.append({"weights": weights, "biases": jnp.zeros(outputs)})
    return layers


def errors_of(params, x, y):
    for layer in params[:-1]:
        x = jax.nn.relu(x @ layer["weights"] + layer["biases"])
    x = x @ params[-1]["weights"] + params[-1]["biases"]
    return jnp.mean((x - y) ** 2, axis=-1)


PARAMS = init(jax.random.key(1), [6, 5, 4])


def real_sum(params, x, y, real):
    return jnp.sum(jnp.where(real, errors_of(params, x, y), 0))


def mean_of_means(params, x, y, real):
    gradients = jax.grad(real_sum)(params, x, y, real)
    own = jnp.sum(real)
    return lax.pmean(jax.tree.map(lambda g: g / own, gradients), "data")


def mean_of_safe_means(params, x, y, real):
    gradients = jax.grad(real_sum)(params, x, y, real)
    own = jnp.maximum(jnp.sum(real), 1)
    return lax.pmean(jax.tree.map(lambda g: g / own, gradients), "data")


def mean_of_parts(params, x, y, real):
    """Divides by the count of all devices, and then by the number of devices."""

    def part(params):
        return real_sum(params, x, y, real) / lax.psum(jnp.sum(real), "data")

    return lax.pmean(jax.grad(part)(params), "data")


def mean_over_all_rows(params, x, y, real):
    def mean(params):
        return jnp.mean(jnp.where(real, errors_of(params, x, y), 0))

    return lax.pmean(jax.grad(mean)(params), "data")


def sum_only(params, x, y, real):
    return lax.psum(jax.grad(real_sum)(params, x, y, real), "data")


def own_gradient(params, x, y, real):
    return jax.grad(real_sum)(params, x, y, real)


def filled_rows_too(params, x, y, real):
    def total(params):
        return jnp.sum(errors_of(params, x, y))

    gradients, count = lax.psum((jax.grad(total)(params), jnp.sum(real)), "data")
    return jax.tree.map(lambda g: g / count, gradients)


def rows_that_are_not_zero(params, x, y, real):
    """Finds the real rows by their numbers: a real row may be zero."""
    return weighted(params, x, y, jnp.any(x != 0, axis=-1))


def with_the_count(params, x, y, real):
    return sum_only(params, x, y, real), lax.psum(jnp.sum(real), "data")


def weighted(params, images, labels, mask):
    """Right, with other names, weights in place of where, and a jitted body."""

    @jax.jit
    def local(params):
        return jnp.vdot(errors_of(params, images, labels), mask.astype(jnp.float32))

    count = lax.psum(jnp.sum(mask), "data")
    scaled = jax.tree.map(lambda g: g / count, jax.grad(local)(params))
    return jax.tree.map(lambda g: lax.psum(g, "data"), scaled)


def normalise(x, mean, variance):
    return (x - mean) / jnp.sqrt(variance + 1e-5)


def own_statistics(x):
    return normalise(x, x.mean(0), x.var(0))


def mean_of_variances(x):
    return normalise(x, lax.pmean(x.mean(0), "data"), lax.pmean(x.var(0), "data"))


def difference_of_squares(x):
    mean, square = lax.pmean((x.mean(0), (x**2).mean(0)), "data")
    return normalise(x, mean, square - mean**2)


def summed_statistics(x):
    mean = lax.psum(x.mean(0), "data")
    return normalise(x, mean, lax.psum(((x - mean) ** 2).mean(0), "data"))


def with_variance(x, spread):
    mean = lax.pmean(x.mean(0), "data")
    return (x - mean) / spread(lax.pmean(((x - mean) ** 2).mean(0), "data"))


def one_mean_for_all_features(x):
    mean = lax.pmean(x.mean(), "data")
    return normalise(x, mean, lax.pmean(((x - mean) ** 2).mean(), "data"))


def gathered(x):
    """Right, and dearer: everybody gets the whole batch."""
    whole = lax.all_gather(x, "data", tiled=True)
    return normalise(x, whole.mean(0), whole.var(0))


def by_parts(x):
    """Right: the parts' variances and the spread of their means."""
    mean = lax.pmean(x.mean(0), "data")
    between = (x.mean(0) - mean) ** 2
    return normalise(x, mean, lax.pmean(x.var(0) + between, "data"))


def ring(x, *, step=1, gather=True, whole=False, place=0, rounds=None):
    size, me = lax.axis_size("data"), lax.axis_index("data") * step
    pairs = [(i, (i + step) % size) for i in range(size)]
    if whole:
        total = moving = x
        for _ in range(size - 1):
            moving = lax.ppermute(moving, "data", pairs)
            total = total + moving
        return total
    chunks = x.reshape(size, -1, *x.shape[1:])
    for r in range(rounds if rounds is not None else size - 1):
        arrived = lax.ppermute(chunks[(me - r) % size], "data", pairs)
        chunks = chunks.at[(me - r - 1 + place) % size].add(arrived)
    for r in range(size - 1 if gather else 0):
        arrived = lax.ppermute(chunks[(me - r + 1) % size], "data", pairs)
        chunks = chunks.at[(me - r) % size].set(arrived)
    return chunks.reshape(x.shape)


def ring_with(**changes) -> Callable:
    return lambda x: ring(x, **changes)


def looped_ring(numbers):
    """Right: loops that are traced once, with the chunks kept flat."""
    size, me = lax.axis_size("data"), lax.axis_index("data")
    pairs = [(i, (i + 1) % size) for i in range(size)]
    chunks = jnp.reshape(numbers, (size, -1))

    def scatter(r, chunks):
        arrived = lax.ppermute(chunks[(me - r) % size], "data", pairs)
        return chunks.at[(me - r - 1) % size].add(arrived)

    def gather(r, chunks):
        arrived = lax.ppermute(chunks[(me - r + 1) % size], "data", pairs)
        return chunks.at[(me - r) % size].set(arrived)

    chunks = lax.fori_loop(0, size - 1, scatter, chunks)
    chunks = lax.fori_loop(0, size - 1, gather, chunks)
    return chunks.reshape(numbers.shape)


def in_a_while_loop(x):
    size = lax.axis_size("data")
    pairs = [(i, (i + 1) % size) for i in range(size)]

    def body(state):
        r, total, moving = state
        moving = lax.ppermute(moving, "data", pairs)
        return r + 1, total + moving, moving

    return lax.while_loop(lambda state: state[0] < size - 1, body, (0, x, x))[1]


def ring_for_eight(x):
    x.reshape(8, -1)
    return ring(x)


def to_everybody(x):
    size = lax.axis_size("data")
    return x + sum(
        lax.ppermute(x, "data", [(i, (i + far) % size) for i in range(size)])
        for far in range(1, size)
    )


WRONG = {
    "pmap.eight_answers": [
        ([10.5] + [2.5 + i for i in range(1, 8)], "make no circle"),
        ([3.5 + i for i in range(1, 8)] + [3.5], "a pair is (from, to)"),
        ([28] + [27 + i for i in range(1, 8)], "pmean divides it by eight"),
        ([0] + [2 * i - 1 for i in range(1, 8)], "the same number"),
        ([0, 0, 1, 2, 3, 4, 5, 6], "add the mean"),
        (3.5, "expected eight numbers"),
        ([3.5] * 8, "two lists"),
    ],
    "pmap.which_train": [
        ("abdef", "a: grad has summed the eighths"),
        ("def", "b: the mean is inside"),
        ({"b", "c", "d", "e", "f"}, "c: a sum over eight devices"),
        ("bef", "d: weights that vary"),
        ("bdf", "e: the inner gradient"),
        (["b", "d", "e"], "f: with varying weights"),
        ("bdefg", "letters from a to f"),
        ([1, 2], "expected letters"),
    ],
    "pmap.last_gradient": [
        ((mean_of_means, errors_of, PARAMS), "divides by zero"),
        ((mean_of_safe_means, errors_of, PARAMS), "do all real rows count alike"),
        ((mean_of_parts, errors_of, PARAMS), "an eighth of the gradient"),
        ((mean_over_all_rows, errors_of, PARAMS), "filled-up ones included"),
        ((sum_only, errors_of, PARAMS), "gradient of the sum"),
        ((own_gradient, errors_of, PARAMS), "they must meet"),
        ((filled_rows_too, errors_of, PARAMS), "the others not at all"),
        ((weighted, lambda params, x, y: 0 * y[:, 0], PARAMS), "of the cells above"),
        ((weighted, errors_of, {}), "the list of layers"),
        ((rows_that_are_not_zero, errors_of, PARAMS), "all real rows count alike"),
        ((with_the_count, errors_of, PARAMS), "return the gradients alone"),
    ],
    "pmap.normalised": [
        (own_statistics, "its own rows"),
        (mean_of_variances, "the parts' means differ"),
        (difference_of_squares, "loses the difference in rounding"),
        (summed_statistics, "not what one device computes"),
        (lambda x: with_variance(x, jnp.sqrt), "1e-5 under the root"),
        (
            lambda x: with_variance(x, lambda v: jnp.sqrt(v) + 1e-5),
            "1e-5 under the root",
        ),
        (
            lambda x: with_variance(x, lambda v: jnp.sqrt(v * 48 / 47 + 1e-5)),
            "not what one device computes",
        ),
        (one_mean_for_all_features, "not what one device computes"),
        (lambda x: lax.pmean(x.mean(0), "data"), "expected the shape of x"),
        (lambda x: x / 0, "not what one device computes"),
    ],
    "pmap.ring_sum": [
        (lambda x: lax.psum(x, "data"), "is a collective"),
        (lambda x: lax.all_gather(x, "data").sum(0), "is a collective"),
        (lambda x: lax.pmax(x, ("data",)), "is a collective"),
        (ring_with(whole=True), "one chunk at a time"),
        (ring_with(gather=False), "not every device ends"),
        (ring_with(place=1), "on 8 devices"),
        (ring_with(rounds=6), "the result is not the sum"),
        (to_everybody, "to one neighbour only"),
        (ring_for_eight, "on 4 devices"),
        (in_a_while_loop, "inside a while loop"),
        (lambda x: 8 * x, "nothing is sent"),
    ],
}

RIGHT = [
    ("pmap.eight_answers", (jnp.array([3.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5]),)),
    ("pmap.which_train", ("FEDB",)),
    ("pmap.which_train", ("b, d, e, f",)),
    ("pmap.last_gradient", (weighted, errors_of, PARAMS)),
    ("pmap.last_gradient", (jax.jit(weighted), errors_of, PARAMS)),
    ("pmap.normalised", (gathered,)),
    ("pmap.normalised", (by_parts,)),
    ("pmap.ring_sum", (ring,)),
    ("pmap.ring_sum", (ring_with(step=-1),)),
    ("pmap.ring_sum", (looped_ring,)),
    ("pmap.ring_sum", (jax.jit(ring),)),
]
