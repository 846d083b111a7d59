"""Memory goes back to the system: what was freed in small pieces is resident no more."""

from __future__ import annotations

import os
import sys

import psutil
import pytest

from gravityocr.pipeline.memory import give_back


@pytest.mark.skipif(sys.platform != "linux", reason="other systems' C libraries have no malloc_trim")
def test_freed_pieces_are_resident_no_more() -> None:
    process = psutil.Process(os.getpid())
    pieces = [bytes(2000) for _ in range(100_000)]  # too small to be mapped one by one
    kept = pieces[::1000]  # and some stay, which holds the heap's end in its place
    full = process.memory_info().rss
    del pieces
    give_back()
    assert full - process.memory_info().rss > 100 * 2**20
    assert len(kept) == 100
