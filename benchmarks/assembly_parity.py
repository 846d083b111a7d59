"""Our Markdown beside the GLM-OCR SDK's on its own published results: equal, or different only where a mend acts.

    python -m benchmarks.assembly_parity [--cases DIR] [--json]

Each `X.json` under the folder is assembled twice: with every mend off, which must give `X.md` byte for byte (but for
the end of the file), and as it is by default. Of each passage that differs from the SDK's, the mends that act on it
are found by switching each of them off alone: it is listed where switching off exactly those gives the SDK's text
again, and unlisted, a fault of ours, where it does not. Pictures take the SDK's names, which are not in the JSON.
Exit code 1 where anything is unlisted.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from gravityocr.document import Page, Passage, RegionRef
from gravityocr.errors import InputError
from gravityocr.pipeline.assembly import AssemblyConfig, assemble
from gravityocr.pipeline.glm_ocr_json import read_glm_ocr
from gravityocr.pipeline.passages.mends import ALL_MENDS, MENDS

CASES = Path(__file__).resolve().parents[2] / "shared" / "cases"
Sources = tuple[RegionRef, ...]


@dataclass
class FileParity:
    """How one file's passages compare: `listed` counts, per mend, the passages that differ because of it."""

    file: str
    equal_without_mends: bool
    n_passages: int = 0
    n_equal: int = 0
    n_listed: int = 0
    listed: dict[str, int] = field(default_factory=dict)
    unlisted: list[str] = field(default_factory=list)


def find_files(folder: Path) -> list[Path]:
    """Return every JSON that has a Markdown file beside it.

    *Raises*: InputError where there is none.
    """
    files = sorted(path for path in folder.rglob("*.json") if path.with_suffix(".md").is_file())
    if not files:
        raise InputError(f"{folder}: has no X.json with an X.md beside it; name the folder with --cases")
    return files


def passages_of(pages: Sequence[Page], mends: Iterable[str]) -> dict[Sources, str]:
    """Return each passage's Markdown by its sources, pictures named as the SDK names them."""
    names = _picture_names(pages)
    passages = assemble(pages, AssemblyConfig("markdown", mends=tuple(mends)))
    return {passage.sources: _text(passage, names) for passage in passages}


def compare(file: Path, name: str) -> FileParity:
    """Compare one file's passages with the SDK's Markdown."""
    pages = [_with_pictures(page) for page in read_glm_ocr(file)]
    reference = file.with_suffix(".md").read_text(encoding="utf-8").strip("\n")
    bare = passages_of(pages, ())
    parity = FileParity(name, "\n\n".join(bare.values()) == reference)
    sdk = _placed(bare, reference, parity)
    order = list(bare)
    one_off = {mend: passages_of(pages, _all_but({mend})) for mend in MENDS}
    ours = passages_of(pages, ALL_MENDS)
    parity.n_passages = len(ours)
    counts: Counter[str] = Counter()
    for sources, text in ours.items():
        if text == _at(sources, sdk, order):
            parity.n_equal += 1
            continue
        acting = [mend for mend in MENDS if one_off[mend].get(sources) != text]
        without = passages_of(pages, _all_but(set(acting)))
        if acting and _at(sources, without, order) == _at(sources, sdk, order):
            parity.n_listed += 1
            counts.update(acting)
        else:
            parity.unlisted.append(_told(sources, text))
    parity.listed = {mend: counts[mend] for mend in MENDS if counts[mend]}
    missing = set(order) - {(ref,) for sources in ours for ref in sources} - set(ours)
    parity.unlisted += [f"missing: {_told(sources, bare[sources])}" for sources in sorted(missing, key=order.index)]
    return parity


def _all_but(mends: set[str]) -> list[str]:
    return [mend for mend in ALL_MENDS if mend not in mends]


def _placed(bare: dict[Sources, str], reference: str, parity: FileParity) -> dict[Sources, str]:
    """Return the passages that stand in the reference, one after another; those that do not are unlisted."""
    position = 0
    placed: dict[Sources, str] = {}
    for sources, text in bare.items():
        found = reference.find(text, position)
        if found - position not in (0, 2) or reference[position:found].strip("\n"):
            parity.unlisted.append(f"without mends: {_told(sources, text)}")
            continue
        placed[sources] = text
        position = found + len(text)
    if reference[position:].strip("\n"):
        parity.unlisted.append(f"the reference goes on: {reference[position : position + 60]!r}")
    return placed


def _at(sources: Sources, texts: dict[Sources, str], order: Sequence[Sources]) -> str | None:
    """Return the text of these sources, put together where it is several passages; None where one is not there."""
    if sources in texts:
        return texts[sources]
    wanted = [one for one in order if set(one) <= set(sources)]
    if {ref for one in wanted for ref in one} != set(sources) or any(one not in texts for one in wanted):
        return None
    return "\n\n".join(texts[one] for one in wanted)


def _told(sources: Sources, text: str) -> str:
    where = ", ".join(f"page {ref.page + 1} region {ref.region}" for ref in sources)
    return f"{where}: {text[:60]!r}"


def _with_pictures(page: Page) -> Page:
    """Give figures a name, since only those with a picture are shown."""
    regions = (replace(region, image="picture") if region.label == "figure" else region for region in page.regions)
    return replace(page, regions=tuple(regions))


def _picture_names(pages: Sequence[Page]) -> dict[RegionRef, str]:
    figures = [
        RegionRef(page.index, region.index) for page in pages for region in page.regions if region.label == "figure"
    ]
    return {
        ref: f"![Image {ref.page}-{count}](imgs/cropped_page{ref.page}_idx{count}.jpg)"
        for count, ref in enumerate(figures)
    }


def _text(passage: Passage, names: dict[RegionRef, str]) -> str:
    return names[passage.sources[0]] if passage.kind == "figure" else passage.markdown


def report(results: Sequence[FileParity]) -> str:
    """Return the results as lines for a reader."""
    lines = []
    for one in results:
        same = "equal" if one.equal_without_mends else "DIFFERENT"
        lines.append(f"{one.file}: without mends {same}; {one.n_passages} passages by default: {one.n_equal} equal,")
        mends = ", ".join(f"{mend} {count}" for mend, count in one.listed.items())
        lines.append(f"  {one.n_listed} differ by listed mends ({mends or 'none'}), {len(one.unlisted)} unlisted")
        lines += [f"  unlisted: {told}" for told in one.unlisted]
    used = sorted({mend for one in results for mend in one.listed}, key=list(MENDS).index)
    lines += ["", "Mends that act here:", *(f"  {mend}: {MENDS[mend]}" for mend in used)]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare every published result; return 1 where a difference is unlisted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=Path, default=CASES, help="folder with glm_reference/result, or that itself")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    options = parser.parse_args(arguments)
    inner = options.cases / "glm_reference" / "result"
    folder = inner if inner.is_dir() else options.cases
    try:
        files = find_files(folder)
        results = [compare(file, str(file.relative_to(folder))) for file in files]
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    n_unlisted = sum(len(one.unlisted) + (not one.equal_without_mends) for one in results)
    if options.json:
        print(json.dumps({"files": [asdict(one) for one in results], "n_unlisted": n_unlisted}, indent=2))
    else:
        print(report(results))
    return 1 if n_unlisted else 0


if __name__ == "__main__":
    sys.exit(main())
