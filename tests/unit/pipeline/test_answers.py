"""A recognizer's answers: right ones pass as they are, wrong ones become failed regions with a reason."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from gravityocr.document import Recognition
from gravityocr.errors import GravityOCRError
from gravityocr.pipeline.answers import usable_answers

GOOD = Recognition("naïve", "truncated", "cut", n_tokens=3, n_forwards=2, ids=((1, 2, 3),))


def test_right_answers_pass_as_they_are() -> None:
    assert usable_answers([GOOD, Recognition("a")], 2) == [GOOD, Recognition("a")]
    assert usable_answers((GOOD,), 1) == [GOOD]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (None, "NoneType instead of a Recognition"),
        ("text", "str instead of a Recognition"),
        (Recognition(b"text"), "bytes as text"),  # type: ignore[arg-type]
        (Recognition(None), "NoneType as text"),  # type: ignore[arg-type]
        (Recognition("a", "fine"), "'fine' as status"),  # type: ignore[arg-type]
        (Recognition("a", None), "None as status"),  # type: ignore[arg-type]
        (Recognition("a", n_tokens=math.nan), "nan as n_tokens"),  # type: ignore[arg-type]
        (Recognition("a", n_tokens=math.inf), "inf as n_tokens"),  # type: ignore[arg-type]
        (Recognition("a", n_forwards=None), "None as n_forwards"),  # type: ignore[arg-type]
        (Recognition("a", n_hits=-1), "-1 as n_hits"),
        (Recognition("a", n_rounds=True), "True as n_rounds"),
        (Recognition("a", n_accepted="3"), "'3' as n_accepted"),  # type: ignore[arg-type]
        (Recognition("a", ids=None), "NoneType as ids"),  # type: ignore[arg-type]
    ],
)
def test_wrong_answers_fail_alone(answer: Any, told: str) -> None:
    first, second = usable_answers([answer, GOOD], 2)
    assert first == Recognition("", "failed", f"the recognizer answered {told}: report it")
    assert second == GOOD


@pytest.mark.parametrize(
    ("answers", "told"),
    [(None, "NoneType instead of a list"), ("ab", "str instead of a list"), ([GOOD], "1 of 2 crops")],
)
def test_too_few_answers_fail_the_page(answers: Any, told: str) -> None:
    with pytest.raises(GravityOCRError, match=f"the recognizer answered {told}"):
        usable_answers(answers, 2)


def test_what_files_cannot_hold_is_made_fit() -> None:
    odd = Recognition("\ud83d\ude00 a\ud800b", error=ValueError("x"), n_tokens=np.int64(3))  # type: ignore[arg-type]
    (answer,) = usable_answers([odd], 1)
    assert (answer.text, answer.error) == ("\U0001f600 a\ufffdb", "ValueError('x')")
    assert type(answer.n_tokens) is int and answer.n_tokens == 3
