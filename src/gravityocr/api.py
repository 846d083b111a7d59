"""The Python door: `GravityOCR.from_pretrained("nano").parse("paper.pdf").markdown`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gravityocr.document import Crop, Document, Page, Recognition, Task
from gravityocr.pipeline.convert import ImageSink, PipelineConfig, convert
from gravityocr.pipeline.layout import LayoutDetector
from gravityocr.pipeline.layout_choice import LAYOUTS, build_detector
from gravityocr.pipeline.source import PageRanges, SourceConfig

if TYPE_CHECKING:  # with it comes torch, which a client of servers never needs
    from gravityocr.engine.engine import Engine, EngineConfig

__all__ = ["LAYOUTS", "EngineFactory", "GravityOCR", "build_detector"]


@dataclass(frozen=True)
class EngineFactory:
    """What an engine is made of: it can be pickled, so that another process makes one (`pipeline.worker_pool`)."""

    checkpoint: str = "nano"
    config: EngineConfig | None = None
    dtype: str = "auto"
    device: str = "cpu"
    n_threads: int | None = None

    def __call__(self) -> Engine:
        """Load the checkpoint; see `Engine.from_pretrained`."""
        from gravityocr.engine.engine import Engine

        return Engine.from_pretrained(self.checkpoint, self.config, self.dtype, self.device, self.n_threads)


class GravityOCR:
    """A checkpoint and a layout detector, ready to parse documents.

    Without a `config` that says so, Markdown is put together for the text that the checkpoint writes.
    """

    def __init__(self, engine: Engine, detector: LayoutDetector | None = None,
                 config: PipelineConfig | None = None) -> None:  # fmt: skip
        self.engine = engine
        self.detector = detector or build_detector()
        self.config = config or PipelineConfig()

    @classmethod
    def from_pretrained(cls, checkpoint: str = "nano", *, layout: str | LayoutDetector = "auto",
                        engine: EngineConfig | None = None, pipeline: PipelineConfig | None = None, dtype: str = "auto",
                        device: str = "cpu", n_threads: int | None = None) -> GravityOCR:  # fmt: skip
        """Load a checkpoint (`nano` or a folder) and a layout detector, by name; see `Engine.from_pretrained`.

        Without a `pipeline` the text layer of PDF pages is read where the engine may draft from it, and Markdown is put
        together as the checkpoint's text format wants it.
        """
        loaded = EngineFactory(checkpoint, engine, dtype, device, n_threads)()
        if pipeline is None:
            drafts = loaded.mode == "self-spec" and loaded.config.draft in ("auto", "text-layer")
            pipeline = with_text_format(PipelineConfig(source=SourceConfig(text_layer=drafts)), loaded.text_format)
        detector = build_detector(layout, device=device) if isinstance(layout, str) else layout
        return cls(loaded, detector, pipeline)

    def parse(self, path: str | Path, *, pages: str | None = None, on_page: Callable[[Page], None] | None = None,
              save_image: ImageSink | None = None) -> Document:  # fmt: skip
        """Parse one PDF or image file, or a URL; what fails is told by the document's status and error.

        `pages` chooses pages, 1-based: `"1-5,8"`.
        *Raises*: TypeError for what is no path, URL or "-", and ConfigError for `pages` that are none.
        """
        if not isinstance(path, (str, Path)):
            raise TypeError(
                f'parse wants a path, a URL or "-" for stdin, not {type(path).__name__}: save a picture or bytes to a '
                "file first, or hand the picture of one region to recognize"
            )
        if pages is not None and not isinstance(pages, str):
            raise TypeError(f'pages is {pages!r}: write text such as "1-5,8", from 1')
        ranges = None if pages is None else PageRanges.parse(pages)
        return convert(path, self.engine, self.detector, self.config, pages=ranges, on_page=on_page,
                       save_image=save_image)  # fmt: skip

    def recognize(self, crops: Sequence[Crop], task: Task | None = None) -> list[Recognition]:
        """Read crops of regions; `task`, if given, replaces each crop's own."""
        return self.engine.recognize([replace(crop, task=task or crop.task) for crop in crops])


def with_text_format(config: PipelineConfig, text_format: str | None) -> PipelineConfig:
    """Return the settings for a recognizer that writes `plain` text or `markdown`; None leaves them as they are."""
    if text_format is None:
        return config
    return replace(config, assembly=replace(config.assembly, text_format=text_format))  # type: ignore[arg-type]
