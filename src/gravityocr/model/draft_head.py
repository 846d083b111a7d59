"""The sequential draft head: an extension that tells each mask row what its left neighbours chose (not in the paper).

The rows of a block-diffusion draft choose their tokens independently, so neighbours often pick the same character or
skip one. The head adds to the logits of mask row j a term of its hidden state, the one before it and the two tokens
chosen before it. Only the drafter uses it: what is verified, and so the output, stays the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional as F

from gravityocr.errors import CheckpointError

DRAFT_HEAD_FILE = "draft_head.safetensors"
WIDTH = 256


class DraftHead(nn.Module):
    """Correct the logits of mask rows by what was chosen before them."""

    def __init__(self, hidden_size: int, vocab_size: int, width: int = WIDTH) -> None:
        super().__init__()
        self.from_hidden = nn.Linear(2 * hidden_size, width)
        self.last_token = nn.Embedding(vocab_size, width)
        self.token_before = nn.Embedding(vocab_size, width)
        self.to_hidden = nn.Linear(width, hidden_size, bias=False)
        nn.init.normal_(self.last_token.weight, std=0.3)
        nn.init.normal_(self.token_before.weight, std=0.3)
        nn.init.zeros_(self.to_hidden.weight)

    def context(self, hidden: Tensor, before: Tensor) -> Tensor:
        """Return what the hidden states say, for all rows at once.

        *Shapes*: hidden, before (that of the row before) [..., hidden] -> [..., width].
        """
        return self.from_hidden(torch.cat([hidden, before], dim=-1))

    def correction(self, context: Tensor, last: Tensor, before: Tensor) -> Tensor:
        """Return what is added to a row's hidden state.

        *Shapes*: context [..., width], last and before (the two tokens chosen before) [...] -> [..., hidden].
        """
        return self.to_hidden(F.silu(context + self.last_token(last) + self.token_before(before)))


def save_draft_head(head: DraftHead, folder: Path, dtype: torch.dtype = torch.bfloat16) -> None:
    """Write a head beside the checkpoint that it was trained on, atomically.

    *Raises*: CheckpointError for a head that is not finite, or where the folder cannot be written.
    """
    tensors = {name: value.detach().to("cpu", dtype).contiguous() for name, value in head.state_dict().items()}
    if not _all_finite(tensors):
        raise CheckpointError(f"{folder}: its draft head holds numbers that are not finite; train it again")
    part = folder / f"{DRAFT_HEAD_FILE}.part"
    try:
        save_file(tensors, str(part), metadata={"format": "pt"})
        part.replace(folder / DRAFT_HEAD_FILE)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{folder / DRAFT_HEAD_FILE} cannot be written ({error}); make some room") from error


def _all_finite(tensors: Mapping[str, Tensor]) -> bool:
    return all(bool(value.isfinite().all()) for value in tensors.values())


def load_draft_head(folder: Path, hidden_size: int, vocab_size: int, dtype: torch.dtype,
                    device: str) -> DraftHead | None:  # fmt: skip
    """Read a checkpoint's draft head; None where it has none.

    *Raises*: CheckpointError for a file that is broken or belongs to another network.
    """
    file = folder / DRAFT_HEAD_FILE
    if not file.exists():
        return None
    remedy = "train it again on this checkpoint, or remove it and set draft_head to false in block_diffusion.json"
    try:
        with safe_open(str(file), framework="pt") as handle:
            tensors = {key: handle.get_tensor(key) for key in handle.keys()}  # noqa: SIM118 (a handle is no mapping)
        if not all(value.is_floating_point() for value in tensors.values()) or not _all_finite(tensors):
            raise ValueError("its weights are no finite decimal numbers")
        if not tensors["from_hidden.bias"].numel():
            raise ValueError("its width is 0")
        with torch.device("meta"):  # no memory before the weights are known to fit
            head = DraftHead(hidden_size, vocab_size, int(tensors["from_hidden.bias"].shape[0]))
        head.load_state_dict(tensors, assign=True)
    except (SafetensorError, OSError, KeyError, IndexError, ValueError, RuntimeError) as error:
        what = " ".join(str(error).split())
        raise CheckpointError(f"{file} is broken or belongs to another checkpoint ({what}); {remedy}") from error
    return head.to(device=device, dtype=dtype).eval().requires_grad_(False)
