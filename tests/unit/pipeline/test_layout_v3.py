"""PP-DocLayoutV3 with random weights: what goes into the network, what comes out, what does not load."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from tests.unit.pipeline.tiny_v3 import SIDE_PX, save_tiny_v3

from gravityocr.document import Box
from gravityocr.errors import ConfigError
from gravityocr.pipeline import layout_v3_checkpoint
from gravityocr.pipeline.layout_v3 import PPDocLayoutV3Detector, pixel_values, raw_detections, reading_ranks
from gravityocr.pipeline.layout_v3_checkpoint import ImageInput, image_input
from gravityocr.pipeline.layout_v3_config import V3_LABELS, V3Config

SIZE = (200, 300)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_v3(tmp_path_factory.mktemp("v3"))


@pytest.fixture(scope="module")
def page() -> Image.Image:
    noise = np.random.default_rng(0).integers(0, 256, (SIZE[1], SIZE[0], 3), dtype=np.uint8)
    return Image.fromarray(noise)


def test_detections_are_regions_of_the_page_in_reading_order(tiny: Path, page: Image.Image) -> None:
    found = PPDocLayoutV3Detector(tiny).detect(page)
    assert len(found) > 5
    assert [item.order for item in found] == list(range(len(found)))
    for item in found:
        assert item.box == item.box.clamp(SIZE)
        assert item.label == V3_LABELS[item.native_label] and item.score >= 0.3
        assert item.polygon == () or len(item.polygon) >= 4


def test_two_runs_and_two_loads_say_the_same(tiny: Path, page: Image.Image) -> None:
    first, second = PPDocLayoutV3Detector(tiny), PPDocLayoutV3Detector(str(tiny))
    assert first.detect(page) == first.detect(page) == second.detect(page)


def test_thresholds_and_unclip_reach_the_result(tiny: Path, page: Image.Image) -> None:
    plain = PPDocLayoutV3Detector(tiny).detect(page)
    native = plain[0].native_label
    assert PPDocLayoutV3Detector(tiny, V3Config(threshold=0.999)).detect(page) == []
    strict = V3Config(threshold_by_class={native: 0.999})
    assert all(item.native_label != native for item in PPDocLayoutV3Detector(tiny, strict).detect(page))
    wide = PPDocLayoutV3Detector(tiny, V3Config(unclip=(1.5, 1.0))).detect(page)
    inner = next(k for k, item in enumerate(plain) if item.box.x0 > 20 and item.box.x1 < 180)
    assert wide[inner].box.width == pytest.approx(1.5 * plain[inner].box.width, rel=1e-4)
    assert wide[inner].box.height == pytest.approx(plain[inner].box.height, rel=1e-4)
    assert all(item.polygon == () for item in wide)


def test_a_sure_mask_becomes_an_outline(tiny: Path, page: Image.Image, monkeypatch: pytest.MonkeyPatch) -> None:
    detector = PPDocLayoutV3Detector(tiny)
    forward = detector._network.forward

    def with_masks(**inputs: torch.Tensor) -> object:
        outputs = forward(**inputs)
        outputs.logits[:] = -9.0
        outputs.logits[0, 4, 22] = 3.0  # one region: text, in the left three quarters of the page
        outputs.pred_boxes[0, 4] = torch.tensor([0.375, 0.5, 0.75, 1.0])
        outputs.out_masks[:] = -9.0
        side = outputs.out_masks.shape[-1]
        outputs.out_masks[0, 4, : side // 2, : side * 3 // 4] = 9.0
        outputs.out_masks[0, 4, :, : side // 4] = 9.0
        return outputs

    monkeypatch.setattr(detector._network, "forward", with_masks)
    (item,) = detector.detect(page)
    assert (item.label, item.box) == ("text", Box(0.0, 0.0, 150.0, 300.0))
    # an L: its inner corner is left out, the five outer ones stay
    assert set(item.polygon) == {(0.0, 0.0), (150.0, 0.0), (150.0, 150.0), (50.0, 300.0), (0.0, 300.0)}
    detector.config = V3Config(polygons=False)
    assert detector.detect(page)[0].polygon == ()


def test_bicubic_without_antialias_by_hand() -> None:
    values = np.random.default_rng(1).integers(100, 156, (23, 31, 3), dtype=np.uint8)
    spec = ImageInput(size_px=(8, 6), mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4))
    got = pixel_values(Image.fromarray(values), spec)[0].numpy()

    def weight(distance: float) -> float:  # the cubic kernel with a = -0.75
        d = abs(distance)
        if d <= 1:
            return 1.25 * d**3 - 2.25 * d**2 + 1
        return -0.75 * d**3 + 3.75 * d**2 - 6 * d + 3 if d < 2 else 0.0

    for y in range(6):
        for x in range(8):
            cy, cx = (y + 0.5) * 23 / 6 - 0.5, (x + 0.5) * 31 / 8 - 0.5
            total = np.zeros(3)
            for row in range(int(np.floor(cy)) - 1, int(np.floor(cy)) + 3):
                for column in range(int(np.floor(cx)) - 1, int(np.floor(cx)) + 3):
                    pixel = values[min(22, max(0, row)), min(30, max(0, column))].astype(float)
                    total += weight(cy - row) * weight(cx - column) * pixel
            total = (total / 255 - np.array(spec.mean)) / np.array(spec.std)
            off = np.abs(got[:, y, x] - total) * np.array(spec.std) * 255
            assert off.max() <= 1.5, (x, y)  # bytes are rounded along either axis


def test_an_image_of_the_right_size_and_other_modes() -> None:
    values = np.random.default_rng(2).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    spec = ImageInput(size_px=(8, 6))
    exact = torch.from_numpy(values).permute(2, 0, 1)[None].float() / 255
    assert torch.equal(pixel_values(Image.fromarray(values), spec), exact)
    grey = pixel_values(Image.new("L", (50, 40), 128), spec)
    assert grey.shape == (1, 3, 6, 8) and bool((grey == 128 / 255).all())


def test_reading_ranks_count_the_votes() -> None:
    logits = torch.randn(9, 9, generator=torch.Generator().manual_seed(5))
    before = logits.sigmoid().tolist()
    votes = [sum(before[i][j] for i in range(j)) + sum(1 - before[j][i] for i in range(j + 1, 9)) for j in range(9)]
    expected = [sorted(votes).index(vote) for vote in votes]
    assert reading_ranks(logits).tolist() == expected
    chain = torch.full((4, 4), 9.0)
    assert reading_ranks(chain).tolist() == [0, 1, 2, 3]


def test_one_query_may_stand_for_two_classes() -> None:
    logits = torch.tensor([[3.0, -5.0, 2.0], [-5.0, 1.0, -5.0], [-9.0, -9.0, -9.0]])
    boxes = torch.tensor([[0.5, 0.5, 0.2, 0.4], [0.25, 0.25, 0.1, 0.1], [0.9, 0.9, 0.1, 0.1]])
    found = raw_detections(logits, boxes, torch.full((3, 3), -9.0), (100, 200))
    assert found.class_ids.tolist() == [0, 2, 1] and found.queries.tolist() == [0, 0, 1]
    assert found.scores == pytest.approx([1 / (1 + np.exp(-value)) for value in (3, 2, 1)])
    assert found.boxes.tolist() == [pytest.approx([40, 60, 60, 140])] * 2 + [pytest.approx([20, 40, 30, 60])]
    assert found.orders.tolist() == [2, 2, 1]  # by the votes the third query comes first, the first last


def test_against_the_image_processor_of_transformers(tiny: Path, page: Image.Image) -> None:
    pytest.importorskip("torchvision", reason="the image processor of transformers needs torchvision")
    pytest.importorskip("cv2", reason="the image processor of transformers needs OpenCV")
    from transformers import PPDocLayoutV3ForObjectDetection, PPDocLayoutV3ImageProcessor

    processor = PPDocLayoutV3ImageProcessor.from_pretrained(tiny)
    inputs = processor(images=[page], return_tensors="pt")
    spec = ImageInput(size_px=(SIDE_PX, SIDE_PX))
    assert torch.equal(inputs["pixel_values"], pixel_values(page, spec))
    with torch.no_grad():
        outputs = PPDocLayoutV3ForObjectDetection.from_pretrained(tiny).eval()(**inputs)
    sizes = torch.tensor([page.size[::-1]])
    (theirs,) = processor.post_process_object_detection(outputs, threshold=0.3, target_sizes=sizes)
    ours = raw_detections(outputs.logits[0], outputs.pred_boxes[0], outputs.order_logits[0], page.size)
    ours = ours.take(ours.scores >= 0.3)
    ours = ours.take(np.argsort(ours.orders, kind="stable"))
    assert ours.class_ids.tolist() == theirs["labels"].tolist()
    assert ours.orders.tolist() == theirs["order_seq"].tolist()
    np.testing.assert_allclose(ours.boxes, theirs["boxes"].numpy(), rtol=0, atol=1e-4)
    np.testing.assert_allclose(ours.scores, theirs["scores"].numpy(), rtol=0, atol=1e-6)


# What does not load ---------------------------------------------------------------------------


def changed(tiny: Path, folder: Path, file: str, **settings: object) -> Path:
    """Copy the checkpoint and change settings in one of its JSON files."""
    shutil.copytree(tiny, folder)
    content = json.loads((folder / file).read_text(encoding="utf-8"))
    (folder / file).write_text(json.dumps(content | settings), encoding="utf-8")
    return folder


def test_unknown_classes_are_named(tiny: Path, tmp_path: Path) -> None:
    names = {str(place): name for place, name in enumerate(V3_LABELS)} | {"3": "barcode"}
    folder = changed(tiny, tmp_path / "other", "config.json", id2label=names)
    with pytest.raises(ConfigError, match=r"other: classes \['barcode'\]"):
        PPDocLayoutV3Detector(folder)


def test_names_that_two_ids_share_are_told_apart_by_the_id(tiny: Path, tmp_path: Path, page: Image.Image) -> None:
    names = {str(place): name for place, name in enumerate(V3_LABELS)} | {"9": "footer", "23": "text"}
    folder = changed(tiny, tmp_path / "other", "config.json", id2label=names)
    detector = PPDocLayoutV3Detector(folder)
    assert detector._names == tuple(V3_LABELS)
    assert detector.detect(page) == PPDocLayoutV3Detector(tiny).detect(page)


def test_another_kind_of_model_and_missing_files(tiny: Path, tmp_path: Path) -> None:
    folder = changed(tiny, tmp_path / "detr", "config.json", model_type="rt_detr")
    with pytest.raises(ConfigError, match=r"detr: config.json says model type 'rt_detr'"):
        PPDocLayoutV3Detector(folder)
    (folder / "config.json").write_text("{", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"config\.json: cannot be read"):
        PPDocLayoutV3Detector(folder)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=r"empty: the folder has no model\.safetensors"):
        PPDocLayoutV3Detector(tmp_path / "empty")


def test_weights_that_are_missing_or_broken(tiny: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny, tmp_path / "cut"))
    weights = load_file(folder / "model.safetensors")
    removed = next(name for name in weights if "enc_output.0" in name)
    del weights[removed]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ConfigError, match=f"cut: 1 weights are missing, the first {removed}"):
        PPDocLayoutV3Detector(folder)
    (folder / "model.safetensors").write_bytes(b"no weights at all")
    with pytest.raises(ConfigError, match="cut: does not load"):
        PPDocLayoutV3Detector(folder)


@pytest.mark.parametrize("device", ["cuda:99", "abacus", "meta"])
def test_a_device_that_is_not_there(tiny: Path, device: str) -> None:
    with pytest.raises(ConfigError, match=f"device '{device}'"):
        PPDocLayoutV3Detector(tiny, device=device)


def test_without_transformers_the_extra_is_named(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout_v3_checkpoint, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'gravityocr\[transformers\]'"):
        PPDocLayoutV3Detector(tiny)


def test_settings_of_the_image() -> None:
    assert image_input({}, "here") == ImageInput()
    given = {"size": {"height": 640, "width": 480}, "image_mean": [0.1, 0.2, 0.3], "image_std": [1, 2, 3]}
    assert image_input(given, "here") == ImageInput((480, 640), 1 / 255, (0.1, 0.2, 0.3), (1, 2, 3))
    plain = image_input(given | {"do_normalize": False, "do_rescale": False}, "here")
    assert plain == ImageInput((480, 640), 1.0)


@pytest.mark.parametrize(
    ("settings", "named"),
    [({"resample": 2}, "resample"), ({"do_pad": True}, "do_pad"), ({"size": {"shortest_edge": 800}}, "width")],
)
def test_settings_that_the_detector_does_not_follow(settings: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError, match=f"here: .*{named}"):
        image_input(settings, "here")
