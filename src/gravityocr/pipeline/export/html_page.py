"""The look and the behaviour of the HTML export: its style sheet and its one script."""

from __future__ import annotations

import base64
import hashlib
from html import escape

STYLE = """
:root { color-scheme: light dark; --ground: #fff; --ink: #1b1f24; --soft: #f3f4f6; --line: #d0d7de; --mark: #fff3bf;
  --warn: #9a3412; --warn-ground: #ffedd5; --link: #0b57d0; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #14171a; --ink: #e6e8eb; --soft: #1f2428; --line: #3a4148; --mark: #4d4318; --warn: #fdba74;
    --warn-ground: #43230f; --link: #8ab4f8; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 1rem/1.55 system-ui, sans-serif; }
header { padding: 1rem 1.5rem; border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
header p { margin: .2rem 0; }
.name { font-size: 1.25rem; font-weight: 600; }
.page { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); gap: 1.5rem; padding: 1.5rem;
  border-bottom: 1px solid var(--line); }
.scan { position: sticky; top: 1rem; align-self: start; margin: 0; max-height: calc(100vh - 2rem); overflow: auto; }
.sheet { position: relative; border: 1px solid var(--line); background: #fff; }
.sheet img, .sheet svg { display: block; width: 100%; height: auto; }
.sheet svg.over { position: absolute; inset: 0; height: 100%; }
.scan figcaption { color: var(--ink); opacity: .75; padding: .25rem 0; }
.box polygon { fill: currentColor; fill-opacity: .06; stroke: currentColor; stroke-width: 1.5;
  vector-effect: non-scaling-stroke; cursor: pointer; }
.box { color: #57606a; outline: none; }
.box.text, .box.list { color: #0b57d0; } .box.doc_title, .box.title { color: #c2255c; } .box.table { color: #2b8a3e; }
.box.formula, .box.formula_number { color: #7048e8; } .box.figure, .box.logo { color: #d9480f; }
.box.caption, .box.footnote, .box.aside { color: #0c8599; } .box.code, .box.reference { color: #846a00; }
.box.bad polygon { stroke: #e03131; stroke-dasharray: 5 3; fill: #e03131; }
.box:hover polygon, .box:focus-visible polygon, .box.near polygon { fill-opacity: .22; stroke-width: 2.5; }
.box.chosen polygon { fill-opacity: .3; stroke-width: 3.5; }
.passage { position: relative; padding: .1rem 4rem .1rem .6rem; margin: .35rem 0; border-left: 3px solid transparent;
  border-radius: 3px; overflow-x: auto; overflow-wrap: anywhere; scroll-margin: 4rem; }
.passage:hover, .passage.near { border-left-color: var(--link); background: var(--soft); }
.passage.chosen { border-left-color: var(--link); background: var(--mark); }
.passage > :first-child { margin-top: .3rem; } .passage > :last-child { margin-bottom: .3rem; }
.places { position: absolute; inset-inline-end: .6rem; top: .2rem; max-width: 3.2rem; text-align: end;
  font-size: .75rem; opacity: .6; }
.places a { color: inherit; }
.furniture { opacity: .7; font-size: .9em; }
.status { display: inline-block; padding: 0 .45em; border-radius: 3px; background: var(--warn-ground);
  color: var(--warn); font-size: .85rem; font-weight: 600; }
.passage img { max-width: 100%; height: auto; background: #fff; }
table { border-collapse: collapse; }
td, th { border: 1px solid var(--line); padding: .2rem .5rem; vertical-align: top; overflow-wrap: normal; }
th { background: var(--soft); } caption { text-align: start; }
pre { overflow-x: auto; background: var(--soft); padding: .6rem; } code { font-family: ui-monospace, monospace; }
.formula { display: flex; align-items: center; gap: 1rem; overflow-x: auto; } .formula math { flex: 1; }
math[display=block] { padding: .3rem 0; } mtable[displaystyle=true] { math-style: normal; }
mtd[columnalign=left] { text-align: left; } mtd[columnalign=right] { text-align: right; }
.rest { margin: .6rem; font-size: .9rem; } .rest summary { cursor: pointer; opacity: .75; }
@media (max-width: 60rem) {
  .page { grid-template-columns: minmax(0, 1fr); padding: 1rem; } .scan { position: static; max-height: none; } }
@media print { .scan { position: static; max-height: none; } .page { break-after: page; } }
"""

SCRIPT = """
"use strict";
(() => {
  const passageOf = (box) => document.getElementById(box.getAttribute("href").slice(1));
  const boxesOf = (passage) => (passage.dataset.boxes || "").split(" ").filter(Boolean)
    .map((id) => document.getElementById(id)).filter(Boolean);
  const group = (part) => {
    const passage = part.classList.contains("box") ? passageOf(part) : part;
    return passage ? [passage, ...boxesOf(passage)] : [part];
  };
  const partAt = (target) => target instanceof Element ? target.closest(".box, .passage") : null;
  const clear = (name) => document.querySelectorAll("." + name).forEach((part) => part.classList.remove(name));
  const mark = (part, name) => { clear(name); if (part) group(part).forEach((one) => one.classList.add(name)); };
  const choose = (part, first) => {
    mark(part, "chosen");
    group(part).forEach((one) => { const folded = one.closest("details"); if (folded) folded.open = true; });
    const other = group(part).find((one) => one !== part && one.classList.contains("box") !==
      part.classList.contains("box"));
    (first || other)?.scrollIntoView({ block: "nearest", inline: "nearest" });
  };
  document.addEventListener("pointerover", (event) => mark(partAt(event.target), "near"));
  document.addEventListener("focusin", (event) => mark(partAt(event.target), "near"));
  document.addEventListener("click", (event) => {
    const part = partAt(event.target);
    if (!part || event.target.closest("summary")) return;
    if (String(getSelection())) return;
    const place = event.target.closest(".places a");
    if (part.classList.contains("box") || place) event.preventDefault();
    choose(part, place && document.getElementById(place.getAttribute("href").slice(1)));
  });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") { clear("chosen"); clear("near"); } });
})();
"""


def document_head(title: str) -> str:
    """Return the beginning of a page up to its body: its own style and script may run, nothing may be loaded."""
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_digest(STYLE)}'; script-src '{_digest(SCRIPT)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        '<!DOCTYPE html>\n<html lang="">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
    )


def document_end() -> str:
    """Return what follows the last page: the script, and the end."""
    return f"<script>{SCRIPT}</script>\n</body>\n</html>\n"


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
