from __future__ import annotations

import io
import time

import numpy as np
import pypdfium2 as pdfium
import pytest
from tests.tex_tools import needs_tex

from gravityocr.metrics.formulas import formula_render
from gravityocr.metrics.formulas.formula_render import MAX_CHARS, prepare_formula, render_formulas
from gravityocr.metrics.formulas.latex_tokens import FormulaSyntaxError
from gravityocr.metrics.formulas.tex_runner import TexRun, run_tex


def render(*formulas: str, timeout_s: float = 10):
    return render_formulas(formulas, batch_size=64, timeout_s=timeout_s)


@pytest.mark.parametrize(
    ("latex", "kind", "tokens"),
    [
        ("a+b", "math", "a+b"),
        (r"速度=v", "chinese", "速度=v"),
        (r"\mathrm{速，b}", "chinese", "速,b"),
        (r"\foo{bar}}{", "math", r"\foo{bar}}{"),  # the raw text where it does not parse
        (r"5\%", "math", r"5\%"),
    ],
)
def test_formulas_are_prepared(latex: str, kind: str, tokens: str) -> None:
    formula, found = prepare_formula(latex)
    assert found == kind
    assert "".join(formula.tokens) == tokens


def test_control_characters_never_reach_tex() -> None:
    formula, _ = prepare_formula("a\x00\x1b\ud800b")
    assert formula.tokens == ("a", "b")
    assert formula.latex.isprintable()


def test_chinese_is_set_in_text() -> None:
    formula, _ = prepare_formula("速度=v")
    assert r"\text { \mathcolor[RGB]{0,0,15}{速}" in formula.latex


def test_a_formula_that_is_too_long_is_refused() -> None:
    with pytest.raises(FormulaSyntaxError, match="at most"):
        prepare_formula("x" * (MAX_CHARS + 1))


@needs_tex
def test_boxes_stand_where_tex_put_the_tokens() -> None:
    (shown,) = render(r"\frac{a}{b}+c")
    assert shown.tokens == (r"\frac", "a", "b", "+", "c")
    assert shown.roles == ("",) * 5
    bar, top, bottom, plus, letter = shown.boxes
    assert top[3] <= bar[3] and bottom[1] >= bar[1]
    assert bar[2] <= plus[0] + 2 < letter[0]
    assert (shown.boxes[:, 2:] > shown.boxes[:, :2]).all()
    assert shown.boxes.min() >= 0 and shown.boxes[:, 2].max() <= shown.size[0]


@needs_tex
def test_roles_go_with_the_tokens_that_left_ink() -> None:
    (shown,) = render(r"{\bf x}^{2}_{\mathbf{i}}")
    assert shown.tokens == ("x", "i", "2")
    assert shown.roles == ("*", "_*", "^")


@needs_tex
def test_a_bad_formula_does_not_touch_its_neighbours(monkeypatch) -> None:
    runs = []
    run_tex = formula_render.run_tex
    monkeypatch.setattr(formula_render, "run_tex", lambda *args: runs.append(args) or run_tex(*args))
    plain = render("a+b", r"\alpha^{2}", "c-d")
    assert len(runs) == 1
    mixed = render("a+b", "x^y^z", r"\alpha^{2}", r"\gdef\mathrm{q}\gdef\alpha{beta}", "c-d", "}")
    for alone, among in zip(plain, (mixed[0], mixed[2], mixed[4]), strict=True):
        assert alone.tokens == among.tokens
        assert np.array_equal(alone.boxes, among.boxes)


@needs_tex
def test_a_wide_formula_is_shown_whole() -> None:
    (shown,) = render("+".join("abcdefgh" * 12))
    assert len(shown.tokens) == 8 * 12 * 2 - 1
    assert shown.size[0] > 1654


@needs_tex
def test_bad_input_gets_a_status() -> None:
    endless = r"\def\x{\x}\x}"
    empty, long, hanging, nothing = render("", "x" * 1_000_000, endless, r"\phantom{x}", timeout_s=1)
    assert [r.status for r in (empty, long, hanging, nothing)] == ["empty", "unrenderable", "timeout", "empty"]
    assert all(r.error and not r.tokens for r in (empty, long, hanging, nothing))


@needs_tex
def test_a_page_out_of_proportion_is_refused() -> None:
    source = r"\documentclass{article}\pdfpagewidth=150in\pdfpageheight=150in\begin{document}x\end{document}"
    pdf = run_tex(source, 20).pdf
    assert pdf is not None
    assert formula_render._read_pdf(pdf) is None


# Time ----------------------------------------------------------------------------------------------


class SlowTex:
    """Stands for TeX and for the clock: every run takes `run_s`, and every paper is too small."""

    def __init__(self, run_s: float, harmless: bool) -> None:
        self.now, self.limits = 0.0, []
        self._run_s, self._harmless = run_s, harmless
        pdf, stream = pdfium.PdfDocument.new(), io.BytesIO()
        pdf.new_page(100, 100)
        pdf.save(stream)
        self._pdf = stream.getvalue()

    def monotonic(self) -> float:
        return self.now

    def run(self, source: str, limit_s: float) -> TexRun:
        self.limits.append(limit_s)
        self.now += min(self._run_s, limit_s)
        marks = "@b 0 1 0\nOverfull \\hbox\n@e 0 2 0\n" if self._harmless else "Overfull \\hbox\n"
        late = self._run_s >= limit_s
        return TexRun(None if late else self._pdf, "" if late else marks, late)


@pytest.mark.parametrize("latex", ["a+b", r"a+b\foo"], ids=["shared", "alone"])
@pytest.mark.parametrize("run_s", [0.9, 2.5, 3.0, 9.0, 10.0])
def test_one_limit_holds_for_all_papers_of_a_formula(monkeypatch, latex, run_s) -> None:
    tex = SlowTex(run_s, harmless=latex == "a+b")
    monkeypatch.setattr(formula_render, "run_tex", tex.run)
    monkeypatch.setattr(formula_render.time, "monotonic", tex.monotonic)
    (shown,) = render(latex, timeout_s=10)
    assert tex.now <= 10.0
    assert tex.limits == pytest.approx([10 - n * run_s for n in range(len(tex.limits))])
    if run_s > 2:
        assert (shown.status, shown.error) == ("timeout", "TeX did not finish in 10 s")
    else:
        assert len(tex.limits) >= 5 and shown.status == "empty"


@needs_tex
def test_a_formula_larger_than_any_paper_ends_in_its_time() -> None:
    began = time.monotonic()
    (shown,) = render(r"\hbox{\rule{100cm}{100cm}}a", timeout_s=0.5)
    assert shown.status in ("timeout", "empty")
    assert time.monotonic() - began < 5.0  # the limit and, on a busy machine, the reading of the last page


def test_neighbours_of_a_formula_that_takes_all_its_time_keep_theirs(monkeypatch) -> None:
    tex = SlowTex(0.0, harmless=True)

    def hang_at_the_first(source: str, limit_s: float) -> TexRun:
        """Hang at `h`; set everything else at once."""
        tex.limits.append(limit_s)
        if "{h}" in source:
            tex.now += limit_s
            return TexRun(None, "@b 0 1 0\n" if "@b" in source else "", True)
        marks = "".join(f"@b {i} {i + 1} 0\n@e {i} {i + 2} 0\n" for i in range(source.count("@b")))
        return TexRun(tex.run(source, limit_s).pdf, marks, False)

    monkeypatch.setattr(formula_render, "run_tex", hang_at_the_first)
    monkeypatch.setattr(formula_render.time, "monotonic", tex.monotonic)
    hanging, *others = render("h", "x+y", "x+z", "x-y", timeout_s=10)
    assert hanging.status == "timeout" and tex.limits[:3] == [10, 7.5, 7.5]
    assert "timeout" not in [one.status for one in others]
