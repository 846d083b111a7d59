"""What PP-DocLayoutV3 calls the parts of a page, and how its raw detections become regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Literal

from gravityocr.document import Label
from gravityocr.errors import ConfigError

PUBLISHED_MODEL = "PaddlePaddle/PP-DocLayoutV3_safetensors"

MergeMode = Literal["union", "large", "small"]

V3_LABELS: dict[str, Label] = {
    "abstract": "text",
    "algorithm": "code",
    "aside_text": "aside",
    "chart": "figure",
    "content": "text",
    "display_formula": "formula",
    "doc_title": "doc_title",
    "figure_title": "caption",
    "footer": "footer",
    "footer_image": "logo",
    "footnote": "footnote",
    "formula_number": "formula_number",
    "header": "header",
    "header_image": "logo",
    "image": "figure",
    "inline_formula": "formula",
    "number": "page_number",
    "paragraph_title": "title",
    "reference": "reference",
    "reference_content": "reference",
    "seal": "figure",
    "table": "table",
    "text": "text",
    "vertical_text": "text",
    "vision_footnote": "footnote",
}
"""The network's classes in the order of their ids, and our label for each."""

PICTURES = frozenset({"image", "seal", "chart"})
"""The classes that containment never removes."""

_BROADER = {
    "display_formula": "formula",
    "footer_image": "footer",
    "header_image": "header",
    "inline_formula": "formula",
    "vertical_text": "text",
}  # some checkpoints write one name for two ids


@dataclass(frozen=True)
class V3Config:
    """How raw detections become regions; the defaults are those of the GLM-OCR SDK.

    A detection counts from a score of `threshold`. Of two, the less sure goes from an IoU of `nms_iou_same` (one
    class) or `nms_iou_different` on (`nms` turns both off). Beside others, an `image` that takes more than
    `whole_page_image` of the page goes (`whole_page_image_landscape` on a page wider than high). A box lies in another
    where `contained_share` of it does; then `merge` says which stays: `large` the outer, `small` the inner,
    `union` both. `unclip` stretches boxes around their centres: factors of the width and the height. The mappings
    `*_by_class` overrule these for single classes, by their native names. `polygons` asks for outlines too, from
    where a mask is surer than `mask_threshold`.
    """

    threshold: float = 0.3
    threshold_by_class: dict[str, float] = field(default_factory=dict)
    nms: bool = True
    nms_iou_same: float = 0.6
    nms_iou_different: float = 0.98
    whole_page_image: float = 0.93
    whole_page_image_landscape: float = 0.82
    contained_share: float = 0.8
    merge: MergeMode = "large"
    merge_by_class: dict[str, MergeMode] = field(default_factory=lambda: {"reference": "small"})
    unclip: tuple[float, float] = (1.0, 1.0)
    unclip_by_class: dict[str, tuple[float, float]] = field(default_factory=dict)
    polygons: bool = True
    mask_threshold: float = 0.3

    def __post_init__(self) -> None:
        thresholds = {"threshold": self.threshold, "mask_threshold": self.mask_threshold}
        thresholds |= {f"threshold_by_class.{name}": value for name, value in self.threshold_by_class.items()}
        for name, value in thresholds.items():
            if not 0 < value < 1:
                raise ConfigError(f"layout_v3.{name} is {value}: choose a score between 0 and 1")
        shares = ("nms_iou_same", "nms_iou_different", "whole_page_image", "whole_page_image_landscape")
        for name in (*shares, "contained_share"):
            if not 0 < getattr(self, name) <= 1:
                raise ConfigError(f"layout_v3.{name} is {getattr(self, name)}: choose a share in (0, 1]")
        modes = {"merge": self.merge} | {f"merge_by_class.{name}": mode for name, mode in self.merge_by_class.items()}
        for name, mode in modes.items():
            if mode not in ("union", "large", "small"):
                raise ConfigError(f"layout_v3.{name} is {mode!r}: choose union, large or small")
        factors = {"unclip": self.unclip}
        factors |= {f"unclip_by_class.{name}": pair for name, pair in self.unclip_by_class.items()}
        for name, pair in factors.items():
            if len(pair) != 2 or not all(0.5 <= factor <= 3 for factor in pair):
                raise ConfigError(f"layout_v3.{name} is {pair}: choose two factors from 0.5 to 3, of width and height")
        for mapping in ("threshold_by_class", "merge_by_class", "unclip_by_class"):
            for name in getattr(self, mapping):
                _check_class(mapping, name)

    def threshold_of(self, name: str) -> float:
        """Return the score from which a detection of that class counts."""
        return self.threshold_by_class.get(name, self.threshold)

    def merge_of(self, name: str) -> MergeMode:
        """Return what happens where a box of that class and another lie in each other."""
        return self.merge_by_class.get(name, self.merge)

    def unclip_of(self, name: str) -> tuple[float, float]:
        """Return the factors that stretch a box of that class."""
        return self.unclip_by_class.get(name, self.unclip)


def _check_class(mapping: str, name: str) -> None:
    if name not in V3_LABELS:
        near = get_close_matches(name, V3_LABELS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"choose of {', '.join(V3_LABELS)}"
        raise ConfigError(f"layout_v3.{mapping}: PP-DocLayoutV3 has no class {name!r}; {hint}")


def class_names(names: Sequence[str], where: str) -> tuple[str, ...]:
    """Return a checkpoint's class names by id, each of which we have a label for.

    A checkpoint of the published classes that writes one name for two ids gets the ids' own names.

    *Raises*: ConfigError naming `where` and the classes that we do not know.
    """
    published = tuple(V3_LABELS)
    if len(names) == len(published):
        pairs = zip(names, published, strict=True)
        if all(name in (exact, _BROADER.get(exact)) for name, exact in pairs):
            return published
    unknown = [name for name in names if name not in V3_LABELS]
    if unknown or not names:
        raise ConfigError(f"{where}: classes {unknown} are not PP-DocLayoutV3's; choose one of its checkpoints")
    return tuple(names)
