"""Score pages as OmniDocBench v1.6 does, with its faults mended or, to compare with published figures, with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from scipy.optimize import linear_sum_assignment

from gravityocr.metrics.edit import EditScore, edit_distance, ned, page_edit
from gravityocr.metrics.page_matching.block_matching import (
    FORMULA,
    Lines,
    Match,
    Target,
    block_lines,
    distances,
    match_blocks,
    target_lines,
)
from gravityocr.metrics.page_matching.cdm_variants import cdm_pair
from gravityocr.metrics.page_matching.formula_matching import formula_pool, match_formulas
from gravityocr.metrics.page_matching.markdown_blocks import Block, markdown_blocks
from gravityocr.metrics.page_matching.page_truth import PageTruth, read_page
from gravityocr.metrics.page_matching.paragraph_lines import split_where_lines_fit
from gravityocr.metrics.page_matching.rules import MENDED, OFFICIAL, Rules
from gravityocr.metrics.page_matching.strangers import set_strangers_apart
from gravityocr.metrics.page_matching.text_rescue import compare_as_text, is_scored_text, rescue_texts
from gravityocr.metrics.reading_order import OrderScore, order_edit
from gravityocr.metrics.tables.table_html import normal_form
from gravityocr.metrics.teds import TedsScore, score_teds


@dataclass(frozen=True)
class TextSample:
    """Hold one text pair; a prediction without ground truth has an empty reference."""

    gt: tuple[int, ...]
    pred: tuple[int, ...]
    category: str
    ref: str
    text: str
    edit: EditScore
    attributes: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class TableSample:
    """Hold one table of the ground truth with its score."""

    ref: str
    pred: str
    teds: TedsScore
    attributes: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class FormulaSample:
    """Hold one formula of the ground truth and the predictions of which CDM counts the best one."""

    ref: str
    preds: tuple[str, ...]
    edit: EditScore
    attributes: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class PageScore:
    """Hold what one page contributes; CDM is computed later, for all pages at once.

    `has_formulas`, `has_tables` say whether the ground truth has such blocks: then a page without a scored sample
    counts as 0.
    """

    image_name: str
    texts: tuple[TextSample, ...]
    tables: tuple[TableSample, ...]
    formulas: tuple[FormulaSample, ...]
    order: OrderScore | None
    has_formulas: bool
    has_tables: bool
    attributes: dict[str, Any] = field(default_factory=dict)
    n_extra_tables: int = 0

    @property
    def text_edit(self) -> float | None:
        """The page's text distance: all edits over the longer lengths; None without text."""
        scores = [sample.edit for sample in self.texts]
        return page_edit(scores) if any(score.n_chars for score in scores) else None

    @property
    def teds(self) -> float | None:
        """The mean TEDS of the page's tables; None for a page without tables."""
        return _page_mean([sample.teds.teds for sample in self.tables], self.has_tables)

    @property
    def teds_struct(self) -> float | None:
        """The mean TEDS of the tables' structure."""
        return _page_mean([sample.teds.teds_struct for sample in self.tables], self.has_tables)

    @property
    def order_edit(self) -> float | None:
        """The distance of the reading orders."""
        return self.order.edit if self.order else None


def _page_mean(scores: list[float], expected: bool) -> float | None:
    return sum(scores) / len(scores) if scores else 0.0 if expected else None


def score_page(page: dict[str, Any], markdown: str, compat: bool = False) -> PageScore:
    """Score one page of the annotations, all but CDM.

    *Raises*: InputError where the annotation is not a page.
    """
    return score_by_rules(read_page(page), markdown, OFFICIAL if compat else MENDED)


def score_by_rules(truth: PageTruth, markdown: str, rules: Rules) -> PageScore:
    """Score one page by the rules given."""
    blocks = markdown_blocks(markdown, rules)
    gt = target_lines(truth.mixed, rules)
    ordered = _in_matching_order(blocks)
    if rules.lines_where_they_fit:
        ordered = split_where_lines_fit(ordered, gt.norm)
    strangers: list[Block] = []
    if rules.count_unmatched_text:
        ordered, strangers = set_strangers_apart(ordered, gt)
    pred = block_lines(ordered, rules)
    matches = [compare_as_text(match) for match in match_blocks(gt, pred, rules)]
    matches = rescue_texts(matches, pred.items if rules.exact_positions else ordered)
    tables, n_extra = _match_tables(truth.tables, [b for b in blocks if b.kind == "table"], rules)
    texts = [match for match in matches if is_scored_text(match)]
    formulas = [match for match in matches if match.category == FORMULA]
    pool = formula_pool(blocks)
    if rules.count_unmatched_text:
        pool, _ = set_strangers_apart(pool, target_lines(truth.formulas, rules))
    if truth.formulas or pool:
        formulas = match_formulas(truth.formulas, pool, formulas, rules)
    order = order_edit([(match.orders, match.pred_start) for match in [*texts, *formulas, *tables]])
    samples = [_text_sample(match) for match in texts]
    scored = []
    for match in formulas:
        ref, preds = cdm_pair(match)
        scored.append(FormulaSample(ref, preds, edit_of(match), match.attributes))
    if rules.count_unmatched_text:
        samples += _unmatched(matches, formulas, block_lines(ordered, MENDED))
        samples += _unmatched((), (), block_lines(strangers, MENDED))
    return PageScore(
        truth.image_name,
        tuple(samples),
        tuple(_table_sample(match, rules) for match in tables),
        tuple(scored),
        order,
        bool(truth.formulas),
        bool(truth.tables),
        truth.attributes,
        n_extra,
    )


def _in_matching_order(blocks: Sequence[Block]) -> list[Block]:
    """Return texts and formulas by position, inline formulas last; where positions tie, the first kind goes first."""
    kinds = list(dict.fromkeys(block.kind for block in blocks))
    mixed = [block for kind in kinds if kind in ("text", "formula") for block in blocks if block.kind == kind]
    return sorted(mixed, key=lambda block: (block.is_inline, block.start))


def edit_of(match: Match) -> EditScore:
    """Return the edit distance of a match, of its normalised sides or, where one is empty, of the raw one."""
    return _edit(match.norm_pred or match.pred_text, match.norm_gt or match.gt_text)


def _edit(pred: str, ref: str) -> EditScore:
    return EditScore(ned(pred, ref), edit_distance(pred, ref), max(len(pred), len(ref)), pred, ref)


def _text_sample(match: Match) -> TextSample:
    edit = edit_of(match)
    return TextSample(match.gt, match.pred, match.category, match.gt_text, match.pred_text, edit, match.attributes)


def _table_sample(match: Match, rules: Rules) -> TableSample:
    return TableSample(
        match.gt_text, match.pred_text, score_teds(match.pred_text, match.gt_text, compat=not rules.lenient_tables),
        match.attributes,
    )  # fmt: skip


def _unmatched(matches: Sequence[Match], formulas: Sequence[Match], pred: Lines) -> list[TextSample]:
    """Return the predicted texts that nothing was matched with: each costs its whole length."""
    used = {j for match in matches for j in match.pred}
    # A formula's own matching may use a text that looks like a formula.
    as_formula = {match.pred_start for match in formulas if match.pred}
    out = []
    for j, block in enumerate(pred.items):
        if j in used or block.kind != "text" or block.start in as_formula:
            continue
        out.append(TextSample((), (j,), "", "", pred.raw[j], _edit(pred.norm[j], "")))
    return out


def _match_tables(targets: Sequence[Target], blocks: Sequence[Block], rules: Rules) -> tuple[list[Match], int]:
    """Pair tables one to one by the distance of their normal forms; return the pairs and the number of extra ones."""
    gt = [(target, norm) for target in targets if (norm := _normal_table(target.content, rules))]
    pred = [(block, norm) for block in blocks if (norm := _normal_table(block.content, rules))]
    cost = distances([norm for _, norm in gt], [norm for _, norm in pred])
    rows, columns = linear_sum_assignment(cost)
    chosen = dict(zip(map(int, rows), map(int, columns), strict=True))
    matches = []
    for i, (target, norm) in enumerate(gt):
        j = chosen.get(i)
        block = pred[j][0] if j is not None else None
        # Officially the first table (index 0) is taken for no table here.
        placed = block is not None and (j or rules.first_table_in_order)
        matches.append(
            Match(
                gt=(i,), pred=() if j is None else (j,), gt_text=target.content,
                pred_text=block.content if block else "", norm_gt=norm, norm_pred=pred[j][1] if j is not None else "",
                category="table", pred_label=block.label if block and placed else "", orders=(target.order,),
                pred_start=block.start if block and placed else None,
                edit=float(cost[i, j]) if j is not None else 1.0, attributes=(target.attributes,),
            )
        )  # fmt: skip
    return matches, len(pred) - len(chosen)


def _normal_table(table: str, rules: Rules) -> str:
    return normal_form(table, any_case=rules.lenient_tables) if "<table" in table.lower() else table
