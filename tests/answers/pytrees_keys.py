"""Answers to the exercises of the chapter on pytrees and keys."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import jax
import jax.numpy as jnp


def counts_leaves(params):
    return {name: len(jax.tree.leaves(part)) for name, part in params.items()}


def counts_arrays_only(params):
    return {
        name: sum(leaf.size for leaf in jax.tree.leaves(part))
        for name, part in params.items()
    }


def skips_empty_parts(params):
    return {
        name: sum(jnp.size(leaf) for leaf in jax.tree.leaves(part))
        for name, part in params.items()
        if jax.tree.leaves(part)
    }


def one_sum(params):
    return sum(jnp.size(leaf) for leaf in jax.tree.leaves(params))


def keys_in_order(key, tree):
    leaves, structure = jax.tree.flatten(tree)
    return jax.tree.unflatten(structure, list(jax.random.split(key, len(leaves))))


def keys_by_hash(key, tree):
    def key_of(path, leaf):
        return jax.random.fold_in(key, hash(jax.tree_util.keystr(path)) % 2**32)

    return jax.tree.map_with_path(key_of, tree)


def keys_by_last_name(key, tree):
    def key_of(path, leaf):
        name = jax.tree_util.keystr(path[-1:])
        return jax.random.fold_in(key, zlib.crc32(name.encode()))

    return jax.tree.map_with_path(key_of, tree)


def keys_without_the_key(key, tree):
    def key_of(path, leaf):
        return jax.random.key(zlib.crc32(jax.tree_util.keystr(path).encode()))

    return jax.tree.map_with_path(key_of, tree)


def keys_by_sum_of_parts(key, tree):
    def key_of(path, leaf):
        parts = [zlib.crc32(str(part).encode()) for part in path]
        return jax.random.fold_in(key, sum(parts) % 2**32)

    return jax.tree.map_with_path(key_of, tree)


def keys_with_few_values(key, tree):
    def key_of(path, leaf):
        name = jax.tree_util.keystr(path)
        return jax.random.fold_in(key, zlib.crc32(name.encode()) % 256)

    return jax.tree.map_with_path(key_of, tree)


def keys_by_name_and_value(key, tree):
    def key_of(path, leaf):
        name = jax.tree_util.keystr(path)
        folded = jax.random.fold_in(key, zlib.crc32(name.encode()))
        return jax.random.fold_in(folded, leaf)

    return jax.tree.map_with_path(key_of, tree)


def one_key_for_all(key, tree):
    return jax.tree.map(lambda leaf: key, tree)


def cipher(words, counter, *, rounds=5, first=0, swap=False, scalar=False):
    k0, k1 = (jnp.uint32(word) for word in words)
    keys = (k0, k1, k0 ^ k1 ^ jnp.uint32(0x1BD11BDA))
    a, b = (jnp.asarray(word, jnp.uint32) for word in counter)
    if scalar:
        a, b = a.ravel()[0], b.ravel()[0]
    a, b = a + keys[0], b + keys[1]
    for i in range(1, rounds + 1):
        turns = ((13, 15, 26, 6), (17, 29, 16, 24))[(i - 1 + first) % 2]
        for r in turns:
            a = a + b
            b = ((b << jnp.uint32(r)) | (b >> jnp.uint32(32 - r))) ^ a
        a, b = a + keys[i % 3], b + keys[(i + 1) % 3] + jnp.uint32(i)
    return (b, a) if swap else (a, b)


def cipher_with(**changes) -> Callable:
    return lambda words, counter: cipher(words, counter, **changes)


WRONG = {
    "pytrees_keys.leaves_in_order": [
        ([1, 2, 3, 4, 5], "order in which they were written"),
        ([2, None, 3, {}, 5, 4, 1], "None is structure"),
        ([2, 3, 4, 5, 1], "x comes before y"),
        ([2, 3, {}, 5, 4, 1], "has no leaves and is none"),
        ([2, 3, 5, 4], "there are 5 leaves, got 4"),
        ("23541", "expected a list"),
    ],
    "pytrees_keys.count_by_part": [
        (counts_leaves, "not the leaves"),
        (counts_arrays_only, "your function raised AttributeError"),
        (skips_empty_parts, "also empty"),
        (one_sum, "expected a dictionary"),
    ],
    "pytrees_keys.keys_by_name": [
        (keys_in_order, "changed when other leaves were added"),
        (keys_by_hash, "another one in every process"),
        (keys_by_last_name, "two leaves got the same key"),
        (keys_without_the_key, "fold the name into the key given"),
        (one_key_for_all, "two leaves got the same key"),
        (keys_by_sum_of_parts, "two leaves got the same key"),
        (keys_with_few_values, "two leaves got the same key"),
        (keys_by_name_and_value, "changed with the leaf's value"),
        (lambda key, tree: jax.random.split(key), "structure of the tree"),
        (lambda key, tree: tree, "must be one key"),
    ],
    "pytrees_keys.threefry": [
        (cipher_with(rounds=4), "must give"),
        (cipher_with(first=1), "must give"),
        (cipher_with(swap=True), "wrong order"),
        (cipher_with(scalar=True), "arrays of counters"),
        (lambda words, counter: words[0], "pair of words"),
    ],
}

RIGHT = [
    ("pytrees_keys.threefry", (cipher,)),
    ("pytrees_keys.threefry", (lambda *words: jnp.stack(cipher(*words)),)),
]
