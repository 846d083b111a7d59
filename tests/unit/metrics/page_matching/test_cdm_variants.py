"""What CDM renders of a pair of formulas."""

from __future__ import annotations

from gravityocr.metrics.page_matching.block_matching import Match
from gravityocr.metrics.page_matching.cdm_variants import MAX_MATRIX_CHARS, cdm_pair


def match(ref: str, pred: str, label: str = "equation_isolated", edit: float = 0.0) -> Match:
    return Match(
        gt=(0,), pred=(0,), gt_text=ref, pred_text=pred, norm_gt=ref, norm_pred=pred, category="equation_isolated",
        pred_label=label, orders=(1,), pred_start=0, edit=edit,
    )  # fmt: skip


def test_delimiters_fences_and_tags_are_not_rendered() -> None:
    ref, preds = cdm_pair(match("$$ x+1 \\tag{3} $$", "```latex\n\\[ x+2 \\notag \\]\n```"))
    assert (ref, preds) == ("x+1", ("x+2",))


def test_a_plain_pair_has_one_prediction() -> None:
    assert cdm_pair(match("$$x+1$$", "\\[x + 1\\]")) == ("x+1", ("x + 1",))
    assert cdm_pair(match("$$x+1$$", "", label="")) == ("x+1", ("",))


def test_a_matrix_has_a_second_prediction_without_fonts_and_braces() -> None:
    pred = "\\begin{bmatrix} {\\mathbf{a}} & b \\\\ c & d \\\\ \\end{bmatrix}"
    ref, preds = cdm_pair(match("\\begin{bmatrix} a & b \\\\ c & d \\end{bmatrix}", pred))
    assert ref == "\\begin{bmatrix} a & b \\\\ c & d \\end{bmatrix}"
    assert preds == (pred, "\\begin{bmatrix}a&b\\\\c&d\\end{bmatrix}")


def test_an_array_without_columns_gets_one() -> None:
    ref, _ = cdm_pair(match("\\begin{array}{} a & b \\end{array}", "a"))
    assert "\\begin{array}{l}" in ref


def test_a_huge_matrix_is_rendered_as_it_is() -> None:
    pred = "\\begin{bmatrix}" + "{a} & " * MAX_MATRIX_CHARS + "\\end{bmatrix}"
    assert cdm_pair(match("x", pred))[1] == (pred,)
