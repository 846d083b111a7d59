"""Kinds of image files and their peculiarities: what decodes, how large it may be, what is said of the rest."""

from __future__ import annotations

import contextlib
import logging
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest
from PIL import Image, ImageCms

from gravityocr.errors import InputError
from gravityocr.pipeline.inputs import sniff
from gravityocr.pipeline.source import SourceConfig, SourcePage, count_pages, iter_pages
from gravityocr.pipeline.sources import image as source_image

COLOURS = ("red", "lime", "blue")


def first(path: Path, config: SourceConfig | None = None) -> SourcePage:
    page = next(iter(iter_pages(path, config=config)))
    assert page.error is None and page.image is not None and page.image.mode == "RGB"
    return page


def pixels(path: Path, config: SourceConfig | None = None) -> np.ndarray:
    return np.asarray(first(path, config).image).astype(int)


def sheet() -> Image.Image:
    """Dark bars on white: smooth enough for a lossy codec, and no symmetry."""
    image = Image.new("RGB", (64, 48), "white")
    image.paste((0, 0, 0), (8, 8, 32, 16))
    image.paste((200, 0, 0), (8, 24, 24, 40))
    return image


def write_png(path: Path, depth: int, colour: int, rows: list[bytes], size: tuple[int, int]) -> Path:
    """A PNG of a kind that Pillow reads but does not write."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", *size, depth, colour, 0, 0, 0)
    body = zlib.compress(b"".join(b"\0" + row for row in rows))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b""))
    return path


@pytest.mark.parametrize(
    ("suffix", "kind"), [("jp2", "jp2"), ("j2k", "jp2"), ("avif", "avif"), ("heic", "heic"), ("webp", "webp")]
)
def test_further_kinds_are_known_by_content_and_decode(tmp_path: Path, suffix: str, kind: str) -> None:
    if kind == "heic":
        pytest.importorskip("pillow_heif").register_heif_opener()
    sheet().save(tmp_path / f"a.{suffix}")
    path = (tmp_path / f"a.{suffix}").rename(tmp_path / "scan.png")
    assert sniff(path) == kind and count_pages(path) == 1
    assert np.abs(pixels(path) - np.asarray(sheet()).astype(int)).mean() < 3


def test_a_heic_without_its_package_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    (tmp_path / "a.jpg").write_bytes(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + b"\0" * 64)
    with pytest.raises(InputError, match=r"a\.jpg: is a HEIC image, .*pip install pillow-heif$"):
        list(iter_pages(tmp_path / "a.jpg"))


@pytest.mark.parametrize("kind", ["jp2", "avif", "webp"])
def test_a_build_of_pillow_without_a_decoder_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    sheet().save(tmp_path / f"a.{kind}")
    monkeypatch.setattr(source_image.features, "check", lambda feature: False)
    with pytest.raises(InputError, match=rf"a\.{kind}: is of the kind {kind}, which this build of Pillow lacks: pip"):
        list(iter_pages(tmp_path / f"a.{kind}"))


@pytest.mark.parametrize("suffix", ["gif", "png", "webp", "avif", "heic"])
def test_the_first_frame_of_an_animation_is_read_and_said_so(tmp_path: Path, suffix: str) -> None:
    if suffix == "heic":
        pytest.importorskip("pillow_heif").register_heif_opener()
    frames = [Image.new("RGB", (32, 32), colour) for colour in COLOURS]
    path = tmp_path / f"a.{suffix}"
    frames[0].save(path, save_all=True, append_images=frames[1:])
    (page,) = iter_pages(path)
    what = "the main one of 3 pictures" if suffix == "heic" else "the first of 3 frames of an animation"
    assert page.note == f"{what} is read" and page.n_pages == 1 and page.image is not None
    assert np.abs(np.asarray(page.image)[5, 5].astype(int) - (255, 0, 0)).max() < 8
    frames[0].save(path)
    assert first(path).note is None


def test_a_jpeg_with_previews_behind_it_is_one_page(tmp_path: Path) -> None:
    sheet().save(tmp_path / "a.jpg", "MPO", save_all=True, append_images=[sheet().resize((16, 12))])
    (page,) = iter_pages(tmp_path / "a.jpg")
    assert page.image is not None and page.image.size == (64, 48) and page.note is None


def test_a_damaged_later_frame_costs_nothing(tmp_path: Path) -> None:
    frames = [Image.effect_noise((32, 32), 90) for _ in range(3)]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    data = (tmp_path / "a.gif").read_bytes()
    (tmp_path / "a.gif").write_bytes(data[: len(data) * 2 // 3])
    assert np.array_equal(pixels(tmp_path / "a.gif")[:, :, 0], np.asarray(frames[0]))


@pytest.mark.parametrize("suffix", ["jpg", "webp", "tiff", "avif", "png"])
@pytest.mark.parametrize("orientation", [1, 3, 6, 8, 5])
def test_every_kind_that_tells_its_orientation_comes_upright(tmp_path: Path, suffix: str, orientation: int) -> None:
    undo = {
        3: Image.Transpose.ROTATE_180,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        8: Image.Transpose.ROTATE_270,
    }
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = sheet().transpose(undo[orientation]) if orientation in undo else sheet()
    stored.save(tmp_path / f"a.{suffix}", exif=exif)
    found = pixels(tmp_path / f"a.{suffix}")
    assert found.shape == (48, 64, 3)
    assert np.abs(found - np.asarray(sheet()).astype(int)).mean() < 6


@pytest.mark.parametrize(
    ("mode", "compression"),
    [*((mode, how) for mode in ("L", "RGB", "RGBA", "1") for how in (None, "tiff_lzw")), ("1", "group4")],
)
@pytest.mark.parametrize("orientation", [2, 5, 6, 7, 8])
def test_a_tiff_that_tells_its_orientation_comes_upright(
    tmp_path: Path, mode: str, compression: str | None, orientation: int
) -> None:
    how = [Image.Transpose.FLIP_LEFT_RIGHT] + [
        Image.Transpose.TRANSPOSE, Image.Transpose.ROTATE_90, Image.Transpose.TRANSVERSE, Image.Transpose.ROTATE_270
    ]  # fmt: skip
    image = sheet().convert(mode)
    stored = image.transpose(how[max(0, orientation - 4)])
    for n_frames in (1, 2):
        more = [stored] * (n_frames - 1)
        stored.save(
            tmp_path / "a.tiff", tiffinfo={0x0112: orientation}, compression=compression, save_all=True,
            append_images=more,
        )  # fmt: skip
        pages = list(iter_pages(tmp_path / "a.tiff"))
        assert len(pages) == n_frames
        assert all(np.array_equal(np.asarray(page.image), np.asarray(image.convert("RGB"))) for page in pages)


def test_files_are_closed_whatever_comes_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    streams: list[BinaryIO] = []
    real = source_image._open_stream

    def spy(path: Path, name: str) -> BinaryIO:
        streams.append(real(path, name))
        return streams[-1]

    monkeypatch.setattr(source_image, "_open_stream", spy)
    for suffix in ("png", "jpg", "tiff", "webp", "bmp", "gif", "jp2", "avif"):
        sheet().save(tmp_path / f"a.{suffix}")
        pages = iter_pages(tmp_path / f"a.{suffix}")
        assert next(pages).error is None
        assert streams[-1].closed, suffix  # while the page is worked on already
        whole = (tmp_path / f"a.{suffix}").read_bytes()
        (tmp_path / f"a.{suffix}").write_bytes(whole[:20])
        with contextlib.suppress(InputError):
            list(iter_pages(tmp_path / f"a.{suffix}"))
        assert streams[-1].closed, suffix
    sheet().save(tmp_path / "b.tiff", save_all=True, append_images=[sheet()])
    unread = iter_pages(tmp_path / "b.tiff")
    assert next(unread).error is None and not streams[-1].closed
    unread.close()  # type: ignore[attr-defined]
    assert streams[-1].closed


@pytest.mark.parametrize("suffix", ["tiff", "png"])
def test_pillows_own_limit_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    Image.new("L", (64, 48), 9).save(tmp_path / f"a.{suffix}")
    Image.new("L", (4000, 1), 9).save(tmp_path / f"b.{suffix}")
    assert first(tmp_path / f"a.{suffix}").image is not None
    assert first(tmp_path / f"b.{suffix}", SourceConfig(max_page_px=10_000)).image is not None
    assert Image.MAX_IMAGE_PIXELS == 1000


def test_a_heic_is_turned_by_its_container_alone(tmp_path: Path) -> None:
    pytest.importorskip("pillow_heif").register_heif_opener()
    exif = Image.Exif()
    exif[0x0112] = 6  # phones write it beside the container's own turn: applied too, it would turn the page twice
    sheet().save(tmp_path / "a.heic", exif=exif)
    assert np.abs(pixels(tmp_path / "a.heic") - np.asarray(sheet()).astype(int)).mean() < 3


def test_pages_of_a_tiff_have_their_own_size_and_mode(tmp_path: Path) -> None:
    ramp = np.linspace(0, 65535, 20, dtype=np.uint16).reshape(1, 20).repeat(4, axis=0)
    frames = [
        Image.new("RGB", (30, 20), "red"),
        Image.new("1", (10, 40), 1),
        Image.new("CMYK", (12, 8), (0, 0, 0, 0)),
        Image.fromarray(ramp),
        Image.new("LA", (9, 9), (0, 0)),
        Image.new("L", (50, 7), 77),
    ]
    frames[0].save(tmp_path / "a.tiff", save_all=True, append_images=frames[1:])
    pages = [page.image for page in iter_pages(tmp_path / "a.tiff")]
    assert [page.size for page in pages if page] == [(30, 20), (10, 40), (12, 8), (20, 4), (9, 9), (50, 7)]
    corners = [page.getpixel((0, 0)) for page in pages if page]
    white = (255, 255, 255)
    assert corners == [(255, 0, 0), white, white, (0, 0, 0), white, (77, 77, 77)]
    assert pages[3] is not None and pages[3].getpixel((19, 0)) == white


@pytest.mark.parametrize(("colour", "n_channels"), [(2, 3), (4, 2), (6, 4)])
def test_sixteen_bits_a_channel_are_scaled(tmp_path: Path, colour: int, n_channels: int) -> None:
    values = [0, 0x40FF, 0x80FF, 0xFFFF]
    opaque = [0xFFFF] * (n_channels % 2 == 0)
    row = b"".join(struct.pack(f">{n_channels}H", *[v] * (n_channels - len(opaque)), *opaque) for v in values)
    page = pixels(write_png(tmp_path / "a.png", 16, colour, [row], (4, 1)))
    assert page[0, :, 0].tolist() == [0, 0x40, 0x80, 255]


def test_sixteen_bit_transparency_is_laid_on_white(tmp_path: Path) -> None:
    row = struct.pack(">8H", 0, 0, 0, 0, 0, 0, 0, 0xFFFF)
    assert pixels(write_png(tmp_path / "a.png", 16, 6, [row], (2, 1))).tolist() == [[[255] * 3, [0] * 3]]


def test_a_palette_with_half_transparent_entries_is_laid_on_white(tmp_path: Path) -> None:
    image = Image.new("P", (3, 1))
    image.putpalette([0, 0, 0, 0, 0, 0, 200, 0, 0])
    image.putdata([0, 1, 2])
    image.save(tmp_path / "a.png", transparency=bytes([0, 128, 255]))
    assert pixels(tmp_path / "a.png")[0].tolist() == [[255] * 3, [127] * 3, [200, 0, 0]]


def test_lab_and_ycbcr_become_rgb(tmp_path: Path) -> None:
    to_lab = ImageCms.buildTransform(ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB"), "RGB", "LAB")
    lab = ImageCms.applyTransform(sheet(), to_lab)
    assert lab is not None
    lab.save(tmp_path / "lab.tiff")
    assert np.abs(pixels(tmp_path / "lab.tiff") - np.asarray(sheet()).astype(int)).max() < 12
    sheet().convert("YCbCr").save(tmp_path / "y.tiff")
    assert np.abs(pixels(tmp_path / "y.tiff") - np.asarray(sheet()).astype(int)).max() < 4


@pytest.mark.parametrize(("suffix", "share"), [("webp", 4), ("avif", 3)])
def test_costly_decoders_have_a_smaller_limit(tmp_path: Path, suffix: str, share: int) -> None:
    Image.new("RGB", (100, 80)).save(tmp_path / f"a.{suffix}")
    config = SourceConfig(max_image_px=8000 * share - share)
    with pytest.raises(InputError, match=rf"a\.{suffix}: 100 x 80 px, the limit is 0\.007999 megapixels; scale it"):
        list(iter_pages(tmp_path / f"a.{suffix}", config=config))
    assert first(tmp_path / f"a.{suffix}", SourceConfig(max_image_px=8000 * share)).image is not None


@pytest.mark.parametrize("suffix", ["jp2", "j2k"])
def test_a_large_jpeg_2000_is_decoded_at_a_fraction(tmp_path: Path, suffix: str) -> None:
    sheet().resize((640, 480), Image.Resampling.NEAREST).save(tmp_path / f"a.{suffix}", num_resolutions=3)
    size = {limit: first(tmp_path / f"a.{suffix}", SourceConfig(max_image_px=limit)).image for limit in (
        640 * 480 * 5, 640 * 480 * 4, 640 * 480
    )}  # fmt: skip
    assert [image.size for image in size.values() if image] == [(640, 480), (320, 240), (160, 120)]
    small = np.asarray(size[640 * 480]).astype(int)
    assert np.abs(small - np.asarray(sheet().resize((160, 120), Image.Resampling.NEAREST)).astype(int)).mean() < 8
    sheet().resize((640, 480)).save(tmp_path / f"b.{suffix}", num_resolutions=1)  # nothing below the whole
    with pytest.raises(InputError, match=r"640 x 480 px, the limit is"):
        first(tmp_path / f"b.{suffix}", SourceConfig(max_image_px=640 * 480))


def test_a_large_jpeg_is_decoded_at_a_fraction_that_still_fills_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[tuple[int, int]] = []
    real = source_image.to_rgb

    def spy(image: Image.Image, *arguments: Any) -> Image.Image:
        decoded.append(image.size)
        return real(image, *arguments)

    monkeypatch.setattr(source_image, "to_rgb", spy)
    sheet().resize((800, 600), Image.Resampling.NEAREST).save(tmp_path / "a.jpg", quality=95)
    for max_page_px in (800 * 600, 800 * 150 + 1, 800 * 150, 15_000):
        image = first(tmp_path / "a.jpg", SourceConfig(max_page_px=max_page_px)).image
        assert image is not None and 0.8 * max_page_px <= image.width * image.height <= max_page_px
        assert image.getpixel((image.width * 3 // 8, image.height // 4)) < (40, 40, 40)
    assert decoded == [(800, 600), (800, 600), (400, 300), (200, 150)]


def test_a_tiff_frame_that_is_too_large_does_not_hide_those_behind_it(tmp_path: Path) -> None:
    frames = [Image.new("1", size) for size in ((10, 10), (400, 300), (20, 10))]
    frames[0].save(tmp_path / "a.tiff", save_all=True, append_images=frames[1:])
    pages = list(iter_pages(tmp_path / "a.tiff", config=SourceConfig(max_image_px=10_000)))
    assert [page.image is not None for page in pages] == [True, False, True]
    assert "400 x 300 px, the limit is 0.01 megapixels; scale it down" in str(pages[1].error)


def test_only_the_decoder_of_a_kind_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    real = Image.open

    def spy(stream: BinaryIO, formats: tuple[str, ...] | None = None) -> Image.Image:
        asked.append(formats)
        return real(stream, formats=formats)

    monkeypatch.setattr(source_image.Image, "open", spy)
    sheet().save(tmp_path / "a.png")
    first(tmp_path / "a.png")
    assert asked == [("PNG",)]


# The peak of this program alone: what getrusage tells would begin at the size of the process that started it.
MEASURE = """
import re, sys
from gravityocr.pipeline.source import iter_pages
page = next(iter(iter_pages(sys.argv[1])))
assert page.error is None and page.image.width * page.image.height <= 16_000_000, page.error
assert abs(page.image.width / page.image.height - 12 / 17) < 0.01
print(int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) // 1024)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is read from /proc")
def test_a_huge_scan_is_read_in_bounded_memory(tmp_path: Path, repo_root: Path) -> None:
    width, height = 12_000, 17_000
    rows = [b"\xff" * (width // 8)] * height
    path = write_png(tmp_path / "a.png", 1, 0, rows, (width, height))
    command = [sys.executable, "-c", MEASURE, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=repo_root / "src")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 450, f"{done.stdout} MB resident"


def test_gigapixel_images_are_refused_before_decoding(tmp_path: Path) -> None:
    path = write_png(tmp_path / "a.png", 8, 2, [b"\0" * 30], (60_000, 60_000))
    with pytest.raises(InputError, match=r"a\.png: would decode to too many pixels, the limit is 220 megapixels"):
        list(iter_pages(path))
    path = write_png(tmp_path / "a.png", 8, 2, [b"\0" * 30], (16_000, 16_000))
    with pytest.raises(InputError, match=r"16000 x 16000 px, the limit is 220 megapixels; scale it down"):
        list(iter_pages(path))


def test_nothing_is_logged_of_good_files(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sheet().save(tmp_path / "a.tiff")
    with caplog.at_level(logging.WARNING):
        first(tmp_path / "a.tiff")
    assert caplog.records == []
