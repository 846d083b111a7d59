"""TRL's GRPO over the stock class: the AR path alone, the drafter moves with the shared weights.

One step: (1) prompts, each `n_rollouts` times; (2) rollouts from the weights of now; (3) rewards; (4) advantages
within each prompt's group; (5) the clipped token-level loss with the divergence from the frozen start; (6) an update.
TRL does 1 and 4 to 6; rollouts come from `rollouts.py`, rewards from `rewards.py`.

*Source*: section 5.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch.utils.data import Sampler

from gravityocr.document import Crop
from gravityocr.engine.engine import Engine
from gravityocr.errors import ConfigError, InputError
from gravityocr.rl.length_batches import scores_by_length
from gravityocr.rl.processor import build_processor, crop_of
from gravityocr.rl.rewards import rewards_with
from gravityocr.rl.rl_config import RlConfig
from gravityocr.rl.rollouts import EngineSampler
from gravityocr.rl.seeds import banned_tokens, seed_of
from gravityocr.rl.trl_arguments import trl_arguments
from gravityocr.training.corpora.region_shards import LabelledRegion, RegionFile, encode_picture

OLD_NAME = ".*gradient_checkpointing. is deprecated"  # of transformers; TRL still uses it
_PARTS = {"vision": "model.visual.", "embeddings": "model.language_model.embed_tokens.",
          "decoder": "model.language_model.", "lm_head": "lm_head."}  # fmt: skip


_ORIENTATION = 0x0112  # of EXIF


def check_libraries(config: RlConfig) -> None:
    """Refuse a configuration whose libraries or device are missing. *Raises*: ConfigError naming what to install."""
    from importlib.util import find_spec

    needed = {"trl": "'gravityocr[rl]'", "transformers": "'gravityocr[rl]'", "datasets": "'gravityocr[rl]'"}
    if config.optimizer.kind == "adamw_8bit":
        needed["bitsandbytes"] = "bitsandbytes, or set optimizer.kind to adamw"
    if config.rollouts.engine == "vllm":
        needed["vllm"] = "vllm, or set rollouts.engine to engine"
    if config.rl.tensorboard:
        needed["tensorboard"] = "'gravityocr[train]', or set rl.tensorboard to false"
    missing = [f"{name} (pip install {remedy})" for name, remedy in needed.items() if find_spec(name) is None]
    faults = [f"this run needs {' and '.join(missing)}"] if missing else []
    if config.rl.device == "cuda" and not torch.cuda.is_available():
        faults.append("rl.device is cuda, and there is no CUDA device here; set it to cpu")
    if faults:
        raise ConfigError("; ".join(faults))


def _as_stored(region: LabelledRegion) -> bytes:
    """Return the picture of a region without the turn that a camera notes: `datasets` alone would obey it."""
    with Image.open(io.BytesIO(region.image)) as picture:
        turned = picture.getexif().get(_ORIENTATION, 1) != 1
    return encode_picture(region.picture()) if turned else region.image


def prompt_dataset(files: Sequence[Path], engine: Engine) -> Any:
    """Return prompts as TRL's trainer takes them: a conversation and an image, with task and target beside them."""
    from datasets import Dataset, Features, Value
    from datasets import Image as ImageFeature

    columns: dict[str, list[Any]] = {name: [] for name in ("prompt", "image", "task", "target", "region_id")}
    prompts = engine.checkpoint.prompts
    for file in map(RegionFile, files):
        for region in file:
            columns["prompt"].append([{"role": "user", "content": prompts.instruction(region.task)}])
            columns["image"].append({"bytes": _as_stored(region), "path": None})
            columns["task"].append(region.task)
            columns["target"].append(region.target)
            columns["region_id"].append(region.region_id)
    text = Value("string")
    message = [{"role": text, "content": text}]
    features = {"prompt": message, "image": ImageFeature(), "task": text, "target": text, "region_id": text}
    return Dataset.from_dict(columns, features=Features(features))


class PromptOrder(Sampler[int]):
    """The places of the prompts of a whole run: all are taken once before one comes again, each round in a new order.

    A step takes `prompts_per_step` of them; what is left of a round is passed over. Seed and step alone decide, so
    that a run that goes on finds its place.
    """

    def __init__(self, n_prompts: int, config: RlConfig) -> None:
        self._n_prompts = n_prompts
        self._config = config
        self._n_batches = -(-config.rl.steps // config.grpo.n_iterations)
        self._n_repeats = config.grpo.n_iterations * config.accumulation  # the trainer asks again for every forward

    def __len__(self) -> int:
        return self._n_batches * self._n_repeats * self._config.grpo.n_completions

    def __iter__(self) -> Iterator[int]:
        size = self._config.grpo.prompts_per_step
        order: list[int] = []
        for number in range(self._n_batches):
            round_, place = divmod(number, self._n_prompts // size)
            if place == 0:
                generator = torch.Generator().manual_seed(seed_of(self._config.rl.seed, "prompts", round_))
                order = torch.randperm(self._n_prompts, generator=generator).tolist()
            chosen = order[place * size : (place + 1) * size]
            for _ in range(self._n_repeats):
                for prompt in chosen:
                    yield from [prompt] * self._config.grpo.n_rollouts


class EngineRollouts:
    """Our engine as TRL's rollout function: the same prompts, samples and their log-probabilities."""

    def __init__(self, sampler: EngineSampler, seed: int) -> None:
        self.sampler = sampler
        self._seed = seed

    def __call__(self, prompts: list[Any], trainer: Any) -> dict[str, Any]:
        """Sample one completion for each prompt of this process; those of one crop come one after another."""
        state, accelerator = trainer.state, trainer.accelerator
        self.sampler.take(accelerator.unwrap_model(trainer.model).state_dict())
        tensors = trainer.processing_class.tensors
        crops: list[Crop] = []
        seeds: list[tuple[int, ...]] = []
        keys: list[tuple[Any, ...]] = []
        ids: list[list[int]] = []
        for number, messages in enumerate(prompts):
            image, instruction = crop_of(messages)
            key = (instruction, image.mode, image.size, image.tobytes())
            seed = seed_of(self._seed, state.global_step, accelerator.process_index * len(prompts) + number)
            if keys and keys[-1] == key:
                seeds[-1] += (seed,)
            else:
                keys.append(key)
                crops.append(Crop(image, tensors.instructions[instruction]))
                seeds.append((seed,))
            ids.append(tensors.of(image, crops[-1].task)["input_ids"])
        sampled = [one for row in self.sampler.rollouts(crops, seeds) for one in row]
        return {
            "prompt_ids": ids,
            "completion_ids": [list(one.ids) for one in sampled],
            "logprobs": [list(one.log_probs) for one in sampled],
        }


def stock_network(engine: Engine, config: RlConfig) -> Any:
    """Load transformers' class in fp32, with the parts that stay as they are frozen."""
    from transformers import GlmOcrForConditionalGeneration

    model = GlmOcrForConditionalGeneration.from_pretrained(str(engine.checkpoint.path), dtype=torch.float32)
    for name, parameter in model.named_parameters():
        part = next(one for one, prefix in _PARTS.items() if name.startswith(prefix))
        parameter.requires_grad_(part not in config.rl.freeze)
    return model


def apply_settings(optimizer: Any, scheduler: Any, config: RlConfig) -> None:
    """Give a restored optimizer and its schedule the settings of now: their states hold those of before."""
    settings = config.optimizer
    optimizer, scheduler = getattr(optimizer, "optimizer", optimizer), getattr(scheduler, "scheduler", scheduler)
    scheduler.base_lrs = [settings.lr] * len(scheduler.base_lrs)
    for number, (group, share) in enumerate(zip(optimizer.param_groups, scheduler.lr_lambdas, strict=True)):
        group |= {"initial_lr": settings.lr, "lr": settings.lr * share(scheduler.last_epoch), "betas": settings.betas}
        group["weight_decay"] = settings.weight_decay if number == 0 else 0.0  # norms and biases are the second group
    scheduler._last_lr = [group["lr"] for group in optimizer.param_groups]


def trainer_class(config: RlConfig, n_prompts: int) -> Any:
    """Return TRL's trainer with what a run changes of it."""
    from safetensors import SafetensorError
    from trl import GRPOTrainer

    class QuietTrainer(GRPOTrainer):
        """TRL's trainer, silent, with the prompts in our order, which scores completions of like lengths together."""

        def _send_telemetry(self) -> None:
            """Send nothing."""

        def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
            """Score completions; see `scores_by_length`."""
            return scores_by_length(super()._get_per_token_logps_and_entropies, *args, **kwargs)

        def _save_checkpoint(self, *args: Any) -> None:
            """Write a state."""
            try:
                super()._save_checkpoint(*args)
            except (OSError, RuntimeError, SafetensorError) as error:
                what = str(error).strip().splitlines()[0]
                remedy = "make room, then start again"
                raise InputError(f"{self.args.output_dir} cannot be written ({what}); {remedy}") from error

        def create_model_card(self, *_: Any, **__: Any) -> None:
            """Write none: a state is no checkpoint to be published."""

        def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
            """Load their states; the settings are those of now."""
            super()._load_optimizer_and_scheduler(checkpoint)
            if checkpoint is not None:
                apply_settings(self.optimizer, self.lr_scheduler, config)

        def _get_train_sampler(self, dataset: Any = None) -> Any:
            """Return the order of the prompts; TRL's own forgets, when a run goes on, how often it went through."""
            return PromptOrder(n_prompts, config)

    return QuietTrainer


def build_trainer(config: RlConfig, sampler: EngineSampler, files: Sequence[Path]) -> Any:
    """Return TRL's trainer for a run.

    *Raises*: ConfigError where a library is missing, or fewer prompts than a step takes.
    """
    check_libraries(config)
    from transformers import PrinterCallback
    from transformers.utils.logging import disable_progress_bar
    from trl import GRPOConfig

    disable_progress_bar()

    engine = sampler.engine
    prompts = prompt_dataset(files, engine)
    if len(prompts) < config.grpo.prompts_per_step:
        what = f"the prompt pool holds {len(prompts)} prompts, and a step takes {config.grpo.prompts_per_step}"
        raise ConfigError(f"{what}; mine more (prompts.*), or lower grpo.prompts_per_step")

    arguments = trl_arguments(config, banned_tokens(engine))
    rollout = EngineRollouts(sampler, config.rl.seed) if config.rollouts.engine == "engine" else None
    with warnings.catch_warnings():
        # The argument is called experimental; the version is pinned, and a test holds what it does.
        warnings.filterwarnings("ignore", message=".*rollout_func.*")
        warnings.filterwarnings("ignore", message=OLD_NAME)
        trainer = trainer_class(config, len(prompts))(
            model=stock_network(engine, config),
            reward_funcs=list(rewards_with(config.rewards)),
            args=GRPOConfig(**arguments),
            train_dataset=prompts,
            processing_class=build_processor(engine),
            rollout_func=rollout,
        )
    trainer.remove_callback(PrinterCallback)  # standard output is for data
    return trainer


@torch.no_grad()
def log_prob_gap(trainer: Any, crops: Sequence[Crop], rollouts: Sequence[Any]) -> dict[str, float]:
    """Compare the log-probabilities of sampled tokens with those that the trainer's network gives them.

    Returns the mean and the largest difference, and the mean of p_trainer / p_engine, which is 1 in expectation.
    *Units*: nats.
    """
    tensors = trainer.processing_class.tensors
    model, device = trainer.model, trainer.accelerator.device
    gaps: list[torch.Tensor] = []
    for crop, rollout in zip(crops, rollouts, strict=True):
        prompt = tensors.of(crop.image, crop.task)
        ids = torch.tensor([[*prompt["input_ids"], *rollout.ids]], device=device)
        kinds = torch.tensor([prompt["mm_token_type_ids"] + [0] * len(rollout.ids)], device=device)
        log_probs = trainer._get_per_token_logps_and_entropies(
            model, ids, torch.ones_like(ids), len(rollout.ids), num_images=[1], mm_token_type_ids=kinds,
            pixel_values=prompt["pixel_values"].to(device), image_grid_thw=prompt["image_grid_thw"].to(device),
        )[0]  # fmt: skip
        gaps.append(log_probs[0].float().cpu() - torch.tensor(rollout.log_probs))
    gap = torch.cat(gaps)
    return {
        "gap_mean": float(gap.abs().mean()), "gap_max": float(gap.abs().max()), "ratio_mean": float(gap.exp().mean()),
        "n_tokens": gap.numel(),
    }  # fmt: skip


