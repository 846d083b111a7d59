"""Render the pool of regions that travels with the package: sentences, formulas and tables of our own, cut for `nano`.

    python scripts/make_sample_regions.py --data data --out src/gravityocr/samples/regions

Text comes from README.md and docs/, a section a document; formulas from the list below, joined and renamed by chance;
tables are invented. `--data` is a folder that scripts/prepare_data.py filled; only its fonts are used. Formulas need
pdflatex, tables Chromium.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from gravityocr.model.table_pieces import TablePieceSpec
from gravityocr.training.corpora.conversion import ConversionConfig, Skipped
from gravityocr.training.corpora.mixture import SplitConfig
from gravityocr.training.corpora.pool import REPORT, PoolConfig, build_pool
from gravityocr.training.corpora.region_shards import SUFFIX, LabelledRegion, write_regions
from gravityocr.training.corpora.synth import SynthShards
from gravityocr.training.synthetic.content import ContentSource
from gravityocr.training.synthetic.corpus import Corpus, clean_paragraph
from gravityocr.training.synthetic.formula_crops import make_formula_samples
from gravityocr.training.synthetic.formula_normal_form import target_tokens
from gravityocr.training.synthetic.formula_parser import parse_formula
from gravityocr.training.synthetic.shards import RenderedSample, write_shard
from gravityocr.training.synthetic.table_crops import TableCropRenderer, table_samples
from gravityocr.training.synthetic.text_crops import TextCropRenderer

ROOT = Path(__file__).resolve().parents[1]
N_TEXTS, N_TABLES, N_FORMULAS = 180, 60, 60
PIECES_A_TABLE = 3
FORMULAS_A_SHEET = 5
MAX_FORMULA_PX = 640
MAX_DIFFICULTY = 0.6
LEAST_SECTION_CHARS = 200
SOURCE = "sample"
SEED = 20261130
HELD_SHARE = 0.15

FORMULAS = (
    r"n_{k+1}=n_{k}+1+a_{k}",
    r"T=\frac{N-1}{F}",
    r"p(y|x)=\prod_{i=1}^{N}p(y_{i}|y_{1},\ldots,y_{i-1},x)",
    r"L=-\sum_{i=1}^{N}\log p(y_{i})",
    r"L_{0}=\lambda L_{1}+(1-\lambda)L_{2}",
    r"0\leq\lambda\leq1",
    r"\theta_{t+1}=\theta_{t}-\eta\nabla L(\theta_{t})",
    r"m_{t}=\beta_{1}m_{t-1}+(1-\beta_{1})g_{t}",
    r"v_{t}=\beta_{2}v_{t-1}+(1-\beta_{2})g_{t}^{2}",
    r"\hat{m}=\frac{m}{1-\beta^{t}}",
    r"s=\sqrt{\frac{1}{n-1}\sum_{i=1}^{n}(x_{i}-\bar{x})^{2}}",
    r"\bar{x}=\frac{x_{1}+x_{2}+\cdots+x_{n}}{n}",
    r"q_{j}=\frac{e^{z_{j}}}{\sum_{k}e^{z_{k}}}",
    r"C=P+3(N+B)",
    r"P+3(N+B)\leq R",
    r"B\in\{8,16,32\}",
    r"a^{2}+b^{2}=c^{2}",
    r"(a+b)^{2}=a^{2}+2ab+b^{2}",
    r"x_{1,2}=\frac{-b\pm\sqrt{b^{2}-4ac}}{2a}",
    r"\sum_{k=0}^{n}r^{k}=\frac{1-r^{n+1}}{1-r}",
    r"\sum_{k=1}^{n}k=\frac{n(n+1)}{2}",
    r"f(x)=\alpha x+\beta",
    r"\int_{a}^{b}f(x)dx=F(b)-F(a)",
    r"\frac{d}{dx}x^{n}=nx^{n-1}",
    r"\lim_{n\rightarrow\infty}\frac{1}{n}=0",
    r"e^{i\phi}=\cos\phi+i\sin\phi",
    r"\sin^{2}\alpha+\cos^{2}\alpha=1",
    r"\mathbf{y}=\mathbf{W}\mathbf{x}+\mathbf{b}",
    r"A=\left(\begin{array}{cc}a&b\\ c&d\end{array}\right)",
    r"M=\left[\begin{array}{ccc}1&0&0\\ 0&1&0\\ 0&0&1\end{array}\right]",
    r"\det A=ad-bc",
    r"u\cdot v=\sum_{i}u_{i}v_{i}",
    r"|u\cdot v|\leq\|u\|\|v\|",
    r"X\subset Y\cup Z",
    r"\forall x\in X\exists y\in Y",
    r"x\mapsto x^{2}+1",
    r"d(x,z)\leq d(x,y)+d(y,z)",
    r"\mathcal{L}(\theta)=\mathbb{E}[\ell(x,\theta)]",
    r"\Delta t=t_{1}-t_{0}",
    r"v=\frac{\Delta s}{\Delta t}",
    r"F=m\ddot{x}",
    r"E=\frac{1}{2}mv^{2}+mgh",
    r"\rho=\frac{m}{V}",
    r"\omega=2\pi f",
    r"\tau\approx0.95",
    r"P(A|B)=\frac{P(A\cap B)}{P(B)}",
    r"\binom{n}{k}=\frac{n!}{k!(n-k)!}",
    r"\sigma(z)=\frac{1}{1+e^{-z}}",
    r"\tilde{y}_{i}=\arg\max_{y}p(y|x)",
    r"h_{l}=h_{l-1}+g(h_{l-1})",
)
"""Written down for this file; what everybody knows, and the quantities of this project."""


def sections() -> Iterator[tuple[str, str]]:
    """Yield (name, running text) of the sections of README.md and docs/ that hold enough of it."""
    for file in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = re.sub(r"```.*?```", "\n\n", file.read_text(encoding="utf-8"), flags=re.DOTALL)
        for number, section in enumerate(re.split(r"(?m)^#+ ", text)):
            kept = []
            for raw in re.split(r"\n\s*\n|\n(?=[-*] )", section):
                words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", raw)
                words = re.sub(r"^[-*] |[`*]", "", " ".join(words.split()))
                paragraph = clean_paragraph(words) if "|" not in words else None
                kept += [paragraph] if paragraph else []
            body = "\n".join(kept)
            if len(body) >= LEAST_SECTION_CHARS:
                yield f"{file.stem} {number}", body


def write_corpus(folder: Path, text: str) -> Corpus:
    row = {"document": "own", "split": "train", "text": text}
    (folder / "corpus.jsonl").write_text(json.dumps(row, ensure_ascii=False) + "\n", encoding="utf-8")
    return Corpus(folder, "train")


def text_samples(work: Path) -> list[RenderedSample]:
    rng = np.random.default_rng(SEED)
    found = [*sections()]
    write_corpus(work, "\n".join(text for _, text in found))
    renderer = TextCropRenderer(work)
    samples = []
    for number in range(N_TEXTS):
        name, text = found[number % len(found)]
        renderer.content = ContentSource(write_corpus(work, text))
        crop = renderer.sample(rng, float(rng.uniform(0.0, MAX_DIFFICULTY)))
        samples.append(RenderedSample("text", crop.image, tuple(crop.text), crop.centers_px, name))
    return samples


def own_tables(work: Path) -> list[RenderedSample]:
    rng = np.random.default_rng(SEED + 1)
    write_corpus(work, "\n".join(text for _, text in sections()))
    samples: list[RenderedSample] = []
    with TableCropRenderer(work) as renderer:
        number = 0
        while len(samples) < N_TABLES:
            number += 1
            for crop in renderer.batch(rng, 1):
                pieces = table_samples(crop, TablePieceSpec())
                picked = rng.choice(len(pieces), size=min(PIECES_A_TABLE, len(pieces)), replace=False)
                samples += [replace(pieces[at], source=f"table {number}") for at in sorted(picked)]
    return samples[:N_TABLES]


def own_formulas(work: Path) -> list[RenderedSample]:
    samples: list[RenderedSample] = []
    order = np.random.default_rng(SEED + 2).permutation(len(FORMULAS))
    sheet = 0
    while len(samples) < N_FORMULAS:
        start = sheet * FORMULAS_A_SHEET
        chosen = [FORMULAS[order[at % len(FORMULAS)]] for at in range(start, start + FORMULAS_A_SHEET)]
        sheet += 1
        with (work / "formulas.jsonl").open("w", encoding="utf-8") as lines:
            for latex in chosen:
                n_tokens = len(target_tokens(parse_formula(latex)))
                row = {"latex": latex, "split": "train", "n_tokens": n_tokens, "source": f"formulas {sheet}"}
                lines.write(json.dumps(row) + "\n")
        made = make_formula_samples(work, "train", SEED + sheet, FORMULAS_A_SHEET)
        samples += [replace(s, source=f"formulas {sheet}") for s in made if s.image.shape[1] <= MAX_FORMULA_PX]
    return samples[:N_FORMULAS]


def as_regions(shards: Path) -> list[LabelledRegion]:
    """Convert the shards, name the regions after the pool, and mix them."""
    converter = SynthShards(ConversionConfig())
    regions: list[LabelledRegion] = []
    for unit in converter.units(shards):
        for number, found in enumerate(converter.regions(unit)):
            if isinstance(found, Skipped):
                raise SystemExit(f"{found.where}: {found.reason}")
            doc_id = found.doc_id.partition("/")[2]
            region_id = f"{SOURCE}/{doc_id}/0/{number}"
            regions.append(replace(found, region_id=region_id, source=SOURCE, doc_id=doc_id))
    return [regions[at] for at in np.random.default_rng(SEED).permutation(len(regions))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        for shared in ("fonts.json", "fonts"):
            (work / shared).symlink_to((args.data / shared).resolve())
        (work / "shards").mkdir()
        kinds = {"text": text_samples, "tables": own_tables, "formulas": own_formulas}
        for kind, make in kinds.items():
            write_shard(work / "shards" / f"{kind}.shard.npz", make(work))
        source = work / f"{SOURCE}{SUFFIX}"
        write_regions(source, as_regions(work / "shards"))
        config = PoolConfig(validation=SplitConfig(share=HELD_SHARE))
        report = build_pool([source], args.out, config, processes=1, overwrite=True, say=print)
        # The temporary folder of this machine is nobody's affair.
        text = (args.out / REPORT).read_text(encoding="utf-8").replace(f"{source.parent.resolve()}/", "")
        (args.out / REPORT).write_text(text, encoding="utf-8")
    print(json.dumps(report["splits"], indent=1))


if __name__ == "__main__":
    main()
