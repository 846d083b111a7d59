"""The sequential draft head over real (tiny) networks: the output never changes, training helps the drafts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.factories import CONFIGS, make_prompts, mask_id, tiny_network, write_checkpoint
from tests.training_data import EOS_ID, MASK_ID, TOKENIZER, make_sample, write_data_dir
from tests.training_data import tiny_network as training_network

from gravityocr.config import load_config
from gravityocr.decoding.prompts import DecodeOptions, decode_prompts
from gravityocr.engine.engine import Engine, EngineConfig
from gravityocr.errors import CheckpointError, ConfigError
from gravityocr.model.checkpoint import BlockDiffusion, load_checkpoint
from gravityocr.model.draft_head import DRAFT_HEAD_FILE, DraftHead, save_draft_head
from gravityocr.training.draft_head import mask_rows, train_draft_head
from gravityocr.training.export import export_checkpoint
from gravityocr.training.nano import IMAGE_SPEC
from gravityocr.training.noise import NoiseConfig
from gravityocr.training.packing import pack
from gravityocr.training.run_config import TrainConfig

CELLS = [(2, 3), (1, 5), (3, 2)]
LIMITS = [24, 5, 40]


def random_head(name: str, seed: int, strength: float) -> DraftHead:
    torch.manual_seed(seed)
    head = DraftHead(CONFIGS[name].text.hidden_size, CONFIGS[name].text.vocab_size, 16).eval().requires_grad_(False)
    torch.nn.init.normal_(head.to_hidden.weight, std=strength)
    return head


@pytest.mark.parametrize("block_size", [1, 3, 16])
@pytest.mark.parametrize("name", list(CONFIGS))
@pytest.mark.parametrize("strength", [0.0, 3.0])
def test_whatever_the_head_drafts_the_output_is_ars(name: str, block_size: int, strength: float) -> None:
    model, prompts = tiny_network(name, block_size, (20, 21, 22, 23)), make_prompts(name, CELLS, block_size)
    plain = DecodeOptions(mask_id(), frozenset(), block_size, "ar", 100)
    head = replace(plain, mode="self-spec", draft_head=random_head(name, block_size, strength), trace=True)
    expected = decode_prompts(model, prompts, plain, LIMITS).sequences
    got = decode_prompts(model, prompts, head, LIMITS).sequences
    assert [one.ids for one in got] == [one.ids for one in expected]
    without = decode_prompts(model, prompts, replace(head, draft_head=None), LIMITS).sequences
    drafts = [[one.drafts for one in sequence.trace] for sequence in got]
    same = drafts == [[one.drafts for one in sequence.trace] for sequence in without]
    assert same == (strength == 0.0), "a head that says nothing drafts what the network drafts, another one does not"


def test_the_mask_token_is_never_drafted() -> None:
    head = random_head("gqa", 1, 0.0)
    torch.nn.init.constant_(head.from_hidden.bias, 1.0)
    model, prompts = tiny_network("gqa", 2), make_prompts("gqa", CELLS)
    with torch.no_grad():
        head.to_hidden.weight.copy_(model.lm_head.weight[mask_id()][:, None].expand(-1, 16) * 50)
    options = DecodeOptions(mask_id(), frozenset(), 6, "self-spec", 100, trace=True, draft_head=head)
    for sequence in decode_prompts(model, prompts, options, LIMITS).sequences:
        assert all(mask_id() not in one.drafts for one in sequence.trace)


def test_mask_rows_are_those_of_the_draft_window() -> None:
    samples = tuple(make_sample(n, NoiseConfig(4, "all", random_offset=True), seed=n) for n in (9, 5))
    packed = pack(samples, MASK_ID)
    rows, before, last, token_before, target = mask_rows(packed, samples)
    ids, stream = packed.ids.flatten(), packed.tags.stream.flatten()
    block, index = packed.tags.block.flatten(), packed.tags.index.flatten()
    assert (ids[rows] == MASK_ID).all() and rows.numel() == sum(sample.response.numel() - 2 for sample in samples)
    assert torch.equal(packed.diffusion_target.flatten()[rows], target)
    opens = stream[before] != stream[rows]
    assert torch.equal(index[before], index[rows] - 1)
    assert torch.equal(opens, block[before] != block[rows]), "a boundary is read causally"
    assert torch.equal(ids[before][opens], token_before[opens])
    assert len(last) == len(target) and EOS_ID in last


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a checkpoint whose tokenizer is nano's."""
    folder = tmp_path_factory.mktemp("checkpoint")
    diffusion = BlockDiffusion(4, MASK_ID, tasks=("text",))
    export_checkpoint(folder, training_network(3), TOKENIZER, IMAGE_SPEC, diffusion, EOS_ID)
    return folder


def test_training_the_head_lowers_the_loss_of_the_drafts(checkpoint: Path, tmp_path: Path) -> None:
    settings = [
        f"data.folder={write_data_dir(tmp_path)}", "train.n_samples=4", "train.bf16=false", "noise.block_size=4",
        "noise.random_offset=true", "train.log_every=1000", "optimizer.warmup=0.1", "train.steps=60",
    ]  # fmt: skip
    record = train_draft_head(load_config(TrainConfig, None, settings), checkpoint)
    assert (checkpoint / DRAFT_HEAD_FILE).is_file() and load_checkpoint(str(checkpoint)).draft_head is not None
    assert record["loss"] < 0.9 * record["loss_without_head"]


def test_a_head_of_no_checkpoint_is_refused_before_training(tmp_path: Path) -> None:
    for name in ("nano", "nowhere"):
        with pytest.raises(ConfigError, match=f"--draft-head {name} is no folder"):
            train_draft_head(TrainConfig(), Path(name))
    network = training_network(3)
    network.lm_head.weight.data[0] = 3e38  # finite, but no logit is
    diffusion = BlockDiffusion(4, MASK_ID, tasks=("text",))
    export_checkpoint(tmp_path, network, TOKENIZER, IMAGE_SPEC, diffusion, EOS_ID)
    settings = [f"data.folder={write_data_dir(tmp_path)}", "train.n_samples=2", "train.bf16=false"]
    with pytest.raises(CheckpointError, match="the loss of step 0 is not finite"):
        train_draft_head(load_config(TrainConfig, None, settings), tmp_path)
    assert not (tmp_path / DRAFT_HEAD_FILE).exists()


def test_the_head_is_switched_by_configuration(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path, tiny_network("gqa", 1))
    engine = Engine.from_pretrained(str(folder))
    assert engine.options.draft_head is None
    with pytest.raises(ConfigError, match=DRAFT_HEAD_FILE):
        Engine.from_pretrained(str(folder), EngineConfig(draft_head=True))
    write_checkpoint(folder, tiny_network("gqa", 1), draft_head=True)
    with pytest.raises(ConfigError, match=DRAFT_HEAD_FILE):
        Engine.from_pretrained(str(folder))
    assert Engine.from_pretrained(str(folder), EngineConfig(draft_head=False)).options.draft_head is None
    save_draft_head(random_head("gqa", 0, 1.0), folder)
    for asked, default, used in ((None, False, False), (None, True, True), (False, True, False), (True, False, True)):
        write_checkpoint(folder, tiny_network("gqa", 1), draft_head=default)
        engine = Engine.from_pretrained(str(folder), EngineConfig(draft_head=asked))
        assert (engine.options.draft_head is not None) == used
