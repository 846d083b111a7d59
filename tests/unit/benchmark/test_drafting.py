"""Acceptance by distance and by place, counted by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from benchmarks.drafting import PLACES, Tally

from gravityocr.decoding import Decoded


def decoded(ids: list[int], rounds: list[tuple[list[int], int]]) -> Decoded:
    """Return a decoded piece of which only what a tally looks at is there; a round: its drafts, what it committed."""
    trace = [SimpleNamespace(drafts=drafts, committed=ids[:n]) for drafts, n in rounds]
    counts: dict[str, Any] = {"n_forwards": 2 * len(rounds), "n_rounds": len(rounds), "n_accepted": 0}
    return cast(Decoded, SimpleNamespace(ids=ids, trace=trace, **counts))


def test_rates_by_distance_and_by_place() -> None:
    ids = list(range(10, 20))
    tally = Tally()
    # a0 is token 1: drafts for 2, 3, 4 of which the third repeats; then a0 is token 5: drafts up to the end, one skips.
    tally.add(decoded(ids, [([12, 13, 13], 4), ([16, 17, 19], 4)]))
    report = tally.report()
    assert report["rate_at_offset"] == {1: 1.0, 2: 1.0, 3: 0.0}
    assert PLACES == 6 and report["rate_at_place"] == {0: 2 / 3, 6: 2 / 3}
    assert report["first_rejections"] == {"repeats": 0.5, "skips": 0.5}
    assert report["tpf"] == 9 / 4
