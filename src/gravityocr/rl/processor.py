"""What TRL's trainer asks of a processor, answered by the prompts of our own checkpoint.

Trainer, engine and joint training thus see the same pixels and token ids, and torchvision is not needed.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import torch
from PIL import Image

from gravityocr.document import Task
from gravityocr.engine.engine import Engine
from gravityocr.errors import ConfigError
from gravityocr.training.corpora.region_shards import TASKS

_KEPT_PROMPTS = 512


class PromptTensors:
    """Build prompts, and keep the last ones: the rollouts of a crop ask for it again and again."""

    def __init__(self, engine: Engine) -> None:
        self._prompts = engine.checkpoint.prompts
        self.instructions = {self._prompts.instruction(task): task for task in TASKS}
        self.texts = {self._prompts.text(task): task for task in TASKS}
        self._kept: OrderedDict[bytes, dict[str, Any]] = OrderedDict()

    def of(self, image: Image.Image, task: Task) -> dict[str, Any]:
        """Return ids, pixels, grid and the kinds of tokens of a crop as the stock class takes them.

        *Shapes*: input_ids and mm_token_type_ids lists of n, pixel_values [n_patches, patch], image_grid_thw [1, 3].
        """
        digest = hashlib.blake2b(f"{task} {image.mode} {image.size}".encode(), digest_size=16)
        digest.update(image.tobytes())
        key = digest.digest()
        if key not in self._kept:
            prompt = self._prompts.build(image, task)
            self._kept[key] = {
                "input_ids": prompt.ids.tolist(),
                "mm_token_type_ids": prompt.is_image.int().tolist(),
                "pixel_values": prompt.pixels,
                "image_grid_thw": torch.tensor([[1, *prompt.grid]]),
            }
        self._kept.move_to_end(key)
        while len(self._kept) > _KEPT_PROMPTS:
            self._kept.popitem(last=False)
        return self._kept[key]

    def text(self, instruction: str) -> str:
        """Return the prompt that holds an instruction, with one placeholder for the image."""
        return self._prompts.text(self.instructions[instruction])


def crop_of(messages: Sequence[dict[str, Any]]) -> tuple[Image.Image, str]:
    """Return the crop and the instruction of a conversation of one message."""
    parts = messages[0]["content"]
    (image,) = (part["image"] for part in parts if part["type"] == "image")
    (instruction,) = (part["text"] for part in parts if part["type"] == "text")
    return image, instruction


def build_processor(engine: Engine) -> Any:
    """Return a processor for the stock class of an engine's checkpoint.

    *Raises*: ConfigError where transformers is not installed.
    """
    try:
        from transformers import PreTrainedTokenizerFast
        from transformers.processing_utils import ProcessorMixin
    except ImportError as error:
        raise ConfigError("GRPO needs transformers and TRL; pip install 'gravityocr[rl]'") from error

    class CropProcessor(ProcessorMixin):
        """One crop and one of three instructions a conversation."""

        def __init__(self, tokenizer: Any) -> None:
            super().__init__(tokenizer)
            self.tensors = PromptTensors(engine)

        def apply_chat_template(  # type: ignore[override]
            self, conversation: Any, tokenize: bool = False, **_: Any
        ) -> Any:
            """Write a conversation as text; of a list of them, with `tokenize`, return ids and pixels."""
            if not tokenize:
                return self.tensors.text(crop_of(conversation)[1])
            crops = [crop_of(messages) for messages in conversation]
            tensors = self.tensors
            return _stacked([tensors.of(image, tensors.instructions[text]) for image, text in crops], 0, False)

        def __call__(self, images: Any = None, text: Any = None, **_: Any) -> dict[str, Any]:
            """Return padded ids and the pixels of one image a text."""
            if images is None:
                raise ConfigError("a prompt has no crop; every prompt of the pool needs one")
            rows = [self.tensors.of(one[0], self.tensors.texts[words]) for one, words in zip(images, text, strict=True)]
            return _stacked(rows, self.tokenizer.pad_token_id, True)

        def batch_decode(self, *args: Any, **kwargs: Any) -> list[str]:
            """Decode token ids."""
            return list(self.tokenizer.batch_decode(*args, **kwargs))

        def save_pretrained(self, save_directory: Any, push_to_hub: bool = False, **kwargs: Any) -> list[str]:
            """Write the tokenizer; a checkpoint gets its settings files from the one that the run began with."""
            return list(self.tokenizer.save_pretrained(save_directory, push_to_hub=push_to_hub, **kwargs))

    tokenizer = PreTrainedTokenizerFast.from_pretrained(str(engine.checkpoint.path), padding_side="left")
    return CropProcessor(tokenizer)


def _stacked(rows: list[dict[str, Any]], pad_id: int, padded: bool) -> dict[str, Any]:
    """Put prompts side by side, as left-padded tensors or as lists."""
    fields: dict[str, Any] = {"input_ids": [], "attention_mask": [], "mm_token_type_ids": []}
    longest = max(len(row["input_ids"]) for row in rows) if padded else 0
    for row in rows:
        n_pad = max(0, longest - len(row["input_ids"]))
        fields["input_ids"].append([pad_id] * n_pad + row["input_ids"])
        fields["attention_mask"].append([0] * n_pad + [1] * len(row["input_ids"]))
        fields["mm_token_type_ids"].append([0] * n_pad + row["mm_token_type_ids"])
    if padded:
        fields = {name: torch.tensor(values) for name, values in fields.items()}
    for name in ("pixel_values", "image_grid_thw"):
        fields[name] = torch.cat([row[name] for row in rows])
    return fields
