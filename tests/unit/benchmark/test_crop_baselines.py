"""Baselines: read where they are installed, named with the remedy where not, and never a reason to lose a run."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from benchmarks import crop_baselines, crops
from benchmarks.crop_baselines import PPOcr, Tesseract, open_baselines
from PIL import Image

from gravityocr.benchmark.cases import load_cases
from gravityocr.errors import ConfigError, InputError

CROPS = Path(__file__).parents[2] / "data" / "crops"
needs_tesseract = pytest.mark.skipif(
    shutil.which("tesseract") is None, reason="no tesseract: apt-get install tesseract-ocr"
)
needs_rapidocr = pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("rapidocr", "cv2")),
    reason="no rapidocr: pip install '.[baselines]'",
)


class Known:
    """A baseline that answers every crop alike, but gives up on those of a language."""

    name = "known"

    def __init__(self, n_threads: int = 1) -> None:
        self.n_threads, self.n_read = n_threads, 0

    def read(self, image: Image.Image, language: str) -> tuple[str, float]:
        self.n_read += 1
        if language == "dutch":
            raise InputError("does not read Dutch")
        return "x", 0.25

    def describe(self) -> dict[str, Any]:
        return {"version": "known 1", "models": [], "boundary": "nothing", "threads": self.n_threads}


def no_program(name: str) -> None:
    return None


def without_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", no_program)
    monkeypatch.setitem(sys.modules, "rapidocr", None)


@pytest.mark.parametrize(("name", "remedy"), [("tesseract", "tesseract-ocr"), ("pp-ocr", r"\[baselines\]")])
def test_a_named_baseline_that_is_missing_names_its_package(
    monkeypatch: pytest.MonkeyPatch, name: str, remedy: str
) -> None:
    without_both(monkeypatch)
    with pytest.raises(ConfigError, match=f"baseline {name} is not installed.*{remedy}"):
        open_baselines([name], 1)


def test_all_that_are_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(crop_baselines.BASELINES, "known", Known)
    without_both(monkeypatch)
    opened, left_out = open_baselines(None, 3)
    assert [one.name for one in opened] == ["known"] and opened[0].describe()["threads"] == 3
    assert len(left_out) == 2 and "tesseract-ocr" in left_out[0] and "rapidocr" in left_out[1]
    monkeypatch.delitem(crop_baselines.BASELINES, "known")
    with pytest.raises(ConfigError, match=r"tesseract.*; .*rapidocr"):
        open_baselines(None, 1)


def test_an_unknown_baseline() -> None:
    with pytest.raises(ConfigError, match="unknown baseline 'abbyy'.*tesseract, pp-ocr"):
        open_baselines(["abbyy"], 1)


@needs_tesseract
def test_tesseract_reads_a_crop() -> None:
    case = load_cases(CROPS)[0]
    reader = Tesseract(1)
    text, seconds = reader.read(case.crop().image, case.language)
    assert text.strip() == case.truth and 0 < seconds < 60
    assert reader.describe()["version"].startswith("tesseract ") and "eng.traineddata" in reader.describe()["models"]


@needs_tesseract
def test_the_language_data_of_tesseract() -> None:
    reader = Tesseract(1)
    for languages, wanted in ((["eng"], "eng"), (["eng", "chi_sim"], "chi_sim+eng")):
        reader.languages = languages
        assert reader.language_of("simplified_chinese") == wanted and reader.language_of("english") == "eng"


@needs_tesseract
def test_what_tesseract_cannot_open_is_an_input_error(tmp_path: Path) -> None:
    (tmp_path / "broken.png").write_bytes(b"no image")
    with pytest.raises(InputError, match=r"tesseract .*broken\.png"):
        Tesseract(1).read_file(tmp_path / "broken.png", "english")


@needs_rapidocr
def test_pp_ocr_reads_a_crop_with_the_models_of_its_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    case = load_cases(CROPS)[0]
    reader = PPOcr(1)
    page = Image.new("RGB", (900, 300), "white")  # a line alone is scaled up, and takes seconds
    assert reader.read(page, "english")[0] == ""
    page.paste(case.crop().image, (20, 120))
    assert reader.read(page, "english")[0] == case.truth
    monkeypatch.setattr(PPOcr, "models", {"Rec": "other.onnx"})
    with pytest.raises(ConfigError, match=r"does not bring other\.onnx: pip install .*baselines"):
        PPOcr(1)


def run_with(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: object
) -> tuple[int, str, str]:
    monkeypatch.setitem(crop_baselines.BASELINES, "known", Known)
    code = crops.main([str(argument) for argument in arguments])
    output = capsys.readouterr()
    return code, output.out, output.err


def manifest_of(folder: Path, rows: Sequence[dict[str, Any]]) -> Path:
    (folder / "manifest.json").write_text(json.dumps(rows), encoding="utf-8")
    return folder


def two_crops(tmp_path: Path) -> Path:
    rows = json.loads((CROPS / "manifest.json").read_text(encoding="utf-8"))[:2]
    rows = [row | {"file": str(CROPS / row["file"])} for row in rows]
    return manifest_of(tmp_path, [rows[0], rows[1] | {"language": "dutch"}])


def test_baselines_stand_beside_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--cases", two_crops(tmp_path), "--baselines", "known", "--threads", 1)
    code, out, err = run_with(monkeypatch, capsys, *arguments, "--json")
    report = json.loads(out)
    assert code == 1 and "known: does not read Dutch" in err
    (row,) = report["baselines"]["known"]["crops"]
    assert (row["text"], row["wall_seconds"], row["file"]) == ("x", 0.25, "line_00.png")
    groups = report["baselines"]["known"]["groups"]
    assert groups["text/english"]["n_crops"] == 1 and groups["text/english"]["ned"] > 0.9
    assert report["groups"]["text"]["n_crops"] == len(report["crops"]) == 2
    assert report["groups"]["text/english"]["wall_seconds"] >= report["groups"]["text/english"]["seconds"] > 0
    assert report["baselines"]["known"]["threads"] == report["machine"]["threads"] == 1
    code, out, _ = run_with(monkeypatch, capsys, *arguments)
    readers = [line.split()[1] for line in out.splitlines() if line.startswith("text/english")]
    assert code == 1 and readers[:2] == ["nano", "known"]


def test_exit_codes_and_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    without_both(monkeypatch)
    code, out, err = run_with(monkeypatch, capsys, "--cases", CROPS, "--baselines", "known,tesseract")
    assert code == 2 and out == "" and "tesseract-ocr" in err
    with pytest.raises(SystemExit) as caught:
        run_with(monkeypatch, capsys, "--cases", CROPS, "--baselines", "tesseract,abbyy")
    assert caught.value.code == 2 and "abbyy" in capsys.readouterr().err
    code, out, err = run_with(monkeypatch, capsys, "--cases", two_crops(tmp_path), "--limit", 1, "--baselines")
    assert code == 0 and "known 1" in out and "pip install '.[baselines]'" in err
