"""The command line as a user meets it: shipped checkpoint, real files, exit codes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pypdfium2 as pdfium
import pytest
from PIL import Image
from typer.testing import CliRunner

from gravityocr.cli import app
from gravityocr.errors import CheckpointError, ConfigError, GravityOCRError
from gravityocr.model.checkpoint import resolve_checkpoint

CROPS = Path(__file__).parents[1] / "data" / "crops"
SAMPLE = Path(__file__).parents[2] / "src" / "gravityocr" / "samples" / "sample_page.png"


def run(*args: object) -> tuple[int, str]:
    """Run the command line; return (exit code, stdout), errors raised on purpose counting as in `main`."""
    result = CliRunner().invoke(app, [str(arg) for arg in args])
    if isinstance(result.exception, GravityOCRError):
        return (2 if isinstance(result.exception, (CheckpointError, ConfigError)) else 1), result.stdout
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


def text_only(folder: Path) -> Path:
    """Write the embedded checkpoint as one that claims text only."""
    shutil.copytree(resolve_checkpoint("nano"), folder)
    settings = json.loads((folder / "block_diffusion.json").read_text(encoding="utf-8"))
    (folder / "block_diffusion.json").write_text(json.dumps(settings | {"tasks": ["text"]}), encoding="utf-8")
    return folder


def make_pdf(path: Path, n_pages: int) -> Path:
    """Write a PDF whose pages are pictures of a test crop on white paper."""
    document = pdfium.PdfDocument.new()
    for number in range(n_pages):
        paper = Image.new("RGB", (850, 1100), "white")
        crop = Image.open(CROPS / f"line_{number % 10:02d}.png").convert("RGB")
        paper.paste(crop.resize((600, round(600 * crop.height / crop.width))), (100, 200))
        image = pdfium.PdfImage.new(document)
        image.set_bitmap(pdfium.PdfBitmap.from_pil(paper))
        image.set_matrix(pdfium.PdfMatrix().scale(612, 792))
        page = document.new_page(612, 792)
        page.insert_obj(image)
        page.gen_content()
    document.save(path)
    return path


def test_parse_the_sample_page(tmp_path):
    code, out = run("parse", SAMPLE, "-o", tmp_path, "--json")
    assert code == 0
    report = json.loads(out)
    assert report["n_failed"] == 0
    markdown = (tmp_path / "sample_page" / "sample_page.md").read_text(encoding="utf-8")
    data = json.loads((tmp_path / "sample_page" / "sample_page.json").read_text(encoding="utf-8"))
    labels = {region["label"] for region in data["pages"][0]["regions"]}
    assert {"text", "table"} <= labels
    assert markdown.startswith("#")
    assert {region["status"] for region in data["pages"][0]["regions"]} == {"ok"}
    assert "<table><tr><td>" in markdown


def test_what_the_checkpoint_does_not_read_stays_as_a_picture(tmp_path):
    code, _ = run("parse", SAMPLE, "-o", tmp_path, "--checkpoint", text_only(tmp_path / "text-only"))
    data = json.loads((tmp_path / "sample_page" / "sample_page.json").read_text(encoding="utf-8"))
    skipped = [region for region in data["pages"][0]["regions"] if region["status"] == "skipped"]
    assert code == 0 and {region["label"] for region in skipped} >= {"table"}
    assert all((tmp_path / "sample_page" / region["image"]).is_file() and region["error"] for region in skipped)


def test_pages_are_reported_one_by_one(tmp_path):
    document = make_pdf(tmp_path / "ten.pdf", 10)
    result = CliRunner().invoke(app, ["parse", str(document), "-o", str(tmp_path / "out"), "--json"])
    assert result.exit_code == 0
    assert [f"page {number}," in result.stderr for number in range(1, 11)] == [True] * 10
    assert json.loads(result.stdout)["files"][0]["n_pages"] == 10


def test_chosen_pages_and_stdout(tmp_path):
    document = make_pdf(tmp_path / "three.pdf", 3)
    code, out = run("parse", document, "--stdout", "--pages", "2")
    assert code == 0
    assert out.count("verif") <= 1 and out.strip()


def test_one_bad_file_does_not_take_the_others_down(tmp_path):
    broken = tmp_path / "broken.pdf"
    broken.write_bytes(b"%PDF-1.7\nnot a document")
    good = make_pdf(tmp_path / "good.pdf", 1)
    code, out = run("parse", broken, good, tmp_path / "missing.pdf", "-o", tmp_path / "out", "--json")
    files = json.loads(out)["files"]
    assert code == 1
    assert [file["status"] for file in files] == ["failed", "ok", "failed"]
    assert "broken.pdf" in files[0]["error"] and "missing.pdf" in files[2]["error"]


@pytest.mark.parametrize("make", ["missing", "empty", "empty_folder", "text"])
def test_bad_input_is_named(tmp_path, make):
    path = tmp_path / "input"
    if make == "empty":
        path.write_bytes(b"")
    elif make == "empty_folder":
        path.mkdir()
    elif make == "text":
        path.write_text("plain words")
    code, out = run("parse", path, "-o", tmp_path / "out", "--json")
    assert code == 1
    assert str(path) in json.loads(out)["files"][0]["error"]


@pytest.mark.parametrize(
    "args",
    [
        ("parse", "x.pdf"),
        ("parse", "x.pdf", "-o", "out", "--decode", "magic"),
        ("parse", "x.pdf", "-o", "out", "--layout", "magic"),
        ("parse", "x.pdf", "-o", "out", "--pages", "5-2"),
        ("parse", "x.pdf", "-o", "out", "--format", "docx"),
        ("parse", "x.pdf", "-o", "out", "--block-size", "0"),
        ("parse", "x.pdf", "-o", "out", "--max-tokens", "0"),
        ("parse", "x.pdf", "-o", "out", "--dtype", "int3"),
        ("parse", "x.pdf", "-o", "out", "--checkpoint", "no-such-folder"),
        ("recognize", "x.png", "--task", "poem"),
        ("bench", "decode", "--cases", CROPS, "--modes", "ar:8"),
        ("bench", "decode", "--cases", CROPS, "--tasks", "poem"),
        ("bench", "decode", "--cases", CROPS, "--limit", "0"),
        ("train", "no-such.toml"),
    ],
)
def test_usage_errors_exit_2(args):
    code, _ = run(*args)
    assert code == 2


def test_blank_page_gives_an_empty_entry(tmp_path):
    Image.new("RGB", (600, 800), "white").save(tmp_path / "blank.png")
    code, _ = run("parse", tmp_path / "blank.png", "-o", tmp_path / "out")
    assert code == 0
    data = json.loads((tmp_path / "out" / "blank" / "blank.json").read_text(encoding="utf-8"))
    assert data["pages"][0]["regions"] == []
    assert not (tmp_path / "out" / "blank" / "blank.md").read_text(encoding="utf-8").strip()


def test_recognize_json_contract_and_trace(tmp_path):
    trace = tmp_path / "trace.html"
    code, out = run("recognize", CROPS / "line_00.png", tmp_path / "none.png", "--json", "--trace", trace)
    rows = json.loads(out)
    assert code == 1
    assert [row["status"] for row in rows] == ["ok", "failed"]
    assert {"file", "text", "status", "n_tokens", "n_forwards", "n_rounds", "n_accepted", "seconds"} <= rows[0].keys()
    assert set(rows[0]["seconds"]) == {"vision", "prefill", "decode"}
    assert rows[0]["n_forwards"] == 2 * rows[0]["n_rounds"]
    assert "<table" in trace.read_text(encoding="utf-8")


def test_recognize_modes_agree(tmp_path):
    files = [CROPS / "line_02.png", CROPS / "paragraph_13.png"]
    answers = {}
    for mode in ("ar", "self-spec"):
        code, out = run("recognize", *files, "--decode", mode, "--json")
        assert code == 0
        answers[mode] = json.loads(out)
    assert [row["text"] for row in answers["ar"]] == [row["text"] for row in answers["self-spec"]]
    assert sum(row["n_forwards"] for row in answers["self-spec"]) < sum(row["n_forwards"] for row in answers["ar"])


def test_unclaimed_task_is_skipped_with_a_reason(tmp_path):
    arguments = ("recognize", CROPS / "line_00.png", "--task", "table", "--json")
    code, out = run(*arguments, "--checkpoint", text_only(tmp_path / "text-only"))
    row = json.loads(out)[0]
    assert code == 1 and row["status"] == "skipped" and "tasks: text" in row["error"]


def test_odd_crops_leave_their_neighbours_alone(tmp_path):
    Image.new("L", (1, 1), 255).save(tmp_path / "dot.png")
    Image.fromarray(np.full((4, 900), 255, np.uint8)).save(tmp_path / "thin.png")
    alone = json.loads(run("recognize", CROPS / "line_04.png", "--json")[1])[0]
    code, out = run("recognize", tmp_path / "dot.png", CROPS / "line_04.png", tmp_path / "thin.png", "--json")
    rows = json.loads(out)
    assert code == 0
    assert rows[1]["text"] == alone["text"]
    assert rows[0]["text"] == rows[2]["text"] == ""


def test_bench_decode_contract():
    code, out = run("bench", "decode", "--cases", CROPS, "--modes", "ar,self-spec,self-spec:4", "--limit", 2,
                    "--repeats", 1, "--json")  # fmt: skip
    report = json.loads(out)
    assert code == 0
    assert report["modes"]["ar"]["tpf"] == pytest.approx(1.0)
    wanted = {"s_per_token", "tok_per_s", "tpf", "n_accepted", "identical_to_ar"}
    for row in report["modes"].values():
        assert wanted <= row.keys() and row["identical_to_ar"] == 1.0
    assert {"modes", "by_kind", "by_length", "boundary", "machine"} <= report.keys()


def test_checkpoint_info():
    code, out = run("checkpoint", "info", "nano")
    report = json.loads(out)
    assert code == 0
    assert report["n_parameters"] > 1e6
    assert report["block_diffusion"]["tasks"] == ["text", "formula", "table"]
