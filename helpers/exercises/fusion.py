"""Checks of the chapter on fusion."""

from __future__ import annotations

import itertools
import math
import weakref
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from helpers.check import as_array, as_number, call, exercise, expect
from helpers.costs import Cost, matmul_cost
from helpers.roofline import Roof, bound, roof

__all__ = [
    "array_crossings",
    "attention_in_blocks",
    "fence_slowdown",
    "fenced_bytes",
    "running_sum",
]


@exercise(
    "Bytes of a fenced chain",
    shows="each stretch between two fences reads the array once and writes it once",
)
def fenced_bytes(answer: Any) -> None:
    """Checks the traffic of a chain that fences cut.

    Args:
        answer: ``fenced_bytes(length, fences, size_bytes)``; see the exercise.
    """
    sizes = (1024 * factor for factor in itertools.count(1))
    for length, fences, wanted, hint in (
        (4, [], 2, "without a fence: one read and one write, however many operations"),
        (4, [], 2, "twice the array's bytes, whatever the array's size"),
        (4, [2], 4, "one fence makes two stretches, each a read and a write"),
        (5, [1, 3], 6, "two fences make three stretches"),
        (4, [4], 2, "a fence after the last operation has nothing behind it"),
        (4, [2, 2], 4, "two fences in one place are one fence"),
        (3, [2, 1], 6, "the order in which fences are listed does not matter"),
    ):
        size = next(sizes)
        found = as_number(call(answer, length, list(fences), size))
        expect(
            found == wanted * size,
            f"{length} operations with fences after {fences}: expected {wanted} × "
            f"the array's bytes, got {found / size:g} ×: {hint}",
        )


@exercise(
    "How often does the array cross?",
    shows="reductions, results and layouts make crossings; operations make none",
)
def array_crossings(answer: Any) -> None:
    """Checks the crossings of five functions.

    Args:
        answer: Five numbers, in the order of the exercise.
    """
    found = as_array(answer)
    expect(found.shape == (5,), f"expected five numbers, got the shape {found.shape}")
    for number, (given, wanted, hint) in enumerate(
        zip(
            found,
            (3, 3, 4, 5, 1),
            (
                "the argument is read once, and two results are written",
                "the sum needs all of x before the first division: x is read twice",
                "the mean, then the variance, then the result: three reads, one write",
                "the sum cannot read x sideways: a copy turns it first",
                "both sums come from one fusion that reads x once; they are small",
            ),
            strict=True,
        ),
        start=1,
    ):
        expect(given == wanted, f"function {number} is not {given:g} crossings: {hint}")


@exercise(
    "What does the fence cost in time?",
    shows="the longer the inner side, the less an unfused epilogue matters",
)
def fence_slowdown(answer: Any) -> None:
    """Checks the ratio of two bounds.

    Args:
        answer: ``fence_slowdown(rows, inner, columns, flops_per_s, bytes_per_s)``; see
            the exercise.
    """
    for chip, rows, inner, columns, hint in (
        ("v5e", 8192, 8192, 8192, "a long inner side: arithmetic binds the product"),
        ("v5e", 8192, 64, 8192, "a short inner side: memory binds the product"),
        ("v5e", 512, 4096, 1024, "the sides differ: which arrays have which size?"),
        ("v5p", 8192, 512, 8192, "another chip: use the two rates that are given"),
    ):
        machine = roof(chip, per="chip")
        wanted = _slowdown(rows, inner, columns, machine)
        rates = (machine.flops_per_s, machine.bytes_per_s)
        found = as_number(call(answer, rows, inner, columns, *rates))
        expect(
            not math.isclose(found, 1 / wanted, rel_tol=1e-6),
            "the ratio is fenced over fused: a slowdown is at least 1",
        )
        overlapped = _overlapped(rows, inner, columns, machine)
        expect(
            not math.isclose(found, overlapped, rel_tol=1e-6)
            or math.isclose(overlapped, wanted, rel_tol=1e-6),
            "the ReLU's program begins when the product's has ended: add the two "
            "bounds, do not take the larger of the summed arithmetic and bytes",
        )
        # Where arithmetic binds, both slips give the same ratio.
        for numbers, macs in ((2, 1), (4, 2)):
            slipped = _slowdown(rows, inner, columns, machine, numbers, macs)
            expect(
                not math.isclose(found, slipped, rel_tol=1e-6)
                or math.isclose(slipped, wanted, rel_tol=1e-6),
                "a factor of two: a multiplication and an addition are two FLOPs, and "
                "a bfloat16 number has two bytes",
            )
        shown = f"for {rows} × {inner} by {inner} × {columns}"
        expect(
            math.isclose(found, wanted, rel_tol=1e-3),
            f"{shown} expected {wanted:.4g}, got {found:.4g}: {hint}",
        )


def _slowdown(
    rows: int,
    inner: int,
    columns: int,
    machine: Roof,
    number_bytes: int = 2,
    flops_a_mac: int = 2,
) -> float:
    right = matmul_cost(rows, inner, columns)
    work = Cost(right.flops * flops_a_mac / 2, right.bytes_accessed * number_bytes / 2)
    product = bound(work, machine).bound_s
    relu = 2 * rows * columns * number_bytes / machine.bytes_per_s
    return (product + relu) / product


def _overlapped(rows: int, inner: int, columns: int, machine: Roof) -> float:
    product = matmul_cost(rows, inner, columns)
    both = Cost(product.flops, product.bytes_accessed + 4 * rows * columns)
    return bound(both, machine).bound_s / bound(product, machine).bound_s


@exercise(
    "A softmax's sum in one pass",
    shows="a running maximum lets the sum be corrected, so one pass is enough",
)
def running_sum(answer: Any) -> None:
    """Checks the maximum and the sum of exponentials of blocks that come by once.

    Args:
        answer: ``running_sum(blocks)``; see the exercise.
    """
    rng = np.random.default_rng()
    plain = [rng.normal(size=8) for _ in range(4)]
    falling = [np.array([3.0, 1.0]), np.array([0.0, -1.0])]
    rising = [np.array([0.0, 1.0]), np.array([5.0, 9.0]), np.array([2.0, 2.0])]
    large = [np.array([1000.0, 999.0]), np.array([1001.0, -1000.0])]
    masked = [np.array([-np.inf, -np.inf]), np.array([1.0, 2.0])]
    negative = [np.array([-5.0, -3.0]), np.array([-4.0])]
    for blocks, hint in (
        (falling, "the maximum is in the first block"),
        (rising, "a larger maximum came later: scale the sum so far by exp(old - new)"),
        (plain, "random blocks"),
        (
            negative,
            "all numbers are negative: a maximum that starts at 0 is not theirs",
        ),
        (large, "exp(1000) overflows: subtract the maximum before exponentiating"),
        (
            masked,
            "a block that is all -inf: -inf minus -inf is NaN, so guard the maximum",
        ),
    ):
        row = np.concatenate(blocks)
        wanted = row.max(), np.exp(row - row.max()).sum()
        with np.errstate(all="ignore"):
            given = call(answer, _once(blocks))
        found = as_array(given)
        expect(
            found.shape == (2,),
            f"expected the pair (maximum, sum), got the shape {found.shape}",
        )
        expect(
            np.allclose(found, wanted, rtol=1e-5),
            f"expected {wanted[0]:.6g} and {wanted[1]:.6g}, got {found[0]:.6g} and "
            f"{found[1]:.6g}: {hint}",
        )
    alive: list[int] = []
    call(answer, _let_go(alive))
    # A few may wait for work that JAX has begun; a list of all holds each of them.
    expect(
        alive and alive[0] < 16,
        "blocks are kept until the end: the row would have to fit at once; keep the "
        "maximum and the sum alone",
    )


def _once(blocks: list[np.ndarray]) -> Iterator[np.ndarray]:
    """The blocks, none of which can be asked for again."""
    yield from blocks


def _let_go(alive: list[int]) -> Iterator[np.ndarray]:
    """Many blocks; puts down how many of the early ones the answer still holds."""
    early = []
    for number in range(64):
        block = np.full(4, float(number % 7))
        if number < 32:
            early.append(weakref.ref(block))
        yield block
    del block
    alive.append(sum(each() is not None for each in early))


@exercise(
    "Attention without the square",
    shows="running sums over blocks of keys never hold a score for each pair of tokens",
)
def attention_in_blocks(answer: Any) -> None:
    """Checks attention that never holds all scores.

    Args:
        answer: ``attention_in_blocks(q, k, v, block)``; see the exercise.
    """
    # More keys than queries, so that a row of scores is known by its length.
    tokens, others, size = 64, 128, 4
    keys = jax.random.split(jax.random.key(np.random.default_rng().integers(2**31)), 3)
    q, k, v = (
        jax.random.normal(key, (count, size))
        for key, count in zip(keys, (tokens, others, others), strict=True)
    )
    for scale, block, hint in (
        (1.0, 16, "compare with softmax(q @ k.T / sqrt(H)) @ v, step by step"),
        (40.0, 8, "large scores: keep a running maximum and subtract it"),
    ):
        wanted = _attention(np.asarray(scale * q), np.asarray(k), np.asarray(v))
        found = as_array(call(answer, scale * q, k, v, block))
        expect(
            found.shape == (tokens, size),
            f"expected the shape {(tokens, size)}, got {found.shape}",
        )
        unscaled = _attention(np.asarray(scale * q) * size**0.5, k, v)
        expect(
            not np.allclose(found, unscaled, atol=1e-3),
            "the scores are divided by the square root of the head size",
        )
        expect(np.allclose(found, wanted, atol=1e-3), f"wrong numbers: {hint}")
    for block in (16, 8):
        try:
            record = jax.make_jaxpr(lambda *arrays, b=block: answer(*arrays, b))(
                q, k, v
            )
        except (
            jax.errors.TracerArrayConversionError,
            jax.errors.ConcretizationTypeError,
        ):
            expect(False, "it cannot be traced: compute with jax.numpy, not NumPy")
        shapes = list(_shapes(record.jaxpr))
        largest = max(map(math.prod, shapes), default=0)
        expect(
            largest <= tokens * block,
            f"an array of {largest} numbers is computed on the way; at most T × block "
            f"= {tokens * block} are allowed: take the keys block by block",
        )
        expect(
            not any(
                others in shape and math.prod(shape) != others * size
                for shape in shapes
            ),
            "scores of a query for all S keys are held at once: blocks of queries need "
            "no running sum; take the keys block by block",
        )


def _attention(q: Any, k: Any, v: Any) -> np.ndarray:
    scores = np.asarray(q, float) @ np.asarray(k, float).T / q.shape[-1] ** 0.5
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ np.asarray(v, float)


def _shapes(jaxpr: Any) -> Iterator[tuple[int, ...]]:
    """Shapes of all that a record computes, inside loops and calls too."""
    for equation in jaxpr.eqns:
        for each in _records(equation.params):
            yield from _shapes(each)
        # Of a loop too: it may stack what its turns give.
        yield from (out.aval.shape for out in equation.outvars)


def _records(params: dict[str, Any]) -> Iterator[Any]:
    for value in params.values():
        for each in value if isinstance(value, tuple | list) else (value,):
            record = getattr(each, "jaxpr", each)
            if hasattr(record, "eqns"):
                yield record
