"""Shards give back what was written; broken ones are named."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gravityocr.errors import InputError
from gravityocr.training.synthetic.shards import RenderedSample, Shard, shard_files, write_shard


def sample(tokens: tuple[str, ...], seed: int = 0) -> RenderedSample:
    rng = np.random.default_rng(seed)
    centers = rng.random((len(tokens), 2)).astype(np.float32)
    centers[::2] = np.nan
    return RenderedSample("formula", rng.integers(0, 256, (8 + seed, 20), np.uint8), tokens, centers, "here é")


def test_samples_come_back_as_they_were(tmp_path):
    samples = [sample(("\\alpha ", "{", "x", "}")), sample((), 1), sample(("ß", "\n"), 2)]
    file = tmp_path / "a.shard.npz"
    write_shard(file, samples)
    shard = Shard(file)
    assert len(shard) == 3
    for number, old in enumerate(samples):
        new = shard[number]
        assert (new.task, new.tokens, new.source, new.target) == (old.task, old.tokens, old.source, old.target)
        np.testing.assert_array_equal(new.image, old.image)
        np.testing.assert_array_equal(new.centers_px, old.centers_px)
    with pytest.raises(IndexError):
        shard[3]
    assert not list(tmp_path.glob("*.part"))


def test_an_empty_shard_is_a_shard(tmp_path):
    write_shard(tmp_path / "a.shard.npz", [])
    assert len(Shard(tmp_path / "a.shard.npz")) == 0


def test_centres_must_fit_the_tokens(tmp_path):
    bad = RenderedSample("text", np.zeros((4, 4), np.uint8), ("a", "b"), np.zeros((1, 2), np.float32), "x")
    with pytest.raises(InputError, match="sample 0: 2 tokens"):
        write_shard(tmp_path / "a.shard.npz", [bad])
    assert not (tmp_path / "a.shard.npz").exists()


@pytest.mark.parametrize("damage", ["missing", "text", "cut", "other"])
def test_broken_shards_are_named(tmp_path, damage):
    file = tmp_path / "a.shard.npz"
    write_shard(file, [sample(("a",))])
    if damage == "missing":
        file.unlink()
    elif damage == "text":
        file.write_text("no shard")
    elif damage == "cut":
        file.write_bytes(file.read_bytes()[:-200])
    else:
        np.savez(file, png=np.zeros(3, np.uint8))
    with pytest.raises(InputError, match=r"a\.shard\.npz is no shard.*data synth"):
        Shard(file)


@pytest.mark.parametrize(
    ("part", "wrong", "words"),
    [
        ("records", {}, "no list"),
        ("records", [5, 5], "sample 0 has no task"),
        ("records", [{"task": "poem", "tokens": ["a"], "source": ""}] * 2, "sample 0 has no task"),
        ("records", [{"task": "text", "tokens": "a", "source": ""}] * 2, "no list of strings"),
        ("records", [{"task": "text", "tokens": [["a"]], "source": ""}] * 2, "no list of strings"),
        ("records", [{"task": "text", "tokens": ["a"]}] * 2, "no string as source"),
        ("records", [{"task": "text", "tokens": ["a"], "source": ""}], "do not fit"),
        ("png", np.zeros(400), "must hold bytes"),
        ("png_ends", np.array([9, 5]), "does not ascend"),
        ("png_ends", np.array([5, 10**9]), "does not ascend"),
        ("centers", np.zeros((3, 2), np.float32), "do not fit"),
        ("centers", np.full((2, 2), np.inf, np.float32), "finite"),
        ("centers", np.array([[1, np.nan], [1, 1]], np.float32), "finite"),
        ("centers", np.array([["a", "b"], ["c", "d"]]), "decimal"),
    ],
)
def test_what_no_shard_holds_is_told_on_opening(tmp_path, part, wrong, words):
    file = tmp_path / "a.shard.npz"
    write_shard(file, [sample(("a",)), sample(("b",))])
    with np.load(file) as arrays:
        parts = dict(arrays)
    parts[part] = np.frombuffer(json.dumps(wrong).encode(), np.uint8) if part == "records" else wrong
    np.savez(file, **parts)
    with pytest.raises(InputError, match=rf"a\.shard\.npz is no shard \(.*{words}"):
        Shard(file)


def test_a_broken_picture_is_told_when_it_is_asked_for(tmp_path):
    file = tmp_path / "a.shard.npz"
    write_shard(file, [sample(("a",))])
    with np.load(file) as arrays:
        np.savez(file, **{**arrays, "png": np.zeros_like(arrays["png"])})
    with pytest.raises(InputError, match=r"sample 0: its picture is broken \(no image\); make"):
        Shard(file)[0]


def test_shards_are_found_in_order(tmp_path):
    for name in ("b", "a"):
        (tmp_path / name).mkdir()
        write_shard(tmp_path / name / "x.shard.npz", [])
    assert [file.parent.name for file in shard_files(tmp_path)] == ["a", "b"]
    with pytest.raises(InputError, match="no shard"):
        shard_files(tmp_path / "c")
