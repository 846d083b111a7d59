"""The end of the command line: whatever goes wrong is one line on stderr and an exit code."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from gravityocr import cli
from gravityocr.engine.engine import Engine, EngineConfig
from gravityocr.errors import ConfigError, InputError

CROPS = Path(__file__).parents[1] / "data" / "crops"
LINE = CROPS / "line_00.png"


def run(monkeypatch: pytest.MonkeyPatch, *args: object) -> int:
    """Run `main` as the shell would and return its exit code."""
    monkeypatch.setattr(sys, "argv", ["gravityocr", *map(str, args)])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert isinstance(caught.value.code, int)
    return caught.value.code


def fail_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(*_args: Any, **_kwargs: Any) -> Any:
        raise error

    monkeypatch.setattr(Engine, "from_pretrained", fail)


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ConfigError("choose another"), 2, "error: choose another"),
        (InputError("x.png: is broken"), 1, "error: x.png: is broken"),
        (OSError(28, "No space left on device"), 1, "error: cannot read or write: No space left on device"),
        (PermissionError(13, "Permission denied", "a/b"), 1, "error: cannot read or write: Permission denied (a/b)"),
        (RuntimeError("first\nsecond"), 1, "internal error: RuntimeError: first; please report it (see --debug)"),
        (MemoryError(), 1, "internal error: MemoryError: no message; please report it (see --debug)"),
        (RecursionError("deep"), 1, "internal error: RecursionError: deep; please report it (see --debug)"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (BrokenPipeError(32, "Broken pipe"), 1, ""),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_is_one_line_and_a_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, code: int, line: str
) -> None:
    fail_with(monkeypatch, error)
    assert run(monkeypatch, "recognize", LINE) == code
    assert capsys.readouterr().err.strip() == line


def test_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    fail_with(monkeypatch, RuntimeError("first"))
    assert run(monkeypatch, "--debug", "recognize", LINE) == 1
    err = capsys.readouterr().err
    assert "Traceback" in err and err.strip().endswith("please report it (see --debug)")


def test_wrong_usage_exits_2(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "recognize", "--no-such-option") == 2
    assert run(monkeypatch, "--version") == 0
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a full device")
def test_a_full_stdout_is_one_line(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        code = run(monkeypatch, "checkpoint", "info")
        # What the device did not take is dropped, so that the interpreter's own flush at its end succeeds.
        full.flush()
    assert code == 1
    assert capfd.readouterr().err.strip() == "error: cannot read or write: No space left on device"


def test_file_names_that_are_not_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """JSON's own escape stands for a byte that is no UTF-8."""
    name = os.fsdecode(b"gone-\xff.png")
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="utf-8"))
    assert run(monkeypatch, "recognize", tmp_path / name, "--json") == 1
    assert json.loads(written.getvalue())[0]["file"] == str(tmp_path / name)


@pytest.mark.parametrize(
    "options",
    [
        ("--block-size", 100_000),
        ("--block-size", -1),
        ("--max-tokens", 10**30),
        ("--threads", 100_000),
        ("--threads", 0),
        ("--device", "cuda:999"),
        ("--device", "cudafoo"),
        ("--trace", "no-such-folder/trace.html"),
        ("--trace", "."),
        ("--trace", "t" * 300),
    ],
)
def test_settings_out_of_range_exit_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: tuple[object, ...]
) -> None:
    assert run(monkeypatch, "recognize", LINE, *options) == 2
    output = capsys.readouterr()
    assert output.out == "" and output.err.startswith("error: ") and output.err.count("\n") == 1


@pytest.mark.parametrize("threshold", [float("nan"), -0.1, 1.1])
def test_thresholds_out_of_range(threshold: float) -> None:
    with pytest.raises(ConfigError, match="threshold"):
        EngineConfig(threshold=threshold)


def test_a_trace_shows_the_first_file_that_was_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    trace = tmp_path / "trace.html"
    assert run(monkeypatch, "recognize", tmp_path / "none.png", LINE, "--trace", trace, "--json") == 1
    output = capsys.readouterr()
    assert json.loads(output.out)[1]["text"] and f"shows {LINE}" in output.err
    assert "<table" in trace.read_text(encoding="utf-8")
    trace.unlink()
    assert run(monkeypatch, "recognize", tmp_path / "none.png", "--trace", trace, "--json") == 1
    assert "not written" in capsys.readouterr().err and not trace.exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a full device")
def test_a_trace_that_cannot_be_written_costs_no_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "recognize", LINE, "--trace", "/dev/full") == 1
    output = capsys.readouterr()
    assert output.out.strip() and "--trace" in output.err and "cannot be written" in output.err


def test_bench_lists_failed_crops(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    row = json.loads((CROPS / "manifest.json").read_text(encoding="utf-8"))[0]
    rows = [{**row, "file": "gone.png"}, {**row, "file": str(CROPS / row["file"])}]
    (tmp_path / "manifest.json").write_text(json.dumps(rows), encoding="utf-8")
    assert run(monkeypatch, "bench", "decode", "--cases", tmp_path, "--repeats", 1, "--json") == 1
    output = capsys.readouterr()
    report = json.loads(output.out)
    assert [Path(one["file"]).name for one in report["failed"]] == ["gone.png"]
    assert report["n_crops"] == 1 and report["modes"]["self-spec"]["identical_to_ar"] == 1.0
    assert "100%" in output.err
