"""What happened in each round, as data and as a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from gravityocr.decoding.request import Decoded

DecodeToken = Callable[[int], str]


Source = Literal["diffusion", "head", "reference", "none"]


@dataclass(frozen=True)
class RoundTrace:
    """Hold one round of one sequence, or one autoregressive step.

    `exact` are the tokens that draft forwards committed before the drafts: a0, or none where the drafts came with the
    forward before or from a reference. `n_accepted` is A of the acceptance rule; where a stop token or the limit cut
    the round, `committed` is shorter than exact + A + 1. `predictions` is empty where a draft forward ended the
    sequence.
    """

    x0: int
    exact: list[int]
    drafts: list[int]
    predictions: list[int]
    n_accepted: int
    committed: list[int]
    source: Source = "diffusion"

    @property
    def is_cut(self) -> bool:
        """Tell whether a stop token or the limit cut the round."""
        return bool(self.predictions) and len(self.committed) < len(self.exact) + self.n_accepted + 1

    def draft_states(self) -> list[str]:
        """Name what became of each draft: accepted, cut (agreed, behind the end) or rejected."""
        n_kept = min(self.n_accepted, len(self.committed) - len(self.exact))
        n_cut = self.n_accepted - n_kept
        return ["accepted"] * n_kept + ["cut"] * n_cut + ["rejected"] * (len(self.drafts) - self.n_accepted)


_STYLE = """
body { font: 15px/1.6 system-ui, sans-serif; margin: 2rem; color: #1c1c1c; background: #fff; }
table { border-collapse: collapse; } th, td { text-align: left; vertical-align: top; padding: .35rem .6rem; }
tr + tr { border-top: 1px solid #ddd; }
.t { font-family: ui-monospace, monospace; white-space: pre; padding: 0 .2rem; border-radius: 3px; }
.x0, .cut { background: #e8e8e8; color: #555; } .a0 { background: #dbe9ff; }
.accepted { background: #c9f2cf; } .rejected { background: #ffd3d0; text-decoration: line-through; }
.correction { background: #dbe9ff; outline: 1px solid #4a78c0; }
.cut { text-decoration: line-through dotted; }
"""

_LEGEND = (
    ("x0", "boundary"),
    ("a0", "exact first token"),
    ("accepted", "accepted draft"),
    ("rejected", "rejected draft"),
    ("correction", "verifier's token"),
    ("cut", "behind the stop token or the limit"),
)


def trace_html(results: Sequence[Decoded], decode_token: DecodeToken) -> str:
    """Return a self-contained page that shows each round of self-speculative decodes, one table a sequence.

    Drafts are green where accepted and struck through in red where rejected, followed by the verifier's own
    token. Token texts are escaped. A result decoded without `trace=True` shows no rounds.
    """
    legend = " ".join(f'<span class="t {state}">{escape(text)}</span>' for state, text in _LEGEND)
    sections = "\n".join(_section(i, len(results), one, decode_token) for i, one in enumerate(results, start=1))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Decode trace</title>\n'
        f"<style>{_STYLE}</style></head><body>\n<h1>Decode trace</h1>\n<p>{legend}</p>\n{sections}\n</body></html>\n"
    )


def _section(number: int, n_sequences: int, result: Decoded, decode_token: DecodeToken) -> str:
    rows = "\n".join(_row(i, one, decode_token) for i, one in enumerate(result.trace, start=1))
    text = "".join(_token(token, "", decode_token) for token in result.ids)
    tpf = f"{result.tpf:.2f}" if result.n_forwards else "none"
    title = f"<h2>Piece {number} of {n_sequences}</h2>\n" if n_sequences > 1 else ""
    return (
        f"{title}<p>{len(result.ids)} tokens (the first is the prefill's), {result.n_rounds} rounds, "
        f"{result.n_forwards} forwards, {result.n_accepted} drafts accepted, TPF {tpf}, "
        f"ended by {escape(result.finish)}.</p>\n"
        "<table><thead><tr><th>round</th><th>boundary and draft</th><th>verifier</th><th>committed</th></tr>"
        f"</thead>\n<tbody>\n{rows}\n</tbody></table>\n<p>Output: {text}</p>"
    )


def _row(number: int, one: RoundTrace, decode_token: DecodeToken) -> str:
    drafted = _token(one.x0, "x0", decode_token)
    drafted += "".join(_token(token, "a0", decode_token) for token in one.exact)
    for token, state in zip(one.drafts, one.draft_states(), strict=True):
        drafted += _token(token, state, decode_token)
    said = one.predictions[one.n_accepted : one.n_accepted + 1]
    correction = "".join(_token(token, "cut" if one.is_cut else "correction", decode_token) for token in said)
    n_cut = one.draft_states().count("cut")
    behind = f", {n_cut} of them behind the end" if n_cut else ""
    count = f"{len(one.committed)} ({one.n_accepted} of {len(one.drafts)} drafts agree{behind})"
    source = "" if one.source in ("diffusion", "head") or not one.drafts else f" ({one.source})"
    return f"<tr><td>{number}{source}</td><td>{drafted}</td><td>{correction}</td><td>{count}</td></tr>"


def _token(token: int, state: str, decode_token: DecodeToken) -> str:
    # White space is made visible: a token that is one line break would otherwise leave no mark.
    text = escape(decode_token(token)).replace("\n", "\u21b5").replace("\t", "\u21e5").replace("\r", "\u240d")
    return f'<span class="{f"t {state}".strip()}" title="{token}">{text}</span>'
