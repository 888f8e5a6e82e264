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


def order_reversed(shape, order, tile, item_bytes):
    return padded(shape, order[::-1], tile, item_bytes)


def pair(operations, capacity):
    needed = {u: math.ceil(n / capacity[u]) for u, n in operations.items()}
    unit = max(needed, key=needed.get)
    return [np.int64(needed[unit]), unit]


def summed(operations, capacity):
    needed = {u: math.ceil(n / capacity[u]) for u, n in operations.items()}
    return sum(needed.values()), max(needed, key=needed.get)


def uncut(operations, capacity):
    needed = {u: n / capacity[u] for u, n in operations.items()}
    unit = max(needed, key=needed.get)
    return needed[unit], unit


def most_operations(operations, capacity):
    unit = max(operations, key=operations.get)
    return math.ceil(operations[unit] / capacity[unit]), unit


def number_alone(operations, capacity):
    return pair(operations, capacity)[0]


def other_way_round(operations, capacity):
    return pair(operations, capacity)[::-1]


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


WRONG = {
    "tpu.clock_at_most": [
        (ONCE, "that is the bound for one product"),
        (2 * ONCE, "divide by 2, not multiply"),
        (ONCE / 4, "a multiply-accumulate is 2 FLOPs, once"),
        (ONCE / 1e9, "the clock in Hz"),
        (ONCE * 2 / 2 * 2, "divide by 2, not multiply"),
        (1.1 * ONCE, "the peak of the chip, divided by"),
        ("2.2e9", "drop the quotes"),
    ],
    "tpu.padded_bytes": [
        (unpadded, "round up, not to the nearest"),
        (order_ignored, "the order goes from the fastest dimension"),
        (tiles_forgotten_bytes, "an element has item_bytes bytes"),
        (every_dimension, "only the two fastest dimensions are tiled"),
        (order_reversed, "must be 16384, got"),
        (lambda *a: [padded(*a)], "expected"),
    ],
    "tpu.fewest_bundles": [
        (summed, "must be 512"),
        (uncut, "there is no part of a bundle"),
        (most_operations, "divide each unit's operations by its capacity"),
        (number_alone, "expected a pair of a number and a unit's name"),
        (other_way_round, "expected a number"),
        (lambda o, c: (512, "EUP"), "must be 34"),
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
        (lambda *a: scheduled(*a)[:-1], "expected times of shape"),
    ],
}

RIGHT = [
    ("tpu.clock_at_most", (np.float64(ONCE / 2),)),
    ("tpu.clock_at_most", (2.2e9,)),
    ("tpu.padded_bytes", (padded,)),
    ("tpu.padded_bytes", (lambda *a: jnp.float32(padded(*a)),)),
    ("tpu.fewest_bundles", (pair,)),
    ("tpu.passes", (steps,)),
    ("tpu.pipelined", (scheduled,)),
    ("tpu.pipelined", (as_numpy,)),
]
