"""The Python door: `GravityOCR.from_pretrained("nano").parse("paper.pdf").markdown`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from gravityocr.document import Crop, Document, Page, Recognition, Task
from gravityocr.engine.engine import Engine, EngineConfig
from gravityocr.errors import ConfigError
from gravityocr.pipeline.convert import ImageSink, PipelineConfig, convert
from gravityocr.pipeline.layout import LayoutDetector, WholePage
from gravityocr.pipeline.layout_cdla import CdlaDetector
from gravityocr.pipeline.source import PageRanges, SourceConfig

LAYOUTS = ("auto", "cdla", "none")


def build_detector(name: str = "auto") -> LayoutDetector:
    """Return a layout detector by name; `auto` is `cdla`, `none` takes the whole page as one region.

    *Raises*: ConfigError for an unknown name.
    """
    if name in ("auto", "cdla"):
        return CdlaDetector()
    if name == "none":
        return WholePage()
    raise ConfigError(f"unknown layout {name!r}; choose one of {', '.join(LAYOUTS)}")


class GravityOCR:
    """A checkpoint and a layout detector, ready to parse documents."""

    def __init__(self, engine: Engine, detector: LayoutDetector | None = None,
                 config: PipelineConfig | None = None) -> None:  # fmt: skip
        self.engine = engine
        self.detector = detector or build_detector()
        self.config = config or PipelineConfig()

    @classmethod
    def from_pretrained(cls, checkpoint: str = "nano", *, layout: str = "auto", engine: EngineConfig | None = None,
                        pipeline: PipelineConfig | None = None, dtype: str = "auto",
                        device: str = "cpu", n_threads: int | None = None) -> GravityOCR:  # fmt: skip
        """Load a checkpoint (`nano` or a folder) and a layout detector; see `Engine.from_pretrained`.

        Without a `pipeline` the text layer of PDF pages is read where the engine may draft from it.
        """
        loaded = Engine.from_pretrained(checkpoint, engine, dtype, device, n_threads)
        drafts = loaded.mode == "self-spec" and loaded.config.draft in ("auto", "text-layer")
        pipeline = pipeline or PipelineConfig(source=SourceConfig(text_layer=drafts))
        return cls(loaded, build_detector(layout), pipeline)

    def parse(self, path: str | Path, *, pages: str | None = None, on_page: Callable[[Page], None] | None = None,
              save_image: ImageSink | None = None) -> Document:  # fmt: skip
        """Parse one PDF or image file; what fails is told by the document's status and error.

        `pages` chooses pages, 1-based: `"1-5,8"`.
        """
        ranges = PageRanges.parse(pages) if pages else None
        return convert(path, self.engine, self.detector, self.config, pages=ranges, on_page=on_page,
                       save_image=save_image)  # fmt: skip

    def recognize(self, crops: Sequence[Crop], task: Task | None = None) -> list[Recognition]:
        """Read crops of regions; `task`, if given, replaces each crop's own."""
        return self.engine.recognize([replace(crop, task=task or crop.task) for crop in crops])
