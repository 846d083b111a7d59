"""From prompts to token ids: one vision call, one prefill, and the lane that decodes them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from gravityocr.decoding.acceptance import AcceptanceProfile
from gravityocr.decoding.autoregressive import AutoregressiveLane
from gravityocr.decoding.batch import Batch, Lane, run
from gravityocr.decoding.diffusion import DiffusionLane
from gravityocr.decoding.guard import TieGuard
from gravityocr.decoding.plan import Planner
from gravityocr.decoding.request import Decoded, Request, SequenceOptions, window_slots
from gravityocr.decoding.sampling import Choosers, bar_mask
from gravityocr.decoding.sequential_draft import SequentialRows
from gravityocr.decoding.simulated import SimulatedRows
from gravityocr.decoding.speculative import Drafts, IndependentRows, Proposer, Speculation, SpeculativeLane
from gravityocr.errors import ConfigError
from gravityocr.model.device import ThreadPlan
from gravityocr.model.draft_head import DraftHead
from gravityocr.model.ocr_model import DecodeSession, OcrModel, prefill
from gravityocr.model.prompt import Prompt
from gravityocr.model.static_step import StaticSteps

DecodeMode = Literal["self-spec", "ar", "diffusion"]
DECODE_MODES: tuple[DecodeMode, ...] = ("self-spec", "ar", "diffusion")
_PATCHES_AT_ONCE = 1024


@dataclass(frozen=True)
class Networks:
    """One network in the precisions that its stages use.

    `read` computes vision and prefill, `decode` the forwards of decoding, `exact` is fp32. All decode modes share them.
    """

    exact: OcrModel
    read: OcrModel
    decode: OcrModel

    @classmethod
    def all_of(cls, model: OcrModel) -> Networks:
        """Use one network for everything."""
        return cls(model, model, model)


@dataclass(frozen=True)
class DecodeOptions:
    """How a batch is decoded; `mask_id` and `stop_ids` come from the checkpoint.

    `max_tokens` counts y_1. `threshold` is used by direct block diffusion only; what follows it by self-speculation
    only. Without a planner windows are fixed. `guard` lets fp32 decide near ties. `static_steps` runs forwards of fixed
    shapes, which CUDA replays as graphs. `threads` says how many threads each forward gets.
    """

    mask_id: int
    stop_ids: frozenset[int]
    block_size: int
    mode: DecodeMode = "self-spec"
    max_tokens: int = 2048
    threshold: float = 0.9
    trace: bool = False
    draft_head: DraftHead | None = None
    n_candidates: int = 0
    draft_steps: int = 1
    drafts: Drafts = "auto"
    planner: Planner | None = None
    guard: TieGuard | None = None
    profile: AcceptanceProfile | None = None
    static_steps: bool = False
    threads: ThreadPlan | None = None

    def __post_init__(self) -> None:
        if self.mode not in DECODE_MODES:
            raise ConfigError(f"unknown decode mode {self.mode!r}; choose one of {', '.join(DECODE_MODES)}")

    def sequence(self, max_tokens: int | None = None) -> SequenceOptions:
        """Return the options of one sequence, which may lower the limit."""
        most = self.max_tokens if max_tokens is None else min(self.max_tokens, max_tokens)
        return SequenceOptions(most, self.stop_ids, self.block_size)


@dataclass(frozen=True)
class ReadPrompts:
    """Prefilled prompts and their first tokens. *Shapes*: lens, first of `request` [b]."""

    session: DecodeSession
    request: Request
    first_log_probs: list[float]
    vision_s: float
    prefill_s: float


@dataclass(frozen=True)
class DecodedBatch:
    """The sequences of one batch in input order, and the seconds that each stage took for all of them together."""

    sequences: list[Decoded]
    vision_s: float
    prefill_s: float
    decode_s: float


def _encode(model: OcrModel, prompts: Sequence[Prompt]) -> Tensor:
    """Return the features of all crops; on a CPU a few at a time, whose activations stay in its caches."""
    if model.device.type != "cpu":
        return model.encode_images(prompts)[1]
    groups: list[list[Prompt]] = []
    n_patches = 0
    for prompt in prompts:
        size = prompt.pixels.shape[0]
        if not groups or n_patches + size > _PATCHES_AT_ONCE:
            groups.append([])
            n_patches = 0
        groups[-1].append(prompt)
        n_patches += size
    return torch.cat([model.encode_images(group)[1] for group in groups])


@torch.inference_mode()
def read_prompts(
    networks: Networks, prompts: Sequence[Prompt], options: Sequence[SequenceOptions], how: DecodeOptions
) -> ReadPrompts:
    """Encode the crops, write the prompts' K/V and choose each y_1; a prompt that comes again is read once."""
    if how.threads is not None:
        how.threads.use(how.threads.from_rows)
    began = time.perf_counter()
    places: dict[int, int] = {}
    rows = [places.setdefault(id(prompt), len(places)) for prompt in prompts]
    distinct = [prompts[rows.index(place)] for place in range(len(places))]
    features = _encode(networks.read, distinct)
    encoded = time.perf_counter()
    n_free = max(one.max_tokens for one in options)
    n_free += window_slots(max(one.block_size for one in options), how.n_candidates)
    session = prefill(networks.read, distinct, features, n_free)
    if len(distinct) < len(prompts):
        session.spread(torch.tensor(rows, device=session.lens.device))
    session.model, session.exact = networks.decode, networks.exact
    logits = session.first_logits[:, None]
    choosers = Choosers.of([one.sampling for one in options], logits.shape[-1], logits.device)
    nothing = torch.zeros(len(prompts), 1, dtype=torch.long, device=logits.device)
    first = choosers.scores(logits, how.mask_id, None, nothing).argmax(dim=-1)
    log_probs = torch.log_softmax(bar_mask(logits, how.mask_id), dim=-1).gather(-1, first[..., None])
    request = Request(session.lens, first[:, 0], tuple(options), how.mask_id)
    return ReadPrompts(session, request, log_probs.flatten().tolist(), encoded - began, time.perf_counter() - encoded)


def build_lane(session: DecodeSession, how: DecodeOptions) -> Lane:
    """Return an empty lane of the mode over a session's cache rows, to which the session's sequences are admitted."""
    session.threads = how.threads
    if how.static_steps:
        session.static = StaticSteps(session.model, graphs=session.model.device.type == "cuda")
    guard = how.guard if how.mode != "diffusion" else None
    batch = Batch(session, how.mask_id, guard)
    if how.mode == "ar":
        return AutoregressiveLane(batch)
    if how.mode == "diffusion":
        return DiffusionLane(batch, how.block_size, how.threshold)
    rows: Proposer = IndependentRows(session, how.mask_id)
    if how.draft_head is not None:
        rows = SequentialRows(session, how.draft_head, how.mask_id)
    if how.profile is not None:
        rows = SimulatedRows(rows, batch, how.profile)
    speculation = Speculation(how.block_size, how.n_candidates, how.draft_steps, how.drafts, how.trace)
    return SpeculativeLane(batch, speculation, rows, how.planner)


@torch.inference_mode()
def decode_prompts(
    networks: Networks | OcrModel,
    prompts: Sequence[Prompt],
    how: DecodeOptions,
    max_tokens: Sequence[int] | None = None,
) -> DecodedBatch:
    """Read a batch of prompts together; `max_tokens` may lower the limit per prompt.

    *Source*: section 4; the prefill yields y_1.
    """
    if isinstance(networks, OcrModel):
        networks = Networks.all_of(networks)
    limits: Sequence[int | None] = [None] * len(prompts) if max_tokens is None else max_tokens
    read = read_prompts(networks, prompts, [how.sequence(limit) for limit in limits], how)
    began = time.perf_counter()
    sequences = run(build_lane(read.session, how), read.request)
    return DecodedBatch(sequences, read.vision_s, read.prefill_s, time.perf_counter() - began)
