from __future__ import annotations

import pytest

from gravityocr.metrics.formulas.latex_pieces import words
from gravityocr.metrics.formulas.safe_commands import is_contained


@pytest.mark.parametrize("latex", [r"\frac{\alpha}{b}", r"\left\{ x \right.", r"\upmu \,\; \\", "a+b"])
def test_plain_mathematics_may_share_a_run(latex: str) -> None:
    assert is_contained(latex)


UNSAFE = words("def gdef edef xdef global let catcode input write csname loop newpage setcounter output everymath foo")


@pytest.mark.parametrize("command", sorted(UNSAFE))
def test_anything_else_may_not(command: str) -> None:
    assert not is_contained(rf"x \{command} y")


@pytest.mark.parametrize("latex", ["^^5cgdef", r"\end{document}", r"\begin {foo}", "a % b", "a $ b", "#1"])
def test_ways_around_are_seen(latex: str) -> None:
    assert not is_contained(latex)


def test_arrays_and_escaped_signs_are_plain() -> None:
    assert is_contained(r"\begin{array} {c} 5 \% \$ \# \end{array}")
