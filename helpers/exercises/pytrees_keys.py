"""Checks of the chapter on pytrees and keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from helpers.check import Wrong, call, exercise, expect

__all__ = ["count_by_part", "keys_by_name", "leaves_in_order", "threefry"]


@exercise("Leaves in order", shows="dictionaries sort their keys, at every level")
def leaves_in_order(answer: Any) -> None:
    """Checks the leaves of the nest in the exercise.

    Args:
        answer: The leaves, as a list or tuple.
    """
    expect(
        isinstance(answer, list | tuple),
        f"expected a list of leaves, got a {type(answer).__name__}",
    )
    answer = list(answer)
    expect(None not in answer, "None is structure, not a leaf.")
    expect({} not in answer, "an empty dictionary has no leaves and is none.")
    expect(len(answer) == 5, f"there are 5 leaves, got {len(answer)}.")
    expect(answer != [1, 2, 3, 4, 5], "that is the order in which they were written.")
    expect(
        answer != [2, 3, 4, 5, 1],
        "the inner dictionary sorts its keys as well: x comes before y.",
    )
    expect(answer == [2, 3, 5, 4, 1], "sort the keys of each dictionary: a, m, z.")


@exercise("Count by part", shows="leaves are counted the same whatever holds them")
def count_by_part(answer: Any) -> None:
    """Checks a count of parameters by top-level name.

    Args:
        answer: ``count_by_part(params)``; see the exercise.
    """
    params = {
        "encoder": [{"w": jnp.zeros((3, 4)), "b": jnp.zeros(4)}, (jnp.zeros(2), None)],
        "scale": 2.0,
        "empty": {},
        "head": jnp.zeros((4, 5)),
    }
    counts = call(answer, params)
    expect(isinstance(counts, dict), "expected a dictionary from names to counts")
    missing = set(params) - set(counts)
    expect(
        not missing,
        f"every top-level name needs a count, also {', '.join(sorted(missing))}",
    )
    expect(
        counts["encoder"] != 3,
        "count the numbers in the leaves, not the leaves: use their size",
    )
    expect(counts["empty"] == 0, "a part without leaves counts 0")
    expect(counts["scale"] == 1, "a Python number is one leaf with one number")
    wanted = {"encoder": 18, "scale": 1, "empty": 0, "head": 20}
    expect(counts == wanted, f"expected {wanted}, got {counts}")


@contextmanager
def _no_hash_of_text(function: Callable) -> Iterator[None]:
    """Refuses ``hash`` of a text or bytes by the learner's module while it runs."""
    names = getattr(function, "__globals__", None)
    if names is None:
        yield
        return

    def stable_hash(value: Any) -> int:
        if not isinstance(value, int | float):
            raise Wrong(
                "Python's hash of a text is another one in every process (unless "
                "PYTHONHASHSEED is set), and so would the keys be"
            )
        return hash(value)

    kept = names.get("hash", stable_hash)
    names["hash"] = stable_hash
    try:
        yield
    finally:
        if kept is stable_hash:
            del names["hash"]
        else:
            names["hash"] = kept


@exercise(
    "Keys by name",
    shows="a key made from a name does not care what else the model contains",
)
def keys_by_name(answer: Any) -> None:
    """Checks keys that depend on a leaf's path alone.

    Args:
        answer: ``keys_by_name(key, tree)``; see the exercise.
    """
    key = jax.random.key(0)
    small = {"body": [{"w": 0, "b": 0}], "head": {"w": 0}}
    large = {"body": [{"w": 0, "b": 0}, {"w": 0}], "a": 0, "head": {"w": 0, "v": 0}}
    # Paths of the same parts in another order, and as many as a large model has.
    large["swapped"] = {"x": {"y": 0}, "y": {"x": 0}, "x0": 0, "0x": 0}
    large["many"] = {f"layer{number}": number for number in range(400)}
    with _no_hash_of_text(answer):
        few, many = _keys(answer, key, small), _keys(answer, key, large)
        other = _keys(answer, jax.random.key(1), small)
        filled = _keys(answer, key, jax.tree.map(lambda leaf: leaf + 5, small))
    words = {path: tuple(np.asarray(value).tolist()) for path, value in many.items()}
    expect(
        len(set(words.values())) == len(words),
        "two leaves got the same key; does each part of the path count?",
    )
    for path, value in few.items():
        expect(
            np.array_equal(value, many[path]),
            f"the key of {path} changed when other leaves were added; it may depend "
            "on its path alone",
        )
        expect(
            np.array_equal(value, filled[path]),
            f"the key of {path} changed with the leaf's value; it may depend on its "
            "path alone",
        )
        expect(
            not np.array_equal(value, other[path]),
            "another key must give other keys: fold the name into the key given",
        )


def _keys(answer: Any, key: jax.Array, tree: Any) -> dict[str, np.ndarray]:
    """The words of the learner's keys, by path."""
    keys = call(answer, key, tree)
    expect(
        jax.tree.structure(keys) == jax.tree.structure(tree),
        "the result must have the structure of the tree, with a key at each leaf",
    )
    found = jax.tree.leaves_with_path(keys)
    expect(
        all(
            hasattr(leaf, "dtype")
            and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
            and leaf.shape == ()
            for _, leaf in found
        ),
        "each leaf of the result must be one key",
    )
    return {
        jax.tree_util.keystr(path): np.asarray(jax.random.key_data(leaf))
        for path, leaf in found
    }


@exercise(
    "Threefry, from the paper",
    shows="JAX's random bits are a cipher's output, at the position you ask for",
)
def threefry(answer: Any) -> None:
    """Checks the cipher against published words and against ``jax.random.bits``.

    Args:
        answer: ``threefry(key_words, counter_words)``; see the exercise.
    """
    # Known answers of the Random123 library for 20 rounds (kat_vectors).
    known = [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        (
            (0xFFFFFFFF, 0xFFFFFFFF),
            (0xFFFFFFFF, 0xFFFFFFFF),
            (0x1CB996FC, 0xBB002BE7),
        ),
        (
            (0x13198A2E, 0x03707344),
            (0x243F6A88, 0x85A308D3),
            (0xC4923A9C, 0x483DF7A0),
        ),
    ]
    for key_words, counter_words, wanted in known:
        key_pair = tuple(map(jnp.uint32, key_words))
        counter_pair = tuple(map(jnp.uint32, counter_words))
        pair = call(answer, key_pair, counter_pair)
        expect(
            isinstance(pair, tuple | list | np.ndarray | jax.Array)
            and np.ndim(pair) > 0
            and len(pair) == 2,
            "threefry must return a pair of words",
        )
        first, second = (int(word) for word in pair)
        expect(
            (second, first) != wanted,
            "the right two words, in the wrong order",
        )
        expect(
            (first, second) == wanted,
            f"the key {_hex(key_words)} and the counter {_hex(counter_words)} must "
            f"give {_hex(wanted)}, got {_hex((first, second))}",
        )
    key = jax.random.key(2026)
    words = tuple(jax.random.key_data(key))
    counters = jnp.zeros(1000, jnp.uint32), jnp.arange(1000, dtype=jnp.uint32)
    first, second = call(answer, words, counters)
    expect(
        np.array_equal(first ^ second, jax.random.bits(key, (1000,))),
        "single words are right, but arrays of counters do not give JAX's bits",
    )


def _hex(words: tuple[int, ...]) -> str:
    return "(" + ", ".join(f"{word:#010x}" for word in words) + ")"
