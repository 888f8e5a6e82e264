"""The counter of traces: what it counts, what it says, and that JAX agrees."""

from __future__ import annotations

import functools
import logging

import pytest

from helpers import env

env.prepare()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

from helpers.tracing import compilations, explained, watch  # noqa: E402


def doubled(x):
    return 2 * x


def test_a_call_is_traced_once_and_then_comes_from_the_cache():
    f = watch(doubled)
    assert [float(f(1.0)), float(f(3.0))] == [2.0, 6.0]
    assert [call.outcome for call in f.calls] == ["traced", "cached"]
    assert [call.compiles for call in f.calls] == [1, 0]
    assert str(f.calls[0]) == "call 1: traced doubled(float32[]*)"
    assert str(f.calls[1]) == "call 2: cached"


def test_two_that_watch_one_function_share_nothing():
    first, second = watch(doubled), watch(doubled)
    first(1.0), second(1.0)
    assert len(first.traces) == len(second.traces) == 1


def test_traces_name_types_structures_and_static_values():
    def f(tree, n, *, kind="a"):
        return jax.tree.map(lambda leaf: n * leaf, tree)

    watched = watch(f, static_argnames=("n", "kind"))
    watched({"b": jnp.ones((2, 3)), "a": (1, None)}, 4, kind="text")
    (seen,) = watched.traces
    assert seen == ("f({'a': (int32[]*, None), 'b': float32[2,3]}, 4, kind='text')")
    watched(jnp.ones(1, "bfloat16"), n=2)
    assert watched.traces[1] == "f(bfloat16[1], n=2)"


def test_static_functions_are_named_without_their_address():
    watched = watch(lambda g, x: g(x), static_argnums=0)
    watched(doubled, 1.0)
    watched(functools.partial(doubled), 1.0)
    assert watched.traces[0] == "<lambda>(doubled, float32[]*)"
    assert "0x" not in watched.traces[1]


def test_one_trace_can_be_compiled_for_two_devices():
    f = watch(doubled)
    for device in jax.devices("cpu")[:2]:
        f(jax.device_put(jnp.ones(3), device))
    assert [call.outcome for call in f.calls] == ["traced", "compiled"]


def test_running_without_jit_is_no_trace():
    f = watch(doubled)
    with jax.disable_jit():
        assert f(2.0) == 4.0
    assert f.traces == () and f.calls[0].outcome == "cached"


def test_lowering_traces_without_a_call():
    f = watch(doubled)
    assert "stablehlo" in f.lower(jnp.ones(3)).as_text()
    assert f.traces == ("doubled(float32[3])",) and f.calls == []


def test_errors_pass_and_the_log_goes_on():
    def picky(x):
        if x.shape:
            raise ValueError("expected a scalar")
        return x

    f = watch(picky)
    with pytest.raises(ValueError, match="expected a scalar"):
        f(jnp.ones(3))
    f(1.0)
    assert [call.outcome for call in f.calls] == ["traced"]


def test_only_functions_can_be_watched():
    with pytest.raises(ValueError, match="expected a function, got 3"):
        watch(3)


def test_compilations_lists_eager_operations_too_and_stops():
    with compilations() as compiled:
        jnp.cosh(np.ones(7, np.float32)) + np.ones(7, np.float32)
    assert "jit(cosh)" in compiled
    count = len(compiled)
    jnp.cosh(np.ones(11, np.float32))
    assert len(compiled) == count


def test_jax_explains_as_many_misses_as_there_are_traces():
    logger = logging.getLogger("jax")
    before = logger.handlers[:], logger.propagate
    f = watch(doubled)
    with explained() as misses:
        for x in (1.0, 2.0, np.float32(1), jnp.ones(3), jnp.ones(4)):
            f(x)
    assert len(misses) == len(f.traces) == 4
    assert "never seen function" in misses[0] and "weak_type" in misses[1]
    assert misses[3].endswith("before f32[3]") and "({})" not in "".join(misses)
    assert not any("/" in miss or ".py" in miss or "id=" in miss for miss in misses)
    assert (logger.handlers, logger.propagate) == before
