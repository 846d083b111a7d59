from __future__ import annotations

import numpy as np
import pytest

from gravityocr.errors import ConfigError
from gravityocr.metrics.formulas import render_cache
from gravityocr.metrics.formulas.formula_render import TokenBoxes
from gravityocr.metrics.formulas.render_cache import RenderCache

SHOWN = TokenBoxes(("a", "\\frac"), np.array([[1, 2, 3, 4], [5, 6, 7, 8]], np.int32), (20, 10), roles=("^*", ""))


@pytest.fixture
def cache(tmp_path, monkeypatch) -> RenderCache:
    monkeypatch.setattr(render_cache, "pdflatex_version", lambda: "pdfTeX test")
    return RenderCache(str(tmp_path / "renders"))


def test_renders_come_back(cache) -> None:
    failed = TokenBoxes(status="unrenderable", error="why")
    cache.store(["a\ud800", "b"], [SHOWN, failed])
    back = cache.load("a\ud800")
    assert back is not None and (back.tokens, back.size, back.status) == (SHOWN.tokens, SHOWN.size, "ok")
    assert back.roles == SHOWN.roles
    assert np.array_equal(back.boxes, SHOWN.boxes)
    kept = cache.load("b")
    assert kept is not None and (kept.status, kept.error, len(kept.boxes)) == ("unrenderable", "why", 0)
    assert cache.load("c") is None


def test_a_timeout_is_not_kept(cache) -> None:
    cache.store(["a"], [TokenBoxes(status="timeout", error="slow machine")])
    assert cache.load("a") is None


@pytest.mark.parametrize("damage", [b"", b"nonsense", b"\xff\xfe", None])
def test_damaged_files_count_as_missing(cache, damage) -> None:
    cache.store(["a"], [SHOWN])
    path = cache.path_of("a")
    path.write_bytes(path.read_bytes()[:-3] if damage is None else damage)
    assert cache.load("a") is None
    cache.store(["a"], [SHOWN])
    assert cache.load("a") is not None


def test_other_tools_do_not_share_renders(cache, tmp_path, monkeypatch) -> None:
    cache.store(["a"], [SHOWN])
    monkeypatch.setattr(render_cache, "pdflatex_version", lambda: "pdfTeX other")
    assert RenderCache(str(tmp_path / "renders")).load("a") is None


def test_a_folder_that_cannot_be_made_is_named(tmp_path, cache) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be made"):
        RenderCache(str(tmp_path / "file" / "below"))
