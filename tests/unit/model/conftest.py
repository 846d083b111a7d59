"""A tiny checkpoint folder for the tests of loading."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.factories import tiny_network, write_checkpoint


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("template") / "checkpoint", tiny_network())


@pytest.fixture
def folder(template: Path, tmp_path: Path) -> Path:
    """Give a checkpoint folder of the test's own to spoil."""
    return Path(shutil.copytree(template, tmp_path / "checkpoint"))
