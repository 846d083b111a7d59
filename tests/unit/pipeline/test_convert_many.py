"""Many inputs at once: stages overlap, what is alive is bounded, and how many pages are in flight changes nothing."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from PIL import Image
from tests.unit.pipeline.scripted import ScriptedDetector, ScriptedRecognizer, draw_lines

from gravityocr.document import Crop, Page, Recognition
from gravityocr.errors import InputError
from gravityocr.pipeline import convert as convert_module
from gravityocr.pipeline.convert import DocumentJob, PipelineConfig, convert, convert_all, convert_pages, n_pages_of
from gravityocr.pipeline.inputs import InputFile
from gravityocr.pipeline.layout import WholePage
from gravityocr.pipeline.source import PageRanges, SourcePage
from gravityocr.pipeline.stages import RunConfig


def picture(number: int) -> Image.Image:
    image = Image.new("RGB", (160, 120), "white")
    draw_lines(image, (20, 20, 60 + number % 80, 60))
    return image


class Pages:
    """Stands for `iter_pages`: makes pages out of nothing, and counts the images that are still there."""

    def __init__(self, n_pages: int) -> None:
        self.n_pages = n_pages
        self.images: weakref.WeakValueDictionary[int, Image.Image] = weakref.WeakValueDictionary()
        self.most_alive = 0
        self.threads: set[int] = set()
        self.made: list[tuple[str, int]] = []
        self.fail_at: dict[tuple[str, int], Exception] = {}

    def __call__(
        self, path: object, pages: PageRanges | None = None, *_: object, **more: object
    ) -> Iterator[SourcePage]:
        chosen = range(self.n_pages) if pages is None else pages.select(self.n_pages)
        for number in chosen:
            if (str(path), number) in self.fail_at:
                raise self.fail_at[str(path), number]
            self.threads.add(threading.get_ident())
            image = picture(number)
            self.images[len(self.made)] = image
            self.most_alive = max(self.most_alive, len(self.images))
            self.made.append((str(path), number))
            note = "the first of 12 frames is read" if number == 0 else None
            page = SourcePage(number, image, None, 0.0, self.n_pages, note=note)
            del image
            yield page
            del page


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> Pages:
    pages = Pages(300)
    monkeypatch.setattr(convert_module, "iter_pages", pages)
    return pages


class Widths:
    """Answers with the size of each crop, after a pause that differs from page to page."""

    tasks = frozenset({"text"})

    def __init__(self, seconds: float = 0.0) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self.n_calls = 0

    def recognize(self, crops: Sequence[Crop]) -> list[Recognition]:
        with self._lock:
            self.n_calls += 1
            n_calls = self.n_calls
        if self._seconds:
            time.sleep(self._seconds * (1 + n_calls % 3))
        return [Recognition(f"{crop.image.getbbox()} {sum(crop.image.histogram()[:9])}") for crop in crops]


def job(name: str, **more: object) -> DocumentJob:
    return DocumentJob(InputFile(name), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("n_pages", "n_ahead", "n_parallel", "bound"),
    [(50, 0, 1, 1), (50, 1, 1, 5), (300, 2, 1, 7), (300, 2, 4, 2 * 2 + 2 + 8 + 1)],
)
def test_images_alive_are_bounded_whatever_the_number_of_pages(
    pages: Pages, n_pages: int, n_ahead: int, n_parallel: int, bound: int
) -> None:
    gc.collect()
    pages.n_pages = n_pages
    config = PipelineConfig(run=RunConfig(n_ahead=n_ahead))
    document = convert("long.pdf", Widths(0.0005), WholePage(), config, n_parallel=n_parallel)
    assert len(document.pages) == n_pages and document.status == "ok"
    assert pages.most_alive <= bound
    assert len(pages.images) == 0


def test_the_output_is_the_same_however_many_pages_are_in_flight(pages: Pages) -> None:
    pages.n_pages = 25
    jobs = ["a.pdf", "b.pdf", "c.pdf"]
    texts = []
    for n_ahead, n_parallel in ((0, 1), (2, 1), (1, 3), (3, 8)):
        config = PipelineConfig(run=RunConfig(n_ahead=n_ahead))
        done = list(convert_all(map(job, jobs), Widths(0.001), WholePage(), config, n_parallel))
        assert [document.source for document in done] == jobs
        assert all([page.index for page in document.pages] == list(range(25)) for document in done)
        texts.append([document.markdown for document in done])
    assert texts.count(texts[0]) == len(texts) and "(" in texts[0][0]


def test_one_thread_renders_whatever_else_runs(pages: Pages) -> None:
    pages.n_pages = 5
    list(convert_all(map(job, "abc"), Widths(), WholePage(), n_parallel=4))
    assert len(pages.threads) == 1 and threading.get_ident() not in pages.threads


def test_the_next_input_is_rendered_while_the_last_page_is_read(pages: Pages) -> None:
    pages.n_pages = 1

    class Waits(Widths):
        def recognize(self, crops: Sequence[Crop]) -> list[Recognition]:
            if self.n_calls == 0:
                deadline = time.monotonic() + 5
                while ("b", 0) not in pages.made and time.monotonic() < deadline:
                    time.sleep(0.005)
                seen.extend(pages.made)
            return super().recognize(crops)

    seen: list[tuple[str, int]] = []
    assert [document.status for document in convert_all(map(job, "ab"), Waits(), WholePage())] == ["ok", "ok"]
    assert ("b", 0) in seen


def test_a_document_comes_as_soon_as_it_is_complete(pages: Pages) -> None:
    pages.n_pages = 3
    documents = convert_all(map(job, "abcdefgh"), Widths(), WholePage())
    assert next(documents).source == "a"
    assert ("h", 2) not in pages.made
    documents.close()
    assert not [thread for thread in threading.enumerate() if thread.name in ("render", "layout")]


def test_no_input_takes_the_others_down(pages: Pages) -> None:
    pages.n_pages = 4
    pages.fail_at = {("b", 2): InputError("b: ends here"), ("c", 0): KeyError("x"), ("d", 3): MemoryError()}
    done = list(convert_all(map(job, "abcde"), Widths(), WholePage(), n_parallel=2))
    assert [document.status for document in done] == ["ok", "partial", "failed", "partial", "ok"]
    assert [len(document.pages) for document in done] == [4, 2, 0, 3, 4]
    assert done[1].error == "b: ends here" and "c: cannot be read (KeyError" in str(done[2].error)


def test_an_input_with_an_error_is_told_in_its_place(pages: Pages) -> None:
    pages.n_pages = 1
    jobs = [job("a"), DocumentJob(InputFile("z", "z: no such file")), job("b")]
    done = list(convert_all(jobs, Widths(), WholePage()))
    assert [document.status for document in done] == ["ok", "failed", "ok"] and done[1].error == "z: no such file"


def test_only_so_many_pages_are_read_and_the_rest_is_told(pages: Pages) -> None:
    pages.n_pages = 12
    config = PipelineConfig(run=RunConfig(max_pages=5))
    document = convert("a", Widths(), WholePage(), config)
    assert (document.status, len(document.pages)) == ("ok", 5) and pages.made[-1] == ("a", 4)
    assert document.notes == (
        "has 12 pages: the last 7 chosen ones were left out (--max-pages 5)", "the first of 12 frames is read",
    )  # fmt: skip
    document = convert("b", Widths(), WholePage(), config, pages=PageRanges.parse("3-6,20"))
    assert len(document.pages) == 4 and document.notes == ("has 12 pages, so --pages 20 gave nothing",)


def test_opening_is_told_with_the_number_of_pages_to_come(pages: Pages) -> None:
    pages.n_pages = 12
    opened: list[tuple[str, int]] = []
    told: list[tuple[int, int]] = []

    def on_page(page: Page, n_decoded: int) -> None:
        told.append((page.index, n_decoded))

    jobs = [
        job(name, pages=chosen, on_open=lambda n, name=name: opened.append((name, n)), on_page=on_page)
        for name, chosen in (("a", None), ("b", PageRanges.parse("2-3,40")))
    ]
    recognizer = ScriptedRecognizer(lambda k, crop: Recognition("x", n_tokens=9, n_forwards=3, ids=((1,) * 9,)))
    list(convert_all(jobs, recognizer, WholePage(), PipelineConfig(run=RunConfig(max_pages=3))))
    assert opened == [("a", 3), ("b", 2)] and told == [(0, 8), (1, 8), (2, 8), (1, 8), (2, 8)]


def test_page_pictures_are_handed_over_one_by_one(pages: Pages) -> None:
    pages.n_pages = 3
    shown: list[tuple[int, tuple[int, int]]] = []

    def save(index: int, image: Image.Image) -> None:
        if index == 1:
            raise InputError("page0002.jpg: cannot be written (No space left on device)")
        shown.append((index, image.size))

    document = convert("a", Widths(), WholePage(), save_page=save)
    assert shown == [(0, (160, 120)), (2, (160, 120))] and document.status == "ok"
    assert "page 2: its picture is missing (page0002.jpg" in document.notes[-1]


def test_pages_that_cannot_be_put_together_keep_their_own_markdown(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("seam")

    pages.n_pages = 2
    monkeypatch.setattr(convert_module, "assemble", fails)
    document = convert("a", ScriptedRecognizer(), WholePage())
    assert document.status == "partial" and "cannot be put together (RuntimeError: seam)" in str(document.error)
    assert document.markdown == "text 0\n\ntext 0\n"


def test_leaving_off_in_the_middle_ends_the_threads(pages: Pages) -> None:
    stream = convert_pages("a", Widths(), WholePage(), n_parallel=2)
    assert next(stream).index == 0
    stream.close()  # type: ignore[attr-defined]
    assert not [thread for thread in threading.enumerate() if thread.name in ("render", "layout")]
    assert len(pages.made) < 20


def test_pages_to_come_are_counted(tmp_path: Path, two_paragraphs: Image.Image) -> None:
    two_paragraphs.save(tmp_path / "three.pdf", save_all=True, append_images=[two_paragraphs] * 2)
    (tmp_path / "bad.pdf").write_bytes(b"%PDF-1.7")
    config = PipelineConfig()

    def count(name: str, config: PipelineConfig = config, chosen: str | None = None, **more: object) -> int:
        item = InputFile(str(tmp_path / name), **more)  # type: ignore[arg-type]
        return n_pages_of(item, config, PageRanges.parse(chosen) if chosen else None)

    assert count("three.pdf") == 3 and count("three.pdf", chosen="2-9") == 2
    assert count("three.pdf", PipelineConfig(run=RunConfig(max_pages=2))) == 2
    assert (count("bad.pdf"), count("x", error="x: gone"), count("x", origin="url")) == (0, 0, 1)


def test_two_runs_at_once_do_not_render_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    inside, most, guard = [0], [0], threading.Lock()

    def slow_pages(path: object, *_: object, **more: object) -> Iterator[SourcePage]:
        for number in range(5):
            with guard:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
            time.sleep(0.005)
            with guard:
                inside[0] -= 1
            yield SourcePage(number, picture(number), None, 0.0, 5)

    monkeypatch.setattr(convert_module, "iter_pages", slow_pages)
    runs = [threading.Thread(target=convert, args=(name, Widths(), ScriptedDetector([]))) for name in "abcd"]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert most == [1]


def test_stages_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rendering that takes as long as reading costs nothing behind it, but for the first page."""

    def slow_pages(path: object, *_: object, **more: object) -> Iterator[SourcePage]:
        for number in range(15):
            time.sleep(0.04)
            yield SourcePage(number, picture(number), None, 0.0, 15)

    class Slow(Widths):
        def recognize(self, crops: Sequence[Crop]) -> list[Recognition]:
            time.sleep(0.04)
            return super().recognize(crops)

    monkeypatch.setattr(convert_module, "iter_pages", slow_pages)
    seconds = []
    for n_ahead in (0, 2):
        started = time.perf_counter()
        convert("a", Slow(), WholePage(), PipelineConfig(run=RunConfig(n_ahead=n_ahead)))
        seconds.append(time.perf_counter() - started)
    assert seconds[1] < 0.8 * seconds[0]


def test_messages_about_pages_count_in_words() -> None:
    assert convert_module._selection_notes(1, PageRanges.parse("1-2"), None) == [
        "has 1 page, so --pages 2 gave nothing"
    ]
    assert "the last chosen one was left out" in convert_module._selection_notes(3, None, 2)[0]
    assert PageRanges.none_of(1).startswith("has page 1 only") and "choose from 1-12" in PageRanges.none_of(12)
