"""Mistakes shown on purpose: the class and the point of an error, and no traceback.

A chapter that shows a mistake must still show it after the next release, so
`raises` insists on the class it is given and fails the cell if nothing, or
something else, was raised. What it prints is free of paths, addresses and line
numbers, so the output is the same on every machine.
"""

from __future__ import annotations

import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

__all__ = ["Shown", "message_of", "raises", "summarise", "warns"]

LINE_CHARACTERS = 76
MESSAGE_CHARACTERS = 320

_PATH = r"(?:(?<![\w:/.<>~)\]])/|(?<!\w)[A-Za-z]:\\)[\w.@+~-]+(?:[/\\][\w.@+~-]+)*"
_CLEANERS = (
    (re.compile(r"\x1b\[[0-9;]*[A-Za-z]"), ""),
    # JAX's own account of where: "The error occurred while tracing f at FILE:LINE".
    (re.compile(rf"\s+at {_PATH}(?::\d+)+"), ""),
    (re.compile(r"(?:\s+at)?\s+0x[0-9a-fA-F]{6,}"), ""),
    (re.compile(rf"({_PATH})(?::\d+)+"), r"\1"),
    # A notebook's cell is a file in a folder that the kernel's process id names.
    (re.compile(r"\S*ipykernel_\d+[/\\]\d+\.py"), "this cell"),
    (re.compile(_PATH), lambda path: re.split(r"[/\\]", path[0])[-1]),
)
_SENTENCE_END = re.compile(r"(?<!e\.g\.)(?<!i\.e\.)(?<=[.!?])\s+(?=[A-Z`])")


@dataclass
class Shown:
    """What a block of `raises` or `warns` met, for assertions after the block.

    Attributes:
        error: The exception or warning, without its traceback; None before the
            block has ended.
        message: Its whole text, as `str` gives it.
    """

    error: BaseException | None = None
    message: str = ""


def message_of(error: BaseException) -> str:
    """Gives an exception's whole text, also if the exception cannot give it.

    Args:
        error: The exception, perhaps of a class that a learner wrote.

    Returns:
        ``str(error)``, or nothing if that fails.
    """
    try:
        return str(error)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return ""


def summarise(error: BaseException) -> str:
    """Names an exception and its first sentence, the same on every machine.

    Args:
        error: The exception.

    Returns:
        ``Class: sentence`` without paths, line numbers, addresses and colours, at
        most about 320 characters long.
    """
    name = type(error).__name__
    sentence = _first_sentence(message_of(error))
    return f"{name}: {sentence}" if sentence else name


@contextmanager
def raises(*expected: type[BaseException], contains: str = "") -> Iterator[Shown]:
    """Requires the block to raise, and prints the class and the first sentence.

    Args:
        *expected: The classes that are right; a subclass of one is right too.
        contains: Text that the message must contain.

    Yields:
        A record whose `error` and `message` are set when the block has raised.

    Raises:
        AssertionError: If the block raises nothing, something else, or a message
            without the text; what was raised is its cause.
        TypeError: If no exception class is given, or `contains` is not text.
    """
    _require_classes(expected, BaseException)
    _require_text(contains)
    wanted = " or ".join(kind.__name__ for kind in expected)
    shown = Shown()
    try:
        yield shown
    except expected as error:
        shown.error, shown.message = error.with_traceback(None), message_of(error)
    except Exception as other:
        raise AssertionError(f"expected {wanted}, got {summarise(other)}") from other
    if shown.error is None:
        raise AssertionError(f"expected {wanted}, but nothing was raised")
    _first_containing(contains, [shown.error])
    _show(summarise(shown.error))


@contextmanager
def warns(category: type[Warning], contains: str = "") -> Iterator[Shown]:
    """Requires the block to warn, and prints the category and the first sentence.

    The first warning of the category that contains the text is shown; warnings with
    other messages are passed on.

    Args:
        category: The class of warning that is right; a subclass is right too.
        contains: Text that the warning must contain.

    Yields:
        A record whose `error` and `message` are set when the block has ended.

    Raises:
        AssertionError: If the block gives no such warning.
        TypeError: If the category is not a class of warnings, or `contains` no text.
    """
    _require_classes((category,), Warning)
    _require_text(contains)
    shown = Shown()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield shown
    right = [one.message for one in caught if issubclass(one.category, category)]
    if not right:
        raise AssertionError(f"expected {category.__name__}, but nothing warned of it")
    shown.error = _first_containing(contains, right)
    shown.message = message_of(shown.error)
    for record in caught:
        if message_of(record.message) != shown.message:
            warnings.warn_explicit(
                record.message, record.category, record.filename, record.lineno
            )
    _show(summarise(shown.error))


def _require_classes(classes: tuple, base: type) -> None:
    for kind in classes:
        if not (isinstance(kind, type) and issubclass(kind, base)):
            raise TypeError(f"expected a class of {base.__name__}, got {kind!r}")
    if not classes:
        raise TypeError("expected at least one exception class, got none")


def _require_text(contains: str) -> None:
    if not isinstance(contains, str):
        raise TypeError(f"expected contains to be text, got {contains!r}")


def _first_containing(text: str, errors: Sequence[BaseException]) -> BaseException:
    for error in errors:
        if text in message_of(error):
            return error
    raise AssertionError(
        f"expected a message containing {text!r}, got {summarise(errors[0])}"
    ) from errors[0]


def _first_sentence(message: str) -> str:
    for pattern, replacement in _CLEANERS:
        message = pattern.sub(replacement, message)
    lines = [line.strip() for line in message.splitlines() if line.strip(" -=^\t")]
    if not lines:
        return ""
    # A line such as "Missing keys:" promises the next one.
    taken = " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
    sentence = _SENTENCE_END.split(taken, maxsplit=1)[0]
    return _shortened(" ".join(sentence.split()))


def _shortened(sentence: str) -> str:
    """Cuts after a word, or within one that takes up most of the line."""
    if len(sentence) <= MESSAGE_CHARACTERS:
        return sentence
    room = MESSAGE_CHARACTERS - len(" …")
    words = sentence[: room + 1].rpartition(" ")[0]
    return f"{words} …" if len(words) > room // 2 else f"{sentence[:room]}…"


def _show(line: str) -> None:
    print(
        textwrap.fill(
            line, LINE_CHARACTERS, break_long_words=False, break_on_hyphens=False
        )
    )
