"""Handed paths to files: expanded in order, known by content, whatever cannot be read is told."""

from __future__ import annotations

import io
import os
import socket
from pathlib import Path

import pypdfium2 as pdfium
import pytest
from PIL import Image

from gravityocr.errors import InputError
from gravityocr.pipeline.inputs import (
    InputFile,
    collect_inputs,
    expand_input,
    sniff,
    source_identity,
    source_name,
    source_stem,
)


def make_pdf(path: Path) -> Path:
    document = pdfium.PdfDocument.new()
    document.new_page(72, 72)
    document.save(str(path))
    document.close()
    return path


def test_inputs_are_expanded_in_order_and_failures_kept(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    (folder / "sub").mkdir(parents=True)
    (folder / ".hidden").mkdir()
    for name in ("b.png", "sub/a.jpg", "noname", ".hidden/c.png"):
        Image.new("RGB", (4, 4)).save(folder / name, "PNG")
    (folder / "notes.txt").write_text("hello")
    (folder / "broken.pdf").write_text("<html>")  # named like a document: reported later, not passed over
    single = make_pdf(tmp_path / "z.pdf")
    found = collect_inputs([single, tmp_path / "missing.pdf", folder, str(folder / "*.png")])
    assert [item.path for item in found if item.error is None] == [
        str(single),
        *(str(folder / name) for name in ("b.png", "broken.pdf", "noname", "sub/a.jpg")),
    ]
    (failure,) = [item for item in found if item.error]
    assert failure.path.endswith("missing.pdf") and "no such file" in str(failure.error)
    assert found[1] is failure


def test_folders_and_globs_without_documents_and_other_schemes_are_named(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    handed = [tmp_path, tmp_path / "*.pdf", "ftp://me:pw@a.b/c.pdf", "http://", "https://a.b:99999/c"]
    messages = [item.error or "" for item in collect_inputs(handed)]
    assert "holds no document" in messages[0] and str(tmp_path) in messages[0]
    assert "no file matches" in messages[1]
    assert "ftp://...: only http:// and https://" in messages[2] and "pw" not in messages[2]
    assert "is no URL of a document" in messages[3] and "is no URL of a document" in messages[4]


def test_urls_and_stdin_are_kept_for_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"%PDF-")))
    handed = ["https://a.b/c.pdf?token=1", "-", "HTTPS://A.B/c.pdf?token=2", "https://a.b/c.pdf?token=1#page=3", "-"]
    first, stdin, other, twice = collect_inputs(handed)
    assert (first.path, first.origin, first.error) == (handed[0], "url", None)
    assert (stdin.path, stdin.origin, stdin.error, stdin.name) == ("-", "stdin", None, "<stdin>")
    assert other.path == handed[2] and other.name != first.name
    assert twice.origin == "stdin" and "handed twice" in str(twice.error)


def test_a_terminal_or_no_stdin_is_told_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.BytesIO):
        def isatty(self) -> bool:
            return True

    for stdin, what in ((Terminal(), "is a terminal; pipe a document"), (None, "is closed; pipe a document")):
        monkeypatch.setattr("sys.stdin", stdin)
        (item,) = collect_inputs(["-"])
        assert what in str(item.error) and item.origin == "stdin"


@pytest.mark.parametrize(
    ("source", "name", "stem"),
    [
        ("a/b.c.pdf", "a/b.c.pdf", "b.c"),
        ("-", "<stdin>", "stdin"),
        ("https://h.org/x/Paper%20one.PDF", "https://h.org/x/Paper%20one.PDF", "Paper one"),
        ("https://me:pw@H.org:443/pdf/2301.12345", "https://h.org/pdf/2301.12345", "2301.12345"),
        ("http://h.org:8080/", "http://h.org:8080/", "h.org"),
        ("https://h.org", "https://h.org/", "h.org"),
        ("https://[2001:db8::1]:8443/a.png", "https://[2001:db8::1]:8443/a.png", "a"),
        ("https://h.org/x/..%2f..%2fetc%2Fpass%00wd", "https://h.org/x/..%2f..%2fetc%2Fpass%00wd", "pass_wd"),
        ("https://h.org/a%5Cb.tiff/", "https://h.org/a%5Cb.tiff/", "b"),
        ("http://", "http://(not readable)", "url"),
    ],
)
def test_names_and_stems(source: str, name: str, stem: str) -> None:
    assert (source_name(source), source_stem(source)) == (name, stem)


def test_a_name_holds_no_secret_and_is_its_own_name(tmp_path: Path) -> None:
    secrets = "https://user:pass@h.org/a.pdf?token=secret&x=1#frag"
    name = source_name(secrets)
    assert not any(secret in name for secret in ("user", "pass", "token", "secret", "frag"))
    assert name.startswith("https://h.org/a.pdf?query=") and name != source_name(secrets.replace("x=1", "x=2"))
    for source in (secrets, "-", str(tmp_path / "a.pdf"), "https://h.org"):
        assert source_name(source_name(source)) == source_name(source)
        assert source_identity(source_name(source)) == source_identity(source)
    (tmp_path / "link").symlink_to(tmp_path)
    assert source_identity(tmp_path / "link" / "a.pdf") == os.path.realpath(tmp_path / "a.pdf")


@pytest.mark.parametrize("suffix", [".jp2", ".J2K", ".heic", ".HEIF", ".avif", ".apng"])
def test_folders_give_every_suffix_that_is_read(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"a{suffix}").write_bytes(b"cut")
    assert [item.path for item in expand_input(tmp_path)] == [str(tmp_path / f"a{suffix}")]


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"\0\0\0\x0cjP  \r\n\x87\n", "jp2"),
        (b"\xff\x4f\xff\x51\0\x2f", "jp2"),
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "heic"),
        (b"\0\0\0\x1cftypmif1\0\0\0\0mif1avifmiaf", "avif"),
        (b"\0\0\0\x1cftypmif1\0\0\0\0mif1heicmiaf", "heic"),
        (b"\0\0\0\x14ftypavis\0\0\0\0", "avif"),
    ],
)
def test_boxed_formats_are_known_by_their_brands(tmp_path: Path, head: bytes, kind: str) -> None:
    (tmp_path / "a").write_bytes(head + b"\0" * 40)
    assert sniff(tmp_path / "a") == kind


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"\r\n<!DOCTYPE html><title>", "a web page"),
        (b"PK\x03\x04 word/document.xml", "a ZIP archive or an Office document"),
        (b"%!PS-Adobe-3.0", "a PostScript document"),
        (b"\0\0\0\x14ftypisom\0\0\0\0avc1", "a video"),
        (b"version https://git-lfs.github.com/spec/v1", "a Git LFS pointer, not the file itself"),
    ],
)
def test_what_is_handed_by_mistake_is_named(tmp_path: Path, content: bytes, what: str) -> None:
    (tmp_path / "a.pdf").write_bytes(content)
    with pytest.raises(
        InputError, match=rf"^the scan: is neither .*\(it looks like {what}\); PDF, PNG.*HEIC are read$"
    ):
        sniff(tmp_path / "a.pdf", "the scan")


def test_pipes_sockets_and_devices_are_refused_instead_of_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    os.mkfifo(tmp_path / "fifo.png")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s.png")
        for path in (tmp_path / "fifo.png", tmp_path / "s.png", Path(os.devnull)):
            with pytest.raises(InputError, match="pipe, socket or device; hand a file"):
                sniff(path)
            (item,) = collect_inputs([path])
            assert item.error is not None and str(path) in item.error


def test_what_a_folder_cannot_hand_over_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    Image.new("RGB", (4, 4)).save(folder / "b.png")
    os.mkfifo(folder / "a.png")
    (folder / "c.pdf").symlink_to("nowhere")
    (folder / "d.pdf").symlink_to("d.pdf")
    os.mkfifo(folder / "pipe")  # no document's name
    items = expand_input(folder)
    assert [Path(item.path).name for item in items] == ["a.png", "b.png", "c.pdf", "d.pdf"]
    assert [item.error is None for item in items] == [False, True, False, False]
    assert "nowhere, which is missing" in str(items[2].error) and str(folder / "c.pdf") in str(items[2].error)
    assert collect_inputs([str(folder / "*.p*")]) == items


def test_a_subfolder_that_cannot_be_listed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shut").mkdir()
    Image.new("RGB", (4, 4)).save(tmp_path / "z.png")
    real = os.scandir

    def scandir(path: str) -> object:
        if str(path).endswith("shut"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    shut, image = expand_input(tmp_path)
    assert image == InputFile(str(tmp_path / "z.png"))
    assert shut.path == str(tmp_path / "shut") and "cannot be listed (Permission denied)" in str(shut.error)
    (alone,) = collect_inputs([tmp_path / "shut"])
    assert "Permission denied" in str(alone.error)


def test_paths_that_the_system_refuses_are_told(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    handed = ["x" * 300 + ".png", str(loop), "a\0b.png", "", str(tmp_path / "*" / ("y" * 300))]
    items = collect_inputs(handed)
    assert [item.path for item in items] == handed and all(item.error for item in items)
    assert "File name too long" in str(items[0].error)
    assert "is no path" in str(items[2].error) and "is no path" in str(items[3].error)


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tmp_path: Path) -> None:
    for name in ("[ab].png", "a.png"):
        Image.new("RGB", (4, 4)).save(tmp_path / name)
    assert collect_inputs([str(tmp_path / "[ab].png")]) == [InputFile(str(tmp_path / "[ab].png"))]


@pytest.mark.parametrize(
    "content",
    [
        b"BM is a text that starts with BM, and it goes on for a while",
        b"BM",
        b"These notes talk about %PDF- headers.\n" * 3,
        b"<html>%PDF-1.7</html>",
    ],
)
def test_text_that_looks_a_little_like_a_document_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "notes").write_bytes(content)
    with pytest.raises(InputError, match="neither a PDF nor an image"):
        sniff(tmp_path / "notes")


def test_real_bitmaps_and_pdfs_behind_other_bytes_are_known(tmp_path: Path) -> None:
    Image.new("RGB", (4, 4)).save(tmp_path / "a.bmp")
    assert sniff(tmp_path / "a.bmp") == "bmp"
    data = make_pdf(tmp_path / "a.pdf").read_bytes()
    for before in (b"\xef\xbb\xbf", b"\r\n  ", b"HTTP/1.1 200 OK\r\n\r\n"):
        (tmp_path / "b.pdf").write_bytes(before + data)
        assert sniff(tmp_path / "b.pdf") == "pdf"
    (tmp_path / "c.pdf").write_bytes(b"%PDF-1.7\n1 0 obj")  # cut short, but meant to be one
    assert sniff(tmp_path / "c.pdf") == "pdf"
