"""Filters: every reason has a region that goes for it and a near miss that stays."""

from __future__ import annotations

import io
import shutil

import pytest
from PIL import Image

from gravityocr.errors import ConfigError
from gravityocr.training.corpora.filters import (
    REASONS,
    CharsetConfig,
    FilterConfig,
    LatexConfig,
    LengthConfig,
    PictureConfig,
    TableConfig,
    removal_of,
    removed_example,
    tex_rejects,
)
from gravityocr.training.corpora.region_shards import LabelledRegion, encode_picture


def picture(width: int = 40, height: int = 20) -> bytes:
    image = Image.new("L", (width, height), 255)
    image.putpixel((3, 3), 0)
    return encode_picture(image)


def region(target: str = "some text", task: str = "text", **changes) -> LabelledRegion:
    values = {
        "region_id": "s/d/0/1", "image": picture(), "width_px": 40, "height_px": 20, "task": task, "target": target,
        "source": "s", "doc_id": "d",
    }  # fmt: skip
    return LabelledRegion(**{**values, **changes})


def table(rows: int = 2, cell: str = "a", last: str = "b") -> str:
    return "<table>" + f"<tr><td>{cell}</td><td>{last}</td></tr>" * rows + "</table>"


def blank() -> bytes:
    return encode_picture(Image.new("L", (40, 20), 200))


def noise_in_jpeg() -> bytes:
    buffer = io.BytesIO()
    Image.effect_noise((40, 20), 80).save(buffer, format="JPEG")
    return buffer.getvalue()


CASES = {
    "pending_target": (region("", target_origin="pending"), region("a", target_origin="teacher")),
    "empty_target": (region(" \n "), region(" a ")),
    "too_short": (region("<tr><td></td>", "table"), region("<tr><td>1</td></tr>", "table")),
    "too_long": (region("word, " * 2001), region("A" + "bcdefghijk " * 12)),
    "bad_characters": (region("abc\ufffd def \ue000 ghi"), region("abcdef 12 \u00e4\u03c8\u6f22 \u20ac\t\n x")),
    "broken_latex": (region(r"\frac{a}{b", "formula"), region(r"\frac{a}{b}", "formula")),
    "unknown_command": (region(r"mass $\foobar x$"), region("path C:\\foobar and $5")),
    "broken_table": (region(table()[:-8], "table"), region(table(), "table")),
    "ragged_table": (region(table().replace("<td>b</td>", "", 1), "table"), region(table(1), "table")),
    "empty_table": (region("<tr><td></td><td> </td></tr>", "table"), region("<tr><td></td><td>.</td></tr>", "table")),
    "repetition": (region("over and over " * 30), region(table(60, "0", "0.0"), "table")),
    "tiny_picture": (region(width_px=40, height_px=7), region(image=picture(40, 8), height_px=8)),
    "huge_picture": (region(width_px=4020, height_px=20), region(image=picture(4000, 20), width_px=4000)),
    "broken_picture": (region(image=picture()[:60]), region(image=noise_in_jpeg())),
    "wrong_size": (region(width_px=41), region()),
    "blank_picture": (region(image=blank()), region()),
}


@pytest.mark.parametrize("reason", CASES)
def test_what_must_go_goes_and_the_near_miss_stays(reason: str) -> None:
    bad, good = CASES[reason]
    removal = removal_of(bad, FilterConfig())
    assert removal is not None and removal.reason == reason and removal.detail
    assert removal_of(good, FilterConfig()) is None


def test_every_reason_has_a_case() -> None:
    assert {*REASONS} - {*CASES} == {"foreign_script", "unset_by_tex", "unwritable"}


def test_scripts_are_limited_on_demand() -> None:
    config = FilterConfig(charset=CharsetConfig(scripts=("LATIN", "CJK")))
    russian = region("\u0442\u0435\u043a\u0441\u0442 and text")
    assert removal_of(russian, FilterConfig()) is None
    assert removal_of(russian, config).reason == "foreign_script"
    assert removal_of(region("text \u6f22\u5b57 5 \u00b5m x\u00b2 \u2126 \U0001d465 1 + 1 = 2"), config) is None
    with pytest.raises(ConfigError, match=r"'latin' is unknown; choose out of ARABIC"):
        CharsetConfig(scripts=("latin",))


def test_few_bad_characters_are_let_pass() -> None:
    text = "".join(chr(97 + n * n % 26) + " " * (n % 5 == 0) for n in range(400))
    assert removal_of(region(text + "\ufffd"), FilterConfig()) is None
    assert removal_of(region(text + "\ufffd" * 4), FilterConfig()).reason == "bad_characters"


@pytest.mark.parametrize(
    ("reason", "config"),
    [
        ("broken_latex", FilterConfig(latex=LatexConfig(structure=False))),
        ("unknown_command", FilterConfig(latex=LatexConfig(commands=False))),
        ("unknown_command", FilterConfig(latex=LatexConfig(allowed=("foobar",)))),
        ("ragged_table", FilterConfig(table=TableConfig(even=False))),
        ("broken_table", FilterConfig(table=TableConfig(well_formed=False))),
        ("empty_table", FilterConfig(table=TableConfig(filled=False))),
        ("repetition", FilterConfig(check_repetition=False)),
        ("too_long", FilterConfig(length=LengthConfig(text=(1, 10**6)), check_repetition=False)),
        ("broken_picture", FilterConfig(picture=PictureConfig(decode=False))),
        ("tiny_picture", FilterConfig(picture=PictureConfig(min_side_px=1, decode=False))),
    ],
)
def test_settings_switch_filters_off(reason: str, config: FilterConfig) -> None:
    assert removal_of(CASES[reason][0], config) is None


def test_math_in_cells_is_checked() -> None:
    good, bad = table(2, r"$x_1 &lt; 2$"), table(2, r"$x_1_2$")
    assert removal_of(region(good, "table"), FilterConfig()) is None
    assert removal_of(region(bad, "table"), FilterConfig()).reason == "broken_latex"


def test_bounds_in_the_wrong_order_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"filters\.length\.text is 9 to 3"):
        LengthConfig(text=(9, 3))


def test_the_report_keeps_a_short_example() -> None:
    bad = region("over and over " * 30)
    example = removed_example(bad, removal_of(bad, FilterConfig()))
    assert (example.region_id, example.reason, len(example.target)) == ("s/d/0/1", "repetition", 161)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_tex_judges_formulas_only() -> None:
    regions = [
        region(r"\frac{a}{b}", "formula"),
        region("text"),
        region(r"$$\nosuch x$$", "formula"),
        region("x", "formula"),
    ]
    reasons = [removal.reason if removal else None for removal in tex_rejects(regions, LatexConfig(tex=True))]
    assert reasons == [None, None, "unset_by_tex", None]


def test_without_tex_nothing_is_rejected() -> None:
    assert tex_rejects([region(r"\nosuch x", "formula")], LatexConfig()) == [None]
