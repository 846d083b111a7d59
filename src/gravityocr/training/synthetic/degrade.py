"""Degradations of a crop: from an ink-coverage map to the grey image of a scan, a photocopy or a screen."""

import io

import numpy as np
from PIL import Image, ImageFilter


def degrade(coverage: Image.Image, rng: np.random.Generator, difficulty: float) -> np.ndarray:
    """Turn ink coverage (mode L, 255 = full ink) into a grey image with the marks of reproduction.

    Shapes: returns uint8 [H, W], the size of `coverage`.
    """
    if rng.random() >= 0.7 * difficulty + 0.05:
        return _tone(np.asarray(coverage, dtype=np.float32), rng, 0.3 * difficulty)
    if rng.random() < 0.40:
        coverage = coverage.filter(ImageFilter.GaussianBlur(float(rng.uniform(0.3, 0.5 + 0.9 * difficulty))))
    ink = np.asarray(coverage, dtype=np.float32)
    if rng.random() < 0.30:
        ink = _change_stroke(ink, rng)
    roll = rng.random()
    if roll < 0.15:
        ink = _fade(ink, rng)
    elif roll < 0.25:
        ink = _binarise(ink, rng)
    elif roll < 0.29:
        ink = _bleed_through(ink, rng)
    grey = _tone(ink, rng, difficulty)
    if rng.random() < 0.35:
        sigma = float(rng.uniform(1.0, 4.0 + 14.0 * difficulty * rng.random()))
        noise = rng.standard_normal(grey.shape, dtype=np.float32)
        grey = np.clip(grey + sigma * noise, 0, 255).astype(np.uint8)
    if rng.random() < 0.35:
        grey = _jpeg(grey, int(rng.integers(30, 91)))
    return grey


def _change_stroke(ink: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Thicken or thin strokes by blending with the maximum or minimum over a 3 x 3 plus shape."""
    thicker = rng.random() < 0.6
    pick = np.maximum if thicker else np.minimum
    out = ink.copy()
    pick(out[1:], ink[:-1], out=out[1:])
    pick(out[:-1], ink[1:], out=out[:-1])
    pick(out[:, 1:], ink[:, :-1], out=out[:, 1:])
    pick(out[:, :-1], ink[:, 1:], out=out[:, :-1])
    share = float(rng.uniform(0.15, 0.75 if thicker else 0.5))
    return (1.0 - share) * ink + share * out


def _fade(ink: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Let the ink fade in soft patches, never below 45 %."""
    coarse = rng.uniform(0.45, 1.1, (3, max(3, ink.shape[1] // 24))).astype(np.float32)
    patches = Image.fromarray(coarse).resize((ink.shape[1], ink.shape[0]), Image.Resampling.BICUBIC)
    faded: np.ndarray = ink * np.clip(np.asarray(patches), 0.4, 1.0)
    return faded


def _bleed_through(ink: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Let the other side of the sheet show: mirrored text, shifted, soft and pale."""
    back = np.roll(ink[:, ::-1], (int(rng.integers(-9, 10)), int(rng.integers(-40, 41))), axis=(0, 1))
    soft = Image.fromarray(back.astype(np.uint8)).filter(ImageFilter.GaussianBlur(float(rng.uniform(0.8, 2.0))))
    shown: np.ndarray = np.maximum(ink, np.asarray(soft, dtype=np.float32) * float(rng.uniform(0.06, 0.22)))
    return shown


def _binarise(ink: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Threshold as a fax does, sometimes with ragged edges; relative to the ink, so that thin strokes survive."""
    marked = ink[ink > 40]
    usual = float(marked.mean()) if marked.size else 128.0
    threshold: float | np.ndarray = usual * float(rng.uniform(0.5, 0.95))
    if rng.random() < 0.5:
        threshold = threshold + 0.1 * usual * rng.standard_normal(ink.shape, dtype=np.float32)
    binary: np.ndarray = np.where(ink > threshold, np.float32(255), np.float32(0))
    return binary


def _tone(ink: np.ndarray, rng: np.random.Generator, strength: float) -> np.ndarray:
    """Choose paper and ink greys, a slow gradient, rarely an inversion; strength 0 gives black on white."""
    paper, dark = 255.0, 0.0
    if rng.random() < 0.55 * strength:
        paper = float(rng.uniform(200, 255))
    if rng.random() < 0.6 * strength:
        dark = float(rng.uniform(0, min(130.0, paper - 90.0)))
    grey = paper + (dark - paper) / 255.0 * ink
    if rng.random() < 0.1 * strength:
        grey = grey + np.linspace(-1, 1, ink.shape[1], dtype=np.float32) * float(rng.uniform(-18, 18))
    grey = np.clip(grey, 0, 255)
    if rng.random() < 0.04 * strength:
        grey = 255.0 - grey
    return (grey + 0.5).astype(np.uint8)


def _jpeg(grey: np.ndarray, quality: int) -> np.ndarray:
    buffer = io.BytesIO()
    Image.fromarray(grey).save(buffer, format="JPEG", quality=quality)
    with Image.open(buffer) as decoded:
        return np.array(decoded)
