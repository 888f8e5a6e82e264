"""Watches a jitted function: which calls ran its Python code, and on what.

The Python code of a jitted function runs only while the function is traced. So a
function that notes its own runs counts traces, without a look inside JAX. Compilations
are counted by JAX's public events, since one trace can be compiled more than once.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax

__all__ = ["Call", "Watched", "compilations", "explained", "watch"]

_COMPILED = "/jax/core/compile/backend_compile_duration"
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
# Places, and the empty set of mesh axes that some types carry.
_LOCATION = re.compile(
    r"( id=\d+)|( defined)? at \S+:\d+(:\d+)?( \(.*?\))?|(?<=\])\(\{\}\)"
)


@dataclass(frozen=True)
class Call:
    """One call of a watched function.

    Attributes:
        number: Which call it was, from 1.
        traces: What each trace during the call saw, such as ``"f(float32[8]*, n=3)"``;
            a star marks a weak type, and static values stand as they are.
        compiles: How many programs were made of the function during the call, those
            that JAX found in its cache on disk included.
    """

    number: int
    traces: tuple[str, ...]
    compiles: int

    @property
    def outcome(self) -> str:
        """``"traced"``, ``"compiled"`` from an older trace, or else ``"cached"``."""
        return "traced" if self.traces else "compiled" if self.compiles else "cached"

    def __str__(self) -> str:
        """Names the call, what became of it, and what its traces saw."""
        return " ".join([f"call {self.number}: {self.outcome}", *self.traces])


class _Leaf:
    """Prints as its text, also inside the containers of a pytree."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _described(leaf: Any) -> _Leaf:
    if not isinstance(leaf, jax.core.Tracer):
        name = getattr(leaf, "__qualname__", None) or repr(leaf)
        return _Leaf(_ADDRESS.sub("", name))
    shape = ",".join(map(str, leaf.shape))
    return _Leaf(f"{leaf.dtype}[{shape}]{'*' if leaf.weak_type else ''}")


class Watched:
    """A function under ``jax.jit`` that keeps a log of its calls.

    Attributes:
        calls: The calls so far, in order.
    """

    def __init__(self, function: Callable, **options: Any) -> None:
        """Jits the function with the options of ``jax.jit``."""
        if not callable(function):
            raise ValueError(f"expected a function, got {function!r}")
        name = getattr(function, "__name__", type(function).__name__)
        self.calls: list[Call] = []
        self._seen: list[str] = []

        @functools.wraps(function)
        def noted(*args: Any, **kwargs: Any) -> Any:
            if not jax.config.jax_disable_jit:  # then this is no trace
                shown = [repr(jax.tree.map(_described, a)) for a in args]
                for key, value in kwargs.items():
                    shown.append(f"{key}={jax.tree.map(_described, value)!r}")
                self._seen.append(f"{name}({', '.join(shown)})")
            return function(*args, **kwargs)

        noted.__name__ = name
        self._name = f"jit({name})"
        self._jitted = jax.jit(noted, **options)
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the jitted function and notes what the call caused."""
        before = len(self._seen)
        with compilations() as compiled:
            result = self._jitted(*args, **kwargs)
        compiles = compiled.count(self._name)
        number = len(self.calls) + 1
        self.calls.append(Call(number, tuple(self._seen[before:]), compiles))
        return result

    @property
    def traces(self) -> tuple[str, ...]:
        """What each trace so far saw, those of ``lower`` included."""
        return tuple(self._seen)

    @property
    def lower(self) -> Callable:
        """Traces and lowers without running, as ``jax.jit``'s function does."""
        return self._jitted.lower


def watch(function: Callable, **options: Any) -> Watched:
    """Jits a function and keeps a log of which calls traced and compiled it.

    Each watched function has its own cache of traces, even if two watch the same
    function.

    Args:
        function: What to jit.
        **options: Options of ``jax.jit``, such as ``static_argnames``.

    Returns:
        An object that is called like the jitted function; it does not bind ``self``,
        so watch no methods. A call that raises is not in its log.

    Raises:
        ValueError: If there is no function to jit.
    """
    return Watched(function, **options)


@contextmanager
def compilations() -> Iterator[list[str]]:
    """Lists what is compiled in the block, by anybody, eager operations included.

    Yields:
        A list that grows by a name such as ``"jit(f)"`` with each program.
    """
    found: list[str] = []

    def listen(event: str, seconds: float, **details: Any) -> None:
        if event == _COMPILED:
            found.append(str(details.get("fun_name", "")))

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield found
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


class _Collecting(logging.Handler):
    """Keeps the explanations of cache misses, without what differs between runs."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if "CACHE MISS" in text:
            lines = [_LOCATION.sub("", line).strip() for line in text.splitlines()[1:]]
            point = [re.sub("https?:.*", "", line) for line in lines if line[:1] == "*"]
            self.messages.append(" ".join(point or lines))


@contextmanager
def explained() -> Iterator[list[str]]:
    """Collects JAX's own explanations of why a function had to be traced.

    Yields:
        A list that grows by a message with each trace, without places and addresses.
        The wording is that of the JAX version.
    """
    logger, collecting = logging.getLogger("jax"), _Collecting()
    others, propagates = logger.handlers[:], logger.propagate
    logger.handlers, logger.propagate = [collecting], False
    try:
        with jax.explain_cache_misses(True):
            yield collecting.messages
    finally:
        logger.handlers, logger.propagate = others, propagates
