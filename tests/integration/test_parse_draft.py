"""`parse --draft`: whatever drafts, and whatever a text layer or a reference says, the output is the same."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.born_digital import Column, Sheet, write_pdf
from benchmarks.public_domain import PASSAGES, PLANETS
from typer.testing import CliRunner

from gravityocr.cli import app
from gravityocr.commands import parse as parse_command
from gravityocr.errors import ConfigError, InputError
from gravityocr.pipeline.source import SourceConfig, iter_pages

CHOICES = ("auto", "diffusion", "text-layer", "none")


def sheet() -> Sheet:
    """Set a small page: a heading, a paragraph, a table."""
    column = Column(40, 300, 300, 20)
    column.paragraph(PASSAGES[0][0], "Times-Bold", 16, justified=False)
    column.paragraph(PASSAGES[0][2][0], "Times-Roman", 11)
    column.table([row[:3] for row in PLANETS[:3]], "Helvetica", 10)
    return Sheet(tuple(column.lines), tuple(column.rules), media_box=(0, 0, 380, 320))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("born") / "page.pdf"
    path.write_bytes(write_pdf([sheet()]))
    return path


def parse(path: Path, out: Path, *options: str) -> tuple[str, dict[str, Any]]:
    """Return the Markdown and the JSON of one document."""
    result = CliRunner().invoke(app, ["parse", str(path), "-o", str(out), *options])
    assert result.exit_code == 0, result.output + str(result.exception)
    return (out / "page/page.md").read_text("utf-8"), json.loads((out / "page/page.json").read_text("utf-8"))


def n_forwards(found: dict[str, Any]) -> int:
    return sum(region["n_forwards"] or 0 for page in found["pages"] for region in page["regions"])


@pytest.fixture(scope="module")
def parsed(page: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, dict[str, Any]]]:
    return {choice: parse(page, tmp_path_factory.mktemp(choice), "--draft", choice) for choice in CHOICES}


def test_the_output_is_the_same_whatever_drafts(parsed: dict[str, tuple[str, dict[str, Any]]]) -> None:
    texts = {choice: text for choice, (text, _) in parsed.items()}
    assert "Four score and seven years ago" in texts["none"] and "<td>Mercury</td>" in texts["none"]
    assert set(texts.values()) == {texts["none"]}


def test_a_text_layer_saves_forwards(parsed: dict[str, tuple[str, dict[str, Any]]]) -> None:
    spent = {choice: n_forwards(found) for choice, (_, found) in parsed.items()}
    # what "auto" and "diffusion" spend depends on measured times, and so do their forwards
    assert spent["text-layer"] < 0.3 * spent["none"]


def hocr(page: Path, path: Path, lie: bool) -> Path:
    """Write what the text layer says as hOCR of 100 dpi; a lying one has other words in every place."""
    known = next(iter(iter_pages(page, config=SourceConfig(dpi=100, text_layer=True))))
    assert known.image is not None and known.words
    spans = [
        f'<span class="ocrx_word" title="bbox {word.box.x0:.0f} {word.box.y0:.0f} {word.box.x1:.0f} {word.box.y1:.0f}">'
        f"{html.escape(word.text[::-1].swapcase() if lie else word.text)}</span>"
        for word in known.words
    ]
    size = f"{known.image.width} {known.image.height}"
    path.write_text(f"<html><div class='ocr_page' title='bbox 0 0 {size}'>{''.join(spans)}</div></html>", "utf-8")
    return path


def test_a_reference_drafts_for_a_scan_and_a_wrong_one_changes_nothing(
    page: Path, parsed: dict[str, tuple[str, dict[str, Any]]], tmp_path: Path
) -> None:
    image = next(iter(iter_pages(page, config=SourceConfig(dpi=200)))).image
    assert image is not None
    scan = tmp_path / "page.png"
    image.save(scan)
    plain, found = parse(scan, tmp_path / "plain", "--draft", "none")
    assert plain == parsed["none"][0]
    spent = {"none": n_forwards(found)}
    for name, lie in (("true", False), ("wrong", True)):
        path = hocr(page, tmp_path / f"{name}.hocr", lie)
        text, found = parse(scan, tmp_path / name, "--draft", "text-layer", "--reference", str(path))
        assert text == plain, name
        spent[name] = n_forwards(found)
    assert spent["true"] < 0.5 * spent["none"]
    assert spent["wrong"] > spent["true"]


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        (("--draft", "psychic"), ConfigError, "choose one of auto, diffusion, text-layer, none"),
        (("--draft", "text-layer", "--decode", "ar"), ConfigError, "leave out --draft or --decode ar"),
        (("--reference", "x.hocr", "--draft", "diffusion"), ConfigError, "nothing else uses it"),
        (("--reference", "no/such.hocr"), InputError, "no/such.hocr: cannot be read"),
    ],
)
def test_wrong_options_are_told_before_any_work(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], error: type, told: str
) -> None:
    def too_early(*arguments: object, **more: object) -> None:
        raise AssertionError("loaded")

    monkeypatch.setattr(parse_command.GravityOCR, "from_pretrained", too_early)
    result = CliRunner().invoke(app, ["parse", str(page), "-o", str(tmp_path / "out"), *options])
    assert isinstance(result.exception, error) and told in str(result.exception)


def test_a_reference_is_of_one_input(page: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(
        app, ["parse", str(page), str(page.parent), "x", "-o", str(tmp_path), "--reference", "x.hocr"]
    )
    assert isinstance(result.exception, ConfigError) and "one document" in str(result.exception)
