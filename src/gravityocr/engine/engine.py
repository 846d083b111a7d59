"""Crops in, recognitions out: pieces, batches, decoding, joining."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from PIL import Image

from gravityocr.config import check_numbers
from gravityocr.decoding import Decoded
from gravityocr.decoding.prompts import DecodedBatch, DecodeMode, DecodeOptions, decode_prompts
from gravityocr.document import Crop, Recognition, RegionStatus
from gravityocr.engine.crop_pieces import AnyPiece, join_pieces, split_into_pieces, token_limit
from gravityocr.engine.loops import without_repeated_tail
from gravityocr.errors import ConfigError, GravityOCRError
from gravityocr.model.checkpoint import MAX_BLOCK_SIZE, Checkpoint, load_checkpoint
from gravityocr.model.device import check_device, multiplies_bf16
from gravityocr.model.draft_head import DRAFT_HEAD_FILE, DraftHead
from gravityocr.model.prompt import Prompt, on_white

DTYPES = ("auto", "float32", "mixed", "bfloat16")
MAX_ASPECT = 100
MAX_TOKENS = 65536
MAX_THREADS = 256
SMALL_NETWORK = 50_000_000


@dataclass(frozen=True)
class EngineConfig:
    """How crops are read.

    *Units*: `max_tokens` per piece, y_1 included; `batch_tokens` bounds the prompt tokens of one batch, and with them
    its memory. `block_size` None is the checkpoint's own, as is `draft_head`, which switches the sequential draft head.
    `read_in_bf16` computes vision and prefill in bf16, which all modes share.
    """

    decode: DecodeMode = "self-spec"
    block_size: int | None = None
    max_tokens: int = 2048
    batch_tokens: int = 4096
    threshold: float = 0.9
    trace: bool = False
    draft_head: bool | None = None
    read_in_bf16: bool = False

    def __post_init__(self) -> None:
        check_numbers(
            self, "", optional=("block_size",), block_size=(1, MAX_BLOCK_SIZE), max_tokens=(1, MAX_TOKENS),
            batch_tokens=(1, 2**24), threshold=(0.0, 1.0),
        )  # fmt: skip


@dataclass
class _Piece:
    crop: int
    prompt: Prompt
    part: AnyPiece | None
    max_tokens: int
    decoded: Decoded | None = None


@dataclass
class CropRun:
    """What happened to one crop: the sequences of its pieces and its share of the seconds."""

    sequences: list[Decoded] = field(default_factory=list)
    parts: list[AnyPiece | None] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=lambda: {"vision": 0.0, "prefill": 0.0, "decode": 0.0})


class Engine:
    """Read crops with one checkpoint; it is a `Recognizer` of the pipeline."""

    def __init__(self, checkpoint: Checkpoint, config: EngineConfig | None = None) -> None:
        self.checkpoint = checkpoint
        self.config = config or EngineConfig()
        self.tasks = frozenset(checkpoint.diffusion.tasks)
        self.options = DecodeOptions(
            checkpoint.diffusion.mask_id,
            checkpoint.stop_ids,
            self.config.block_size or checkpoint.diffusion.bd_size,
            self.config.decode,
            self.config.max_tokens,
            self.config.threshold,
            self.config.trace,
            self._draft_head(),
            self.config.read_in_bf16,
        )

    def _draft_head(self) -> DraftHead | None:
        """Return the draft head where it is switched on.

        *Raises*: ConfigError where the configuration or the checkpoint asks for it, and the checkpoint has none.
        """
        wanted, head = self.config.draft_head, self.checkpoint.draft_head
        if wanted is None:
            wanted = self.checkpoint.diffusion.draft_head
        if wanted and head is None:
            remedy = "switch the head off (--draft-head off), or train one (gravityocr train CONFIG --draft-head DIR)"
            raise ConfigError(f"{self.checkpoint.path} has no {DRAFT_HEAD_FILE}: {remedy}")
        return head if wanted else None

    @classmethod
    def from_pretrained(cls, name: str = "nano", config: EngineConfig | None = None, dtype: str = "auto",
                        device: str = "cpu", n_threads: int | None = None) -> Engine:  # fmt: skip
        """Load a checkpoint by name or folder and return its engine.

        `dtype` "mixed" computes vision and prefill in bf16 and decodes in fp32; "auto" is that where the device
        multiplies bf16 faster, else "float32".

        `n_threads` sets torch's threads for the whole process. None gives networks of under 50 M parameters one thread,
        and leaves the others to torch: a small network's forwards are too short to share, and threads that wait for
        one another on a busy machine cost ten times the work.

        *Raises*: ConfigError for an unknown dtype or device, CheckpointError for a checkpoint that does not load.
        """
        if dtype not in DTYPES:
            raise ConfigError(f"unknown dtype {dtype!r}; choose one of {', '.join(DTYPES)}")
        if dtype == "auto":
            dtype = "mixed" if multiplies_bf16(check_device(device)) else "float32"
        if n_threads is not None and not 1 <= n_threads <= MAX_THREADS:
            raise ConfigError(f"{n_threads} threads: choose 1 to {MAX_THREADS}")
        loaded = load_checkpoint(name, torch.bfloat16 if dtype == "bfloat16" else torch.float32, device)
        engine = cls(loaded, replace(config or EngineConfig(), read_in_bf16=dtype == "mixed"))
        small = sum(parameter.numel() for parameter in engine.checkpoint.model.parameters()) < SMALL_NETWORK
        if n_threads or small:
            torch.set_num_threads(n_threads or 1)
        return engine

    def with_decode(self, mode: DecodeMode, block_size: int | None = None, draft_head: bool | None = None) -> Engine:
        """Return an engine over the same weights that decodes in another way."""
        config = replace(self.config, decode=mode, block_size=block_size, draft_head=draft_head)
        return Engine(self.checkpoint, config)

    def recognize(self, crops: Sequence[Crop]) -> list[Recognition]:
        """Read crops together, in input order.

        A crop whose task the checkpoint does not claim is `skipped`; one that cannot be prepared or read is `failed`;
        the others are not touched by it.
        """
        return [self.summarize(run) if isinstance(run, CropRun) else run for run in self.run(crops)]

    def run(self, crops: Sequence[Crop]) -> list[CropRun | Recognition]:
        """Read crops and return all that is known of each, or the recognition that says why it was not read."""
        outcome: list[CropRun | Recognition] = []
        pieces: list[_Piece] = []
        for number, crop in enumerate(crops):
            refused = self._refuse(crop)
            if refused is None:
                try:
                    pieces.extend(self._prepare(number, crop))
                except (GravityOCRError, OSError, ValueError) as error:
                    refused = Recognition("", "failed", f"the crop cannot be prepared: {error}")
            outcome.append(refused or CropRun())
        for batch in self._batches(pieces):
            prompts, limits = [piece.prompt for piece in batch], [piece.max_tokens for piece in batch]
            decoded = decode_prompts(self.checkpoint.model, prompts, self.options, limits)
            self._book(batch, decoded, outcome)
        for piece in pieces:
            run = outcome[piece.crop]
            assert isinstance(run, CropRun) and piece.decoded is not None
            run.sequences.append(piece.decoded)
            run.parts.append(piece.part)
        return outcome

    def _refuse(self, crop: Crop) -> Recognition | None:
        if crop.task not in self.tasks:
            claimed = ", ".join(sorted(self.tasks))
            return Recognition("", "skipped", f"the checkpoint does not read {crop.task}s (tasks: {claimed})")
        if min(crop.image.size) < 1:
            return Recognition("", "skipped", f"the crop is empty: {crop.image.width} x {crop.image.height} px")
        return None

    def _prepare(self, number: int, crop: Crop) -> list[_Piece]:
        prompts, whole = self.checkpoint.prompts, self.options.max_tokens
        parts = split_into_pieces(crop.image, crop.task, self.checkpoint.diffusion)
        if parts is None:
            return [_Piece(number, prompts.build(_pad_aspect(crop.image), crop.task), None, whole)]
        cell_px = prompts.spec.patch_size * prompts.spec.merge_size
        return [
            _Piece(number, prompts.build(part.image, crop.task), part, min(token_limit(part, cell_px), whole))
            for part in parts
        ]

    def _batches(self, pieces: Sequence[_Piece]) -> Iterator[list[_Piece]]:
        """Yield pieces of similar length together, since a batch runs as long as its longest piece."""
        batch: list[_Piece] = []
        n_tokens = 0
        for piece in sorted(pieces, key=lambda piece: piece.prompt.ids.numel()):
            size = piece.prompt.ids.numel()
            if batch and n_tokens + size > self.config.batch_tokens:
                yield batch
                batch, n_tokens = [], 0
            batch.append(piece)
            n_tokens += size
        if batch:
            yield batch

    def _book(self, batch: list[_Piece], decoded: DecodedBatch, outcome: list[CropRun | Recognition]) -> None:
        stages = {"vision": decoded.vision_s, "prefill": decoded.prefill_s, "decode": decoded.decode_s}
        total = sum(piece.prompt.ids.numel() for piece in batch)
        for piece, sequence in zip(batch, decoded.sequences, strict=True):
            piece.decoded = sequence
            run = outcome[piece.crop]
            assert isinstance(run, CropRun)
            # A batch's time is shared among its crops by their prompt tokens.
            for stage, seconds in stages.items():
                run.seconds[stage] += seconds * piece.prompt.ids.numel() / total

    def summarize(self, run: CropRun) -> Recognition:
        """Return the recognition of one crop: its pieces joined, its counts summed."""
        tokenizer = self.checkpoint.tokenizer
        texts = [tokenizer.decode(sequence.ids, skip_special_tokens=True) for sequence in run.sequences]
        most = self.options.max_tokens
        looped = [sequence.finish == "length" and len(sequence.ids) < most for sequence in run.sequences]
        whole = texts
        texts = [without_repeated_tail(text) if loop else text for text, loop in zip(texts, looped, strict=True)]
        parts = [part for part in run.parts if part is not None]
        text = join_pieces(texts, parts) if len(parts) == len(texts) else "\n".join(texts)
        n_cut = sum(sequence.finish == "length" for sequence in run.sequences)
        status: RegionStatus = "ok"
        error = None
        if n_cut and n_cut == sum(looped):
            status, error = "loop_cut", "a piece had more text than its size can hold, and was cut"
            error += "" if texts == whole else "; its repeated end was left out"
        elif n_cut:
            status, error = "truncated", f"a piece reached the limit of {most} tokens"
        return Recognition(
            text,
            status,
            error,
            n_tokens=sum(len(sequence.ids) for sequence in run.sequences),
            n_forwards=sum(sequence.n_forwards for sequence in run.sequences),
            n_rounds=sum(sequence.n_rounds for sequence in run.sequences),
            n_accepted=sum(sequence.n_accepted for sequence in run.sequences),
            seconds=run.seconds,
            ids=tuple(tuple(sequence.ids) for sequence in run.sequences),
        )


def _pad_aspect(image: Image.Image) -> Image.Image:
    """Pad the short side with white where a crop is too long and thin for the network's smallest grid."""
    width, height = image.size
    size = (max(width, height // MAX_ASPECT), max(height, width // MAX_ASPECT))
    if size == image.size:
        return image
    padded = Image.new("RGB", size, "white")
    padded.paste(on_white(image), (0, 0))
    return padded
