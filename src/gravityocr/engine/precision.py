"""Which types the stages of reading compute in, and the twins of the network that do so."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from gravityocr.decoding.plan import Planner
from gravityocr.decoding.prompts import Networks
from gravityocr.engine.costs import MachineCosts, measure_costs, measure_head
from gravityocr.errors import ConfigError
from gravityocr.model.device import multiplies_bf16
from gravityocr.model.draft_head import DraftHead
from gravityocr.model.ocr_model import OcrModel
from gravityocr.model.packed import packed_copy

DTYPES = ("auto", "float32", "mixed", "bfloat16")


@dataclass
class Precision:
    """The network in the types of its stages, and what was measured of it; engines over the same weights share it.

    `guarded` tells whether near ties are decided in fp32, `n_threads` on how many threads a forward may run.
    """

    networks: Networks
    guarded: bool
    n_threads: int = 1
    measured: MachineCosts | None = None
    planners: dict[bool, Planner] = field(default_factory=dict)

    def costs(self) -> MachineCosts:
        """Return what forwards cost here, measured when it is first asked for."""
        if self.measured is None:
            self.measured = measure_costs(self.networks.decode, self.n_threads)
        return self.measured

    def planner(self, head: DraftHead | None, mask_id: int) -> Planner:
        """Return the planner of drafts with or without a head, which remembers what earlier sequences accepted."""
        known = self.planners.get(head is not None)
        if known is None:
            head_costs = None if head is None else measure_head(self.networks.decode, head, mask_id)
            known = self.planners[head is not None] = Planner(self.costs().table, head_costs)
        return known


def check_precision(dtype: str) -> None:
    """Refuse an unknown name. *Raises*: ConfigError."""
    if dtype not in DTYPES:
        raise ConfigError(f"unknown dtype {dtype!r}; choose one of {', '.join(DTYPES)}")


def precision_of(model: OcrModel, dtype: str, n_threads: int = 1) -> Precision:
    """Return a network's twins for a precision.

    "float32" computes everything in fp32. "mixed" multiplies in bf16 in vision and prefill, which all decode modes
    share, and decodes in fp32. "bfloat16" decodes in bf16, too, and lets fp32 decide near ties. "auto" takes the
    fastest that this device has. Norms, softmax, rotation and the residual stream are fp32 in all of them.

    *Raises*: ConfigError for an unknown name.
    """
    check_precision(dtype)
    if dtype == "auto":
        dtype = "bfloat16" if multiplies_bf16(model.device) else "float32"
    exact = packed_copy(model, torch.float32)
    if dtype == "float32":
        return Precision(Networks.all_of(exact), guarded=False, n_threads=n_threads)
    reduced = packed_copy(model, torch.bfloat16)
    # Logits rounded to bf16 would tie all the time: their steps are as wide as most close calls.
    reduced.lm_head = exact.lm_head
    if dtype == "mixed":
        return Precision(Networks(exact, reduced, exact), guarded=False, n_threads=n_threads)
    return Precision(Networks(exact, reduced, reduced), guarded=True, n_threads=n_threads)
