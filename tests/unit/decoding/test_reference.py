"""Finding the place in a reference text behind which a response goes on."""

from __future__ import annotations

from gravityocr.decoding.reference import ReferenceText


def ids(text: str) -> list[int]:
    return [ord(letter) for letter in text]


def proposed(reference: ReferenceText, text: str, n: int = 5) -> str:
    return "".join(chr(token) for token in reference.propose(ids(text), n))


def test_it_goes_on_behind_the_first_token() -> None:
    assert proposed(ReferenceText(ids("the cat sat")), "t") == "he ca"


def test_a_misread_character_does_not_throw_the_reader_off() -> None:
    reference = ReferenceText(ids("the cat sat on the mat"))
    assert proposed(reference, "the c") == "at sa"
    assert proposed(reference, "the co") == "t sat"  # 'o' also stands in "on", but not where it is expected
    assert proposed(reference, "the cot sa") == "t on "


def test_a_long_suffix_moves_the_reader() -> None:
    reference = ReferenceText(ids("first line\nsecond line\nthird line"))
    assert proposed(reference, "f") == "irst "
    assert proposed(reference, "f\nsecond") == " line"


def test_characters_that_only_one_side_has_are_made_up_for() -> None:
    reference = ReferenceText(ids("abcdefghijklmnop"))
    assert proposed(reference, "abcd") == "efghi"
    assert proposed(reference, "abcd--efg") == "hijkl"
    assert proposed(reference, "abcd--efgkl") == "mnop"


def test_behind_the_end_there_is_nothing() -> None:
    reference = ReferenceText(ids("ab"))
    assert proposed(reference, "ab") == ""
    assert proposed(reference, "abzzz") == ""
    assert ReferenceText([]).propose(ids("a"), 4) == []
