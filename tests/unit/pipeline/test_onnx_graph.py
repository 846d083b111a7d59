"""The layout network's graph in terms that onnxruntime fuses: the same outputs."""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt
import onnxruntime
import pytest

from gravityocr.errors import InputError
from gravityocr.pipeline.layout_cdla import embedded_model
from gravityocr.pipeline.onnx_graph import with_hard_swish


@pytest.fixture(scope="module")
def original() -> bytes:
    return embedded_model().read_bytes()


def run(model: bytes) -> list[npt.NDArray[np.float32]]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    entry = session.get_inputs()[0]
    pixels = np.random.default_rng(0).normal(size=(1, *entry.shape[1:])).astype(np.float32)
    return list(session.run(None, {entry.name: pixels}))


def test_every_hard_swish_is_found_and_the_outputs_stay(original: bytes) -> None:
    changed = with_hard_swish(original)
    n_clips, n_sigmoids = original.count(b"\x04Clip"), original.count(b"\x0bHardSigmoid")
    assert n_clips > 50 and changed.count(b"\x04Clip") == 0
    assert changed.count(b"\x0bHardSigmoid") == n_sigmoids + n_clips
    for before, after in zip(run(original), run(changed), strict=True):
        np.testing.assert_allclose(after, before, rtol=0, atol=1e-4)


def test_a_model_without_the_pattern_stays_byte_for_byte(original: bytes) -> None:
    changed = with_hard_swish(original)
    assert with_hard_swish(changed) == changed
    other = original.replace(struct.pack("<f", 6.0), struct.pack("<f", 7.0))  # x * clip(x + 3, 0, 7) / 7
    assert other != original and with_hard_swish(other) == other


@pytest.mark.parametrize("broken", [b"", b"no model", b"\xff" * 40, b"\x3a\x05ab", b"\x3a\x03\x0a\x09x"])
def test_what_is_no_model_is_told(broken: bytes) -> None:
    with pytest.raises(InputError, match="hand an intact ONNX file"):
        with_hard_swish(broken)
