"""The accurate layout detector: PP-DocLayoutV3 by transformers' network, with pre- and post-processing of our own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from gravityocr.document import Box
from gravityocr.pipeline.layout import LayoutBox
from gravityocr.pipeline.layout_v3_checkpoint import (
    ImageInput,
    fetch_checkpoint,
    load_checkpoint,
    require_transformers,
)
from gravityocr.pipeline.layout_v3_config import PUBLISHED_MODEL, V3_LABELS, V3Config
from gravityocr.pipeline.layout_v3_outline import mask_outline
from gravityocr.pipeline.layout_v3_rules import Detections, settle, stretched

if TYPE_CHECKING:
    import torch


class PPDocLayoutV3Detector:
    """Detects 25 classes, with outlines and reading order; it resolves overlaps itself, so its boxes are `trusted`."""

    name = "pp-doclayout-v3"
    trusted = True

    def __init__(
        self, model: str | Path = PUBLISHED_MODEL, config: V3Config | None = None, *, device: str = "cpu"
    ) -> None:
        """Load a checkpoint: a folder, or a hub id, which may be downloaded.

        *Raises*: ConfigError naming what is missing or wrong.
        """
        require_transformers()  # before a download
        self.config = config or V3Config()
        self.folder = fetch_checkpoint(str(model))
        loaded = load_checkpoint(self.folder, device)
        self._network, self._names, self._image = loaded.network, loaded.names, loaded.image
        self._device = device

    def detect(self, image: Image.Image) -> list[LayoutBox]:
        """Return the regions of one RGB page image in reading order, boxes in its pixels."""
        import torch

        with torch.inference_mode():
            outputs = self._network(pixel_values=pixel_values(image, self._image).to(self._device))
            found = raw_detections(outputs.logits[0], outputs.pred_boxes[0], outputs.order_logits[0], image.size)
            found = settle(found, self._names, image.size, self.config)
            masks = None
            if self.config.polygons:
                chosen = torch.from_numpy(found.queries).to(outputs.out_masks.device)
                masks = (outputs.out_masks[0][chosen].sigmoid() > self.config.mask_threshold).cpu()
        return self._regions(found, masks, image.size)

    def _regions(self, found: Detections, masks: torch.Tensor | None, size_px: tuple[int, int]) -> list[LayoutBox]:
        result: list[LayoutBox] = []
        for place, edges in enumerate(found.boxes):
            name = self._names[int(found.class_ids[place])]
            factors = self.config.unclip_of(name)
            box = Box(*(float(value) for value in edges)).clamp(size_px)
            wide = Box(*(float(value) for value in stretched(edges, factors))).clamp(size_px)
            if box is None or wide is None:
                continue
            # an outline says nothing of the ground that stretching adds
            bare = masks is None or factors != (1.0, 1.0)
            polygon = () if masks is None or bare else mask_outline(masks[place].numpy(), box, size_px)
            score = float(found.scores[place])
            result.append(LayoutBox(wide, V3_LABELS[name], name, score, order=len(result), polygon=polygon))
        return result


def pixel_values(image: Image.Image, spec: ImageInput) -> torch.Tensor:
    """Return a page image as the network takes it.

    The resize is bicubic without antialiasing, on bytes: what the network was trained on (OpenCV's) is near to it.

    *Shapes*: float32 `[1, 3, height, width]`.
    """
    import torch

    rgb = image if image.mode == "RGB" else image.convert("RGB")
    planes = torch.from_numpy(np.array(rgb, dtype=np.uint8)).permute(2, 0, 1)[None].contiguous()
    width, height = spec.size_px
    if (rgb.width, rgb.height) != spec.size_px:
        planes = torch.nn.functional.interpolate(planes, size=(height, width), mode="bicubic", align_corners=False)
    mean, std = (torch.tensor(values).view(1, -1, 1, 1) * (1 / spec.rescale) for values in (spec.mean, spec.std))
    return (planes.to(torch.float32) - mean) / std


def raw_detections(
    logits: torch.Tensor, boxes: torch.Tensor, order_logits: torch.Tensor, size_px: tuple[int, int]
) -> Detections:
    """Read the heads of one page: as many class-query pairs as there are queries, the surest first.

    *Shapes*: `logits` `[queries, classes]`, `boxes` `[queries, 4]` as shares (centre x, y, width, height),
    `order_logits` `[queries, queries]`. *Source*: PPDocLayoutV3ImageProcessor of transformers.
    """
    import torch

    n_queries, n_classes = logits.shape
    scores, places = logits.float().sigmoid().flatten().topk(n_queries)
    queries = torch.div(places, n_classes, rounding_mode="floor")
    centre, half = boxes.float()[:, :2], boxes.float()[:, 2:] * 0.5
    edges = torch.cat([centre - half, centre + half], dim=1) * torch.tensor([*size_px, *size_px]).to(boxes.device)
    orders = reading_ranks(order_logits.float())
    arrays: Sequence[torch.Tensor] = (places % n_classes, scores, edges[queries], orders[queries], queries)
    class_ids, score, corners, order, query = (array.cpu().numpy() for array in arrays)
    return Detections(class_ids, score.astype(np.float64), corners.astype(np.float64), order, query)


def reading_ranks(order_logits: torch.Tensor) -> torch.Tensor:
    """Return each query's place in reading order: by how many others are voted to come before it.

    *Shapes*: `[queries, queries]`, of which the upper triangle says whether row comes before column -> `[queries]`.
    """
    import torch

    before = order_logits.sigmoid()
    upper = before.triu(diagonal=1)
    votes = upper.sum(dim=0) + (1.0 - before).triu(diagonal=1).sum(dim=1)
    ranks = torch.empty_like(votes, dtype=torch.int64)
    ranks[votes.argsort(stable=True)] = torch.arange(len(votes), device=votes.device)
    return ranks
