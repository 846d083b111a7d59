"""Crop + task -> pixels, token ids and positions, once, for trainer and server alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from tokenizers import Tokenizer
from torch import Tensor

from gravityocr.document import TASK_PROMPTS, Task
from gravityocr.errors import CheckpointError, ConfigError
from gravityocr.image_size import SizeRule, fit_size, n_image_tokens, within_aspect

IMAGE_TOKEN = "<|image|>"
BEFORE_IMAGE = "[gMASK]<sop><|user|>\n<|begin_of_image|>"
AFTER_IMAGE = "<|end_of_image|>{task}<|assistant|>\n"


@dataclass(frozen=True)
class ImageSpec(SizeRule):
    """How a crop becomes patches; the defaults are GLM-OCR's, a checkpoint's preprocessor_config.json decides."""

    mean: tuple[float, float, float] = (0.48145466, 0.4578275, 0.40821073)
    std: tuple[float, float, float] = (0.26862954, 0.26130258, 0.27577711)


@dataclass(frozen=True)
class Prompt:
    """One crop and task as the network takes it.

    *Shapes*: pixels [n_patches, channels x time x patch x patch], grid in patches (rows, columns), ids and is_image
    [n], positions [3, n]. `next_position` is the position id of the first response token on all three axes.
    """

    pixels: Tensor
    grid: tuple[int, int]
    ids: Tensor
    is_image: Tensor
    positions: Tensor
    next_position: int


def token_id(tokenizer: Tokenizer, token: str) -> int:
    """Return a token's id.

    *Raises*: CheckpointError where the tokenizer lacks it.
    """
    found = tokenizer.token_to_id(token)
    if found is None:
        raise CheckpointError(f"the tokenizer has no token {token!r}; use the one that belongs to the checkpoint")
    return found


def on_white(image: Image.Image) -> Image.Image:
    """Return the image in RGB, transparent pixels being white paper, as transformers' processor has it."""
    if image.has_transparency_data:
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image.convert("RGBA"))
    return image.convert("RGB")


def image_patches(image: Image.Image, spec: ImageSpec) -> tuple[Tensor, tuple[int, int]]:
    """Return flattened patches in merged-cell order and the grid (rows, columns) in patches.

    A crop longer than the processor takes is padded with its paper's colour before.
    """
    # A grey image is converted and cut once for its three equal channels.
    pixels = image if image.mode == "L" and not image.has_transparency_data else on_white(image)
    pixels = within_aspect(pixels, spec)
    height, width = fit_size(pixels.height, pixels.width, spec)
    if (pixels.height, pixels.width) != (height, width):
        pixels = pixels.resize((width, height), Image.Resampling.BICUBIC)
    patch, merge = spec.patch_size, spec.merge_size
    rows, columns = height // patch, width // patch
    cells = np.asarray(pixels).reshape(rows // merge, merge, patch, columns // merge, merge, patch, -1)
    planes = cells.transpose(6, 0, 3, 1, 4, 2, 5).reshape(-1, rows * columns, patch * patch)
    shares = np.divide(planes, np.float32(255.0), dtype=np.float32)
    values = np.empty((rows * columns, 3, spec.temporal_patch_size, patch * patch), dtype=np.float32)
    for channel in range(3):
        normalised = values[:, channel, 0]
        np.subtract(shares[channel % len(shares)], np.float32(spec.mean[channel]), out=normalised)
        normalised /= np.float32(spec.std[channel])
        values[:, channel, 1:] = normalised[:, None]
    return torch.from_numpy(values.reshape(rows * columns, -1)), (rows, columns)


class PromptBuilder:
    """Build prompts for one checkpoint's tokenizer and image spec."""

    def __init__(self, tokenizer: Tokenizer, spec: ImageSpec) -> None:
        self.tokenizer = tokenizer
        self.spec = spec
        self.image_id = token_id(tokenizer, IMAGE_TOKEN)
        self._before = self._encode(BEFORE_IMAGE)
        self._after = {task: self._encode(AFTER_IMAGE.format(task=text)) for task, text in TASK_PROMPTS.items()}

    def _encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    @staticmethod
    def instruction(task: Task) -> str:
        """Return what the user asks for a task."""
        return TASK_PROMPTS[task]

    @staticmethod
    def text(task: Task) -> str:
        """Return the whole prompt of a task as text, with one placeholder for the image."""
        return BEFORE_IMAGE + IMAGE_TOKEN + AFTER_IMAGE.format(task=TASK_PROMPTS[task])

    def build(self, image: Image.Image, task: Task = "text") -> Prompt:
        """Return the prompt of one crop.

        *Raises*: ConfigError for an unknown task.
        """
        pixels, grid = image_patches(image, self.spec)
        return self.from_patches(pixels, grid, task)

    def n_tokens(self, width_px: int, height_px: int, task: Task = "text") -> int:
        """Return how many tokens the prompt of a crop of this size has, without looking at the crop."""
        return len(self._before) + n_image_tokens(height_px, width_px, self.spec) + len(self._after[task])

    def from_patches(self, pixels: Tensor, grid: tuple[int, int], task: Task = "text") -> Prompt:
        """Return the prompt of a crop that is already cut into patches."""
        if task not in self._after:
            raise ConfigError(f"unknown task {task!r}; choose one of {', '.join(TASK_PROMPTS)}")
        rows, columns = grid[0] // self.spec.merge_size, grid[1] // self.spec.merge_size
        before, after, n_cells = self._before, self._after[task], rows * columns
        start, resume = len(before), len(before) + max(rows, columns)
        ids = np.array([*before, *[self.image_id] * n_cells, *after], dtype=np.int64)
        is_image = np.zeros(len(ids), dtype=np.bool_)
        is_image[start : start + n_cells] = True
        positions = np.empty((3, len(ids)), dtype=np.int64)
        positions[:, :start] = np.arange(start)
        cells = np.zeros((3, rows, columns), dtype=np.int64)
        cells[1], cells[2] = np.arange(rows)[:, None], np.arange(columns)
        positions[:, start : start + n_cells] = start + cells.reshape(3, n_cells)
        positions[:, start + n_cells :] = resume + np.arange(len(after))
        return Prompt(
            pixels,
            grid,
            torch.from_numpy(ids),
            torch.from_numpy(is_image),
            torch.from_numpy(positions),
            resume + len(after),
        )
