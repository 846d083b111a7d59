"""Folders appear whole or not at all, and what stood there before is never lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.base_checkpoints import names_in

from gravityocr.errors import InputError
from gravityocr.model.checkpoint_files import new_folder


def old_folder(path: Path) -> Path:
    path.mkdir(parents=True)
    (path / "config.json").write_text("old", encoding="utf-8")
    return path


def fill(folder: Path) -> None:
    (folder / "config.json").write_text("new", encoding="utf-8")


def test_a_folder_appears_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    with new_folder(path) as folder:
        fill(folder)
        assert not path.exists()
    assert names_in(path.parent) == ["b"] and (path / "config.json").read_text() == "new"


def test_the_old_folder_stands_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = old_folder(tmp_path / "a")
    with new_folder(path, overwrite=True) as folder:
        fill(folder)
        assert (path / "config.json").read_text() == "old"
    assert names_in(tmp_path) == ["a"] and (path / "config.json").read_text() == "new"


def test_after_an_error_the_old_folder_is_as_it_was(tmp_path: Path) -> None:
    path = old_folder(tmp_path / "a")
    with pytest.raises(InputError), new_folder(path, overwrite=True) as folder:
        fill(folder)
        raise InputError("no")
    assert names_in(tmp_path) == ["a"] and (path / "config.json").read_text() == "old"


def test_when_the_last_step_fails_the_old_folder_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = old_folder(tmp_path / "a")
    replace = Path.replace

    def fails(self: Path, target: Path) -> Path:
        if self.name.endswith(".part"):
            raise OSError(5, "Input/output error")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(OSError, match="Input/output"), new_folder(path, overwrite=True) as folder:
        fill(folder)
    assert names_in(tmp_path) == ["a"] and (path / "config.json").read_text() == "old"


def test_a_taken_place_is_refused_before_any_work(tmp_path: Path) -> None:
    path = old_folder(tmp_path / "a")
    with pytest.raises(InputError, match="--overwrite"), new_folder(path):
        pytest.fail("it began")
    assert names_in(tmp_path) == ["a"]
