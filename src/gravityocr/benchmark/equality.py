"""Identity with AR: ids and strings, where outputs first part, and which side fp32 takes there."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gravityocr.benchmark.cases import Case
from gravityocr.benchmark.protocol import REFERENCE, CropRun, Measured, measure_crops
from gravityocr.benchmark.speed import decode_seconds
from gravityocr.document import Crop, Recognition
from gravityocr.errors import ConfigError
from gravityocr.pipeline.recognizer import Recognizer

_UNGUARDED = " unguarded"
SMALL_MARGIN = 0.05
"""*Units*: nats. *Source*: section 4, the equality test."""
EQUALITY_BOUNDARY = (
    "ids and strings of each crop against AR in the same type, greedy; where they first differ, the next token's top "
    "two by one causal forward over the shared ids, in the type of the run and in fp32"
)


@dataclass(frozen=True)
class Choice:
    """What a network says comes next. *Units*: `margin` in nats, between the best token and the second."""

    token: int
    margin: float


Judge = Callable[[Crop, int, Sequence[int]], Choice]
"""Crop, number of the piece, the ids that it starts with -> what comes next."""


@dataclass(frozen=True)
class Judges:
    """One judge in the type of the run, one in fp32."""

    own: Judge
    fp32: Judge


@dataclass(frozen=True)
class Divergence:
    """Where one sequence parts from AR. `sides_with` is whom fp32 joins: `ar`, `mode` or `neither`."""

    file: str
    kind: str
    mode: str
    piece: int
    position: int
    ar_token: int | None
    mode_token: int | None
    fp32_token: int
    margin: float
    fp32_margin: float
    sides_with: str


def bench_equality(
    modes: Mapping[str, Recognizer],
    cases: Sequence[Case],
    judges: Judges,
    repeats: int = 1,
    on_case: Callable[[int], None] | None = None,
    *,
    unguarded: Mapping[str, Recognizer] | None = None,
) -> dict[str, Any]:
    """Compare every mode with `ar`, crop by crop. Returns the JSON of `bench equality`.

    `unguarded` are the same modes without the tie guard, measured in the same run: what they lose is what the guard is
    worth, and what they save is what it costs.

    *Raises*: ConfigError where `ar` is not among the modes.
    """
    if REFERENCE not in modes:
        raise ConfigError(f"--modes {','.join(modes)}: equality needs {REFERENCE} among them")
    bare = {f"{name}{_UNGUARDED}": reader for name, reader in (unguarded or {}).items()}
    run = measure_crops({**modes, **bare}, cases, repeats, decode_seconds, on_case, warm_up=False)
    report = {
        "bench": "equality",
        "boundary": EQUALITY_BOUNDARY,
        "simulated": False,
        **_compare(_Side(run, "", list(modes)), judges),
        "n_crops": len(run.cases),
        "repeats": repeats,
        "failed": run.failed,
    }
    if bare and run.cases:
        found = _compare(_Side(run, _UNGUARDED, list(modes)), judges)
        report["unguarded"] = found
        report["guard_cost"] = {
            name: {
                "x_time": row["decode_s"] / max(found["modes"][name]["decode_s"], 1e-9),
                "guarded": row["guarded"],
                "identical_unguarded": found["modes"][name]["identical_to_ar"],
            }
            for name, row in report["modes"].items()
        }
    return report


@dataclass(frozen=True)
class _Side:
    """The modes with the guard, or those without, whose names have a suffix."""

    run: CropRun
    suffix: str
    names: list[str]

    def of(self, name: str) -> list[Measured]:
        return self.run.measured[f"{name}{self.suffix}"]


def _compare(side: _Side, judges: Judges) -> dict[str, Any]:
    divergences = [one for name in side.names if name != REFERENCE for one in _divergences(side, name, judges)]
    rows_of: dict[str, list[int]] = {}
    for row, case in enumerate(side.run.cases):
        rows_of.setdefault(case.kind, []).append(row)
    return {
        "modes": _table(side, range(len(side.run.cases)), divergences),
        "by_kind": {
            kind: _table(side, rows, [one for one in divergences if one.kind == kind])
            for kind, rows in sorted(rows_of.items())
        },
        "divergences": [asdict(one) for one in divergences],
    }


def _divergences(side: _Side, name: str, judges: Judges) -> list[Divergence]:
    found = []
    for case, ours, theirs in zip(side.run.cases, side.of(name), side.of(REFERENCE), strict=True):
        for piece, (ids, expected) in enumerate(_pieces(ours.answers[0], theirs.answers[0])):
            if ids != expected:
                found.append(_judge(case, name, piece, ids, expected, judges))
    return found


def _pieces(ours: Recognition, theirs: Recognition) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Pair the pieces of two answers to one crop: both were cut by the same code."""
    return list(zip(ours.ids, theirs.ids, strict=True))


def _judge(
    case: Case, name: str, piece: int, ids: Sequence[int], expected: Sequence[int], judges: Judges
) -> Divergence:
    position = first_difference(ids, expected)
    crop, shared = case.crop(), list(expected[:position])
    own, exact = judges.own(crop, piece, shared), judges.fp32(crop, piece, shared)
    ar_token, mode_token = _at(expected, position), _at(ids, position)
    side = {ar_token: "ar", mode_token: "mode"}.get(exact.token, "neither")
    return Divergence(str(case.file), case.kind, name, piece, position, ar_token, mode_token, exact.token, own.margin,
                      exact.margin, side)  # fmt: skip


def first_difference(one: Sequence[int], other: Sequence[int]) -> int:
    """Return the first place at which two sequences differ, the end of the shorter one included."""
    same = (a == b for a, b in zip(one, other, strict=False))
    return next((place for place, equal in enumerate(same) if not equal), min(len(one), len(other)))


def _at(ids: Sequence[int], position: int) -> int | None:
    return ids[position] if position < len(ids) else None


def _table(side: _Side, rows: Sequence[int], divergences: Sequence[Divergence]) -> dict[str, Any]:
    return {
        name: _row(
            [side.of(name)[i] for i in rows],
            [side.of(REFERENCE)[i] for i in rows],
            [one for one in divergences if one.mode == name],
        )
        for name in side.names
        if rows
    }


def _row(ours: Sequence[Measured], theirs: Sequence[Measured], divergences: Sequence[Divergence]) -> dict[str, Any]:
    pairs = [(one.answers[0], other.answers[0]) for one, other in zip(ours, theirs, strict=True)]
    pieces = [piece for a, b in pairs for piece in _pieces(a, b)]
    n_tokens = sum(a.n_tokens for a, _ in pairs)
    sides = {side: sum(one.sides_with == side for one in divergences) for side in ("ar", "mode", "neither")}
    margins = [one.margin for one in divergences]
    return {
        "n_crops": len(pairs),
        "n_sequences": len(pieces),
        "n_tokens": n_tokens,
        "identical_to_ar": sum(a.ids == b.ids for a, b in pairs) / max(1, len(pairs)),
        "identical_sequences": sum(a == b for a, b in pieces) / max(1, len(pieces)),
        "identical_strings": sum(a.text == b.text for a, b in pairs) / max(1, len(pairs)),
        "n_divergent": len(divergences),
        "median_margin": statistics.median(margins) if margins else None,
        "n_small_margins": sum(margin < SMALL_MARGIN for margin in margins),
        "fp32_sides_with": sides,
        "guarded": sum(a.n_guarded for a, _ in pairs) / max(1, n_tokens),
        "decode_s": sum(statistics.median(one.seconds) for one in ours),
    }
