"""What a training run needs of the machine: folders, packages, devices, launch files; each check says what to do."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import torch

from gravityocr.commands.dry_run_samples import Samples
from gravityocr.errors import GravityOCRError
from gravityocr.model.checkpoint import resolve_checkpoint
from gravityocr.training.corpora.region_shards import RegionFile
from gravityocr.training.piece_sizes import oversized_warning
from gravityocr.training.pool_tokens import pool_files
from gravityocr.training.run_config import RunConfig, TrainConfig
from gravityocr.training.synthetic.shards import shard_files

CHECKPOINT_FILES = ("config.json", "tokenizer.json", "preprocessor_config.json", "block_diffusion.json")
FREE_SHARE = 0.9
"""Share of a GPU's memory that a run may plan with."""
LEFT_OUT_SHARE = 0.01
"""Share of a pool's regions that a run may leave out without a word."""


@dataclass(frozen=True)
class Check:
    """One thing that a run needs, whether it is there, and what was found or what to do."""

    name: str
    ok: bool
    detail: str


def run_checks(
    config: TrainConfig, recipe: Path | None, samples: Samples, gpu_bytes: float, disk_bytes: float
) -> list[Check]:
    """Check everything that the run of a recipe needs, going on where something is missing.

    *Units*: `gpu_bytes` of one process at its peak, `disk_bytes` of what the run's folder will hold.
    """
    checks = [*_packages(config), *_checkpoints(config.train), *_data(config)]
    if samples.n_counted:
        checks.append(_pool_fits(samples))
    checks.append(_folder(Path(config.train.folder), disk_bytes))
    if config.train.device != "cpu":
        checks.append(_gpus(config.train, gpu_bytes))
    if recipe is not None and config.train.device != "cpu" and config.train.n_processes > 1:
        checks += _launch_files(recipe.with_name(f"{recipe.stem}-slurm"), config)
    return checks


def _packages(config: TrainConfig) -> Iterator[Check]:
    wanted = {"torch": "pip install torch", "accelerate": "pip install 'gravityocr[train]'"}
    if config.data.pool is not None:
        wanted["pyarrow"] = "pip install 'gravityocr[train]'"
    else:
        wanted["fonttools"] = "pip install 'gravityocr[train]'"
    if config.train.tensorboard:
        wanted["tensorboard"] = "pip install 'gravityocr[train]', or set train.tensorboard to false"
    if config.train.device != "cpu" and config.train.n_processes > 1:
        wanted["deepspeed"] = "pip install deepspeed, or launch with FSDP2 instead of ZeRO"
    for name, remedy in wanted.items():
        try:
            yield Check(f"package {name}", True, metadata.version(name))
        except metadata.PackageNotFoundError:
            yield Check(f"package {name}", False, f"is not installed; {remedy}")


def _checkpoints(run: RunConfig) -> Iterator[Check]:
    for setting, name in (("train.base", run.base), ("train.start_from", run.start_from)):
        if name is None:
            continue
        if setting == "train.start_from" and (Path(name) / "state.pt").is_file():
            yield Check(setting, True, f"the run in {name}")
            continue
        remedy = "make it: gravityocr checkpoint convert zai-org/GLM-OCR FOLDER"
        if setting == "train.start_from":
            remedy = "train the run that it names first"
        try:
            folder = resolve_checkpoint(name)
        except GravityOCRError as error:
            yield Check(setting, False, f"{error}; {remedy}")
            continue
        missing = [file for file in CHECKPOINT_FILES if not (folder / file).is_file()]
        if not any(folder.glob("*.safetensors")):
            missing.append("*.safetensors")
        found = f"{folder} lacks {', '.join(missing)}; {remedy}" if missing else str(folder)
        yield Check(setting, not missing, found)


def _data(config: TrainConfig) -> Iterator[Check]:
    data = config.data
    if data.pool is not None:
        for split in ("train", "validation"):
            yield _pool(data.pool, split)
        return
    folder = Path(data.folder)
    for name in ("fonts.json", "corpus.jsonl"):
        found = (folder / name).is_file()
        remedy = f"{folder / name} is missing; make it: python scripts/prepare_data.py --out {folder}"
        yield Check(f"data.folder {name}", found, str(folder / name) if found else remedy)
    shards = [("data.shards", one.folder) for one in data.shards]
    if config.validation.shards is not None:
        shards.append(("validation.shards", config.validation.shards))
    for setting, name in shards:
        try:
            n_files = len(shard_files(folder / name))
        except GravityOCRError as error:
            yield Check(f"{setting} {name}", False, str(error))
        else:
            yield Check(f"{setting} {name}", True, f"{_n_files(n_files)} in {folder / name}")


def _n_files(n: int) -> str:
    return "1 file" if n == 1 else f"{n:,} files"


def _pool(pool: str, split: str) -> Check:
    name = f"data.pool {split}"
    try:
        files = pool_files(pool, split)
        n_regions = sum(len(RegionFile(file)) for file in files)
    except GravityOCRError as error:
        return Check(name, False, str(error))
    except ImportError:
        return Check(name, False, "cannot be read without pyarrow; pip install 'gravityocr[train]'")
    return Check(name, n_regions > 0, f"{n_regions:,} regions in {_n_files(len(files))}")


def _pool_fits(samples: Samples) -> Check:
    """Check that the run can train on the regions of its pool, as far as its first file tells."""
    if samples.problem is not None:
        return Check("pool fits", False, samples.problem)
    n_all, n_left_out = samples.n_counted, sum(samples.left_out.values())
    reason, n_most = next(iter(samples.left_out.items()), ("", 0))
    left_out = f"{n_left_out:,} of the first file's {n_all:,} regions cannot be trained on"
    if n_left_out:
        left_out += f", {n_most:,} of them because {reason}{_fit_remedy(reason)}"
    larger = oversized_warning(samples.fits)
    wrong = [left_out] if n_left_out > LEFT_OUT_SHARE * n_all else []
    wrong += [larger] if larger is not None else []
    if not wrong and not n_left_out:
        left_out = f"all {n_all:,} regions of its first file can be trained on"
    return Check("pool fits", not wrong, "; ".join(wrong) if wrong else left_out)


def _fit_remedy(reason: str) -> str:
    """Return what to do where a reason for leaving regions out does not say it itself."""
    for setting in ("packing.row_tokens", "packing.response_cap_tokens"):
        if setting in reason:
            return f": raise {setting}, or filter the pool"
    return ": take another train.base, or filter the pool" if "tokenizer" in reason else ""


def _folder(folder: Path, disk_bytes: float) -> Check:
    """Check the run's folder without making it."""
    place = folder.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        return Check("train.folder", False, f"{folder} cannot be written; choose another train.folder")
    free = shutil.disk_usage(place).free
    enough = free > disk_bytes
    found = f"{folder} can be written, {free / 1e9:.0f} GB free for {disk_bytes / 1e9:.1f} GB"
    return Check("train.folder", enough, found if enough else f"{found}; make room, or choose another train.folder")


def _gpus(run: RunConfig, gpu_bytes: float) -> Check:
    n_here = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not n_here:
        return Check("GPUs", False, f"none here; the run wants {run.n_processes}: start it where there are some")
    device = torch.cuda.get_device_properties(0)
    found = f"{n_here} x {device.name} of {device.total_memory / 1e9:.0f} GB for {run.n_processes} processes"
    if run.n_processes % n_here:
        return Check("GPUs", False, f"{found}; set train.n_processes to a multiple of the GPUs of a node")
    if run.bf16 and not torch.cuda.is_bf16_supported(including_emulation=False):
        return Check("GPUs", False, f"{found}, without bf16; set train.bf16 to false")
    if gpu_bytes > FREE_SHARE * device.total_memory:
        what = f"{found}; a process may need {gpu_bytes / 1e9:.0f} GB"
        return Check("GPUs", False, f"{what}: set train.activation_checkpointing, or packing.row_tokens lower")
    return Check("GPUs", True, found)


def _launch_files(folder: Path, config: TrainConfig) -> Iterator[Check]:
    """Check that the launch files beside a recipe say what the recipe says."""
    for file in sorted(folder.glob("*.yaml")):
        yield _accelerate_file(file, config.train)
    for file in sorted(folder.glob("*.json")):
        yield _deepspeed_file(file, config)


def _accelerate_file(file: Path, run: RunConfig) -> Check:
    name = f"launch file {file.name}"
    try:
        from accelerate.commands.config import config_args
    except ImportError:
        return Check(name, False, "cannot be read without accelerate; pip install 'gravityocr[train]'")
    try:
        launch = config_args.load_config_from_file(str(file))
    except (OSError, ValueError, TypeError, KeyError, config_args.yaml.YAMLError) as error:
        return Check(name, False, f"{file}: {error}".splitlines()[0])
    if launch.num_processes != run.n_processes:
        what = f"starts {launch.num_processes} processes, train.n_processes is {run.n_processes}"
        return Check(name, False, f"{what}: give accelerate launch --num_processes {run.n_processes}")
    deepspeed = launch.deepspeed_config.get("deepspeed_config_file")
    if deepspeed is not None and not Path(deepspeed).is_file():
        return Check(name, False, f"names {deepspeed}, which is not here; start from the root of the checkout")
    return Check(name, True, f"{launch.distributed_type.value}, {launch.num_processes} processes")


def _deepspeed_file(file: Path, config: TrainConfig) -> Check:
    name = f"launch file {file.name}"
    try:
        settings = json.loads(file.read_text(encoding="utf-8"))
        stage = settings["zero_optimization"]["stage"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        return Check(name, False, f"{file} is no DeepSpeed config: {error!r}")
    wanted = {
        "gradient_clipping": ("optimizer.clip_norm", config.optimizer.clip_norm),
        "gradient_accumulation_steps": ("train.accumulation", config.train.accumulation),
        "train_micro_batch_size_per_gpu": ("the rows at a time", 1),
    }
    for key, (setting, value) in wanted.items():
        if settings.get(key) not in (value, "auto"):
            return Check(name, False, f"{key} is {settings.get(key)}, {setting} {value}: make them equal")
    return Check(name, True, f"ZeRO stage {stage}, gradient clipping {settings['gradient_clipping']}")
