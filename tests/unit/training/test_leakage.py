"""No leakage: what a changed token of a packed row can reach, through the whole network."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.training_data import LETTER_IDS, MASK_ID, features_of, make_sample, tiny_network
from torch import Tensor

from gravityocr.model.masks import CLEAN, CORRUPT_A, PREFIX
from gravityocr.model.ocr_model import OcrModel
from gravityocr.training.attention import AttentionKind, attend_in
from gravityocr.training.losses import packed_hidden
from gravityocr.training.noise import NoiseConfig
from gravityocr.training.packing import IGNORE, PackedRow, Sample, pack

pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without")

SAME = 1e-10
"""In double precision, where rounding stays below 1e-13 and a real influence is far above 1e-8."""


class Row:
    """One packed row of two samples of three blocks each (the last one short), and what a changed token does."""

    def __init__(self, kind: AttentionKind) -> None:
        noise = NoiseConfig(4, "uniform", random_offset=True)
        self.samples: list[Sample] = [make_sample(7, noise, 5, (2, 4)), make_sample(6, noise, 6, (2, 6))]
        self.model: OcrModel = tiny_network().double()
        self.packed: PackedRow = pack(self.samples, MASK_ID)
        self.features: Tensor = features_of(self.model, self.samples).detach()
        self.attend = attend_in(self.packed, kind)
        self.known: dict[int, Tensor] = {}
        self.before: Tensor = self.hidden(self.packed.ids, self.features)

    @torch.no_grad()
    def hidden(self, ids: Tensor, features: Tensor) -> Tensor:
        return packed_hidden(self.model, replace(self.packed, ids=ids), features, self.attend)[0]

    def changed(self, column: int) -> Tensor:
        """Tell for each row whether another token in `column` changes it."""
        if column not in self.known:
            ids = self.packed.ids.clone()
            ids[0, column] = next(i for i in LETTER_IDS if i != ids[0, column])
            self.known[column] = self.differs(self.hidden(ids, self.features))
        return self.known[column]

    def differs(self, after: Tensor) -> Tensor:
        return (after - self.before).abs().amax(-1) > SAME

    def where(self, segment: int, stream: int) -> Tensor:
        tags = self.packed.tags
        return ((tags.segment == segment) & (tags.stream == stream))[0]

    def columns(self, segment: int, stream: int) -> list[int]:
        return self.where(segment, stream).nonzero()[:, 0].tolist()


@pytest.fixture(scope="module", params=["dense", "segments", "flex"])
def row(request: pytest.FixtureRequest) -> Row:
    return Row(request.param)


CORRUPT = (CORRUPT_A, CORRUPT_A + 1)


@pytest.mark.parametrize("segment", [0, 1])
def test_a_clean_token_never_reaches_its_own_or_an_earlier_corrupt_block(row: Row, segment: int) -> None:
    block = row.packed.tags.block[0]
    assert block[row.where(segment, CLEAN)].max() >= 2
    for column in row.columns(segment, CLEAN):
        changed = row.changed(column)
        for stream in CORRUPT:
            here = row.where(segment, stream)
            assert not changed[here & (block <= block[column])].any()
            assert changed[here & (block > block[column])].all()


def test_a_clean_token_reaches_itself_and_the_clean_tokens_behind_it(row: Row) -> None:
    clean = row.where(0, CLEAN).nonzero()[:, 0]
    for column in clean.tolist():
        changed = row.changed(column)
        assert torch.equal(changed[clean], clean >= column)


@pytest.mark.parametrize("segment", [0, 1])
@pytest.mark.parametrize("stream", CORRUPT)
def test_a_corrupt_token_reaches_its_own_block_of_its_own_stream_only(row: Row, segment: int, stream: int) -> None:
    block = row.packed.tags.block[0]
    for column in row.columns(segment, stream):
        wanted = row.where(segment, stream) & (block == block[column])
        assert torch.equal(row.changed(column), wanted)


def test_responses_never_reach_the_prefix(row: Row) -> None:
    prefix = row.where(0, PREFIX) | row.where(1, PREFIX)
    for segment in (0, 1):
        for stream in (CLEAN, *CORRUPT):
            for column in row.columns(segment, stream):
                assert not row.changed(column)[prefix].any()


def test_a_prefix_token_reaches_all_streams_of_its_sample_and_no_other_sample(row: Row) -> None:
    segment = row.packed.tags.segment[0]
    for number in (0, 1):
        prefix = row.where(number, PREFIX)
        column = row.columns(number, PREFIX)[0]
        assert torch.equal(row.changed(column), segment == number)
        last = row.columns(number, PREFIX)[-1]
        assert not row.changed(last)[prefix & (torch.arange(len(segment)) < last)].any()


def test_a_crop_reaches_its_own_sample_only(row: Row) -> None:
    n_cells = int(row.samples[0].prompt.is_image.sum())
    segment = row.packed.tags.segment[0]
    for number, cell in ((0, n_cells - 1), (1, n_cells)):
        features = row.features.clone()
        features[cell] += 1.0
        changed = row.differs(row.hidden(row.packed.ids, features))
        assert changed.any() and not changed[segment != number].any()


@pytest.mark.parametrize("segment", [0, 1])
def test_no_diffusion_target_is_seen_by_the_row_that_predicts_it(row: Row, segment: int) -> None:
    """Checked at the targets themselves: the clean y_i and all behind it leave the prediction of y_i alone."""
    tags, targets = row.packed.tags, row.packed.diffusion_target[0]
    block_of = row.samples[segment].corruption.block
    clean = row.columns(segment, CLEAN)
    moved = torch.stack([row.changed(column) for column in clean])  # [token, row]
    predicting = ((targets != IGNORE) & (tags.segment[0] == segment)).nonzero()[:, 0].tolist()
    assert len(predicting) == len(clean)  # every response token is restored exactly once
    for column in predicting:
        token = 0 if tags.stream[0, column] == PREFIX else int(tags.index[0, column]) + 1
        assert targets[column] == row.samples[segment].response[token]
        start = int((block_of == block_of[token]).nonzero()[0, 0])
        assert not moved[start:, column].any()


def test_no_ar_target_is_seen_by_the_row_that_predicts_it(row: Row) -> None:
    tags, targets = row.packed.tags, row.packed.ar_target[0]
    clean = row.columns(0, CLEAN)
    moved = torch.stack([row.changed(column) for column in clean])
    for column in ((targets != IGNORE) & (tags.segment[0] == 0)).nonzero()[:, 0].tolist():
        token = 0 if tags.stream[0, column] == PREFIX else int(tags.index[0, column]) + 1
        assert not moved[token:, column].any()
        assert moved[:token, column].all()


@pytest.mark.parametrize("kind", ["dense", "segments"])
def test_no_gradient_flows_from_a_prediction_to_a_clean_token_that_it_must_not_see(kind: AttentionKind) -> None:
    """Exactly zero, through all layers, from every row that predicts a diffusion target; and not zero where it sees."""
    row = Row(kind)
    packed, model = row.packed, row.model
    tags, targets = packed.tags, packed.diffusion_target[0]
    embedded = model.embed(packed.ids, packed.is_image, row.features).detach().requires_grad_()
    logits = model.logits(model.hidden(embedded, packed.positions, row.attend))[0]
    predicting = (targets != IGNORE).nonzero()[:, 0].tolist()
    n_visible = 0
    for column in predicting:
        (gradient,) = torch.autograd.grad(logits[column, targets[column]], embedded, retain_graph=True)
        touched = gradient[0].abs().amax(-1)
        sample = int(tags.segment[0, column])
        token = 0 if tags.stream[0, column] == PREFIX else int(tags.index[0, column]) + 1
        block = row.samples[sample].corruption.block
        clean = row.where(sample, CLEAN)
        # The block of the predicting row decides: the last row of a block predicts the first token of the next.
        own = -1 if tags.stream[0, column] == PREFIX else int(tags.block[0, column])
        assert own <= int(block[token])
        hidden = clean & (tags.block[0] >= max(own, 0))
        assert hidden.any() and (touched[hidden] == 0).all()
        assert (touched[clean & (tags.block[0] < own)] > 0).all()
        assert (touched[tags.segment[0] != sample] == 0).all()
        n_visible += int((clean & (tags.block[0] < own)).sum())
    assert n_visible > 0
