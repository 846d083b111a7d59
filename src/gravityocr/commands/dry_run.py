"""What a training run would do and cost, and whether this machine is ready for it: `train --dry-run`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from gravityocr.commands.dry_run_checks import Check, run_checks
from gravityocr.config import dump_config
from gravityocr.errors import ConfigError, GravityOCRError
from gravityocr.model.checkpoint import parse_config, read_image_spec, read_tokenizer, resolve_checkpoint
from gravityocr.model.ocr_model import OcrConfig
from gravityocr.model.prompt import PromptBuilder
from gravityocr.training.corpora.region_shards import RegionFile
from gravityocr.training.cost import (
    PEAK_FLOPS,
    UTILISATION,
    BatchStats,
    SampleShape,
    count_parameters,
    executed_flops,
    forward_flops,
    model_flops,
    run_hours,
    run_tokens,
    sample_stats,
)
from gravityocr.training.memory import MemorySettings, Sharding, training_memory
from gravityocr.training.pool_tokens import count_pool_tokens, pool_files
from gravityocr.training.row_plan import plan_rows, waste
from gravityocr.training.run_config import TrainConfig

DEVICE_COUNTS = (1, 8, 16, 32)
DEVICES = ("A100", "H100", "B200")
SHARDINGS: tuple[Sharding, ...] = ("none", "zero2", "fsdp2")
SYNTHETIC_SAMPLE = SampleShape(n_prompt=8, n_cells=40, n_response=72)


@dataclass(frozen=True)
class _Samples:
    """The mean sample of a run, where its figures are from, and what was counted with it."""

    stats: BatchStats
    source: str
    n_regions: int | None = None
    waste: float | None = None


def plan_of(config: TrainConfig, recipe: Path | None = None) -> dict[str, Any]:
    """Return what a run would do and cost, with all checks, as plain values for JSON.

    `recipe` is the file of the settings: launch files are looked for beside it.
    """
    network, network_source = _network(config)
    samples = _samples(config)
    run = config.train
    row = _row(config, samples.stats)
    tokens = _tokens(config, row)
    memory = _memory(config, network, row)
    parameters = count_parameters(network)
    # State: weights, two moments, masters under ZeRO; two sets of it while one is written, and a checkpoint.
    disk_bytes = 2 * 16.0 * parameters.total + 4.0 * parameters.total
    checks = run_checks(config, recipe, memory["largest_row_bytes"], disk_bytes)
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


def _samples(config: TrainConfig) -> _Samples:
    """Return the mean sample: counted in the pool where it and the tokenizer are here, else assumed."""
    noise = config.noise
    shape = SampleShape() if config.data.pool is not None else SYNTHETIC_SAMPLE
    n_response = shape.n_response - shape.n_eos + noise.n_eos
    shape = replace(shape, n_response=n_response, n_eos=noise.n_eos, n_corrupt=noise.n_corrupt)
    source = "assumed for synthetic crops"
    if config.data.pool is not None:
        try:
            return _counted(config, config.data.pool)
        except (GravityOCRError, ImportError, OSError, ValueError):
            source = "assumed: the paper has 21 to 30 in a row of 10,240"
    return _Samples(sample_stats(shape, noise.block_size), source)


def _counted(config: TrainConfig, pool: str) -> _Samples:
    """Count the samples of the pool's first file.

    *Raises*: GravityOCRError, ImportError, OSError or ValueError where something of it is not here.
    """
    noise = config.noise
    files = [RegionFile(file) for file in pool_files(pool, "train")]
    if config.train.base is None:
        raise ConfigError("without train.base there is no tokenizer to count with")
    folder = resolve_checkpoint(config.train.base)
    raw = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    tokenizer = read_tokenizer(folder, parse_config(raw).text.vocab_size)
    prompts = PromptBuilder(tokenizer, read_image_spec(folder))
    index = count_pool_tokens(files[:1], prompts, noise, config.packing)
    n_prompt = prompts.from_patches(torch.zeros(0, 1), (0, 0)).ids.numel()
    used = [number for number, n_response in enumerate(index.n_response.tolist()) if n_response >= 0]
    total = BatchStats()
    for number in used:
        n_prefix, n_response = int(index.n_prefix[number]), int(index.n_response[number])
        shape = SampleShape(n_prompt, n_prefix - n_prompt, n_response + noise.n_eos, noise.n_eos, noise.n_corrupt)
        total = total + sample_stats(shape, noise.block_size)
    rows = plan_rows(((number, index.cost(number, noise)) for number in used), config.packing)
    source = f"counted in {files[0].file.name}, {len(index.skipped):,} of its {len(files[0]):,} regions left out"
    return _Samples(total.times(1 / len(used)), source, sum(map(len, files)), waste(rows, config.packing.row_tokens))


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


def _sample_figures(config: TrainConfig, samples: _Samples, row: BatchStats, tokens: dict[str, Any]) -> dict[str, Any]:
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


def plan_text(plan: dict[str, Any]) -> str:
    """Return a plan as text: the settings as TOML, then the figures, then the checks."""
    return "\n".join([plan["toml"], *_cost_lines(plan), *_device_lines(plan), "", *_check_lines(plan)])


def _cost_lines(plan: dict[str, Any]) -> list[str]:
    sizes, tokens, flops, memory = plan["network"]["parameters"], plan["tokens"], plan["flops"], plan["memory"]
    parts = ", ".join(f"{name} {n / 1e6:.1f}" for name, n in sizes.items() if name != "total")
    step = f"{tokens['step']:,} a step: {tokens['rows_per_step']} rows of {tokens['row']:,}"
    if plan["steps"] is None:
        length = [f"steps     as many as {plan['budget_s']:,.0f} s allow", f"tokens    {step}"]
    else:
        total = f"{tokens['total']:,} forward tokens ({tokens['total'] / 1e9:.1f} B)"
        length = [f"steps     {plan['steps']:,}", f"tokens    {total}, {step}"]
    total = f", {flops['total']:.2e} in all" if flops["total"] is not None else ""
    terms = " + ".join(f"{name} {_gb(value)}" for name, value in memory["bytes"].items())
    shared = f"{memory['n_processes']} processes, sharding {memory['sharding']}"
    return [
        f"network   {plan['network']['source']}",
        f"          {sizes['total'] / 1e6:,.1f} M parameters: {parts}",
        f"          {plan['network']['trained'] / 1e6:,.1f} M of them are trained",
        *length,
        *_sample_lines(plan["samples"]),
        f"FLOPs     {flops['model_per_token'] / 1e9:.2f} G a forward token, "
        f"{flops['executed_per_token'] / 1e9:.2f} G with what is repeated{total}",
        f"memory    {_gb(memory['total_bytes'])} GB a process ({shared}) over a mean row,",
        f"          {_gb(memory['largest_row_bytes'])} GB over the largest one, of image cells alone",
        f"          {terms}",
    ]


def _sample_lines(samples: dict[str, Any]) -> list[str]:
    mean = f"{samples['mean_tokens']} forward tokens each ({samples['source']})"
    lines = [f"samples   {samples['per_row']} a row, {mean}"]
    if samples["total"] is not None:
        epochs = ""
        if samples["epochs"] is not None:
            epochs = f": {samples['epochs']} epochs of {samples['n_regions']:,} regions, {samples['waste']:.1%} waste"
        lines.append(f"          {samples['total']:,} in all{epochs}")
    return lines


def _gb(n_bytes: float) -> str:
    return f"{n_bytes / 1e9:.1f}" if n_bytes >= 1e9 else f"{n_bytes / 1e9:.2f}"


def _device_lines(plan: dict[str, Any]) -> list[str]:
    if not plan["by_n_devices"]:
        return []
    rows = [["GPUs", "rows each", *(f"GB {kind}" for kind in SHARDINGS), *(f"h {name}" for name in DEVICES)]]
    for one in plan["by_n_devices"]:
        hours = ["-" if one["hours"][name] is None else f"{one['hours'][name]:.1f}" for name in DEVICES]
        memory = [_gb(one["memory_bytes"][kind]) for kind in SHARDINGS]
        rows.append([str(one["n_devices"]), f"{one['accumulation']:g}", *memory, *hours])
    lines = ["  ".join(f"{cell:>9}" for cell in row) for row in rows]
    assumed = plan["assumptions"]
    peaks = ", ".join(f"{name} {peak / 1e12:.0f}" for name, peak in assumed["peak_flops"].items())
    share = f"{assumed['utilisation']:.0%} of the peak bf16 TFLOP/s ({peaks})"
    return ["", *lines, f"hours assume {share}, and no time lost between GPUs or on validation"]


def _check_lines(plan: dict[str, Any]) -> list[str]:
    checks = [Check(**check) for check in plan["checks"]]
    lines = [f"{'ok     ' if check.ok else 'MISSING'}  {check.name}: {check.detail}" for check in checks]
    n_failed = sum(not check.ok for check in checks)
    return [*lines, "", "ready" if not n_failed else f"not ready: {n_failed} of {len(checks)} checks failed"]
