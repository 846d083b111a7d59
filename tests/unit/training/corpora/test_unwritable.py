"""What tokenizers cannot write, told by the characters that they lack."""

from __future__ import annotations

import pytest
from tokenizers import Tokenizer, models, normalizers

from gravityocr.training.corpora.unwritable import tokenizer_of, unwritable


def told(tokenizer: Tokenizer, text: str) -> str | None:
    return unwritable(tokenizer, text, tokenizer.encode(text, add_special_tokens=False).ids)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("plain text, 1 – 2", None),
        ("a\u0e01b\u0e01", "U+0E01 \u0e01"),
        ("\u0001\u0e01", "U+0001, U+0E01 \u0e01"),
        ("\u0e01\u0e02\u0e03\u0e04\u0e05\u0e06\u0e07", "U+0E01 ก, U+0E02 ข, U+0E03 ฃ, U+0E04 ค, U+0E05 ฅ and 2 more"),
    ],
)
def test_characters_are_named_in_their_order(text: str, what: str | None) -> None:
    assert told(tokenizer_of("nano"), text) == what


def test_without_a_single_character_the_place_is_named() -> None:
    tokenizer = Tokenizer(models.WordLevel({"ab": 0, "a": 1, "b": 2}, unk_token="a"))
    tokenizer.normalizer = normalizers.Replace("ab", "a")
    assert told(tokenizer, "ab") == "what begins with 'b' at character 1"
