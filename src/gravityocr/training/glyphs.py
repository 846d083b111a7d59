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
from gravityocr.model.text import Attend
from gravityocr.training.attention import Segment, segments_of
from gravityocr.training.packing import PackedRow

MAX_GLYPHS = 3
CLOSING = frozenset(["}", "}}", "}{", "}}{", "</td>", "</tr>", "</td></tr>", "\\end{array}", "\\\\ ", "&"])
PERIODS = (4.0, 8.0, 16.0, 32.0, 64.0, 128.0)


@dataclass(frozen=True)
class GlyphConfig:
    """Weights of the auxiliary losses, relative to the joint loss; 0 switches one off. The paper has none of them."""

    glyph_weight: float = 0.0
    index_weight: float = 0.0
    guide_weight: float = 0.0
    guide_layers: tuple[int, ...] = (1, 2)

    @property
    def any(self) -> bool:
        """Whether any of the losses counts."""
        return max(self.glyph_weight, self.index_weight, self.guide_weight) > 0

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
    """An `attend` of joint training that also collects the guide loss.

    The first head of each guided layer is drawn to the true cell: the loss is its mean negative log-attention there.
    """

    def __init__(self, row: PackedRow, truths: Sequence[GlyphTruth], layers: Sequence[int], inner: Attend) -> None:
        self.layers = set(layers)
        self.inner = inner
        self.guides = _guides(row, truths)
        self.losses: list[Tensor] = []

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend, and record the guide loss where the layer is guided."""
        if layer in self.layers and self.guides:
            sums = [guide.loss_sum(q, k) for guide in self.guides]
            self.losses.append(torch.stack(sums).sum() / sum(guide.rows.numel() for guide in self.guides))
        return self.inner(layer, q, k, v)

    def loss(self) -> Tensor:
        """Return the mean guide loss over the guided layers."""
        return torch.stack(self.losses).mean() if self.losses else torch.zeros(())


@dataclass(frozen=True)
class _Guide:
    """The guided predictions of one segment: the rows that predict, what they see, and the cells they shall look at.

    *Shapes*: rows [m] within the row, mask [m, n] and cells [m] within the segment of n tokens.
    """

    segment: Segment
    rows: Tensor
    mask: Tensor
    cells: Tensor

    def loss_sum(self, q: Tensor, k: Tensor) -> Tensor:
        # Autocast multiplies in bf16 whatever it is given, so the product is what has to become fp32.
        queries, keys = q[0, 0].index_select(0, self.rows), k[0, 0, self.segment.start : self.segment.end]
        scores = (queries @ keys.T).float() * q.shape[-1] ** -0.5
        attention = scores.masked_fill(~self.mask, float("-inf")).log_softmax(-1)
        return -attention.gather(1, self.cells[:, None]).sum()


def _guides(row: PackedRow, truths: Sequence[GlyphTruth]) -> list[_Guide]:
    guides = []
    for segment, place, truth in zip(segments_of(row), row.places, truths, strict=True):
        known = (truth.cell >= 0).nonzero()[:, 0]
        if not known.numel():
            continue
        first_cell = int(row.is_image[0, place.prefix : place.end].int().argmax())
        last_prefix = place.streams[0] - 1
        # Token i is predicted by row i - 1 of the stream, token 0 by the last prefix row.
        predicting = [torch.where(known > 0, column + known - 1, last_prefix) for column in place.streams]
        rows = torch.cat(predicting).to(row.ids.device)
        cells = (first_cell + truth.cell[known]).repeat(len(place.streams)).to(row.ids.device)
        guides.append(_Guide(segment, rows, segment.mask[rows - place.prefix], cells))
    return guides
