"""Files by content, pages one at a time, every image upright RGB on white."""

from __future__ import annotations

import hashlib
import io
import struct
import weakref
import zlib
from pathlib import Path

import numpy as np
import pypdfium2 as pdfium
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageChops

from gravityocr.document import PlacedText
from gravityocr.errors import ConfigError, InputError
from gravityocr.pipeline import pixels
from gravityocr.pipeline.inputs import sniff
from gravityocr.pipeline.pixels import to_rgb
from gravityocr.pipeline.source import PageRanges, SourceConfig, count_pages, iter_pages
from gravityocr.pipeline.sources import image as source_image
from gravityocr.pipeline.sources.pdf_process import PdfProcess


def make_pdf(path: Path, sizes: list[tuple[float, float]], rotations: dict[int, int] | None = None) -> Path:
    document = pdfium.PdfDocument.new()
    for index, (width, height) in enumerate(sizes):
        page = document.new_page(width, height)
        if rotations and index in rotations:
            page.set_rotation(rotations[index])
    document.save(str(path))
    document.close()
    return path


def first(path: Path, config: SourceConfig | None = None) -> Image.Image:
    page = next(iter(iter_pages(path, config=config)))
    assert page.error is None and page.image is not None
    assert page.image.mode == "RGB"
    return page.image


def rc4(key: bytes, data: bytes) -> bytes:
    state, j = list(range(256)), 0
    for i in range(256):
        j = (j + state[i] + key[i % len(key)]) % 256
        state[i], state[j] = state[j], state[i]
    out, i, j = bytearray(), 0, 0
    for byte in data:
        i = (i + 1) % 256
        j = (j + state[i]) % 256
        state[i], state[j] = state[j], state[i]
        out.append(byte ^ state[(state[i] + state[j]) % 256])
    return bytes(out)


def make_encrypted_pdf(path: Path, user: bytes, owner: bytes) -> Path:
    """A one-page PDF under the standard 40-bit handler (PDF 1.7, 7.6.3)."""
    pad = bytes.fromhex("28BF4E5E4E758A4164004E56FFFA01082E2E00B6D0683E802F0CA9FE6453697A")
    identity = b"0123456789abcdef"
    owner_key = hashlib.md5((owner + pad)[:32]).digest()[:5]
    o_entry = rc4(owner_key, (user + pad)[:32])
    permissions = (-4).to_bytes(4, "little", signed=True)
    key = hashlib.md5((user + pad)[:32] + o_entry + permissions + identity).digest()[:5]
    u_entry = rc4(key, pad)
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 72 72] >>",
        b"<< /Filter /Standard /V 1 /R 2 /P -4 /O <%s> /U <%s> >>" % (o_entry.hex().encode(), u_entry.hex().encode()),
    ]
    data, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(data)
    data += b"xref\n0 5\n0000000000 65535 f \n" + b"".join(b"%010d 00000 n \n" % at for at in offsets)
    data += b"trailer << /Size 5 /Root 1 0 R /Encrypt 4 0 R /ID [<%s> <%s>] >>\nstartxref\n%d\n%%%%EOF\n" % (
        identity.hex().encode(),
        identity.hex().encode(),
        start,
    )
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("kind", ["png", "jpeg", "tiff", "gif", "bmp", "webp"])
def test_images_are_known_by_content_whatever_their_name(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "scan.pdf"
    Image.new("RGB", (30, 20), "red").save(path, kind.upper())
    assert sniff(path) == kind
    assert first(path).size == (30, 20)


def test_pdf_named_png_and_html_named_pdf(tmp_path: Path) -> None:
    path = make_pdf(tmp_path / "a.png", [(72, 144)])
    assert sniff(path) == "pdf"
    assert first(path).size == (200, 400)
    page = tmp_path / "page.pdf"
    page.write_text("<html><body>Not found</body></html>")
    with pytest.raises(InputError, match=r"page\.pdf: is neither"):
        sniff(page)


def test_missing_empty_and_folder_are_named(tmp_path: Path) -> None:
    empty = tmp_path / "empty.png"
    empty.touch()
    with pytest.raises(InputError, match=r"empty\.png: is empty"):
        list(iter_pages(empty))
    with pytest.raises(InputError, match=r"none\.pdf: no such file"):
        list(iter_pages(tmp_path / "none.pdf"))
    with pytest.raises(InputError, match="is a folder"):
        sniff(tmp_path)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_alpha_is_composited_on_white(tmp_path: Path, mode: str) -> None:
    image = Image.new("RGBA", (20, 10), (0, 0, 0, 0))  # black where transparent
    image.paste((0, 0, 0, 255), (5, 2, 10, 8))
    path = tmp_path / "a.png"
    if mode == "P":
        indexed = Image.new("P", (20, 10), 0)
        indexed.putpalette([0, 0, 0, 0, 0, 0])
        indexed.paste(1, (5, 2, 10, 8))
        indexed.save(path, transparency=0)
    else:
        image.convert(mode).save(path)
    page = first(path)
    assert page.getpixel((0, 0)) == (255, 255, 255)
    assert page.getpixel((6, 4)) == (0, 0, 0)


def test_rgb_with_a_transparent_colour(tmp_path: Path) -> None:
    image = Image.new("RGB", (8, 8), (0, 0, 0))
    image.save(tmp_path / "a.png", transparency=(0, 0, 0))
    assert first(tmp_path / "a.png").getpixel((3, 3)) == (255, 255, 255)


@pytest.mark.parametrize(("top", "suffix"), [(65535, "png"), (65535, "tiff"), (4095, "png")])
def test_deep_grey_is_rescaled_not_clipped(tmp_path: Path, top: int, suffix: str) -> None:
    ramp = np.linspace(0, top, 64, dtype=np.uint16).reshape(1, 64).repeat(8, axis=0)
    Image.fromarray(ramp).save(tmp_path / f"a.{suffix}")
    row = np.asarray(first(tmp_path / f"a.{suffix}"))[0, :, 0].astype(int)
    assert row[0] == 0 and row[-1] == 255
    assert abs(row[32] - 129) <= 2
    assert (np.diff(row) > 0).all()


def test_float_grey_in_unit_range(tmp_path: Path) -> None:
    Image.fromarray(np.array([[0.0, 0.5, 1.0]], dtype=np.float32)).save(tmp_path / "a.tiff")
    assert [first(tmp_path / "a.tiff").getpixel((x, 0))[0] for x in range(3)] == [0, 128, 255]


@pytest.mark.parametrize("adobe", [True, False])
def test_cmyk_has_normal_polarity_with_and_without_adobes_marker(tmp_path: Path, adobe: bool) -> None:
    image = Image.new("CMYK", (32, 32), (0, 0, 0, 0))  # white paper
    image.paste((0, 0, 0, 255), (0, 0, 16, 32))  # black left half
    buffer = io.BytesIO()
    (image if adobe else ImageChops.invert(image)).save(buffer, "JPEG", quality=95)
    data = buffer.getvalue()
    if not adobe:
        at = data.index(b"\xff\xee\x00\x0eAdobe")
        data = data[:at] + data[at + 16 :]
    path = tmp_path / "a.jpg"
    path.write_bytes(data)
    page = first(path)
    assert max(page.getpixel((4, 16))) < 40
    assert min(page.getpixel((28, 16))) > 215


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_gives_upright_pixels(tmp_path: Path, orientation: int) -> None:
    upright = Image.new("RGB", (40, 20), "white")
    upright.paste((255, 0, 0), (0, 0, 10, 10))  # red top left
    upright.paste((0, 0, 255), (30, 10, 40, 20))  # blue bottom right
    undo = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }
    stored = upright.transpose(undo[orientation]) if orientation > 1 else upright
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored.save(tmp_path / "a.png", exif=exif)
    page = first(tmp_path / "a.png")
    assert page.size == (40, 20)
    assert page.getpixel((3, 3)) == (255, 0, 0)
    assert page.getpixel((37, 17)) == (0, 0, 255)


def test_all_pages_of_a_tiff_but_the_first_frame_of_a_gif(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (10 + 5 * k, 10), colour) for k, colour in enumerate(("red", "lime", "blue"))]
    frames[0].save(tmp_path / "a.tiff", save_all=True, append_images=frames[1:])
    pages = list(iter_pages(tmp_path / "a.tiff"))
    assert [page.image.size[0] for page in pages if page.image] == [10, 15, 20]
    assert pages[2].image is not None and pages[2].image.getpixel((0, 0)) == (0, 0, 255)
    assert count_pages(tmp_path / "a.tiff") == 3
    moving = [Image.new("RGB", (10, 10), colour) for colour in ("red", "lime")]
    moving[0].save(tmp_path / "a.gif", save_all=True, append_images=moving[1:])
    assert count_pages(tmp_path / "a.gif") == 1
    assert first(tmp_path / "a.gif").getpixel((5, 5)) == (255, 0, 0)


def test_a_bad_tiff_page_does_not_take_the_others_down(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)
    frames = [Image.fromarray(noise) for _ in range(3)]
    path = tmp_path / "a.tiff"
    frames[0].save(path, save_all=True, append_images=frames[1:], compression="tiff_lzw")
    with Image.open(path) as image:
        image.seek(1)
        at = image.tag_v2[273][0]  # type: ignore[attr-defined]
    data = bytearray(path.read_bytes())
    data[at : at + 200] = b"\xff" * 200
    path.write_bytes(bytes(data))
    pages = list(iter_pages(path))
    assert [page.index for page in pages] == [0, 1, 2]
    assert [page.image is not None for page in pages] == [True, False, True]
    assert pages[1].error is not None and "page 2" in pages[1].error


def test_truncated_image_is_a_failed_page(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise).save(buffer, "PNG")
    (tmp_path / "a.png").write_bytes(buffer.getvalue()[:3000])
    (page,) = iter_pages(tmp_path / "a.png")
    assert page.image is None and page.error is not None and "cannot be decoded" in page.error


def test_too_many_pixels_are_refused_before_decoding(tmp_path: Path) -> None:
    Image.new("1", (3000, 2000)).save(tmp_path / "a.png")
    with pytest.raises(InputError, match=r"a\.png: 3000 x 2000 px.*scale it down"):
        list(iter_pages(tmp_path / "a.png", config=SourceConfig(max_image_px=5_000_000)))


def test_a_bomb_that_pillow_stops_first_is_our_error(tmp_path: Path) -> None:
    before = Image.MAX_IMAGE_PIXELS
    Image.new("1", (300, 200)).save(tmp_path / "a.png")
    with pytest.raises(InputError, match=r"a\.png: would decode to too many pixels, the limit is 0\.02 megapixels"):
        list(iter_pages(tmp_path / "a.png", config=SourceConfig(max_image_px=20_000)))
    assert before == Image.MAX_IMAGE_PIXELS


@pytest.mark.parametrize("mode", ["RGB", "L", "1", "I;16"])
def test_large_images_are_scaled_to_the_page_limit(tmp_path: Path, mode: str) -> None:
    array = np.zeros((400, 600), dtype=np.uint16)
    array[:, 300:] = 65535
    image = Image.fromarray(array) if mode == "I;16" else Image.fromarray((array >> 8).astype(np.uint8))
    (image if mode == "I;16" else image.convert(mode)).save(tmp_path / "a.png")
    page = first(tmp_path / "a.png", SourceConfig(max_page_px=20_000))
    assert 0.85 * 20_000 <= page.width * page.height <= 20_000
    assert page.width / page.height == pytest.approx(1.5, abs=0.03)
    assert page.getpixel((10, 50)) == (0, 0, 0)
    assert page.getpixel((page.width - 10, 50)) == (255, 255, 255)


@pytest.mark.parametrize("size", [(1, 90_000), (90_000, 1), (3, 30_001), (151, 149)])
def test_the_page_limit_holds_for_strips_too(size: tuple[int, int]) -> None:
    page = to_rgb(Image.new("L", size), 10_000)
    assert 0 < page.width * page.height <= 10_000


def test_pdf_pages_have_their_own_size_and_rotation(tmp_path: Path) -> None:
    path = make_pdf(tmp_path / "a.pdf", [(144, 72), (144, 72), (36, 72)], {1: 90})
    sizes = [page.image.size for page in iter_pages(path) if page.image]
    assert sizes == [(400, 200), (200, 400), (100, 200)]
    assert first(path, SourceConfig(dpi=72)).size == (144, 72)


def test_pdf_page_limit_scales_the_rendering(tmp_path: Path) -> None:
    path = make_pdf(tmp_path / "a.pdf", [(7200, 3600)])
    page = first(path, SourceConfig(max_page_px=50_000))
    assert 45_000 <= page.width * page.height <= 51_000


def test_pdf_pages_are_made_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rendered: list[int] = []
    real = PdfProcess.read

    def spy(file: PdfProcess, index: int) -> tuple[Image.Image, tuple[PlacedText, ...], str | None]:
        rendered.append(index)
        return real(file, index)

    monkeypatch.setattr(PdfProcess, "read", spy)
    pages = iter_pages(make_pdf(tmp_path / "a.pdf", [(72, 72)] * 10))
    assert rendered == []
    next(pages)
    assert rendered == [0]
    next(pages)
    assert rendered == [0, 1]
    pages.close()  # type: ignore[attr-defined]
    chosen = iter_pages(tmp_path / "a.pdf", PageRanges.parse("9-"))
    assert [page.index for page in chosen] == [8, 9]
    assert rendered == [0, 1, 8, 9]


def test_a_page_image_is_its_receivers_alone(tmp_path: Path) -> None:
    Image.new("RGB", (40, 40)).save(tmp_path / "a.png")
    for path in (make_pdf(tmp_path / "a.pdf", [(72, 72)] * 2), tmp_path / "a.png"):
        pages = iter_pages(path)
        held = weakref.ref(next(pages).image)
        assert held() is None  # dropped at once, though the iterator still stands at its page
        pages.close()  # type: ignore[attr-defined]


def test_a_bad_pdf_page_does_not_take_the_others_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = PdfProcess.read

    def fails_on_second(file: PdfProcess, index: int) -> tuple[Image.Image, tuple[PlacedText, ...], str | None]:
        if index == 1:
            raise pdfium.PdfiumError("Failed to load page.")
        return real(file, index)

    monkeypatch.setattr(PdfProcess, "read", fails_on_second)
    pages = list(iter_pages(make_pdf(tmp_path / "a.pdf", [(72, 72)] * 3)))
    assert [page.image is not None for page in pages] == [True, False, True]
    assert pages[1].error == "page 2 cannot be rendered (Failed to load page.); hand an intact copy"


def test_truncated_pdf_is_named(tmp_path: Path) -> None:
    path = tmp_path / "broken.pdf"
    path.write_bytes(b"%PDF-1.7\n1 0 obj << /Type /Catalog")
    with pytest.raises(
        InputError, match=r"broken\.pdf: is a broken PDF or has no pages \(.*format.*hand an intact copy"
    ):
        list(iter_pages(path))


def test_user_password_is_required_and_works(tmp_path: Path) -> None:
    path = make_encrypted_pdf(tmp_path / "a.pdf", b"secret", b"owner")
    with pytest.raises(InputError, match=r"a\.pdf: password required; give --password"):
        list(iter_pages(path))
    with pytest.raises(InputError, match="the password is wrong"):
        list(iter_pages(path, config=SourceConfig(password="guess")))
    assert first(path, SourceConfig(password="secret")).size == (200, 200)


def test_a_password_with_an_accent_works(tmp_path: Path) -> None:
    path = make_encrypted_pdf(tmp_path / "a.pdf", "clé".encode("latin-1"), b"owner")
    assert first(path, SourceConfig(password="clé")).size == (200, 200)


def test_owner_password_alone_does_not_matter(tmp_path: Path) -> None:
    assert first(make_encrypted_pdf(tmp_path / "a.pdf", b"", b"owner")).size == (200, 200)


def test_page_ranges() -> None:
    assert PageRanges.parse("1-5,8").select(10) == [0, 1, 2, 3, 4, 7]
    assert PageRanges.parse(" 3 - ").select(5) == [2, 3, 4]
    assert PageRanges.parse("8,1,1-2").select(4) == [0, 1]
    assert PageRanges.parse("1-99999999999").select(2) == [0, 1]


@pytest.mark.parametrize("text", ["", "0", "a", "5-2", "1,,2", "-3", "1-2-3", "²", "1.5"])
def test_bad_page_ranges_are_usage_errors(text: str) -> None:
    with pytest.raises(ConfigError, match="pages"):
        PageRanges.parse(text)


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 9)), min_size=1), st.integers(0, 40))
def test_page_ranges_select_the_union(spans: list[tuple[int, int]], n_pages: int) -> None:
    text = ",".join(f"{start}-{start + more}" for start, more in spans)
    expected = {page - 1 for start, more in spans for page in range(start, start + more + 1)}
    assert PageRanges.parse(text).select(n_pages) == sorted(p for p in expected if p < n_pages)


def test_no_chosen_page_is_an_error(tmp_path: Path) -> None:
    path = make_pdf(tmp_path / "a.pdf", [(72, 72)] * 2)
    with pytest.raises(InputError, match="has 2 page"):
        list(iter_pages(path, PageRanges.parse("3-4")))


def test_config_is_checked() -> None:
    with pytest.raises(ConfigError, match=r"source\.dpi"):
        SourceConfig(dpi=0)
    with pytest.raises(ConfigError, match=r"source\.max_page_px"):
        SourceConfig(max_page_px=1)
    with pytest.raises(ConfigError, match=r"source\.max_image_px"):
        SourceConfig(max_image_px=0)


def test_a_truncated_tiff_keeps_its_whole_pages(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (40, 40, 3), dtype=np.uint8)
    frames = [Image.fromarray(noise) for _ in range(4)]
    path = tmp_path / "a.tiff"
    frames[0].save(path, save_all=True, append_images=frames[1:], compression="tiff_deflate")
    with Image.open(path) as image:
        image.seek(2)
        directory = image._frame_pos[2]  # type: ignore[attr-defined]
    path.write_bytes(path.read_bytes()[: directory + 30])  # the third directory is cut
    assert count_pages(path) == 3
    pages = list(iter_pages(path))
    assert [page.image is not None for page in pages] == [True, True, False]
    assert str(pages[2].error).startswith("page 3 cannot be decoded") and "intact copy" in str(pages[2].error)


@pytest.mark.parametrize(
    "failure", [KeyError(273), struct.error("short"), TypeError("x"), OverflowError(), zlib.error()]
)
def test_whatever_a_decoder_raises_stays_with_the_page_or_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    def fails(*arguments: object, **more: object) -> None:
        raise failure

    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    with monkeypatch.context() as patch:
        patch.setattr(Image.Image, "load", fails)
        patch.setattr("PIL.ImageFile.ImageFile.load", fails)
        (page,) = iter_pages(tmp_path / "a.png")
    assert page.image is None and type(failure).__name__ in str(page.error)
    monkeypatch.setattr(source_image.Image, "open", fails)
    with pytest.raises(InputError, match=rf"a\.png: is a broken image \({type(failure).__name__}"):
        list(iter_pages(tmp_path / "a.png"))


def test_damaged_metadata_does_not_cost_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.new("RGB", (8, 8), "red").save(tmp_path / "a.png", exif=b"Exif\0\0MM\0*\0\0\0\x08\xff\xff\x01")
    assert first(tmp_path / "a.png").getpixel((3, 3)) == (255, 0, 0)
    Image.new("L", (8, 8), 7).save(tmp_path / "b.tiff")

    def fails(image: Image.Image) -> None:
        raise KeyError(1)

    with monkeypatch.context() as patch:
        patch.setattr("gravityocr.pipeline.pixels.Image.Image.getexif", fails)
        assert to_rgb(Image.new("L", (8, 8), 7)).getpixel((3, 3)) == (7, 7, 7)


def test_a_pdf_without_pages_is_told_with_its_own_error(tmp_path: Path) -> None:
    locked = make_encrypted_pdf(tmp_path / "locked.pdf", b"secret", b"owner")
    for _ in range(2):  # PDFium remembers the locked one's error
        with pytest.raises(InputError, match=r"a\.pdf: is a broken PDF or has no pages .*intact copy") as caught:
            list(iter_pages(make_pdf(tmp_path / "a.pdf", [])))
        assert "Success" not in str(caught.value)
        with pytest.raises(InputError, match="password required"):
            list(iter_pages(locked))


@pytest.mark.parametrize("mode", ["I;16", "F", "P", "RGBA", "LA", "L", "1", "CMYK"])
@pytest.mark.parametrize("max_px", [None, 700])
def test_strips_give_what_the_whole_gives(monkeypatch: pytest.MonkeyPatch, mode: str, max_px: int | None) -> None:
    grey = np.random.default_rng(1).integers(0, 255, (61, 47), dtype=np.uint8)
    if mode == "I;16":
        image = Image.fromarray(grey.astype(np.uint16) * 257)
    elif mode in ("RGBA", "LA"):
        alpha = Image.fromarray(grey[::-1].copy())
        image = Image.merge("LA", (Image.fromarray(grey), alpha)).convert(mode)
    else:
        image = Image.fromarray(grey).convert(mode)
    if mode == "P":
        image.info["transparency"] = 9
    whole = np.asarray(to_rgb(image, max_px))
    monkeypatch.setattr(pixels, "_STRIP_PX", 150)
    assert np.array_equal(np.asarray(to_rgb(image, max_px)), whole)
    assert whole.shape[0] * whole.shape[1] <= (max_px or 61 * 47)


def test_chosen_pages_beyond_the_document_are_named() -> None:
    assert PageRanges.parse("1-3").beyond(3) is None
    assert PageRanges.parse("2-").beyond(3) is None
    assert PageRanges.parse("2-5,9,7-").beyond(3) == "4-5, 9, 7-"
    assert PageRanges.parse("3-4").beyond(3) == "4"
