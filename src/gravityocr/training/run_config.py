"""What decides a training run, and what a run knows of itself."""

from __future__ import annotations

from dataclasses import dataclass, field

from gravityocr.config import check_numbers
from gravityocr.document import Task
from gravityocr.errors import ConfigError
from gravityocr.model.device import DEVICE
from gravityocr.model.ocr_model import OcrConfig
from gravityocr.training.glyphs import GlyphConfig
from gravityocr.training.losses import LossConfig
from gravityocr.training.nano import NETWORK
from gravityocr.training.noise import NoiseConfig
from gravityocr.training.optimizer import OptimizerConfig
from gravityocr.training.sources import DataConfig
from gravityocr.training.validation import ValidationConfig


@dataclass(frozen=True)
class RunConfig:
    """Length, size and place of a run.

    The run ends after `n_steps`, or after `budget_s` of training time if that is set (the schedule then follows the
    time, and resuming goes on where the time stopped). `start_from` is the folder of a run, or a checkpoint, whose
    weights begin this one. Validation and export take the running mean of the weights where `ema`, its decay per step,
    is above 0. The checkpoint names `export_block_size` (None is the trained one) as its `bd_size`, and claims `tasks`.
    *Units*: `row_budget_tokens` forward tokens a packed row, or the longest sample's where that is more. Samples over
    `size_ratio` times as long as others of a step are packed apart: where attention is dense, short rows are cheap.
    """

    folder: str = "runs/nano"
    seed: int = 0
    n_steps: int = 1000
    budget_s: float | None = None
    n_processes: int = 1
    n_workers: int = 0
    n_samples: int = 16
    row_budget_tokens: int = 10240
    size_ratio: float = 1e9
    vision_only: float = 0.0
    start_from: str | None = None
    ema: float = 0.0
    device: str = "cpu"
    bf16: bool = True
    log_every: int = 20
    save_every_s: float = 120.0
    validate_every_s: float = 600.0
    export_block_size: int | None = None
    tasks: tuple[Task, ...] = ("text",)

    def __post_init__(self) -> None:
        check_numbers(
            self, "run.", optional=("budget_s", "export_block_size"), seed=(0, 2**63 - 1), n_steps=(1, 10**9),
            budget_s=(1e-3, 1e9), n_processes=(1, 256), n_workers=(0, 256), n_samples=(1, 10**6),
            row_budget_tokens=(1, 10**7), size_ratio=(1.0, 1e9), vision_only=(0.0, 1.0), ema=(0.0, 0.999999),
            log_every=(1, 10**9), save_every_s=(0.0, 1e9), validate_every_s=(0.0, 1e9), export_block_size=(1, 256),
        )  # fmt: skip
        if not self.folder:
            raise ConfigError("run.folder is empty; name the folder that the run writes to")
        if not DEVICE.fullmatch(self.device):
            raise ConfigError(f"run.device is {self.device!r}; choose cpu or cuda")


@dataclass(frozen=True)
class TrainConfig:
    """Everything that decides a training run."""

    run: RunConfig = field(default_factory=RunConfig)
    data: DataConfig = field(default_factory=DataConfig)
    network: OcrConfig = field(default_factory=lambda: NETWORK)
    noise: NoiseConfig = field(default_factory=NoiseConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    glyphs: GlyphConfig = field(default_factory=GlyphConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    validation: ValidationConfig = field(default_factory=ValidationConfig)

    def __post_init__(self) -> None:
        n_layers = self.network.text.num_hidden_layers
        if any(not 0 <= layer < n_layers for layer in self.glyphs.guide_layers):
            layers = self.glyphs.guide_layers
            raise ConfigError(f"glyphs.guide_layers {layers}: the network has layers 0 to {n_layers - 1}")


@dataclass
class Progress:
    """What a run knows of itself; saved with the weights."""

    step: int = 0
    n_samples: int = 0
    elapsed_s: float = 0.0
    glyph_accuracy: float = 0.0
    ramp_start: int = -1

    def difficulty(self, data: DataConfig) -> float:
        """Return the difficulty of the next crops, 0..1."""
        if self.ramp_start < 0:
            return 0.0
        return min(1.0, (self.n_samples - self.ramp_start) / max(1, data.n_ramp_samples))
