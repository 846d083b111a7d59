"""The text of a dry run: what the run does and costs, whether all is there, and at last its settings."""

from __future__ import annotations

from typing import Any

from gravityocr.commands.dry_run_checks import Check
from gravityocr.training.effective_settings import effective_toml

SETTINGS = "# The settings of this run."
_SHARED = {
    "none": "nothing shared out",
    "zero2": "gradients and optimiser shared out (ZeRO-2)",
    "fsdp2": "weights, gradients and optimiser shared out (FSDP2)",
}


def plan_text(plan: dict[str, Any]) -> str:
    """Return a plan as text: the figures, the checks, and the settings that have an effect as TOML."""
    settings = [SETTINGS, effective_toml(plan["toml"]).rstrip()]
    return "\n".join([*_cost_lines(plan), *_device_lines(plan), "", *_check_lines(plan), "", *settings])


def _cost_lines(plan: dict[str, Any]) -> list[str]:
    sizes, tokens, network = plan["network"]["parameters"], plan["tokens"], plan["network"]
    parts = ", ".join(f"{name} {n / 1e6:.1f}" for name, n in sizes.items() if name != "total")
    trained = "all" if network["trained"] == sizes["total"] else f"{network['trained'] / 1e6:,.1f} M"
    step = f"{tokens['step']:,} a step, in {_counted(tokens['rows_per_step'], 'row')} of {tokens['row']:,}"
    if plan["steps"] is None:
        length = [f"steps     as many as {plan['budget_s']:,.0f} s allow", f"tokens    {step}"]
    else:
        total = f"{tokens['total']:,} forward tokens{_rounded(tokens['total'])}"
        length = [f"steps     {plan['steps']:,}", f"tokens    {total}: {step}"]
    return [
        f"network   {network['source']}",
        f"          {sizes['total'] / 1e6:,.1f} M parameters: {parts}",
        f"          {trained} of them are trained",
        *length,
        *_sample_lines(plan["samples"]),
        _flops_line(plan["flops"]),
        *_memory_lines(plan["memory"]),
    ]


def _counted(n: int, word: str) -> str:
    return f"{n:,} {word}" if n == 1 else f"{n:,} {word}{'es' if word.endswith('s') else 's'}"


def _rounded(n: float) -> str:
    """Return a large number in words, nothing for one that is read as easily as it stands."""
    return f" ({n / 1e9:.1f} B)" if n >= 1e9 else f" ({n / 1e6:.1f} M)" if n >= 1e7 else ""


def _sample_lines(samples: dict[str, Any]) -> list[str]:
    lines = [
        f"samples   {samples['per_row']} a row, of {samples['mean_tokens']} forward tokens in the mean",
        f"          {samples['source']}",
    ]
    if samples["total"] is not None:
        epochs = ""
        if samples["epochs"] is not None:
            epochs = f": {samples['epochs']} times the {samples['n_regions']:,} regions of the pool"
        lines.append(f"          {samples['total']:,} in the whole run{epochs}")
    if samples["waste"] is not None:
        lines.append(f"          {samples['waste']:.1%} of the rows' room stays empty")
    return lines


def _flops_line(flops: dict[str, Any]) -> str:
    line = f"FLOPs     {flops['model_per_token'] / 1e9:.3g} G a forward token, forward and backward"
    if flops["executed_per_token"] > flops["model_per_token"]:
        repeated = flops["executed_per_token"] / 1e9
        line += f"; {repeated:.3g} G with the forwards that activation checkpointing repeats"
    return line if flops["total"] is None else f"{line}; {flops['total']:.2e} in the whole run"


def _memory_lines(memory: dict[str, Any]) -> list[str]:
    terms = ", ".join(f"{name} {_gb(value)}" for name, value in memory["bytes"].items() if value >= 5e6)
    processes = _counted(memory["n_processes"], "process")
    if memory["n_processes"] > 1:
        processes += f", {_SHARED[memory['sharding']]}"
    return [
        f"memory    {_gb(memory['total_bytes'])} GB a process ({processes}) over a row of mean samples:",
        f"          {terms}",
        f"          {_gb(memory['largest_row_bytes'])} GB at worst: over a row that is images from end to end",
    ]


def _gb(n_bytes: float) -> str:
    return f"{n_bytes / 1e9:.1f}" if n_bytes >= 1e9 else f"{n_bytes / 1e9:.2f}"


def _device_lines(plan: dict[str, Any]) -> list[str]:
    if not plan["by_n_devices"]:
        return []
    shardings = [*plan["by_n_devices"][0]["memory_bytes"]]
    devices = [*plan["by_n_devices"][0]["hours"]]
    rows = [["GPUs", "rows each", *(f"GB {kind}" for kind in shardings), *(f"h {name}" for name in devices)]]
    for one in plan["by_n_devices"]:
        hours = ["-" if one["hours"][name] is None else f"{one['hours'][name]:.1f}" for name in devices]
        memory = [_gb(one["memory_bytes"][kind]) for kind in shardings]
        rows.append([str(one["n_devices"]), f"{one['accumulation']:g}", *memory, *hours])
    lines = ["  ".join(f"{cell:>9}" for cell in row) for row in rows]
    assumed = plan["assumptions"]
    peaks = ", ".join(f"{name} {peak / 1e12:.0f}" for name, peak in assumed["peak_flops"].items())
    shared = "; ".join(f"{kind}: {_SHARED[kind]}" for kind in shardings)
    return [
        "",
        "The same run on other numbers of GPUs, the rows of a step shared out among them:",
        *lines,
        f"GB: memory of a GPU over a row of mean samples; {shared}",
        f"h: hours of the whole run at {assumed['utilisation']:.0%} of the peak bf16 TFLOP/s ({peaks}), no time lost "
        "between GPUs or on validation",
    ]


def _check_lines(plan: dict[str, Any]) -> list[str]:
    checks = [Check(**check) for check in plan["checks"]]
    lines = [f"{'ok     ' if check.ok else 'NOT OK '}  {check.name}: {check.detail}" for check in checks]
    n_failed = sum(not check.ok for check in checks)
    return [*lines, "ready" if not n_failed else f"not ready: {n_failed} of {len(checks)} checks failed"]
