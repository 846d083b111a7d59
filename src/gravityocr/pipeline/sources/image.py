"""Image files as pages: opened by the decoder of their kind alone, bounded before a pixel is decoded."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from PIL import Image, ImageOps, UnidentifiedImageError, features
from PIL.Jpeg2KImagePlugin import Jpeg2KImageFile

from gravityocr.document import PlacedText
from gravityocr.errors import InputError
from gravityocr.pipeline.inputs import Kind
from gravityocr.pipeline.pixels import DECODER_ERRORS, INTACT, failure_text, to_rgb

# No other decoder is tried: what a file is, its content has told, and half a hundred formats stay out of reach.
_FORMATS: dict[Kind, tuple[str, ...]] = {
    "png": ("PNG",),
    "jpeg": ("JPEG", "MPO"),
    "tiff": ("TIFF",),
    "gif": ("GIF",),
    "bmp": ("BMP",),
    "webp": ("WEBP",),
    "jp2": ("JPEG2000",),
    "avif": ("AVIF",),
    "heic": ("HEIF",),
}
# Decoders that hold canvases or planes beside the image. Measured in bytes a pixel: WebP 16, JPEG 2000 20, AVIF and
# HEIC 10 and with transparency more, where the others take 4 at most.
_COSTLY: dict[Kind, int] = {"webp": 4, "jp2": 5, "avif": 3, "heic": 3}
# Their other frames, if any, are no content: previews and gain maps of a JPEG.
_NOT_ANIMATED = frozenset({"tiff", "jpeg", "bmp", "jp2"})
_DRAFT_STEPS = 3  # a JPEG decodes at a half, a quarter or an eighth of its size
_pillow_limit = threading.Lock()


class ImageFile:
    """An open image file; a TIFF's frames are its pages, of any other file the first frame is the page.

    *Units*: `max_image_px` bounds what is decoded (less for costly decoders), `max_page_px` what comes out.
    *Raises*: InputError for what is no intact image, too large, or of a kind that this installation cannot decode.
    """

    failed = "decoded"

    def __init__(self, path: str | Path, name: str, kind: Kind, max_image_px: int, max_page_px: int) -> None:
        self._kind = kind
        self._max_page_px = max_page_px
        self._limit = max_image_px // _COSTLY.get(kind, 1)
        # a frame too large must not hide those behind it: a TIFF's sizes are checked here, frame by frame
        self._header_limit = None if kind == "tiff" else max_image_px
        self._told = f"the limit is {self._limit / 1e6:g} megapixels; scale it down"
        _need_decoder(kind, name)
        # Pillow maps files that it opens by path into memory, and takes a turned TIFF's sides for each other then
        self._stream = _open_stream(path, name)
        self._image = self._open(self._stream, name)
        self._n_halvings = 0
        try:
            self._check_size(path, name, max_image_px)
            self.n_pages = self._n_frames() if kind == "tiff" else 1
        except InputError:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._image.close()
        self._stream.close()

    def note(self) -> str | None:
        """Say what of the file is not read: the other frames of an animation, the other pictures of a HEIC."""
        if self._kind in _NOT_ANIMATED:
            return None
        try:
            with _quiet(), _pillow_bounded(self._header_limit):
                n_frames = int(getattr(self._image, "n_frames", 1))
        except DECODER_ERRORS:  # a frame that is not read may be damaged
            return None
        if n_frames < 2:
            return None
        if self._kind == "heic":
            return f"the main one of {n_frames} pictures is read"
        return f"the first of {n_frames} frames of an animation is read"

    def read(self, index: int) -> tuple[Image.Image, tuple[PlacedText, ...], None]:
        """Return one page's image, upright RGB; images hold no words and nothing that they do not show.

        *Raises*: InputError, or whatever the decoder raises.
        """
        image = self._image
        # Pillow's own limit is asked again as pixels are decoded and strips are cut
        with _quiet(), _pillow_bounded(self._header_limit):
            if self._kind == "tiff":
                image.seek(index)
                if not 0 < image.width * image.height <= self._limit:  # each frame has its own size
                    raise InputError(f"{image.width} x {image.height} px, {self._told}")
            elif self._kind == "jpeg":
                self._draft()
            elif isinstance(image, Jpeg2KImageFile) and self._n_halvings:
                image.reduce = self._n_halvings
            image.load()
            # a scan of a gigabyte must not stay while its page is worked on
            page = to_rgb(image, self._max_page_px, self.close if self.n_pages == 1 else None)
        if self.n_pages == 1:
            self.close()
        return ImageOps.exif_transpose(page), (), None

    def _open(self, stream: BinaryIO, name: str) -> Image.Image:
        try:
            with _quiet(), _pillow_bounded(self._header_limit), ExitStack() as on_error:
                on_error.callback(stream.close)
                image = Image.open(stream, formats=_FORMATS[self._kind])
                on_error.pop_all()
                return image
        except Image.DecompressionBombError as error:
            raise InputError(f"{name}: would decode to too many pixels, {self._told}") from error
        except UnidentifiedImageError as error:
            raise InputError(f"{name}: is a broken image; {INTACT}") from error
        except DECODER_ERRORS as error:
            raise InputError(f"{name}: is a broken image ({failure_text(error)}); {INTACT}") from error

    def _check_size(self, path: str | Path, name: str, max_image_px: int) -> None:
        """Refuse what is too large; a JPEG 2000 within the common limit decodes at a half, a quarter... instead."""
        n_px = self._image.width * self._image.height
        if n_px == 0:
            raise InputError(f"{name}: is an image without pixels; {INTACT}")
        if self._kind == "jp2" and self._limit < n_px <= max_image_px:
            self._n_halvings = math.ceil(math.log(n_px / self._limit, 4))
            if self._n_halvings <= _n_resolutions_below(path):
                return
        if n_px > self._limit:
            raise InputError(f"{name}: {self._image.width} x {self._image.height} px, {self._told}")

    def _draft(self) -> None:
        """Let a JPEG decode at a fraction of its size where that still gives all the pixels of a page."""
        width, height = self._image.size
        n_steps = min(_DRAFT_STEPS, int(math.log(max(1.0, width * height / self._max_page_px), 4)))
        if n_steps:
            self._image.draft(None, (width >> n_steps, height >> n_steps))

    def _n_frames(self) -> int:
        """Count a TIFF's frames. One whose header is damaged counts, as the last: it hides where the next one is."""
        n_frames = 1
        with _quiet(), _pillow_bounded(self._header_limit):
            while True:
                try:
                    self._image.seek(n_frames)
                except EOFError:
                    return n_frames
                except DECODER_ERRORS:
                    return n_frames + 1
                n_frames += 1


def _open_stream(path: str | Path, name: str) -> BinaryIO:
    try:
        return open(path, "rb")
    except OSError as error:
        raise InputError(f"{name}: cannot be read ({failure_text(error)}); check that it is there") from error


def _need_decoder(kind: Kind, name: str) -> None:
    """Register what the kind needs.

    *Raises*: InputError where this installation cannot decode it.
    """
    if kind == "heic" and not _register_heif():
        raise InputError(f"{name}: is a HEIC image, which needs one more package: pip install pillow-heif")
    feature = {"jp2": "jpg_2000", "avif": "avif", "webp": "webp"}.get(kind)
    if feature and not features.check(feature):
        raise InputError(f"{name}: is of the kind {kind}, which this build of Pillow lacks: pip install -U pillow")


def _register_heif() -> bool:
    try:
        import pillow_heif
    except ImportError:
        return False
    pillow_heif.register_heif_opener(thumbnails=False)
    return True


def _n_resolutions_below(path: str | Path) -> int:
    """Return how often a JPEG 2000 can be halved: the decomposition levels in its coding style marker.

    *Source*: ITU-T T.800, A.5.1 and A.6.1.
    """
    with open(path, "rb") as stream:
        head = stream.read(1 << 16)
    at = head.find(b"\xff\x4f\xff\x51") + 2
    while at >= 2 and at + 10 <= len(head) and head[at] == 0xFF and head[at + 1] != 0x90:  # until the first tile
        if head[at + 1] == 0x52:
            return head[at + 9]
        at += 2 + int.from_bytes(head[at + 2 : at + 4], "big")
    return 0


@contextmanager
def _quiet() -> Iterator[None]:
    """Pillow warns of much that it mends, in the middle of our output; what it cannot mend it raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _pillow_bounded(limit_px: int | None) -> Iterator[None]:
    """Put our limit in place of Pillow's own, which is a guess and the whole process's: one file at a time."""
    with _pillow_limit:
        before = Image.MAX_IMAGE_PIXELS
        Image.MAX_IMAGE_PIXELS = limit_px
        try:
            yield
        finally:
            Image.MAX_IMAGE_PIXELS = before
