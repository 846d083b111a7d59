"""One page on its way: what each step leaves behind, and what must not outlive it."""

from __future__ import annotations

import pytest
from PIL import Image
from tests.unit.pipeline.scripted import ScriptedDetector, ScriptedRecognizer

from gravityocr.document import Box, Label, PlacedText, Recognition
from gravityocr.errors import ConfigError
from gravityocr.pipeline.layout import LayoutBox
from gravityocr.pipeline.passages.loops import LONGEST_TEXT
from gravityocr.pipeline.source import SourcePage
from gravityocr.pipeline.stages import PageWork, PipelineConfig, RunConfig, finish, plan, read

TASKS = frozenset({"text"})
OUTLINE = ((95.0, 95.0), (705.0, 95.0), (705.0, 305.0), (95.0, 300.0))


def item(box: tuple[float, float, float, float], label: Label = "text") -> LayoutBox:
    return LayoutBox(Box(*box), label, label, 0.9)


PARAGRAPHS = [item((95, 95, 705, 305)), item((95, 595, 705, 805))]


def planned(image: Image.Image, words: tuple[PlacedText, ...] = (), *boxes: LayoutBox) -> PageWork:
    work = PageWork(SourcePage(0, image, None, 0.25, words=words))
    plan(work, ScriptedDetector(list(boxes) or PARAGRAPHS), TASKS, PipelineConfig())
    return work


def test_planning_cuts_what_is_to_be_read(two_paragraphs: Image.Image) -> None:
    work = planned(two_paragraphs, (), PARAGRAPHS[1], item((95, 95, 705, 305), "table"))
    assert [(region.label, region.status) for region in work.regions] == [("table", "skipped"), ("text", "ok")]
    assert len(work.crops) == 1 and work.places == [1] and work.crops[0].task == "text"
    assert work.seconds["render"] == 0.25 and work.seconds["layout"] > 0


def test_crops_go_when_they_are_read(two_paragraphs: Image.Image) -> None:
    work = planned(two_paragraphs)
    assert len(work.crops) == 2
    read(work, ScriptedRecognizer(lambda k, crop: Recognition("a", n_tokens=5, n_forwards=4, ids=((1,) * 5,))))
    assert work.crops == [] and work.n_decoded == 8
    assert [region.content for region in work.regions] == ["a", "a"]


@pytest.mark.parametrize("status", ["ok", "truncated"])
def test_a_loop_that_nobody_cut_is_cut_and_flagged(two_paragraphs: Image.Image, status: str) -> None:
    work = planned(two_paragraphs)
    looped = "The end. " + "and so on, " * 200 + "and the tail stays"
    answers = [Recognition(looped, status), Recognition("ten rows of dots ..........")]  # type: ignore[arg-type]
    read(work, ScriptedRecognizer(lambda k, crop: answers[k]))
    first, second = work.regions
    assert first.status == "loop_cut" and first.error is not None and "repeats itself" in first.error
    assert first.content.startswith("The end.") and first.content.endswith("tail stays") and len(first.content) < 100
    assert second.status == "ok"
    page = finish(work, PipelineConfig(), None)
    assert page.status == "partial" and page.error == "page 1: 1 of 2 regions were cut"


def test_a_loop_that_was_flagged_already_is_left_alone(two_paragraphs: Image.Image) -> None:
    work = planned(two_paragraphs)
    answer = Recognition("la " * 300, "loop_cut", "cut by the engine")
    read(work, ScriptedRecognizer(lambda k, crop: answer))
    assert work.regions[0].content == answer.text and work.regions[0].error == "cut by the engine"


def test_what_is_too_long_is_cut_and_told(two_paragraphs: Image.Image) -> None:
    work = planned(two_paragraphs)
    words = "".join(f"word {number} and " for number in range(LONGEST_TEXT // 10))
    assert len(words) > LONGEST_TEXT
    answers = [Recognition(words), Recognition(words, "failed", "no connection")]
    read(work, ScriptedRecognizer(lambda k, crop: answers[k]))
    first, second = work.regions
    assert (first.status, len(first.content)) == ("truncated", LONGEST_TEXT)
    assert first.error == f"{len(words)} characters were read: the first {LONGEST_TEXT} are kept"
    assert (second.status, len(second.content)) == ("failed", LONGEST_TEXT)
    assert second.error is not None and second.error.startswith("no connection; ")
    assert finish(work, PipelineConfig(), None).status == "partial"


def test_an_answer_of_the_wrong_kind_costs_its_own_region(two_paragraphs: Image.Image) -> None:
    work = planned(two_paragraphs)
    answers = [Recognition(b"bytes"), Recognition("read", n_tokens=4)]  # type: ignore[arg-type]
    read(work, ScriptedRecognizer(lambda k, crop: answers[k]))
    assert [region.status for region in work.regions] == ["failed", "ok"]
    assert work.regions[0].error == "the recognizer answered bytes as text: report it"
    assert work.n_decoded == 4 and finish(work, PipelineConfig(), None).status == "partial"


WORDS = (PlacedText("paragraph", Box(100, 100, 300, 120)), PlacedText("one", Box(310, 100, 380, 120)))


def test_a_text_layer_is_told_region_by_region(two_paragraphs: Image.Image) -> None:
    work = planned(two_paragraphs, WORDS)
    assert [region.text_layer for region in work.regions] == ["paragraph one", None]
    assert [word.text for word in work.crops[0].text_layer] == ["paragraph", "one"]


@pytest.mark.parametrize(("text", "least", "most"), [("paragraph one", 0.0, 0.0), ("something else", 0.5, 1.0)])
def test_a_text_layer_is_compared_where_that_is_asked_for(
    two_paragraphs: Image.Image, text: str, least: float, most: float
) -> None:
    work = planned(two_paragraphs, WORDS)
    read(work, ScriptedRecognizer(lambda k, crop: Recognition(text if k == 0 else "the second")))
    assert finish(work, PipelineConfig(), None).text_layer_ned is None
    page = finish(work, PipelineConfig(run=RunConfig(verify_text_layer=True)), None)
    assert page.text_layer_ned is not None and least <= page.text_layer_ned <= most
    assert page.status == "ok" and page.regions[0].content == text  # never replaced


def test_a_scan_has_nothing_to_compare_with(two_paragraphs: Image.Image) -> None:
    work = planned(two_paragraphs)
    read(work, ScriptedRecognizer())
    assert finish(work, PipelineConfig(run=RunConfig(verify_text_layer=True)), None).text_layer_ned is None


def test_the_outline_of_a_region_is_kept(two_paragraphs: Image.Image) -> None:
    outlined = LayoutBox(Box(95, 95, 705, 305), "text", "text", 0.9, polygon=OUTLINE)
    work = planned(two_paragraphs, (), outlined, PARAGRAPHS[1])
    assert work.regions[0].polygon in (OUTLINE, ())  # a box that had to grow has none


@pytest.mark.parametrize("settings", [{"n_ahead": -1}, {"n_ahead": True}, {"max_pages": 0}])
def test_settings_have_limits(settings: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=f"run.{next(iter(settings))} is"):
        RunConfig(**settings)
