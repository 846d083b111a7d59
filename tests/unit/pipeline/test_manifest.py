"""The record of finished inputs: whole lines, torn ones passed over, and every change of input or settings noticed."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gravityocr.errors import InputError
from gravityocr.pipeline.manifest import MANIFEST_NAME, FileState, Manifest, Record, flat_settings, settings_hash


def record(path: Path, **more: object) -> Record:
    return Record(FileState.of(str(path), path), "s", ("a/a.md",), {"status": "ok"}, **more)  # type: ignore[arg-type]


@pytest.fixture
def input_file(tmp_path: Path) -> Path:
    (tmp_path / "a.png").write_bytes(b"first")
    return tmp_path / "a.png"


def test_records_are_read_back(tmp_path: Path, input_file: Path) -> None:
    manifest = Manifest(tmp_path / "out")
    name = manifest.add_settings({"source.dpi": 200.0, "formats": ["md"]})
    first = Record(FileState.of(str(input_file), input_file), name, ("a/a.md",), {"status": "ok"})
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


def test_lost_outputs_are_named(tmp_path: Path, input_file: Path) -> None:
    manifest = Manifest(tmp_path / "out")
    found = record(input_file)
    assert manifest.lost_outputs(found) == ["a/a.md"]
    (tmp_path / "out/a").mkdir(parents=True)
    (tmp_path / "out/a/a.md").write_text("")
    assert manifest.lost_outputs(found) == []


def test_names_that_are_no_unicode_are_kept(tmp_path: Path) -> None:
    name = os.fsdecode(b"\xff.png")
    manifest = Manifest(tmp_path)
    manifest.add(Record(FileState(name), "s"))
    assert Manifest(tmp_path).record_of(name) == Record(FileState(name), "s")


def test_a_record_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / MANIFEST_NAME).mkdir()
    with pytest.raises(InputError, match="cannot be read"):
        Manifest(tmp_path)


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
