"""What `benchmarks/gpu.sh run` measures: identity in bf16, decode of the embedded checkpoint, and a full-size network.

The full-size network has random weights, so it has no drafts worth anything: its batches are SIMULATED, with drafts
accepted as the paper's are. Its forwards are real. Each part writes one JSON file for `gravityocr bench report`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gravityocr.benchmark.cases import Case, load_cases
from gravityocr.benchmark.equality import Judges, bench_equality
from gravityocr.benchmark.load import bench_batch
from gravityocr.benchmark.protocol import PROTOCOLS, machine
from gravityocr.benchmark.speed import bench_decode
from gravityocr.commands.bench_modes import Mode, engines_of, parse_modes, simulated_engines
from gravityocr.commands.bench_network import forward_timer, judge
from gravityocr.decoding.prompts import Networks
from gravityocr.document import Task
from gravityocr.engine.engine import Engine, EngineConfig
from gravityocr.engine.precision import precision_of
from gravityocr.errors import GravityOCRError
from gravityocr.model.checkpoint import MASK_TOKEN, BlockDiffusion, Checkpoint
from gravityocr.model.ocr_model import OcrConfig, OcrModel
from gravityocr.model.prompt import ImageSpec, PromptBuilder, token_id
from gravityocr.model.text import TextConfig
from gravityocr.model.vision import VisionConfig
from gravityocr.training.nano import EOS_TOKEN, build_tokenizer

CROPS = Path(__file__).parents[1] / "tests" / "data" / "crops"
FILL = 2  # sequences of the queue for each running one: the budget is short
TINY = OcrConfig(
    VisionConfig(depth=1, hidden_size=64, intermediate_size=96, num_heads=2, out_hidden_size=96),
    TextConfig(
        vocab_size=256, hidden_size=96, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=32, mrope_section=(4, 6, 6),
    ),
)  # fmt: skip


def random_checkpoint(config: OcrConfig, device: str, seed: int = 0) -> Checkpoint:
    """Return a network of this size whose forwards are real and whose answer is a walk through the vocabulary.

    The residual stream is dominated by the embedding of the last token, and the output layer answers it with the next
    id: margins are wide, so that kernels of other shapes choose the same token and the guard has nothing to do.
    """
    torch.manual_seed(seed)
    with torch.device(device):
        model = OcrModel(config).eval().requires_grad_(False)
        for layer in model.modules():
            if isinstance(layer, nn.Linear):
                nn.init.normal_(layer.weight, std=0.02)
        table = torch.randn(config.text.vocab_size, config.text.hidden_size)
    model.language_model.embed_tokens.weight.copy_(8.0 * table)
    n_free = 128  # below are the special tokens, never an answer
    answers = torch.arange(config.text.vocab_size, device=device)
    answers[n_free:] = n_free + (answers[n_free:] - n_free + 1) % (config.text.vocab_size - n_free)
    answers[:n_free] = n_free
    head = torch.zeros_like(table)
    head[answers[n_free:]] = table[n_free:]
    head[n_free] += table[:n_free].mean(0)
    model.lm_head.weight.copy_(head)
    tokenizer = build_tokenizer("\n abcdefghijklmnopqrstuvwxyz")
    diffusion = BlockDiffusion(32, token_id(tokenizer, MASK_TOKEN))
    prompts = PromptBuilder(tokenizer, ImageSpec(min_pixels=2 * 56 * 56, max_pixels=2 * 448 * 448))
    stop_ids = frozenset({token_id(tokenizer, EOS_TOKEN)})
    name = f"random-{sum(one.numel() for one in model.parameters()) / 1e6:.0f}M"
    return Checkpoint(Path(name), model, tokenizer, prompts, diffusion, stop_ids)


class Parts:
    """Run measurements one after another while there is time, and write what each returns."""

    def __init__(self, out: Path, budget_s: float) -> None:
        self.out = out
        self.ends = time.monotonic() + budget_s
        self.left_out: list[str] = []

    def run(self, name: str, measure: Callable[[], dict[str, Any]], dtype: str, device: str, checkpoint: str) -> None:
        """Run one part. A part that fails is told and leaves the others alone."""
        if time.monotonic() > self.ends:
            self.left_out.append(f"{name}: out of time")
            return
        began = time.monotonic()
        try:
            report = measure()
        except (GravityOCRError, RuntimeError) as error:  # an accelerator's errors are RuntimeErrors
            self.left_out.append(f"{name}: {type(error).__name__}: {str(error).splitlines()[0]}")
            return
        report |= {"checkpoint": checkpoint, "machine": machine(dtype, device)}
        (self.out / f"{name}.json").write_text(json.dumps(report), encoding="utf-8")
        print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)


def nano_parts(parts: Parts, device: str, cases: list[Case], repeats: int) -> None:
    """Measure the embedded checkpoint: identity in bf16 with and without the guard, and its own drafts."""
    engine = Engine.from_pretrained("nano", EngineConfig(max_tokens=256), "bfloat16", device)
    modes = parse_modes("ar,self-spec,self-spec+fixed,fused+fixed,default")

    def equality() -> dict[str, Any]:
        judges = Judges(
            judge(engine.checkpoint, engine.networks, 256),
            judge(engine.checkpoint, Networks.all_of(engine.networks.exact), 256),
        )
        readers, unguarded = (
            engines_of(one, modes)
            # Fixed shapes are what CUDA captures as graphs; both must give the ids of AR.
            | {
                name: one.with_config(windows="fixed", static_steps=on)
                for name, on in (("graphs", True), ("eager", False))
            }
            for one in (engine, engine.with_config(guard_margin=0.0))
        )
        report = bench_equality(readers, cases, judges, unguarded=unguarded)
        return {**report, "guard_margin": engine.config.guard_margin, "protocol": "together"}

    def decode() -> dict[str, Any]:
        shapes = {mode.name: shape for mode in modes if (shape := mode.shape(engine)) is not None}
        timer = forward_timer(engine, cases[0].crop())
        report = bench_decode(engines_of(engine, modes), cases, repeats, timer=timer, shapes=shapes)
        return {**report, "protocol": "together", "boundary": f"{report['boundary']}; {PROTOCOLS['together']}"}

    parts.run("nano-equality", equality, "bfloat16", device, "nano")
    parts.run("nano-decode", decode, "bfloat16", device, "nano")


def full_size_parts(parts: Parts, device: str, config: OcrConfig, sizes: list[int], max_tokens: int,
                    cases: list[Case]) -> None:  # fmt: skip
    """Decode queues with the full-size network: SIMULATED, at every size, as text and as tables accept drafts."""
    checkpoint = random_checkpoint(config, device)
    engine = Engine(checkpoint, EngineConfig(max_tokens=max_tokens), precision_of(checkpoint.model, "bfloat16"))
    modes = parse_modes("ar,self-spec+fixed,fused+fixed,self-spec")
    tasks: tuple[Task, ...] = ("text", "table")
    for task in tasks:
        queue = [replace(case, task=task) for case in cases if case.task == "text"]

        def simulate(task: Task = task, queue: list[Case] = queue) -> dict[str, Any]:
            reports = [_queue_of(size, engine, modes, task, queue) for size in sizes]
            merged = {size: row for report in reports for size, row in report["sizes"].items()}
            return {**reports[-1], "sizes": merged, "profile": {"name": f"paper, {task}", "seed": 0}}

        parts.run(f"simulated-{task}", simulate, "bfloat16", device, checkpoint.path.name)


def _queue_of(size: int, engine: Engine, modes: list[Mode], task: Task, queue: list[Case]) -> dict[str, Any]:
    """Decode a queue that just fills this size: one for all sizes would take a batch of 1 too long."""
    readers = simulated_engines(engine, modes, "paper", 0, [task], max_running=size)
    return bench_batch({size: readers}, queue[: FILL * size], 1, fill=FILL, simulated=True)


def main(arguments: list[str] | None = None) -> int:
    """Run everything; 1 where a part was left out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for the JSON files")
    parser.add_argument("--budget-s", type=float, default=500.0, help="seconds after which no part is begun")
    parser.add_argument("--dry-run", action="store_true", help="the same path on a CPU with tiny sizes")
    args = parser.parse_args(arguments)
    if not args.dry_run and not torch.cuda.is_available():
        print("error: no CUDA device; --dry-run takes the same path on a CPU", file=sys.stderr)
        return 2
    args.out.mkdir(parents=True, exist_ok=True)
    device = "cpu" if args.dry_run else "cuda"
    parts = Parts(args.out, args.budget_s)
    cases = load_cases(CROPS, limit=2 if args.dry_run else None)
    nano_parts(parts, device, cases, 1 if args.dry_run else 3)
    if args.dry_run:
        full_size_parts(parts, device, TINY, [1, 2], 40, cases)
    else:
        full_size_parts(parts, device, OcrConfig(), [1, 4, 16, 64], 128, cases)
    for line in parts.left_out:
        print(f"left out: {line}", file=sys.stderr)
    return 1 if parts.left_out else 0


if __name__ == "__main__":
    sys.exit(main())
