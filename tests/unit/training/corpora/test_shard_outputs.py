"""Where rewritten shards go, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from gravityocr.errors import ConfigError, InputError
from gravityocr.training.corpora.shard_outputs import (
    make_out,
    mirrored_files,
    read_side_json,
    side_file,
    write_json,
)


def make(*files: Path) -> None:
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()


def test_folders_and_names_are_kept(tmp_path: Path) -> None:
    one, two = tmp_path / "in/b/1.regions.parquet", tmp_path / "in/a.regions.parquet"
    make(one, two, tmp_path / "in/published.parquet")
    out = tmp_path / "out"
    assert mirrored_files(tmp_path / "in", out) == {two: out / "a.regions.parquet", one: out / "b/1.regions.parquet"}
    assert mirrored_files(one, out) == {one: out / "1.regions.parquet"}
    assert side_file(out / "a.regions.parquet", ".x.json") == out / "a.x.json"


def test_what_would_be_overwritten_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "in/1.regions.parquet"
    make(file)
    for folder, out in ((tmp_path / "in", tmp_path / "in/out"), (tmp_path / "in", tmp_path), (file, tmp_path / "in")):
        with pytest.raises(ConfigError, match="choose"):
            mirrored_files(folder, out)
    with pytest.raises(InputError, match="no region file"):
        mirrored_files(tmp_path / "nowhere", tmp_path / "out")


def test_json_beside_shards(tmp_path: Path) -> None:
    file = tmp_path / "deep/a.json"
    assert read_side_json(file) is None
    write_json(file, {"a": "ü"})
    assert read_side_json(file) == {"a": "ü"} and [*file.parent.iterdir()] == [file]
    for broken in ("{", "[1]", "[" * 100_000):
        file.write_text(broken, encoding="utf-8")
        assert read_side_json(file) is None


def test_a_folder_that_cannot_be_written_is_told_before_any_work(tmp_path: Path, monkeypatch) -> None:
    make_out(tmp_path / "new" / "below", tmp_path / "new")
    assert [*(tmp_path / "new" / "below").iterdir()] == []
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ConfigError, match=r"--out .*file cannot be written .*choose another folder"):
            make_out(folder, tmp_path / "file")

    def refuse(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with pytest.raises(ConfigError, match="Permission denied"):
        make_out(tmp_path / "new", tmp_path / "new")
