"""What a recognizer answered, checked: an answer of the wrong kind costs its own region, with the reason told."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, get_args

from gravityocr.document import Recognition, RegionStatus
from gravityocr.errors import GravityOCRError

_COUNTS = ("n_tokens", "n_forwards", "n_rounds", "n_accepted", "n_hits", "n_guarded")


def usable_answers(answers: Any, n_crops: int) -> list[Recognition]:
    """Return one recognition per crop, `failed` where the recognizer's is not of the kind that the protocol asks for.

    Counts that are no numbers fail a region, too: what answers so cannot be trusted with its text.

    *Raises*: GravityOCRError for anything but as many answers as there were crops.
    """
    if not isinstance(answers, Sequence) or isinstance(answers, str | bytes):
        raise GravityOCRError(_told(f"{_kind(answers)} instead of a list"))
    if len(answers) != n_crops:
        raise GravityOCRError(_told(f"{len(answers)} of {n_crops} crops"))
    return [_usable(answer) for answer in answers]


def _usable(answer: Any) -> Recognition:
    wrong = _what_is_wrong(answer)
    if wrong is not None:
        return Recognition("", "failed", _told(wrong))
    counts = {name: int(getattr(answer, name)) for name in _COUNTS}
    error = answer.error if answer.error is None or isinstance(answer.error, str) else f"{answer.error!r:.200}"
    text = answer.text
    if not text.isascii():  # half of a surrogate pair, which JSON may hold, cannot be written to a file
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return replace(answer, text=text, error=error, **counts)


def _what_is_wrong(answer: Any) -> str | None:
    if not isinstance(answer, Recognition):
        return f"{_kind(answer)} instead of a Recognition"
    if not isinstance(answer.text, str):
        return f"{_kind(answer.text)} as text"
    if not isinstance(answer.status, str) or answer.status not in get_args(RegionStatus):
        return f"{answer.status!r:.80} as status"
    if not isinstance(answer.ids, tuple | list):
        return f"{_kind(answer.ids)} as ids"
    return next((f"{value!r:.80} as {name}" for name, value in _counts(answer) if not _is_count(value)), None)


def _counts(answer: Recognition) -> list[tuple[str, object]]:
    return [(name, getattr(answer, name)) for name in _COUNTS]


def _is_count(value: Any) -> bool:
    """Tell whether a value is a whole number; NumPy's count, too, and floats as 3.0, but not True."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    number: Any = value  # of what a Real can do, type checkers know little
    whole = isinstance(value, Integral) or (math.isfinite(number) and number == int(number))
    return bool(whole and number >= 0)


def _kind(value: object) -> str:
    return type(value).__name__


def _told(what: str) -> str:
    return f"the recognizer answered {what}: report it"
