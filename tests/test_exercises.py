"""Every check of every chapter refuses the wrong answers that learners give.

``tests/answers`` holds them, one module a chapter. Each wrong answer is paired with
words of the hint that must meet it, so that a check that refuses for another reason
fails here. Right answers are in the chapters: their solutions are cells, and cells are
run; those here differ from them in make.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest

from helpers import env

env.prepare()  # some checks need eight devices, and answers import JAX

import answers  # noqa: E402

import helpers.exercises  # noqa: E402
from helpers.check import Wrong, registered  # noqa: E402

for found in pkgutil.iter_modules(helpers.exercises.__path__):
    importlib.import_module(f"helpers.exercises.{found.name}")

BY_CHAPTER = [
    importlib.import_module(f"answers.{found.name}")
    for found in pkgutil.iter_modules(answers.__path__)
]
WRONG = {name: given for part in BY_CHAPTER for name, given in part.WRONG.items()}
RIGHT = [case for part in BY_CHAPTER for case in part.RIGHT]
CASES = [
    pytest.param(name, answer, hint, id=f"{name}-{index}")
    for name, answers in WRONG.items()
    for index, (answer, hint) in enumerate(answers)
]


@pytest.mark.parametrize(("name", "answer", "hint"), CASES)
def test_exercise_refuses_a_wrong_answer_with_its_own_hint(name, answer, hint):
    answers = answer if isinstance(answer, tuple) else (answer,)
    with pytest.raises(Wrong) as refused:
        registered()[name].check(*answers)
    assert hint in str(refused.value)


def test_every_exercise_refuses_at_least_three_answers():
    assert set(WRONG) == set(registered())
    assert min(len(answers) for answers in WRONG.values()) >= 3


@pytest.mark.parametrize("name", sorted(WRONG))
def test_exercise_says_that_a_starter_was_not_attempted(name, capsys):
    check = registered()[name].check
    check(*[...] * len(inspect.signature(check).parameters))
    assert capsys.readouterr().out.startswith("Not attempted yet: ")


def test_pure_ones_takes_letters_in_any_collection(capsys):
    for answer in ("aceg", ["A", "c", "E", "g"], ("a", "c", "e", "g")):
        registered()["state.pure_ones"].check(answer)
    assert capsys.readouterr().out.count("Correct") == 3


@pytest.mark.parametrize(("name", "answers"), RIGHT)
def test_exercise_accepts_right_answers_of_another_make(name, answers, capsys):
    registered()[name].check(*answers)
    assert "Correct" in capsys.readouterr().out
