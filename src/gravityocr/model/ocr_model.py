"""The network: vision tower, decoder and output layer, for training rows and for decoding sessions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from gravityocr.model.device import ThreadPlan
from gravityocr.model.kv_cache import KVCache
from gravityocr.model.prompt import Prompt
from gravityocr.model.static_step import StaticSteps
from gravityocr.model.text import Attend, TextConfig, TextDecoder
from gravityocr.model.vision import VisionConfig, VisionTower

PREFILL_ROWS = 2048


@dataclass(frozen=True)
class OcrConfig:
    """Sizes of the whole network."""

    vision: VisionConfig = field(default_factory=VisionConfig)
    text: TextConfig = field(default_factory=TextConfig)


class OcrModel(nn.Module):
    """One network in two roles; the role is chosen by the attention pattern alone.

    *Source*: section 1.
    """

    def __init__(self, config: OcrConfig) -> None:
        super().__init__()
        self.config = config
        self.visual = VisionTower(config.vision)
        self.language_model = TextDecoder(config.text)
        self.lm_head = nn.Linear(config.text.hidden_size, config.text.vocab_size, bias=False)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.lm_head.weight.device

    @property
    def dtype(self) -> torch.dtype:
        """Type of the weights."""
        return self.lm_head.weight.dtype

    def encode_images(self, prompts: Sequence[Prompt]) -> tuple[Tensor, Tensor]:
        """Encode the crops of all prompts in one call; see `VisionTower.forward`."""
        pixels = torch.cat([prompt.pixels for prompt in prompts]).to(self.device)
        return self.visual(pixels, [prompt.grid for prompt in prompts])

    def embed(self, ids: Tensor, is_image: Tensor, image_features: Tensor) -> Tensor:
        """Embed tokens, the image placeholders being replaced by the image features in order.

        *Shapes*: ids and is_image [b, n], image_features [is_image.sum(), hidden] -> [b, n, hidden].
        """
        embedded = self.language_model.embed_tokens(ids)
        return embedded.masked_scatter(is_image[..., None], image_features.to(embedded.dtype))

    def hidden(
        self, embedded: Tensor, positions: Tensor, attend: Attend, last: tuple[Tensor, Attend] | None = None
    ) -> Tensor:
        """Return the decoder's final hidden states, all or those of one row a sequence; see `TextDecoder.forward`."""
        return self.language_model(embedded, positions, attend, last)

    def logits(self, hidden: Tensor) -> Tensor:
        """Return fp32 logits."""
        return self.lm_head(hidden).float()


class DecodeSession:
    """A batch of prompts in the cache, ready to be decoded.

    It offers what the decoders ask for: `step`, `exact_step`, `keep` and `capacity` (see `gravityocr.decoding`).
    `exact` is the same network in fp32, where `model` computes in less. `static`, if set, runs forwards of fixed
    shapes; `threads`, if set, says how many threads a forward gets.
    """

    def __init__(
        self,
        model: OcrModel,
        cache: KVCache,
        lens: Tensor,
        deltas: Tensor,
        logits: Tensor,
        exact: OcrModel | None = None,
    ) -> None:
        self.model = model
        self.exact = exact or model
        self.cache = cache
        self.lens = lens
        self.deltas = deltas
        self.first_logits = logits
        self.static: StaticSteps | None = None
        self.threads: ThreadPlan | None = None

    @property
    def capacity(self) -> int:
        """Number of K/V slots per sequence."""
        return self.cache.capacity

    @torch.inference_mode()
    def keep(self, rows: Tensor) -> None:
        """Keep only the given sequences of the batch, in the given order."""
        self.cache.keep(rows)
        self.deltas = self.deltas[rows]

    @torch.inference_mode()
    def spread(self, rows: Tensor) -> None:
        """Hold each prefilled prompt as often as it is named, for several responses to one prompt."""
        self.cache.spread(rows)
        self.lens, self.deltas, self.first_logits = self.lens[rows], self.deltas[rows], self.first_logits[rows]

    @torch.inference_mode()
    def join(self, other: DecodeSession) -> None:
        """Append the sequences of another session."""
        self.cache.join(other.cache)
        self.deltas = torch.cat([self.deltas, other.deltas])

    @torch.inference_mode()
    def step(
        self, tokens: Tensor, start: Tensor, limits: Tensor, spans: Tensor | None = None, offsets: Tensor | None = None
    ) -> Tensor:
        """Run one forward over the given rows.

        *Shapes*: tokens and limits [b, r], start [b], spans [b, r, 2], offsets [b, r] -> logits [b, r, vocab].
        Row (b, i) writes slot `start[b] + i` and sees the slots `0..limits[b, i]` and those of its span; its position
        is that of its slot plus the offset.
        """
        return self.model.logits(self.step_hidden(tokens, start, limits, spans, offsets))

    @torch.inference_mode()
    def step_hidden(
        self, tokens: Tensor, start: Tensor, limits: Tensor, spans: Tensor | None = None, offsets: Tensor | None = None
    ) -> Tensor:
        """Run one forward and return the final hidden states; see `step`."""
        if self.threads is not None:
            self.threads.use(tokens.numel())
        if self.static is not None:
            return self.static.hidden(self.cache, tokens, start, limits, spans, offsets, self.deltas)
        window = self.cache.window(start, tokens.shape[1], limits, spans)
        positions = window.slots + self.deltas[:, None]
        if offsets is not None:
            positions = positions + offsets
        embedded = self.model.language_model.embed_tokens(tokens)
        return self.model.hidden(embedded, positions.expand(3, -1, -1), window)

    @torch.inference_mode()
    def exact_step(self, rows: Tensor, tokens: Tensor, start: Tensor) -> Tensor:
        """Run causal rows of some sequences through the fp32 network, which rewrites their K/V.

        *Shapes*: rows [n], tokens [n, r], start [n] -> logits [n, r, vocab].
        """
        if self.threads is not None:
            self.threads.use(tokens.numel())
        slots = start[:, None] + torch.arange(tokens.shape[1], device=start.device)
        window = self.cache.window(start, tokens.shape[1], slots, rows=rows)
        positions = (slots + self.deltas[rows][:, None]).expand(3, -1, -1)
        embedded = self.exact.language_model.embed_tokens(tokens)
        return self.exact.logits(self.exact.hidden(embedded, positions, window))


@torch.inference_mode()
def prefill(
    model: OcrModel, prompts: Sequence[Prompt], features: Tensor, n_free: int, exact: OcrModel | None = None
) -> DecodeSession:
    """Write the prompts' K/V and return the session, whose `first_logits` predict each first response token.

    Long prompts are written in chunks, which bounds the memory of a forward.

    *Shapes*: features [n_cells of all prompts, hidden]; `n_free` slots stay free behind the longest prompt.
    """
    text = model.config.text
    lens = torch.tensor([prompt.ids.numel() for prompt in prompts], device=model.device)
    longest = int(lens.max())
    n = len(prompts)
    # Shorter prompts are padded on the right; the padding's slots lie behind `lens` and are overwritten.
    ids = torch.zeros(n, longest, dtype=torch.long)
    is_image = torch.zeros(n, longest, dtype=torch.bool)
    positions = torch.zeros(3, n, longest, dtype=torch.long)
    for i, prompt in enumerate(prompts):
        size = prompt.ids.numel()
        ids[i, :size] = prompt.ids
        is_image[i, :size] = prompt.is_image
        positions[:, i, :size] = prompt.positions
    cache = KVCache(
        text.num_hidden_layers, n, text.num_key_value_heads, longest + n_free, text.head_dim, model.dtype, model.device
    )
    embedded, positions = (
        model.embed(ids.to(model.device), is_image.to(model.device), features),
        positions.to(model.device),
    )
    last = embedded.new_zeros(n, embedded.shape[-1])
    for first in range(0, longest, PREFILL_ROWS):
        rows = torch.arange(first, min(first + PREFILL_ROWS, longest), device=model.device)
        window = cache.window(rows[:1].expand(n), rows.numel(), rows.expand(n, -1))
        place = lens - 1 - first
        here, place = (place >= 0) & (place < rows.numel()), place.clamp(0, rows.numel() - 1)
        # All keys and values are wanted, but of the last layer's output only the rows that predict y_1.
        top = window.of_rows(place)
        hidden = model.hidden(embedded[:, first : first + PREFILL_ROWS], positions[:, :, rows], window, (place, top))
        last = torch.where(here[:, None], hidden[:, 0], last)
    deltas = torch.tensor([prompt.next_position for prompt in prompts], device=model.device) - lens
    return DecodeSession(model, cache, lens, deltas, model.logits(last), exact)
