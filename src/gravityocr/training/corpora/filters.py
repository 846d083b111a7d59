"""Which regions are fit to train on: every removal has a reason with a name.

The checks of a region run from the cheapest to the dearest, and the first that fails names the reason. Decoding the
picture is the last of them. Whether a checkpoint's tokenizer can write the target (`unwritable`) is asked after that,
and TeX, where it is asked for, is tried on whole batches (`tex_rejects`).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, get_args

from PIL import ImageStat

from gravityocr.config import check_numbers
from gravityocr.errors import ConfigError, InputError
from gravityocr.metrics.formulas.latex_pieces import words
from gravityocr.metrics.normalization import strip_formula_delimiters
from gravityocr.metrics.tables.html_tokens import unescape
from gravityocr.training.corpora.latex_check import LatexFault, formula_fault, text_fault
from gravityocr.training.corpora.region_shards import LabelledRegion
from gravityocr.training.corpora.repetition import RepetitionConfig, table_repetition, text_repetition
from gravityocr.training.corpora.table_check import TableFault, TableFaultKind, TableGrid, read_table, table_fault
from gravityocr.training.corpora.tex_check import set_without_error

Reason = Literal[
    "pending_target", "empty_target", "too_short", "too_long", "bad_characters", "foreign_script", "broken_latex",
    "unknown_command", "unset_by_tex", "broken_table", "ragged_table", "empty_table", "repetition", "tiny_picture",
    "huge_picture", "broken_picture", "wrong_size", "blank_picture", "unwritable",
]  # fmt: skip
"""Why a region is left out."""
REASONS: tuple[Reason, ...] = get_args(Reason)

_SCRIPTS = words(
    "LATIN GREEK CYRILLIC CJK HIRAGANA KATAKANA HANGUL ARABIC HEBREW DEVANAGARI THAI ARMENIAN GEORGIAN BENGALI TAMIL "
    "TELUGU ETHIOPIC KHMER"
)
# Letters that stand in texts of all scripts, by how their names begin.
_COMMON_LETTERS = words(
    "MICRO OHM KELVIN ANGSTROM MATHEMATICAL DOUBLE-STRUCK SCRIPT BLACK-LETTER SUPERSCRIPT FEMININE MASCULINE FULLWIDTH "
    "MODIFIER ALEF"
)
_BAD_CATEGORIES = frozenset({"Cc", "Co", "Cn", "Cs"})
_TABLE_REASONS: dict[TableFaultKind, Reason] = {
    "broken": "broken_table", "ragged": "ragged_table", "empty": "empty_table"
}  # fmt: skip
_SAMPLE_CHARS = 160


@dataclass(frozen=True)
class LengthConfig:
    """The lengths of targets. *Units*: characters, the shortest and the longest that stay."""

    text: tuple[int, int] = (1, 12_000)
    table: tuple[int, int] = (15, 24_000)
    formula: tuple[int, int] = (1, 6_000)

    def __post_init__(self) -> None:
        check_numbers(self, "filters.length.", text=(0, 10**7), table=(0, 10**7), formula=(0, 10**7))
        for name in ("text", "table", "formula"):
            low, high = getattr(self, name)
            if low > high:
                raise ConfigError(f"filters.length.{name} is {low} to {high}; give the shortest length first")


@dataclass(frozen=True)
class CharsetConfig:
    """The characters of targets.

    At most `max_bad` of them may be control characters, for private use, unassigned, or the sign of a lost character.
    Where `scripts` names some (LATIN, GREEK, CJK ...), at most `max_foreign` of the letters may be of others.
    """

    max_bad: float = 0.005
    scripts: tuple[str, ...] = ()
    max_foreign: float = 0.02

    def __post_init__(self) -> None:
        check_numbers(self, "filters.charset.", max_bad=(0.0, 1.0), max_foreign=(0.0, 1.0))
        for name in self.scripts:
            if name not in _SCRIPTS:
                known = ", ".join(sorted(_SCRIPTS))
                raise ConfigError(f"filters.charset.scripts: {name!r} is unknown; choose out of {known}")


@dataclass(frozen=True)
class LatexConfig:
    """The LaTeX of formulas and of texts.

    `structure` and `commands` are the fast checks; `allowed` names commands and environments that stay, without their
    backslash. `tex` has TeX itself set every formula region, many in a run; one that takes it `tex_timeout_s` is unset.
    """

    structure: bool = True
    commands: bool = True
    allowed: tuple[str, ...] = ()
    tex: bool = False
    tex_timeout_s: float = 60.0

    def __post_init__(self) -> None:
        check_numbers(self, "filters.latex.", tex_timeout_s=(0.1, 3600.0))


@dataclass(frozen=True)
class TableConfig:
    """The markup of tables: whether it must be well formed, and its rows fill the same columns."""

    well_formed: bool = True
    even: bool = True
    filled: bool = True
    max_columns: int = 120

    def __post_init__(self) -> None:
        check_numbers(self, "filters.table.", max_columns=(1, 10_000))


@dataclass(frozen=True)
class PictureConfig:
    """The sizes of pictures, and whether they are decoded. *Units*: `max_pixels` counts width x height."""

    min_side_px: int = 8
    max_side_px: int = 12_000
    max_pixels: int = 60_000_000
    max_aspect: float = 200.0
    decode: bool = True

    def __post_init__(self) -> None:
        check_numbers(
            self, "filters.picture.", min_side_px=(1, 10**6), max_side_px=(1, 10**6), max_pixels=(1, 10**10),
            max_aspect=(1.0, 1e6),
        )  # fmt: skip


@dataclass(frozen=True)
class FilterConfig:
    """What decides which regions stay."""

    length: LengthConfig = field(default_factory=LengthConfig)
    charset: CharsetConfig = field(default_factory=CharsetConfig)
    latex: LatexConfig = field(default_factory=LatexConfig)
    table: TableConfig = field(default_factory=TableConfig)
    repetition: RepetitionConfig = field(default_factory=RepetitionConfig)
    picture: PictureConfig = field(default_factory=PictureConfig)
    check_repetition: bool = True


@dataclass(frozen=True)
class Removal:
    """Why a region is left out, and what of it shows that."""

    reason: Reason
    detail: str


@dataclass(frozen=True)
class RemovedExample:
    """A removed region as the report keeps it."""

    region_id: str
    source: str
    task: str
    reason: Reason
    detail: str
    target: str


def removed_example(region: LabelledRegion, removal: Removal) -> RemovedExample:
    """Return what the report keeps of a removed region."""
    target = region.target if len(region.target) <= _SAMPLE_CHARS else region.target[:_SAMPLE_CHARS] + "…"
    return RemovedExample(region.region_id, region.source, region.task, removal.reason, removal.detail, target)


def removal_of(region: LabelledRegion, config: FilterConfig) -> Removal | None:
    """Return why a region is left out, None where it stays."""
    return (
        _by_target(region)
        or _by_length(region, config.length)
        or _by_picture_size(region, config.picture)
        or _by_characters(region.target, config.charset)
        or _by_content(region, config)
        or (_by_picture(region) if config.picture.decode else None)
    )


def tex_rejects(regions: Sequence[LabelledRegion], config: LatexConfig) -> list[Removal | None]:
    """Have TeX set the formula regions of a batch; nothing where `config.tex` is off.

    *Raises*: ToolMissingError where TeX is wanted and missing.
    """
    chosen = [number for number, region in enumerate(regions) if region.task == "formula"] if config.tex else []
    formulas = [strip_formula_delimiters(regions[number].target) for number in chosen]
    is_set = dict(zip(chosen, set_without_error(formulas, config.tex_timeout_s), strict=True)) if chosen else {}
    unset = Removal("unset_by_tex", "TeX reports an error")
    return [None if is_set.get(number, True) else unset for number in range(len(regions))]


def _by_target(region: LabelledRegion) -> Removal | None:
    if region.target_origin == "pending":
        return Removal("pending_target", "nobody has written its target yet")
    return None if region.target.strip() else Removal("empty_target", "its target is empty")


def _by_length(region: LabelledRegion, config: LengthConfig) -> Removal | None:
    low, high = {"text": config.text, "table": config.table, "formula": config.formula}[region.task]
    n_chars = len(region.target.strip())
    if n_chars < low:
        return Removal("too_short", f"{n_chars} characters, at least {low} stay")
    return Removal("too_long", f"{n_chars} characters, at most {high} stay") if n_chars > high else None


def _by_picture_size(region: LabelledRegion, config: PictureConfig) -> Removal | None:
    short, long = sorted((region.width_px, region.height_px))
    size = f"{region.width_px} x {region.height_px} px"
    if short < config.min_side_px:
        return Removal("tiny_picture", size)
    is_huge = long > config.max_side_px or short * long > config.max_pixels or long > config.max_aspect * short
    return Removal("huge_picture", size) if is_huge else None


def _by_characters(target: str, config: CharsetConfig) -> Removal | None:
    bad = [character for character in target if _is_bad(character)]
    if len(bad) > config.max_bad * len(target):
        shown = " ".join(f"U+{ord(character):04X}" for character in sorted({*bad})[:5])
        return Removal("bad_characters", f"{len(bad)} of {len(target)}: {shown}")
    if config.scripts:
        letters = [character for character in target if character.isalpha()]
        foreign = [character for character in letters if not _is_of(character, config.scripts)]
        if len(foreign) > config.max_foreign * len(letters):
            return Removal("foreign_script", f"{len(foreign)} of {len(letters)} letters: {''.join(foreign[:10])}")
    return None


@lru_cache(maxsize=65_536)
def _is_bad(character: str) -> bool:
    if character in "\n\t\r":
        return False
    return character == "\ufffd" or unicodedata.category(character) in _BAD_CATEGORIES


@lru_cache(maxsize=65_536)
def _is_of(character: str, scripts: tuple[str, ...]) -> bool:
    name = unicodedata.name(character, "").split()
    return not name or name[0] in scripts or name[0] in _COMMON_LETTERS


def _by_content(region: LabelledRegion, config: FilterConfig) -> Removal | None:
    if region.task == "table":
        return _by_table(region.target, config)
    fault = None
    if config.latex.structure or config.latex.commands:
        check = formula_fault if region.task == "formula" else text_fault
        fault = check(region.target, config.latex.allowed)
    return _latex_removal(fault, config.latex) or _repeated(
        text_repetition(region.target, config.repetition) if config.check_repetition else None
    )


def _by_table(target: str, config: FilterConfig) -> Removal | None:
    grid = read_table(target)
    if isinstance(grid, TableFault):
        wanted = config.table.filled if grid.kind == "empty" else config.table.well_formed
        return Removal(_TABLE_REASONS[grid.kind], grid.what) if wanted else None
    uneven = table_fault(grid, config.table.max_columns)
    if uneven and (config.table.even if uneven.kind == "ragged" else config.table.well_formed):
        return Removal(_TABLE_REASONS[uneven.kind], uneven.what)
    if config.latex.structure or config.latex.commands:
        removal = _latex_removal(_first_fault(_cells_with_math(grid), config.latex), config.latex)
        if removal:
            return removal
    return _repeated(table_repetition(grid.rows, config.repetition) if config.check_repetition else None)


def _cells_with_math(grid: TableGrid) -> Iterable[str]:
    return (unescape(cell) for row in grid.rows for cell in row if "$" in cell or "\\(" in cell)


def _first_fault(texts: Iterable[str], config: LatexConfig) -> LatexFault | None:
    return next((fault for text in texts if (fault := text_fault(text, config.allowed))), None)


def _latex_removal(fault: LatexFault | None, config: LatexConfig) -> Removal | None:
    if fault is None or not (config.structure if fault.kind == "structure" else config.commands):
        return None
    return Removal("broken_latex" if fault.kind == "structure" else "unknown_command", fault.what)


def _repeated(what: str | None) -> Removal | None:
    return Removal("repetition", what) if what else None


def _by_picture(region: LabelledRegion) -> Removal | None:
    try:
        picture = region.picture()
    except InputError as error:
        return Removal("broken_picture", str(error))
    if picture.size != (region.width_px, region.height_px):
        told = f"{region.width_px} x {region.height_px}"
        return Removal("wrong_size", f"{picture.width} x {picture.height} px, its record says {told}")
    extrema = ImageStat.Stat(picture.convert("L")).extrema[0]
    return Removal("blank_picture", f"all of it has the grey {extrema[0]:g}") if extrema[0] == extrema[1] else None
