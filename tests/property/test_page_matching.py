"""Page scores on whatever a model may print, and the laws of a fair score: no gain from invented text above all."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein
from tests.omnidoc_pages import HEIGHT, OTHER_TABLE, TABLE, contents, full_page, item, page, text

from gravityocr.metrics.edit import ned
from gravityocr.metrics.omnidocbench import PageScore, score_page
from gravityocr.metrics.page_matching.block_matching import (
    FAR,
    Target,
    block_lines,
    match_blocks,
    normalized,
    target_lines,
)
from gravityocr.metrics.page_matching.formula_alignment import align
from gravityocr.metrics.page_matching.markdown_blocks import Block, formula_spans, markdown_blocks
from gravityocr.metrics.page_matching.page_truth import read_page
from gravityocr.metrics.page_matching.prediction_runs import has_window
from gravityocr.metrics.page_matching.rules import MENDED, OFFICIAL

AXES = {"text_edit": -1, "order_edit": -1, "teds": 1, "teds_struct": 1}
PIECES = [
    "$$", "$", "\\[", "\\]", "\\(", "\\)", "|", "|\n", "|-|\n", "<table>", "</table>", "<TABLE>", "<tr><td>", "</td>",
    "<td colspan='x'>", "\\begin{array}", "\\end{array}", "\\begin{cases}", "\\begin{aligned}", "\\end{aligned}",
    "\\begin{tabular}{l}", "\\end{tabular}", "\\begin{table}", "\\end{table}", "\\\\", "&", "\\quad", "\\tag{",
    "\\text{", "\\multicolumn{2}{c}{", "\\frac", "{", "}", "```", "```python\n", "![", "](", ")", "<div>", "</div>",
    "\x00", "\ud800", "\n", "\n\n", "\r", " ", "\\section{", "_____", "x^2", "=", "3", "+", "→", "□", "塔", HEIGHT[0],
]  # fmt: skip
pieces = st.one_of(st.sampled_from(PIECES), st.text(alphabet=st.characters(exclude_categories=()), max_size=3))
markdown = st.lists(pieces, max_size=25).map("".join)
syllables = st.sampled_from([*"abcde", *"éñ塔楼", "the ", "tower ", "1401 "])
words = st.lists(syllables, min_size=1, max_size=12).map("".join)


def value(score: PageScore, axis: str) -> float:
    """Return an axis so that more is better; a page that does not count is none the worse for it."""
    found = getattr(score, axis)
    return 0.0 if found is None else AXES[axis] * found


def raised(before: PageScore, after: PageScore) -> dict[str, tuple[float, float]]:
    pairs = {axis: (value(before, axis), value(after, axis)) for axis in AXES}
    return {axis: pair for axis, pair in pairs.items() if pair[1] > pair[0] + 1e-9}


@settings(max_examples=150)
@given(markdown, st.booleans())
@example("\\begin{tabular}{l}" * 50 + "\\end{tabular}" * 50, False)
@example("$$\\begin{aligned}" + "a \\\\ " * 300 + "\\end{aligned}$$", False)
@example("$" * 999 + "\\[" * 99, True)
def test_anything_is_scored_between_0_and_1(printed: str, compat: bool) -> None:
    score = score_page(full_page(), printed, compat)
    for axis in AXES:
        assert 0.0 <= getattr(score, axis) <= 1.0 or (compat and axis.startswith("teds")), axis


@settings(max_examples=60)
@given(markdown)
def test_anything_is_scored_against_ground_truth_of_anything(printed: str) -> None:
    truth = page(text(printed, 1), item("equation_isolated", printed, 2), item("table", printed, 3))
    for compat in (True, False):
        score_page(truth, printed, compat)


WORDS = ["the", "tower", "was", "built", "by", "masons", "of", "stone", "nobody", "knows", "塔楼", "1401", "Ähren"]
sentences = st.lists(st.sampled_from(WORDS), min_size=4, max_size=12).map(" ".join)
paragraphs = st.lists(sentences, min_size=1, max_size=6, unique=True)
others = st.lists(st.sampled_from([TABLE, OTHER_TABLE, "$$a^2+b^2=c^2$$"]), max_size=3, unique=True)


@settings(max_examples=60)
@given(paragraphs, others, st.data())
def test_a_page_written_from_its_ground_truth_is_perfect(texts: list[str], others: list[str], data) -> None:
    blocks = data.draw(st.permutations([*texts, *others]))
    kinds = {TABLE: "table", OTHER_TABLE: "table", "$$a^2+b^2=c^2$$": "equation_isolated"}
    truth = page(*(item(kinds.get(block, "text_block"), block, i) for i, block in enumerate(blocks, 1)))
    score = score_page(truth, "\n\n".join(blocks))
    assert (score.text_edit, score.order_edit) == (0.0, 0.0)
    assert {sample.teds.teds for sample in score.tables} <= {1.0}
    assert len(score.tables) == sum("<table" in block for block in others)
    assert [(sample.preds[0], sample.edit.ned) for sample in score.formulas] == [
        ("a^2+b^2=c^2", 0.0) for block in others if "$" in block
    ]


@pytest.mark.parametrize("separator", ["\n\n", "\n\n\n\n", "\n \n", "\r\n\r\n", "\n", "\n\t\n\n"])
def test_the_kind_of_break_between_blocks_changes_nothing(separator: str) -> None:
    score = score_page(full_page(), separator.join(contents(full_page())))
    assert [getattr(score, axis) for axis in AXES] == [0.0, 0.0, 1.0, 1.0]


@settings(max_examples=40)
@given(st.lists(words, min_size=1, max_size=6), st.lists(words, min_size=1, max_size=6))
def test_blank_lines_may_be_doubled(truth: list[str], printed: list[str]) -> None:
    of = page(*(text(one, i) for i, one in enumerate(truth, 1)))
    once, twice = (score_page(of, separator.join(printed)) for separator in ("\n\n", "\n\n\n\n"))
    assert [getattr(once, axis) for axis in AXES] == [getattr(twice, axis) for axis in AXES]


@settings(max_examples=100)
@given(
    st.lists(st.tuples(words, st.sampled_from(["text_block", "title", "header", "equation_isolated"])), max_size=6),
    st.lists(st.tuples(words, st.booleans()), max_size=6),
    st.booleans(),
)
def test_every_block_of_the_ground_truth_is_in_exactly_one_match(gt, pred, compat: bool) -> None:
    rules = OFFICIAL if compat else MENDED
    targets = target_lines([Target(kind, content, i) for i, (content, kind) in enumerate(gt, 1)], rules)
    blocks = [
        Block("formula" if formula else "text", content, i, i, "equation_isolated" if formula else "text_block")
        for i, (content, formula) in enumerate(pred)
    ]
    matches = match_blocks(targets, block_lines(blocks, rules), rules)
    assert Counter(i for match in matches for i in match.gt) == Counter(range(len(targets.norm)))
    if not compat:
        taken = Counter(j for match in matches for j in match.pred if match.category != "header")
        assert not taken or max(taken.values()) == 1


# Invented paragraphs

ENGLISH = """
the of and to in is that for it as was with be by on not he his but at are this have from or had an they
which one you were all her she there would their we him been has when who will no more if out so said what up about
than into them can only other time new some could these two may first then do any like my now over such our man even
most made after also did many off before must well back through years where much your way down should because long each
just state those people too how little good world make very year still see own work men day get here between both life
under never same another know while last might us great old come since against go came right used take three"""
CJK = (
    "的一是不了人我在有他这为之大来以个中上们到说国和地也子时道出而要于就下得可你年生自会那后"
    "能对着事其里所去行过家十用发天如然作方"
)


def invented(rng: random.Random) -> str:
    n = rng.choice([1, 3, 5, 10, 40])
    kind = rng.choice("wwcnfl")
    if kind == "w":
        return " ".join(rng.choice(ENGLISH.split()) for _ in range(n))
    if kind == "c":
        return "".join(rng.choice(CJK) for _ in range(3 * n))
    if kind == "n":
        return " ".join(str(rng.randrange(10 ** rng.randint(1, 5))) for _ in range(n))
    if kind == "l":
        return "\n".join(" ".join(rng.choice(ENGLISH.split()) for _ in range(6)) for _ in range(3))
    return f"{rng.randrange(100)} + {rng.randrange(100)} = {rng.randrange(1000)} / {rng.randrange(1, 9)}"


def nothing_accounts_for(paragraph: str, truth: dict, margin: int = 15) -> bool:
    """Whether a paragraph is invented: far from every block, and no excerpt of one.

    Fewer than `margin` characters may be an excerpt by chance.
    """
    gt = target_lines(read_page(truth).mixed, MENDED).norm
    for part in {paragraph, *paragraph.split("\n")}:
        for form in (normalized(part, False), normalized(part, True)):
            if any(ned(form, line) <= FAR for line in gt):
                return False
            longer = [line for line in gt if len(line) >= len(form)]
            if len(form) < margin and any(nearest_stretch(line, form) < 0.5 for line in longer):
                return False
    return True


def nearest_stretch(line: str, piece: str) -> float:
    n = len(piece)
    return min(Levenshtein.normalized_distance(line[i : i + n], piece) for i in range(len(line) - n + 1))


def spoiled(blocks: list[str], rng: random.Random) -> list[str]:
    """Write a page as a bad model does: blocks missing, broken off, misread, cut in two."""
    out: list[str] = []
    for block in blocks:
        fault = rng.choice(["none", "none", "missing", "tail", "noise", "cut", "head"])
        plain = "$" not in block and "<table" not in block and "\\" not in block
        at = int(len(block) * rng.uniform(0.2, 0.8))
        if fault == "missing":
            continue
        if fault == "noise" and plain:
            block = "".join(rng.choice("abcdefgh") if rng.random() < 0.4 else char for char in block)
        if fault in ("tail", "cut") and plain:
            out += [block[:at]] if fault == "cut" else []
            block = block[at:]
        if fault == "head" and plain:
            block = block[:at]
        out.append(block)
    return out


def gains(truth: dict, blocks: list[str], rng: random.Random, n: int) -> tuple[list, int]:
    found, tried = [], 0
    for _ in range(n):
        printed = spoiled(blocks, rng)
        paragraph = invented(rng)
        if not nothing_accounts_for(paragraph, truth):
            continue
        tried += 1
        at = rng.randrange(len(printed) + 1)
        before = score_page(truth, "\n\n".join(printed))
        after = score_page(truth, "\n\n".join([*printed[:at], paragraph, *printed[at:]]))
        if better := raised(before, after):
            found.append((better, paragraph, at, printed))
    return found, tried


@pytest.mark.parametrize("seed", range(4))
def test_an_invented_paragraph_raises_no_score(seed: int) -> None:
    truth = full_page()
    found, tried = gains(truth, contents(truth), random.Random(seed), 120)
    assert found == []
    assert tried > 60


def test_an_invented_paragraph_raises_no_score_of_the_handed_pages(cases_dir) -> None:
    folder = cases_dir / "golden"
    handed = json.loads((folder / "e2e" / "gt.json").read_text(encoding="utf-8"))
    pages = {one["page_info"]["image_path"].split("/")[-1]: one for one in handed}
    cases = json.loads((folder / "golden_order_handed.json").read_text(encoding="utf-8"))
    rows = [row for row in cases if row["type"] == "page"]
    rng = random.Random(0)
    n_tried = 0
    for row in (row for row in rows if row["perturbation"] in ("gt_order", "shuffle")):
        found, tried = gains(pages[row["page"]], row["pred_md"].split("\n\n"), rng, 10)
        assert found == [], row["id"]
        n_tried += tried
    assert n_tried > 60


def test_an_invented_paragraph_costs_its_length_and_nothing_else() -> None:
    truth = full_page()
    blocks = contents(truth)
    paragraph = "Completely unrelated words about submarine cables, llamas and quarterly tax forms."
    for at in range(len(blocks) + 1):
        score = score_page(truth, "\n\n".join([*blocks[:at], paragraph, *blocks[at:]]))
        n_invented = len(normalized(paragraph, False))
        n_true = sum(len(normalized(one, False)) for one in ("The tower", *HEIGHT))
        assert score.text_edit == pytest.approx(n_invented / (n_invented + n_true))
        assert (score.order_edit, score.teds, score.formulas[0].edit.ned) == (0.0, 1.0, 0.0)


def test_a_repeated_paragraph_costs_its_length_and_nothing_else() -> None:
    truth = full_page()
    blocks = contents(truth)
    n_true = sum(len(normalized(one, False)) for one in ("The tower", *HEIGHT))
    for n_repeats in (1, 3, 30):
        score = score_page(truth, "\n\n".join([*blocks, *[HEIGHT[2]] * n_repeats]))
        n_more = n_repeats * len(normalized(HEIGHT[2], False))
        assert score.text_edit == pytest.approx(n_more / (n_more + n_true))
        assert (score.order_edit, score.teds) == (0.0, 1.0)


def test_a_missing_block_costs_something_on_its_axis() -> None:
    truth = full_page()
    blocks = contents(truth)
    for i, block in enumerate(blocks):
        score = score_page(truth, "\n\n".join(blocks[:i] + blocks[i + 1 :]))
        assert score.order_edit == pytest.approx(1 / 7)
        is_text = "$$" not in block and "<table" not in block
        assert (score.text_edit > 0.0, score.teds < 1.0) == (is_text, "<table" in block)
        assert (score.formulas[0].preds == ("",)) == ("$$" in block)


@settings(max_examples=40)
@given(st.permutations(range(7)))
def test_the_order_of_the_blocks_changes_nothing_but_the_order(places: list[int]) -> None:
    truth = full_page()
    blocks = contents(truth)
    score = score_page(truth, "\n\n".join(blocks[i] for i in places))
    assert (score.text_edit, score.teds, score.teds_struct) == (0.0, 1.0, 1.0)
    assert score.order.pred == tuple(i + 1 for i in places)


# Searches against brute force


@settings(max_examples=200)
@given(st.text("abc", max_size=14), st.text("abc", max_size=6), st.floats(0.0, 1.0), st.booleans())
def test_the_window_is_found_where_brute_force_finds_one(line: str, piece: str, limit: float, strict: bool) -> None:
    n = len(piece)
    near = [ned(line[i : i + n], piece) for i in range(len(line) - n + 1)] if n else []
    # Below one edit, only the stretch itself is within a limit of 0, and none is strictly.
    expected = any(distance < limit if strict else distance <= limit for distance in near)
    assert has_window(line, piece, limit, strict) == expected


SPANS = re.compile(r"\$\$(.*?)\$\$|\\\[(.*?)\\\]|\$(.*?)\$|\\\((.*?)\\\)", re.DOTALL)
mark = st.sampled_from(["$", "$$", "\\[", "\\]", "\\(", "\\)", "a", "\n", "\\", " "])
marks = st.lists(mark, max_size=20).map("".join)


@settings(max_examples=300)
@given(marks)
def test_formulas_are_found_where_the_plain_pattern_finds_them(line: str) -> None:
    assert list(formula_spans(line)) == [found.span() for found in SPANS.finditer(line)]


def cheapest(gt: list[str], pred: list[str], joinable: list[bool]) -> float:
    """Return the least cost of an alignment in order, by trying all of them."""
    if not gt or not pred:
        return float(len(gt) + len(pred))
    ways = [1 + cheapest(gt[1:], pred, joinable), 1 + cheapest(gt, pred[1:], joinable[1:])]
    for n in range(1, len(pred) + 1):
        if n == 1 or all(joinable[:n]):
            ways.append(ned(" ".join(pred[:n]), gt[0]) + cheapest(gt[1:], pred[n:], joinable[n:]))
    return min(ways)


formula = st.text("ab=", min_size=1, max_size=4)


@settings(max_examples=150)
@given(st.lists(formula, min_size=1, max_size=3), st.lists(st.tuples(formula, st.booleans()), min_size=1, max_size=4))
def test_formulas_are_aligned_at_the_least_cost(gt: list[str], pred) -> None:
    texts, joinable = [one for one, _ in pred], [whole for _, whole in pred]
    runs = align(gt, texts, list(range(len(pred))), joinable, [False] * len(pred), allow_gaps=False)
    assert len(runs) == len(gt)
    used = list(itertools.chain(*runs))
    assert used == sorted(set(used))
    for run in runs:
        assert len(run) < 2 or (run == list(range(run[0], run[-1] + 1)) and all(joinable[j] for j in run))
    cost = sum(ned(" ".join(texts[j] for j in run), one) if run else 1.0 for one, run in zip(gt, runs, strict=True))
    assert cost + len(pred) - len(used) == pytest.approx(cheapest(gt, texts, joinable))


@settings(max_examples=100)
@given(markdown)
def test_blocks_stand_in_the_order_of_the_page(printed: str) -> None:
    for rules in (MENDED, OFFICIAL, replace(OFFICIAL, exact_positions=True)):
        blocks = markdown_blocks(printed, rules)
        assert [block.start for block in blocks] == sorted(block.start for block in blocks)
        assert all(block.content and block.kind in ("text", "formula", "table", "rescue") for block in blocks)
