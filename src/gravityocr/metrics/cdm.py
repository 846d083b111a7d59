"""CDM, the formula score: how many tokens of the rendered prediction stand where the reference has them.

*Source*: CDM (Wang et al., 2024) as OmniDocBench v1.6 computes it; `omnidocbench-1.5` and `unimernet` change only the
constants of the geometric filter. Both cut tokens with KaTeX under node, which is not part of this package: their
scores are approximated with the tokenizer of v1.6.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Any, Literal, TypeVar, get_args

import numpy as np
import pypdfium2

from gravityocr.errors import ConfigError
from gravityocr.metrics.formulas.cdm_match import MatchRules, count_same_roles, match_tokens
from gravityocr.metrics.formulas.formula_render import TokenBoxes, render_formulas
from gravityocr.metrics.formulas.render_cache import RenderCache
from gravityocr.metrics.formulas.tex_runner import pdflatex_version
from gravityocr.metrics.normalization import formula_to_render

Version = Literal["omnidocbench-1.6", "omnidocbench-1.5", "unimernet"]
Status = Literal["ok", "empty_ref", "empty_pred", "ref_unrenderable", "pred_unrenderable", "timeout"]
RULES: dict[str, MatchRules] = {
    "omnidocbench-1.6": MatchRules(rounds=5, n_samples=2, threshold=30, n_trials=500),
    "omnidocbench-1.5": MatchRules(rounds=3, n_samples=3, threshold=25, n_trials=50),
    "unimernet": MatchRules(rounds=3, n_samples=3, threshold=25, n_trials=50),
}
# A process of its own costs half a second: fewer items than this do not pay for one.
ITEMS_PER_PROCESS = 40
_NEVER_S = 10**6  # what waits for a process takes no more
_Item = TypeVar("_Item")
_Made = TypeVar("_Made")

CHECK_REFERENCE = r"\frac{a+b}{c}=\sqrt{x}"
CHECK_PREDICTION = r"\frac{a+b}{d}=\sqrt{y}"
CHECK_CHINESE = "速度=v"
CHECK_TOKENS = ("\\frac", "a", "+", "b", "c", "=", "\\sqrt", "x")
CHECK_BOXES = (
    (7, 43, 80, 47),
    (8, 15, 25, 32),
    (33, 11, 57, 34),
    (66, 7, 80, 32),
    (37, 61, 51, 78),
    (92, 41, 116, 50),
    (127, 25, 173, 60),
    (153, 38, 172, 55),
)
CHECK_F1 = 0.75
BOX_TOLERANCE = 3


@dataclass(frozen=True)
class CdmConfig:
    """How formulas are scored. *Units*: `timeout_s` seconds of wall clock for all that TeX tries on one formula."""

    version: Version = "omnidocbench-1.6"
    cache_folder: str | None = None
    n_processes: int = 1
    batch_size: int = 64
    timeout_s: float = 10.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.version not in get_args(Version):
            raise ConfigError(f"CDM version {self.version!r} is unknown; use one of {', '.join(get_args(Version))}")
        for name, value in (("n_processes", self.n_processes), ("batch_size", self.batch_size)):
            if value < 1:
                raise ConfigError(f"CDM {name} is {value}; it must be at least 1")
        if not 0 < self.timeout_s < _NEVER_S:
            raise ConfigError(f"CDM timeout_s is {self.timeout_s}; choose a number of seconds above 0")


@dataclass(frozen=True)
class CdmScore:
    """The score of a pair, rounded to three digits as the official one; `error` explains a status that is not ok.

    Any other status means 0 in OmniDocBench; UniMERNet leaves a pair with `empty_ref` or `ref_unrenderable` out.
    `f1_strict` is no official figure. It counts a match only if both tokens also stand in the same superscripts and
    subscripts and are equally bold, so that it sees `x_2` for `x^2`, which `f1` does not. Spacing and all other fonts
    stay unseen by both.
    """

    f1: float
    f1_strict: float
    recall: float
    precision: float
    n_matched: int
    n_ref_tokens: int
    n_pred_tokens: int
    status: Status
    error: str | None = None


class CdmScorer:
    """Scores pairs of formulas; renders are shared between pairs, calls and, through the cache, runs."""

    def __init__(self, config: CdmConfig) -> None:
        self.config = config
        self._cache = RenderCache(config.cache_folder) if config.cache_folder is not None else None
        self._renders: dict[str, TokenBoxes] = {}
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> CdmScorer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the worker processes; the scorer starts new ones if it is used again."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[CdmScore]:
        """Score (prediction, reference) pairs of LaTeX in order, with or without delimiters; a bad pair gets a status.

        *Raises*: `ToolMissingError` where pdflatex or one of its packages is missing.
        """
        pairs = [(formula_to_render(pred), formula_to_render(ref)) for pred, ref in pairs]
        self._render(sorted({latex for pair in pairs for latex in pair} - self._renders.keys()))
        match = partial(_score_pair, rules=RULES[self.config.version], seed=self.config.seed)
        items = [(self._renders[pred], self._renders[ref]) for pred, ref in pairs]
        return self._spread(partial(_score_pairs, match), items)

    def render(self, latex: str) -> TokenBoxes:
        """Return the tokens of a formula with their boxes, as they are matched."""
        if latex not in self._renders:
            self._render([latex])
        return self._renders[latex]

    def _render(self, formulas: list[str]) -> None:
        if self._cache is not None:
            kept = {latex: self._cache.load(latex) for latex in formulas}
            self._renders.update({latex: boxes for latex, boxes in kept.items() if boxes is not None})
            formulas = [latex for latex in formulas if kept[latex] is None]
        if not formulas:
            return
        render = partial(render_formulas, batch_size=self.config.batch_size, timeout_s=self.config.timeout_s)
        made = self._spread(render, formulas, one_by_one=partial(_render_apart, render))
        self._renders.update(zip(formulas, made, strict=True))
        if self._cache is not None:
            self._cache.store(formulas, made)

    def _spread(
        self,
        work: Callable[[Sequence[_Item]], list[_Made]],
        items: Sequence[_Item],
        one_by_one: Callable[[Sequence[_Item]], list[_Made]] | None = None,
    ) -> list[_Made]:
        """Apply `work` to slices of the items, in worker processes where there are enough; keep the order."""
        n_slices = min(self.config.n_processes, len(items) // ITEMS_PER_PROCESS)
        if n_slices < 2:
            return work(items)
        # Neighbours go to different slices: long formulas come in clusters.
        slices = [items[k::n_slices] for k in range(n_slices)]
        if self._pool is None:
            self._pool = _new_pool(self.config.n_processes)
        try:
            parts = list(self._pool.map(work, slices))
        except BrokenProcessPool:
            self.close()
            if one_by_one is None:
                raise
            return one_by_one(items)
        out: list[Any] = [None] * len(items)
        for k, part in enumerate(parts):
            out[k::n_slices] = part
        return out


def check_toolchain(config: CdmConfig) -> dict[str, object]:
    """Prove the tool chain: render a known formula, compare its boxes, and score a known pair, itself and Chinese.

    *Raises*: `ToolMissingError` where something is not installed, `ConfigError` where a result is not the known one.
    """
    start = time.perf_counter()
    with CdmScorer(replace(config, cache_folder=None, n_processes=1)) as scorer:
        shown = scorer.render(CHECK_REFERENCE)
        pairs = [
            (CHECK_REFERENCE, CHECK_REFERENCE),
            (CHECK_PREDICTION, CHECK_REFERENCE),
            (CHECK_CHINESE, CHECK_CHINESE),
        ]
        same, differing, chinese = scorer.score(pairs)
    tools = f"{pdflatex_version()}, PDFium {pypdfium2.PDFIUM_INFO}"
    if shown.tokens != CHECK_TOKENS:
        raise ConfigError(f"CDM tool chain: {CHECK_REFERENCE} shows {shown.tokens}, not {CHECK_TOKENS} ({tools})")
    offset = int(np.abs(shown.boxes - np.array(CHECK_BOXES)).max())
    if offset > BOX_TOLERANCE:
        raise ConfigError(f"CDM tool chain: tokens stand {offset} pixels from their known places ({tools})")
    for name, found, known in (
        ("identity", same.f1, 1.0),
        ("known pair", differing.f1, CHECK_F1),
        ("Chinese identity", chinese.f1, 1.0),
        ("Chinese tokens", chinese.n_ref_tokens, 4),
    ):
        if found != known:
            raise ConfigError(f"CDM tool chain: {name} gives {found}, not {known}; reinstall TeX and PDFium ({tools})")
    return {
        "ok": True,
        "pdflatex": pdflatex_version(),
        "pdfium": str(pypdfium2.PDFIUM_INFO),
        "identity_f1": same.f1,
        "pair_f1": differing.f1,
        "chinese_f1": chinese.f1,
        "max_box_offset": offset,
        "seconds": round(time.perf_counter() - start, 3),
    }


def _new_pool(n_processes: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(n_processes, mp_context=multiprocessing.get_context("spawn"))


def _render_apart(render: Callable[[Sequence[str]], list[TokenBoxes]], formulas: Sequence[str]) -> list[TokenBoxes]:
    """Render each formula in a process that may die without harm to the others."""
    out: list[TokenBoxes] = []
    pool = _new_pool(1)
    for latex in formulas:
        try:
            out += pool.submit(render, [latex]).result()
        except BrokenProcessPool:
            out.append(TokenBoxes(status="unrenderable", error="the renderer died on this formula"))
            pool.shutdown()
            pool = _new_pool(1)
    pool.shutdown()
    return out


def _score_pairs(
    match: Callable[[TokenBoxes, TokenBoxes], CdmScore], pairs: Sequence[tuple[TokenBoxes, TokenBoxes]]
) -> list[CdmScore]:
    return [match(pred, ref) for pred, ref in pairs]


def _score_pair(pred: TokenBoxes, ref: TokenBoxes, *, rules: MatchRules, seed: int) -> CdmScore:
    n_ref, n_pred = len(ref.tokens), len(pred.tokens)
    status, error = _status(pred, ref)
    if status != "ok":
        # The official scorer gives up on a reference that shows nothing before it looks at the prediction.
        n_pred = n_pred if n_ref else 0
        return CdmScore(0.0, 0.0, 0.0, 0.0, 0, n_ref, n_pred, status, error)
    matches = match_tokens(ref, pred, rules, seed)
    n_matched = len(matches)
    f1, f1_strict = (round(2 * n / (n_ref + n_pred), 3) for n in (n_matched, count_same_roles(ref, pred, matches)))
    recall, precision = round(n_matched / n_ref, 3), round(n_matched / n_pred, 3)
    return CdmScore(f1, f1_strict, recall, precision, n_matched, n_ref, n_pred, "ok")


def _status(pred: TokenBoxes, ref: TokenBoxes) -> tuple[Status, str | None]:
    for name, side in (("reference", ref), ("prediction", pred)):
        short = "ref" if name == "reference" else "pred"
        if side.status == "timeout":
            return "timeout", f"{name}: {side.error}; the pair scores 0"
        if side.status != "ok":
            statuses: dict[str, Status] = {
                "ref empty": "empty_ref",
                "pred empty": "empty_pred",
                "ref unrenderable": "ref_unrenderable",
                "pred unrenderable": "pred_unrenderable",
            }
            return statuses[f"{short} {side.status}"], f"{name}: {side.error}; the pair scores 0"
    return "ok", None
