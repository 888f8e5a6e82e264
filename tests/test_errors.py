"""Shown mistakes: what is printed, what is refused, and in which words."""

from __future__ import annotations

import re
import warnings

import pytest

from helpers.errors import (
    LINE_CHARACTERS,
    MESSAGE_CHARACTERS,
    raises,
    summarise,
    warns,
)


def test_raises_prints_class_and_first_sentence(capsys):
    with raises(ValueError):
        raise ValueError("expected 3, got 4. See the manual.\nA second line.")
    assert capsys.readouterr().out == "ValueError: expected 3, got 4.\n"


def test_raises_gives_back_the_error_without_its_frames():
    with raises(KeyError, contains="weights") as shown:
        raise KeyError("weights")
    assert isinstance(shown.error, KeyError)
    assert shown.error.__traceback__ is None
    assert shown.message == "'weights'"


def test_raises_accepts_subclasses_and_alternatives(capsys):
    with raises(OSError, LookupError):
        raise IndexError("list index out of range")
    assert capsys.readouterr().out == "IndexError: list index out of range\n"


def test_raises_accepts_stop_iteration():
    with raises(StopIteration) as shown:
        next(iter(()))
    assert isinstance(shown.error, StopIteration)


def test_raises_refuses_silence(capsys):
    with pytest.raises(AssertionError, match="expected TypeError, but nothing was"):
        with raises(TypeError):
            pass
    assert capsys.readouterr().out == ""


def test_raises_refuses_another_class_and_names_it():
    message = "expected TypeError or KeyError, got ValueError: no such axis"
    with pytest.raises(AssertionError, match=message) as failure:
        with raises(TypeError, KeyError):
            raise ValueError("no such axis")
    assert isinstance(failure.value.__cause__, ValueError)


def test_raises_refuses_another_message():
    message = "expected a message containing 'fun', got TypeError: missing axis_name"
    with pytest.raises(AssertionError, match=message) as failure:
        with raises(TypeError, contains="fun"):
            raise TypeError("missing axis_name")
    assert isinstance(failure.value.__cause__, TypeError)


def test_raises_lets_an_interruption_through():
    with pytest.raises(KeyboardInterrupt):
        with raises(ValueError):
            raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ((), "expected at least one exception class, got none"),
        (("TypeError",), "expected a class of BaseException, got 'TypeError'"),
        ((int,), "expected a class of BaseException, got <class 'int'>"),
    ],
)
def test_raises_refuses_what_is_no_exception(classes, message):
    with pytest.raises(TypeError, match=re.escape(message)):
        with raises(*classes):
            pass


@pytest.mark.parametrize(
    ("message", "summary"),
    [
        ("", "E"),
        ("\n\nNot equal to tolerance\n\nx: 1", "E: Not equal to tolerance"),
        ("Missing keys:\n\t'weight'\n\t'bias'", "E: Missing keys: 'weight'"),
        ("\x1b[31mred\x1b[0m text", "E: red text"),
        (
            "while tracing f at /home/ann/book.py:12 for jit.",
            "E: while tracing f for jit.",
        ),
        ("no such file: '/home/ann/data/x.npz'", "E: no such file: 'x.npz'"),
        ("see /tmp/a.py:3:14", "E: see a.py"),
        ("see /tmp/ipykernel_7/12.py:3", "E: see this cell"),
        (r"open C:\Users\ann\x.npz", "E: open x.npz"),
        ("<function f at 0x7f156eff22a0> failed", "E: <function f> failed"),
        ("read https://docs.jax.dev/en/latest/errors.html", None),
        ("cannot add float32[3]/2 and 1 / 2 m/s, e.g. One", None),
        ("fusion(/*index=5*/%p, {1,0:T(8,128)})", None),
        ("got <class 'ellipsis'>; use </b> and/or ~/x", None),
    ],
)
def test_summary_is_free_of_what_varies(message, summary):
    kind = type("E", (Exception,), {})
    assert summarise(kind(message)) == (summary or f"E: {message}")


def test_summary_is_short():
    text = summarise(ValueError("word " * 500))
    assert len(text) < 340
    assert text.endswith("word …")


@pytest.mark.parametrize("start", ["", "expected a shape, got "])
def test_summary_cuts_a_long_word(start):
    text = summarise(ValueError(start + "x" * 5000))
    assert text.startswith(f"ValueError: {start}xxxx")
    assert text.endswith("x…")
    assert 300 < len(text) < 340


def test_summary_of_the_longest_uncut_message():
    message = "x" * MESSAGE_CHARACTERS
    assert summarise(ValueError(message)) == f"ValueError: {message}"


@pytest.mark.parametrize("inner", [RuntimeError, SystemExit])
def test_summary_survives_a_broken_exception(inner):
    class Broken(Exception):
        def __str__(self):
            raise inner("no text")

    assert summarise(Broken()) == "Broken"


def test_long_messages_are_wrapped(capsys):
    with raises(ValueError):
        raise ValueError("expected " + "a shape " * 20)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert 60 < max(map(len, lines)) <= LINE_CHARACTERS


def test_jax_error_is_the_same_everywhere(capsys):
    import jax

    with raises(jax.errors.TracerBoolConversionError) as shown:
        jax.make_jaxpr(lambda x: 1 if x > 0 else 2)(1.0)
    assert __file__ in shown.message
    assert " ".join(capsys.readouterr().out.split()) == (
        "TracerBoolConversionError: Attempted boolean conversion of traced array with "
        "shape bool[]."
    )


def test_warns_prints_the_warning_once(capsys):
    with warns(UserWarning, contains="float64") as shown:
        warnings.warn("float64 is not available. See the manual.", stacklevel=1)
        warnings.warn("float64 is not available. See the manual.", stacklevel=1)
    assert capsys.readouterr().out == "UserWarning: float64 is not available.\n"
    assert isinstance(shown.error, UserWarning)


def test_warns_passes_other_warnings_on():
    with pytest.warns(DeprecationWarning, match="old"):
        with warns(UserWarning):
            warnings.warn("old", DeprecationWarning, stacklevel=1)
            warnings.warn("truncated", stacklevel=1)


def test_warns_accepts_a_later_warning_and_passes_the_first_on(capsys):
    with pytest.warns(UserWarning, match="truncated"):
        with warns(UserWarning, contains="float64") as shown:
            warnings.warn("truncated", stacklevel=1)
            warnings.warn("float64 is not available", stacklevel=1)
    assert shown.message == "float64 is not available"
    assert capsys.readouterr().out == "UserWarning: float64 is not available\n"


def test_warns_refuses_other_messages_and_quotes_the_first():
    message = "expected a message containing 'int8', got UserWarning: truncated"
    with pytest.raises(AssertionError, match=message) as failure:
        with warns(UserWarning, contains="int8"):
            warnings.warn("truncated", stacklevel=1)
            warnings.warn("float64 is not available", stacklevel=1)
    assert isinstance(failure.value.__cause__, UserWarning)


def test_warns_refuses_silence():
    with pytest.raises(AssertionError, match="expected UserWarning, but nothing"):
        with warns(UserWarning):
            pass


def test_warns_lets_an_error_through():
    with pytest.raises(ZeroDivisionError):
        with warns(UserWarning):
            _ = 1 / 0


def test_warns_refuses_an_exception_class():
    with pytest.raises(TypeError, match="expected a class of Warning, got"):
        with warns(ValueError):
            pass


@pytest.mark.parametrize("block", [raises, warns])
def test_contains_is_text(block):
    with pytest.raises(TypeError, match="expected contains to be text, got 64"):
        with block(UserWarning, contains=64):
            pass
