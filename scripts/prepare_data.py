"""Collect fonts, texts and HTML tables of this machine, and formulas of a file, into a folder for synthetic crops."""

import argparse
import gzip
import hashlib
import html.parser
import json
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont, TTLibError
from PIL import ImageFont

from gravityocr.training.synthetic.charset import ASCII, CHARSET, LIGATURES
from gravityocr.training.synthetic.corpus import clean_paragraph
from gravityocr.training.synthetic.fonts import is_held_out
from gravityocr.training.synthetic.formula_source import prepare_formulas
from gravityocr.training.synthetic.table_harvest import POOL_NAME, harvest

FONT_ROOTS = ("/usr/share/fonts", "/usr/share/texmf", "/usr/share/texlive", "/usr/local/share/fonts")
MAX_FACES_PER_FAMILY = 6
MAX_SOURCE_BYTES = 3_000_000
HTML_FOLDERS = ("/usr/share/cppreference", "/usr/share/doc")
REJECTED_NAMES = re.compile(
    r"symbol|dingbat|emoji|math|orn|script|chancery|z003|brush|hand|callig|blackletter|fraktur|initial|outline|"
    r"shadow|stencil|swash|keyboard|caps|unicase|dunhill|fibonacci|funny|upright|unslanted|display black|music|"
    r"dyslexic|d050000l|bodoni classic|nonbmp|lining|mono ?nerd|chorus|phonetic|condensed black|bullets|"
    r"accanthis adf std no|slide|millimetre|ultra|extralight|hairline|extrathin",
    re.IGNORECASE,
)
REJECTED_FOLDERS = re.compile(r"/(linex|ancient-scripts|tlwg|padauk|aboriginal|fonts-gfs|humor-sans)/")
PAPER_FAMILIES = re.compile(
    r"^(cmu serif|cmu concrete|lm ?roman|latin modern roman|tex gyre termes|nimbus roman|times|stix|xits|"
    r"linux libertine|liberation serif|c059|tex gyre schola|tinos|old ?standard)",
    re.IGNORECASE,
)
COMMON_FAMILIES = re.compile(
    r"^(liberation|nimbus sans|tex gyre heros|dejavu s|cmu sans|lmsans|lm sans|latin modern sans|arimo|noto s|"
    r"open sans|roboto|lato|gelasio|charis|eb garamond|tex gyre bonum|bookman)",
    re.IGNORECASE,
)
SANS_FAMILIES = re.compile(
    r"sans|heros|adventor|gothic|arimo|roboto|lato|inter|dosis|jura|comfortaa|carlito|cantarell|biolinum|^play|"
    r"^go\b|andika|spartan|comic|quotation|universalis|gillius|bright",
    re.IGNORECASE,
)
PREFERRED_PACKAGES = (
    *("python3.11-doc", "perl-doc", "postgresql-doc-15", "manpages", "manpages-dev", "debian-reference-en"),
    *("dict-jargon", "dict-foldoc", "fortunes", "linux-doc-6.1", "git-man", "miscfiles", "cmake-data"),
)
REJECTED_PACKAGES = re.compile(r"^(fonts-|google-|libslang|linux-perf|nvidia|cuda)")
DOCUMENT_CHARS = 100_000


def name_of(font: TTFont, *ids: int) -> str:
    """Return the first name record that is present."""
    for name_id in ids:
        value = font["name"].getDebugName(name_id)
        if value:
            return str(value).strip()
    return ""


def style_of(subfamily: str, full: str) -> str:
    """Map a subfamily name to regular, italic, bold, bolditalic or other."""
    plain = subfamily.casefold().replace("-", " ").strip()
    weightless = re.sub(r"bold|italic|oblique|regular|book|roman|medium|normal|std|\d+|\W", "", plain)
    if weightless or re.search(r"light|thin|black|heavy|cond|narrow|demi|extra", full, re.IGNORECASE):
        return "other"
    slanted = "italic" in plain or "oblique" in plain or "slanted" in plain
    return ("bolditalic" if slanted else "bold") if "bold" in plain else ("italic" if slanted else "regular")


def kind_of(font: TTFont, family: str) -> str:
    """Tell serif, sans and mono faces apart, by advances first and names second."""
    metrics, cmap = font["hmtx"].metrics, font.getBestCmap()
    if metrics[cmap[ord("i")]][0] == metrics[cmap[ord("M")]][0]:
        return "mono"
    return "sans" if SANS_FAMILIES.search(family) else "serif"


def is_readable(path: Path) -> bool:
    """Reject faces whose capitals equal their small letters or whose glyphs are blank or oversized."""
    font = ImageFont.truetype(str(path), 48)
    masks = {char: font.getmask(char) for char in "aAegGnNxX8"}
    if any(mask.getbbox() is None for mask in masks.values()):
        return False
    same = sum(bytes(masks[a]) == bytes(masks[b]) for a, b in ("aA", "eE", "gG", "nN") if b in masks)
    _, top, _, bottom = font.getbbox("dpqkgl", anchor="ls")
    return same == 0 and 28 < bottom - top < 80 and 0.15 < font.getlength("n") / 48 < 1.0


def collect_fonts(out: Path, cap_bytes: int) -> list[dict[str, object]]:
    """Subset every usable face to the charset, keep one per family and style, and write `fonts.json`."""
    (out / "fonts").mkdir(parents=True, exist_ok=True)
    paths = [
        p
        for root in FONT_ROOTS
        for p in Path(root).rglob("*")
        if p.suffix.lower() in {".ttf", ".otf"} and not REJECTED_FOLDERS.search(str(p))
    ]
    seen: set[str] = set()
    counts: dict[str, int] = {}
    rows: list[dict[str, object]] = []
    total = 0
    for path in sorted(paths, key=lambda p: (p.suffix.lower() != ".otf", str(p))):
        row = describe(path)
        if row is None:
            continue
        family = str(row["family"])
        key = f"{family}|{row['subfamily']}".casefold()
        if key in seen or counts.get(family, 0) >= MAX_FACES_PER_FAMILY:
            continue
        target = out / "fonts" / f"{path.stem}{path.suffix.lower()}"
        if not write_subset(path, target) or not is_readable(target):
            target.unlink(missing_ok=True)
            continue
        if total + target.stat().st_size > cap_bytes:
            target.unlink()
            continue
        seen.add(key)
        counts[family] = counts.get(family, 0) + 1
        total += target.stat().st_size
        rows.append({"path": f"fonts/{target.name}", **row})
    (out / "fonts.json").write_text(json.dumps(rows, ensure_ascii=False, indent=0), encoding="utf-8")
    return rows


def describe(path: Path) -> dict[str, object] | None:
    """Return the row of a usable Latin text face, or None."""
    try:
        with TTFont(path, lazy=True) as font:
            cmap = font.getBestCmap()
            if cmap is None or any(ord(c) not in cmap for c in ASCII):
                return None
            family, subfamily = name_of(font, 16, 1), name_of(font, 17, 2) or "Regular"
            full = f"{family} {subfamily} {name_of(font, 4)}"
            if not family or REJECTED_NAMES.search(full) or ("fvar" in font):
                return None
            chars = "".join(c for c in CHARSET if c not in ASCII and c != "\n" and ord(c) in cmap)
            chars += "".join(form for form in LIGATURES.values() if ord(form) in cmap)
            kind = kind_of(font, family)
    except (TTLibError, KeyError, AttributeError, ValueError, OSError):
        return None
    if family.startswith("Noto") and not re.match(
        r"^Noto (Sans|Serif|Mono|Sans Mono|Sans Display|Serif Display)$", family
    ):
        return None
    weight = 5.0 if PAPER_FAMILIES.match(family) else (2.0 if COMMON_FAMILIES.match(family) else 1.0)
    return {
        "family": family,
        "subfamily": subfamily,
        "style": style_of(subfamily, full),
        "kind": kind,
        "weight": 0.5 * weight if kind == "mono" else weight,
        "split": "heldout" if is_held_out(family) else "train",
        "chars": chars,
    }


def write_subset(path: Path, target: Path) -> bool:
    """Write the face with only the charset's glyphs, kerning and standard ligatures."""
    options = subset.Options()
    options.layout_features = ["kern", "liga", "clig", "ccmp", "locl", "mark", "calt"]
    options.hinting = path.suffix.lower() == ".ttf"
    options.notdef_outline = True
    options.ignore_missing_glyphs = True
    options.drop_tables += [
        "FFTM",
        "PfEd",
        "TeX ",
        "DSIG",
        "MATH",
        "BDF ",
        "Silf",
        "Glat",
        "Gloc",
        "Feat",
        "Sill",
    ]
    try:
        with subset.load_font(str(path), options) as font:
            cutter = subset.Subsetter(options)
            cutter.populate(text=CHARSET.replace("\n", "") + "".join(LIGATURES.values()))
            cutter.subset(font)
            subset.save_font(font, str(target), options)
    except (TTLibError, KeyError, AttributeError, ValueError, AssertionError, OSError):
        return False
    return True


class _Prose(html.parser.HTMLParser):
    """Gather the text of block elements; skip code, navigation and scripts."""

    blocks = frozenset(
        ("p", "li", "dd", "dt", "td", "th", "h1", "h2", "h3", "h4", "h5", "h6", "div", "blockquote", "br", "section")
    )
    skipped = frozenset(("script", "style", "pre", "nav", "head", "footer", "form", "svg", "math"))

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.paragraphs: list[str] = []
        self._parts: list[str] = []
        self._depth = 0

    def _flush(self) -> None:
        self.paragraphs.append("".join(self._parts))
        self._parts = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self.skipped:
            self._depth += 1
        elif tag in self.blocks:
            self._flush()

    def handle_endtag(self, tag: str) -> None:
        if tag in self.skipped:
            self._depth = max(0, self._depth - 1)
        elif tag in self.blocks:
            self._flush()

    def handle_data(self, data: str) -> None:
        if self._depth == 0:
            self._parts.append(data)


_ROFF_ESCAPES = (
    (re.compile(r"\\f(?:[A-Z0-9]|\([A-Z]{2}|\[[A-Z]*\])"), ""),
    (re.compile(r"\\\*(?:\(..|\[[^]]*\]|.)"), ""),
    (re.compile(r"\\s[-+]?\d+|\\[&|^/,%c]|\\\\"), ""),
    (re.compile(r"\\\(aq|\\\[aq\]"), "'"),
    (re.compile(r"\\\(lq|\\\[lq\]"), "“"),
    (re.compile(r"\\\(rq|\\\[rq\]"), "”"),
    (re.compile(r"\\\(em|\\\[em\]"), "—"),
    (re.compile(r"\\\(en|\\\[en\]"), "–"),
    (re.compile(r"\\-"), "-"),
    (re.compile(r"\\e"), ""),
    (re.compile(r"\\ |\\~"), " "),
)


def man_paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a man page source."""
    lines: list[str] = []
    for line in text.splitlines():
        macro = re.match(r"\.\s*([A-Za-z]+)\s*(.*)", line)
        if macro and macro[1] in {"B", "I", "BR", "IR", "RB", "RI", "BI", "IB", "Nm", "Em", "Sy"}:
            words = macro[2].replace('"', "")
            lines.append(words if len(macro[1]) == 1 else re.sub(r" (?=[,.;:)(\d])", "", words))
        elif line.startswith((".", "'")) or not line.strip():
            yield " ".join(lines)
            lines = []
        else:
            lines.append(line)
    yield " ".join(lines)


def paragraphs_of(path: Path, text: str) -> Iterable[str]:
    """Split a document into raw paragraphs, by its kind."""
    name = path.name.removesuffix(".gz")
    if name.endswith((".html", ".htm", ".xhtml")):
        parser = _Prose()
        parser.feed(text)
        parser.close()
        return parser.paragraphs
    if "/man/" in str(path):
        for pattern, plain in _ROFF_ESCAPES:
            text = pattern.sub(plain, text)
        return man_paragraphs(text)
    if name.endswith(".pod"):
        for _ in range(3):
            text = re.sub(r"[BCEFILSXZ]<+\s?([^<>|]*)(?:\|[^<>]*)?\s?>+", r"\1", text)
        return (p for p in re.split(r"\n\s*\n", text) if not p.startswith((" ", "\t", "=")))
    if "fortunes" in str(path):
        return text.split("\n%\n")
    text = re.sub(r"``([^`]*)``|:\w+:`([^`]*)`", r"\1\2", text)
    return re.split(r"\n\s*\n", text)


def sources() -> Iterator[tuple[str, list[Path]]]:
    """Yield (package, documents) in the order in which they are read."""
    doc = Path("/usr/share/doc")
    others = sorted(p.name for p in doc.iterdir() if not REJECTED_PACKAGES.match(p.name))
    for package in dict.fromkeys([*PREFERRED_PACKAGES, *others]):
        listing = subprocess.run(["dpkg", "-L", package], capture_output=True, text=True, check=False).stdout
        files = [Path(line) for line in listing.splitlines() if "/share/" in line or "/pod/" in line]
        yield package, [f for f in files if is_document(f)]


def is_document(path: Path) -> bool:
    """Accept English documentation by folder and suffix."""
    text = str(path)
    if re.search(
        r"/man/[a-z]{2}(_[A-Z]{2})?/|/locale/|/i18n/|translations|_sources|genindex|searchindex|changelog|\.dat$",
        text,
    ):
        return False
    wanted = (
        r"\.(html?|xhtml|txt|rst|pod|md)(\.gz)?$|/man/man\d/|/fortunes/[a-z-]+$|/copyright$|"
        r"/README[^/]*$|\.dict(\.dz)?$"
    )
    return re.search(wanted, text) is not None and path.is_file() and not path.is_symlink()


def licence_of(package: str) -> str:
    """Return the licence names of a package's copyright file."""
    path = Path("/usr/share/doc") / package / "copyright"
    if not path.is_file():
        return "unknown"
    text = path.read_text(encoding="utf-8", errors="replace")
    names = dict.fromkeys(re.findall(r"^License:\s*(\S[^\n]*)$", text, re.MULTILINE))
    if not names:
        known = (
            "GPL-2",
            "GPL-3",
            "LGPL",
            "Artistic",
            "BSD",
            "MIT",
            "PostgreSQL",
            "GFDL",
            "Apache",
            "public domain",
        )
        names = dict.fromkeys(word for word in known if word.casefold() in text.casefold())
    return ", ".join(names)[:200] or "see copyright file"


def read_document(path: Path) -> str:
    """Read plain or gzip text."""
    raw = path.read_bytes()
    if path.suffix in {".gz", ".dz"}:
        raw = gzip.decompress(raw)
    return raw.decode("utf-8", errors="ignore")


def collect_corpus(out: Path, cap_bytes: int) -> dict[str, int]:
    """Write `corpus.jsonl`, one document a line, split by a hash; return the bytes of each package."""
    seen: set[bytes] = set()
    sizes: dict[str, int] = {}
    with (out / "corpus.jsonl").open("w", encoding="utf-8") as lines:
        for package, paths in sources():
            licence = licence_of(package) if paths else ""
            for name, text in documents_of(paths, seen):
                if sizes.get(package, 0) >= MAX_SOURCE_BYTES or sum(sizes.values()) >= cap_bytes:
                    break
                split = "heldout" if hashlib.sha256(name.encode()).digest()[0] < 13 else "train"
                row = {"source": package, "document": name, "licence": licence, "split": split, "text": text}
                lines.write(json.dumps(row, ensure_ascii=False) + "\n")
                sizes[package] = sizes.get(package, 0) + len(text.encode())
    return sizes


def documents_of(paths: list[Path], seen: set[bytes]) -> Iterator[tuple[str, str]]:
    """Yield (name, new paragraphs) in an order that a hash fixes; long files become several documents."""
    for path in sorted(paths, key=lambda p: hashlib.sha256(str(p).encode()).digest()):
        kept: list[str] = []
        part = length = 0
        for raw in [*paragraphs_of(path, read_document(path)), None]:
            paragraph = clean_paragraph(raw) if raw is not None else None
            digest = hashlib.sha1((paragraph or "").encode()).digest()
            if paragraph is not None and digest not in seen:
                seen.add(digest)
                kept.append(paragraph)
                length += len(paragraph)
            if length > DOCUMENT_CHARS or (raw is None and length > 200):
                yield f"{path}#{part}", "\n".join(kept)
                kept, length, part = [], 0, part + 1


def html_files() -> list[Path]:
    """List the HTML documentation that is installed."""
    files = (file for folder in HTML_FOLDERS for file in Path(folder).rglob("*.html"))
    return sorted(f for f in files if f.is_file() and not f.is_symlink() and f.stat().st_size < MAX_SOURCE_BYTES)


def main() -> None:
    """Run the collections and print their sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--font-megabytes", type=float, default=25.0)
    parser.add_argument("--corpus-megabytes", type=float, default=32.0)
    parser.add_argument("--only", choices=("fonts", "corpus", "formulas", "tables"), default=None)
    parser.add_argument("--formulas", type=Path, default=None, help="JSON of LaTeX, e.g. from npm's mathoid-texvcjs")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.only in (None, "fonts"):
        rows = collect_fonts(arguments.out, int(arguments.font_megabytes * 1e6))
        for split in ("train", "heldout"):
            families = sorted({str(row["family"]) for row in rows if row["split"] == split})
            print(f"{split}: {len(families)} families of {len(rows)} faces: {families}")
    if arguments.only in (None, "corpus"):
        sizes = collect_corpus(arguments.out, int(arguments.corpus_megabytes * 1e6))
        largest = sorted(sizes.items(), key=lambda item: -item[1])[:25]
        print(f"corpus: {sum(sizes.values()) / 1e6:.1f} MB of {len(sizes)} packages: {largest}")
    if arguments.only in (None, "tables"):
        print(f"tables: {harvest(html_files(), arguments.out / POOL_NAME)} of HTML documentation")
    if arguments.formulas is not None and arguments.only in (None, "formulas"):
        print(f"formulas: {prepare_formulas(arguments.formulas, arguments.out)}")


if __name__ == "__main__":
    main()
