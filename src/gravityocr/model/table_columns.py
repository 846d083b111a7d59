"""Columns of a table: vertical channels that the lines leave white, and ruling lines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gravityocr.model.ink import Array
from gravityocr.model.table_ink import Rules
from gravityocr.model.table_words import Words, ruled_apart

_CELL_GAP = 0.85  # in glyph heights: what words of one cell stay below, mostly
_MOST_WORDS = 5000  # the largest ones; more is noise
_MOST_CROSSING = 0.4  # share of the lines beside a channel that may cross it


@dataclass(frozen=True)
class Cut:
    """A boundary of two columns at `at`, in a channel from `start` to `end`; `ruled` where a ruling line makes it."""

    at: float
    start: float
    end: float
    ruled: bool = False


@dataclass(frozen=True)
class Segment:
    """A run of words of one line with no wide gap between them."""

    words: tuple[int, ...]
    left: float
    right: float
    top: float
    bottom: float


def find_segments(words: Words, glyph: float, down: Rules) -> list[Segment]:
    """Return the runs of words that stand close in one line, from left to right each, none over a ruling line."""
    n = len(words)
    left, right, top, bottom = (a.astype(np.float64) for a in (words.left, words.right, words.top, words.bottom))
    after = np.full(n, -1)
    gap_after = np.full(n, np.inf)
    used = np.argsort(-(bottom - top) * (right - left), kind="stable")[:_MOST_WORDS]
    used = used[np.argsort(top[used], kind="stable")]
    tallest = float((bottom - top)[used].max(initial=0.0))
    first = np.searchsorted(top[used], top[used] - tallest)
    last = np.searchsorted(top[used], bottom[used])
    for i, low_, high_ in zip(used, first, last, strict=True):
        near = used[low_:high_]
        overlap = np.minimum(bottom[near], bottom[i]) - np.maximum(top[near], top[i])
        low = np.minimum((bottom - top)[near], bottom[i] - top[i])
        gap = left[near] - right[i]
        ahead = near[
            (left[near] > left[i]) & (-0.4 * glyph <= gap) & (gap < _CELL_GAP * glyph) & (overlap >= 0.4 * low)
        ]
        if ahead.size and len(down):
            start, upper, lower = (np.full(len(ahead), v[i]) for v in (right, top, bottom))
            ahead = ahead[~ruled_apart(start, left[ahead], upper, lower, down)]
        if ahead.size:
            after[i] = int(ahead[int(left[ahead].argmin())])
            gap_after[i] = left[after[i]] - right[i]
    follows = np.full(n, -1)
    for i in np.argsort(gap_after, kind="stable"):
        if after[i] >= 0 and follows[after[i]] < 0:
            follows[after[i]] = i
        else:
            after[i] = -1
    segments = []
    for i in np.sort(used[follows[used] < 0]):
        run = [int(i)]
        while after[run[-1]] >= 0:
            run.append(int(after[run[-1]]))
        segments.append(_segment(words, run))
    return segments


def _segment(words: Words, run: list[int]) -> Segment:
    return Segment(tuple(run), float(words.left[run].min()), float(words.right[run].max()),
                   float(words.top[run].min()), float(words.bottom[run].max()))  # fmt: skip


def find_cuts(segments: list[Segment], rules: list[float], glyph: float) -> list[Cut]:
    """Return the boundaries between columns from left to right; `rules` are places of vertical ruling lines."""
    left = np.array([s.left for s in segments])
    right = np.array([s.right for s in segments])
    cuts: list[Cut] = []
    inside: Array = np.ones(len(segments), dtype=np.bool_)
    for _ in range(2):
        channels = _channels(left[inside], right[inside], glyph)
        cuts = _merged(rules, channels, left, right, glyph)
        middles = np.array([cut.at for cut in cuts])
        if middles.size == 0:
            break
        inside = np.asarray(
            ~((left[:, None] < middles - 0.3 * glyph) & (right[:, None] > middles + 0.3 * glyph)).any(axis=1)
        )
        if inside.sum() < 2:
            break
    return cuts


def _channels(left: Array, right: Array, glyph: float) -> list[Cut]:
    """Return the x-ranges that few lines cross, as against the lines on either side."""
    edges = np.unique(np.concatenate([left, right]))
    if len(edges) < 3:
        return []
    cover = (np.searchsorted(np.sort(left), edges[:-1], side="right")
             - np.searchsorted(np.sort(right), edges[:-1], side="right"))  # fmt: skip
    change = np.flatnonzero(np.diff(cover)) + 1
    starts, ends = np.concatenate([[0], change]), np.concatenate([change, [len(cover)]])
    level = cover[starts]
    low = [k for k in range(1, len(level) - 1) if level[k - 1] > level[k] < level[k + 1]]
    while low:
        bounds = [0, *low, len(level)]
        peaks = [int(level[bounds[k] : bounds[k + 1]].max()) for k in range(len(bounds) - 1)]
        zones = [_zone(level, k, min(peaks[n], peaks[n + 1])) for n, k in enumerate(low)]
        doubt = [_doubt(left, edges[starts[a]], edges[ends[b]], level[k], min(peaks[n], peaks[n + 1]), glyph)
                 for n, (k, (a, b)) in enumerate(zip(low, zones, strict=True))]  # fmt: skip
        for n in range(len(low) - 1):  # two dips of one channel
            if zones[n][1] >= zones[n + 1][0]:
                worse = n if level[low[n]] > level[low[n + 1]] else n + 1
                narrow = n if ends[low[n]] - starts[low[n]] < ends[low[n + 1]] - starts[low[n + 1]] else n + 1
                doubt[worse if level[low[n]] != level[low[n + 1]] else narrow] += 10.0
        worst = int(np.argmax(doubt))
        if doubt[worst] <= _MOST_CROSSING:
            return [Cut(float(edges[starts[k]] + edges[ends[k]]) / 2, float(edges[starts[a]]), float(edges[ends[b]]))
                    for k, (a, b) in zip(low, zones, strict=True)]  # fmt: skip
        # One at a time: what goes joins its neighbours. Noise has hundreds of dips.
        for n in sorted(np.argsort(doubt, kind="stable")[::-1][: max(1, len(low) // 40)].tolist(), reverse=True):
            if doubt[n] > _MOST_CROSSING:
                del low[n]
    return []


def _zone(level: Array, k: int, peak: int) -> tuple[int, int]:
    """Return the first and last stretch around a dip that hardly more lines cross."""
    limit = max(level[k], int(0.2 * peak))
    first = last = k
    while first > 0 and level[first - 1] <= limit:
        first -= 1
    while last < len(level) - 1 and level[last + 1] <= limit:
        last += 1
    return first, last


def _doubt(left: Array, start: float, end: float, crossing: int, peak: int, glyph: float) -> float:
    """Return how little a channel looks like one: the share of lines that cross it, and more where it is narrow."""
    least = (1.6, 0.95, 0.6)[min(max(peak, 1), 3) - 1]
    if end - start < least * glyph:
        # Text that starts at one place in several lines makes a column of its own however near the text before is.
        aligned = int(((left > end - 0.15 * glyph) & (left < end + 0.2 * glyph)).sum())
        if end - start < 0.15 * glyph or aligned < max(3, 0.7 * peak):
            return 2.0 + crossing / max(1, peak)
    return crossing / max(1, peak)


def _merged(rules: list[float], channels: list[Cut], left: Array, right: Array, glyph: float) -> list[Cut]:
    """Return ruling lines and channels as boundaries; a channel with a rule in it is the rule's."""
    cuts = [cut for cut in channels if not any(cut.start - 0.5 * glyph <= x <= cut.end + 0.5 * glyph for x in rules)]
    for x in rules:
        before, after = right[right <= x + 0.3 * glyph], left[left >= x - 0.3 * glyph]
        start = float(before.max()) if before.size else x
        end = float(after.min()) if after.size else x
        cuts.append(Cut(x, min(start, x), max(end, x), ruled=True))
    return sorted(cuts, key=lambda cut: cut.at)
