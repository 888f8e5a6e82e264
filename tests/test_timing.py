"""The clock: it waits for the work, leaves compilation out, and counts calls."""

from __future__ import annotations

import time

import pytest

from helpers import env

env.prepare()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

from helpers.timing import seconds_per_call  # noqa: E402


def test_a_call_of_known_length_takes_that_long():
    timing = seconds_per_call(time.sleep, 0.03, rounds=3)
    assert 0.03 <= timing.fastest_s <= timing.median_s < 0.06
    assert timing.calls == 1


def test_short_calls_are_repeated_until_a_round_is_long_enough():
    timing = seconds_per_call(lambda: None, rounds=1, shortest_s=0.005)
    assert timing.calls > 100


def test_the_clock_waits_for_the_result_unless_told_not_to():
    product = jax.jit(lambda x: x @ x)
    x = jnp.ones((1500, 1500))
    waited = seconds_per_call(product, x, rounds=3).fastest_s
    handed_over = seconds_per_call(
        product, x, rounds=3, shortest_s=1e-6, wait=False
    ).fastest_s
    assert waited > 3 * handed_over


def test_the_first_call_is_not_counted():
    calls = []

    def slow_at_first():
        calls.append(1)
        time.sleep(0.2 if len(calls) == 1 else 0.01)

    assert seconds_per_call(slow_at_first, rounds=1, shortest_s=0.005).median_s < 0.1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rounds": 0}, "at least one round, got 0"),
        ({"shortest_s": 0}, "above 0 s, got 0"),
        ({"shortest_s": float("nan")}, "above 0 s, got nan"),
    ],
)
def test_impossible_settings_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        seconds_per_call(lambda: None, **options)
