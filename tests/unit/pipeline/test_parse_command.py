"""`gravityocr parse` around a scripted recognizer: no input stops the others, usage is checked before any work."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.unit.pipeline.scripted import ScriptedDetector, ScriptedRecognizer, draw_lines
from typer.testing import CliRunner

from gravityocr.api import GravityOCR
from gravityocr.cli import app
from gravityocr.commands import parse as parse_command
from gravityocr.errors import ConfigError


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    def from_pretrained(*arguments: object, **more: object) -> GravityOCR:
        return GravityOCR(ScriptedRecognizer(), ScriptedDetector([]))  # type: ignore[arg-type]

    monkeypatch.setattr(parse_command.GravityOCR, "from_pretrained", from_pretrained)


def page(path: Path) -> Path:
    image = Image.new("RGB", (400, 300), "white")
    draw_lines(image, (40, 40, 360, 120))
    with open(path, "wb") as stream:
        image.save(stream, "PNG")
    return path


def parse(*arguments: str | Path, charset: str = "utf-8") -> tuple[int, Any, str]:
    result = CliRunner(charset=charset).invoke(app, ["parse", *map(str, arguments), "--json"])
    return result.exit_code, json.loads(result.stdout) if result.stdout else result.exception, result.stderr


@pytest.mark.usefixtures("scripted")
def test_no_bad_input_stops_the_others(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "gone.png").symlink_to("nowhere")
    (tmp_path / "cut.tif").write_bytes(b"II*\0\x08\0\0\0\x01\0\0\x01\x07\0")
    blocked = page(tmp_path / "blocked.png")
    (tmp_path / "out/blocked/blocked.md").mkdir(parents=True)
    (tmp_path / "out/blocked/blocked.json").write_text(json.dumps({"source_path": os.path.realpath(blocked)}))
    bad = ["", "z" * 300, tmp_path / "pipe.png", tmp_path / "gone.png", tmp_path / "cut.tif", blocked]
    names = [page(tmp_path / name) for name in ("..png", "...png", os.fsdecode(b"\xff.png"), "y" * 240 + ".png")]
    code, answer, told = parse(*bad, *names, "-o", tmp_path / "out")
    assert code == 1
    assert [file["status"] for file in answer["files"]] == ["failed"] * len(bad) + ["ok"] * len(names)
    assert answer["n_failed"] == len(bad) and all(file["error"] for file in answer["files"][: len(bad)])
    outputs = [Path(output) for file in answer["files"] for output in file["outputs"]]
    assert len(outputs) == 2 * len(names)
    assert all(path.is_file() and path.parent.parent == tmp_path / "out" for path in outputs)
    assert not list(tmp_path.rglob("*.part")) and "Traceback" not in told


@pytest.mark.usefixtures("scripted")
def test_pages_that_an_ok_document_lacks_are_told_and_cost_nothing(tmp_path: Path) -> None:
    code, answer, told = parse(page(tmp_path / "a.png"), "-o", tmp_path / "out", "--pages", "1,3")
    assert (code, answer["n_failed"], answer["files"][0]["status"]) == (0, 0, "ok")
    assert "--pages 3 gave nothing" in answer["files"][0]["error"] and "--pages 3 gave nothing" in told


@pytest.mark.usefixtures("scripted")
@pytest.mark.parametrize("charset", ["ascii", "latin-1", "utf-8"])
def test_stdout_of_any_encoding_takes_any_name(tmp_path: Path, charset: str) -> None:
    names = [str(page(tmp_path / name)) for name in ("文é.png", os.fsdecode(b"\xff.png"))]
    code, answer, _ = parse(*names, "-o", tmp_path / "out", charset=charset)
    assert code == 0 and [file["file"] for file in answer["files"]] == names
    result = CliRunner(charset=charset).invoke(app, ["parse", *names, "--stdout"])
    assert result.exit_code == 0 and result.stdout.count("text 0") == 2


@pytest.mark.parametrize("option", [("-o", ""), ("-o", "file"), ("-o", "file/out"), ("-o", "out", "--pages", "")])
def test_usage_is_checked_before_the_checkpoint_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: tuple[str, ...]
) -> None:
    def too_early(*arguments: object, **more: object) -> None:
        raise AssertionError("loaded")

    monkeypatch.setattr(parse_command.GravityOCR, "from_pretrained", too_early)
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    _, error, _ = parse(page(tmp_path / "a.png"), *option)
    assert isinstance(error, ConfigError)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.png", "file"]
