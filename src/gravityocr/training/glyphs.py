"""Dense glyph supervision for networks that start from nothing (ours, not part of the paper).

A synthetic crop knows where each of its characters lies. Three auxiliary losses use that: every vision cell names the
characters under it, every cell knows the running index of its first character, and one attention head of two decoder
layers is guided to the cell of the character that its row predicts. The heads are dropped after training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gravityocr.config import check_numbers
from gravityocr.model.attention import attention
from gravityocr.model.masks import joint_mask
from gravityocr.training.packing import PackedBatch

MAX_GLYPHS = 3
CLOSING = frozenset(["}", "}}", "}{", "}}{", "</td>", "</tr>", "</td></tr>", "\\end{array}", "\\\\ ", "&"])
PERIODS = (4.0, 8.0, 16.0, 32.0, 64.0, 128.0)


@dataclass(frozen=True)
class GlyphConfig:
    """Weights of the auxiliary losses, relative to the joint loss; 0 switches one off."""

    glyph_weight: float = 0.7
    index_weight: float = 0.35
    guide_weight: float = 0.3
    guide_layers: tuple[int, ...] = (1, 2)

    def __post_init__(self) -> None:
        weight = (0.0, 1e6)
        check_numbers(self, "glyphs.", glyph_weight=weight, index_weight=weight, guide_weight=weight)


@dataclass(frozen=True)
class GlyphTruth:
    """Where the characters of one crop lie.

    *Shapes*: glyphs [n_cells, MAX_GLYPHS] token ids, blank = the EOS id; index [n_cells], the running index of the
    first character, -1 where there is none; cell [n_tokens], where attention is guided to, -1 for nowhere.
    """

    glyphs: Tensor
    index: Tensor
    cell: Tensor


def glyph_truth(ids: Sequence[int], centers_px: Tensor, is_break: Tensor, columns: int, rows: int, cell_px: int,
                blank: int) -> GlyphTruth:  # fmt: skip
    """Return the labels of a crop of `rows` x `columns` cells from the characters' centres.

    *Shapes*: centers_px [n, 2] (x, y), is_break [n] bool.
    """
    where = (centers_px / cell_px).floor().long()
    cell = where[:, 1].clamp(0, rows - 1) * columns + where[:, 0].clamp(0, columns - 1)
    cell = cell.masked_fill(is_break, -1)
    glyphs = torch.full((rows * columns, MAX_GLYPHS), blank)
    index = torch.full((rows * columns,), -1.0)
    used = [0] * (rows * columns)
    for i, (token, place) in enumerate(zip(ids, cell.tolist(), strict=True)):
        if place < 0:
            continue
        if used[place] == 0:
            index[place] = i
        if used[place] < MAX_GLYPHS:
            glyphs[place, used[place]] = token
            used[place] += 1
    return GlyphTruth(glyphs, index, cell)


def neighbouring_cells(tokens: Sequence[str], cell: Tensor) -> Tensor:
    """Give markup without ink the cell of the glyph that it closes, or else of the next one; line breaks have none.

    A row that predicts a brace has to know where in the crop it is as much as one that predicts a letter.
    *Shapes*: cell [n_tokens], -1 for a token without ink -> the same.
    """
    known = cell.tolist()
    behind = before = -1
    nexts = [behind := place if place >= 0 else behind for place in reversed(known)][::-1]
    lasts = [before := place if place >= 0 else before for place in known]
    filled = []
    for token, place, following, last in zip(tokens, known, nexts, lasts, strict=True):
        if place < 0 and token != "\n":
            choices = (last, following) if token in CLOSING else (following, last)
            place = choices[0] if choices[0] >= 0 else choices[1]
        filled.append(place)
    return torch.tensor(filled, dtype=cell.dtype)


class GlyphHeads(nn.Module):
    """The glyph and index heads over the vision features."""

    def __init__(self, width: int, vocab_size: int, blank: int) -> None:
        super().__init__()
        self.blank = blank
        self.glyph = nn.Linear(width, MAX_GLYPHS * vocab_size)
        self.index = nn.Linear(width, 2 * len(PERIODS))

    def forward(self, features: Tensor, truths: Sequence[GlyphTruth]) -> tuple[Tensor, Tensor, float]:
        """Return the glyph loss, the index loss and the accuracy on non-blank glyphs.

        *Shapes*: features [n_cells of all truths, width].
        """
        target = torch.cat([truth.glyphs for truth in truths]).to(features.device)
        logits = self.glyph(features).float().view(*target.shape, -1)
        glyph_loss = F.cross_entropy(logits.flatten(0, 1), target.flatten())
        real = target != self.blank
        n_right = int(torch.count_nonzero(logits.argmax(-1)[real] == target[real]))
        accuracy = n_right / max(1, int(torch.count_nonzero(real)))
        index = torch.cat([truth.index for truth in truths]).to(features.device)
        known = index >= 0
        angles = index[known, None] * (2 * torch.pi / torch.tensor(PERIODS, device=features.device))
        waves = torch.cat([angles.sin(), angles.cos()], -1)
        index_loss = F.mse_loss(self.index(features[known]).float(), waves)
        return glyph_loss, index_loss, accuracy


class GuidedAttention:
    """The dense-mask `attend` of joint training that also collects the guide loss.

    The first head of each guided layer is drawn to the true cell: the loss is its mean negative log-attention there.
    """

    def __init__(self, batch: PackedBatch, truths: Sequence[GlyphTruth], layers: Sequence[int]) -> None:
        self.mask = joint_mask(batch.tags)[:, None]
        self.layers = set(layers)
        self.rows, self.columns, self.cells = _guide_targets(batch, truths)
        self.losses: list[Tensor] = []

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend, and record the guide loss where the layer is guided."""
        if layer in self.layers and self.rows.numel():
            # Autocast multiplies in bf16 whatever it is given, so the product is what has to become fp32.
            scores = (q[:, 0] @ k[:, 0].transpose(-1, -2)).float() * q.shape[-1] ** -0.5
            scores = scores.masked_fill(~self.mask[:, 0], float("-inf"))
            picked = scores[self.rows, self.columns].log_softmax(-1)
            self.losses.append(-picked.gather(1, self.cells[:, None]).mean())
        return attention(q, k, v, self.mask)

    def loss(self) -> Tensor:
        """Return the mean guide loss over the guided layers."""
        return torch.stack(self.losses).mean() if self.losses else torch.zeros((), device=self.mask.device)


def _guide_targets(batch: PackedBatch, truths: Sequence[GlyphTruth]) -> tuple[Tensor, Tensor, Tensor]:
    """Return (row, column of the predicting row, column of the true cell) of every guided prediction."""
    rows, columns, cells = [], [], []
    for sample, place in zip(batch.order, batch.places, strict=True):
        cell = truths[sample].cell
        known = (cell >= 0).nonzero()[:, 0]
        first_cell = place.prefix + int(batch.is_image[place.row, place.prefix :].int().argmax())
        last_prefix = place.streams[0] - 1
        for column in place.streams:
            # Token i is predicted by row i - 1 of the stream, token 0 by the last prefix row.
            predicting = torch.where(known > 0, column + known - 1, last_prefix)
            rows.append(torch.full_like(known, place.row))
            columns.append(predicting)
            cells.append(first_cell + cell[known])
    device = batch.ids.device
    return torch.cat(rows).to(device), torch.cat(columns).to(device), torch.cat(cells).to(device)
