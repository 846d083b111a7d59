"""Runs of pdflatex that hold many formulas, one a page, and tell how each of them fared.

A run is confined: no shell escape, files only inside its own folder, limits on time, memory and output. Markers on the
terminal frame every formula, so that an error, an overfull box or a hang is pinned to the formula that caused it.
"""

from __future__ import annotations

import re
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from gravityocr.errors import ConfigError

Kind = Literal["math", "chinese", "tabular"]
FINAL_PAPER = 1
CJK_FONT = "gkai"
MAX_ADDRESS_SPACE = 2 << 30
MAX_FILE_BYTES = 256 << 20
DEBIAN_PACKAGES = ("texlive-latex-extra", "latex-cjk-chinese", "latex-cjk-chinese-arphic-gkai00mp")
_PACKAGES = {"math": "", "chinese": "\\usepackage{CJK}\n", "tabular": "\\usepackage{multirow}\n"}
# Reported where colour stands in text, which is how Chinese is set; TeX goes on as if nothing had been said.
_HARMLESS = "! LaTeX Error: \\mathcolor allowed only in math mode."
_MARK = re.compile(r"^@([be]) (\d+) (\d+) (\d+)$", re.M)


class ToolMissingError(ConfigError):
    """A program or TeX package that formula scores need and that is not installed."""


@dataclass(frozen=True)
class TexRun:
    """What a run left: the PDF (None where TeX gave up), the terminal output, and whether it ran out of time."""

    pdf: bytes | None
    output: str
    timed_out: bool


@dataclass(frozen=True)
class Fate:
    """How a formula of a shared run fared; `page` counts from 0 and is set for `done` only.

    `again`: the run ended early or an error before it may have spoilt it; `alone`: it needs a run of its own.
    """

    outcome: Literal["done", "overfull", "alone", "again"]
    page: int = -1


@lru_cache(maxsize=1)
def pdflatex_path() -> str:
    """Find pdflatex.

    *Raises*: `ToolMissingError` naming the Debian packages.
    """
    found = shutil.which("pdflatex")
    if not found:
        raise ToolMissingError(f"pdflatex is not installed; CDM needs it: apt-get install {' '.join(DEBIAN_PACKAGES)}")
    return found


@lru_cache(maxsize=1)
def pdflatex_version() -> str:
    """Return the first line of `pdflatex --version`."""
    done = subprocess.run([pdflatex_path(), "--version"], capture_output=True, text=True, timeout=30, check=False)
    return done.stdout.partition("\n")[0]


def document(bodies: Sequence[str], kind: Kind, paper: int, *, marked: bool) -> str:
    """Write a TeX document with one formula a page on landscape paper A`paper`.

    *Source*: the templates of the official CDM, whose packages, class and colour command these are.
    """
    head = (
        "\\documentclass[12pt]{article}\n\\usepackage[landscape]{geometry}\n\\usepackage{geometry}\n"
        f"\\geometry{{a{paper}paper,scale=0.98}}\n\\pagestyle{{empty}}\n\\usepackage{{booktabs}}\n"
        f"\\usepackage{{amsmath}}\n\\usepackage{{upgreek}}\n{_PACKAGES[kind]}\\usepackage{{amssymb}}\n"
        "\\usepackage{xcolor}\n\\begin{document}\n\\makeatletter\n"
        "\\renewcommand*{\\@textcolor}[3]{\\protect\\leavevmode\\begingroup\\color#1{#2}#3\\endgroup}\n\\makeatother\n"
    )
    parts = [head]
    for i, body in enumerate(bodies):
        display = f"\\begin{{displaymath}}\n{body}\n\\end{{displaymath}}\n"
        if kind == "chinese":
            display = f"\\begin{{CJK}}{{UTF8}}{{{CJK_FONT}}}\n{display}\\end{{CJK}}\n"
        parts.append(f"{_mark('b', i)}{display}\\newpage\n{_mark('e', i)}" if marked else display)
    return "".join([*parts, "\\end{document}\n"])


def _mark(edge: str, i: int) -> str:
    return f"\\message{{^^J@{edge} {i} \\the\\value{{page}} \\the\\currentgrouplevel^^J}}%\n"


def run_tex(source: str, timeout_s: float) -> TexRun:
    """Run pdflatex over a document in a folder of its own.

    *Raises*: `ToolMissingError` where pdflatex is missing.
    """
    program = pdflatex_path()
    with tempfile.TemporaryDirectory(prefix="gravityocr-tex-") as name:
        folder = Path(name)
        (folder / "page.tex").write_text(source, encoding="utf-8", errors="replace")
        # Paranoid file access: TeX neither reads nor writes outside this folder and its own trees.
        safe = {"openin_any": "p", "openout_any": "p", "shell_escape": "f", "max_print_line": "1000"}
        command = [program, "-no-shell-escape", "-interaction=nonstopmode", "page.tex"]
        with (folder / "terminal").open("wb") as terminal:
            process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=terminal,
                stderr=subprocess.DEVNULL,
                env={"PATH": str(Path(program).parent) + ":/usr/bin:/bin", "HOME": name, "TMPDIR": name, **safe},
            )
            timed_out = _confine_and_wait(process, timeout_s)
        output = (folder / "terminal").read_bytes()[: MAX_FILE_BYTES // 16].decode("utf-8", errors="replace")
        pdf = folder / "page.pdf"
        usable = pdf.is_file() and pdf.stat().st_size > 0 and not timed_out
        return TexRun(pdf=pdf.read_bytes() if usable else None, output=output, timed_out=timed_out)


def _confine_and_wait(process: subprocess.Popen[bytes], timeout_s: float) -> bool:
    limits = {
        resource.RLIMIT_AS: MAX_ADDRESS_SPACE,
        resource.RLIMIT_FSIZE: MAX_FILE_BYTES,
        resource.RLIMIT_CORE: 0,
    }
    try:
        for what, most in limits.items():
            resource.prlimit(process.pid, what, (most, most))
        process.wait(timeout=timeout_s)
    except ProcessLookupError:
        process.wait()
    except subprocess.TimeoutExpired:
        return True
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    return False


def read_fates(output: str, n_formulas: int, has_pdf: bool) -> list[Fate]:
    """Tell from the markers of a shared run how each formula fared.

    An error makes a formula `alone`, and all that follow it `again`: TeX may have recovered into a state that spoils
    them. Where no PDF came out, the formula that never ended is the culprit.
    """
    begins: dict[int, re.Match[str]] = {}
    ends: dict[int, re.Match[str]] = {}
    for mark in _MARK.finditer(output):
        (begins if mark[1] == "b" else ends).setdefault(int(mark[2]), mark)
    fates: list[Fate] = []
    spoilt = False
    for i in range(n_formulas):
        begin, end = begins.get(i), ends.get(i)
        if begin is None or end is None:
            fates.append(Fate("alone" if begin else "again"))
            spoilt = True
            continue
        text = output[begin.end() : end.start()]
        errors = [line for line in text.splitlines() if line.startswith("!") and not line.startswith(_HARMLESS)]
        n_pages = int(end[3]) - int(begin[3])
        if errors or begin[4] != end[4] or n_pages < 1:
            fates.append(Fate("alone"))
            spoilt = True
        elif spoilt or not has_pdf:
            fates.append(Fate("again"))
        else:
            wide = "Overfull \\" in text or n_pages > 1
            fates.append(Fate("overfull") if wide else Fate("done", int(begin[3]) - 1))
    return fates
