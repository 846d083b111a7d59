"""The decoder when only one row of each sequence is wanted."""

from __future__ import annotations

import pytest
import torch
from tests.factories import CONFIGS, tiny_network
from torch import Tensor
from torch.nn import functional as F

from gravityocr.model.packed import packed_copy


class Attention:
    """Attend causally, the queries being those of all rows or of one row of each sequence; remember the keys."""

    def __init__(self, rows: Tensor | None = None) -> None:
        self.rows = rows
        self.keys: list[Tensor] = []

    def __call__(self, _layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self.keys.append(k)
        n = k.shape[2]
        mask = torch.ones(n, n, dtype=torch.bool).tril().expand(len(q), 1, n, n)
        if self.rows is not None:
            mask = mask[torch.arange(len(q)), :, self.rows][:, :, None]
        return F.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)


@pytest.mark.parametrize("name", list(CONFIGS))
@pytest.mark.parametrize("packed", [False, True])
@torch.inference_mode()
def test_one_row_of_each_sequence_is_that_of_all_rows(name: str, packed: bool) -> None:
    model = tiny_network(name, 9)
    decoder = (packed_copy(model, torch.float32) if packed else model).language_model
    tokens = torch.arange(21).view(3, 7)
    positions = torch.stack([torch.arange(7) * scale for scale in (1, 2, 3)])[:, None].expand(3, 3, 7)
    embedded = decoder.embed_tokens(tokens)
    rows = torch.tensor([6, 2, 4])
    everything, below, top = Attention(), Attention(), Attention(rows)
    full = decoder(embedded, positions, everything)
    chosen = decoder(embedded, positions, below, (rows, top))
    assert chosen.shape == (3, 1, full.shape[-1])
    torch.testing.assert_close(chosen[:, 0], full[torch.arange(3), rows], rtol=1e-5, atol=1e-5)
    for before, after in zip(everything.keys, below.keys + top.keys, strict=True):
        torch.testing.assert_close(after, before)
