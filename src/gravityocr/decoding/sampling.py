"""The one place where logits become tokens, so that every decoder breaks ties, penalises and draws alike.

A drawn token is the largest of score / temperature + Gumbel noise, whose noise is a function of (seed, place in the
response, token). Whatever proposes a token, the verifier's draw at that place is thus the one that autoregressive
decoding would make: sampled speculation gives the same ids for the same seed, and with it the exact distribution.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from gravityocr.config import check_numbers
from gravityocr.errors import ConfigError

MAX_SEED = 2**62


@dataclass(frozen=True)
class Sampling:
    """How one sequence chooses its tokens; the default is greedy.

    Logit bias is added first, then `repetition_penalty` divides positive and multiplies negative scores of tokens that
    the response already holds, then `temperature` (0 is greedy) and the `top_p` nucleus apply.
    *Raises*: ConfigError for values out of range.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    seed: int = 0
    logit_bias: Mapping[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_numbers(
            self, "sampling.", temperature=(0.0, 100.0), top_p=(1e-6, 1.0), repetition_penalty=(0.01, 100.0),
            seed=(0, MAX_SEED),
        )  # fmt: skip
        for token, bias in self.logit_bias.items():
            if token < 0 or not -1e4 <= bias <= 1e4:
                raise ConfigError(f"sampling.logit_bias {token}: {bias}: give a token id and a bias within +-10000")

    @property
    def is_plain(self) -> bool:
        """Tell whether the token is simply the most probable one."""
        return not self.temperature and self.repetition_penalty == 1.0 and not self.logit_bias


def bar_mask(logits: Tensor, mask_id: int) -> Tensor:
    """Return an fp32 copy of the logits in which the mask token cannot win. *Shapes*: [..., vocab]."""
    barred = logits.to(torch.float32, copy=True)
    barred[..., mask_id] = -torch.inf
    return barred


def greedy(logits: Tensor, mask_id: int) -> Tensor:
    """Return the most probable tokens, the lowest id among equals.

    *Shapes*: logits [..., vocab] -> [...].
    """
    return bar_mask(logits, mask_id).argmax(dim=-1)


def greedy_with_confidence(logits: Tensor, mask_id: int) -> tuple[Tensor, Tensor]:
    """Return the greedy tokens and their probabilities, the mask token left out of the softmax.

    *Shapes*: logits [..., vocab] -> tokens [...], confidence [...].
    """
    barred = bar_mask(logits, mask_id)
    best, tokens = barred.max(dim=-1)
    return tokens, (best - barred.logsumexp(dim=-1)).exp()


_MIX = (-7046029254386353131, -4658895280553007687, -7723592293110705685)  # odd 64-bit constants of SplitMix64


def gumbel_noise(seeds: Tensor, places: Tensor, vocab_size: int) -> Tensor:
    """Return Gumbel noise that depends on the seed, the place and the token alone.

    *Shapes*: seeds [b], places [b, r] -> [b, r, vocab] float64.
    """
    tokens = torch.arange(vocab_size, device=seeds.device)
    state = _mixed(_mixed(seeds[:, None] + places * _MIX[0])[..., None] + tokens * _MIX[0])
    uniform = ((state >> 11) & (2**53 - 1)).double().add(0.5) / 2**53
    return -(-uniform.log()).log()


def _mixed(state: Tensor) -> Tensor:
    """Finish SplitMix64: int64 products wrap as unsigned ones do, and a mask makes the shifts logical."""
    state = state + _MIX[0]
    state = (state ^ ((state >> 30) & (2**34 - 1))) * _MIX[1]
    state = (state ^ ((state >> 27) & (2**37 - 1))) * _MIX[2]
    return state ^ ((state >> 31) & (2**33 - 1))


def nucleus(scores: Tensor, top_p: Tensor) -> Tensor:
    """Return the scores with all but the smallest set of tokens that holds `top_p` of the probability barred.

    *Shapes*: scores [b, r, vocab], top_p [b].
    """
    ordered, order = scores.sort(dim=-1, descending=True, stable=True)
    mass = ordered.softmax(dim=-1)
    outside = mass.cumsum(dim=-1) - mass >= top_p[:, None, None]
    outside[..., 0] = False
    return scores.masked_fill(torch.zeros_like(outside).scatter(-1, order, outside), -torch.inf)


@dataclass(frozen=True)
class Choosers:
    """The sampling of every running sequence as tensors.

    *Shapes*: temperature, top_p, penalty, seeds [b]; bias [b, vocab] or None.
    """

    temperature: Tensor
    top_p: Tensor
    penalty: Tensor
    seeds: Tensor
    bias: Tensor | None

    @classmethod
    def of(cls, samplings: list[Sampling], vocab_size: int, device: torch.device) -> Choosers:
        """Collect the sampling of sequences. *Raises*: ConfigError for a bias on a token that does not exist."""
        bias = None
        if any(one.logit_bias for one in samplings):
            bias = torch.zeros(len(samplings), vocab_size, device=device)
            for row, one in enumerate(samplings):
                for token, value in one.logit_bias.items():
                    if token >= vocab_size:
                        raise ConfigError(f"sampling.logit_bias: token {token} of {vocab_size} does not exist")
                    bias[row, token] = value

        def column(name: str) -> Tensor:
            return torch.tensor([getattr(one, name) for one in samplings], device=device)

        return cls(column("temperature").float(), column("top_p").float(), column("repetition_penalty").float(),
                   column("seed").long(), bias)  # fmt: skip

    def scores(self, logits: Tensor, mask_id: int, seen: Tensor | None, places: Tensor) -> Tensor:
        """Return what the largest of is chosen.

        *Shapes*: logits [b, r, vocab]; seen [b, r, vocab] bool, the tokens that the response holds before each row;
        places [b, r] -> [b, r, vocab].
        """
        scores = bar_mask(logits, mask_id)
        if self.bias is not None:
            scores = scores + self.bias[:, None]
        if seen is not None:
            penalty = self.penalty[:, None, None]
            scores = torch.where(seen, torch.where(scores > 0, scores / penalty, scores * penalty), scores)
        drawn = self.temperature > 0
        if not bool(drawn.any()):
            return scores
        warm = scores / torch.where(drawn, self.temperature, 1.0)[:, None, None]
        if bool((self.top_p < 1).any()):
            warm = nucleus(warm, torch.where(drawn, self.top_p, 1.0))
        noisy = warm.double() + gumbel_noise(self.seeds, places, logits.shape[-1])
        return torch.where(drawn[:, None, None], noisy, scores.double())


def seen_before(ids: list[list[int]], window: Tensor, vocab_size: int) -> Tensor:
    """Return which tokens each row of a causal window has before it, its own included.

    *Shapes*: `ids` are the committed tokens of each sequence, window [b, r] its boundary and drafts -> [b, r, vocab].
    """
    n_sequences, n_rows = window.shape
    seen = torch.zeros(n_sequences, n_rows, vocab_size, dtype=torch.bool, device=window.device)
    for row, committed in enumerate(ids):
        seen[row, :, committed] = True
    for column in range(1, n_rows):  # each draft is seen by its own row and by all behind it
        rows = torch.arange(n_sequences, device=window.device)
        seen[rows, column:, window[:, column].clamp(0)] = True
    return seen
