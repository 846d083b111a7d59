"""Markup in merged tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from gravityocr.training.nano import MARKUP_TOKENS, build_tokenizer
from gravityocr.training.synthetic.charset import CHARSET
from gravityocr.training.synthetic.latex_vocabulary import LATEX_TOKENS, MERGED_LATEX_TOKENS
from gravityocr.training.synthetic.merged_tokens import with_merged_latex
from gravityocr.training.synthetic.shards import RenderedSample


def sample(tokens: Sequence[str]) -> RenderedSample:
    """Return a formula whose letters, digits and commands lie where they stand in the list."""
    centers = np.array([(i, 2 * i) for i in range(len(tokens))], dtype=np.float32).reshape(-1, 2)
    centers[[token in {"{", "}", "_", "^"} for token in tokens]] = np.nan
    return RenderedSample("formula", np.full((8, 8), 255, dtype=np.uint8), tuple(tokens), centers, "test")


def test_a_script_of_one_glyph_is_one_token_where_its_glyph_lies() -> None:
    merged = with_merged_latex(sample(["x", "_", "{", "i", "}", "^", "{", "2", "}"]))
    assert merged.tokens == ("x", "_{i}", "^{2}")
    assert merged.centers_px[:, 0].tolist() == [0.0, 3.0, 7.0]


def test_longer_scripts_keep_their_ends_and_braces_their_order() -> None:
    tokens = ["\\frac ", "{", "a", "_", "{", "i", "j", "}", "}", "{", "b", "}"]
    merged = with_merged_latex(sample(tokens))
    assert merged.tokens == ("\\frac {", "a", "_{", "i", "j", "}}{", "b", "}")
    assert merged.target == "".join(tokens)
    assert merged.centers_px[0, 0] == 0.0 and np.isnan(merged.centers_px[[2, 5, 7], 0]).all()


def test_nothing_to_merge_and_nothing_at_all() -> None:
    for tokens in (["a", "+", "b"], []):
        assert with_merged_latex(sample(tokens)).tokens == tuple(tokens)


@pytest.mark.parametrize("tokens", [["x", "_", "{", "i", "}", "}", "{", "1", "}"], ["\\hat ", "{", "a", "}", "}", "}"]])
def test_the_tokenizer_merges_in_the_same_way(tokens: list[str]) -> None:
    tokenizer = build_tokenizer(CHARSET, MARKUP_TOKENS)
    merged = with_merged_latex(sample(tokens))
    assert tokenizer.encode(merged.target).tokens == list(merged.tokens)


def test_merged_tokens_consist_of_tokens() -> None:
    tokenizer = build_tokenizer(CHARSET, LATEX_TOKENS)
    for token in MERGED_LATEX_TOKENS:
        parts = tokenizer.encode(token).tokens
        assert 2 <= len(parts) <= 4 and "".join(parts) == token
