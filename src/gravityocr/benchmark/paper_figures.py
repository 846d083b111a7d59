"""The paper's own figures, taken on its authors' machine: shown beside ours, never mixed with them.

*Source*: sections 4 and 8; one H100, full resolution, natural end.
"""

from __future__ import annotations

from collections.abc import Mapping

CAPTION = "The paper's figures: a 0.9 B network on one H100, its own crops and checkpoint; not comparable row by row."

Rows = Mapping[str, Mapping[str, float | int | str]]

BATCH_ONE: Rows = {
    "Transformers": {
        "AR decode tok/s": 53, "self-spec decode tok/s": 293, "x decode": 5.53,
        "AR region tok/s": 51, "self-spec region tok/s": 161, "x region": 3.20,
    },
    "SGLang": {
        "AR decode tok/s": 777, "self-spec decode tok/s": 3057, "x decode": 3.94,
        "AR region tok/s": 486, "self-spec region tok/s": 844, "x region": 1.74,
    },
}  # fmt: skip
BY_KIND: Rows = {
    "text": {"crops": 7019, "mean tokens": 73, "accepted": 15.0, "TPF": 8.5, "x region": 1.54},
    "formula": {"crops": 1660, "mean tokens": 95, "accepted": 18.9, "TPF": 10.5, "x region": 1.82},
    "table": {"crops": 243, "mean tokens": 872, "accepted": 25.0, "TPF": 13.5, "x region": 3.36},
}
BY_LENGTH: Rows = {
    "<128": {"crops": 7257, "accepted": 14.8, "TPF": 8.4, "x region": 1.43},
    "128-511": {"crops": 1496, "accepted": 18.1, "TPF": 10.1, "x region": 2.02},
    "512-1023": {"crops": 92, "accepted": 18.4, "TPF": 10.2, "x region": 2.76},
    ">=1024": {"crops": 77, "accepted": 23.9, "TPF": 12.9, "x region": 3.68},
}
PAGES: Rows = {
    "GLM-OCR AR": {"TPF": 1.0, "page tok/s": 807, "pages/s": 0.571},
    "GLM-OCR MTP (vLLM)": {"TPF": 3.7, "page tok/s": 667, "pages/s": 0.472},
    "GravityOCR AR": {"TPF": 1.0, "page tok/s": 794, "pages/s": 0.554},
    "GravityOCR self-speculation": {"TPF": 9.7, "page tok/s": 1047, "pages/s": 0.730},
}
BATCH: Rows = {
    "1": {"x AR": 1.85},
    "64": {"x AR": 1.13, "AR tok/s": 1642, "self-spec tok/s": 1857},
}
CONCURRENCY: Rows = {
    "one by one": {"AR pages/s": 0.273, "self-spec pages/s": 0.420, "x AR": 1.54},
    "18 together": {"AR pages/s": 0.581, "self-spec pages/s": 0.781, "x AR": 1.34},
}
EQUALITY: Rows = {
    "self-speculation, bf16": {
        "crops": 8922, "identical strings": "96.6 %", "median margin": 0.14, "parted": 305, "fp32 with AR": 228,
        "fp32 with self-spec": 77, "margin < 0.05": 65,
    },
}  # fmt: skip
