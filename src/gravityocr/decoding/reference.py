"""A reference text as a source of drafts: the tokens that followed where it last agreed with the response."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MAX_SUFFIX = 16
DISTANCE_COST, FAR = 0.35, 20  # a suffix of eight tokens may lead anywhere, a single one not beyond its neighbours


@dataclass
class ReferenceText:
    """Follow a response through a text that may resemble it.

    `expected` is where the next token would be if every token so far had had its counterpart; `n_seen` how many tokens
    of the response that takes into account.
    """

    tokens: Sequence[int]
    expected: int = 0
    n_seen: int = 0

    def propose(self, ids: Sequence[int], n_most: int) -> list[int]:
        """Return at most `n_most` tokens that may follow the response.

        The place is that behind the longest suffix of the response; a short suffix must not lead far from where the
        response is expected to be, so that a misread character does not throw the reader off.
        """
        self.expected += len(ids) - self.n_seen
        self.n_seen = len(ids)
        best_score, best = 0.0, self.expected
        for place in range(1, len(self.tokens) + 1):
            if self.tokens[place - 1] != ids[-1]:
                continue
            length = self._suffix(ids, place)
            score = length - DISTANCE_COST * min(abs(place - self.expected), FAR)
            if score > best_score or (place == self.expected and score >= best_score):
                best_score, best = score, place
        self.expected = best
        return list(self.tokens[best : best + n_most]) if best < len(self.tokens) else []

    def _suffix(self, ids: Sequence[int], place: int) -> int:
        """Return how many tokens before `place` equal the last ones of the response."""
        longest = min(place, len(ids), MAX_SUFFIX)
        for length in range(longest):
            if self.tokens[place - 1 - length] != ids[-1 - length]:
                return length
        return longest
