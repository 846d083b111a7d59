from __future__ import annotations

import pytest
from pylatexenc.latexwalker import LatexWalker

from gravityocr.metrics.formulas.latex_pieces import Piece, words, write_tree


@pytest.mark.parametrize(
    ("latex", "tokens"),
    [
        ("x^_2", "x _ { 2 }"),  # a script mark without a script
        ("_a", "_ a"),  # a script without a base
        ("x'^2", "x ^ { 2 }"),  # the official reader drops the prime
        ("x^{'}", "x ^ { ' }"),
        (r"\mathbf x y", r"\mathbf x y"),
        (r"\hbox{ab}", r"\mathrm { a b }"),
        (r"\phantom{x}", r"\phantom { x }"),
        (r"\frac12", r"\frac 1 2"),
        (r"\dfrac12", r"\frac { } { } 1 2"),
        ("a--b", "a -- b"),
        ("{a{b}}", "{ a { b } }"),
    ],
)
def test_trees_are_written_as_tokens(latex: str, tokens: str) -> None:
    nodes, _, _ = LatexWalker(latex).get_latex_nodes()
    assert " ".join(write_tree(nodes)) == tokens


def test_a_piece_has_braces_once() -> None:
    assert Piece(["a"]).braced() == ["{", "a", "}"] == Piece(["a"], is_group=True).braced()
    assert Piece(["a"]).written() == ["a"]


def test_words_are_a_set() -> None:
    assert words(" a b\na ") == {"a", "b"}
