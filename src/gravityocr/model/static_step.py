"""Decode forwards of fixed shapes, so that a GPU replays them as one captured graph.

A forward is padded to the next power of two of sequences and attends over the whole cache under its mask, whatever is
in use of it. One buffer set, and on CUDA one graph, serves all forwards of a (sequences, rows) bucket, for drafting,
verifying and both at once: they differ in the contents of the mask alone.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gravityocr.model.kv_cache import KVCache

if TYPE_CHECKING:
    from gravityocr.model.ocr_model import OcrModel

MAX_BUCKETS = 32
_WARM_UP = 3


def bucket_of(n_sequences: int) -> int:
    """Return the sequences of the bucket that a forward falls into."""
    return 1 << (n_sequences - 1).bit_length()


class _Forward:
    """The buffers of one bucket and, on CUDA, the graph over them."""

    def __init__(self, model: OcrModel, cache: KVCache, n_sequences: int, n_rows: int, capture: bool) -> None:
        self.model, self.cache = model, cache
        device = model.device

        def zeros(*shape: int) -> Tensor:
            return torch.zeros(*shape, dtype=torch.long, device=device)

        self.tokens, self.limits, self.offsets = (zeros(n_sequences, n_rows) for _ in range(3))
        self.spans, self.start, self.deltas = zeros(n_sequences, n_rows, 2), zeros(n_sequences), zeros(n_sequences)
        self.rows = torch.arange(n_rows, device=device)
        self.graph: torch.cuda.CUDAGraph | None = None
        self.hidden: Tensor | None = None
        if capture:
            self._capture()

    def _run(self) -> Tensor:
        slots = self.start[:, None] + self.rows
        window = self.cache.whole_window(slots, self.limits, self.spans)
        positions = (slots + self.deltas[:, None] + self.offsets).expand(3, -1, -1)
        return self.model.hidden(self.model.language_model.embed_tokens(self.tokens), positions, window)

    def _capture(self) -> None:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UP):
                self._run()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.hidden = self._run()

    def __call__(
        self,
        tokens: Tensor,
        start: Tensor,
        limits: Tensor,
        spans: Tensor | None,
        offsets: Tensor | None,
        deltas: Tensor,
    ) -> Tensor:
        n = len(tokens)
        # Padding rows belong to sequences that are not there: they write to rows of the cache that nobody uses.
        for buffer, value in ((self.tokens, tokens), (self.limits, limits), (self.start, start), (self.deltas, deltas)):
            buffer[:n].copy_(value)
            buffer[n:].zero_()
        slots = start[:, None] + self.rows
        self.spans[:n].copy_(torch.stack([slots, slots], dim=-1) if spans is None else spans)
        self.offsets.zero_()
        if offsets is not None:
            self.offsets[:n].copy_(offsets)
        if self.graph is None:
            return self._run()[:n]
        self.graph.replay()
        assert self.hidden is not None
        return self.hidden[:n].clone()  # the next replay overwrites it


class StaticSteps:
    """The static forwards of one session. `graphs` captures them, which only CUDA can."""

    def __init__(self, model: OcrModel, graphs: bool) -> None:
        self.model = model
        self.graphs = graphs
        self._forwards: OrderedDict[tuple[int, int, int], _Forward] = OrderedDict()

    def hidden(
        self,
        cache: KVCache,
        tokens: Tensor,
        start: Tensor,
        limits: Tensor,
        spans: Tensor | None,
        offsets: Tensor | None,
        deltas: Tensor,
    ) -> Tensor:
        """Run one forward and return the final hidden states; see `DecodeSession.step`."""
        n_sequences, n_rows = bucket_of(len(tokens)), tokens.shape[1]
        cache.reserve(n_sequences)
        key = (n_sequences, n_rows, cache.keys[0].data_ptr())  # a cache that has grown needs new graphs
        forward = self._forwards.get(key)
        if forward is None:
            while len(self._forwards) >= MAX_BUCKETS:
                self._forwards.popitem(last=False)
            forward = self._forwards[key] = _Forward(self.model, cache, n_sequences, n_rows, self.graphs)
        self._forwards.move_to_end(key)
        return forward(tokens, start, limits, spans, offsets, deltas)
