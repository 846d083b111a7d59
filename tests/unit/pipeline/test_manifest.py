"""The record of finished inputs: whole lines, torn ones passed over, and every change of input or settings noticed."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gravityocr.errors import ConfigError
from gravityocr.pipeline.manifest import MANIFEST_NAME, FileState, Manifest, Record, flat_settings, settings_hash

REPORT = {"status": "ok", "n_pages": 1, "n_regions": 2, "error": None, "notes": ["n"]}


def record(path: Path, settings: str = "s", **more: object) -> Record:
    state = FileState.of(str(path), path)
    return Record(state, settings, ("a/a.md",), {"a/a.md": 5, "a/images/p.png": 3}, REPORT, **more)  # type: ignore[arg-type]


@pytest.fixture
def input_file(tmp_path: Path) -> Path:
    (tmp_path / "a.png").write_bytes(b"first")
    return tmp_path / "a.png"


def test_records_are_read_back(tmp_path: Path, input_file: Path) -> None:
    manifest = Manifest(tmp_path / "out")
    name = manifest.add_settings({"source.dpi": 200.0, "formats": ["md"]})
    first = record(input_file, name)
    manifest.add(first)
    manifest.add_settings({"source.dpi": 200.0, "formats": ["md"]})
    again = Manifest(tmp_path / "out")
    assert again.record_of(str(input_file)) == first and again.record_of("other") is None
    assert again.changes(first, {"source.dpi": 200.0, "formats": ["md"]}) == []
    assert again.changes(first, {"source.dpi": 100.0, "pages": "1"}) == [
        "formats: ['md'] -> None", "pages: None -> 1", "source.dpi: 200.0 -> 100.0",
    ]  # fmt: skip
    assert len((tmp_path / "out" / MANIFEST_NAME).read_text().splitlines()) == 2


def test_an_input_is_the_same_by_time_or_by_content(input_file: Path) -> None:
    state = FileState.of("a", input_file)
    os.utime(input_file, ns=(1, 1))
    assert state.same(FileState.of("a", input_file))  # touched, but of the same bytes
    input_file.write_bytes(b"other")  # as long
    assert not state.same(FileState.of("a", input_file))
    input_file.write_bytes(b"longer than that")
    assert not state.same(FileState.of("a", input_file))
    input_file.unlink()
    assert not state.same(FileState.of("a", input_file))
    assert FileState.of("https://host/a.pdf", None).same(FileState.of("https://host/a.pdf", None))


def test_an_unchanged_file_is_not_read_again(input_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = FileState.of("a", input_file)
    monkeypatch.setattr("gravityocr.pipeline.manifest._hash", lambda path: "read")
    assert FileState.of("a", input_file, state) == state
    os.utime(input_file, ns=(1, 1))
    assert FileState.of("a", input_file, state).sha256 == "read"


@pytest.mark.parametrize(
    "tail", [b'{"state": {"ident', b"\x00\xff", b'{"state": 3}', b"[]", b"null", b'{"outputs": []}']
)
def test_a_torn_or_strange_line_costs_its_own_record_only(tmp_path: Path, input_file: Path, tail: bytes) -> None:
    manifest = Manifest(tmp_path)
    manifest.add(record(input_file))
    with open(tmp_path / MANIFEST_NAME, "ab") as stream:
        stream.write(tail)
    manifest = Manifest(tmp_path)
    assert manifest.record_of(str(input_file)) is not None
    other = tmp_path / "b.png"
    other.write_bytes(b"b")
    manifest.add(record(other))
    again = Manifest(tmp_path)
    assert again.record_of(str(other)) is not None and again.record_of(str(input_file)) is not None


def test_the_last_record_counts_and_old_ones_are_dropped(tmp_path: Path, input_file: Path) -> None:
    manifest = Manifest(tmp_path)
    for number in range(130):
        manifest.add(record(input_file, again=number % 2 == 0))
    again = Manifest(tmp_path)
    found = again.record_of(str(input_file))
    assert found is not None and not found.again
    assert len((tmp_path / MANIFEST_NAME).read_text().splitlines()) == 1
    assert list(tmp_path.glob("*.part")) == []


def test_files_that_are_not_those_that_were_written_are_named(tmp_path: Path, input_file: Path) -> None:
    out = tmp_path / "out"
    manifest = Manifest(out)
    found = record(input_file)
    assert manifest.trouble(found, out / "a") == "a/a.md is gone"
    (out / "a/images").mkdir(parents=True)
    (out / "a/a.md").write_text("12345")
    assert manifest.trouble(found, out / "a") == "a/images/p.png is gone"
    (out / "a/images/p.png").write_bytes(b"123")
    assert manifest.trouble(found, out / "a") is None
    assert manifest.trouble(found, out / "a-2") == "a/a.md is of another document"
    (out / "a/a.md").write_text("")
    assert manifest.trouble(found, out / "a") == "a/a.md has changed since"
    (out / "a/a.md").unlink()
    os.mkfifo(out / "a/a.md")
    assert manifest.trouble(found, out / "a") == "a/a.md is no file any more"
    (out / "a").rename(tmp_path / "elsewhere")
    (out / "a").symlink_to(tmp_path / "elsewhere")
    assert manifest.trouble(found, out / "a") == "a is a link now"


def test_names_that_are_no_unicode_are_kept(tmp_path: Path) -> None:
    name = os.fsdecode(b"\xff.png")
    found = Record(FileState(name), "s", ("a/a.md",), {"a/a.md": 1}, REPORT)
    manifest = Manifest(tmp_path)
    manifest.add(found)
    assert Manifest(tmp_path).record_of(name) == found


@pytest.mark.parametrize(
    "change",
    [
        {"report": {}},
        {"report": REPORT | {"notes": 5}},
        {"report": REPORT | {"notes": [5]}},
        {"report": REPORT | {"status": "done"}},
        {"report": REPORT | {"n_pages": "1"}},
        {"report": REPORT | {"text_layer": {"n_compared": 1}}},
        {"settings": [1]},
        {"again": "no"},
        {"outputs": []},
        {"outputs": ["a/b.md"]},
        {"files": {}},
        {"files": {"a/a.md": None}},
        *({"outputs": [name], "files": {name: 1}} for name in ("../../etc/passwd", "/etc/passwd", "a/../../x", "a.md")),
        {"state": {"identity": "X"}},
        {"state": {"identity": "X", "size": "1", "mtime_ns": 2, "sha256": None}},
    ],
)
def test_a_record_that_no_run_can_have_written_is_damaged(
    tmp_path: Path, input_file: Path, change: dict[str, object]
) -> None:
    manifest = Manifest(tmp_path)
    manifest.add(record(input_file))
    (line,) = (tmp_path / MANIFEST_NAME).read_text().splitlines()
    text = json.dumps(json.loads(line) | change).replace('"X"', json.dumps(str(input_file)))
    (tmp_path / MANIFEST_NAME).write_text(f"{line}\n{text}\n")
    manifest = Manifest(tmp_path)
    assert manifest.record_of(str(input_file)) is None and manifest.is_damaged(str(input_file))
    manifest.add(record(input_file))
    again = Manifest(tmp_path)
    assert again.record_of(str(input_file)) is not None and not again.is_damaged(str(input_file))


def test_lines_without_bottom_are_passed_over(tmp_path: Path, input_file: Path) -> None:
    Manifest(tmp_path).add(record(input_file))
    with open(tmp_path / MANIFEST_NAME, "ab") as stream:
        stream.write(b"[" * 200_000 + b"\n" + b'{"settings": [1], "values": {}}\n{"forget": []}\n')
    assert Manifest(tmp_path).record_of(str(input_file)) is not None


@pytest.mark.parametrize("kind", ["folder", "pipe", "link"])
def test_a_record_that_is_no_file_is_refused_and_left_as_it_is(tmp_path: Path, input_file: Path, kind: str) -> None:
    out = tmp_path / "out"
    out.mkdir()
    manifest = Manifest(out)
    place = out / MANIFEST_NAME
    other = tmp_path / "other"
    other.write_text("mine")
    {"folder": place.mkdir, "pipe": lambda: os.mkfifo(place), "link": lambda: place.symlink_to(other)}[kind]()
    with pytest.raises(ConfigError, match=rf"{MANIFEST_NAME}: cannot be the record.*remove it"):
        Manifest(out)
    with pytest.raises(ConfigError):  # it came while the run was under way
        manifest.add(record(input_file))
    assert other.read_text() == "mine"


@dataclass(frozen=True)
class Inner:
    password: str | None = "secret"
    names: frozenset[str] = frozenset({"b", "a"})


@dataclass(frozen=True)
class Outer:
    inner: Inner = field(default_factory=Inner)
    sizes: tuple[int, ...] = (1, 2)


def test_settings_become_one_table_without_secrets() -> None:
    table = flat_settings({"outer": Outer(), "formats": ("md",)}, secret=frozenset({"outer.inner.password"}))
    assert table == {
        "outer.inner.password": "given", "outer.inner.names": ["a", "b"], "outer.sizes": [1, 2], "formats": ["md"],
    }  # fmt: skip
    assert json.loads(json.dumps(table)) == table
    assert settings_hash(table) == settings_hash(dict(reversed(table.items())))
    assert settings_hash(table) != settings_hash(table | {"formats": ["json"]})
