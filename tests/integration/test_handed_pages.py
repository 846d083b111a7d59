"""All handed pages parse; slow pages are the reason why this file stands alone."""

from __future__ import annotations

import pytest

from gravityocr.api import GravityOCR

SUFFIXES = {".png", ".jpg", ".pdf"}


@pytest.mark.slow
def test_every_handed_page_parses_without_a_failed_region(cases_dir):
    ocr = GravityOCR.from_pretrained("nano")
    files = sorted(file for file in (cases_dir / "page").iterdir() if file.suffix in SUFFIXES)
    assert len(files) == 24
    broken = []
    for file in files:
        document = ocr.parse(file, pages="1-2")
        failed = [region.error for page in document.pages for region in page.regions if region.status == "failed"]
        # A region that was cut (a loop on a script that the checkpoint cannot read) is told, and is no failure.
        if document.status == "failed" or failed or not document.n_regions:
            broken.append((file.name, document.status, document.error, failed))
    assert broken == []
