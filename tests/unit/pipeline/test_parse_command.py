"""`gravityocr parse` around a scripted recognizer: no input stops the others, usage is checked before any work."""

from __future__ import annotations

import io
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
from gravityocr.commands import options, parse_readers
from gravityocr.commands import parse as parse_command
from gravityocr.commands.parse_options import ParseOptions
from gravityocr.commands.parse_settings import ParseSettings, resolve
from gravityocr.errors import ConfigError, InputError
from gravityocr.pipeline import layout_choice
from gravityocr.pipeline.convert import PipelineConfig
from gravityocr.pipeline.inputs import InputFile
from gravityocr.pipeline.source import PageRanges


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
    assert answer["files"][0]["error"] is None
    assert "--pages 3 gave nothing" in answer["files"][0]["notes"][0] and "--pages 3 gave nothing" in told


@pytest.mark.usefixtures("scripted")
@pytest.mark.parametrize("charset", ["ascii", "latin-1", "utf-8"])
def test_stdout_of_any_encoding_takes_any_name(tmp_path: Path, charset: str) -> None:
    names = [str(page(tmp_path / name)) for name in ("文é.png", os.fsdecode(b"\xff.png"))]
    code, answer, _ = parse(*names, "-o", tmp_path / "out", charset=charset)
    assert code == 0 and [file["file"] for file in answer["files"]] == names
    result = CliRunner(charset=charset).invoke(app, ["parse", *names, "--stdout"])
    assert result.exit_code == 0 and result.stdout.count("text 0") == 2


@pytest.mark.parametrize(
    ("option", "told"),
    [
        (("-o", ""), "has no name"),
        (("-o", "file"), "is no folder"),
        (("-o", "file/out"), "file"),
        (("-o", "out", "--pages", ""), "is no page"),
        (("-o", "out", "--format", "md,docx"), "docx"),
        (("-o", "out", "--text-format", "html"), "choose auto, plain or markdown"),
        (("-o", "out", "--workers", "0"), "choose auto, or 1 to 256"),
        (("-o", "out", "--max-pages", "0"), "--max-pages is 0"),
        (("-o", "out", "--set", "sorce.dpi=100"), "did you mean 'source'"),
        (("-o", "out", "--set", "run.n_ahead=-1"), "run.n_ahead is -1"),
        (("-o", "out", "--config", "none.toml"), "none.toml: cannot be read"),
        (("-o", "out", "--dpi", "1"), "--dpi is 1: choose"),
        (("-o", "out", "--pages", "9" * 50_000), "50000 characters are too many"),
        (("-o", "out", "--pages", "9" * 50), "is no page"),
        (("-o", "out", "--pages", "0"), "pages count from 1"),
        (("-o", "out", "--set", "source.max_page_px=" + "9" * 5000), "source.max_page_px"),
        (("-o", "out", "--set", "source.dpi=" + "[" * 3000), "source.dpi"),
        (("-o", "out", "--set", "source=" + "{a=" * 3000), "source"),
        (("-o", "out", "--layout", "cdla", "--set", "layout_v3.threshold=0.5"), "layout_v3 settings are"),
        (("-o", "out", "--set", "layout_v3.threshold=2"), "layout_v3.threshold is 2"),
        (("-o", "out", "--set", "source.reference=x.hocr", "--server", "http://localhost:1"), "no use with --server"),
        (("-o", "out", "--set", "source.reference=x.hocr", "--decode", "ar"), "--reference needs"),
        (("file", "-o", "out", "--set", "source.reference=x.hocr"), "2 inputs were found"),
        (("-o", "out", "--decode", "beam"), "--decode 'beam' is unknown"),
        (("-o", "out", "--draft", "guess"), "--draft 'guess' is unknown"),
        (("-o", "out", "--set", "assembly.mends=loops,loop"), "'loop' is no mend"),
        (("-o", "out", "--password", "a", "--password-file", "file"), "give one"),
        (("-o", "out", "--server-model", "m"), "--server-model: goes with --server"),
        (
            ("-o", "out", "--server", "http://localhost:1", "--checkpoint", "x", "--decode", "ar"),
            "no use with --server",
        ),
        (("-o", "out", "--server", "ftp://localhost"), "is no http(s) URL"),
    ],
)
def test_usage_is_checked_before_the_checkpoint_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: tuple[str, ...], told: str
) -> None:
    def too_early(*arguments: object, **more: object) -> None:
        raise AssertionError("loaded")

    monkeypatch.setattr(parse_command.GravityOCR, "from_pretrained", too_early)
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    _, error, _ = parse(page(tmp_path / "a.png"), *option)
    assert isinstance(error, ConfigError) and told in str(error)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.png", "file"]


@pytest.mark.parametrize("option", [("--resume",), ("--format", "json"), ("--json",)])
def test_what_stdout_cannot_do_is_refused(tmp_path: Path, option: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, ["parse", str(page(tmp_path / "a.png")), "--stdout", *option])
    assert isinstance(result.exception, ConfigError)


def settings(*arguments: str, **more: object) -> ParseSettings:
    return resolve(ParseOptions(list(arguments), out="out", **more))  # type: ignore[arg-type]


def test_options_lie_over_named_settings_over_a_file_over_defaults(tmp_path: Path) -> None:
    file = tmp_path / "parse.toml"
    file.write_text("[source]\ndpi = 100\nmax_page_px = 1000000\n[assembly]\nmerge = false\n[server]\nn_parallel = 3\n")
    found = settings(config=str(file), set=["source.dpi=150", "run.n_ahead=1"]).config
    assert (found.source.dpi, found.source.max_page_px, found.run.n_ahead) == (150, 1_000_000, 1)
    assert not found.assembly.merge and found.server.n_parallel == 3
    found = settings(config=str(file), dpi=72.0, max_pages=4, keep_furniture=True, allow_private_urls=True).config
    assert (found.source.dpi, found.run.max_pages, found.assembly.keep_furniture) == (72, 4, True)
    assert found.remote.allow_private and not found.assembly.merge
    found = settings().config
    assert found.source.dpi == 200 and found.assembly.merge and found.source.text_layer


def test_the_text_layer_is_read_where_it_is_of_use() -> None:
    assert settings(draft="text-layer").config.source.text_layer
    assert not settings(decode="ar").config.source.text_layer
    assert settings(decode="ar", verify_text_layer=True).config.source.text_layer


@pytest.mark.parametrize(
    ("asked", "text_format"),
    [
        ({}, None),
        ({"text_format": "markdown"}, "markdown"),
        ({"set": ["assembly.text_format=plain"]}, "plain"),
        ({"server": "http://localhost:8000"}, "markdown"),
        ({"server": "http://localhost:8000", "text_format": "plain"}, "plain"),
        ({"server": "http://localhost:8000", "set": ["assembly.text_format=plain"]}, "plain"),
    ],
)
def test_whose_text_format_counts(asked: dict[str, Any], text_format: str | None) -> None:
    assert settings(**asked).text_format == text_format


def test_records_tell_settings_apart_and_hold_no_secret() -> None:
    def on_record(**more: object) -> dict[str, Any]:
        asked = ParseOptions(["a"], out="out", **more)  # type: ignore[arg-type]
        return resolve(asked).on_record(asked)

    assert on_record() == on_record(set=["run.n_ahead=9"], workers="3", resume=True)  # only faster or slower
    for more in ({"dpi": 100.0}, {"format": "md"}, {"pages": "1"}, {"decode": "ar"}, {"no_merge": True},
                 {"max_tokens": 9}, {"layout": "none"}, {"layout": "cdla", "layout_model": "x"},
                 {"text_format": "markdown"},
                 {"set": ["layout.second_look=1"]}, {"server": "http://localhost:1"}):  # fmt: skip
        assert on_record() != on_record(**more)
    assert "hunter2" not in json.dumps(on_record(password="hunter2"))


def test_new_weights_in_an_old_folder_are_noticed(tmp_path: Path) -> None:
    asked = ParseOptions(["a"], out="out", checkpoint=str(tmp_path))
    before = resolve(asked).on_record(asked)
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    assert resolve(asked).on_record(asked) != before


def test_workers_are_worth_their_start_or_are_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse_readers, "_n_cores", lambda: 6)
    monkeypatch.setattr(parse_readers, "_memory_bytes", lambda: 64 * 10**9)
    image = Image.new("RGB", (40, 30), "white")
    image.save(tmp_path / "long.pdf", save_all=True, append_images=[image] * 11)
    items = [InputFile(str(tmp_path / "long.pdf"))]

    def workers(n_files: int = 1, pages: str | None = None, **more: object) -> int:
        asked = ParseOptions(["a"], out="out", **more)  # type: ignore[arg-type]
        chosen = PageRanges.parse(pages) if pages else None
        return parse_readers.auto_workers(asked, items * n_files, PipelineConfig(), chosen)

    assert workers() == 12 // parse_readers.PAGES_PER_WORKER and workers(9) == 6
    assert workers(pages="1") == 1 and workers(9, threads=2) == 3 and workers(9, threads=4) == 1
    assert workers(9, device="cuda") == 1
    assert workers(9, checkpoint="some/hub-id") == 1  # a large network takes all cores by itself
    assert workers(9, checkpoint="some/hub-id", threads=1) == 6
    monkeypatch.setattr(parse_readers, "_memory_bytes", lambda: 2 * 10**9)
    assert workers(9) == 2


@pytest.mark.usefixtures("scripted")
def test_formats_page_limits_and_furniture_reach_the_output(tmp_path: Path) -> None:
    image = Image.new("RGB", (400, 300), "white")
    draw_lines(image, (40, 100, 360, 220))
    image.save(tmp_path / "three.pdf", save_all=True, append_images=[image] * 2)
    code, answer, told = parse(
        tmp_path / "three.pdf", "-o", tmp_path / "out", "--max-pages", "2", "--format", "md,json,html,content-list"
    )
    (file,) = answer["files"]
    assert (code, file["status"], file["n_pages"]) == (0, "ok", 2) and "--max-pages 2" in file["notes"][0]
    assert "--max-pages 2" in told
    assert {Path(path).suffix for path in file["outputs"]} == {".md", ".json", ".html"} and len(file["outputs"]) == 4
    assert not list((tmp_path / "out").rglob(".pages"))


@pytest.mark.usefixtures("scripted")
def test_resuming_without_anything_to_do_loads_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [page(tmp_path / f"{name}.png") for name in "ab"]
    parse(*files, "-o", tmp_path / "out")

    def too_early(*arguments: object, **more: object) -> None:
        raise AssertionError("loaded")

    monkeypatch.setattr(parse_command.GravityOCR, "from_pretrained", too_early)
    code, answer, told = parse(*files, "-o", tmp_path / "out", "--resume")
    assert code == 0 and [file["resumed"] for file in answer["files"]] == [True, True]
    assert "finished by an earlier run" in told and "2 resumed" in told


@pytest.mark.usefixtures("scripted")
def test_the_first_failure_stops_where_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "bad.pdf").write_bytes(b"%PDF-")
    code, answer, told = parse(tmp_path / "bad.pdf", page(tmp_path / "a.png"), "-o", tmp_path / "out", "--fail-fast")
    assert code == 1 and answer["n_failed"] == 1
    assert [file["status"] for file in answer["files"]] == ["failed", "skipped"]
    assert "a.png: skipped: not run" in told and "2 inputs: 1 failed, 1 skipped" in told


@pytest.mark.usefixtures("scripted")
def test_stdin_is_an_input(tmp_path: Path) -> None:
    data = page(tmp_path / "a.png").read_bytes()
    result = CliRunner().invoke(app, ["parse", "-", "--stdout"], input=data)
    assert result.exit_code == 0 and result.stdout.strip() == "text 0"


def test_where_nothing_can_be_read_nothing_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_early(*arguments: object, **more: object) -> None:
        raise AssertionError("loaded")

    monkeypatch.setattr(parse_command.GravityOCR, "from_pretrained", too_early)
    monkeypatch.setattr(ParseSettings, "on_record", too_early)  # torch would come with the engine's settings
    (tmp_path / "notes.pdf").write_text("no PDF")
    code, answer, told = parse(tmp_path / "notes.pdf", tmp_path / "gone.png", "-o", tmp_path / "out")
    assert code == 1 and [file["status"] for file in answer["files"]] == ["failed", "failed"]
    assert "neither a PDF nor an image" in answer["files"][0]["error"]
    assert told.count("notes.pdf: is neither") == 1 and told.count("gone.png: no such file") == 1


def test_what_cannot_be_read_is_told_before_the_checkpoint_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    def load(*arguments: object, **more: object) -> GravityOCR:
        told.append(stream.getvalue())
        return GravityOCR(ScriptedRecognizer(), ScriptedDetector([]))  # type: ignore[arg-type]

    stream = io.StringIO()
    monkeypatch.setattr(options.console, "_file", stream)
    monkeypatch.setattr(parse_command.GravityOCR, "from_pretrained", load)
    code, answer, _ = parse(page(tmp_path / "a.png"), tmp_path / "gone.png", "-o", tmp_path / "out", "--workers", "1")
    assert code == 1 and [file["status"] for file in answer["files"]] == ["ok", "failed"]
    assert "gone.png: no such file" in told[0]


@pytest.mark.usefixtures("scripted")
def test_stdout_says_in_a_comment_what_failed(tmp_path: Path) -> None:
    bad = tmp_path / "bad-->.pdf"
    bad.write_bytes(b"%PDF-")
    result = CliRunner().invoke(app, ["parse", str(page(tmp_path / "a.png")), str(bad), "--stdout"])
    assert result.exit_code == 1 and "text 0" in result.stdout
    *_, last = result.stdout.strip().splitlines()
    assert last.startswith("<!-- ") and last.endswith(" -->") and "failed" in last and last.count("-->") == 1


def test_the_names_that_the_engine_knows() -> None:
    from gravityocr.decoding.prompts import DECODE_MODES
    from gravityocr.engine.engine import DRAFTS

    assert (options.DECODE_MODES, options.DRAFTS) == (DECODE_MODES, DRAFTS)


def test_mends_are_chosen_by_name(tmp_path: Path) -> None:
    file = tmp_path / "parse.toml"
    file.write_text('[assembly]\nmends = ["currency", "loops"]\n')
    assert settings(config=str(file)).config.assembly.mends == ("loops", "currency")
    for text in ("loops,currency", '["loops", "currency"]'):
        assert settings(set=[f"assembly.mends={text}"]).config.assembly.mends == ("loops", "currency")
    assert settings(set=["assembly.mends=[]"]).config.assembly.mends == ()


def test_the_detector_that_auto_takes_is_on_record(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for is_here, name in ((False, "cdla"), (True, "pp-doclayout-v3")):
        monkeypatch.setattr(layout_choice, "_v3_is_here", lambda model, is_here=is_here: is_here)
        asked = ParseOptions(["a"], out="out")
        found.append(resolve(asked).on_record(asked))
        assert found[-1]["detector"] == name
    assert found[0] != found[1]


def test_a_password_may_lie_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(" hünter 2 \n", encoding="utf-8")
    assert settings(password_file=str(file)).config.source.password == " hünter 2 "
    for content in (b"", b"\n", b"a\nb\n", b"\xff\n", b"a" * 2000):
        file.write_bytes(content)
        with pytest.raises(InputError, match="holds no password"):
            settings(password_file=str(file))
    with pytest.raises(InputError, match="cannot be read"):
        settings(password_file=str(tmp_path))
