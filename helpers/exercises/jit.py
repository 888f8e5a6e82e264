"""Checks of the chapter on jit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from helpers.check import Wrong, as_array, as_number, call, exercise, expect
from helpers.tracing import compilations, watch

__all__ = ["break_even_calls", "bucketed", "collatz", "my_jit", "which_trace"]

_jit = jax.jit


@exercise(
    "Which calls trace?",
    shows="structure, type, weakness and static values make a new trace",
)
def which_trace(answer: Any) -> None:
    """Checks which of the eight calls run the Python code.

    Args:
        answer: The numbers of the calls, from 1, in any collection.
    """
    expect(
        isinstance(answer, Iterable) and not isinstance(answer, str | bytes),
        "expected a list of the calls' numbers, such as [1, 2]",
    )
    numbers = {as_number(number) for number in answer}
    expect(0 not in numbers, "the calls are numbered from 1")
    expect(numbers <= set(range(1, 9)), "the calls have the numbers 1 to 8")
    for number, hint in (
        (1, "the first call of a new function always traces"),
        (3, "call 3 has another static value"),
        (4, "call 4 brings a float32 with a strong type, not a Python number"),
        (5, "call 5 brings a list: another structure"),
        (6, "call 6 brings a tuple; a tuple and a list are two structures"),
        (7, "call 7 brings a dictionary: another structure"),
    ):
        expect(number in numbers, hint)
    expect(2 not in numbers, "call 2 differs from call 1 in a value, and values do not")
    expect(
        8 not in numbers,
        "call 8 has the types of call 7: entries are sorted by key, and NumPy's "
        "float64 is narrowed to float32 before JAX looks",
    )


@exercise(
    "When does it pay?",
    shows="a compilation is paid back by the saving of each call, if there is one",
)
def break_even_calls(answer: Any) -> None:
    """Checks the number of calls after which compiling has paid.

    Args:
        answer: ``break_even_calls(first_s, later_s, other_s)``; see the exercise.
    """
    for times, wanted, hint in (
        ((1.75, 0.125, 0.625), 4, "there is no part of a call: round up"),
        (
            (2.25, 0.5, 1.0),
            4,
            "the first call counts as one of the calls: after n calls the jitted "
            "function has taken first + (n - 1) · later",
        ),
        (
            (1.0, 0.125, 0.25),
            7,
            "when both have taken the same, it has taken no longer",
        ),
        ((1.0, 0.25, 0.25), math.inf, "no saving, so it never pays: math.inf"),
        ((1.0, 0.5, 0.25), math.inf, "a slower function never pays: math.inf"),
        ((0.25, 0.125, 0.5), 1, "the first call may already be the faster one: 1"),
        ((0.25, 0.5, 0.25), 1, "after one call it has taken no longer, so 1"),
    ):
        given = call(answer, *times)
        found = math.inf if _is_infinite(given) else as_number(given)
        shown = f"for {times} expected {wanted}, got {found:g}"
        expect(found == wanted, f"{shown}: {hint}")


def _is_infinite(value: Any) -> bool:
    try:
        return not isinstance(value, str) and float(value) == math.inf
    except (TypeError, ValueError):
        return False


def _collatz_steps(n: int) -> int:
    steps = 0
    while n != 1:
        n, steps = 3 * n + 1 if n % 2 else n // 2, steps + 1
    return steps


@exercise(
    "A loop that nobody can unroll",
    shows="one record serves every number of turns, also when each example has its own",
)
def collatz(answer: Any) -> None:
    """Checks the number of steps to 1, traced, and for a batch.

    Args:
        answer: ``collatz(n)``; see the exercise.
    """
    # A table of the small ones and a fixed number of turns must both fail.
    known = (1, 2, 3, 6, 7, 27, 97, *np.random.default_rng().integers(1, 9999, 3))
    steps = {n: _collatz_steps(n) for n in map(int, (*known, 230_631))}
    # A function of another shape than the answer's own, so that it is traced anew.
    watched = watch(lambda n: answer(n))
    for n, wanted in steps.items():
        try:
            given = call(watched, n)
        except Wrong as refusal:
            if "Tracer" in str(refusal) or "Concretization" in str(refusal):
                raise Wrong(
                    "a Python while, if, range or int() needs a value, and under jit "
                    f"n has none: use lax.while_loop and jnp.where ({refusal})"
                ) from refusal
            if "static" in str(refusal):
                raise Wrong(
                    "a static n is a trace for each n: let it be traced, and use "
                    f"lax.while_loop ({refusal})"
                ) from refusal
            raise
        found = as_array(given)
        expect(found.shape == (), f"expected one number, got the shape {found.shape}")
        expect(
            jnp.issubdtype(jnp.result_type(given), jnp.integer),
            "the number of steps must have an integer type",
        )
        expect(
            found != wanted + 1,
            f"collatz({n}) must be {wanted}, got {wanted + 1}: count the steps, not "
            "the numbers on the way",
        )
        expect(
            found == wanted,
            f"collatz({n}) must be {wanted}, got {found:.0f}: a table, a fixed "
            "number of turns, a float and a short integer type all end somewhere",
        )
    expect(
        len(watched.traces) == 1,
        f"one trace must serve every n, got {len(watched.traces)}",
    )
    # A fori_loop between two Python numbers is recorded as a scan.
    record = str(jax.make_jaxpr(lambda n: answer(n))(27))
    expect(
        "scan[" not in record or "while[" in record,
        "a fixed number of turns, however large, is too many for most n and too few "
        "for some: use lax.while_loop",
    )
    batch = jnp.array(list(steps))
    expect(
        np.array_equal(as_array(call(jax.vmap(answer), batch)), [*steps.values()]),
        "right one by one, and wrong under jax.vmap",
    )


@exercise(
    "Any length, eleven traces",
    shows="padding in NumPy and a traced length turn a thousand shapes into eleven",
)
def bucketed(answer: Any) -> None:
    """Checks that a thousand lengths cost at most eleven programs.

    Args:
        answer: ``bucketed(function)``; see the exercise.
    """
    sizes: list[int] = []

    def function(x: Any, length: Any) -> tuple:
        if not isinstance(x, jax.core.Tracer):
            raise Wrong("function must be called under jax.jit")
        if not isinstance(length, jax.core.Tracer):
            raise Wrong("a length that is static or in a closure is a trace a length")
        if len(x.shape) != 1 or x.dtype != jnp.float32:
            raise Wrong(f"function must get a float32 vector, got {jax.typeof(x)}")
        sizes.append(x.shape[0])
        counts = jnp.arange(x.shape[0]) < length
        return jnp.where(counts, x, 0).sum(), length, jnp.where(counts, 0, x).sum()

    apply = call(answer, function)
    rng = np.random.default_rng()
    lengths = [1, 2, 3, 512, 513, 1000, *rng.integers(1, 1001, 40).tolist()]
    with compilations() as compiled:
        for length in lengths:
            x = rng.uniform(1, 2, length).astype(np.float32)
            total, counted, padding = call(apply, x)
            expect(
                int(as_number(counted)) == length,
                f"for {length} numbers function was told {counted}: the length is how "
                "many count, not the size with the padding",
            )
            close = np.isclose(float(total), x.sum(), rtol=1e-4)
            expect(close, f"the first {length} numbers must be x itself")
            expect(float(padding) == 0, "the padding must be zeros")
            expect(
                len(sizes) <= 11 or len(set(sizes)) > 11,
                "more than 11 traces, though no more sizes: pad x before it meets jit, "
                "and jit once, outside apply, since a new function is a new trace",
            )
            expect(
                len(sizes) <= 11,
                "more than 11 traces: x must be padded before it meets jit, to one of "
                f"11 sizes at most (sizes so far: {sorted(set(sizes))})",
            )
            expect(
                len(compiled) <= 33,
                f"{len(compiled)} programs were compiled for a few dozen lengths, "
                f"among them {compiled[-1:]}: an eager operation is compiled for each "
                "shape too, so pad with NumPy",
            )
    expect(sizes, "function was never called")


@contextmanager
def _without_jit() -> Iterator[None]:
    """Refuses ``jax.jit`` while it lasts; JAX itself does not go through this name."""

    def refused(*args: Any, **kwargs: Any) -> None:
        raise Wrong("my_jit may not use jax.jit")

    jax.jit = refused
    try:
        yield
    finally:
        jax.jit = _jit


@exercise(
    "Your own jit",
    shows="jit is a dictionary from kinds of arguments to programs",
)
def my_jit(answer: Any) -> None:
    """Checks results, runs of the Python code, and composition.

    Args:
        answer: ``my_jit(function, static_argnums=())``; see the exercise.
    """
    with _without_jit():
        _check_kinds(answer)
        _check_static(answer)
        _check_composition(answer)
        _check_played(answer)


def _check_played(answer: Any) -> None:
    # The attribute can be refused, a reference taken earlier cannot. But a record that
    # is played compiles each operation by itself, under the operation's name.
    fresh = np.ones(int(np.random.default_rng().integers(10_000, 99_999)), np.float32)
    with compilations() as compiled:
        call(call(answer, lambda x: jax.lax.cosh(x) + 1), fresh)
    expect("jit(cosh)" in compiled, "my_jit may not use jax.jit")


def _counted(function: Callable) -> tuple[Callable, list[int]]:
    runs: list[int] = []

    def counting(*arguments: Any) -> Any:
        runs.append(1)
        return function(*arguments)

    return counting, runs


def _same(given: Any, wanted: Any, what: str) -> None:
    expect(
        jax.tree.structure(given) == jax.tree.structure(wanted),
        f"{what}: expected the structure {jax.tree.structure(wanted)}, got "
        f"{jax.tree.structure(given)}",
    )
    for mine, theirs in zip(
        jax.tree.leaves(given), jax.tree.leaves(wanted), strict=True
    ):
        expect(
            np.shape(mine) == np.shape(theirs) and np.allclose(mine, theirs),
            f"{what}: expected {theirs}, got {mine}; do the arguments of this call "
            "reach the program?",
        )


def _check_kinds(answer: Any) -> None:
    def function(tree: Any) -> dict:
        return {
            "twice": jax.tree.map(lambda x: 2 * x, tree),
            "count": jnp.asarray(len(jax.tree.leaves(tree))),
        }

    counting, runs = _counted(function)
    mine = call(answer, counting)
    three = np.arange(3, dtype=np.float32)
    for argument, new, kind in (
        (1.0, 1, "the first call"),
        (5.0, 0, "the same type with another value"),
        (_jit(lambda x: x)(1.0), 0, "JAX's array of a weak type after a Python number"),
        (np.float32(5), 1, "a strong float32 after a weak one"),
        (5, 1, "an integer"),
        (three, 1, "another shape"),
        (jnp.asarray(three) + 1, 0, "JAX's array after NumPy's"),
        (np.array([1, 2, 3]), 1, "the same shape in another type"),
        ([three, 1.0], 1, "a list"),
        ((three, 1.0), 1, "a tuple after a list"),
        ({"b": three, "a": None}, 1, "a dictionary"),
        ({"a": None, "b": three + 1}, 0, "the dictionary in another order"),
        (2.0, 0, "a kind seen long ago"),
    ):
        before = len(runs)
        try:
            given = call(mine, argument)
        except Wrong as refusal:
            if "unpack" in str(refusal):
                raise Wrong(
                    "a result may be a tree of several leaves: flatten it while it is "
                    f"traced and put the played leaves together again ({refusal})"
                ) from refusal
            raise
        _same(given, function(argument), kind)
        found = len(runs) - before
        expect(
            found == new,
            f"{kind}: the Python code must run {new or 'no'} more time"
            f"{'' if new else 's'}, it ran {found}",
        )


def _check_static(answer: Any) -> None:
    for static_argnums in (1, (1,)):
        counting, runs = _counted(lambda x, n, y: [x * n] * int(n) + [y])
        mine = call(answer, counting, static_argnums)
        for n, wanted in ((2, 1), (3, 2), (2, 2), (2.0, 3), (True, 4), (1, 5)):
            given = call(mine, jnp.ones(2), n, 7.0)
            _same(given, [jnp.ones(2) * n] * int(n) + [7.0], f"static n={n!r}")
            expect(
                len(runs) == wanted,
                f"static values {n!r}: expected {wanted} runs so far, got {len(runs)}; "
                "equal values of two types are two static values",
            )


def _check_composition(answer: Any) -> None:
    counting, runs = _counted(lambda w, x: jnp.sum(jnp.tanh(w["w"] * x)))
    mine = call(answer, counting)
    w, x = {"w": jnp.ones(3)}, jnp.arange(3.0)
    plain = jax.grad(lambda w, x: jnp.sum(jnp.tanh(w["w"] * x)))(w, x)
    for outer in (jax.grad(mine), _jit(jax.grad(mine)), jax.grad(mine)):
        _same(call(outer, w, x), plain, "under jax.grad")
    total = call(_jit(lambda w, x: mine(w, x) + mine(w, 2 * x)), w, x)
    expect(
        np.isclose(total, np.tanh(x).sum() + np.tanh(2 * x).sum()),
        "inside jax.jit the two calls must use their own arguments",
    )
    expect(
        len(runs) == 1,
        f"one kind of arguments in all of this, and the code ran {len(runs)} times",
    )
