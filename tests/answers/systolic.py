"""Answers to the exercises of the chapter on systolic arrays."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from helpers.systolic import simulate
from helpers.systolic_counts import Array, count, cycles, phases


def leaving_by_cycles(m, n, rows):
    return cycles(m + 1, 1, 1, Array(rows, 1)) + n


def idle(m, k, n, side, overlap=True):
    return phases(m, k, n, Array(side, side, overlap=overlap))


def idle_in_cycles(m, k, n, side):
    spent = idle(m, k, n, side)
    return {"fill": spent.load + spent.skew, "wait": spent.wait, "padding": 0}


def idle_without_skew(m, k, n, side):
    right = idle_right(m, k, n, side)
    return right | {"fill": side**2 * idle(m, k, n, side).load}


def idle_one_by_one(m, k, n, side):
    spent, cells = idle(m, k, n, side, overlap=False), side**2
    return {
        "fill": cells * (spent.load + spent.skew),
        "wait": 0,
        "padding": cells * spent.stream - m * k * n,
    }


def idle_without_wait(m, k, n, side):
    return idle_right(m, k, n, side) | {"wait": 0}


def idle_without_padding(m, k, n, side):
    return idle_right(m, k, n, side) | {"padding": 0}


def idle_right(m, k, n, side):
    counted, spent, cells = (
        count(m, k, n, Array(side, side, overlap=True)),
        idle(m, k, n, side),
        np.int64(side) ** 2,
    )
    fill, wait = cells * (3 * side - 2), float(cells * spent.wait)
    padding = counted.cell_cycles - counted.macs - fill - wait
    return {"padding": padding, "wait": wait, "fill": fill}


SIDES = (32, 64, 128, 256)


def sided(products, *, share=lambda n, arrays: -(-n // arrays), tie=-1, overlap=True):
    def total(side):
        array = Array(side, side, overlap=overlap)
        arrays = 65_536 // side**2
        return sum(
            cycles(m, k, max(1, share(n, arrays)), array) for m, k, n in products
        )

    return min(SIDES, key=lambda side: (total(side), tie * side))


def sided_by_utilization(products):
    def useful(side):
        array = Array(side, side, overlap=True)
        return sum(count(*product, array).utilization for product in products)

    return max(SIDES, key=useful)


def finish_in_lists(work, fetch, buffers, *, ahead=None, overlapping=True):
    fetched, worked = [], []
    held = buffers if ahead is None else ahead(buffers)
    for i, length in enumerate(work):
        memory = fetched[-1] if i else 0
        place = worked[i - held] if i >= held else 0
        if not overlapping:
            place = worked[-1] if i else 0
        fetched.append(max(memory, place) + fetch)
        worked.append(max(fetched[-1], worked[-1] if i else 0) + length)
    return worked[-1]


def finish_by_rule(work, fetch, buffers):
    if buffers == 1:
        return sum(work) + fetch * len(work)
    return fetch + sum(max(length, fetch) for length in work[:-1]) + work[-1]


def finish_by_events(work, fetch, buffers):
    """Counts cycles one by one."""
    now, fetched, done, left, loading = 0, 0, 0, 0, 0
    while done < len(work):
        if not left and fetched > done:
            left = work[done]
        if not loading and fetched < len(work) and fetched - done < buffers:
            loading = fetch
        now += 1
        if loading:
            loading -= 1
            fetched += not loading
        if left:
            left -= 1
            done += not left
    return np.float32(now)


def arrays_of(a, b, *, late=(1, 1), fill=None, extra=0, flow=True):
    (m, length), n = a.shape, b.shape[1]
    right = down = total = np.zeros((m, n), int)
    history = []
    for cycle in range(m + n + length - 2 + extra):

        def entering(values, lane, skew, cycle=cycle):
            at = cycle - skew * lane
            return values[at] if 0 <= at < length else (fill or 0)

        rows = [entering(a[i], i, late[0]) for i in range(m)]
        cols = [entering(b[:, j], j, late[1]) for j in range(n)]
        if flow:
            right = np.column_stack([rows, right[:, :-1]])
            down = np.vstack([cols, down[:-1]])
        else:
            right = np.repeat(np.array(rows)[:, None], n, axis=1)
            down = np.repeat(np.array(cols)[None], m, axis=0)
        total = total + right * down
        history.append((right, down, total))
    return history


def outer_products(a, b):
    total, history = 0, []
    for k in range(a.shape[1]):
        right = np.repeat(a[:, k, None], b.shape[1], axis=1)
        down = np.repeat(b[None, k], len(a), axis=0)
        total = total + right * down
        history.append((right, down, total))
    return history


def result_alone(a, b):
    zeros = np.zeros((len(a), b.shape[1]))
    empty = (zeros, zeros, zeros)
    return [empty] * (len(a) + b.shape[1] + a.shape[1] - 3) + [(zeros, zeros, a @ b)]


def in_place(a, b):
    shape = (len(a), b.shape[1])
    right, down, total = (np.zeros(shape, int) for _ in range(3))
    history = []
    for now_right, now_down, now_total in arrays_of(a, b):
        right[:], down[:], total[:] = now_right, now_down, now_total
        history.append((right, down, total))
    return history


def from_the_simulator(a, b):
    array = Array(len(a), b.shape[1], "os")
    run = simulate(a.astype(np.int8), b.astype(np.int8), array, record=True)
    end = len(a) + b.shape[1] + a.shape[1] - 2
    names = ("operand", "operand_down", "sum")
    return [tuple(run.frames[name][t] for name in names) for t in range(end)]


def in_jax(a, b):
    return tuple(
        [jnp.asarray(part) for part in frame] for frame in arrays_of(np.asarray(a), b)
    )


WRONG = {
    "systolic.leaving_cycle": [
        (lambda m, n, rows: 2 * rows + m + n - 1, "counted from 1"),
        (lambda m, n, rows: rows + m + n, "have to be loaded first"),
        (lambda m, n, rows: 2 * rows + m, "one cycle later"),
        (lambda m, n, rows: 2 * rows + n, "one cycle behind"),
        (lambda m, n, rows: rows + 3 + m + n, "to load, and one to multiply"),
        (lambda m, n, rows: 6, "to load, and one to multiply"),
        (lambda m, n, rows: 2 * rows + max(m, n), "m and n add up"),
        (lambda m, n, rows: str(2 * rows + m + n), "drop the quotes"),
    ],
    "systolic.idle_cells": [
        (idle_in_cycles, "these are cycles"),
        (idle_without_skew, "`skew`"),
        (idle_one_by_one, "once, since tiles overlap"),
        (idle_without_wait, "see `wait`"),
        (idle_without_padding, "cells × stream"),
        (lambda *shape: 0, "expected a dictionary"),
    ],
    "systolic.best_side": [
        (lambda products: 256, "loads its weights sooner"),
        (lambda products: 32, "leave 28 empty"),
        (lambda products: 128, "loads its weights sooner"),
        (lambda products: sided(products, overlap=False), "cycles by side"),
        (lambda products: sided(products, share=lambda n, a: n // a), "rounded up"),
        (sided_by_utilization, "cycles by side"),
        (lambda products: 65_536, "expected one of"),
        (lambda products: sided(products[:1]), "add their cycles"),
    ],
    "systolic.finish": [
        (lambda work, fetch, buffers: sum(work), "fetched, then worked on"),
        (lambda work, fetch, buffers: fetch + sum(work), "nothing is fetched during"),
        (
            lambda *given: finish_in_lists(*given, overlapping=False),
            "runs during the first work",
        ),
        (finish_by_rule, "fetches ahead of long work"),
        (
            lambda *given: finish_in_lists(*given, ahead=lambda b: b + 1),
            "nothing is fetched during",
        ),
        (
            lambda *given: finish_in_lists(*given, ahead=lambda b: min(b, 2)),
            "fetches ahead of long work",
        ),
    ],
    "systolic.output_stationary": [
        (outer_products, "not in the left neighbour"),
        (lambda a, b: arrays_of(a, b, flow=False), "not in the left neighbour"),
        (lambda a, b: arrays_of(a, b, late=(0, 0)), "start i and j cycles late"),
        (lambda a, b: arrays_of(a, b, late=(1, 0)), "start i and j cycles late"),
        (lambda a, b: arrays_of(a, b, extra=2), "and there are"),
        (result_alone, "something else than the product"),
        (in_place, "make a new one each cycle"),
        (lambda a, b: a @ b, "a list with an entry for each cycle"),
        (lambda a, b: [a @ b], "three arrays"),
    ],
}

RIGHT = [
    ("systolic.leaving_cycle", (lambda m, n, rows: np.float32(m + n + 2 * rows),)),
    (
        "systolic.leaving_cycle",
        (lambda m, n, rows: cycles(m + 1, 1, 1, Array(rows, 1)) + n,),
    ),
    ("systolic.idle_cells", (idle_right,)),
    ("systolic.best_side", (sided,)),
    ("systolic.best_side", (lambda products: np.int64(sided(products)),)),
    ("systolic.finish", (finish_in_lists,)),
    ("systolic.finish", (finish_by_events,)),
    ("systolic.output_stationary", (arrays_of,)),
    ("systolic.output_stationary", (in_jax,)),
    ("systolic.output_stationary", (from_the_simulator,)),
]
