"""The inputs of the users' 25 cases, made when they are asked for, and the doors through which a user hands them in."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import pypdfium2 as pdfium
from PIL import Image, ImageOps
from tests.chat_double import ChatDouble, Reply, completion, picture_of
from tests.unit.pipeline.scripted import ScriptedDetector, ScriptedRecognizer, draw_lines
from typer.testing import CliRunner

from gravityocr.api import GravityOCR
from gravityocr.cli import app
from gravityocr.document import Box, Crop, Document, Label, Recognition
from gravityocr.engine.engine import Engine, EngineConfig
from gravityocr.errors import CheckpointError, ConfigError, GravityOCRError
from gravityocr.pipeline.convert import PipelineConfig
from gravityocr.pipeline.layout import LayoutBox, LayoutDetector, WholePage

ROOT = Path(__file__).parents[1]
CROPS = ROOT / "tests" / "data" / "crops"
A4_PX = (827, 1169)  # at 100 dpi
LINE_PX = 40
ALL_TASKS = frozenset({"text", "table", "formula"})


# Pages that the shipped checkpoint reads without an error, so that a page that comes out wrong is read wrong.


@lru_cache(maxsize=1)
def _truths() -> dict[str, str]:
    rows = json.loads((CROPS / "manifest.json").read_text(encoding="utf-8"))
    return {row["file"]: row["ground_truth"].get("text", "") for row in rows}


def printed_text(*numbers: int) -> str:
    """Return what `printed_page` of the same lines says."""
    return " ".join(_truths()[f"line_{number:02d}.png"] for number in numbers)


def printed_page(*numbers: int, size: tuple[int, int] = (900, 300)) -> Image.Image:
    """Return a grey page with printed lines of the test crops, one below the other."""
    page = Image.new("L", size, 255)
    for row, number in enumerate(numbers):
        line = Image.open(CROPS / f"line_{number:02d}.png").convert("L")
        page.paste(line.resize((round(line.width * LINE_PX / line.height), LINE_PX)), (40, 40 + 70 * row))
    return page


def bars_page(*boxes: tuple[int, int, int, int], size: tuple[int, int] = (800, 1000)) -> Image.Image:
    """Return a white page whose boxes are full of bars that pass for words."""
    page = Image.new("RGB", size, "white")
    for box in boxes:
        draw_lines(page, box)
    return page


def write_pdf(path: Path, pages: Sequence[Image.Image], dpi: float = 100.0) -> Path:
    """Write page images as a PDF, each page as large as its image at `dpi`."""
    pages[0].save(path, "PDF", save_all=True, append_images=list(pages[1:]), resolution=dpi)
    return path


def rotated_pdf(path: Path, pages: Sequence[Image.Image], rotations: Sequence[int]) -> Path:
    """Write a PDF whose pages lie on their sides and are turned upright by their /Rotate."""
    lying = [page.rotate(turn, expand=True) for page, turn in zip(pages, rotations, strict=True)]
    with pdfium.PdfDocument(io.BytesIO(write_pdf(path, lying).read_bytes())) as document:
        for page, turn in zip(document, rotations, strict=True):
            page.set_rotation(turn)
        document.save(str(path))
    return path


def encrypted_pdf(path: Path, page: Image.Image, user: bytes, owner: bytes) -> Path:
    """Write a one-page PDF under the standard 40-bit handler. *Source*: PDF 1.7, 7.6.2 and 7.6.3."""
    pad = bytes.fromhex("28BF4E5E4E758A4164004E56FFFA01082E2E00B6D0683E802F0CA9FE6453697A")
    identity, permissions = b"0123456789abcdef", (-4).to_bytes(4, "little", signed=True)
    o_entry = _rc4(hashlib.md5((owner + pad)[:32]).digest()[:5], (user + pad)[:32])
    key = hashlib.md5((user + pad)[:32] + o_entry + permissions + identity).digest()[:5]
    picture = io.BytesIO()
    page.convert("L").save(picture, "JPEG", quality=95)
    width, height = page.size

    def stream(number: int, head: bytes, data: bytes) -> bytes:
        own = hashlib.md5(key + number.to_bytes(3, "little") + b"\0\0").digest()[:10]
        return b"<< %s /Length %d >>\nstream\n%s\nendstream" % (head, len(data), _rc4(own, data))

    image = b"/Type /XObject /Subtype /Image /Width %d /Height %d /ColorSpace /DeviceGray" % (width, height)
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 %d %d] /Contents 4 0 R"
        b" /Resources << /XObject << /I 5 0 R >> >> >>" % (width, height),
        stream(4, b"", b"%d 0 0 %d 0 0 cm /I Do" % (width, height)),
        stream(5, image + b" /BitsPerComponent 8 /Filter /DCTDecode", picture.getvalue()),
        b"<< /Filter /Standard /V 1 /R 2 /P -4 /O <%s> /U <%s> >>"
        % (o_entry.hex().encode(), _rc4(key, pad).hex().encode()),
    ]
    trailer = b"/Encrypt 6 0 R /ID [<%s> <%s>]" % ((identity.hex().encode(),) * 2)
    path.write_bytes(_pdf_of(objects, trailer))
    return path


def poster_pdf(path: Path, size_pt: tuple[int, int]) -> Path:
    """Write a PDF of one page of that size, with a title near its upper left corner."""
    title = b"BT /F 900 Tf 800 %d Td (A poster of this size) Tj ET" % (size_pt[1] - 2000)
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 %d %d] /Contents 4 0 R"
        b" /Resources << /Font << /F 5 0 R >> >> >>" % size_pt,
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(title), title),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    path.write_bytes(_pdf_of(objects, b""))
    return path


def _pdf_of(objects: Sequence[bytes], trailer: bytes) -> bytes:
    data, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % at for at in offsets)
    end = b"trailer << /Size %d /Root 1 0 R %s >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, trailer, len(data))
    return data + b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(objects) + 1, table) + end


def _rc4(key: bytes, data: bytes) -> bytes:
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


# The Python door: with the shipped checkpoint, or with a layout and answers that the test writes.


@lru_cache(maxsize=1)
def nano() -> Engine:
    """Return the shipped checkpoint's engine in fp32 with windows that no measured cost decides."""
    return Engine.from_pretrained("nano", EngineConfig(max_tokens=256, windows="fixed"), "float32")


class Watched:
    """Reads with another recognizer and keeps the crops that it was asked for."""

    def __init__(self, recognizer: Any) -> None:
        self.inner, self.tasks = recognizer, recognizer.tasks
        self.crops: list[Crop] = []

    def recognize(self, crops: Sequence[Crop]) -> list[Recognition]:
        self.crops += crops
        answers: list[Recognition] = self.inner.recognize(crops)
        return answers


def read(path: str | Path, detector: LayoutDetector | None = None, **options: Any) -> tuple[Document, list[Crop]]:
    """Parse a file with the shipped checkpoint, each page one region; return the document and the crops read."""
    watched = Watched(nano())
    ocr = GravityOCR(watched, detector or WholePage(), PipelineConfig(**options))  # type: ignore[arg-type]
    return ocr.parse(path), watched.crops


def box(x0: float, y0: float, x1: float, y1: float, label: Label = "text") -> LayoutBox:
    """Return a detected region."""
    return LayoutBox(Box(x0, y0, x1, y1), label, label, 0.9)


@dataclass
class Script:
    """Pages with known regions and known answers: `answers[n]` is what the n-th crop of the run says."""

    pages: list[list[LayoutBox]]
    answers: list[str | Recognition]
    config: PipelineConfig = field(default_factory=PipelineConfig)
    crops: list[Crop] = field(default_factory=list)

    def parse(self, path: str | Path) -> Document:
        """Parse a file as `GravityOCR.parse` does, around the script."""
        left = iter(self.answers)

        def answer(_index: int, crop: Crop) -> Recognition:
            self.crops.append(crop)
            said = next(left)
            return said if isinstance(said, Recognition) else Recognition(said, n_tokens=3, n_forwards=2)

        recognizer = ScriptedRecognizer(answer, ALL_TASKS)
        ocr = GravityOCR(recognizer, ScriptedDetector(*self.pages), self.config)  # type: ignore[arg-type]
        return ocr.parse(path)


FURNITURE_PX = {"header": (100, 20, 700, 80), "footer": (100, 930, 400, 980), "page_number": (640, 930, 700, 980)}


def rows_of_boxes(path: Path, *pages: Sequence[Label]) -> list[list[LayoutBox]]:
    """Write a document with one region under the other on each page, furniture at its edges; return where they are."""
    found: list[list[LayoutBox]] = []
    images = []
    for labels in pages:
        n_rows = sum(label not in FURNITURE_PX for label in labels)
        pitch = 740 // max(1, n_rows)
        tops = iter(range(120, 860, pitch))
        rows = []
        for label in labels:
            rows.append(FURNITURE_PX.get(label) or (100, top := next(tops), 700, top + min(160, pitch - 40)))
        images.append(bars_page(*rows))
        found.append([box(*row, label=label) for row, label in zip(rows, labels, strict=True)])
    more: dict[str, Any] = {"resolution": 200} if path.suffix == ".pdf" else {}
    images[0].save(path, save_all=True, append_images=images[1:], **more)
    return found


# The command line: in this process, or in one of its own.


@dataclass(frozen=True)
class Outcome:
    """What a command left: exit code, the `--json` summary where it printed one, stdout and stderr."""

    code: int
    stdout: str
    stderr: str

    @property
    def report(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.stdout)
        return found

    @property
    def files(self) -> dict[str, dict[str, Any]]:
        return {Path(file["file"]).name: file for file in self.report["files"]}


def cli(*arguments: object) -> Outcome:
    """Run the command line here; errors raised on purpose count as in `main`."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(result.exception, GravityOCRError):
        code = 2 if isinstance(result.exception, (CheckpointError, ConfigError)) else 1
        return Outcome(code, result.stdout, f"{result.stderr}error: {result.exception}\n")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Outcome(result.exit_code, result.stdout, result.stderr)


def start_cli(*arguments: object, program: Sequence[str] = ("-m", "gravityocr"), **more: Any) -> subprocess.Popen[str]:
    """Start the command line in a process of its own."""
    command = [sys.executable, *program, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=environment, text=True, **{**pipes, **more})


# The OpenAI-compatible server beside the command line.


def picture(request: dict) -> Image.Image:
    """Return the picture that a chat request holds, decoded."""
    return Image.open(io.BytesIO(picture_of(request))).convert("RGB")


def says_size(request: dict, _number: int) -> Reply:
    """Answer with the size of the picture."""
    seen = picture(request)
    return completion(f"A picture of {seen.width} by {seen.height}.", usage={"completion_tokens": 7})


@contextmanager
def serving(script: Callable[[dict, int], Reply] = says_size) -> Any:
    """Serve a script as the model `double`."""
    with ChatDouble(script, Reply(body=json.dumps({"data": [{"id": "double"}]}).encode())) as double:
        yield double


def paper_share(image: Image.Image) -> float:
    """Return which share of a picture's pixels is bright."""
    histogram = ImageOps.grayscale(image).histogram()
    return sum(histogram[128:]) / (image.width * image.height)
