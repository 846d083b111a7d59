"""Texts that ended in a loop."""

from __future__ import annotations

import pytest

from gravityocr.engine.loops import without_repeated_tail


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Warming Upppppppppppp", "Warming Up"),
        ("a loop loop loop lo", "a loop"),
        ("x = 0.000000000001", "x = 0.000000000001"),
        ("aaaa", "aaaa"),
        ("no loop at all", "no loop at all"),
        ("", ""),
        ("ab" * 40 + "a", "ab"),
    ],
)
def test_one_round_is_left(text: str, left: str) -> None:
    assert without_repeated_tail(text) == left
