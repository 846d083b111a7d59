"""An engine over weights that are trained elsewhere: it reads with them, and an unfit network is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.factories import random_image, tiny_network, write_checkpoint
from torch import Tensor

from gravityocr.document import Crop
from gravityocr.engine.engine import Engine, EngineConfig
from gravityocr.engine.live_weights import with_weights
from gravityocr.engine.uncut import UncutCrop, read_uncut
from gravityocr.errors import CheckpointError
from gravityocr.model.weights import weight_names

CROP = Crop(random_image(168, 84, 3), "text")


def stock_weights(seed: int) -> dict[str, Tensor]:
    """Give other weights under GLM-OCR's names; the patch embedding has the shape of a convolution there."""
    model = tiny_network(seed=seed)
    weights = {key: model.state_dict()[name] for name, key in weight_names(model).items()}
    patches = weights["model.visual.patch_embed.proj.weight"]
    side = model.config.vision.patch_size
    weights["model.visual.patch_embed.proj.weight"] = patches.view(len(patches), 3, -1, side, side)
    return weights


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    folder = write_checkpoint(tmp_path / "one", tiny_network(seed=1))
    return Engine.from_pretrained(str(folder), EngineConfig(decode="ar", log_probs=True), dtype="float32")


def reading(engine: Engine) -> tuple[tuple[int, ...], list[float]]:
    ((one,),) = read_uncut(engine, [UncutCrop(CROP, 12, (5,))])
    return tuple(one.ids), list(one.log_probs)


def test_it_reads_as_a_checkpoint_of_these_weights(engine: Engine, tmp_path: Path) -> None:
    before = reading(engine)
    folder = write_checkpoint(tmp_path / "two", tiny_network(seed=2))
    other = Engine.from_pretrained(str(folder), engine.config, dtype="float32")
    live = with_weights(engine, stock_weights(2))
    assert reading(live) == reading(other) != before
    back = with_weights(live, stock_weights(1))
    assert reading(back) == before


def test_half_precision_is_taken_up_in_full(engine: Engine, tmp_path: Path) -> None:
    rounded = {name: value.bfloat16() for name, value in stock_weights(2).items()}
    live = with_weights(engine, rounded)
    assert all(parameter.dtype == torch.float32 for parameter in live.checkpoint.model.parameters())
    again = with_weights(engine, {name: value.float() for name, value in rounded.items()})
    assert reading(live) == reading(again)


def test_the_trained_weights_are_copied_and_not_shared(engine: Engine) -> None:
    weights = stock_weights(2)
    live = with_weights(engine, weights)
    before = reading(live)
    for value in weights.values():
        value.zero_()
    assert reading(live) == before


@pytest.mark.parametrize("fault", ["missing", "misshapen"])
def test_an_unfit_network_is_named(engine: Engine, fault: str) -> None:
    weights = stock_weights(2)
    if fault == "missing":
        del weights["lm_head.weight"]
    else:
        weights["lm_head.weight"] = weights["lm_head.weight"][:-1]
    with pytest.raises(CheckpointError, match=r"no lm_head\.weight that fits"):
        with_weights(engine, weights)
