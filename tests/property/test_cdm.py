"""Whatever a model writes gets a score or a named status."""

from __future__ import annotations

from typing import get_args

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.tex_tools import needs_tex

from gravityocr.metrics.cdm import RULES, CdmConfig, CdmScorer, Status
from gravityocr.metrics.formulas.cdm_match import match_tokens
from gravityocr.metrics.formulas.formula_render import TokenBoxes, prepare_formula
from gravityocr.metrics.formulas.latex_pieces import words
from gravityocr.metrics.formulas.latex_tokens import FormulaSyntaxError, tokenize_formula

COMMANDS = words(
    r"\\ \frac \hat \sqrt \left( \right) \begin{array}{c} \end{array} \text \mathrm \binom \rule \sum \lim \def "
    r"\operatorname \begin{cases} \end{cases} \big \color \not"
)
ATOMS = [*"ab12+=(){}[]&$%^_'~# \\中é\x00\ud800", *sorted(COMMANDS)]
messy = st.lists(st.sampled_from(ATOMS), max_size=25).map("".join)
letters = st.lists(st.sampled_from("ab+=\\"), min_size=1, max_size=12)


@given(messy)
@example("\\color{red}\\hat")
def test_any_text_is_prepared_or_refused(latex: str) -> None:
    try:
        formula, _ = prepare_formula(latex)
    except FormulaSyntaxError:
        return
    assert formula.latex.count("\\mathcolor[RGB]") >= len(formula.tokens) == len(formula.roles)
    assert "\x00" not in formula.latex


@given(st.lists(st.sampled_from([*"abxy+=", "\\alpha", "\\frac{a}{b}", "x^{2}", "\\sqrt{x}", "\\hat{y}"]), max_size=12))
def test_tokens_of_a_well_formed_formula_read_back_the_same(parts: list[str]) -> None:
    tokens = tokenize_formula(" ".join(parts))
    assert tokenize_formula(" ".join(tokens)) == tokens


def boxes(tokens: list[str], places: list[tuple[int, int]]) -> TokenBoxes:
    corner = np.array(places, np.int32).reshape(-1, 2)
    return TokenBoxes(tuple(tokens), np.concatenate((corner, corner + 20), axis=1), (1000, 1000))


@given(st.data())
def test_matches_are_bounded_and_identity_is_whole(data) -> None:
    place = st.tuples(st.integers(0, 900), st.integers(0, 900))
    ref_tokens, pred_tokens = data.draw(letters), data.draw(letters)
    ref = boxes(ref_tokens, [data.draw(place) for _ in ref_tokens])
    pred = boxes(pred_tokens, [data.draw(place) for _ in pred_tokens])
    for rules in RULES.values():
        matches = match_tokens(ref, pred, rules)
        assert all(len(set(side)) == len(matches) for side in matches.T.tolist())
        assert np.array_equal(matches, match_tokens(ref, pred, rules))
        assert match_tokens(ref, ref, rules).tolist() == [[i, i] for i in range(len(ref_tokens))]


@needs_tex
@settings(max_examples=3)
@given(st.lists(messy, min_size=1, max_size=8))
def test_any_prediction_scores_or_has_a_status(predictions: list[str]) -> None:
    scores = CdmScorer(CdmConfig(timeout_s=2)).score([(text, "a+b") for text in [*predictions, "a+b"]])
    assert scores[-1].f1 == 1.0
    for score in scores:
        assert 0 <= score.f1_strict <= score.f1 <= 1
        assert score.status in get_args(Status)
        assert (score.error is None) == (score.status == "ok")
