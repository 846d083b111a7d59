"""Our network, files, pixels and positions against transformers' own class: fp32, random reduced configurations."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.factories import (
    CONFIGS,
    causal_forward,
    edit_json,
    image_spec,
    make_prompts,
    mask_id,
    prompt_builder,
    random_image,
    tiny_network,
    tiny_tokenizer,
    write_checkpoint,
)
from torch import Tensor

from gravityocr.decoding.prompts import DecodeOptions, decode_prompts
from gravityocr.model.checkpoint import Checkpoint, load_checkpoint
from gravityocr.model.ocr_model import DecodeSession, OcrModel, prefill
from gravityocr.model.prompt import (
    AFTER_IMAGE,
    BEFORE_IMAGE,
    IMAGE_TOKEN,
    TASK_PROMPTS,
    ImageSpec,
    Prompt,
    image_patches,
)

transformers = pytest.importorskip("transformers", reason="transformers is the oracle; install the extra 'dev'")

TOLERANCE = 1e-4
CELLS = [(1, 1), (1, 5), (4, 1), (2, 3), (3, 3), (1, 11)]  # rows and columns of merged cells
SEEDS = {"gqa": 1, "mqa": 2, "nano": 3}


@pytest.fixture(scope="module", params=list(CONFIGS))
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def folder(name: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a checkpoint folder that our own export wrote."""
    return write_checkpoint(tmp_path_factory.mktemp("ours") / name, tiny_network(name, SEEDS[name]), name)


@pytest.fixture(scope="module")
def ours(folder: Path) -> Checkpoint:
    return load_checkpoint(str(folder))


@pytest.fixture(scope="module")
def theirs(folder: Path) -> Any:
    """Give transformers' network, loaded from our folder, every key accounted for."""
    model, info = load_theirs(folder)
    assert [key for kind in info for key in info[kind]] == [], info
    return model


def load_theirs(path: Path) -> tuple[Any, dict[str, Any]]:
    model, info = transformers.GlmOcrForConditionalGeneration.from_pretrained(
        path, dtype=torch.float32, output_loading_info=True
    )
    return model.eval(), info


def their_inputs(prompt: Prompt, ids: Sequence[int] = ()) -> dict[str, Tensor]:
    """Return the arguments of transformers' class for a prompt and a response, the names of 5.24."""
    tokens = torch.cat([prompt.ids, torch.tensor(list(ids), dtype=torch.long)])[None]
    kinds = torch.zeros_like(tokens)
    kinds[0, : prompt.ids.numel()] = prompt.is_image
    return {
        "input_ids": tokens,
        "attention_mask": torch.ones_like(tokens),
        "mm_token_type_ids": kinds,  # without it generate() silently uses text positions
        "pixel_values": prompt.pixels,
        "image_grid_thw": torch.tensor([[1, *prompt.grid]]),
    }


@torch.inference_mode()
def their_logits(model: Any, prompt: Prompt, ids: Sequence[int] = ()) -> Tensor:
    model.model.rope_deltas = None  # shared mutable state, stale across requests
    return model(**their_inputs(prompt, ids), use_cache=False).logits[0]


def distance(a: Tensor, b: Tensor) -> float:
    assert a.shape == b.shape
    return float((a - b).abs().max())


def start(model: OcrModel, prompts: Sequence[Prompt], n_free: int) -> DecodeSession:
    with torch.inference_mode():
        return prefill(model, prompts, model.encode_images(prompts)[1], n_free)


def test_logits_of_single_prompts(name: str, ours: Checkpoint, theirs: Any) -> None:
    for prompt in make_prompts(name, CELLS, seed=10):
        expected = their_logits(theirs, prompt)
        logits, _ = causal_forward(ours.model, prompt, [])
        assert distance(logits, expected) < TOLERANCE
        assert distance(start(ours.model, [prompt], 0).first_logits[0], expected[-1]) < TOLERANCE
        assert expected.std() > 0.3  # the bound means something


def test_vision_features(name: str, ours: Checkpoint, theirs: Any) -> None:
    prompts = make_prompts(name, CELLS, seed=20)
    grids = torch.tensor([[1, *prompt.grid] for prompt in prompts])
    with torch.inference_mode():
        cells, merged = ours.model.encode_images(prompts)
        expected = theirs.model.visual(torch.cat([prompt.pixels for prompt in prompts]), grid_thw=grids)
    assert distance(cells, expected.last_hidden_state) < TOLERANCE
    assert distance(merged, expected.pooler_output) < TOLERANCE


def test_a_batch_of_different_lengths_and_its_teacher_forced_continuation(
    name: str, ours: Checkpoint, theirs: Any
) -> None:
    prompts = make_prompts(name, [(2, 3), (1, 1), (4, 1), (1, 5)], seed=30)
    n_steps = 12
    text = torch.randint(15, 60, (len(prompts), n_steps), generator=torch.Generator().manual_seed(4))
    expected = torch.stack(
        [
            their_logits(theirs, prompt, row)[prompt.ids.numel() - 1 :]
            for prompt, row in zip(prompts, text.tolist(), strict=True)
        ]
    )
    session = start(ours.model, prompts, n_steps)
    assert distance(session.first_logits, expected[:, 0]) < TOLERANCE
    done = 0
    for n_rows in (1, 1, 4, 2, 3, 1):  # windows of any width, each row causal
        slots = session.lens[:, None] + done + torch.arange(n_rows)
        logits = session.step(text[:, done : done + n_rows], slots[:, 0], slots)
        assert distance(logits, expected[:, done + 1 : done + n_rows + 1]) < TOLERANCE
        done += n_rows
    assert done == n_steps


def test_greedy_generation(name: str, ours: Checkpoint, theirs: Any) -> None:
    """Our AR ids are transformers' ids, the end by a stop token of a set and by the limit included."""
    prompts, limit = make_prompts(name, [(2, 3), (1, 1), (1, 5)], seed=40), 24
    options = DecodeOptions(mask_id(), frozenset(), 8, "ar", limit)
    endless = [one.ids for one in decode_prompts(ours.model, prompts, options).sequences]
    assert [len(ids) for ids in endless] == [limit] * len(prompts)
    stops = frozenset({endless[0][4], endless[1][13]})
    options = DecodeOptions(mask_id(), stops, 8, "ar", limit)
    stopped = [one.ids for one in decode_prompts(ours.model, prompts, options).sequences]
    assert len(stopped[0]) < limit
    for prompt, without, within in zip(prompts, endless, stopped, strict=True):
        for stop_ids, ids in ((None, without), (sorted(stops), within)):
            theirs.model.rope_deltas = None
            output = theirs.generate(
                **their_inputs(prompt), max_new_tokens=limit, do_sample=False, eos_token_id=stop_ids,
                pad_token_id=0, suppress_tokens=[mask_id()],
            )  # fmt: skip
            assert output[0, prompt.ids.numel() :].tolist() == ids


@pytest.mark.parametrize("shard_size", ["50GB", "60KB"], ids=["one file", "shards"])
def test_a_folder_written_by_transformers(name: str, folder: Path, tmp_path: Path, shard_size: str) -> None:
    torch.manual_seed(SEEDS[name])
    config = transformers.AutoConfig.from_pretrained(folder)
    model = transformers.GlmOcrForConditionalGeneration(config).float().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * (0.2 if parameter.dim() > 1 else 0.5))
    model.save_pretrained(tmp_path, max_shard_size=shard_size)
    assert (len(list(tmp_path.glob("*.safetensors"))) > 1) == (shard_size == "60KB")
    for file in ("tokenizer.json", "preprocessor_config.json", "block_diffusion.json"):
        shutil.copy(folder / file, tmp_path)
    checkpoint = load_checkpoint(str(tmp_path))
    assert checkpoint.model.config == CONFIGS[name]
    for prompt in make_prompts(name, [(2, 3), (1, 4)], seed=50):
        expected = their_logits(model, prompt, [20, 21, 22])
        assert distance(causal_forward(checkpoint.model, prompt, [20, 21, 22])[0], expected) < TOLERANCE


def test_positions(name: str, theirs: Any) -> None:
    for prompt in make_prompts(name, CELLS):
        inputs = their_inputs(prompt)
        positions, deltas = theirs.model.get_rope_index(
            inputs["input_ids"], inputs["mm_token_type_ids"], inputs["image_grid_thw"]
        )
        assert torch.equal(prompt.positions, positions[:, 0])
        assert prompt.next_position - prompt.ids.numel() == deltas.item()


def test_their_tokenizer_reads_our_prompt_the_same(name: str, folder: Path) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    assert tokenizer.mask_token_id == mask_id()
    for task, (rows, columns) in zip(TASK_PROMPTS, [(1, 2), (2, 2), (3, 1)], strict=True):
        side = 2 * CONFIGS[name].vision.patch_size
        prompt = prompt_builder(name).build(random_image(columns * side, rows * side), task)  # type: ignore[arg-type]
        text = BEFORE_IMAGE + IMAGE_TOKEN * (rows * columns) + AFTER_IMAGE.format(task=TASK_PROMPTS[task])
        assert tokenizer(text)["input_ids"] == prompt.ids.tolist()
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        assert (prompt.ids == config["image_token_id"]).tolist() == prompt.is_image.tolist()


def their_patches(processor: Any, image: Image.Image) -> tuple[Tensor, tuple[int, int]]:
    batch = processor(image, return_tensors="pt")
    time, rows, columns = batch["image_grid_thw"][0].tolist()
    assert time == 1
    return batch["pixel_values"], (rows, columns)


SIZES_PX = [(448, 448), (1, 1), (30, 9), (9, 700), (28, 28), (451, 97), (120, 113), (133, 126), (640, 45)]


@pytest.mark.parametrize(("width", "height"), SIZES_PX)
@pytest.mark.parametrize("spec_name", ["glm-ocr", "nano", "gqa"])
def test_image_preprocessing(tmp_path: Path, spec_name: str, width: int, height: int) -> None:
    spec = ImageSpec() if spec_name == "glm-ocr" else image_spec(spec_name)
    image = random_image(width, height, seed=width)
    pixels, grid = image_patches(image, spec)
    expected, expected_grid = their_patches(their_processor(tmp_path, spec), image)
    assert grid == expected_grid
    assert distance(pixels, expected) < 1e-5


def their_processor(path: Path, spec: ImageSpec) -> Any:
    """Return transformers' processor, loaded from a file of our own export."""
    write_checkpoint(path, tiny_network("gqa"))
    edit_json(path / "preprocessor_config.json", lambda raw: raw.update(
        patch_size=spec.patch_size, image_mean=list(spec.mean), image_std=list(spec.std),
        size={"shortest_edge": spec.min_pixels, "longest_edge": spec.max_pixels},
    ))  # fmt: skip
    return transformers.models.glm46v.Glm46VImageProcessorPil.from_pretrained(path)


@pytest.mark.parametrize("mode", ["L", "1", "P", "CMYK", "RGBA", "LA"])
def test_images_of_every_mode(tmp_path: Path, mode: str) -> None:
    image = random_image(60, 40, seed=3)
    if mode in ("RGBA", "LA"):
        alpha = Image.fromarray(np.tile(np.linspace(0, 255, 60, dtype=np.uint8), (40, 1)))
        image = Image.merge("RGBA", [*image.split(), alpha]).convert(mode)
    else:
        image = image.convert(mode)
    expected, _ = their_patches(their_processor(tmp_path, image_spec("gqa")), image)
    assert distance(image_patches(image, image_spec("gqa"))[0], expected) < 1e-5


def test_the_tokenizer_fits_the_table() -> None:
    assert tiny_tokenizer().get_vocab_size() <= CONFIGS["gqa"].text.vocab_size
