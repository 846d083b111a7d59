"""The package's sources, parsed once for all house tests."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Source:
    """One file of the package: `module` is its dotted name, `gravityocr` first, without `__init__`."""

    path: str
    module: str
    text: str
    tree: ast.Module


def parse_source(path: str, text: str) -> Source:
    """Parse the text of `path`, which is relative to the folder that holds the package."""
    parts = Path(path).with_suffix("").parts
    module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return Source(path, module, text, ast.parse(text, filename=path))


@pytest.fixture(scope="session")
def sources(repo_root: Path) -> list[Source]:
    """List every Python file under src, sorted by path."""
    root = repo_root / "src"
    found = [
        parse_source(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"))
        for path in sorted(root.rglob("*.py"))
    ]
    assert any(source.module == "gravityocr.errors" for source in found), (
        "no sources found: the rules would hold emptily"
    )
    return found


@pytest.fixture(scope="session")
def parse():
    """Give the function that makes a Source of text, for the tests of the rules themselves."""
    return parse_source
