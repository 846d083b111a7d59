"""What `gravityocr bench` asks of the network itself: prompts, the cost of a forward, a judge of divergences."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
from torch import Tensor

from gravityocr.benchmark.costs import ForwardTimer
from gravityocr.benchmark.equality import Choice, Judge
from gravityocr.decoding.prompts import Networks
from gravityocr.decoding.sampling import bar_mask
from gravityocr.document import Crop
from gravityocr.engine.engine import Engine
from gravityocr.engine.piece_prompts import prompts_of
from gravityocr.model.checkpoint import Checkpoint
from gravityocr.model.ocr_model import DecodeSession, OcrModel, prefill
from gravityocr.model.prompt import Prompt

_WIDEST = 512


@torch.inference_mode()
def start(networks: Networks, prompts: Sequence[Prompt], n_free: int) -> DecodeSession:
    """Prefill prompts as the engine does."""
    session = prefill(networks.read, prompts, networks.read.encode_images(prompts)[1], n_free)
    session.model, session.exact = networks.decode, networks.exact
    return session


def forward_timer(engine: Engine, crop: Crop) -> ForwardTimer:
    """Return what times one forward of n sequences with r rows each, over the prefilled prompt of a crop's first piece.

    The rows overwrite the same slots again and again, so that every forward sees as much as the others.
    """
    networks, sessions = engine.networks, dict[int, DecodeSession]()
    prompt = next(prompts_of(engine.checkpoint, crop, 1)).prompt

    def timer(n_sequences: int, n_rows: int) -> float:
        if n_sequences not in sessions:
            sessions[n_sequences] = start(networks, [prompt] * n_sequences, _WIDEST)
        session = sessions[n_sequences]
        tokens = torch.full((n_sequences, n_rows), 1, dtype=torch.long, device=session.lens.device)
        limits = session.lens[:, None] + torch.arange(n_rows, device=session.lens.device)
        _settle(networks.decode)
        started = time.perf_counter()
        session.step(tokens, session.lens, limits)
        _settle(networks.decode)
        return time.perf_counter() - started

    return timer


def _settle(model: OcrModel) -> None:
    """Wait for what an accelerator still has to do."""
    if model.device.type == "cuda":
        torch.cuda.synchronize(model.device)


def judge(checkpoint: Checkpoint, networks: Networks, max_tokens: int) -> Judge:
    """Return what says which token a network would choose next, and by how much."""

    def choose(crop: Crop, piece: int, ids: Sequence[int]) -> Choice:
        prompt = [*prompts_of(checkpoint, crop, max_tokens)][piece].prompt
        logits = _next_logits(start(networks, [prompt], len(ids) + 1), ids)
        best = bar_mask(logits, checkpoint.diffusion.mask_id).topk(2)
        return Choice(int(best.indices[0]), float(best.values[0] - best.values[1]))

    return choose


def _next_logits(session: DecodeSession, ids: Sequence[int]) -> Tensor:
    """Return the logits behind a prompt and its response so far. *Shapes*: [vocab]."""
    if not ids:
        return session.first_logits[0]
    tokens = torch.tensor([list(ids)], device=session.lens.device)
    limits = session.lens[:, None] + torch.arange(len(ids), device=session.lens.device)
    return session.step(tokens, session.lens, limits)[0, -1]
