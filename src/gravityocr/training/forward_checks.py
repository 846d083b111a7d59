"""Forwards of a checkpoint on a small picture: greedy decoding, drafting, and transformers' own class beside ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from PIL import Image, ImageDraw
from safetensors import SafetensorError
from torch import Tensor

from gravityocr.decoding.prompts import DecodeMode, DecodeOptions, decode_prompts
from gravityocr.decoding.request import Decoded
from gravityocr.document import Task
from gravityocr.errors import CheckpointError
from gravityocr.model.checkpoint import Checkpoint, load_checkpoint
from gravityocr.model.ocr_model import prefill
from gravityocr.model.prompt import Prompt

N_TOKENS = 16
# Two fp32 implementations of a full-size network differ by about 1e-4 of the logits' spread.
TOLERANCE = 2e-3


class Skipped(Exception):  # noqa: N818 (nothing went wrong)
    """Raised by a check that cannot run."""


@dataclass(frozen=True)
class _Ours:
    """What our network said: the prompt, the tokens that AR chose, and the logits that chose them, one row more."""

    prompt: Prompt
    ids: list[int]
    logits: Tensor


class Forwards:
    """The forwards of one folder; the network is loaded for the first and given back after the last of ours."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoint: Checkpoint | None = None
        self.ours: _Ours | None = None

    def load(self) -> str:
        """Load the checkpoint as every command does."""
        self.checkpoint = load_checkpoint(str(self.path))
        return f"{sum(parameter.numel() for parameter in self.checkpoint.model.parameters())} parameters"

    def autoregressive(self) -> str:
        """Read a small picture greedily."""
        checkpoint = self._loaded()
        task = cast(Task, next(iter(checkpoint.diffusion.tasks), "text"))
        prompt = checkpoint.prompts.build(sample_picture(), task)
        ids = self._decode(prompt, "ar").ids
        logits = teacher_forced(checkpoint, prompt, ids)
        if not bool(logits.isfinite().all()):
            raise CheckpointError(f"{self.path}: its logits are not finite; the training went wrong")
        self.ours = _Ours(prompt, ids, logits)
        return f"{len(ids)} tokens, logits from {float(logits.min()):.1f} to {float(logits.max()):.1f}"

    def draft(self) -> str:
        """Read the same by drafting and verifying, which must give the same tokens in fp32."""
        ours = self.ours
        if ours is None:
            raise Skipped("needs the greedy forward, which failed")
        drafted = self._decode(ours.prompt, "self-spec")
        self.checkpoint = None  # the stock class needs the memory
        if drafted.ids != ours.ids:
            raise CheckpointError(f"self-speculation reads {drafted.ids}, greedy decoding {ours.ids}")
        return f"{len(drafted.ids)} equal tokens in {drafted.n_forwards} forwards"

    def stock_class(self) -> str:
        """Load the folder in transformers and compare the logits."""
        ours = self.ours
        try:
            import transformers
        except ImportError as error:
            raise Skipped("transformers is not installed; install the extra 'transformers'") from error
        if ours is None:
            raise Skipped("needs the greedy forward, which failed")
        try:
            with _without_bars():
                loaded: Any = transformers.GlmOcrForConditionalGeneration.from_pretrained(
                    self.path, dtype=torch.float32, output_loading_info=True, local_files_only=True
                )
            model, info = loaded
            logits = _their_logits(model.eval(), ours)
        except _their_failures() as error:
            what = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise CheckpointError(f"transformers does not load it: {what}") from error
        told = {kind: sorted(map(str, keys))[:3] for kind, keys in info.items() if keys}
        if told:
            raise CheckpointError(f"transformers loads it with {told}")
        distance, scale = float((logits - ours.logits).abs().max()), max(1.0, float(logits.std()))
        if not distance <= TOLERANCE * scale:
            raise CheckpointError(f"transformers' logits differ by {distance:.2g}, more than {TOLERANCE * scale:.2g}")
        return f"transformers {transformers.__version__}: logits equal within {distance:.1e}"

    def _loaded(self) -> Checkpoint:
        if self.checkpoint is None:
            raise Skipped("needs the loaded checkpoint")
        return self.checkpoint

    def _decode(self, prompt: Prompt, mode: DecodeMode) -> Decoded:
        loaded = self._loaded()
        block = loaded.diffusion.bd_size
        options = DecodeOptions(loaded.diffusion.mask_id, loaded.stop_ids, block, mode, N_TOKENS)
        return decode_prompts(loaded.model, [prompt], options).sequences[0]


@contextmanager
def _without_bars() -> Iterator[None]:
    """Let transformers draw no progress bars: a check is one line."""
    from transformers.utils import logging

    enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            logging.enable_progress_bar()


def _their_failures() -> tuple[type[Exception], ...]:
    """Return what transformers raises for a folder that it does not take; the message goes into the check."""
    from huggingface_hub.errors import StrictDataclassError

    return (
        OSError, ValueError, RuntimeError, LookupError, TypeError, AttributeError, ImportError, ArithmeticError,
        SafetensorError, StrictDataclassError,
    )  # fmt: skip


def sample_picture() -> Image.Image:
    """Draw a line of text, black on white."""
    image = Image.new("RGB", (168, 56), "white")
    ImageDraw.Draw(image).text((8, 16), "Verify 2 + 2 = 4", fill="black", font_size=18)
    return image


@torch.inference_mode()
def teacher_forced(checkpoint: Checkpoint, prompt: Prompt, ids: list[int]) -> Tensor:
    """Return the logits behind a prompt and behind each token of a response. *Shapes*: [1 + ids, vocab]."""
    _, features = checkpoint.model.encode_images([prompt])
    session = prefill(checkpoint.model, [prompt], features, len(ids))
    if not ids:
        return session.first_logits
    slots = session.lens[:, None] + torch.arange(len(ids))
    later = session.step(torch.tensor([ids]), slots[:, 0], slots)
    return torch.cat([session.first_logits, later[0]])


@torch.inference_mode()
def _their_logits(model: Any, ours: _Ours) -> Tensor:
    tokens = torch.cat([ours.prompt.ids, torch.tensor(ours.ids, dtype=torch.long)])[None]
    kinds = torch.zeros_like(tokens)
    kinds[0, : ours.prompt.ids.numel()] = ours.prompt.is_image
    logits = model(
        input_ids=tokens, attention_mask=torch.ones_like(tokens), mm_token_type_ids=kinds,
        pixel_values=ours.prompt.pixels, image_grid_thw=torch.tensor([[1, *ours.prompt.grid]]), use_cache=False,
    ).logits[0]  # fmt: skip
    return logits[ours.prompt.ids.numel() - 1 :]


FORWARD_CHECKS: Mapping[str, Callable[[Forwards], str]] = {
    "load": Forwards.load,
    "ar_forward": Forwards.autoregressive,
    "draft_forward": Forwards.draft,
    "stock_transformers": Forwards.stock_class,
}
