"""Seconds per call of a function whose work goes on after it has returned.

JAX hands back an array before its numbers are computed. A clock that stops at the
return measures the dispatch; this one waits.
"""

from __future__ import annotations

import statistics
import timeit
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

__all__ = ["Timing", "seconds_per_call"]


@dataclass(frozen=True)
class Timing:
    """How long one call takes (measured on the device that ran it).

    Attributes:
        median_s: The median over the rounds, in seconds.
        fastest_s: The fastest round, in seconds: what other work disturbed least.
        calls: Calls in each round.
    """

    median_s: float
    fastest_s: float
    calls: int


def seconds_per_call(
    function: Callable,
    *arguments: Any,
    rounds: int = 7,
    shortest_s: float = 0.02,
    wait: bool = True,
) -> Timing:
    """Times a function after one call that is not counted, so without compilation.

    Args:
        function: What to time. It must not donate its arguments.
        *arguments: What to call it with, the same each time.
        rounds: How many times to measure, at least 1.
        shortest_s: The least duration of a round, in seconds; calls are repeated
            within a round until it takes that long.
        wait: Whether to wait for each result. Without it the time is that of handing
            the work over, and the work itself is waited for outside the clock.

    Returns:
        The seconds for one call.

    Raises:
        ValueError: If there is less than one round or the duration is not positive.
    """
    if rounds < 1:
        raise ValueError(f"expected at least one round, got {rounds}")
    if not shortest_s > 0:
        raise ValueError(f"expected a duration above 0 s, got {shortest_s!r}")
    jax.block_until_ready(function(*arguments))
    results = []

    def once() -> None:
        result = function(*arguments)
        if wait:
            jax.block_until_ready(result)
        else:
            results.append(result)

    timer, calls = timeit.Timer(once), 1

    def round_s(number: int) -> float:
        seconds = timer.timeit(number)
        jax.block_until_ready(results)
        results.clear()
        return seconds

    while (seconds := round_s(calls)) < shortest_s and calls < 10**6:
        calls = max(2 * calls, int(calls * shortest_s / max(seconds, 1e-9)))
    per_call = [round_s(calls) / calls for _ in range(rounds)]
    return Timing(statistics.median(per_call), min(per_call), calls)
