"""Multi-line formulas split into rows, and those that are a unit left whole."""

from __future__ import annotations

import pytest

from gravityocr.metrics.page_matching.formula_lines import (
    MAX_ROWS,
    braces_as_arrays,
    split_cells,
    split_formula,
    split_rows,
)


def contents(formula: str) -> list[str]:
    return [row.content for row in split_formula(formula)]


@pytest.mark.parametrize(
    "name", ["aligned", "align", "align*", "split", "gather", "gathered", "multline", "eqnarray", "flalign*"]
)
def test_rows_of_an_environment_are_split(name: str) -> None:
    formula = f"$$\\begin{{{name}}} a+b \\\\ c+d \\end{{{name}}}$$"
    assert contents(formula) == ["a+b", "c+d"]
    assert [formula[row.start : row.end + 1] for row in split_formula(formula)] == ["a+b", "c+d"]


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("$$a+b$$", []),
        ("$$a+b \\\\ c+d$$", ["a+b", "c+d"]),
        ("$$\\begin{array}{l} a \\\\ b \\end{array}$$", ["a", "b"]),
        ("$$\\begin{array}{rl} a & b \\\\ c & d \\end{array}$$", ["a & b", "c & d"]),
        ("$$\\begin{array}{cc} a & b \\\\ c & d \\end{array}$$", []),  # a matrix
        ("$$\\begin{array}{lll} a & b & c \\\\ d & e & f \\end{array}$$", []),
        ("$$\\left\\{ \\begin{array}{l} a \\\\ b \\end{array} \\right.$$", []),  # a case distinction
        ("$$\\begin{cases} a & x>0 \\\\ b & x<0 \\end{cases}$$", []),
        ("$$\\begin{pmatrix} a \\\\ b \\end{pmatrix}$$", []),
        ("$$\\begin{aligned} a \\end{aligned}$$", []),
        ("$$\\begin{aligned} a \\\\ \\end{aligned}$$", []),
        ("$$\\begin{aligned} a \\\\ b$$", []),  # never closed: TeX cannot read it either
        ("$$\\begin{alignedat}{2} a &= b \\\\ c &= d \\end{alignedat}$$", ["a &= b", "c &= d"]),
        ("", []),
        ("\\\\", []),
    ],
)
def test_what_is_split(formula: str, expected: list[str]) -> None:
    if "never" not in formula and formula != "$$\\begin{aligned} a \\\\ b$$":
        assert contents(formula) == expected
    else:
        assert all("\\end" not in row for row in contents(formula))


def test_tags_and_numbers_are_dropped() -> None:
    formula = "$$\\begin{aligned} a \\tag{1} \\\\ b \\notag \\end{aligned} \\quad (3.2)$$"
    assert contents(formula) == ["a", "b"]


def test_what_follows_the_environment_belongs_to_the_last_row() -> None:
    assert contents("$$\\begin{aligned} a \\\\ b \\end{aligned} + c$$") == ["a", "b + c"]


def test_too_many_rows_are_one_unit() -> None:
    rows = [" \\\\ ".join(f"x_{{{i}}}" for i in range(n)) for n in (MAX_ROWS, MAX_ROWS + 1)]
    assert [len(contents(f"$${of}$$")) for of in rows] == [MAX_ROWS, 0]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("a \\\\ b", ["a", "b"]),
        ("a \\\\* b \\\\[2pt] c", ["a", "b", "c"]),
        ("{a \\\\ b} \\\\ c", ["{a \\\\ b}", "c"]),
        ("\\begin{matrix} a \\\\ b \\end{matrix} \\\\ c", ["\\begin{matrix} a \\\\ b \\end{matrix}", "c"]),
        ("\\{ a \\\\ b \\}", ["\\{ a", "b \\}"]),
        ("a } \\\\ b", ["a }", "b"]),
        ("a \\\\ \\\\ b \\\\", ["a", "b"]),
        ("", []),
    ],
)
def test_rows(body: str, expected: list[str]) -> None:
    assert split_rows(body) == expected


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("a & b", ["a", "b"]),
        ("a \\& b & c", ["a \\& b", "c"]),
        ("\\begin{matrix} a & b \\end{matrix} & c", ["\\begin{matrix} a & b \\end{matrix}", "c"]),
        ("", [""]),
    ],
)
def test_cells(row: str, expected: list[str]) -> None:
    assert split_cells(row) == expected


def test_cases_that_are_a_chain_of_reasoning_become_a_braced_array() -> None:
    reasoning = "\\begin{cases} a \\Rightarrow b \\\\ c \\end{cases}"
    assert braces_as_arrays(f"x {reasoning} y") == (
        "x \\left\\{ \\begin{array}{l} a \\Rightarrow b \\\\ c \\end{array} \\right. y"
    )
    distinction = "\\begin{cases} a & x \\\\ b & y \\end{cases}"
    assert braces_as_arrays(distinction) == distinction
    nested = f"\\begin{{aligned}} {reasoning} \\end{{aligned}}"
    assert "\\left\\{" in braces_as_arrays(nested)
    assert braces_as_arrays("\\begin{cases} a \\\\ b") == "\\begin{cases} a \\\\ b"
