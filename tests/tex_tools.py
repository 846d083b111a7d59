"""The mark of tests that render with TeX: skipped, with the packages named, where TeX is not installed."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from gravityocr.metrics.formulas.tex_runner import DEBIAN_PACKAGES

_FILES = ("upgreek.sty", "multirow.sty", "CJK.sty", "c70gkai.fd")


def _has_tex() -> bool:
    if not shutil.which("pdflatex") or not shutil.which("kpsewhich"):
        return False
    found = subprocess.run(["kpsewhich", *_FILES], capture_output=True, text=True, timeout=30, check=False)
    return len(found.stdout.split()) == len(_FILES)


needs_tex = pytest.mark.skipif(not _has_tex(), reason=f"no TeX: apt-get install {' '.join(DEBIAN_PACKAGES)}")
