"""Answers to the exercises of the chapter on the units of a TPU."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np

from helpers.chips import chip

ONCE = chip("tpu7x").clock_bound_hz


def padded(shape, order, tile, item_bytes):
    size = item_bytes
    for place, dimension in enumerate(order):
        height = tile[-1 - place] if place < len(tile) else 1
        size *= -(-shape[dimension] // height) * height
    return size


def unpadded(shape, order, tile, item_bytes):
    return math.prod(shape) * item_bytes


def order_ignored(shape, order, tile, item_bytes):
    return padded(shape, range(len(shape) - 1, -1, -1), tile, item_bytes)


def tiles_forgotten_bytes(shape, order, tile, item_bytes):
    return padded(shape, order, tile, 4)


def every_dimension(shape, order, tile, item_bytes):
    whole = (8,) * (len(shape) - len(tile)) + tuple(tile)
    return padded(shape, order, whole, item_bytes)


def tile_reversed(shape, order, tile, item_bytes):
    return padded(shape, order, tile[::-1], item_bytes)


def tile_at_least_one(shape, order, tile, item_bytes):
    return padded([max(length, 1) for length in shape], order, tile, item_bytes)


def order_reversed(shape, order, tile, item_bytes):
    return padded(shape, order[::-1], tile, item_bytes)


def streamed(m, k, n, side, group=8):
    tiles = math.ceil(k / side) * math.ceil(n / side)
    return tiles * group * math.ceil(m / group)


def steps(m, k, n, side):
    return jnp.int32(min(streamed(m, k, n, side), streamed(n, k, m, side)))


def one_way(m, k, n, side):
    return streamed(m, k, n, side)


def rows_uncounted(m, k, n, side):
    return min(streamed(m, k, n, side, 1), streamed(n, k, m, side, 1))


def rows_padded_to_side(m, k, n, side):
    return streamed(m, k, n, side, side)


def contraction_cut(m, k, n, side):
    return min(streamed(m, k // side * side, n, side), streamed(n, k, m, side))


def dearer(m, k, n, side):
    return max(streamed(m, k, n, side), streamed(n, k, m, side))


def one_by_one(tiles, steps, capacity, latency, registers):
    times, time = [], 0
    for _ in range(tiles):
        row = []
        for unit in steps:
            row.append(time)
            time += latency[unit]
        times.append(row)
    return times


def scheduled(tiles, steps, capacity, latency, registers, free=None):
    """In order, each tile as early as units and registers allow."""
    free = registers if free is None else free
    used, times = {}, []
    for tile in range(tiles):
        start = 0 if tile < free else times[tile - free][-1] + 1
        time, row = start, []
        if tile:
            time = max(time, times[-1][0])
        for unit in steps:
            while used.get((unit, time), 0) >= capacity[unit]:
                time += 1
            used[unit, time] = used.get((unit, time), 0) + 1
            row.append(time)
            time += latency[unit]
        times.append(row)
    return times


def as_numpy(*arguments):
    return np.array(scheduled(*arguments), float)


def registers_ignored(tiles, steps, capacity, latency, registers):
    return scheduled(tiles, steps, capacity, latency, registers, free=tiles)


def latency_ignored(tiles, steps, capacity, latency, registers):
    return scheduled(tiles, steps, capacity, dict.fromkeys(latency, 1), registers)


def capacity_ignored(tiles, steps, capacity, latency, registers):
    return scheduled(tiles, steps, dict.fromkeys(capacity, tiles), latency, registers)


def transposed(*arguments):
    return np.array(scheduled(*arguments)).T


def nothing(tiles, steps, capacity, latency, registers):
    return [[0.5 + 20 * n for n in range(len(steps))] for _ in range(tiles)]


def endless(*arguments):
    return np.full_like(scheduled(*arguments), np.inf, dtype=float)


def late(*arguments):
    return np.array(scheduled(*arguments)) + 900_000_000


WRONG = {
    "tpu.clock_at_most": [
        (ONCE, "the MXUs of both TensorCores count"),
        (2 * ONCE, "divide by the products a cycle"),
        (ONCE / 4, "a multiply-accumulate is 2 FLOPs"),
        (ONCE / 1e9, "the clock in Hz"),
        (1.1 * ONCE, "the peak of the chip, divided by"),
        ("2.2e9", "drop the quotes"),
    ],
    "tpu.padded_bytes": [
        (unpadded, "round every length up"),
        (tile_reversed, "the tile's last length lies on the fastest"),
        (tile_at_least_one, "nothing takes no bytes"),
        (order_ignored, "the order goes from the fastest dimension"),
        (tiles_forgotten_bytes, "an element has item_bytes bytes"),
        (every_dimension, "only the two fastest dimensions are tiled"),
        (order_reversed, "must be 16384, got"),
        (lambda *a: [padded(*a)], "expected"),
    ],
    "tpu.passes": [
        (one_way, "let the 513 stream"),
        (rows_uncounted, "rows come in groups of 8"),
        (rows_padded_to_side, "rows come in groups of 8"),
        (contraction_cut, "a contraction of 513 needs a fifth row"),
        (dearer, "must be"),
        (lambda m, k, n, side: m * k * n / side**2, "needs a fifth row of tiles"),
    ],
    "tpu.pipelined": [
        (one_by_one, "start the next tile before the last one is done"),
        (registers_ignored, "tiles are held at once, from their first step"),
        (latency_ignored, "a step must wait for the result"),
        (capacity_ignored, "in one bundle, and there is room for"),
        (transposed, "one row a tile"),
        (nothing, "bundles are numbered 0, 1, 2"),
        (endless, "bundles are numbered 0, 1, 2"),
        (late, "start the next tile before the last one is done"),
        (lambda *a: np.array(scheduled(*a)) + 1j, "bundles are numbered 0, 1, 2"),
        (lambda *a: [[1], [1, 2]], "unequal length"),
        (lambda *a: scheduled(*a)[:-1], "expected times of shape"),
    ],
}

RIGHT = [
    ("tpu.clock_at_most", (np.float64(ONCE / 2),)),
    ("tpu.clock_at_most", (2.2e9,)),
    ("tpu.padded_bytes", (padded,)),
    ("tpu.padded_bytes", (lambda *a: jnp.float32(padded(*a)),)),
    ("tpu.passes", (steps,)),
    ("tpu.pipelined", (scheduled,)),
    ("tpu.pipelined", (as_numpy,)),
]
