"""What a run trains and on what: a new network or the one of a base checkpoint, and the source of its rows."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import torch
from PIL import Image
from tokenizers import Tokenizer

from gravityocr.model.checkpoint import MASK_TOKEN, BlockDiffusion, Checkpoint, load_checkpoint
from gravityocr.model.formula_pieces import FormulaPieceSpec
from gravityocr.model.ocr_model import OcrModel
from gravityocr.model.pieces import PieceSpec
from gravityocr.model.prompt import PromptBuilder, token_id
from gravityocr.model.table_pieces import TablePieceSpec
from gravityocr.training.corpora.region_shards import RegionFile
from gravityocr.training.export import export_adapted, export_checkpoint
from gravityocr.training.glyphs import GlyphHeads
from gravityocr.training.joint import RowData, SkippedSample
from gravityocr.training.nano import EOS_TOKEN, IMAGE_SPEC, MARKUP_TOKENS, build_tokenizer, new_network
from gravityocr.training.noise import NoiseConfig, corrupt
from gravityocr.training.packing import Sample, fill_response
from gravityocr.training.parallel import Parallel
from gravityocr.training.piece_sizes import oversized_regions, oversized_warning
from gravityocr.training.pool_tokens import count_pool_tokens, pool_files
from gravityocr.training.region_source import RegionSource
from gravityocr.training.run_config import TrainConfig
from gravityocr.training.sources import RowSource, SyntheticSource
from gravityocr.training.synthetic.charset import CHARSET


@dataclass
class NetworkSetup:
    """The network of a run, its auxiliary heads, and the words and pictures that it understands."""

    model: OcrModel
    heads: GlyphHeads | None
    tokenizer: Tokenizer
    prompts: PromptBuilder
    eos_id: int
    stop_ids: frozenset[int]
    mask_id: int
    base: Checkpoint | None = None
    skipped: tuple[SkippedSample, ...] = ()
    warning: str | None = None

    def export(
        self, path: Path, model: OcrModel, config: TrainConfig, averaged: AbstractContextManager[None]
    ) -> None:
        """Write the weights as an ordinary checkpoint."""
        run, noise = config.train, config.noise
        block_size = run.export_block_size or noise.block_size
        with averaged:
            if self.base is not None:
                old = self.base.diffusion
                diffusion = BlockDiffusion(
                    block_size, self.mask_id, config.loss.ar_weight, noise.mask_schedule, old.tasks, old.pieces,
                    old.formula_pieces, old.table_pieces, False, old.extra, old.text_format,
                )  # fmt: skip
                export_adapted(path, self.base, model, diffusion, torch.bfloat16)
                return
            diffusion = BlockDiffusion(
                block_size, self.mask_id, config.loss.ar_weight, noise.mask_schedule, run.tasks, PieceSpec(),
                FormulaPieceSpec() if "formula" in run.tasks else None,
                TablePieceSpec() if "table" in run.tasks else None, text_format="plain",
            )  # fmt: skip
            export_checkpoint(path, model, self.tokenizer, IMAGE_SPEC, diffusion, self.eos_id)


def new_setup(config: TrainConfig) -> NetworkSetup:
    """Build the network of a run with its first weights."""
    run = config.train
    if run.base is not None:
        base = load_checkpoint(run.base)
        model = base.model.requires_grad_(True)
        stop_ids = base.stop_ids
        # GLM-OCR's first EOS, with which it also pads, is the lowest of its stop ids.
        eos_id = min(stop_ids)
        heads = _heads(config, model, eos_id)
        return NetworkSetup(model, heads, base.tokenizer, base.prompts, eos_id, stop_ids, base.diffusion.mask_id, base)
    tokenizer = build_tokenizer(CHARSET, MARKUP_TOKENS)
    eos_id, mask_id = token_id(tokenizer, EOS_TOKEN), token_id(tokenizer, MASK_TOKEN)
    model = new_network(run.seed, config.network)
    prompts = PromptBuilder(tokenizer, IMAGE_SPEC)
    heads = _heads(config, model, eos_id)
    return NetworkSetup(model, heads, tokenizer, prompts, eos_id, frozenset([eos_id]), mask_id)


def filler_row(setup: NetworkSetup, noise: NoiseConfig) -> RowData:
    """Return a row of one blank crop with an empty response, for a pass that must not train anything."""
    prompt = setup.prompts.build(Image.new("RGB", (64, 64), "white"), "text")
    response, n_supervised = fill_response([], setup.eos_id, noise.n_eos)
    corruption = corrupt(response.numel(), noise, torch.Generator().manual_seed(0))
    return RowData((Sample(prompt, response, n_supervised, corruption, "filler"),))


def _heads(config: TrainConfig, model: OcrModel, eos_id: int) -> GlyphHeads | None:
    text = model.config.text
    return GlyphHeads(text.hidden_size, text.vocab_size, eos_id) if config.glyphs.any else None


def build_source(config: TrainConfig, setup: NetworkSetup, parallel: Parallel) -> RowSource:
    """Open what the rows of a run come from; what a pool holds that cannot be trained on is noted in the setup."""
    with parallel.first():
        source = open_source(config, setup.prompts, setup.eos_id, Path(config.train.folder) / "pool-tokens.npz")
    if isinstance(source, RegionSource):
        setup.skipped = source.index.skipped
        if setup.base is not None:
            # One file of a shuffled pool tells enough.
            setup.warning = oversized_warning(oversized_regions(source.files[:1], setup.base.diffusion))
    return source


def open_source(config: TrainConfig, prompts: PromptBuilder, eos_id: int, cache: Path | None = None) -> RowSource:
    """Open the pool of a configuration, or the synthetic crops; `cache` keeps the token counts of a pool."""
    run, data = config.train, config.data
    if data.pool is None:
        return SyntheticSource(data, prompts, config.noise, eos_id, run.seed, run.n_samples)
    files = [RegionFile(file) for file in pool_files(data.pool, "train")]
    index = count_pool_tokens(files, prompts, config.noise, config.packing, cache)
    return RegionSource(files, index, prompts, config.noise, config.packing, eos_id, run.seed)
