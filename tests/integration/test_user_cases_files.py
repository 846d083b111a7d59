"""Users' cases 7 to 10: locked, broken, misnamed and blank files, through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.user_case_inputs import (
    Outcome,
    bars_page,
    cli,
    encrypted_pdf,
    paper_share,
    picture,
    printed_page,
    printed_text,
    read,
    serving,
    write_pdf,
)

PAGE = (700, 900)


def page(number: int = 0) -> Image.Image:
    """A page whose amount of ink tells which one it is."""
    return bars_page((80, 80, 620, 200 + 40 * number), size=PAGE)


def parse(*arguments: object, out: Path) -> tuple[Outcome, list[dict]]:
    """Parse with a server that reads; return what the command left and the requests that came."""
    with serving() as double:
        outcome = cli("parse", *arguments, "-o", out, "--server", double.url, "--layout", "none", "--json")
        return outcome, double.requests


def markdown(out: Path, stem: str) -> str:
    return (out / stem / f"{stem}.md").read_text(encoding="utf-8")


def test_case_07_locked_pdfs(tmp_path: Path) -> None:
    """An owner's password keeps no reader out; a user's is asked for by name, and then it opens the file."""
    owner = encrypted_pdf(tmp_path / "owner.pdf", printed_page(0), b"", b"boss")
    user = encrypted_pdf(tmp_path / "user.pdf", printed_page(5), b"s3cret", b"boss")
    outcome, _ = parse(owner, user, out=tmp_path / "out")
    assert outcome.code == 1 and outcome.files["owner.pdf"]["status"] == "ok"
    assert outcome.files["user.pdf"]["status"] == "failed"
    assert (
        "password required" in outcome.files["user.pdf"]["error"] and "--password" in outcome.files["user.pdf"]["error"]
    )
    assert "user.pdf" in outcome.stderr and not (tmp_path / "out" / "user" / "user.md").exists()
    outcome, _ = parse(user, "--password", "wrong", out=tmp_path / "wrong")
    assert outcome.code == 1 and "password is wrong" in outcome.files["user.pdf"]["error"]
    outcome, requests = parse(user, "--password", "s3cret", out=tmp_path / "right")
    assert outcome.code == 0 and len(requests) == 1 and (tmp_path / "right" / "user" / "user.md").is_file()
    assert "s3cret" not in outcome.stdout + outcome.stderr
    written = [path.read_bytes() for path in (tmp_path / "right").rglob("*") if path.is_file()]
    assert written and not any(b"s3cret" in data for data in written)
    document, _ = read(owner)
    assert document.markdown.strip() == printed_text(0)  # the pixels are decrypted, not only counted


def test_case_08_one_truncated_pdf_of_ten(tmp_path: Path) -> None:
    """Nine results, one named failure, exit 1; the order of the summary is that of the inputs."""
    names = [f"{number}.pdf" for number in range(10)]
    for number, name in enumerate(names):
        write_pdf(tmp_path / name, [page(number)])
    broken = tmp_path / "4.pdf"
    data = broken.read_bytes()
    broken.write_bytes(data[: len(data) // 3])
    outcome, requests = parse(*(tmp_path / name for name in names), out=tmp_path / "out")
    assert outcome.code == 1 and outcome.report["n_failed"] == 1 and len(requests) == 9
    assert [Path(file["file"]).name for file in outcome.report["files"]] == names
    for name, file in outcome.files.items():
        if name == "4.pdf":
            assert file["status"] == "failed" and "4.pdf" in file["error"] and "intact copy" in file["error"]
            assert file["outputs"] == []
        else:
            assert (file["status"], file["n_pages"], file["error"]) == ("ok", 1, None)
            assert markdown(tmp_path / "out", Path(name).stem).startswith("A picture of 1400 by 1800")
            assert all(Path(output).is_file() for output in file["outputs"])
    assert any("4.pdf" in line and "failed" in line for line in outcome.stderr.splitlines())
    assert "Traceback" not in outcome.stderr


def test_case_09_files_are_known_by_their_content(tmp_path: Path) -> None:
    """Zero bytes and a web page named .pdf are named as what they are; a PDF named .png is read."""
    (tmp_path / "empty.pdf").touch()
    (tmp_path / "page.pdf").write_text("<!DOCTYPE html><html><body>Please log in</body></html>", encoding="utf-8")
    write_pdf(tmp_path / "really.png", [page(), page(1)])
    page(2).save(tmp_path / "scan.pdf", "PNG")
    outcome, _ = parse(tmp_path, out=tmp_path.parent / f"{tmp_path.name}-out")
    assert outcome.code == 1 and outcome.report["n_failed"] == 2
    assert {name: (file["status"], file["n_pages"]) for name, file in outcome.files.items()} == {
        "empty.pdf": ("failed", 0), "page.pdf": ("failed", 0), "really.png": ("ok", 2), "scan.pdf": ("ok", 1),
    }  # fmt: skip
    assert "0 bytes" in outcome.files["empty.pdf"]["error"]
    assert "web page" in outcome.files["page.pdf"]["error"] and "page.pdf" in outcome.files["page.pdf"]["error"]


@pytest.mark.parametrize("paper", ["white", "scanned", "black"])
def test_case_10_blank_pages_are_empty_and_ask_no_model(tmp_path: Path, paper: str) -> None:
    """Paper without ink, a scanner's noise on it or the lid left open: an entry without regions."""
    blank = Image.new("RGB", PAGE, "black" if paper == "black" else "white")
    if paper == "scanned":
        noise = np.random.default_rng(3).normal(0, 2.5, (PAGE[1], PAGE[0]))
        shade = np.linspace(238, 250, PAGE[0])[None, :]
        blank = Image.fromarray(np.clip(shade + noise, 0, 255).astype(np.uint8)).convert("RGB")
    frames = [page(0), blank, page(3)]
    frames[0].save(tmp_path / "a.tiff", save_all=True, append_images=frames[1:])
    outcome, requests = parse(tmp_path / "a.tiff", out=tmp_path / "out")
    assert outcome.code == 0 and outcome.files["a.tiff"]["status"] == "ok" and outcome.files["a.tiff"]["n_pages"] == 3
    assert len(requests) == 2
    assert sorted(paper_share(picture(request)) for request in requests) == sorted(map(paper_share, (page(3), page(0))))
    pages = json.loads((tmp_path / "out" / "a" / "a.json").read_text(encoding="utf-8"))["pages"]
    assert [one["page"] for one in pages] == [1, 2, 3] and [len(one["regions"]) for one in pages] == [1, 0, 1]
    assert (pages[1]["status"], pages[1]["error"]) == ("ok", None)
    blank.save(tmp_path / "only.png")
    outcome, requests = parse(tmp_path / "only.png", out=tmp_path / "only")
    assert outcome.code == 0 and requests == [] and outcome.files["only.png"]["status"] == "ok"
    assert markdown(tmp_path / "only", "only") == ""
