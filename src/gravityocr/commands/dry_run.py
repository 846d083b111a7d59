"""What a training run would do and cost, and whether this machine is ready for it: `train --dry-run`."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from gravityocr.commands.dry_run_checks import run_checks
from gravityocr.commands.dry_run_samples import Samples, mean_sample
from gravityocr.config import dump_config
from gravityocr.errors import GravityOCRError
from gravityocr.model.checkpoint import parse_config, resolve_checkpoint
from gravityocr.model.ocr_model import OcrConfig
from gravityocr.training.cost import (
    PEAK_FLOPS,
    UTILISATION,
    BatchStats,
    count_parameters,
    executed_flops,
    forward_flops,
    model_flops,
    run_hours,
    run_tokens,
)
from gravityocr.training.memory import MemorySettings, Sharding, training_memory
from gravityocr.training.run_config import TrainConfig

DEVICE_COUNTS = (1, 8, 16, 32)
DEVICES = ("A100", "H100", "B200")
SHARDINGS: tuple[Sharding, ...] = ("none", "zero2", "fsdp2")


def plan_of(config: TrainConfig, recipe: Path | None = None) -> dict[str, Any]:
    """Return what a run would do and cost, with all checks, as plain values for JSON.

    `recipe` is the file of the settings: launch files are looked for beside it.
    """
    network, network_source = _network(config)
    samples = mean_sample(config)
    run = config.train
    row = _row(config, samples.stats)
    tokens = _tokens(config, row)
    memory = _memory(config, network, row)
    parameters = count_parameters(network)
    # State: weights, two moments, masters under ZeRO; two sets of it while one is written, and a checkpoint.
    disk_bytes = 2 * 16.0 * parameters.total + 4.0 * parameters.total
    checks = run_checks(config, recipe, samples, memory["largest_row_bytes"], disk_bytes)
    return {
        "settings": _plain(asdict(config)), "toml": dump_config(config),
        "network": {"source": network_source, "parameters": {**asdict(parameters), "total": parameters.total},
                    "trained": parameters.trained(run.freeze)},
        "steps": run.steps if run.budget_s is None else None,
        "budget_s": run.budget_s,
        "tokens": tokens,
        "samples": _sample_figures(config, samples, row, tokens),
        "flops": _flops(config, network, samples.stats, tokens),
        "memory": memory,
        "by_n_devices": _by_n_devices(config, network, row, tokens) if run.device != "cpu" else [],
        "assumptions": {"utilisation": UTILISATION, "peak_flops": {name: PEAK_FLOPS[name] for name in DEVICES}},
        "checks": [asdict(check) for check in checks],
        "ready": all(check.ok for check in checks),
    }  # fmt: skip


def _plain(value: Any) -> Any:
    """Turn paths and tuples into what JSON has."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _network(config: TrainConfig) -> tuple[OcrConfig, str]:
    """Return the sizes of the network and where they are from."""
    base = config.train.base
    if base is None:
        return config.network, "the section network: it starts from nothing, or from train.start_from"
    try:
        file = resolve_checkpoint(base) / "config.json"
        return parse_config(json.loads(file.read_text(encoding="utf-8")), file), str(file)
    except (GravityOCRError, OSError, ValueError):
        return OcrConfig(), "GLM-OCR's sizes, assumed: train.base is not here"


def _row(config: TrainConfig, sample: BatchStats) -> BatchStats:
    """Return the figures of one row."""
    n_samples = config.packing.row_tokens / sample.n_tokens if config.data.pool is not None else config.train.n_samples
    return sample.times(n_samples)


def _tokens(config: TrainConfig, row: BatchStats) -> dict[str, Any]:
    run = config.train
    rows = run.accumulation * run.n_processes
    per_row = config.packing.row_tokens if config.data.pool is not None else round(row.n_tokens)
    total = run_tokens(per_row, run.accumulation, run.n_processes, run.steps) if run.budget_s is None else None
    return {"row": per_row, "rows_per_step": rows, "step": per_row * rows, "total": total}


def _sample_figures(config: TrainConfig, samples: Samples, row: BatchStats, tokens: dict[str, Any]) -> dict[str, Any]:
    mean, filled = samples.stats.n_tokens, 1.0 - (samples.waste or 0.0)
    total = filled * tokens["total"] / mean if tokens["total"] is not None else None
    epochs = total / samples.n_regions if total is not None and samples.n_regions else None
    return {
        "source": samples.source, "mean_tokens": round(mean, 1), "mean_cells": round(samples.stats.n_patches / 4, 1),
        "per_row": round(filled * row.n_tokens / mean, 1), "per_step": round(filled * tokens["step"] / mean),
        "total": None if total is None else round(total), "n_regions": samples.n_regions,
        "epochs": None if epochs is None else round(epochs, 2),
        "waste": None if samples.waste is None else round(samples.waste, 4),
    }  # fmt: skip


def _flops(config: TrainConfig, network: OcrConfig, sample: BatchStats, tokens: dict[str, Any]) -> dict[str, Any]:
    run, forward = config.train, forward_flops(network, sample)
    executed = executed_flops(network, sample, run.activation_checkpointing, run.freeze) / sample.n_tokens
    return {
        "forward_per_token": {name: value / sample.n_tokens for name, value in asdict(forward).items()},
        "model_per_token": model_flops(network, sample, run.freeze) / sample.n_tokens,
        "executed_per_token": executed,
        "total": None if tokens["total"] is None else executed * tokens["total"],
    }


def _settings(config: TrainConfig, n_processes: int, sharding: Sharding) -> MemorySettings:
    run = config.train
    return MemorySettings(
        n_processes, sharding, run.bf16, run.activation_checkpointing, run.freeze, run.ema > 0, run.device != "cpu"
    )


def _memory(config: TrainConfig, network: OcrConfig, row: BatchStats) -> dict[str, Any]:
    """Return the memory of a process over a mean row, and over the largest one: image cells and nothing else."""
    run = config.train
    sharding: Sharding = "zero2" if run.device != "cpu" and run.n_processes > 1 else "none"
    settings = _settings(config, run.n_processes, sharding)
    memory = training_memory(network, row, settings)
    n_patches = row.n_tokens * network.vision.spatial_merge_size**2
    largest = training_memory(network, replace(row, n_patches=n_patches), settings)
    return {
        "sharding": sharding, "n_processes": run.n_processes, "bytes": asdict(memory), "total_bytes": memory.total,
        "largest_row_bytes": largest.total,
    }  # fmt: skip


def _by_n_devices(
    config: TrainConfig, network: OcrConfig, row: BatchStats, tokens: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return memory by sharding and hours by device for several numbers of GPUs, the rows of a step being the same."""
    run = config.train
    executed = executed_flops(network, row, run.activation_checkpointing, run.freeze) / row.n_tokens
    table = []
    for n in DEVICE_COUNTS:
        memory = {kind: training_memory(network, row, _settings(config, n, kind)).total for kind in SHARDINGS}
        total = tokens["total"]
        hours = {name: None if total is None else run_hours(executed * total, n, PEAK_FLOPS[name]) for name in DEVICES}
        rows = tokens["rows_per_step"]
        table.append({"n_devices": n, "accumulation": rows / n, "memory_bytes": memory, "hours": hours})
    return table
