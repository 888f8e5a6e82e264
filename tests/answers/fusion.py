"""Answers to the exercises of the chapter on fusion."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np


def stretches(length, fences, size_bytes):
    return 2 * size_bytes * (1 + len({at for at in fences if 0 < at < length}))


def no_fences(length, fences, size_bytes):
    return 2 * size_bytes


def every_operation(length, fences, size_bytes):
    return 2 * size_bytes * length


def one_for_each_fence(length, fences, size_bytes):
    return 2 * size_bytes * (1 + len(fences))


def without_the_last(length, fences, size_bytes):
    return 2 * size_bytes * (1 + len([at for at in fences if at < length]))


def fences_alone(length, fences, size_bytes):
    return 2 * size_bytes * len(set(fences))


def of_one_size(length, fences, size_bytes):
    return 2048 * (1 + len({at for at in fences if at < length}))


def of_v5e(rows, inner, columns, flops_per_s, bytes_per_s):
    return slower(rows, inner, columns, 197e12, 819e9)


def bounds(rows, inner, columns, flops_per_s, bytes_per_s):
    moved = 2 * (rows * inner + inner * columns + rows * columns)
    product = max(2 * rows * inner * columns / flops_per_s, moved / bytes_per_s)
    return product, 4 * rows * columns / bytes_per_s


def slower(*numbers):
    product, relu = bounds(*numbers)
    return (product + relu) / product


def faster(*numbers):
    return 1 / slower(*numbers)


def together(rows, inner, columns, flops_per_s, bytes_per_s):
    arithmetic = 2 * rows * inner * columns / flops_per_s
    moved = 2 * (rows * inner + inner * columns + rows * columns)
    fused = max(arithmetic, moved / bytes_per_s)
    return max(arithmetic, (moved + 4 * rows * columns) / bytes_per_s) / fused


def bytes_alone(rows, inner, columns, flops_per_s, bytes_per_s):
    moved = 2 * (rows * inner + inner * columns + rows * columns)
    return (moved + 4 * rows * columns) / moved


def one_flop_a_mac(rows, inner, columns, flops_per_s, bytes_per_s):
    return slower(rows, inner, columns, 2 * flops_per_s, bytes_per_s)


def in_float32(rows, inner, columns, flops_per_s, bytes_per_s):
    return slower(rows, inner, columns, flops_per_s, bytes_per_s / 2)


def one_trip(*numbers):
    product, relu = bounds(*numbers)
    return (product + relu / 2) / product


def online(blocks):
    top, total = -np.inf, 0.0
    for block in blocks:
        new = max(top, block.max())
        if new == -np.inf:
            continue
        total = total * np.exp(top - new) + np.exp(block - new).sum()
        top = new
    return top, total


def kept_to_the_end(blocks):
    row = np.concatenate(list(blocks))
    return row.max(), np.exp(row - row.max()).sum()


def online_in_jax(blocks):
    top, total = -jnp.inf, jnp.float32(0)
    for block in blocks:
        new = jnp.maximum(top, block.max())
        safe = jnp.where(jnp.isfinite(new), new, 0)
        total = total * jnp.exp(top - safe) + jnp.exp(block - safe).sum()
        top = new
    return jnp.stack([top, total])


def twice(blocks):
    top = max(block.max() for block in blocks)
    return top, sum(np.exp(block - top).sum() for block in blocks)


def uncorrected(blocks):
    top, total = -np.inf, 0.0
    for block in blocks:
        top = max(top, block.max())
        total += np.exp(block - top).sum()
    return top, total


def without_maximum(blocks):
    blocks = list(blocks)
    total = sum(np.exp(block).sum() for block in blocks)
    top = max(block.max() for block in blocks)
    return top, total / np.exp(top)


def unguarded(blocks):
    top, total = -np.inf, 0.0
    for block in blocks:
        new = max(top, block.max())
        total = total * np.exp(top - new) + np.exp(block - new).sum()
        top = new
    return top, total


def from_zero(blocks):
    top, total = 0.0, 0.0
    for block in blocks:
        new = max(top, block.max())
        total = total * np.exp(top - new) + np.exp(block - new).sum()
        top = new
    return top, total


def sum_alone(blocks):
    return online(blocks)[1]


def blocked(q, k, v, block, scaled=True, shifted=True):
    size = q.shape[-1]
    if scaled:
        q = q / math.sqrt(size)

    def turn(carry, part):
        top, total, result = carry
        k, v = part
        scores = q @ k.T
        new = jnp.maximum(top, scores.max(-1)) if shifted else top
        weights = jnp.exp(scores - new[:, None])
        scale = jnp.exp(top - new)
        total = total * scale + weights.sum(-1)
        return (new, total, result * scale[:, None] + weights @ v), None

    tokens = q.shape[0]
    start = jnp.full(tokens, -jnp.inf if shifted else 0.0)
    carry = start, jnp.zeros(tokens), jnp.zeros((tokens, size))
    parts = k.reshape(-1, block, size), v.reshape(-1, block, size)
    (_, total, result), _ = jax.lax.scan(turn, carry, parts)
    return result / total[:, None]


def unrolled(q, k, v, block):
    top, total, result = -jnp.inf, 0.0, 0.0
    for at in range(0, len(k), block):
        scores = q @ k[at : at + block].T * q.shape[-1] ** -0.5
        new = jnp.maximum(top, scores.max(-1, keepdims=True))
        weights, scale = jnp.exp(scores - new), jnp.exp(top - new)
        total = total * scale + weights.sum(-1, keepdims=True)
        result = result * scale + weights @ v[at : at + block]
        top = new
    return result / total


def jitted(q, k, v, block):
    return jax.jit(blocked, static_argnums=3)(q, k, v, block)


def whole(q, k, v, block):
    return jax.nn.softmax(q @ k.T * q.shape[-1] ** -0.5) @ v


def of_16(q, k, v, block):
    return blocked(q, k, v, 16)


def in_numpy(q, k, v, block):
    return jnp.asarray(whole(*map(np.asarray, (q, k, v)), block))


def stacked(q, k, v, block):
    """All scores, as what a loop stacks, and another loop over them."""

    def score(_, keys):
        return None, q @ keys.T * q.shape[-1] ** -0.5

    scores = jax.lax.scan(score, None, k.reshape(-1, block, k.shape[-1]))[1]
    top = scores.max((0, 2))

    def turn(carry, part):
        weights = jnp.exp(part[0] - top[:, None])
        return (carry[0] + weights.sum(-1), carry[1] + weights @ part[1]), None

    start = jnp.zeros(len(q)), jnp.zeros(q.shape)
    parts = scores, v.reshape(-1, block, v.shape[-1])
    (total, result), _ = jax.lax.scan(turn, start, parts)
    return result / total[:, None]


def hidden(q, k, v, block):
    return jax.jit(whole, static_argnums=3)(q, k, v, block)


def unscaled(q, k, v, block):
    return blocked(q, k, v, block, scaled=False)


def unshifted(q, k, v, block):
    return blocked(q, k, v, block, shifted=False)


def averaged(q, k, v, block):
    parts = [
        whole(q, k[at : at + block], v[at : at + block], block)
        for at in range(0, len(k), block)
    ]
    return sum(parts) / len(parts)


def query_by_query(q, k, v, block):
    return jax.lax.map(lambda one: whole(one[None], k, v, block)[0], q)


def transposed(q, k, v, block):
    return blocked(q, k, v, block).T


WRONG = {
    "fusion.fenced_bytes": [
        (no_fences, "one fence makes two stretches"),
        (every_operation, "without a fence"),
        (one_for_each_fence, "nothing behind it"),
        (without_the_last, "are one fence"),
        (fences_alone, "without a fence"),
        (of_one_size, "whatever the array's size"),
    ],
    "fusion.array_crossings": [
        ([2, 3, 4, 5, 1], "two results are written"),
        ([3, 2, 4, 5, 1], "x is read twice"),
        ([3, 3, 2, 5, 1], "three reads, one write"),
        ([3, 3, 4, 3, 1], "cannot read x sideways"),
        ([3, 3, 4, 5, 2], "one fusion that reads x once"),
        ([3, 3, 4, 5], "expected five numbers"),
    ],
    "fusion.fence_slowdown": [
        (faster, "a slowdown is at least 1"),
        (together, "begins when the product's has ended"),
        (bytes_alone, "arithmetic binds"),
        (one_flop_a_mac, "are two FLOPs"),
        (in_float32, "has two bytes"),
        (one_trip, "arithmetic binds"),
        (of_v5e, "the two rates that are given"),
    ],
    "fusion.running_sum": [
        (twice, "expected"),
        (uncorrected, "scale the sum so far"),
        (without_maximum, "overflows"),
        (unguarded, "guard the maximum"),
        (from_zero, "all numbers are negative"),
        (sum_alone, "the pair"),
        (kept_to_the_end, "kept until the end"),
    ],
    "fusion.attention_in_blocks": [
        (whole, "block by block"),
        (hidden, "block by block"),
        (query_by_query, "for all S keys"),
        (stacked, "block by block"),
        (of_16, "block by block"),
        (in_numpy, "not NumPy"),
        (unscaled, "square root of the head size"),
        (unshifted, "running maximum"),
        (averaged, "step by step"),
        (transposed, "expected the shape"),
    ],
}

RIGHT = [
    ("fusion.fenced_bytes", (stretches,)),
    ("fusion.array_crossings", ((3, 3, 4, 5, 1),)),
    ("fusion.array_crossings", (np.array([3.0, 3.0, 4.0, 5.0, 1.0]),)),
    ("fusion.fence_slowdown", (slower,)),
    ("fusion.running_sum", (online,)),
    ("fusion.running_sum", (online_in_jax,)),
    ("fusion.attention_in_blocks", (blocked,)),
    ("fusion.attention_in_blocks", (unrolled,)),
    ("fusion.attention_in_blocks", (jitted,)),
]
