"""The fonts that TeX sets training crops in: text and mathematics that go together."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from gravityocr.errors import ConfigError

FONT_PACKAGES = (
    "texlive-latex-extra", "texlive-fonts-recommended", "texlive-fonts-extra", "texlive-plain-generic", "lmodern",
    "tex-gyre",
)  # fmt: skip
"""The Debian packages that have all families; those that are missing are not drawn."""
_BOLD, _SCRIPT = "\\boldsymbol ", "\\mathscr "
_SCRIPT_FILES = "mathrsfs.sty rsfs10.tfm"


@dataclass(frozen=True)
class TexFont:
    """A family: the packages that load it, the files that must be there, how often it is drawn."""

    name: str
    packages: str
    needs: str
    weight: float
    bold_math: bool = True

    def can_set(self, tokens: Iterable[str]) -> bool:
        """Tell whether the family has what the tokens ask for."""
        names = set(tokens)
        return (self.bold_math or _BOLD not in names) and (_SCRIPT not in names or _are_installed(_SCRIPT_FILES))


MATH_FONTS = (
    TexFont("cm", "", "cmmi10.tfm", 10.0),
    TexFont("lm", r"\usepackage[T1]{fontenc}\usepackage{lmodern}", "lmodern.sty ec-lmr10.tfm", 3.0),
    TexFont("times", r"\usepackage{mathptmx}", "mathptmx.sty ptmr8t.tfm", 2.5, bold_math=False),
    TexFont("newtx", r"\usepackage{newtxtext,newtxmath}", "newtxmath.sty ntxmi.tfm binhex.tex", 3.0),
    TexFont("palatino", r"\usepackage{mathpazo}", "mathpazo.sty pplr8t.tfm", 1.5),
    TexFont("stix2", r"\usepackage[T1]{fontenc}\usepackage{stix2}", "stix2.sty stix2-mathit.tfm", 2.0),
    TexFont("fourier", r"\usepackage{fourier}", "fourier.sty futr8t.tfm", 0.7, bold_math=False),
    TexFont("charter", r"\usepackage[charter]{mathdesign}", "mathdesign.sty mdbchr7t.tfm", 0.7),
    TexFont("cmbright", r"\usepackage{cmbright}", "cmbright.sty cmbr10.tfm", 0.5),
)
"""Families that set a whole formula."""

TEXT_FONTS = (
    TexFont("lm", r"\usepackage[T1]{fontenc}\usepackage{lmodern}", "lmodern.sty ec-lmr10.tfm", 8.0),
    TexFont("times", r"\usepackage[T1]{fontenc}\usepackage{mathptmx}", "mathptmx.sty ptmr8t.tfm", 3.0, bold_math=False),
    TexFont(
        "newtx",
        r"\usepackage[T1]{fontenc}\usepackage{tgtermes,newtxmath}",
        "newtxmath.sty ntxmi.tfm ec-qtmr.tfm",
        4.0,
    ),
    TexFont("times-cm", r"\usepackage[T1]{fontenc}\usepackage{times}", "times.sty ptmr8t.tfm", 2.0),
    TexFont("palatino", r"\usepackage[T1]{fontenc}\usepackage{mathpazo}", "mathpazo.sty pplr8t.tfm", 2.0),
    TexFont("stix2", r"\usepackage[T1]{fontenc}\usepackage{stix2}", "stix2.sty stix2-mathit.tfm", 2.0),
    TexFont("utopia", r"\usepackage[T1]{fontenc}\usepackage{fourier}", "fourier.sty futr8t.tfm", 1.0, bold_math=False),
    TexFont("charter", r"\usepackage[T1]{fontenc}\usepackage[charter]{mathdesign}", "mathdesign.sty mdbchr7t.tfm", 1.0),
    TexFont("bookman", r"\usepackage[T1]{fontenc}\usepackage{bookman}", "bookman.sty pbkl8t.tfm", 0.7),
    TexFont("newcent", r"\usepackage[T1]{fontenc}\usepackage{newcent}", "newcent.sty pncr8t.tfm", 0.8),
    TexFont(
        "helvet",
        r"\usepackage[T1]{fontenc}\usepackage[scaled=0.92]{helvet}\renewcommand\familydefault{\sfdefault}",
        "helvet.sty phvr8t.tfm",
        1.5,
    ),
    TexFont(
        "cmbright", r"\usepackage[T1]{fontenc}\usepackage{cmbright}\usepackage{lmodern}", "cmbright.sty cmbr10.tfm", 0.5
    ),
)
"""Families that set prose with formulas, in an encoding that has all its characters."""


def pick_font(fonts: Sequence[TexFont], rng: np.random.Generator) -> TexFont:
    """Draw one of the families that are installed.

    *Raises*: ConfigError where none is.
    """
    there = [font for font in fonts if _are_installed(font.needs)]
    if not there:
        raise ConfigError(f"TeX has no font for training crops: apt-get install {' '.join(FONT_PACKAGES)}")
    weights = np.array([font.weight for font in there])
    return there[int(rng.choice(len(there), p=weights / weights.sum()))]


def font_preamble(font: TexFont, size_pt: int) -> str:
    """Return the preamble of a document of one family and size."""
    script = "\\usepackage{mathrsfs}" if _are_installed(_SCRIPT_FILES) else ""
    return (
        f"\\documentclass[{size_pt}pt]{{article}}\\usepackage{{amsmath}}"
        f"{font.packages}\\usepackage{{amssymb}}{script}\n"
    )


@lru_cache(maxsize=64)
def _are_installed(files: str) -> bool:
    """Ask TeX for files, by their names with blanks between."""
    program = shutil.which("kpsewhich")
    if program is None:
        return False
    found = subprocess.run([program, *files.split()], capture_output=True, text=True, check=False, timeout=60)
    return len(found.stdout.split()) == len(files.split())
