from __future__ import annotations

import pytest
from tests.tex_tools import needs_tex

from gravityocr.metrics.formulas import tex_runner
from gravityocr.metrics.formulas.tex_runner import Fate, ToolMissingError, document, pdflatex_path, read_fates, run_tex


def terminal(*parts: tuple[int, str, int, int]) -> str:
    """Write the markers of formulas given as index, text between, pages and change of group level."""
    lines, page = [], 1
    for index, text, n_pages, levels in parts:
        lines += [f"@b {index} {page} 1", text]
        page += n_pages
        lines.append(f"@e {index} {page} {1 + levels}")
    return "\n".join(lines)


def test_clean_formulas_are_done() -> None:
    output = terminal((0, "[1]", 1, 0), (1, "[2]", 1, 0))
    assert read_fates(output, 2, True) == [Fate("done", 0), Fate("done", 1)]


@pytest.mark.parametrize(
    ("text", "n_pages", "levels"),
    [("! Undefined control sequence.", 1, 0), ("", 1, 1), ("", 0, 0)],
    ids=["error", "open group", "no page"],
)
def test_a_bad_formula_goes_alone_and_the_rest_again(text: str, n_pages: int, levels: int) -> None:
    output = terminal((0, "", 1, 0), (1, text, n_pages, levels), (2, "", 1, 0))
    assert [fate.outcome for fate in read_fates(output, 3, True)] == ["done", "alone", "again"]


def test_an_overfull_formula_is_told_from_the_others() -> None:
    output = terminal((0, "Overfull \\hbox (3pt too wide)", 1, 0), (1, "", 2, 0), (2, "", 1, 0))
    assert [fate.outcome for fate in read_fates(output, 3, True)] == ["overfull", "overfull", "done"]


def test_the_formula_that_never_ended_is_the_culprit() -> None:
    output = terminal((0, "", 1, 0)) + "\n@b 1 2 1\n"
    assert [fate.outcome for fate in read_fates(output, 3, False)] == ["again", "alone", "again"]


def test_color_in_text_is_no_error() -> None:
    output = terminal((0, "! LaTeX Error: \\mathcolor allowed only in math mode.", 1, 0))
    assert read_fates(output, 1, True) == [Fate("done", 0)]


def test_documents_hold_what_their_kind_needs() -> None:
    assert "\\usepackage{CJK}" in document(["x"], "chinese", 5, marked=False)
    assert "\\usepackage{multirow}" in document(["x"], "tabular", 5, marked=False)
    assert document(["x", "y"], "math", 3, marked=True).count("\\newpage") == 2
    assert "\\geometry{a3paper" in document(["x"], "math", 3, marked=False)


def test_a_missing_program_names_the_packages(monkeypatch) -> None:
    pdflatex_path.cache_clear()
    monkeypatch.setattr(tex_runner.shutil, "which", lambda name: None)
    with pytest.raises(ToolMissingError, match="apt-get install texlive-latex-extra latex-cjk-chinese"):
        pdflatex_path()


@needs_tex
def test_files_outside_are_neither_read_nor_written(tmp_path) -> None:
    target = tmp_path / "written.txt"
    secret = tmp_path / "secret.tex"
    secret.write_text("SECRETWORD\\typeout{LEAKED}")
    body = f"\\openout3={target} \\immediate\\write18{{touch {target}}} \\input{{{secret}}}"
    run = run_tex(f"\\documentclass{{article}}\\begin{{document}}a{body}\\end{{document}}", 20)
    assert not target.exists()
    assert "LEAKED" not in run.output


@needs_tex
def test_an_endless_loop_runs_out_of_time() -> None:
    run = run_tex("\\documentclass{article}\\begin{document}\\def\\x{\\x}\\x\\end{document}", 1)
    assert run.timed_out
    assert run.pdf is None
