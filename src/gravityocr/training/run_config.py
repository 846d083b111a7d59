"""What decides a training run, and what a run knows of itself."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from gravityocr.config import check_numbers
from gravityocr.document import Task
from gravityocr.errors import ConfigError
from gravityocr.model.device import DEVICE
from gravityocr.model.ocr_model import OcrConfig
from gravityocr.training.attention import AttentionKind
from gravityocr.training.glyphs import GlyphConfig
from gravityocr.training.losses import LossConfig
from gravityocr.training.nano import NETWORK
from gravityocr.training.noise import NoiseConfig
from gravityocr.training.optimizer import OptimizerConfig, Part
from gravityocr.training.row_plan import PackingConfig
from gravityocr.training.sources import DataConfig
from gravityocr.training.validation import ValidationConfig


@dataclass(frozen=True)
class RunConfig:
    """Length, size and place of a run.

    The run ends after `steps`, or after `budget_s` of training time if that is set (the schedule then follows the
    time, and resuming goes on where the time stopped). A step is `accumulation` packed rows in each process; with
    `data.pool` these are planned rows, else each row holds `n_samples` synthetic samples.

    `base` names the checkpoint that is adapted: network, tokenizer and image settings are its own. Without it the
    network is new, and `start_from` (the folder of a run, or a checkpoint) may give it weights. `freeze` names parts
    that stay as they are. Held-out crops are read every `validate_every_s` seconds and every `validate_every` steps,
    and at the end. `attention` is `auto`: FlexAttention on a GPU, segment by segment on a CPU. Validation and
    export take the running mean of the weights where `ema`, its decay per step, is above 0. The checkpoint names
    `export_block_size` (None is the trained one) as its `bd_size`, and claims `tasks`.
    """

    folder: str = "runs/nano"
    seed: int = 0
    steps: int = 1000
    budget_s: float | None = None
    n_processes: int = 1
    n_workers: int = 0
    base: str | None = None
    start_from: str | None = None
    n_samples: int = 16
    accumulation: int = 1
    attention: Literal["auto", "dense", "segments", "flex"] = "auto"
    activation_checkpointing: bool = False
    freeze: tuple[Part, ...] = ()
    vision_only: float = 0.0
    ema: float = 0.0
    device: str = "cpu"
    bf16: bool = True
    tensorboard: bool = False
    log_every: int = 20
    save_every_s: float = 120.0
    validate_every_s: float | None = 600.0
    validate_every: int | None = None
    export_block_size: int | None = None
    tasks: tuple[Task, ...] = ("text",)

    def __post_init__(self) -> None:
        check_numbers(
            self, "train.", optional=("budget_s", "export_block_size", "validate_every", "validate_every_s"),
            seed=(0, 2**63 - 1), steps=(1, 10**9), budget_s=(1e-3, 1e9), n_processes=(1, 256), n_workers=(0, 256),
            n_samples=(1, 10**6), accumulation=(1, 10**6), vision_only=(0.0, 1.0), ema=(0.0, 0.999999),
            log_every=(1, 10**9), save_every_s=(0.0, 1e9), validate_every_s=(0.0, 1e9), validate_every=(1, 10**9),
            export_block_size=(1, 256),
        )  # fmt: skip
        if not self.folder:
            raise ConfigError("train.folder is empty; name the folder that the run writes to")
        if not DEVICE.fullmatch(self.device):
            raise ConfigError(f"train.device is {self.device!r}; choose cpu or cuda")
        if self.base is not None and self.start_from is not None:
            raise ConfigError("train.base and train.start_from exclude each other; keep base to adapt a checkpoint")
        if len(set(self.freeze)) == len(get_args(Part)):
            raise ConfigError("train.freeze names all parts; leave one to be trained")

    @property
    def attention_kind(self) -> AttentionKind:
        """Return the way to attend, `auto` being resolved for the device."""
        if self.attention != "auto":
            return self.attention
        return "segments" if self.device == "cpu" else "flex"


@dataclass(frozen=True)
class TrainConfig:
    """Everything that decides a training run; `network` counts only where there is no `train.base`."""

    train: RunConfig = field(default_factory=RunConfig)
    data: DataConfig = field(default_factory=DataConfig)
    packing: PackingConfig = field(default_factory=PackingConfig)
    network: OcrConfig = field(default_factory=lambda: NETWORK)
    noise: NoiseConfig = field(default_factory=NoiseConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    glyphs: GlyphConfig = field(default_factory=GlyphConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    validation: ValidationConfig = field(default_factory=ValidationConfig)

    @property
    def reading(self) -> ValidationConfig:
        """How held-out crops are read: in blocks of the size that the checkpoint will name, unless told otherwise."""
        size = self.validation.block_size or self.train.export_block_size or self.noise.block_size
        return replace(self.validation, block_size=size)

    def __post_init__(self) -> None:
        n_layers = self.network.text.num_hidden_layers
        layers = self.glyphs.guide_layers
        if self.train.base is None and any(not 0 <= layer < n_layers for layer in layers):
            raise ConfigError(f"glyphs.guide_layers {layers}: the network has layers 0 to {n_layers - 1}")
        if self.glyphs.any and self.data.pool is not None:
            raise ConfigError("glyphs: regions of data.pool have no places of glyphs; set all its weights to 0")
        if self.glyphs.guide_weight and self.train.activation_checkpointing:
            raise ConfigError("glyphs.guide_weight does not go with train.activation_checkpointing; set one off")
        if self.train.attention == "flex" and self.train.device == "cpu":
            raise ConfigError("train.attention flex cannot train on a CPU; set it to segments, or train.device to cuda")
        if self.glyphs.guide_weight and self.train.attention_kind == "flex":
            raise ConfigError("glyphs.guide_weight needs the scores; set train.attention to segments or dense")
        if self.train.vision_only and not self.glyphs.glyph_weight:
            raise ConfigError("train.vision_only trains on glyphs alone; set glyphs.glyph_weight above 0, or it to 0")


@dataclass
class Progress:
    """What a run knows of itself; saved with the weights."""

    step: int = 0
    n_rows: int = 0
    n_samples: int = 0
    n_tokens: int = 0
    n_skipped: int = 0
    elapsed_s: float = 0.0
    glyph_accuracy: float = 0.0
    ramp_start: int = -1

    def difficulty(self, data: DataConfig) -> float:
        """Return the difficulty of the next crops, 0..1."""
        if self.ramp_start < 0:
            return 0.0
        return min(1.0, (self.n_samples - self.ramp_start) / max(1, data.n_ramp_samples))
