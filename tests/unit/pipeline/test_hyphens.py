"""Words and sentences that the end of a region broke."""

from __future__ import annotations

import pytest

from gravityocr.pipeline.passages.hyphens import join_at_hyphen, join_continued, join_like_sdk


@pytest.mark.parametrize(
    ("first", "second", "joined"),
    [
        ("the recog-", "nition of it", "the recognition of it"),
        ("a state-", "ment", "a statement"),
        ("for soft-", "ware of", "for software of"),
        ("the high-", "er part", "the higher part"),
        ("is self-", "supervised", "is self-supervised"),
        ("a well-", "known one", "a well-known one"),
        ("the high-", "resolution image", "the high-resolution image"),
        ("in real-", "time", "in real-time"),
        ("a 3-", "dimensional", "a 3-dimensional"),
        ("an x-", "axis", "an x-axis"),
        ("an RGB-", "image", "an RGB-image"),
        ("the state-of-the-", "art", "the state-of-the-art"),
        ("a rule-", "based parser", "a rule-based parser"),
        ("inde-", "pendent", "independent"),
        ("the pre-", "and post-war", "the pre- and post-war"),
        ("the Über-", "zeugung", "the Überzeugung"),
        ("recog\u00ad", "nition", "recognition"),
        ("recog- \n", " nition", "recognition"),
    ],
)
def test_a_broken_word_is_joined_and_a_real_hyphen_kept(first: str, second: str, joined: str) -> None:
    assert join_at_hyphen(first, second) == joined


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("a dash -", "then"), ("no hyphen", "here"), ("Jean-", "Paul"), ("COVID-", "19"), ("end--", "of"), ("", "x"),
        ("x-", ""), ("长" * 100_000, "x"),
    ],
)  # fmt: skip
def test_what_is_no_broken_word_stays_apart(first: str, second: str) -> None:
    assert join_at_hyphen(first, second) is None


@pytest.mark.parametrize(
    ("first", "second", "joined"),
    [
        ("and the result of", "this is known.", "and the result of this is known."),
        ("one, two,", "three", "one, two, three"),
        ("(as shown in $x$)", "and then", "(as shown in $x$) and then"),
        ("我们" * 12, "错的时间，", "我们" * 12 + "错的时间，"),
    ],
)  # fmt: skip
def test_a_sentence_goes_on(first: str, second: str, joined: str) -> None:
    assert join_continued(first, second) == joined


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("It ends here.", "and so"), ("Is it?", "yes"), ("He said “no.”", "then"), ("It is so", "Then came"),
        ("a list:", "first"), ("Name", "address"), ("", "text"), ("人不一样", "错的时间"), ("and in", "1994"),
    ],
)  # fmt: skip
def test_what_may_be_another_paragraph_stays_apart(first: str, second: str) -> None:
    assert join_continued(first, second) is None


def test_the_sdk_joins_any_plausible_word() -> None:
    assert join_like_sdk("is self-", "supervised") == "is selfsupervised"
    assert join_like_sdk("a 3-", "dimensional") is None and join_like_sdk("x", "y") is None
