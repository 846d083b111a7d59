from __future__ import annotations

import numpy as np
import pytest
from tests.tex_tools import needs_tex

from gravityocr.errors import ConfigError
from gravityocr.metrics import cdm
from gravityocr.metrics.cdm import CdmConfig, CdmScorer, check_toolchain
from gravityocr.metrics.formulas.formula_render import TokenBoxes
from gravityocr.metrics.formulas.tex_runner import ToolMissingError


def fake_render(formulas, *, batch_size: int, timeout_s: float) -> list[TokenBoxes]:
    """Lay the characters of each formula in a row, capitals as bold letters; words are statuses."""
    out = []
    for latex in formulas:
        if latex in ("empty", "unrenderable", "timeout"):
            out.append(TokenBoxes(status=latex, error=f"it is {latex}"))
        else:
            boxes = [[40 * i, 8, 40 * i + 20, 30] for i in range(len(latex))]
            roles = tuple("*" * char.isupper() for char in latex)
            size = (40 * len(latex), 40)
            out.append(TokenBoxes(tuple(latex.lower()), np.array(boxes, np.int32), size, roles=roles))
    return out


@pytest.fixture
def scorer(monkeypatch) -> CdmScorer:
    monkeypatch.setattr(cdm, "render_formulas", fake_render)
    return CdmScorer(CdmConfig())


def test_the_score_counts_both_sides(scorer) -> None:
    (score,) = scorer.score([("a+b=d", "a+b+c=d")])
    assert (score.n_pred_tokens, score.n_ref_tokens, score.status) == (5, 7, "ok")
    assert score.f1 == round(2 * score.n_matched / 12, 3)
    assert score.recall == round(score.n_matched / 7, 3)
    assert score.precision == round(score.n_matched / 5, 3)


def test_the_strict_score_counts_matches_of_the_same_role(scorer) -> None:
    (score,) = scorer.score([("aB+c", "ab+C")])
    assert (score.f1, score.recall, score.precision, score.n_matched) == (1.0, 1.0, 1.0, 4)
    assert score.f1_strict == 0.5


@pytest.mark.parametrize(
    ("pred", "ref", "status"),
    [
        ("empty", "a", "empty_pred"), ("a", "empty", "empty_ref"), ("unrenderable", "a", "pred_unrenderable"),
        ("a", "unrenderable", "ref_unrenderable"), ("timeout", "a", "timeout"), ("a", "timeout", "timeout"),
    ],
)  # fmt: skip
def test_what_cannot_be_scored_is_told(scorer, pred: str, ref: str, status: str) -> None:
    (score,) = scorer.score([(pred, ref)])
    assert (score.f1, score.f1_strict, score.status) == (0.0, 0.0, status)
    assert score.error and "scores 0" in score.error


def test_order_and_length_are_kept(scorer) -> None:
    pairs = [("ab", "ab"), ("x", "y"), ("empty", "a"), ("ab", "ab")]
    assert [score.f1 for score in scorer.score(pairs)] == [1.0, 0.0, 0.0, 1.0]
    assert scorer.score([]) == []


def test_each_formula_is_rendered_once(monkeypatch) -> None:
    asked: list[str] = []

    def counting(formulas, **options) -> list[TokenBoxes]:
        asked.extend(formulas)
        return fake_render(formulas, **options)

    monkeypatch.setattr(cdm, "render_formulas", counting)
    scorer = CdmScorer(CdmConfig())
    scorer.score([("a", "b"), ("b", "a"), ("a", "a")])
    scorer.score([("a", "c")])
    assert sorted(asked) == ["a", "b", "c"]


@pytest.mark.parametrize(
    "fields",
    [
        {"version": "2.0"},
        {"n_processes": 0},
        {"batch_size": 0},
        {"timeout_s": 0.0},
        {"timeout_s": float("nan")},
        {"timeout_s": float("inf")},
    ],
    ids=str,
)
def test_bad_settings_are_refused(fields) -> None:
    with pytest.raises(ConfigError):
        CdmConfig(**fields)


def test_a_broken_rasteriser_is_no_score_of_zero(monkeypatch) -> None:
    monkeypatch.setattr(cdm, "pdflatex_version", lambda: "pdfTeX test")
    monkeypatch.setattr(cdm, "render_formulas", lambda formulas, **_: fake_render(["empty"] * len(formulas), **_))
    with pytest.raises(ConfigError, match="tool chain"):
        check_toolchain(CdmConfig())


def test_misplaced_tokens_fail_the_check(monkeypatch) -> None:
    def shifted(formulas, **_) -> list[TokenBoxes]:
        boxes = np.array(cdm.CHECK_BOXES, np.int32) + 10
        return [TokenBoxes(cdm.CHECK_TOKENS, boxes, (200, 100), roles=("",) * len(boxes)) for _ in formulas]

    monkeypatch.setattr(cdm, "pdflatex_version", lambda: "pdfTeX test")
    monkeypatch.setattr(cdm, "render_formulas", shifted)
    with pytest.raises(ConfigError, match="10 pixels"):
        check_toolchain(CdmConfig())


def test_missing_tex_is_raised_and_not_scored(monkeypatch) -> None:
    def missing(formulas, **_) -> list[TokenBoxes]:
        raise ToolMissingError("pdflatex is not installed")

    monkeypatch.setattr(cdm, "render_formulas", missing)
    with pytest.raises(ToolMissingError):
        CdmScorer(CdmConfig()).score([("a", "a")])


@needs_tex
def test_the_tool_chain_is_proven() -> None:
    report = check_toolchain(CdmConfig())
    assert report["ok"] is True
    assert (report["identity_f1"], report["pair_f1"]) == (1.0, cdm.CHECK_F1)


@needs_tex
def test_the_strict_score_sees_scripts_and_bold_letters() -> None:
    pairs = {
        ("x_2", "x^2"): 0.5,
        (r"a+x_{i}", r"a+x^{i}"): 0.75,
        (r"\mathbf{x}+y", "x+y"): 0.667,
        (r"e^{x_2}", "e^{x^2}"): 0.667,
        ("x^2", "x^2"): 1.0,
        ("{x}^{2}", "x^2"): 1.0,
        (r"\sum_{i}^{n}x", r"\sum\limits^{n}_{i}x"): 1.0,
        ("f'(x)", r"f^{\prime}(x)"): 1.0,
        (r"\mathrm{d}x", "dx"): 1.0,
        (r"{\bf x}", r"\mathbf{x}"): 1.0,
        (r"a\quad b", "ab"): 1.0,
    }
    scores = CdmScorer(CdmConfig()).score(list(pairs))
    assert [score.f1 for score in scores] == [1.0] * len(pairs)
    assert {pair: score.f1_strict for pair, score in zip(pairs, scores, strict=True)} == pairs


@needs_tex
def test_processes_and_cache_change_nothing(tmp_path) -> None:
    pairs = [(f"x_{{{i}}}+y", f"x_{{{i}}}-y") for i in range(45)]
    plain = CdmScorer(CdmConfig()).score(pairs)
    config = CdmConfig(n_processes=2, cache_folder=str(tmp_path))
    with CdmScorer(config) as scorer:
        assert scorer.score(pairs) == plain
    with CdmScorer(config) as again:
        assert again.score(pairs) == plain
    assert len(list(tmp_path.rglob("*.json"))) == 90
    assert not list(tmp_path.rglob("*.tmp"))
