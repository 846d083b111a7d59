r"""DocGenome: arXiv papers as page images, with boxes and the LaTeX source of each block.

    ROOT/docgenome-train-000.tar.gz ...                     archives of papers, or the same unpacked:
    ROOT/<discipline>/<arXiv id>/page_0000.jpg ...          the pages, 1700 x 2200 px
    ROOT/<discipline>/<arXiv id>/reading_annotation.json    a list of blocks: `bbox` [x0, y0, x1, y1] in pixels,
                                                            `category`, `page_index`, `source_code`; in some
                                                            papers an object with them under `annotations`
    ... layout_annotation.json, order_annotation.json, quality_report.json    not read

Pages are cut by the detector of inference. A formula region whose edges agree with those of an Equation (category 2)
takes its LaTeX, if that is one unnumbered line or the number lies outside the region, and if it uses no macro of the
paper (it has a normal form). All else is pending: text and tables are full of citations, references and macros whose
print the source does not tell. Some papers have no reading annotation; their pages are pending throughout.
A unit is an archive, or an unpacked discipline's slice of papers. The benchmark (DocGenome-Testset) is another
release; an archive or folder whose name holds "test" is left out.

*Source*: Dataset_Details_README.md and data/ of UniModal4Reasoning/DocGenome, DETAIL_README.md of U4R/DocGenome.
"""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from gravityocr.document import Box
from gravityocr.errors import InputError
from gravityocr.training.corpora.conversion import ConversionConfig, Skipped, Unit, unit_name
from gravityocr.training.corpora.page_crops import KnownText, PageCutter, PageName
from gravityocr.training.corpora.region_shards import LabelledRegion
from gravityocr.training.synthetic.formula_parser import parse_formula

READING = "reading_annotation.json"
EQUATION = 2
UNIT_PAPERS = 50
MOST_PAGES = 1000
_MOST_DIGITS = 9
_MOST_PX = 1e6

_PAGE = re.compile(r"page_(\d+)\.jpe?g")
_ARCHIVES = (".tar.gz", ".tgz", ".tar")
_DISPLAY = re.compile(
    r"\\begin\s*\{(equation|displaymath|math)(\*?)\}(.*)\\end\s*\{\1\2\}|\\\[(.*)\\\]|\$\$(.*)\$\$", re.DOTALL
)
_UNSEEN = re.compile(r"\\label\s*\{[^{}]*\}|\\(?:nonumber|notag)(?![A-Za-z])")
_COMMENT = re.compile(r"(?<!\\)%.*")


@dataclass
class _Paper:
    """Gathers the files of a paper while an archive is read."""

    folder: str
    pages: dict[int, bytes] = field(default_factory=dict)
    reading: bytes | None = None
    n_beyond: int = 0

    def add(self, name: str, data: bytes) -> None:
        page = _PAGE.fullmatch(name)
        if name == READING:
            self.reading = data
        elif page and len(self.pages) < MOST_PAGES and len(page[1]) <= _MOST_DIGITS:
            self.pages[int(page[1])] = data
        elif page:
            self.n_beyond += 1


class DocGenome:
    """Converts DocGenome, one unit an archive or some unpacked papers of a discipline."""

    name = "docgenome"

    def __init__(self, config: ConversionConfig) -> None:
        self._config = config

    def units(self, root: Path) -> list[Unit]:
        """List the archives and the unpacked papers.

        *Raises*: InputError where there is neither.
        """
        found = [
            Unit(unit_name(file.name), (file,))
            for file in sorted(root.iterdir() if root.is_dir() else ())
            if file.is_file() and file.name.endswith(_ARCHIVES) and "test" not in file.name.lower()
        ]
        for discipline in sorted(root.iterdir() if root.is_dir() else ()):
            if not discipline.is_dir() or "test" in discipline.name.lower():
                continue
            papers = sorted(paper for paper in discipline.iterdir() if any(paper.glob("page_*.jp*g")))
            for number, start in enumerate(range(0, len(papers), UNIT_PAPERS)):
                files = tuple(papers[start : start + UNIT_PAPERS])
                found.append(Unit(f"{unit_name(discipline.name)}-{number:04d}", files))
        if not found:
            what = "docgenome-train-000.tar.gz ..., or <discipline>/<arXiv id>/page_0000.jpg ..."
            raise InputError(f"{root} is no DocGenome: it should hold {what}")
        return found

    def regions(self, unit: Unit) -> Iterator[LabelledRegion | Skipped]:
        """Yield the regions of the papers of a unit, one paper in memory at a time.

        *Raises*: InputError where an archive breaks off.
        """
        cutter = PageCutter(self._config.layout)
        seen: set[str] = set()
        for paper in _papers(unit):
            doc_id = PurePosixPath(paper.folder).name
            if doc_id in seen:
                yield Skipped(f"{unit.name}, {paper.folder}", "paper in pieces: its files are apart in the archive")
                continue
            seen.add(doc_id)
            known = _known_texts(paper.reading)
            if known is None:
                yield Skipped(f"{unit.name}, {paper.folder}", f"no annotation: {READING} is missing or broken")
            if paper.n_beyond:
                yield Skipped(f"{unit.name}, {paper.folder}", f"pages beyond {MOST_PAGES}: {paper.n_beyond}")
            for number, data in sorted(paper.pages.items()):
                yield from cutter.read(data, PageName(self.name, doc_id, number), (known or {}).get(number, ()))


def latex_of_equation(source: str) -> str | None:
    r"""Return the LaTeX of a displayed equation of one line, None where its print is not certain.

    Labels and comments go. What has no normal form (macros of the paper, unknown commands) is not certain.

    >>> print(latex_of_equation(r"\begin{equation} p=\hbar k, \label{wave} \end{equation}"))
    p=\hbar k,
    """
    found = _DISPLAY.fullmatch(source.strip())
    if found is None:
        return None
    body = next(part for part in found.groups()[2:] if part is not None)
    body = " ".join(_UNSEEN.sub(" ", _COMMENT.sub("", body)).split())
    is_broken = "\\\\" in body and "\\begin" not in body  # rows without an array print as one
    if is_broken or "$" in body.replace(r"\$", ""):
        return None
    try:
        return body if parse_formula(body) else None
    except InputError:
        return None


def _papers(unit: Unit) -> Iterator[_Paper]:
    if unit.files[0].is_file():
        yield from _archived_papers(unit.files[0])
        return
    for folder in unit.files:
        paper = _Paper(folder.name)
        for file in sorted(folder.iterdir()):
            if file.name == READING or _PAGE.fullmatch(file.name):
                paper.add(file.name, file.read_bytes())
        yield paper


def _archived_papers(file: Path) -> Iterator[_Paper]:
    """Read an archive from front to back; the files of a paper follow each other."""
    paper: _Paper | None = None
    try:
        with tarfile.open(file, "r|*") as archive:
            while (member := archive.next()) is not None:
                archive.members = []  # type: ignore[attr-defined]  # it would remember the heads of a million files
                path = PurePosixPath(member.name)
                if not member.isfile() or not (path.name == READING or _PAGE.fullmatch(path.name)):
                    continue
                if paper is not None and paper.folder != str(path.parent):
                    yield paper
                    paper = None
                paper = paper or _Paper(str(path.parent))
                content = archive.extractfile(member)
                if content is not None:
                    paper.add(path.name, content.read())
    except (tarfile.TarError, EOFError, OSError) as error:
        raise InputError(f"{file} breaks off ({error}); download it again") from error
    if paper is None:
        raise InputError(f"{file} holds no paper: <discipline>/<arXiv id>/page_0000.jpg should be in it")
    yield paper


def _known_texts(reading: bytes | None) -> dict[int, list[KnownText]] | None:
    """Return the formulas of each page whose LaTeX is certain, None where there is no annotation."""
    if reading is None:
        return None
    try:
        blocks = json.loads(reading)
    except (ValueError, RecursionError):
        return None
    if isinstance(blocks, dict):
        blocks = blocks.get("annotations")
    if not isinstance(blocks, list):
        return None
    known: dict[int, list[KnownText]] = {}
    for block in blocks:
        text = _known_text(block) if isinstance(block, dict) else None
        if text is not None:
            known.setdefault(block["page_index"], []).append(text)
    return known


def _known_text(block: dict[str, Any]) -> KnownText | None:
    source, bbox = block.get("source_code"), block.get("bbox")
    if block.get("category") != EQUATION or not isinstance(block.get("page_index"), int):
        return None
    if not isinstance(source, str) or not isinstance(bbox, list) or len(bbox) != 4:
        return None
    if not all(isinstance(value, int | float) and abs(value) < _MOST_PX for value in bbox):  # and no NaN
        return None
    latex = latex_of_equation(source)
    return KnownText(Box(*map(float, bbox)), "formula", latex) if latex else None
