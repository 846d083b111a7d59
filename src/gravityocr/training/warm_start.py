"""Begin a run with the weights of another one, whose vocabulary or number of layers may have been smaller."""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from gravityocr.errors import CheckpointError
from gravityocr.model.checkpoint import load_checkpoint, read_tokenizer
from gravityocr.model.ocr_model import OcrModel

_LAYER = re.compile(r"\.(?:layers|blocks)\.\d+\.")
_BRANCH_ENDS = ("post_self_attn_layernorm.weight", "post_mlp_layernorm.weight")
_NEW_ROW_SCALE = 0.3
# What torch.load raises for junk, and what its contents raise where they do not fit.
STATE_ERRORS = (
    OSError, EOFError, RuntimeError, ValueError, LookupError, TypeError, AttributeError, pickle.UnpicklingError,
)  # fmt: skip


@dataclass(frozen=True)
class VocabularyMove:
    """Where the tokens of a smaller vocabulary stand in a larger one.

    *Shapes*: old, new [n] the ids of the tokens that both have; the sizes count rows, reserves included. `spelled`
    names the new tokens that the old vocabulary writes as several.
    """

    old: Tensor
    new: Tensor
    old_size: int
    new_size: int
    spelled: tuple[tuple[int, tuple[int, ...]], ...] = ()


def vocabulary_move(old: Tokenizer, new: Tokenizer, old_size: int, new_size: int) -> VocabularyMove:
    """Find the tokens of `old` in `new`."""
    pairs = [(i, new.token_to_id(token)) for token, i in old.get_vocab().items()]
    known = torch.tensor([(i, j) for i, j in pairs if j is not None], dtype=torch.long).view(-1, 2)
    spelled = []
    for token, j in sorted(new.get_vocab().items(), key=lambda item: item[1]):
        ids = old.encode(token, add_special_tokens=False).ids if old.token_to_id(token) is None else []
        if len(ids) > 1 and "".join(old.id_to_token(i) or "" for i in ids) == token:
            spelled.append((j, tuple(ids)))
    return VocabularyMove(known[:, 0], known[:, 1], old_size, new_size, tuple(spelled))


@torch.no_grad()
def warm_start(module: nn.Module, weights: Mapping[str, Tensor], move: VocabularyMove) -> None:
    """Copy weights into a module of at least their size.

    A new token begins as the mean of those that spelled it, or else stays as it was drawn, at a smaller scale. A layer
    that the weights lack becomes the identity at first: the norms at the ends of its branches are zero.

    *Raises*: CheckpointError where a weight does not fit or is not finite.
    """
    for name, target in module.state_dict().items():
        source = weights.get(name)
        if source is None:
            if not _LAYER.search(name):
                raise CheckpointError(f"the weights to start from lack {name}; start from a run of this network")
            if name.endswith(_BRANCH_ENDS):
                target.zero_()
        elif not source.isfinite().all():
            raise CheckpointError(f"the weights to start from have a {name} that is not finite; start from others")
        elif source.shape == target.shape:
            target.copy_(source)
        else:
            _copy_rows(name, source, target, move)


def _copy_rows(name: str, source: Tensor, target: Tensor, move: VocabularyMove) -> None:
    """Copy the rows of known tokens; the glyph head stacks one vocabulary for each glyph of a cell."""
    n_stacked = source.shape[0] // move.old_size
    fits = source.shape[0] == n_stacked * move.old_size and target.shape[0] == n_stacked * move.new_size
    if not fits or not n_stacked or source.shape[1:] != target.shape[1:]:
        raise CheckpointError(f"{name}: {tuple(source.shape)} does not fit {tuple(target.shape)}")
    rows = target.view(n_stacked, move.new_size, *target.shape[1:])
    rows.mul_(_NEW_ROW_SCALE)
    known = source.view(n_stacked, move.old_size, *source.shape[1:]).to(rows.dtype)
    rows[:, move.new] = known[:, move.old]
    for token, spelling in move.spelled:
        rows[:, token] = known[:, list(spelling)].mean(dim=1)


def start_from(name: str, model: OcrModel, heads: nn.Module | None, tokenizer: Tokenizer) -> None:
    """Begin with the weights of a run (its folder holds `state.pt`) or of a checkpoint (`nano` or a folder).

    *Raises*: CheckpointError where they are missing or do not fit.
    """
    new_size = model.config.text.vocab_size
    if (Path(name) / "state.pt").is_file():
        weights, head_weights = _read_state(Path(name) / "state.pt")
        old_size = int(weights["lm_head.weight"].shape[0])
        old = read_tokenizer(Path(name) / "checkpoint", old_size)
        move = vocabulary_move(old, tokenizer, old_size, new_size)
        warm_start(model, weights, move)
        if heads is not None:
            warm_start(heads, head_weights, move)
        return
    checkpoint = load_checkpoint(name)
    move = vocabulary_move(checkpoint.tokenizer, tokenizer, checkpoint.model.config.text.vocab_size, new_size)
    warm_start(model, checkpoint.model.state_dict(), move)


def _read_state(file: Path) -> tuple[Mapping[str, Tensor], Mapping[str, Tensor]]:
    try:
        state = torch.load(file, map_location="cpu", weights_only=True)
        weights, head_weights = state["model"], state["heads"]
        if "lm_head.weight" not in weights:
            raise KeyError("lm_head.weight")
        if not all(isinstance(value, Tensor) and value.dim() for value in [*weights.values(), *head_weights.values()]):
            raise TypeError("its weights are no tensors")
    except STATE_ERRORS as error:
        what = f"train.start_from: {file} cannot be read ({error})"
        raise CheckpointError(f"{what}; name a run or a checkpoint") from error
    return weights, head_weights
