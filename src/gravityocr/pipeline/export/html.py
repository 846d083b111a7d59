"""One self-contained HTML file: each page's picture with its regions beside the text that was read from it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from html import escape

from gravityocr.document import Document, Page, Passage, Region, RegionRef
from gravityocr.pipeline.export.document import (
    Export,
    Place,
    Places,
    mark_text,
    passages_by_page,
    picture_of,
    shown_markdown,
)
from gravityocr.pipeline.export.files import printable
from gravityocr.pipeline.export.html_page import document_end, document_head
from gravityocr.pipeline.export.markup import markdown_html, table_html
from gravityocr.pipeline.export.mathml import formula_html, visible
from gravityocr.pipeline.export.pictures import figure_uri, jpeg_uri

Numbered = tuple[int, Passage]


def html_pieces(export: Export) -> Iterator[str]:
    """Yield the file piece by piece: at no time is more than one picture in memory.

    *Raises*: InputError where a picture that was put by cannot be read.
    """
    document = export.document
    places = Places(document)
    by_page: dict[int, list[Numbered]] = {}
    passage_of: dict[RegionRef, int] = {}
    for number, (page_index, passage) in enumerate(passages_by_page(document)):
        by_page.setdefault(page_index, []).append((number, passage))
        for source in passage.sources:
            passage_of.setdefault(source, number)
    yield document_head(_plain(export.stem))
    yield f"<body>\n{_header(document)}<main>\n"
    for page in document.pages:
        yield from _page(export, page, by_page.pop(page.index, []), places, passage_of)
    for number, passage in itertools.chain.from_iterable(by_page.values()):  # of no page that the document has
        yield from _passage(export, number, passage, places)
    yield "</main>\n" + document_end()


def _plain(text: str) -> str:
    return visible(printable(text))


def _safe(text: str) -> str:
    return escape(_plain(text))


def _header(document: Document) -> str:
    counts = ", ".join(f"{n} {_words(name)}" for name, n in sorted(document.status_counts().items()))
    size = f"{_counted(len(document.pages), 'page')}, {_counted(document.n_regions, 'region')}"
    lines = [f'<p class="name">{_safe(document.source)}</p>']
    shown = f"{_status(document.status)} " if document.status != "ok" else ""
    lines.append(f"<p>{shown}{size}{f': {counts}' if counts else ''}</p>")
    told = {page.error for page in document.pages}  # below, where it happened
    lines += [f"<p>{_safe(document.error)}</p>"] if document.error and document.error not in told else []
    lines += [f'<p class="note">{_safe(note)}</p>' for note in document.notes]
    return f"<header>\n{''.join(lines)}\n</header>\n"


def _counted(n: int, name: str) -> str:
    return f"{n} {name}" if n == 1 else f"{n} {name}s"


def _words(status: str) -> str:
    return status.replace("_", " ")


def _status(status: str) -> str:
    return f'<strong class="status">\N{WARNING SIGN} {escape(_words(status))}</strong>'


def _page(
    export: Export, page: Page, passages: list[Numbered], places: Places, passage_of: dict[RegionRef, int]
) -> Iterator[str]:
    yield f'<section class="page" id="page{page.index + 1}" aria-label="{page.index + 1}">\n'
    yield from _scan(export, page, passage_of)
    yield '<article class="reading">\n'
    if page.status != "ok" and not any(passage.kind == "mark" and not places.of(passage) for _, passage in passages):
        yield f"<p>{_status(page.status)} {_safe(page.error or '')}</p>\n"
    if page.status == "ok" and not page.regions and not passages:
        yield '<p class="note">blank page</p>\n'
    for number, passage in passages:
        yield from _passage(export, number, passage, places)
    yield _rest(page, places.uncited(page))
    yield "</article>\n</section>\n"


def _scan(export: Export, page: Page, passage_of: dict[RegionRef, int]) -> Iterator[str]:
    width, height = page.size_px
    yield '<figure class="scan"><div class="sheet">'
    picture = export.page_images.get(page.index)
    over = ""
    if picture is not None:
        yield f'<img src="{jpeg_uri(picture)}" alt="{page.index + 1}" width="{width}" height="{height}">'
        over = ' class="over"'
    if width and height:
        yield f'<svg{over} viewBox="0 0 {width} {height}" preserveAspectRatio="none">\n'
        # the largest first, so that each small one can be reached
        for region in sorted(page.regions, key=lambda region: -region.box.area):
            yield _box(page, region, passage_of.get(RegionRef(page.index, region.index)))
        yield "</svg>"
    yield f"</div><figcaption>{page.index + 1}</figcaption></figure>\n"


def _box(page: Page, region: Region, number: int | None) -> str:
    box = region.box
    corners = region.polygon or ((box.x0, box.y0), (box.x1, box.y0), (box.x1, box.y1), (box.x0, box.y1))
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    identity = _box_id(page.index, region.index)
    target = f"p{number}" if number is not None else f"rest-{identity}"
    told = f"{region.index} {region.label}" + ("" if region.status == "ok" else f" {region.status}: {region.error}")
    bad = "" if region.status == "ok" else " bad"
    return (
        f'<a id="{identity}" class="box {region.label}{bad}" href="#{target}" aria-label="{_safe(told)}">'
        f'<title>{_safe(told)}</title><polygon points="{points}"/></a>\n'
    )


def _box_id(page_index: int, region_index: int) -> str:
    return f"r{page_index + 1}-{region_index}"


def _passage(export: Export, number: int, passage: Passage, places: Places) -> Iterator[str]:
    found = places.of(passage)
    boxes = " ".join(_box_id(place.page.index, place.region.index) for place in found)
    links = " ".join(_link(place) for place in found)
    classes = f"passage {passage.kind}" + (" furniture" if passage.furniture else "")
    yield f'<div class="{classes}" id="p{number}" data-boxes="{boxes}">'
    yield f'<span class="places">{links}</span>' if links else ""
    told = dict.fromkeys((place.region.status, place.region.error) for place in found if place.region.status != "ok")
    for status, error in told:
        yield f"<p>{_status(status)} {_safe(error or '')}</p>"
    yield _content(export, passage)
    yield "</div>\n"


def _link(place: Place) -> str:
    name = f"{place.page.index + 1}·{place.region.index}"
    return f'<a href="#{_box_id(place.page.index, place.region.index)}">{name}</a>'


def _content(export: Export, passage: Passage) -> str:
    """Titles are headings at their level; the document's own is the only h1."""
    picture = picture_of(passage)
    if picture is not None:
        return _picture(export, picture, passage.label)
    if passage.kind == "table":
        return table_html(passage.content or shown_markdown(passage))
    if passage.kind == "formula":
        return formula_html(_plain(_without_marks(shown_markdown(passage))), display=True)
    if passage.kind == "mark":
        return f'<p class="status">{_safe(mark_text(passage))}</p>'
    return markdown_html(shown_markdown(passage))


def _picture(export: Export, name: str, label: str) -> str:
    """A failed region's mark is said by its status; its picture stays."""
    uri = figure_uri(export.picture(name))
    alt = escape(label)
    return f'<img src="{uri}" alt="{alt}">' if uri else f'<p class="status">\N{WARNING SIGN} {alt}</p>'


def _without_marks(markdown: str) -> str:
    body = markdown.strip()
    return body[2:-2].strip() if len(body) >= 4 and body.startswith("$$") and body.endswith("$$") else body


def _rest(page: Page, regions: list[Region]) -> str:
    """Headers, footers, page numbers and what gave no text: out of the reading, yet there."""
    if not regions:
        return ""
    lines = []
    for region in regions:
        identity = _box_id(page.index, region.index)
        told = "" if region.status == "ok" else f"{_status(region.status)} {_safe(region.error or '')} "
        lines.append(
            f'<div class="passage furniture" id="rest-{identity}" data-boxes="{identity}"><span class="places">'
            f'<a href="#{identity}">{page.index + 1}·{region.index}</a> {escape(region.label)}</span>'
            f"{told}{_safe(region.content)}</div>\n"
        )
    labels = ", ".join(dict.fromkeys(region.label for region in regions))
    return f'<details class="rest"><summary>+ {len(regions)}: {labels}</summary>\n{"".join(lines)}</details>\n'
