"""The processor that TRL's trainer gets: the prompts of our own checkpoint, padded on the left, one crop a text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from tests.factories import random_image

from gravityocr.document import Crop, Task
from gravityocr.engine.engine import Engine, EngineConfig
from gravityocr.engine.uncut import UncutCrop, read_uncut
from gravityocr.errors import ConfigError
from gravityocr.rl.grpo import stock_network
from gravityocr.rl.processor import PromptTensors, build_processor, crop_of
from gravityocr.rl.rl_config import RlConfig

pytest.importorskip("transformers", reason="the stock class; install the extra 'rl'")

# Sizes that differ in rows, columns and number of tokens.
CROPS: list[tuple[Image.Image, Task]] = [
    (random_image(128, 32, 1), "text"),
    (random_image(64, 96, 2), "table"),
    (random_image(221, 62, 3), "formula"),
]


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine.from_pretrained("nano", EngineConfig(log_probs=True), dtype="float32")


@pytest.fixture(scope="module")
def processor(engine: Engine) -> Any:
    return build_processor(engine)


def conversation(engine: Engine, image: Image.Image, task: Task) -> list[dict[str, Any]]:
    """Give a prompt as TRL hands it over: the image as a part of the message."""
    words = {"type": "text", "text": engine.checkpoint.prompts.instruction(task)}
    return [{"role": "user", "content": [{"type": "image", "image": image}, words]}]


def batch_of(processor: Any, engine: Engine) -> dict[str, Any]:
    texts = [processor.apply_chat_template(conversation(engine, *crop)) for crop in CROPS]
    return dict(processor(images=[[image] for image, _ in CROPS], text=texts, padding=True, return_tensors="pt"))


def test_a_conversation_is_taken_apart(engine: Engine) -> None:
    image, task = CROPS[1]
    found, words = crop_of(conversation(engine, image, task))
    assert found is image and words == engine.checkpoint.prompts.instruction("table")


def test_ids_pixels_and_kinds_are_those_of_our_prompts(engine: Engine, processor: Any) -> None:
    found = processor.apply_chat_template(
        conversation=[conversation(engine, *crop) for crop in CROPS], tokenize=True, return_dict=True,
        add_generation_prompt=True,
    )  # fmt: skip
    own = [engine.checkpoint.prompts.build(*crop) for crop in CROPS]
    assert len({len(ids) for ids in found["input_ids"]}) == len(CROPS), "prompts of one size prove nothing"
    for number, prompt in enumerate(own):
        assert found["input_ids"][number] == prompt.ids.tolist()
        assert found["mm_token_type_ids"][number] == prompt.is_image.int().tolist()
        assert found["image_grid_thw"][number].tolist() == [1, *prompt.grid]
    assert torch.equal(found["pixel_values"], torch.cat([prompt.pixels for prompt in own]))


def test_a_batch_is_padded_on_the_left_and_padding_is_no_image(engine: Engine, processor: Any) -> None:
    batch = batch_of(processor, engine)
    longest = batch["input_ids"].shape[1]
    for number, (image, task) in enumerate(CROPS):
        prompt = engine.checkpoint.prompts.build(image, task)
        n = prompt.ids.numel()
        assert batch["input_ids"][number, longest - n :].tolist() == prompt.ids.tolist()
        assert batch["attention_mask"][number].tolist() == [0] * (longest - n) + [1] * n
        assert batch["mm_token_type_ids"][number].tolist() == [0] * (longest - n) + prompt.is_image.int().tolist()
        assert set(batch["input_ids"][number, : longest - n].tolist()) <= {processor.tokenizer.pad_token_id}


def test_positions_of_the_stock_class_are_ours_behind_the_padding(engine: Engine, processor: Any) -> None:
    batch = batch_of(processor, engine)
    model = stock_network(engine, RlConfig())
    positions, _ = model.model.get_rope_index(
        batch["input_ids"], mm_token_type_ids=batch["mm_token_type_ids"], image_grid_thw=batch["image_grid_thw"],
        attention_mask=batch["attention_mask"],
    )  # fmt: skip
    for number, crop in enumerate(CROPS):
        prompt = engine.checkpoint.prompts.build(*crop)
        assert torch.equal(positions[:, number, -prompt.ids.numel() :], prompt.positions)


@torch.no_grad()
def test_a_padded_batch_has_the_engine_s_log_probabilities(engine: Engine, processor: Any) -> None:
    """Prompts of three lengths and completions of several, in one forward of the stock class."""
    asked = [UncutCrop(Crop(*crop), 5 + 9 * number, (number,)) for number, crop in enumerate(CROPS)]
    read = [row[0] for row in read_uncut(engine, asked)]
    longest = max(len(one.ids) for one in read)
    assert len({len(one.ids) for one in read}) > 1
    batch = batch_of(processor, engine)
    pad = processor.tokenizer.pad_token_id
    completions = torch.tensor([[*one.ids] + [pad] * (longest - len(one.ids)) for one in read])
    mask = torch.tensor([[1] * len(one.ids) + [0] * (longest - len(one.ids)) for one in read])
    logits = stock_network(engine, RlConfig())(
        input_ids=torch.cat([batch["input_ids"], completions], 1),
        attention_mask=torch.cat([batch["attention_mask"], mask], 1),
        mm_token_type_ids=torch.cat([batch["mm_token_type_ids"], torch.zeros_like(completions)], 1),
        pixel_values=batch["pixel_values"], image_grid_thw=batch["image_grid_thw"],
    ).logits[:, -longest - 1 : -1]  # fmt: skip
    log_probs = logits.log_softmax(-1).gather(-1, completions[..., None])[..., 0]
    for number, one in enumerate(read):
        ours = torch.tensor(one.log_probs)
        torch.testing.assert_close(log_probs[number, : len(one.ids)], ours, rtol=0, atol=1e-4)
        assert ours.min() < -0.1, "certain tokens would agree whatever the prompt"


def test_a_prompt_is_kept_for_its_own_crop_and_task_alone(engine: Engine) -> None:
    tensors = PromptTensors(engine)
    white, tall = Image.new("RGB", (96, 32), "white"), Image.new("RGB", (32, 96), "white")  # the same bytes
    first = tensors.of(white, "text")
    assert tensors.of(white.copy(), "text") is first
    assert tensors.of(white, "table")["input_ids"] != first["input_ids"]
    assert tensors.of(tall, "text")["image_grid_thw"].tolist() != first["image_grid_thw"].tolist()


def test_a_prompt_without_a_crop_is_refused(processor: Any) -> None:
    with pytest.raises(ConfigError, match="no crop"):
        processor(images=None, text=["x"])


def test_the_tokenizer_is_saved_and_reads_as_before(processor: Any, engine: Engine, tmp_path: Path) -> None:
    from transformers import PreTrainedTokenizerFast

    processor.save_pretrained(tmp_path)
    again = PreTrainedTokenizerFast.from_pretrained(tmp_path)
    text = "<tr><td>a 1</td></tr>"
    ids = engine.checkpoint.tokenizer.encode(text, add_special_tokens=False).ids
    assert again(text, add_special_tokens=False)["input_ids"] == ids
    assert processor.batch_decode([ids], skip_special_tokens=True) == [engine.checkpoint.tokenizer.decode(ids)]
