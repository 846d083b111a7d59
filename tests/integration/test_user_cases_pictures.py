"""Users' cases 1 to 6 and 14: pictures and pages of every make, read by the shipped checkpoint as if plain."""

from __future__ import annotations

import json
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps
from tests.user_case_inputs import (
    cli,
    paper_share,
    poster_pdf,
    printed_page,
    printed_text,
    read,
    rotated_pdf,
    serving,
    start_cli,
)

from gravityocr.document import Crop, Document
from gravityocr.pipeline.layout_choice import build_detector

LINES = (0, 3)
BOUND_MIB = 1000  # 766 measured: several pages of 16 megapixels are under way at a time


def assert_read(found: tuple[Document, list[Crop]], *numbers: int) -> None:
    """The text is all there, and the recognizer saw dark ink on bright paper."""
    document, crops = found
    assert (document.status, document.error) == ("ok", None)
    assert document.markdown == printed_text(*numbers) + "\n"
    assert crops and all(paper_share(crop.image) > 0.75 for crop in crops)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "palette", "transparent grey"])
def test_case_01_transparent_pictures_are_read_on_white(tmp_path: Path, mode: str) -> None:
    """All pixels are black, and only their opacity says what is ink. Deeper: unit/pipeline/test_source.py."""
    page, path = printed_page(*LINES), tmp_path / "a.png"
    ink = ImageOps.invert(page)
    if mode == "palette":
        image = Image.frombytes("P", ink.size, ink.tobytes())
        image.putpalette([0, 0, 0] * 256)
        image.save(path, transparency=bytes(range(256)))
    elif mode == "transparent grey":  # one grey level is no colour but the ground
        page.point(lambda value: 77 if value > 160 else 0).save(path, transparency=77)
    else:
        bands = [Image.new("L", page.size)] * (len(mode) - 1)
        Image.merge(mode, [*bands, ink]).save(path)
    assert_read(read(path), *LINES)


@pytest.mark.parametrize("suffix", ["png", "tiff"])
def test_case_02_deep_grey_is_rescaled(tmp_path: Path, suffix: str) -> None:
    """Clipped to eight bits, such a page is white all over."""
    values = np.asarray(printed_page(*LINES)).astype(np.float64) / 255
    deep = (6_000 + values * 54_000).astype(np.uint16)
    Image.fromarray(deep).save(tmp_path / f"a.{suffix}")
    assert_read(read(tmp_path / f"a.{suffix}"), *LINES)


def without_adobe_marker(data: bytes) -> bytes:
    at = data.index(b"\xff\xee")
    (length,) = struct.unpack(">H", data[at + 2 : at + 4])
    assert data[at + 4 : at + 9] == b"Adobe"
    return data[:at] + data[at + 2 + length :]


@pytest.mark.parametrize("inverted", [True, False], ids=["Adobe inverted", "plain"])
def test_case_03_cmyk_jpegs_have_their_polarity(tmp_path: Path, inverted: bool) -> None:
    """Photoshop stores ink as its absence and says so in a marker; a file without it means what it says."""
    page, path = printed_page(*LINES), tmp_path / "a.jpg"
    empty = Image.new("L", page.size)
    ink = Image.merge("CMYK", [empty, empty, empty, ImageOps.invert(page)])
    if inverted:
        ink.save(path, quality=95)
        assert b"Adobe" in path.read_bytes()[:200]
    else:
        # Pillow writes the inverse: so it is handed the inverse, and the marker goes
        Image.merge("CMYK", [ImageOps.invert(band) for band in ink.split()]).save(path, quality=95)
        path.write_bytes(without_adobe_marker(path.read_bytes()))
    assert_read(read(path), *LINES)


STORED = {
    1: None, 2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_90, 7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}  # fmt: skip
"""How an upright picture is stored under each orientation."""


def stored(image: Image.Image, orientation: int) -> Image.Image:
    how = STORED[orientation]
    return image if how is None else image.transpose(how)


def test_case_04_exif_orientations_are_upright(tmp_path: Path) -> None:
    """All eight: the same text, and the same boxes in the frame of the upright page."""
    upright = printed_page(*LINES)
    detector = build_detector("cdla")
    pages = []
    for orientation in STORED:
        exif = Image.Exif()
        exif[0x0112] = orientation
        stored(upright, orientation).save(tmp_path / f"{orientation}.png", exif=exif)
        found = read(tmp_path / f"{orientation}.png", detector)
        assert " ".join(found[0].markdown.replace("#", "").split()) == printed_text(*LINES)
        pages.append(found[0].pages[0])
    assert {page.size_px for page in pages} == {upright.size}
    boxes = [[region.box for region in page.regions] for page in pages]
    assert boxes[0] and all(one == boxes[0] for one in boxes)
    assert all(box.x1 <= upright.width and box.y1 <= upright.height for box in boxes[0])


@pytest.mark.parametrize("kind", ["jpg", "webp", "tiff", "tiff lzw"])
@pytest.mark.parametrize("orientation", [5, 6, 8])
def test_case_04_every_kind_of_file_is_upright(tmp_path: Path, kind: str, orientation: int) -> None:
    """A TIFF keeps it among its own tags; Pillow maps uncompressed ones into memory, lying on their sides."""
    upright = printed_page(*LINES)
    suffix, _, compression = kind.partition(" ")
    path = tmp_path / f"a.{suffix}"
    image = stored(upright, orientation)
    if suffix == "tiff":
        image.save(path, tiffinfo={0x0112: orientation}, compression=f"tiff_{compression}" if compression else None)
    else:
        exif = Image.Exif()
        exif[0x0112] = orientation
        image.save(path, exif=exif, quality=95)
    found = read(path)
    assert found[0].pages[0].size_px == upright.size
    assert_read(found, *LINES)


def test_case_05_all_pages_of_a_tiff_and_the_first_frame_of_a_gif(tmp_path: Path) -> None:
    """Frames of other sizes and modes are pages; of an animation the first frame is read, and that is said."""
    pages = [
        printed_page(1),
        printed_page(7, size=(900, 200)).convert("RGB"),
        printed_page(5, size=(950, 160)).convert("1"),
    ]
    pages[0].save(tmp_path / "scan.tiff", save_all=True, append_images=pages[1:])
    printed_page(6).save(tmp_path / "moving.gif", save_all=True, append_images=[printed_page(8), printed_page(9)])
    document, _ = read(tmp_path / "scan.tiff")
    assert [page.size_px for page in document.pages] == [page.size for page in pages]
    assert [page.markdown.strip() for page in document.pages[:2]] == [printed_text(1), printed_text(7)]
    assert document.pages[2].regions[0].status == "ok" and "Nothing is lost" in document.markdown
    with serving() as double:
        outcome = cli("parse", tmp_path, "-o", tmp_path / "out", "--server", double.url, "--layout", "none", "--json")
    assert outcome.code == 0 and {name: file["n_pages"] for name, file in outcome.files.items()} == {
        "scan.tiff": 3,
        "moving.gif": 1,
    }
    assert any("first of 3 frames" in note for note in outcome.files["moving.gif"]["notes"])
    assert "first of 3 frames" in outcome.stderr
    assert outcome.files["scan.tiff"]["notes"] == []
    written = json.loads((tmp_path / "out" / "moving" / "moving.json").read_text(encoding="utf-8"))
    assert any("first of 3 frames" in note for note in written["notes"])


def test_case_06_rotated_pages_of_mixed_sizes(tmp_path: Path) -> None:
    """Each page upright as its /Rotate says, its boxes inside of it."""
    sizes = [(900, 300), (800, 1100), (1100, 600), (800, 800)]
    pages = [printed_page(*LINES, size=size) for size in sizes]
    path = rotated_pdf(tmp_path / "a.pdf", pages, [90, 180, 270, 0])
    document, crops = read(path)
    assert document.status == "ok" and len(document.pages) == 4
    for page, (width, height) in zip(document.pages, sizes, strict=True):
        assert abs(page.size_px[0] - 2 * width) <= 2 and abs(page.size_px[1] - 2 * height) <= 2  # 200 dpi of 100
        assert page.markdown.strip() == printed_text(*LINES)
        for region in page.regions:
            assert 0 <= region.box.x0 < region.box.x1 <= page.size_px[0]
            assert 0 <= region.box.y0 < region.box.y1 <= page.size_px[1]
    assert all(paper_share(crop.image) > 0.75 for crop in crops)


MEASURED = """
import atexit, pathlib, re, sys
def tell():
    status = pathlib.Path("/proc/self/status").read_text()
    pathlib.Path(place).write_text(re.search(r"VmHWM:\\s+(\\d+)", status)[1])
atexit.register(tell)
place, sys.argv = sys.argv[1], sys.argv[2:]
from gravityocr.cli import main
main()
"""


def png_header(path: Path, side_px: int) -> Path:
    """A PNG of `side_px` squared in a few bytes."""
    header = b"IHDR" + struct.pack(">IIBBBBB", side_px, side_px, 8, 2, 0, 0, 0)
    rows = b"IDAT" + zlib.compress(b"\0" * 100_000)
    chunks = [
        struct.pack(">I", len(one) - 4) + one + struct.pack(">I", zlib.crc32(one)) for one in (header, rows, b"IEND")
    ]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))
    return path


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is read from /proc")
def test_case_14_huge_pages_take_bounded_memory_and_bombs_are_refused(tmp_path: Path) -> None:
    """204 megapixels as a picture and as a PDF page, and a file that claims 3,600: one process, its peak measured."""
    huge = Image.new("1", (12_000, 17_000), 1)
    huge.paste(0, (1000, 1000, 5000, 1400))
    huge.save(tmp_path / "huge.png")
    huge.save(tmp_path / "huge.tiff", compression="group4")
    poster_pdf(tmp_path / "poster.pdf", (12_000, 17_000))
    png_header(tmp_path / "bomb.png", 60_000)
    peak = tmp_path / "peak.txt"
    expected = {"bomb.png": "failed", "huge.png": "ok", "poster.pdf": "ok", "huge.tiff": "ok"}
    with serving() as double:
        process = start_cli(
            "parse", *(tmp_path / name for name in expected), "-o", tmp_path / "out", "--server", double.url,
            "--layout", "none", "--json", program=("-c", MEASURED, str(peak), "gravityocr"),
        )  # fmt: skip
        stdout, stderr = process.communicate(timeout=60)
        assert len(double.requests) == 3, stderr
    files = {Path(file["file"]).name: file for file in json.loads(stdout)["files"]}
    assert process.returncode == 1, stderr
    assert {name: file["status"] for name, file in files.items()} == expected, stderr
    assert "bomb.png" in files["bomb.png"]["error"] and "scale it down" in files["bomb.png"]["error"]
    for name in ("huge.png", "poster.pdf", "huge.tiff"):
        (written,) = [Path(output) for output in files[name]["outputs"] if output.endswith(".json")]
        width, height = json.loads(written.read_text(encoding="utf-8"))["pages"][0]["size_px"]
        assert 4_000_000 < width * height <= 16_000_000 and abs(width / height - 12 / 17) < 0.01
    assert int(peak.read_text()) / 1024 < BOUND_MIB
