"""What shared-prefix packing is worth: samples a second against the naive double batch, on the same samples in one run.

Naive: two rows `[prefix | clean | corrupt]` a sample, one for each corrupted copy, padded to the longest of the batch.
Packed: `[prefix | clean | corrupt a | corrupt b]` a sample, side by side in one row without padding.
Inside the measured boundary: the vision tower (each crop once in both), the decoder, the loss and the backward pass.
Outside: reading and decoding crops, the optimiser. The two losses are compared before anything is timed.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice

import torch
from torch import Tensor
from torch.nn import functional as F

from gravityocr.model.attention import attention
from gravityocr.model.checkpoint import load_checkpoint
from gravityocr.model.masks import RowTags, joint_mask
from gravityocr.model.ocr_model import OcrModel
from gravityocr.training.attention import attend_in
from gravityocr.training.corpora.region_shards import RegionFile
from gravityocr.training.losses import LossConfig, TargetScale, joint_loss, packed_hidden, target_scale
from gravityocr.training.noise import Corruption, NoiseConfig
from gravityocr.training.packing import IGNORE, Sample, pack
from gravityocr.training.pool_tokens import count_pool_tokens, pool_files
from gravityocr.training.region_source import RegionSource
from gravityocr.training.row_plan import PackingConfig


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pool", default="sample", help="pool of regions; default: the shipped one")
    parser.add_argument("--checkpoint", default="nano")
    parser.add_argument("--block-size", type=int, default=24, help="B, and so the length of the EOS fill")
    parser.add_argument("--row-tokens", type=int, default=10240)
    parser.add_argument("--rows", type=int, default=2, help="packed rows; each is also one naive batch")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--float32", action="store_true", help="without bf16 autocast")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    report = measure(args)
    print(json.dumps(report, indent=1) if args.json else as_text(report))


def measure(args: argparse.Namespace) -> dict[str, object]:
    checkpoint = load_checkpoint(args.checkpoint)
    model = checkpoint.model.requires_grad_(True).train()
    mask_id = checkpoint.diffusion.mask_id
    noise, packing = NoiseConfig(args.block_size), PackingConfig(row_tokens=args.row_tokens)
    files = [RegionFile(file) for file in pool_files(args.pool, "train")]
    index = count_pool_tokens(files, checkpoint.prompts, noise, packing)
    source = RegionSource(files, index, checkpoint.prompts, noise, packing, min(checkpoint.stop_ids), seed=0)
    rows = [source.rows((planned,))[0].samples for planned in islice(source.plan(), args.rows)]
    scales = [scale_of(samples) for samples in rows]
    ways: dict[str, Callable[[OcrModel, Sequence[Sample], int, TargetScale], Tensor]] = {
        "packed": packed_loss, "naive": naive_loss,
    }  # fmt: skip
    losses: dict[str, list[float]] = {name: [] for name in ways}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for repeat in range(args.repeats + 1):
        for name, way in ways.items():
            began = time.process_time()
            for samples, scale in zip(rows, scales, strict=True):
                with torch.autocast("cpu", torch.bfloat16, enabled=not args.float32):
                    loss = way(model, samples, mask_id, scale)
                loss.backward()
                model.zero_grad(set_to_none=True)
                if repeat == 0:  # the first round warms up and is not counted
                    losses[name].append(float(loss.detach()))
            if repeat:
                seconds[name].append(time.process_time() - began)
    n_samples = sum(map(len, rows))
    rates = {name: n_samples / statistics.median(times) for name, times in seconds.items()}
    pairs = zip(losses["packed"], losses["naive"], strict=True)
    return {
        "ratio": rates["packed"] / rates["naive"],
        "samples_per_s": rates,
        "loss_difference": max(abs(a - b) / abs(b) for a, b in pairs),
        "tokens": token_figures(rows),
        "mixture": dict(Counter(task_of(source, sample) for samples in rows for sample in samples)),
        "boundary": "vision tower (each crop once), decoder, loss, backward; medians of processor time",
        "settings": {key: value for key, value in vars(args).items() if key != "json"},
        "machine": {"processor": platform.processor() or platform.machine(), "torch": torch.__version__},
    }


def task_of(source: RegionSource, sample: Sample) -> str:
    """Tell the task of a sample by its prompt."""
    tokens = source.prompts.tokenizer.decode(sample.prompt.ids.tolist(), skip_special_tokens=False)
    return next(task for task in ("Text", "Table", "Formula") if f"{task} Recognition:" in tokens).lower()


def scale_of(samples: Sequence[Sample]) -> TargetScale:
    n_ar = sum(sample.n_supervised for sample in samples)
    return target_scale(n_ar, sum(sample.response.numel() for sample in samples), LossConfig())


def packed_loss(model: OcrModel, samples: Sequence[Sample], mask_id: int, scale: TargetScale) -> Tensor:
    row = pack(samples, mask_id)
    _, features = model.encode_images([sample.prompt for sample in samples])
    hidden = packed_hidden(model, row, features, attend_in(row, "segments"))
    return joint_loss(model, row, hidden, scale).scaled


def naive_loss(model: OcrModel, samples: Sequence[Sample], mask_id: int, scale: TargetScale) -> Tensor:
    rows = [pack([one_copy(sample, number)], mask_id) for sample in samples for number in (0, 1)]
    longest = max(row.n_tokens for row in rows)

    def padded(name: str, value: int | bool) -> Tensor:
        parts = [getattr(row, name)[0] for row in rows]
        return torch.stack([F.pad(part, (0, longest - len(part)), value=value) for part in parts])

    tags = [getattr(row.tags, name)[0] for row in rows for name in ("segment", "stream", "index", "block")]
    columns = [torch.stack([F.pad(one, (0, longest - len(one)), value=-1) for one in tags[i::4]]) for i in range(4)]
    mask = joint_mask(RowTags(*columns))[:, None]
    positions = torch.stack([F.pad(row.positions[:, 0], (0, longest - row.n_tokens)) for row in rows], 1)
    _, features = model.encode_images([sample.prompt for sample in samples])
    n_cells = [int(sample.prompt.is_image.sum()) for sample in samples]
    doubled = torch.cat([part for crop in features.split(n_cells) for part in (crop, crop)])
    embedded = model.embed(padded("ids", 0), padded("is_image", False), doubled)
    hidden = model.hidden(embedded, positions, lambda _layer, q, k, v: attention(q, k, v, mask))
    # Both rows of a sample have its clean copy, which counts once.
    ar = padded("ar_target", IGNORE)
    ar[1::2] = IGNORE
    total = hidden.new_zeros((), dtype=torch.float32)
    for target, weight in ((ar, scale.ar), (padded("diffusion_target", IGNORE), scale.diffusion)):
        supervised = target != IGNORE
        logits = model.logits(hidden[supervised])
        total = total + weight * F.cross_entropy(logits, target[supervised], reduction="sum")
    return total


def one_copy(sample: Sample, number: int) -> Sample:
    """Return the sample with one of its two corrupted copies."""
    return replace(sample, corruption=Corruption(sample.corruption.block, (sample.corruption.masked[number],)))


def token_figures(rows: Sequence[Sequence[Sample]]) -> dict[str, object]:
    samples = [sample for row in rows for sample in row]
    prefixes = [sample.prompt.ids.numel() for sample in samples]
    responses = [sample.response.numel() for sample in samples]
    naive = [
        2 * len(row) * max(sample.prompt.ids.numel() + 2 * sample.response.numel() for sample in row) for row in rows
    ]
    return {
        "n_samples": len(samples),
        "samples_a_row": [len(row) for row in rows],
        "prefix": figures(prefixes),
        "response_with_fill": figures(responses),
        "packed": sum(sample.n_tokens for sample in samples),
        "naive": sum(2 * (p + 2 * r) for p, r in zip(prefixes, responses, strict=True)),
        "naive_with_padding": sum(naive),
    }


def figures(values: Sequence[int]) -> dict[str, float]:
    quantiles = statistics.quantiles(values, n=20)
    return {"mean": round(statistics.mean(values), 1), "median": statistics.median(values), "p95": quantiles[-1],
            "max": max(values)}  # fmt: skip


def as_text(report: dict[str, object]) -> str:
    lines = [f"{key}: {json.dumps(value) if isinstance(value, dict) else value}" for key, value in report.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
