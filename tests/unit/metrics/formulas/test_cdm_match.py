from __future__ import annotations

import numpy as np
import pytest

from gravityocr.metrics.formulas.cdm_match import MatchRules, count_same_roles, fold_token, match_tokens
from gravityocr.metrics.formulas.formula_render import TokenBoxes

RULES = MatchRules(rounds=5, n_samples=2, threshold=30, n_trials=500)


def row(tokens: str, step: int = 40, top: int = 8, roles: tuple[str, ...] = ()) -> TokenBoxes:
    boxes = [[8 + step * i, top, 8 + step * i + 20, top + 25] for i in range(len(tokens))]
    return TokenBoxes(tuple(tokens), np.array(boxes, np.int32), (16 + step * len(tokens), top + 33), roles=roles)


def count_matches(ref: TokenBoxes, pred: TokenBoxes, rules: MatchRules) -> int:
    return len(match_tokens(ref, pred, rules))


def test_equal_renders_match_whole() -> None:
    assert count_matches(row("a+b=c"), row("a+b=c"), RULES) == 5


def test_other_tokens_do_not_match() -> None:
    assert count_matches(row("abc"), row("xyz"), RULES) == 0
    assert count_matches(row("a+b=c"), row("a+x=c"), RULES) == 4


def test_a_scaled_and_shifted_render_still_matches() -> None:
    assert count_matches(row("a+b=c"), row("a+b=c", step=80, top=100), RULES) == 5


def test_a_token_far_from_its_place_is_filtered_out() -> None:
    pred = row("abcdefgh")
    boxes = pred.boxes.copy()
    boxes[3, [1, 3]] += 400
    moved = TokenBoxes(pred.tokens, boxes, (pred.size[0], 460))
    assert count_matches(row("abcdefgh"), moved, RULES) == 7


def test_matches_are_pairs_of_positions() -> None:
    assert match_tokens(row("abc"), row("axc"), RULES).tolist() == [[0, 0], [2, 2]]


def test_only_tokens_of_the_same_role_agree() -> None:
    ref, pred = row("x2ab", roles=("", "^", "*", "")), row("x2ay", roles=("", "_", "", ""))
    matches = match_tokens(ref, pred, RULES)
    assert (len(matches), count_same_roles(ref, pred, matches)) == (3, 1)
    assert count_same_roles(ref, ref, match_tokens(ref, ref, RULES)) == 4


def test_the_count_is_deterministic() -> None:
    ref, pred = row("ab" * 40), row("ba" * 40)
    assert len({count_matches(ref, pred, RULES) for _ in range(3)}) == 1


@pytest.mark.parametrize(
    ("token", "folded"),
    [
        (r"\left[", "["), (r"\leftarrow", r"\leftarrow"), (r"\bigl\{", r"\{"), (r"\Big|", "|"), (r"\leq", r"\le"),
        (r"\widehat", r"\hat"), (r"\varphi", r"\phi"), (r"\Vert", r"\|"), (r"\left<", r"\langle"), ("x", "x"),
    ],
)  # fmt: skip
def test_lookalikes_fold(token: str, folded: str) -> None:
    assert fold_token(token) == folded
