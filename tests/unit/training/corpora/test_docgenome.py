"""DocGenome from archives and unpacked papers in its layout."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont
from tests.unit.training.corpora.page_fixtures import WORDS, encoded, taken, text_page

from gravityocr.errors import InputError
from gravityocr.training.corpora import docgenome
from gravityocr.training.corpora.conversion import ConversionConfig, Skipped, convert_source
from gravityocr.training.corpora.docgenome import READING, DocGenome, latex_of_equation

NUMBERED = "\\begin{equation}\nL=-\\sum_{i=1}^{N}\\log p(y_{i}), % the loss\n\\label{loss}\n\\end{equation}"
LATEX = r"L=-\sum_{i=1}^{N}\log p(y_{i}),"


def formula_page(crops: Path) -> tuple[Image.Image, list[int]]:
    """Paragraphs with a displayed formula between them, and the block of its annotation, on a grid of 8 px."""
    page = Image.new("RGB", (1700, 2200), "white")
    font = ImageFont.load_default(size=32)
    for top in (300, 900, 1500):
        for row in range(8):
            line = " ".join(WORDS[(row + k) % len(WORDS)] for k in range(13))
            ImageDraw.Draw(page).text((300, top + 48 * row), line, fill="black", font=font)
    with Image.open(crops / "formula_03.png") as formula:
        size = (formula.width * 3 // 2, formula.height * 3 // 2)
        page.paste(formula.convert("RGB").resize(size), (619, 770))
    return page, [624, 776, 1080, 896]


def block(bbox: list[int], source: str = NUMBERED, **changes: object) -> dict[str, object]:
    values = {"block_id": 1676, "bbox": bbox, "category": 2, "page_index": 1, "source_code": source}
    return {**values, **changes}


def paper(pages: list[bytes], blocks: object) -> dict[str, bytes]:
    files = {f"page_{number:04d}.jpg": data for number, data in enumerate(pages)}
    reading = blocks if isinstance(blocks, bytes) else json.dumps(blocks).encode()
    notes = dict.fromkeys(("layout_annotation.json", "order_annotation.json", "quality_report.json"), b"{}")
    return {**notes, **files, "reading_annotation.json": reading}


def write_archive(file: Path, papers: list[tuple[str, dict[str, bytes]]]) -> None:
    mode = "w:gz" if file.name.endswith("gz") else "w"
    with tarfile.open(file, mode) as archive:
        for folder, files in papers:
            for name, data in files.items():
                member = tarfile.TarInfo(f"{folder}/{name}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))


@pytest.fixture(scope="module")
def crops(repo_root: Path) -> Path:
    return repo_root / "tests" / "data" / "crops"


@pytest.mark.parametrize("wrapped", [False, True])
def test_formulas_take_their_latex_and_all_else_waits_for_a_teacher(tmp_path: Path, crops: Path, wrapped: bool) -> None:
    page, box = formula_page(crops)
    pages = [encoded(text_page(1), "JPEG"), encoded(page, "JPEG")]
    text = block([304, 304, 1240, 680], "the \\cite{quick} fox", category=9)
    folder = tmp_path / "physics.gen-ph" / "0704.1726"
    folder.mkdir(parents=True)
    blocks = [text, block(box), block(box, page_index=0)]
    for name, data in paper(pages, {"annotations": blocks} if wrapped else blocks).items():
        (folder / name).write_bytes(data)
    converter = DocGenome(ConversionConfig())
    (unit,) = converter.units(tmp_path)
    assert unit.name == "physics-gen-ph-0000"
    regions, skipped = taken(converter, unit)
    assert skipped == []
    known = [region for region in regions if region.target_origin == "annotation"]
    assert [(region.task, region.target, region.page) for region in known] == [("formula", LATEX, 1)]
    assert sum(region.target_origin == "pending" and region.task == "text" for region in regions) == 4
    assert {region.doc_id for region in regions} == {"0704.1726"}
    assert all(region.region_id.startswith(f"docgenome/0704.1726/{region.page}/") for region in regions)


def test_a_number_beside_the_formula_leaves_it_to_the_teacher(tmp_path: Path, crops: Path) -> None:
    page, box = formula_page(crops)
    folder = tmp_path / "math.GM" / "0906.1099"
    folder.mkdir(parents=True)
    wider = [box[0], box[1], box[2] - 80, box[3]]
    blocks = [block(wider, page_index=0), block(box, r"\begin{equation}\mymacro\end{equation}", page_index=0)]
    for name, data in paper([encoded(page, "JPEG")], blocks).items():
        (folder / name).write_bytes(data)
    converter = DocGenome(ConversionConfig())
    regions, _ = taken(converter, converter.units(tmp_path)[0])
    (formula,) = [region for region in regions if region.task == "formula"]
    assert (formula.target, formula.target_origin) == ("", "pending")


@pytest.mark.parametrize("name", ["docgenome-train-000.tar.gz", "docgenome-train-001.tar"])
def test_archives_are_read_from_front_to_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(docgenome, "MOST_PAGES", 2)
    page = encoded(text_page(1), "JPEG")
    papers = [
        ("./math.GM/0906.1099", paper([page, page[:300], page], [])),
        ("./math.GM/2103.02443", paper([page], b"{broken")),
        ("./math.GM/0906.1099", {"page_0009.jpg": page}),
    ]
    write_archive(tmp_path / name, papers)
    write_archive(tmp_path / "DocGenome-Testset.tar", papers)
    converter = DocGenome(ConversionConfig(layout="none"))
    (unit,) = converter.units(tmp_path)
    regions, skipped = taken(converter, unit)
    assert [region.region_id for region in regions] == ["docgenome/0906.1099/0/0", "docgenome/2103.02443/0/0"]
    kinds = {item.where: item.reason.split(":")[0] for item in skipped}
    assert kinds["docgenome/0906.1099/1"] == "unreadable page"
    assert kinds[f"{unit.name}, math.GM/2103.02443"] == "no annotation"
    assert Skipped(f"{unit.name}, math.GM/0906.1099", "pages beyond 2: 1") in skipped
    assert sum(item.reason.startswith("paper in pieces") for item in skipped) == 1


def test_an_archive_that_breaks_off_fails_alone(tmp_path: Path) -> None:
    page = encoded(text_page(1), "JPEG")
    for number in range(2):
        write_archive(tmp_path / f"docgenome-train-00{number}.tar.gz", [("a/1", paper([page], []))])
    file = tmp_path / "docgenome-train-000.tar.gz"
    file.write_bytes(file.read_bytes()[:2000])
    config = ConversionConfig(layout="none")
    reports = [*convert_source(DocGenome(config), tmp_path, tmp_path / "out", config)]
    assert [report.status for report in reports] == ["failed", "made"]
    assert "docgenome-train-000.tar.gz breaks off" in (reports[0].error or "")
    write_archive(file, [("a/1", {"notes.txt": b"no page"})])
    reports = [*convert_source(DocGenome(config), tmp_path, tmp_path / "out", config)]
    assert {report.unit: report.status for report in reports} == {
        "docgenome-train-000-tar-gz": "failed", "docgenome-train-001-tar-gz": "kept",
    }  # fmt: skip
    assert "holds no paper" in (reports[-1].error or "")


def test_units_are_archives_and_slices_of_papers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docgenome, "UNIT_PAPERS", 2)
    converter = DocGenome(ConversionConfig())
    with pytest.raises(InputError, match="docgenome-train-000.tar.gz"):
        converter.units(tmp_path)
    write_archive(tmp_path / "docgenome-train-000.tar.gz", [])
    for number in range(3):
        folder = tmp_path / "hep-th" / f"0704.000{number}"
        folder.mkdir(parents=True)
        (folder / "page_0000.jpg").write_bytes(b"")
    (tmp_path / "hep-th" / "notes").mkdir()
    names = [unit.name for unit in converter.units(tmp_path)]
    assert names == ["docgenome-train-000-tar-gz", "hep-th-0000", "hep-th-0001"]


@pytest.mark.parametrize(
    ("source", "latex"),
    [
        (NUMBERED, LATEX),
        (r"\begin{equation*} a = \frac{b}{c} \nonumber \end{equation*}", r"a = \frac{b}{c}"),
        (r"\[ x^2 \]", "x^2"),
        (r"$$ x^2 $$", "x^2"),
        (r"$$ x $$ or $$ y $$", None),
        (r"\[ x \] or \[ y \]", None),
        (r"\begin{equation} x = 1 \tag{3} \end{equation}", None),
        (r"\begin{displaymath} 100\% \end{displaymath}", r"100\%"),
        (r"\begin{equation} \mymacro{x} \end{equation}", None),
        (r"\begin{equation} a \\ b \end{equation}", None),
        (r"\begin{eqnarray} a &=& b \end{eqnarray}", None),
        (r"\begin{equation} a = \frac{b \end{equation}", None),
        (r"\begin{equation} \label{x} \end{equation}", None),
        ("plain text", None),
    ],
)
def test_latex_is_taken_where_its_print_is_certain(source: str, latex: str | None) -> None:
    assert latex_of_equation(source) == latex


@pytest.mark.parametrize(
    "blocks",
    [
        "[" * 100_000, '[{"category": ' + "9" * 5000 + "}]", "\\xff",
        json.dumps([block([0, 0, 10, 10**400]), block([0, 0, float("nan"), 5])]),
    ],
)  # fmt: skip
def test_odd_annotations_leave_the_pages_to_the_teacher(tmp_path: Path, blocks: str) -> None:
    files = paper([encoded(text_page(1))], []) | {READING: blocks.encode("latin-1")}
    files |= {"page_99999999999.jpg": b"far"}
    write_archive(tmp_path / "docgenome-train-000.tar.gz", [("cs.AI/2101.00001", files)])
    converter = DocGenome(ConversionConfig(layout="none"))
    (unit,) = converter.units(tmp_path)
    regions, skipped = taken(converter, unit)
    assert [region.target_origin for region in regions] == ["pending"]
    assert "pages beyond" in [item.reason.split(" 1000")[0] for item in skipped]
