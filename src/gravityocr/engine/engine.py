"""Crops in, recognitions out: pieces, scheduling, joining."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch

from gravityocr.config import check_numbers
from gravityocr.decoding import Decoded
from gravityocr.decoding.acceptance import AcceptanceProfile
from gravityocr.decoding.guard import TieGuard
from gravityocr.decoding.prompts import DECODE_MODES, DecodeMode, DecodeOptions, Networks
from gravityocr.decoding.request import SequenceOptions
from gravityocr.decoding.sampling import Sampling
from gravityocr.document import Crop, Recognition, RegionStatus
from gravityocr.engine.costs import is_small
from gravityocr.engine.crop_pieces import AnyPiece, join_pieces, piece_reference
from gravityocr.engine.loops import without_repeated_tail
from gravityocr.engine.piece_prompts import prompts_of
from gravityocr.engine.precision import Precision, check_precision, precision_of
from gravityocr.engine.reference_text import folded
from gravityocr.engine.scheduler import Scheduler, Ticket
from gravityocr.errors import ConfigError, GravityOCRError
from gravityocr.model.checkpoint import MAX_BLOCK_SIZE, Checkpoint, load_checkpoint
from gravityocr.model.device import check_device
from gravityocr.model.draft_head import DRAFT_HEAD_FILE, DraftHead

MAX_TOKENS = 65536
MAX_THREADS = 256
ADAPTIVE_BLOCK_SIZE = 32
N_CANDIDATES = 0
MAX_REFERENCE_WORDS, _LONGEST_TOKEN = 5000, 16
Draft = Literal["auto", "diffusion", "text-layer", "none"]
DRAFTS: tuple[Draft, ...] = ("auto", "diffusion", "text-layer", "none")
Windows = Literal["adaptive", "fixed"]


@dataclass(frozen=True)
class EngineConfig:
    """How crops are read.

    `draft` says where drafts come from: "auto" a text layer where a crop has one and it pays, else block diffusion;
    "none" is plain AR. `windows` "adaptive" drafts and verifies what its measured cost is worth, "fixed" whole blocks;
    `n_candidates` mask blocks ride behind verified drafts (None: the default of the machine). `draft_head` None is the
    checkpoint's own choice. `acceptance_profile` simulates drafts. `static_steps` runs forwards of fixed shapes (None:
    on CUDA, as graphs). `exact_tokens` decodes so many tokens of every piece, past stop tokens, for simulations.
    *Units*: `max_tokens` per piece, y_1 included; `max_running` pieces are decoded together, fewer where their keys and
    values would take more than `cache_mib`; `batch_tokens` bounds the prompt tokens of one prefill; `block_size` None
    is 32 for adaptive windows, else the checkpoint's own; `guard_margin` in nats, used where decoding is in bf16.
    """

    decode: DecodeMode = "self-spec"
    block_size: int | None = None
    max_tokens: int = 2048
    batch_tokens: int = 4096
    threshold: float = 0.9
    trace: bool = False
    draft_head: bool | None = None
    draft: Draft = "auto"
    windows: Windows = "adaptive"
    n_candidates: int | None = None
    draft_steps: int = 1
    max_running: int = 64
    cache_mib: int = 4096
    sampling: Sampling = field(default_factory=Sampling)
    log_probs: bool = False
    stop_strings: tuple[str, ...] = ()
    guard_margin: float = 0.15
    acceptance_profile: AcceptanceProfile | None = None
    static_steps: bool | None = None
    exact_tokens: int | None = None

    def __post_init__(self) -> None:
        check_numbers(
            self, "", optional=("block_size", "n_candidates", "exact_tokens"), block_size=(1, MAX_BLOCK_SIZE),
            max_tokens=(1, MAX_TOKENS), batch_tokens=(1, 2**24), threshold=(0.0, 1.0), n_candidates=(0, 16),
            draft_steps=(1, 64), max_running=(1, 4096), cache_mib=(1, 2**24), exact_tokens=(1, MAX_TOKENS),
            guard_margin=(0.0, 100.0),
        )  # fmt: skip
        for name, value, known in (
            ("decode", self.decode, DECODE_MODES), ("draft", self.draft, DRAFTS),
            ("windows", self.windows, ("adaptive", "fixed")),
        ):  # fmt: skip
            if value not in known:
                raise ConfigError(f"unknown {name} {value!r}; choose one of {', '.join(known)}")
        self._check_types()
        if self.decode == "diffusion" and not (self.sampling.is_plain and not self.stop_strings):
            raise ConfigError("decode 'diffusion' knows neither sampling nor stop strings; choose 'self-spec' or 'ar'")
        if self.decode == "diffusion" and self.draft == "none":
            raise ConfigError("decode 'diffusion' with draft 'none' leaves nothing to decode by; leave one of them out")

    def _check_types(self) -> None:
        """Check what is no number. *Raises*: ConfigError naming the field."""
        for name, optional in (("trace", False), ("log_probs", False), ("draft_head", True), ("static_steps", True)):
            value = getattr(self, name)
            if type(value) is not bool and not (optional and value is None):
                raise ConfigError(f"{name} is {value!r}; choose True or False")
        if not isinstance(self.sampling, Sampling):
            raise ConfigError(f"sampling is {self.sampling!r}; give a gravityocr.decoding.Sampling")
        if self.acceptance_profile is not None and not isinstance(self.acceptance_profile, AcceptanceProfile):
            raise ConfigError(f"acceptance_profile is {self.acceptance_profile!r}; give an AcceptanceProfile")
        strings = self.stop_strings
        if not isinstance(strings, tuple) or not all(isinstance(one, str) and one for one in strings):
            raise ConfigError(f"stop strings {strings!r}: give a tuple of texts, none of them empty")


@dataclass
class _Piece:
    crop: int
    part: AnyPiece | None
    ticket: Ticket


@dataclass
class CropRun:
    """What happened to one crop: the sequences of its pieces and its share of the seconds."""

    sequences: list[Decoded] = field(default_factory=list)
    parts: list[AnyPiece | None] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=lambda: {"vision": 0.0, "prefill": 0.0, "decode": 0.0})


class Engine:
    """Read crops with one checkpoint; it is a `Recognizer` of the pipeline."""

    def __init__(
        self, checkpoint: Checkpoint, config: EngineConfig | None = None, precision: Precision | None = None
    ) -> None:
        self.checkpoint = checkpoint
        self.config = config or EngineConfig()
        self.precision = precision or precision_of(checkpoint.model, "float32")
        self.tasks = frozenset(checkpoint.diffusion.tasks)
        self.text_format = checkpoint.diffusion.text_format
        self.mode: DecodeMode = "ar" if self.config.draft == "none" else self.config.decode
        self.options = self._options()

    @property
    def networks(self) -> Networks:
        """Return the network in the precisions of its stages."""
        return self.precision.networks

    def _options(self) -> DecodeOptions:
        config, diffusion = self.config, self.checkpoint.diffusion
        adaptive = config.windows == "adaptive" and self.mode == "self-spec"
        guard = TieGuard(config.guard_margin) if self.precision.guarded else None
        head = self._draft_head()
        own = max(diffusion.bd_size, ADAPTIVE_BLOCK_SIZE) if adaptive else diffusion.bd_size
        simulated = config.acceptance_profile is not None
        reference_only = config.draft == "text-layer"
        return DecodeOptions(
            diffusion.mask_id,
            self.checkpoint.stop_ids,
            config.block_size or own,
            self.mode,
            config.max_tokens,
            config.threshold,
            config.trace,
            head,
            N_CANDIDATES if config.n_candidates is None else config.n_candidates,
            config.draft_steps,
            "reference" if reference_only else "diffusion" if simulated or config.draft == "diffusion" else "auto",
            self.precision.planner(head, diffusion.mask_id) if adaptive else None,
            guard,
            config.acceptance_profile,
            self.checkpoint.model.device.type == "cuda" if config.static_steps is None else config.static_steps,
            self.precision.costs().threads if self.precision.n_threads > 1 else None,
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
        """Load a checkpoint by name or folder and return its engine; see `precision_of` for `dtype`.

        `n_threads` bounds torch's threads, which are set for the whole process; each decode forward takes one or all of
        them, whichever was measured to be faster. None gives networks of under 50 M parameters one thread, and leaves
        the others to torch: threads that wait for one another on a busy machine cost ten times the work.

        *Raises*: ConfigError for an unknown dtype or device, CheckpointError for a checkpoint that does not load.
        """
        check_precision(dtype)
        if n_threads is not None and not 1 <= n_threads <= MAX_THREADS:
            raise ConfigError(f"{n_threads} threads: choose 1 to {MAX_THREADS}")
        check_device(device)
        loaded = load_checkpoint(name, torch.float32, device)
        if n_threads or is_small(loaded.model):
            torch.set_num_threads(n_threads or 1)
        return cls(loaded, config, precision_of(loaded.model, dtype, torch.get_num_threads()))

    def with_config(self, **overrides: Any) -> Engine:
        """Return an engine over the same weights whose configuration differs in the fields that are named.

        *Raises*: ConfigError for a field that does not exist.
        """
        unknown = sorted(set(overrides) - set(EngineConfig.__dataclass_fields__))
        if unknown:
            raise ConfigError(f"an engine has no {', '.join(unknown)}")
        return Engine(self.checkpoint, replace(self.config, **overrides), self.precision)

    def recognize(self, crops: Sequence[Crop]) -> list[Recognition]:
        """Read crops together, in input order.

        A crop whose task the checkpoint does not claim is `skipped`; one that cannot be prepared or read is `failed`;
        the others are not touched by it.
        """
        return [self.summarize(run) if isinstance(run, CropRun) else run for run in self.run(crops)]

    def run(self, crops: Sequence[Crop]) -> list[CropRun | Recognition]:
        """Read crops and return all that is known of each, or the recognition that says why it was not read."""
        if self.config.acceptance_profile is not None:
            answers = self.with_config(decode="ar", acceptance_profile=None).run(crops)
            return self._run(crops, [one.sequences if isinstance(one, CropRun) else [] for one in answers])
        return self._run(crops, None)

    def scheduler(self) -> Scheduler:
        """Return an empty scheduler of this engine's networks and options, for prompts that come and go."""
        return Scheduler(
            self.networks,
            self.options,
            max_running=self.config.max_running,
            batch_tokens=self.config.batch_tokens,
            cache_bytes=self.config.cache_mib * 2**20,
        )

    def _run(self, crops: Sequence[Crop], answers: list[list[Decoded]] | None) -> list[CropRun | Recognition]:
        outcome: list[CropRun | Recognition] = []
        pieces: list[_Piece] = []
        for number, crop in enumerate(crops):
            refused = self._refuse(crop)
            if refused is None:
                try:
                    # All or none: of a crop that fails on the way no piece may stay.
                    pieces.extend(list(self._prepare(number, crop, answers[number] if answers else None)))
                except (GravityOCRError, OSError, ValueError) as error:
                    refused = Recognition("", "failed", f"the crop cannot be prepared: {error}")
            outcome.append(refused or CropRun())
        scheduler = self.scheduler()
        # Prompts of similar length share a prefill, whose rectangle is as wide as its longest.
        for piece in sorted(pieces, key=lambda piece: piece.ticket.prompt.ids.numel()):
            scheduler.enqueue(piece.ticket)
        scheduler.run()
        for piece in pieces:
            run = outcome[piece.crop]
            assert isinstance(run, CropRun)
            run.sequences.append(piece.ticket.result())
            run.parts.append(piece.part)
            for stage, seconds in piece.ticket.seconds.items():
                run.seconds[stage] += seconds
        return outcome

    def _refuse(self, crop: Crop) -> Recognition | None:
        if crop.task not in self.tasks:
            claimed = ", ".join(sorted(self.tasks))
            return Recognition("", "skipped", f"the checkpoint does not read {crop.task}s (tasks: {claimed})")
        if min(crop.image.size) < 1:
            return Recognition("", "skipped", f"the crop is empty: {crop.image.width} x {crop.image.height} px")
        return None

    def _prepare(self, number: int, crop: Crop, answers: list[Decoded] | None) -> Iterable[_Piece]:
        for place, one in enumerate(prompts_of(self.checkpoint, crop, self.options.max_tokens)):
            limit, stops = one.max_tokens, self.checkpoint.stop_ids
            if self.config.exact_tokens is not None:
                limit, stops = self.config.exact_tokens, frozenset()
            reference = tuple(answers[place].ids) if answers else self._reference(crop, one.part, limit)
            options = SequenceOptions(
                limit, stops, self.options.block_size, self._sampling(number, place),
                self.config.log_probs, crop.task, reference, self.config.stop_strings, self._text,
            )  # fmt: skip
            yield _Piece(number, one.part, Ticket(one.prompt, options, self.mode))

    def _reference(self, crop: Crop, part: AnyPiece | None, limit: int) -> tuple[int, ...]:
        """Return what the crop's text layer says of a piece, as tokens, with the stop token behind it.

        It is cut where it is longer than the piece can be: such a layer does not belong to it.
        """
        words = crop.text_layer[:MAX_REFERENCE_WORDS]
        if not words or self.mode != "self-spec" or self.config.draft not in ("auto", "text-layer"):
            return ()
        if part is None:
            text = folded(" ".join(word.text for word in words)) if crop.task == "text" else ""
        else:
            text = piece_reference(part, words)
        if not text:
            return ()
        ids = self.checkpoint.tokenizer.encode(text[: _LONGEST_TOKEN * limit], add_special_tokens=False).ids
        return (*ids[:limit], min(self.checkpoint.stop_ids))

    def _sampling(self, crop: int, place: int) -> Sampling:
        """Return the sampling of one piece, whose noise is its own."""
        sampling = self.config.sampling
        if not sampling.temperature:
            return sampling
        digest = hashlib.sha256(f"{sampling.seed} {crop} {place}".encode()).digest()
        return replace(sampling, seed=int.from_bytes(digest[:7], "big"))

    def _text(self, ids: Sequence[int]) -> str:
        return self.checkpoint.tokenizer.decode(list(ids), skip_special_tokens=True)

    def summarize(self, run: CropRun) -> Recognition:
        """Return the recognition of one crop: its pieces joined, its counts summed."""
        texts = _up_to([self._text(sequence.ids) for sequence in run.sequences], self.config.stop_strings)
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
            n_hits=sum(sequence.n_hits for sequence in run.sequences),
            n_guarded=sum(sequence.n_guarded for sequence in run.sequences),
            seconds=run.seconds,
            ids=tuple(tuple(sequence.ids) for sequence in run.sequences),
        )


def _up_to(texts: Sequence[str], strings: Sequence[str]) -> list[str]:
    """Return the texts of a crop's pieces up to the first stop string; what follows it is empty."""
    for number, text in enumerate(texts):
        places = [text.find(string) for string in strings if string in text]
        if places:
            return [*texts[:number], text[: min(places)], *[""] * (len(texts) - number - 1)]
    return list(texts)
