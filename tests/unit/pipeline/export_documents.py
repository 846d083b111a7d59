"""A document with everything that exports meet: all kinds of passages, one over two pages, failures, furniture."""

from __future__ import annotations

from dataclasses import replace

from PIL import Image, ImageDraw

from gravityocr.document import Box, Document, Label, Page, Passage, Region, RegionRef, RegionStatus, Task

SIZE_PX = (800, 1000)
PICTURE = "page0001_region005.png"
LOST_PICTURE = "page0002_region001.png"
HOSTILE = '<script>alert("t")</script><img src="http://e.example/x.png" onerror="alert(1)">'
TABLE = (
    '<table border="1" onclick="alert(1)"><thead><tr><th rowspan="2">Name</th><th colspan="2">$x_1$ | y</th></tr>'
    "<tr><th>a_b</th><th>&lt;b&gt;</th></tr></thead>"
    "<tbody><tr><td>one<br>two</td><td>2 &amp; 3</td><td></td></tr></tbody></table>"
)
FORMULA = r"E = mc^2 \tag{3.1}"


def _region(
    index: int,
    label: Label,
    content: str,
    *,
    native: str | None = None,
    status: RegionStatus = "ok",
    error: str | None = None,
    image: str | None = None,
) -> Region:
    tasks: dict[str, Task | None] = {"table": "table", "formula": "formula", "figure": None, "logo": None}
    top = 30.0 + 90 * index
    box = Box(60.0, top, 640.0, top + 70)
    return Region(
        index, label, native or label, tasks.get(label, "text"), box, content, status, error, 7, 3, 0.9, image=image
    )  # fmt: skip


def _passage(kind: str, markdown: str, *sources: tuple[int, int], **fields: object) -> Passage:
    refs = tuple(RegionRef(page, region) for page, region in sources)
    return replace(Passage("text", markdown, refs), kind=kind, **fields)  # type: ignore[arg-type]


def rich_document(source: str = "in/paper.pdf") -> Document:
    """Return two pages and one that could not be rendered."""
    outline = ((60.0, 120.0), (640.0, 125.0), (640.0, 190.0), (60.0, 185.0))
    first = (
        _region(0, "doc_title", "A Study of Things", native="doc_title"),
        replace(_region(1, "text", f"Costs $5 and $6; $x^2$ {HOSTILE}"), polygon=outline, text_layer="Costs"),
        _region(2, "formula", "E = mc^2"),
        replace(_region(3, "formula_number", "(3.1)"), box=Box(660.0, 210.0, 740.0, 280.0)),
        _region(4, "table", TABLE),
        _region(5, "figure", "", image=PICTURE),
        _region(6, "caption", "Figure 1: A curve."),
        _region(7, "list", "• first\n• second"),
        _region(8, "text", "goes on", status="truncated", error="reached 4096 tokens"),
        _region(9, "page_number", "17"),
    )
    second = (
        _region(0, "header", "Journal of Things"),
        _region(1, "text", "", status="failed", error="the server answered 500", image=LOST_PICTURE),
        _region(2, "text", "on the next page."),
        _region(3, "code", "if a < b:\n    print('$x$')"),
        _region(4, "title", "Results"),
        _region(5, "formula", r"\unknowncommand{x}"),
        _region(6, "caption", "Table 2: Numbers."),
        _region(7, "table", "<table><tr><td>left"),
    )
    text = rf"Costs \$5 and \$6; $x^2$ \{HOSTILE[:8]}alert(&quot;t&quot;)\</script> \<img src=http\://e.example/x.png>"
    passages = (
        _passage("title", "# A Study of Things", (0, 0), content="A Study of Things", level=1, label="doc_title"),
        _passage("text", text, (0, 1), content=first[1].content),
        _passage("formula", f"$$\n{FORMULA}\n$$", (0, 2), (0, 3), content=FORMULA, label="formula"),
        _passage("table", TABLE, (0, 4), content=TABLE, label="table"),
        _passage("figure", f"![figure](images/{PICTURE})", (0, 5), image=PICTURE, label="figure"),
        _passage("text", "Figure 1: A curve.", (0, 6), content="Figure 1: A curve.", label="caption"),
        _passage("list", "- first\n- second", (0, 7), content="- first\n- second", label="list"),
        _passage("text", "goes on on the next page.", (0, 8), (1, 2), content="goes on on the next page."),
        _passage(
            "mark", f"<!-- region 1 failed: the server answered 500 -->\n\n![text](images/{LOST_PICTURE})", (1, 1),
            image=LOST_PICTURE,
        ),
        _passage("code", f"```\n{second[3].content}\n```", (1, 3), content=second[3].content, label="code"),
        _passage("title", "## Results", (1, 4), content="Results", level=2, label="title"),
        _passage("formula", f"$$\n{second[5].content}\n$$", (1, 5), content=second[5].content, label="formula"),
        _passage("text", "Table 2: Numbers.", (1, 6), content="Table 2: Numbers.", label="caption"),
        _passage("table", second[7].content, (1, 7), content=second[7].content, label="table"),
        _passage("mark", "<!-- page 3 failed: page 3: cannot be rendered -->"),
    )  # fmt: skip
    pages = (
        Page(0, SIZE_PX, first, "partial", "page 1: 1 of 10 regions were cut", markdown="# A Study of Things\n"),
        Page(1, SIZE_PX, second, "partial", "page 2: 1 of 8 regions failed",
             markdown=f"## Results\n\n![text](images/{LOST_PICTURE})\n"),
        Page(2, (0, 0), (), "failed", "page 3: cannot be rendered", markdown="<!-- page 3 failed -->\n"),
    )  # fmt: skip
    notes = ("the first of 12 frames of an animation is read",)
    return Document(source, "partial", pages, f"{source}: page 1", notes, passages)


def page_image(size_px: tuple[int, int] = SIZE_PX) -> Image.Image:
    """Return a page with some strokes on it."""
    image = Image.new("RGB", size_px, "white")
    pen = ImageDraw.Draw(image)
    for place in range(0, size_px[1], 40):
        pen.line((60, place, size_px[0] - 60, place + 5), fill="black", width=3)
    return image
