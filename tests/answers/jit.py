"""Answers to the exercises of the chapter on jit."""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import jit
from jax.extend.core import jaxpr_as_fun


def no_first_call(first_s, later_s, other_s):
    if later_s >= other_s:
        return math.inf
    return math.ceil(first_s / (other_s - later_s))


def unrounded(first_s, later_s, other_s):
    return (first_s - later_s) / (other_s - later_s)


def rounded(first_s, later_s, other_s):
    if first_s <= other_s:
        return 1
    return (
        math.inf if later_s >= other_s else round(unrounded(first_s, later_s, other_s))
    )


def always_one_more(first_s, later_s, other_s):
    if first_s <= other_s:
        return 1
    return (
        math.inf
        if later_s >= other_s
        else int(unrounded(first_s, later_s, other_s)) + 1
    )


def infinity_as_text(first_s, later_s, other_s):
    found = rounded_up(first_s, later_s, other_s)
    return "inf" if found == math.inf else found


def rounded_up(first_s, later_s, other_s):
    if first_s <= other_s:
        return 1
    if later_s >= other_s:
        return np.inf
    return np.ceil(unrounded(first_s, later_s, other_s))


def always_finite(first_s, later_s, other_s):
    saving_s = max(other_s - later_s, 1e-9)
    return max(1, math.ceil((first_s - later_s) / saving_s))


def never_below_two(first_s, later_s, other_s):
    if later_s >= other_s:
        return math.inf
    return max(2, math.ceil((first_s - later_s) / (other_s - later_s)))


def by_counting(first_s, later_s, other_s):
    for n in range(1, 10_000):
        if first_s + (n - 1) * later_s <= n * other_s:
            return np.int64(n)
    return jnp.inf


def collatz_in_python(n):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def next_number(n):
    return jnp.where(n % 2 == 0, n // 2, 3 * n + 1)


def collatz_of(n, start=0, turns=None, kind=int):
    def step(carry):
        n, steps = carry
        return next_number(n), steps + 1

    def masked(_, carry):
        n, steps = carry
        return next_number(n), jnp.where(n == 1, steps, steps + 1)

    def kept(i, carry):
        n, steps = masked(i, carry)
        return jnp.where(carry[0] == 1, 1, n), steps

    if turns:
        return jax.lax.fori_loop(0, turns, kept, (n, start))[1]
    return jax.lax.while_loop(lambda c: c[0] != 1, step, (n, kind(start)))[1]


def collatz_under_python_if(n):
    def step(carry):
        n, steps = carry
        return (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1

    return jax.lax.while_loop(lambda c: c[0] != 1, step, (n, 0))[1]


def collatz_from_a_table(n):
    table = {1: 0, 2: 1, 3: 7, 6: 8, 7: 16, 27: 111, 97: 118}
    return jnp.array([table.get(i, 0) for i in range(100)])[n]


def collatz_by_cond(n):
    def step(carry):
        n, steps = carry
        n = jax.lax.cond(n % 2 == 0, lambda n: n // 2, lambda n: 3 * n + 1, n)
        return {"n": n, "steps": steps + 1}

    start = {"n": jnp.asarray(n, jnp.int32), "steps": jnp.int32(0)}
    return jax.lax.while_loop(
        lambda c: c["n"] > 1, lambda c: step((c["n"], c["steps"])), start
    )["steps"]


def collatz_of_scalars(n):
    return jax.lax.while_loop(
        lambda c: jnp.ravel(c[0])[0] != 1,
        lambda c: (next_number(c[0]), c[1] + 1),
        (jnp.atleast_1d(n), 0),
    )


def padded(x, size):
    out = np.zeros(size, np.float32)
    out[: len(x)] = x
    return out


def size_of(x):
    return 2 ** (len(x) - 1).bit_length()


def no_buckets(function):
    jitted = jax.jit(function)
    return lambda x: jitted(x, len(x))


def static_length(function):
    jitted = jax.jit(function, static_argnums=1)
    return lambda x: jitted(padded(x, size_of(x)), len(x))


def padded_in_jax(function):
    jitted = jax.jit(function)
    return lambda x: jitted(jnp.pad(jnp.asarray(x), (0, size_of(x) - len(x))), len(x))


def padded_length(function):
    jitted = jax.jit(function)
    return lambda x: jitted(padded(x, size_of(x)), size_of(x))


def repeated_padding(function):
    jitted = jax.jit(function)
    return lambda x: jitted(np.resize(x, size_of(x)), len(x))


def eager_bucket(function):
    return lambda x: function(padded(x, size_of(x)), len(x))


def padded_under_jit(function):
    jitted = jax.jit(
        lambda x, length: function(jnp.pad(x, (0, size_of(x) - len(x))), length)
    )
    return lambda x: jitted(x, len(x))


def jitted_in_each_call(function):
    return lambda x: jax.jit(lambda *given: function(*given))(
        padded(x, size_of(x)), len(x)
    )


def never_calls(function):
    return lambda x: (x.sum(), len(x), 0.0)


def compiled_by_size(function):
    programs = {}

    def apply(x):
        size = size_of(x)
        if size not in programs:
            shapes = (size,), ()
            kinds = map(jax.ShapeDtypeStruct, shapes, ("float32", "int32"))
            programs[size] = jax.jit(function).lower(*kinds).compile()
        return programs[size](padded(x, size), np.int32(len(x)))

    return apply


def one_size(function):
    jitted = jax.jit(function)
    return lambda x: jitted(padded(x, 1024), np.int32(len(x)))


def hundreds(function):
    jitted = jax.jit(function)

    def apply(x):
        return jitted(jnp.asarray(padded(x, -(-len(x) // 100) * 100)), len(x))

    return apply


def every_fifty(function):
    jitted = jax.jit(function)
    return lambda x: jitted(padded(x, -(-len(x) // 50) * 50), len(x))


def kind(leaf):
    found = jax.typeof(leaf)
    return found.shape, found.dtype, found.weak_type


def jit_of(
    function,
    static_argnums=(),
    *,
    kind=kind,
    structured=True,
    typed=True,
    static_key=True,
    rebuilt=True,
    cached=True,
    baked=False,
):
    static = {static_argnums} if isinstance(static_argnums, int) else {*static_argnums}
    programs = {}

    def call(*arguments):
        fixed = {i: a for i, a in enumerate(arguments) if i in static}
        data = [a for i, a in enumerate(arguments) if i not in static]
        leaves, structure = jax.tree.flatten(data)
        key = (
            structure if structured else len(leaves),
            tuple(map(kind, leaves)),
            tuple((i, type(a) if typed else 0, a) for i, a in fixed.items())
            if static_key
            else 0,
        )
        if key not in programs or not cached:
            outer = []

            def of_leaves(*given):
                given = leaves if baked else given
                given = iter(jax.tree.unflatten(structure, given))
                everything = [
                    fixed[i] if i in fixed else next(given)
                    for i in range(len(arguments))
                ]
                flat, shape = jax.tree.flatten(function(*everything))
                outer.append(shape)
                return flat

            jaxpr = jax.make_jaxpr(of_leaves)(*leaves)
            programs[key] = jaxpr_as_fun(jaxpr), outer[0]
        run, shape = programs[key]
        results = run(*leaves)
        return jax.tree.unflatten(shape, results) if rebuilt else results

    return call


def one_argument_one_result(function, static_argnums=()):
    """The chapter's small_jit, keyed as it should be."""
    programs = {}

    def call(x):
        key = jax.tree.structure(x), *map(kind, jax.tree.leaves(x))
        if key not in programs:
            programs[key] = jaxpr_as_fun(jax.make_jaxpr(function)(x))
        (result,) = programs[key](x)
        return result

    return call


def kind_by_class(leaf):
    return jnp.shape(leaf), jnp.result_type(leaf), isinstance(leaf, int | float)


def jit_with(**changes):
    return functools.partial(jit_of, **changes)


def jit_by_return_shape(function, static_argnums=()):
    """Lets make_jaxpr handle pytrees and static arguments."""
    numbers = np.atleast_1d(np.array(static_argnums, int)).tolist()
    seen = {}

    def call(*arguments):
        fixed = tuple((type(arguments[i]), arguments[i]) for i in numbers)
        data = [a for i, a in enumerate(arguments) if i not in numbers]
        leaves, structure = jax.tree.flatten(data)
        key = fixed, structure, tuple(str(jax.typeof(leaf)) for leaf in leaves)
        weak = tuple(jax.typeof(leaf).weak_type for leaf in leaves)
        if (key, weak) not in seen:
            seen[key, weak] = jax.make_jaxpr(
                function, static_argnums=numbers, return_shape=True
            )(*arguments)
        jaxpr, shapes = seen[key, weak]
        results = jax.core.eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, *leaves)
        return jax.tree.unflatten(jax.tree.structure(shapes), results)

    return call


WRONG = {
    "jit.which_trace": [
        ([1, 2, 3, 4, 5, 6, 7, 8], "differs from call 1 in a value"),
        ([1, 3, 5, 6, 7], "a strong type"),
        ([1, 4, 5, 6, 7], "another static value"),
        ([1, 3, 4, 5, 7], "two structures"),
        ([1, 3, 4, 5, 6, 7, 8], "narrowed to float32"),
        ([0, 2, 3, 4, 5, 6], "numbered from 1"),
        ("134567", "expected a list"),
        ([1.5, 3, 4, 5, 6, 7], "the numbers 1 to 8"),
    ],
    "jit.break_even_calls": [
        (no_first_call, "the first call counts as one"),
        (unrounded, "no part of a call"),
        (rounded, "no part of a call"),
        (always_one_more, "when both have taken the same"),
        (infinity_as_text, "drop the quotes"),
        (always_finite, "math.inf"),
        (never_below_two, "may already be the faster one"),
        (lambda first, *others: (first, *others), "got a tuple"),
    ],
    "jit.collatz": [
        (collatz_in_python, "a Python while, if, range or int()"),
        (collatz_under_python_if, "a Python while, if, range or int()"),
        (functools.partial(collatz_of, start=1), "not the numbers on the way"),
        (functools.partial(collatz_of, turns=100), "must be 111, got 100"),
        (functools.partial(collatz_of, turns=200), "a fixed number of turns"),
        (functools.partial(collatz_of, kind=float), "an integer type"),
        (functools.partial(collatz_of, turns=1000), "however large"),
        (jax.jit(collatz_in_python, static_argnums=0), "a static n"),
        (collatz_from_a_table, "a table"),
        (lambda n: collatz_of_scalars(n)[0], "expected one number"),
        (
            functools.cache(jax.jit(collatz_in_python, static_argnums=0)),
            "your function",
        ),
    ],
    "jit.bucketed": [
        (no_buckets, "more than 11 traces"),
        (every_fifty, "more than 11 traces"),
        (static_length, "a trace a length"),
        (padded_in_jax, "pad with NumPy"),
        (padded_under_jit, "before it meets jit"),
        (jitted_in_each_call, "outside apply"),
        (never_calls, "never called"),
        (padded_length, "not the size with the padding"),
        (repeated_padding, "the padding must be zeros"),
        (eager_bucket, "under jax.jit"),
    ],
    "jit.my_jit": [
        (lambda f, static=(): jit(f, static_argnums=static), "may not use jax.jit"),
        (lambda f, static=(): jax.jit(f, static_argnums=static), "may not use jax.jit"),
        (lambda f, static=(): jit(lambda *a: f(*a), static_argnums=static), "jax.jit"),
        (one_argument_one_result, "a tree of several leaves"),
        (jit_with(kind=kind_by_class), "JAX's array of a weak type"),
        (jit_with(cached=False), "must run no more times"),
        (jit_with(baked=True), "reach the program"),
        (jit_with(kind=lambda leaf: jnp.shape(leaf)), "a strong float32 after a weak"),
        (
            jit_with(kind=lambda x: (jnp.shape(x), jnp.result_type(x))),
            "a strong float32 after a weak",
        ),
        (jit_with(structured=False), "a tuple after a list"),
        (jit_with(typed=False), "two static values"),
        (jit_with(static_key=False), "static n=3"),
        (jit_with(rebuilt=False), "expected the structure"),
    ],
}

RIGHT = [
    ("jit.which_trace", ({1, 3, 4, 5, 6, 7},)),
    ("jit.which_trace", (np.array([7, 6, 5, 4, 3, 1]),)),
    ("jit.break_even_calls", (by_counting,)),
    ("jit.collatz", (jax.jit(collatz_of),)),
    ("jit.collatz", (collatz_by_cond,)),
    ("jit.break_even_calls", (rounded_up,)),
    ("jit.bucketed", (one_size,)),
    ("jit.bucketed", (compiled_by_size,)),
    ("jit.bucketed", (hundreds,)),
    ("jit.my_jit", (jit_of,)),
    ("jit.my_jit", (jit_with(kind=jax.typeof),)),
    ("jit.my_jit", (jit_by_return_shape,)),
]
