"""Glyph supervision: labels by hand, and a guide that points at the right cell and changes no output."""

from __future__ import annotations

import math

import pytest
import torch
from tests.training_data import EOS_ID, MASK_ID, features_of, make_sample, tiny_network

from gravityocr.model.masks import joint_mask
from gravityocr.training.attention import AttentionKind, attend_in, dense_attention
from gravityocr.training.glyphs import (
    MAX_GLYPHS,
    PERIODS,
    GlyphHeads,
    GlyphTruth,
    GuidedAttention,
    glyph_truth,
    neighbouring_cells,
)
from gravityocr.training.losses import packed_hidden
from gravityocr.training.noise import NoiseConfig
from gravityocr.training.packing import PackedRow, Sample, pack


def test_labels_of_a_hand_made_crop() -> None:
    # Two lines over 2 x 3 cells of 16 px: "abcd" crowds cell 1, a line break, "e" in the last cell.
    ids = [11, 12, 13, 14, 10, 15]
    centers = torch.tensor([[17.0, 3.0], [20.0, 5.0], [25.0, 5.0], [31.9, 15.9], [33.0, 8.0], [40.0, 20.0]])
    breaks = torch.tensor([False, False, False, False, True, False])
    truth = glyph_truth(ids, centers, breaks, columns=3, rows=2, cell_px=16, blank=0)
    blank = [0] * MAX_GLYPHS
    assert truth.cell.tolist() == [1, 1, 1, 1, -1, 5]
    assert truth.glyphs.tolist() == [blank, [11, 12, 13], blank, blank, blank, [15, 0, 0]]
    assert truth.index.tolist() == [-1, 0, -1, -1, -1, 5]  # the running index counts the line break


def test_centers_beyond_the_border_belong_to_the_border_cell() -> None:
    centers = torch.tensor([[-2.0, 5.0], [100.0, 50.0]])
    truth = glyph_truth([1, 2], centers, torch.tensor([False, False]), columns=2, rows=2, cell_px=16, blank=0)
    assert truth.cell.tolist() == [0, 3]


def test_heads_that_know_the_truth_lose_nothing() -> None:
    truth = glyph_truth(
        [5, 6, 7], torch.tensor([[8.0, 8.0], [12.0, 8.0], [40.0, 8.0]]), torch.zeros(3, dtype=torch.bool), 3, 1, 16, 0
    )
    heads = GlyphHeads(3, 9, blank=0)
    features = torch.eye(3)  # cell i is feature i, so the weights' columns are the answers
    with torch.no_grad():
        answers = torch.nn.functional.one_hot(truth.glyphs, 9).float()  # [cell, glyph, vocab]
        heads.glyph.weight.copy_(50 * answers.flatten(1).T)
        heads.glyph.bias.zero_()
        angles = torch.tensor([[2 * math.pi * i / period for period in PERIODS] for i in (0.0, 0.0, 2.0)])
        heads.index.weight.copy_(torch.cat([angles.sin(), angles.cos()], 1).T)
        heads.index.bias.zero_()
    with torch.no_grad():
        glyph, index, accuracy = heads(features, [truth])
    assert float(glyph) < 1e-6 and float(index) < 1e-10 and accuracy == 1.0
    with torch.no_grad():
        glyph, index, accuracy = heads(features[[2, 1, 0]], [truth])  # the cells exchanged
    assert float(glyph) > 10 and float(index) > 0.01 and accuracy < 1.0


def test_blank_cells_do_not_count_as_accuracy() -> None:
    truth = GlyphTruth(torch.tensor([[4, 0, 0], [0, 0, 0]]), torch.tensor([0.0, -1.0]), torch.tensor([0]))
    heads = GlyphHeads(2, 5, blank=0)
    with torch.no_grad():
        heads.glyph.weight.zero_()
        heads.glyph.bias.view(MAX_GLYPHS, 5).copy_(torch.tensor([9.0, 0, 0, 0, 0]).expand(MAX_GLYPHS, 5))
    assert heads(torch.eye(2), [truth])[2] == 0.0  # says blank everywhere


def two_samples() -> tuple[list[Sample], list[GlyphTruth], PackedRow]:
    """Two crops of 2 and 3 cells whose characters lie in cells told by hand."""
    noise = NoiseConfig(3)
    samples = [make_sample(3, noise, 1, (2, 4)), make_sample(2, noise, 2, (2, 6))]
    truths = [
        GlyphTruth(torch.zeros(2, MAX_GLYPHS), torch.zeros(2), torch.tensor([1, -1, 0])),
        GlyphTruth(torch.zeros(3, MAX_GLYPHS), torch.zeros(3), torch.tensor([2, 1])),
    ]
    return samples, truths, pack(samples, MASK_ID)


def guided_pairs(samples: list[Sample], truths: list[GlyphTruth], row: PackedRow) -> dict[int, int]:
    """Map each predicting column to the column of the cell of the character that it predicts, by the paper's shift."""
    pairs = {}
    for i, place in enumerate(row.places):
        prompt = samples[i].prompt
        cells = (place.prefix + prompt.is_image.nonzero()[:, 0]).tolist()
        for stream in place.streams:
            for token, cell in enumerate(truths[i].cell.tolist()):
                if cell >= 0:
                    column = stream + token - 1 if token else place.prefix + prompt.ids.numel() - 1
                    pairs[column] = cells[cell]
    return pairs


def test_the_guide_points_at_the_cell_of_the_predicted_character() -> None:
    samples, truths, row = two_samples()
    n = row.n_tokens
    pairs = guided_pairs(samples, truths, row)
    assert len(pairs) == 8  # two last prefix rows; one more character each in three streams
    q, k = torch.zeros(1, 2, n, n), torch.zeros(1, 1, n, n)
    k[0, 0] = torch.eye(n)
    for column, cell in pairs.items():
        q[0, 0, column, cell] = 40.0 * n**0.5
    guided = GuidedAttention(row, truths, (1,), dense_attention(row.tags))
    guided(0, -q, k, k)  # an unguided layer records nothing
    assert guided.loss() == 0 and guided.losses == []
    guided(1, q, k, k)
    assert float(guided.loss()) < 1e-6
    q[0, 0, 1:] = q[0, 0, :-1].clone()  # every query one row late
    late = GuidedAttention(row, truths, (1,), dense_attention(row.tags))
    late(1, q, k, k)
    assert float(late.loss()) > 5


def test_the_guide_loss_is_the_mean_negative_log_attention() -> None:
    samples, truths, row = two_samples()
    n = row.n_tokens
    flat = torch.zeros(1, 1, n, 4)
    guided = GuidedAttention(row, truths, (0, 1), dense_attention(row.tags))
    guided(0, flat, flat, flat)
    # Even attention: 1 / number of visible columns. The last prefix row counts once per stream.
    visible = joint_mask(row.tags)[0].sum(-1)
    logs = []
    for i, place in enumerate(row.places):
        for stream in place.streams:
            for token, cell in enumerate(truths[i].cell.tolist()):
                if cell >= 0:
                    column = stream + token - 1 if token else place.streams[0] - 1
                    logs.append(math.log(visible[column]))
    assert float(guided.loss()) == pytest.approx(sum(logs) / len(logs), rel=1e-5)


def test_only_the_first_head_is_guided() -> None:
    _, truths, row = two_samples()
    n = row.n_tokens
    q, k = torch.randn(1, 2, n, 4), torch.randn(1, 2, n, 4)
    losses = []
    for scale in (1.0, -3.0):
        guided = GuidedAttention(row, truths, (0,), dense_attention(row.tags))
        guided(0, torch.cat([q[:, :1], scale * q[:, 1:]], 1), k, k)
        losses.append(float(guided.loss()))
    assert losses[0] == losses[1]


@pytest.mark.parametrize("kind", ["dense", "segments"])
def test_guided_output_equals_unguided_output(kind: AttentionKind) -> None:
    samples, truths, row = two_samples()
    model = tiny_network()
    features = features_of(model, samples)
    guided = GuidedAttention(row, truths, (0, 1), attend_in(row, kind))
    with_guide = packed_hidden(model, row, features, guided)
    without = packed_hidden(model, row, features, attend_in(row, kind))
    assert torch.equal(with_guide, without)
    assert len(guided.losses) == 2 and guided.loss() > 0
    guided.loss().backward()
    gradient = model.language_model.layers[1].self_attn.q_proj.weight.grad
    head_dim = model.config.text.head_dim
    assert gradient[:head_dim].abs().max() > 0 and gradient[head_dim:].abs().max() == 0


def test_crops_without_characters_guide_nothing() -> None:
    sample = make_sample(0, NoiseConfig(3), 1)
    truth = GlyphTruth(torch.full((2, MAX_GLYPHS), EOS_ID), torch.full((2,), -1.0), torch.zeros(0, dtype=torch.long))
    row = pack([sample], MASK_ID)
    guided = GuidedAttention(row, [truth], (0,), dense_attention(row.tags))
    packed_hidden(tiny_network(), row, features_of(tiny_network(), [sample]), guided)
    assert float(guided.loss()) == 0.0


def test_markup_without_ink_is_guided_to_its_neighbours() -> None:
    tokens = ["$", "a", "^", "{", "b", "}", "$", "\n", "<td>", "</td>", "<td>", "c", "</td>"]
    cell = torch.tensor([-1, 3, -1, -1, 4, -1, -1, -1, -1, -1, -1, 9, -1])
    filled = neighbouring_cells(tokens, cell).tolist()
    assert filled == [3, 3, 4, 4, 4, 4, 9, -1, 9, 4, 9, 9, 9]
    assert neighbouring_cells(["{", "}"], torch.tensor([-1, -1])).tolist() == [-1, -1]
