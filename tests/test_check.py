"""The exercise engine: three outcomes, each in words that help a learner."""

from __future__ import annotations

import functools
import math
import re
import sys
from fractions import Fraction

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from helpers import check
from helpers.check import (
    Wrong,
    as_array,
    as_number,
    call,
    exercise,
    expect,
    expect_close,
    registered,
)


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    monkeypatch.setattr(check, "_exercises", {})


def make_number():
    @exercise("A number", shows="seven is the count")
    def number(answer):
        expect(as_number(answer) == 7, "count again")

    return number


def make_array():
    @exercise("An array", shows="the sum is right.")
    def array(answer):
        expect_close(answer, [1.0, 2.0], "add, do not subtract")

    return array


def make_function():
    @exercise("A function", shows="it squares")
    def square(answer):
        expect_close(call(answer, 3.0), 9.0, "square it")

    return square


def empty(x): ...


def documented(x):
    """Squares x."""


def unwritten(x):
    raise NotImplementedError


def placeholder(x):
    return ...


def half_written(x):
    y = ...
    return y * x


def forgetful(x):
    x**2  # noqa: B018


def not_supported(x):
    raise NotImplementedError("no differentiation rule for 'sort'")


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no text")


class Rude:
    """An object whose every method that a check could meet fails or lies."""

    dtype = "rude"

    def __eq__(self, other):
        return True

    __hash__ = None

    def __float__(self):
        raise RuntimeError("no float")

    def __bool__(self):
        raise RuntimeError("no truth")

    def __repr__(self):
        raise RuntimeError("no text")

    def __array__(self, *args, **kwargs):
        raise Mute

    def __call__(self, *args):
        return self

    @property
    def shape(self):
        raise RuntimeError("no shape")


def mute(x):
    raise Mute


def leaving(x):
    sys.exit(1)


def endless(x):
    return endless(x)


class Wrapped:
    """A function that claims to wrap itself and returns nothing."""

    def __call__(self, x): ...

    @property
    def __wrapped__(self):
        return self


def test_right_answers_say_what_they_show(capsys):
    make_number()(7)
    make_array()([1.0, 2.0])
    make_function()(lambda x: x * x)
    assert capsys.readouterr().out.splitlines() == [
        "Correct: seven is the count.",
        "Correct: the sum is right.",
        "Correct: it squares.",
    ]


@pytest.mark.parametrize(
    "answer",
    [..., (..., 7), [7, ...], {"count": ...}, {"a", ...}, frozenset({7, ...})],
)
def test_ellipsis_is_not_attempted(answer, capsys):
    make_number()(answer)
    assert capsys.readouterr().out == "Not attempted yet: A number.\n"


@pytest.mark.parametrize(
    "starter",
    [
        empty,
        documented,
        unwritten,
        placeholder,
        half_written,
        lambda x: (1, ...),
        lambda x: {1, ...},
    ],
)
def test_starter_functions_are_not_attempted(starter, capsys):
    make_function()(starter)
    assert capsys.readouterr().out == "Not attempted yet: A function.\n"


@pytest.mark.parametrize("starter", [empty, unwritten, placeholder, half_written])
def test_starter_functions_are_not_attempted_under_jit(starter, capsys):
    import jax

    make_function()(jax.jit(starter))
    assert capsys.readouterr().out == "Not attempted yet: A function.\n"


def test_starters_that_the_check_transforms_are_not_attempted(capsys):
    import jax

    @exercise("A gradient", shows="it is 6")
    def gradient(answer):
        expect_close(jax.grad(answer)(3.0), 6.0, "differentiate")

    gradient(placeholder)
    assert capsys.readouterr().out == "Not attempted yet: A gradient.\n"
    gradient(lambda x: x**2)
    assert capsys.readouterr().out == "Correct: it is 6.\n"


def test_several_answers_are_one_exercise(capsys):
    @exercise("A pair", shows="they differ")
    def pair(first, second):
        expect(first != second, "they are the same")

    pair(1, ...)
    pair(1, 2)
    assert capsys.readouterr().out.splitlines() == [
        "Not attempted yet: A pair.",
        "Correct: they differ.",
    ]


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (8, "count again"),
        (np.float32(8), "count again"),
        ("7", "expected a number, got the text '7': drop the quotes"),
        ((7, 0), "expected a number, got a tuple of 2: a comma makes a tuple"),
        ([7], "expected a number, got a list"),
        (None, "expected a number, got None"),
        (True, "expected a number, got a bool"),
        (np.True_, "expected a number, got a bool"),
        (7j, "expected a number, got a complex"),
        (float("nan"), "expected a finite number, got nan"),
        (np.array([7, 7]), r"expected one number, got an array of shape (2,)"),
        (lambda: 7, "expected a number, got a function"),
        (10**400, "this answer could not be checked: OverflowError"),
    ],
)
def test_wrong_numbers_are_refused_with_their_hint(answer, hint, capsys):
    with pytest.raises(Wrong, match=re.escape(hint)):
        make_number()(answer)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        ([1.0, 2.1], "add, do not subtract"),
        ([1.0, float("nan")], "add, do not subtract"),
        ([1.0, 2.0 + 1j], "add, do not subtract"),
        (1.0, "expected the shape (2,), got ()"),
        ([[1.0, 2.0]], "expected the shape (2,), got (1, 2)"),
        ([[1.0], [1.0, 2.0]], "expected an array, got a list with rows of unequal"),
        ("12", "expected an array of numbers, got a str"),
        (["1", "2"], "expected an array of numbers, got a list"),
        ([True, False], "expected an array of numbers, got a list"),
        (None, "expected an array of numbers, got None"),
    ],
)
def test_wrong_arrays_are_refused_with_their_hint(answer, hint):
    with pytest.raises(Wrong, match=re.escape(hint)):
        make_array()(answer)


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (lambda x: x, "square it"),
        (9.0, "expected a function, got a float"),
        (forgetful, "your function returned None: is a return missing?"),
        (lambda: 9.0, "your function raised TypeError: "),
        (lambda x: x / 0, "your function raised ZeroDivisionError: "),
        (not_supported, "your function raised NotImplementedError: no differentiation"),
        (mute, "your function raised Mute"),
        (leaving, "your function raised SystemExit: 1"),
        (endless, "your function raised RecursionError: maximum recursion depth"),
        (Wrapped(), "this answer could not be checked: ValueError: wrapper loop"),
        (type("", (), {})(), "this answer could not be checked: IndexError"),
        (Rude(), "this answer could not be checked: Mute"),
    ],
)
def test_wrong_functions_are_refused_with_their_hint(answer, hint):
    with pytest.raises(Wrong, match=re.escape(hint)):
        make_function()(answer)


def test_a_learners_exception_is_the_cause_and_shows_no_path():
    with pytest.raises(Wrong) as wrong:
        make_function()(lambda x: open("/no/such/folder/weights.npz"))
    assert isinstance(wrong.value.__cause__, FileNotFoundError)
    assert "/no/such" not in str(wrong.value)
    assert "weights.npz" in str(wrong.value)


@pytest.mark.parametrize(
    "judge",
    [
        as_number,
        as_array,
        lambda answer: expect_close(answer, 1.0, "off"),
        lambda answer: expect(answer, "off"),
        lambda answer: call(Wrapped(), answer),
    ],
)
def test_what_an_object_raises_is_a_wrong_answer(judge):
    with pytest.raises(Wrong, match="this answer could not be checked: "):
        judge(Rude())


def test_an_interruption_is_not_a_wrong_answer():
    def interrupted(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_function()(interrupted)


def test_wrong_is_an_assertion_and_shows_no_traceback():
    assert issubclass(Wrong, AssertionError)
    assert Wrong("count again")._render_traceback_() == ["Not yet: count again"]


@pytest.mark.parametrize(
    "answer",
    [7, 7.0, np.int64(7), np.array(7.0), np.float16(7), np.longdouble(7), Fraction(7)],
)
def test_numbers_of_every_type_are_taken(answer):
    assert as_number(answer) == 7.0


def test_jax_and_torch_numbers_are_taken():
    import jax.numpy as jnp

    assert as_number(jnp.bfloat16(2.5)) == 2.5
    assert as_array(jnp.ones(2, jnp.bfloat16)).tolist() == [1.0, 1.0]
    torch = pytest.importorskip("torch")
    assert as_number(torch.tensor(7)) == 7.0
    assert as_array(torch.ones(2)).tolist() == [1.0, 1.0]
    expect_close(torch.ones(2, requires_grad=True), torch.ones(2), "off")
    with pytest.raises(Wrong, match="off"):
        expect_close(torch.ones(2, requires_grad=True), [1.0, 2.0], "off")


def test_arrays_keep_complex_values():
    assert as_array([1, 2j]).dtype == np.complex128
    assert as_array([1, 2]).dtype == np.float64


def test_tolerances_are_relative_and_absolute():
    expect_close(1.0 + 1e-7, 1.0, "off")
    expect_close(1e-9, 0.0, "off", atol=1e-8)
    expect_close([math.inf], [math.inf], "off")
    for actual, wanted in [(1.0 + 1e-5, 1.0), (1e-9, 0.0), (1e308, -1e308)]:
        with pytest.raises(Wrong, match="off"):
            expect_close(actual, wanted, "off")


def test_call_passes_arguments_and_results():
    assert call(functools.partial(pow, 2), 3) == 8
    assert call(sorted, [1, 2], reverse=True) == [2, 1]


def test_exercises_are_registered_by_chapter_and_name():
    judge = make_number()
    assert set(registered()) == {"test_check.number"}
    found = registered()["test_check.number"]
    assert (found.id, found.title) == ("test_check.number", "A number")
    assert found.check is judge
    with pytest.raises(TypeError):
        registered()["test_check.number"] = found


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.floats()
    | st.complex_numbers()
    | st.integers()
    | st.text()
    | st.binary()
    | st.decimals()
    | st.datetimes()
    | hnp.arrays(hnp.scalar_dtypes(), hnp.array_shapes(min_dims=0, max_side=3))
    | st.builds(Rude)
    | st.builds(object)
    | st.sampled_from([Rude, Mute, mute, type, int, len])
    | st.sampled_from([np, range(3), NotImplemented, forgetful, not_supported])
    | st.functions(like=lambda x: None, returns=st.integers(10)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        | st.sets(st.integers(), max_size=3)
    ),
    max_leaves=6,
)


def is_right(answer, wanted) -> bool:
    try:
        return bool(np.array_equal(np.asarray(answer), np.asarray(wanted)))
    except Exception:
        return False


@pytest.mark.filterwarnings("ignore")
@settings(
    max_examples=400,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(answer=ANYTHING)
def test_any_object_is_judged_and_none_is_taken_for_right(answer, capsys):
    for judge, wanted in [
        (make_number(), 7),
        (make_array(), [1.0, 2.0]),
        (make_function(), None),
    ]:
        if is_right(answer, wanted) and wanted is not None:
            continue
        with pytest.raises(Wrong):
            judge(answer)
        assert capsys.readouterr().out == ""
