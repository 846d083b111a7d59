"""What decides a run of GRPO: the paper's settings by name, and how they become those of TRL's trainer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from gravityocr.config import check_numbers
from gravityocr.errors import ConfigError
from gravityocr.rl.evaluation import EvaluationConfig
from gravityocr.rl.prompt_choice import PromptConfig
from gravityocr.rl.reward_settings import RewardSettings

RolloutEngine = Literal["trainer", "engine", "vllm"]
ImportanceCorrection = Literal["token_truncate", "token_mask", "sequence_truncate", "sequence_mask", "none"]
_DEVICES = ("cpu", "cuda")


@dataclass(frozen=True)
class RlRunConfig:
    """Length, size and place of a run.

    `checkpoint` is where it starts and what its reference stays: nano, or a folder. A step takes
    `grpo.prompts_per_step` x `grpo.n_rollouts` completions; `micro_batch` of them go through the network at once in
    each process. `freeze` names parts that stay as they are. The state is saved every `save_every` steps, and
    `keep_states` of them are kept.
    """

    folder: str = "runs/grpo"
    checkpoint: str = "nano"
    seed: int = 0
    steps: int = 500
    n_processes: int = 1
    micro_batch: int = 4
    device: str = "cpu"
    bf16: bool = True
    gradient_checkpointing: bool = False
    freeze: tuple[Literal["vision", "embeddings", "decoder", "lm_head"], ...] = ()
    save_every: int = 50
    keep_states: int = 2
    log_every: int = 1
    tensorboard: bool = False

    def __post_init__(self) -> None:
        check_numbers(
            self, "rl.", seed=(0, 2**31 - 1), steps=(1, 10**9), n_processes=(1, 256), micro_batch=(1, 10**6),
            save_every=(1, 10**9), keep_states=(1, 1000), log_every=(1, 10**6),
        )  # fmt: skip
        for name in ("folder", "checkpoint"):
            if not getattr(self, name):
                raise ConfigError(f"rl.{name} is empty; name a folder")
        if self.device not in _DEVICES:
            raise ConfigError(f"rl.device is {self.device!r}; choose cpu or cuda")
        if len(set(self.freeze)) == 4:
            raise ConfigError("rl.freeze names all parts; leave one to be trained")


@dataclass(frozen=True)
class GrpoConfig:
    """The objective, with the names of the paper.

    `advantages` "group" standardises the rewards of a prompt's rollouts by their mean and standard deviation; "batch"
    divides by the deviation over the whole step; "mean" subtracts the mean alone. `loss` "token" weighs all tokens of
    a step alike, "sequence" all completions. `clip_low` and `clip_high` bound the ratio to 1 - low and 1 + high. `kl`
    is the weight of the divergence from the frozen start, `kl_unbiased` weighs its estimate by the ratio.
    `leave_out_truncated` takes completions cut by `max_tokens` out of the loss. `n_iterations` are updates per batch
    of rollouts. The image and the mask token are never sampled.

    *Source*: section 5.
    """

    prompts_per_step: int = 24
    n_rollouts: int = 28
    advantages: Literal["group", "batch", "mean"] = "group"
    loss: Literal["token", "sequence"] = "token"
    clip_low: float = 0.2
    clip_high: float = 0.28
    kl: float = 1e-3
    kl_unbiased: bool = False
    n_iterations: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 8448
    leave_out_truncated: bool = True

    def __post_init__(self) -> None:
        check_numbers(
            self, "grpo.", prompts_per_step=(1, 10**6), n_rollouts=(2, 10**4), clip_low=(0.0, 1.0),
            clip_high=(0.0, 100.0), kl=(0.0, 100.0), n_iterations=(1, 100), temperature=(0.01, 100.0),
            top_p=(0.01, 1.0), max_tokens=(1, 65536),
        )  # fmt: skip

    @property
    def n_completions(self) -> int:
        """Return how many completions a step has."""
        return self.prompts_per_step * self.n_rollouts


@dataclass(frozen=True)
class RolloutConfig:
    """Who samples.

    `engine` "trainer" is the trainer's own generate, "engine" ours, "vllm" a vLLM in the same process on a GPU. Ours
    decodes by `decode`, both ways with the same samples: the noise belongs to the place and the token. Where vLLM's
    probabilities differ from the trainer's, `importance_correction` weighs each token by their ratio, at most
    `importance_cap`. `n_compared` held-out regions show at the start how far our engine is from the trainer.
    """

    engine: RolloutEngine = "engine"
    decode: Literal["ar", "self-spec"] = "ar"
    max_running: int = 128
    importance_correction: ImportanceCorrection = "token_truncate"
    importance_cap: float = 3.0
    vllm_memory_share: float = 0.3
    n_compared: int = 8

    def __post_init__(self) -> None:
        check_numbers(
            self, "rollouts.", max_running=(1, 4096), importance_cap=(1.0, 1e6), vllm_memory_share=(0.01, 0.99),
            n_compared=(0, 1000),
        )  # fmt: skip


@dataclass(frozen=True)
class RlOptimizerConfig:
    """The optimizer; `adamw_8bit` needs bitsandbytes. *Units*: `warmup` is a share of the steps."""

    kind: Literal["adamw", "adamw_8bit"] = "adamw_8bit"
    lr: float = 3e-6
    schedule: Literal["cosine", "linear", "constant"] = "cosine"
    warmup: float = 0.0
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = 0.0
    clip_norm: float = 1.0

    def __post_init__(self) -> None:
        check_numbers(
            self, "optimizer.", lr=(0.0, 10.0), warmup=(0.0, 1.0), betas=(0.0, 0.999999), weight_decay=(0.0, 10.0),
            clip_norm=(0.0, 1e6),
        )  # fmt: skip


@dataclass(frozen=True)
class RlConfig:
    """Everything that decides a run of GRPO."""

    rl: RlRunConfig = field(default_factory=RlRunConfig)
    grpo: GrpoConfig = field(default_factory=GrpoConfig)
    rollouts: RolloutConfig = field(default_factory=RolloutConfig)
    optimizer: RlOptimizerConfig = field(default_factory=RlOptimizerConfig)
    rewards: RewardSettings = field(default_factory=RewardSettings)
    prompts: PromptConfig = field(default_factory=PromptConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)

    def __post_init__(self) -> None:
        n_processes, micro_batch, n = self.rl.n_processes, self.rl.micro_batch, self.grpo.n_completions
        each, rest = divmod(n, n_processes)
        if rest:
            what = f"rl.n_processes {n_processes} cannot share out the {n} completions of a step"
            raise ConfigError(f"{what} (grpo.prompts_per_step x grpo.n_rollouts); choose a divisor")
        if each % micro_batch:
            what = f"rl.micro_batch {micro_batch} does not divide the {each} completions of a step and process"
            raise ConfigError(f"{what}; choose {nearest_divisor(each, micro_batch)}")
        if self.prompts.n_prompts < self.grpo.prompts_per_step:
            what = f"prompts.n_prompts {self.prompts.n_prompts} is less than a step takes"
            raise ConfigError(f"{what} (grpo.prompts_per_step {self.grpo.prompts_per_step}); raise it, or lower that")
        if self.rl.save_every % self.grpo.n_iterations:
            what = f"rl.save_every {self.rl.save_every} is no multiple of grpo.n_iterations {self.grpo.n_iterations}"
            raise ConfigError(f"{what}: rollouts that are used again cannot be saved; choose a multiple")
        if self.rollouts.engine == "vllm" and self.rl.device == "cpu":
            raise ConfigError("rollouts.engine vllm shares the trainer's GPU; set rl.device to cuda, or it to engine")

    @property
    def accumulation(self) -> int:
        """Return how many forwards a process accumulates for a step."""
        return self.grpo.n_completions // (self.rl.micro_batch * self.rl.n_processes)


def nearest_divisor(number: int, wanted: int) -> int:
    """Return the largest divisor of a number that is at most the wanted one.

    >>> nearest_divisor(672, 9)
    8
    """
    return max(divisor for divisor in range(1, max(1, min(number, wanted)) + 1) if number % divisor == 0)
