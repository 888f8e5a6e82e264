"""The exercise engine: what was not attempted, what is wrong and why, what is right.

A check is a function over the learner's answer, made into an exercise by
`exercise`. Its body says what must hold, in the order in which a learner should
hear about it, and each line carries the hint for the mistake it catches.
"""

from __future__ import annotations

import dis
import functools
import inspect
import math
import numbers
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from helpers.errors import message_of, summarise
from helpers.units import python_scalar

__all__ = [
    "Exercise",
    "Wrong",
    "as_array",
    "as_number",
    "call",
    "exercise",
    "expect",
    "expect_close",
    "registered",
]

_STUB_INSTRUCTIONS = {"RESUME", "NOP", "LOAD_CONST", "RETURN_CONST", "RETURN_VALUE"}


class Wrong(AssertionError):
    """A wrong answer; its message is the hint."""

    def _render_traceback_(self) -> list[str]:
        # IPython shows this in place of a traceback: the hint is all that helps.
        return [f"Not yet: {self}"]


class _NotAttempted(Exception):
    """The starter code is still as the book gave it."""


@contextmanager
def _refusing(reason: str = "this answer could not be checked:") -> Iterator[None]:
    """Makes `Wrong` of whatever a learner's object raises, `SystemExit` included."""
    try:
        yield
    except (Wrong, _NotAttempted, KeyboardInterrupt):
        raise
    except BaseException as error:
        if _is_placeholder(error):
            raise _NotAttempted from error
        raise Wrong(f"{reason} {summarise(error)}") from error


@dataclass(frozen=True)
class Exercise:
    """An exercise as tests enumerate it.

    Attributes:
        id: ``module.function``, for example ``state.dropout_key``.
        title: What the exercise is called in its verdicts.
        check: The function that chapters call with an answer.
    """

    id: str
    title: str
    check: Callable[..., None]


_exercises: dict[str, Exercise] = {}


def registered() -> Mapping[str, Exercise]:
    """Gives the exercises of all chapter modules imported so far.

    Returns:
        A read-only mapping from id to exercise.
    """
    return MappingProxyType(_exercises)


def exercise(title: str, *, shows: str) -> Callable[[Callable], Callable[..., None]]:
    """Makes a check into an exercise: it prints or raises, and is registered.

    The exercise takes the learner's answers. It prints ``Not attempted yet`` for
    starter code: a ``...`` left in an answer or in a called function, a called
    function with an empty body, or one that raises `NotImplementedError` without a
    message. It raises `Wrong` when the check does, or when the check fails in any
    other way. Otherwise the answer is right, and it prints ``Correct``.

    Args:
        title: What the exercise is called.
        shows: What a right answer shows, as a sentence.

    Returns:
        The decorator.
    """

    def decorate(check: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(check)
        def judge(*answers: Any) -> None:
            try:
                with _refusing():
                    for answer in answers:
                        _require_attempt(answer)
                    check(*answers)
            except _NotAttempted:
                print(f"Not attempted yet: {title}.")
            else:
                print(f"Correct: {shows.removesuffix('.')}.")

        chapter = check.__module__.rpartition(".")[2]
        name = f"{chapter}.{check.__name__}"
        _exercises[name] = Exercise(name, title, judge)
        return judge

    return decorate


@_refusing()
def expect(condition: Any, hint: str) -> None:
    """Requires a condition.

    Args:
        condition: A bool, or a NumPy or JAX scalar that is one.
        hint: What the learner reads if it does not hold.

    Raises:
        Wrong: If the condition is false, or neither true nor false.
    """
    if not bool(condition):
        raise Wrong(hint)


@_refusing()
def as_number(answer: Any) -> float:
    """Takes a learner's answer as one finite number.

    Args:
        answer: An int or float, or a NumPy, JAX or PyTorch scalar.

    Returns:
        The number.

    Raises:
        Wrong: If the answer is anything else; the hint says what was given.
    """
    answer = python_scalar(answer)
    if isinstance(answer, str):
        raise Wrong(f"expected a number, got the text {answer[:40]!r}: drop the quotes")
    if isinstance(answer, tuple):
        raise Wrong(
            f"expected a number, got a tuple of {len(answer)}: "
            "a comma makes a tuple; the decimal sign is a point"
        )
    if getattr(answer, "shape", ()) != ():
        raise Wrong(f"expected one number, got an array of shape {answer.shape}")
    if isinstance(answer, bool) or not isinstance(answer, numbers.Real):
        raise Wrong(f"expected a number, got {_described(answer)}")
    value = float(answer)
    if not math.isfinite(value):
        raise Wrong(f"expected a finite number, got {value}")
    return value


@_refusing()
def as_array(answer: Any) -> np.ndarray:
    """Takes a learner's answer as an array of finite or infinite numbers.

    Args:
        answer: A number, a nested sequence, or a NumPy, JAX or PyTorch array.

    Returns:
        A float64 array, or complex128 if the answer is complex.

    Raises:
        Wrong: If the answer holds anything but numbers.
    """
    if hasattr(answer, "detach"):
        answer = answer.detach()  # PyTorch converts no tensor that requires grad
    try:
        array = np.asarray(answer)
    except ValueError:
        raise Wrong(
            f"expected an array, got {_described(answer)} with rows of unequal length"
        ) from None
    if array.dtype.kind in "OSUMmb":
        raise Wrong(f"expected an array of numbers, got {_described(answer)}")
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def expect_close(
    actual: Any, wanted: Any, hint: str, *, rtol: float = 1e-6, atol: float = 0.0
) -> None:
    """Requires numbers or arrays to agree in shape and, within tolerance, in value.

    Args:
        actual: The learner's number or array.
        wanted: What it must agree with.
        hint: What the learner reads if the values differ.
        rtol: Tolerance relative to the wanted value.
        atol: Absolute tolerance, in the unit of the wanted value.

    Raises:
        Wrong: If a shape or a value differs, or a value is NaN.
    """
    actual, wanted = as_array(actual), as_array(wanted)
    if actual.shape != wanted.shape:
        raise Wrong(f"expected the shape {wanted.shape}, got {actual.shape}")
    with np.errstate(all="ignore"):
        expect(np.allclose(actual, wanted, rtol=rtol, atol=atol), hint)


@_refusing()
def call(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Calls a learner's function.

    Args:
        function: The answer.
        *args: What to call it with.
        **kwargs: What to call it with by name.

    Returns:
        What the function returns.

    Raises:
        Wrong: If the answer cannot be called, raises, or forgets to return; the
            learner's exception is its cause.
    """
    if not callable(function):
        raise Wrong(f"expected a function, got {_described(function)}")
    with _refusing("your function raised"):
        result = function(*args, **kwargs)
    _require_attempt(result)
    if result is None:
        if _is_stub(function):
            raise _NotAttempted
        raise Wrong("your function returned None: is a return missing?")
    return result


def _require_attempt(answer: Any) -> None:
    items = answer.values() if isinstance(answer, dict) else answer
    containers = (tuple, list, dict, set, frozenset)
    nested = items if isinstance(answer, containers) else ()
    if answer is ... or any(item is ... for item in nested):
        raise _NotAttempted


def _is_placeholder(error: BaseException) -> bool:
    # JAX raises NotImplementedError too, but never without a message. A `...` left
    # inside a function reaches operators and transformations, whose messages name
    # its class.
    message = message_of(error)
    bare = isinstance(error, NotImplementedError) and not message
    return bare or "'ellipsis'" in message


def _is_stub(function: Any) -> bool:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return code is not None and all(
        step.opname in _STUB_INSTRUCTIONS for step in dis.get_instructions(code)
    )


def _described(answer: Any) -> str:
    if answer is None:
        return "None"
    kind = type(answer).__name__
    return f"{'an' if kind[0].lower() in 'aeiou' else 'a'} {kind}"
