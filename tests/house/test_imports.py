"""The import table of the design: which part of the package may import which other part."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib

import pytest

BASE = {"errors", "document", "config", "image_size"}
EVERYTHING = {"*"}

# part -> the parts it may import, the base and itself apart. A dotted entry admits that module only or,
# where it ends in an underscore, those whose name starts with it.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "document": set(),
    "config": set(),
    "image_size": set(),
    "metrics": set(),
    "model": set(),
    "decoding": {"model"},
    "engine": {"decoding", "model"},
    "pipeline": set(),
    "training": {"model", "decoding", "metrics", "pipeline.crops", "pipeline.layout", "pipeline.layout_"},
    "rl": {"training", "metrics", "engine"},
    "serving": {"engine", "pipeline"},
    "benchmark": {"pipeline", "metrics"},
    "api": {"engine", "pipeline", "decoding", "model"},
    "cli": EVERYTHING,
    "commands": EVERYTHING,  # the command line, one module a command
    "__main__": {"cli"},
    "": {"api"},  # gravityocr/__init__.py, which looks GravityOCR up when it is first used
}

# distribution of pyproject.toml -> the module that it is imported as. rapid-layout is wanted for the file
# inside its wheel: importing it would import OpenCV.
MODULE_OF = {"pillow": "PIL", "rapid-layout": None, "markdown-it-py": "markdown_it"}
NEVER = {"cv2", "rapid_layout"}

# Modules of the extras: importable only inside a function, so that the package works without them.
OPTIONAL = {
    "transformers", "fontTools", "trl", "matplotlib", "pyarrow", "accelerate", "tensorboard",
    "huggingface_hub", "datasets", "pillow_heif",
}  # fmt: skip


def imported_modules(source) -> list[tuple[int, str, bool]]:
    """List (line, dotted module, at module level) of every import of a file, relative ones resolved."""
    found = []
    inside = {id(node) for outer in ast.walk(source.tree) for node in _lazy_nodes(outer)}
    for node in ast.walk(source.tree):
        at_top = id(node) not in inside
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name, at_top) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            prefix = _absolute(source, node)
            # `from gravityocr import errors` and `from gravityocr.pipeline import crops` name a module.
            if re.fullmatch(r"gravityocr(\.\w+)?", prefix):
                found += [(node.lineno, f"{prefix}.{alias.name}", at_top) for alias in node.names]
            else:
                found.append((node.lineno, prefix, at_top))
    return found


def _lazy_nodes(node: ast.AST) -> list[ast.AST]:
    """List what runs only when called, or never: bodies of functions and of `if TYPE_CHECKING`."""
    lazy = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or (
        isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    )
    return [inner for statement in node.body for inner in ast.walk(statement)] if lazy else []


def _absolute(source, node: ast.ImportFrom) -> str:
    if node.level == 0:
        return node.module or ""
    package = source.module.split(".")
    if not source.path.endswith("__init__.py"):
        package = package[:-1]
    package = package[: len(package) - (node.level - 1)]
    return ".".join([*package, *([node.module] if node.module else [])])


def part_of(module: str) -> str:
    """Name the part of the package that a dotted module belongs to; '' is the package itself."""
    return module.split(".")[1] if "." in module else ""


def _admitted(target: str, allowed: set[str]) -> bool:
    inner = target.removeprefix("gravityocr.")
    part = inner.split(".")[0]
    if allowed == EVERYTHING or part in allowed | BASE:
        return True
    names = ".".join(inner.split(".")[:2])
    return names in allowed or any(entry.endswith("_") and names.startswith(entry) for entry in allowed)


def table_violations(source) -> list[str]:
    """List the imports of one file that the table does not admit."""
    part = part_of(source.module)
    if part not in MAY_IMPORT:
        return [
            f"{source.path}: '{part}' is no part of the design; its table in tests/house has no row for it"
        ]
    violations = []
    for line, module, _ in imported_modules(source):
        if not module.startswith("gravityocr.") or part_of(module) in (part, "__version__"):
            continue
        if not _admitted(module, MAY_IMPORT[part]):
            violations.append(f"{source.path}:{line}: {part or 'gravityocr'} may not import {module}")
    return violations


def third_party_violations(source, runtime: set[str]) -> list[str]:
    """List the imports of one file from outside that its place does not admit."""
    violations = []
    for line, module, at_top in imported_modules(source):
        name = module.split(".")[0]
        where = f"{source.path}:{line}"
        if name == "gravityocr" or name in sys.stdlib_module_names:
            continue
        if name in NEVER or name not in runtime | OPTIONAL:
            violations.append(f"{where}: {name} is not a runtime need of pyproject.toml")
        elif name in OPTIONAL and at_top:
            violations.append(
                f"{where}: {name} belongs to an extra; import it inside the function that needs it"
            )
        elif name == "torch" and part_of(source.module) in {"metrics", *BASE}:
            violations.append(f"{where}: {part_of(source.module)} may not import torch")
    return violations


def round_violations(source) -> list[str]:
    """List what decoding/round.py imports beyond torch, the errors and the standard library."""
    return [
        f"{source.path}:{line}: round.py may not import {module}"
        for line, module, _ in imported_modules(source)
        if module.split(".")[0] not in sys.stdlib_module_names | {"torch"}
        and not module.startswith("gravityocr.errors")
    ]


@pytest.fixture(scope="module")
def runtime(repo_root) -> set[str]:
    """Read the importable modules of the runtime dependencies from pyproject.toml."""
    project = tomllib.loads((repo_root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = [re.match(r"[A-Za-z0-9-]+", requirement).group() for requirement in project["dependencies"]]
    return {module for name in names if (module := MODULE_OF.get(name, name))}


def test_every_part_imports_only_what_the_table_admits(sources) -> None:
    assert [line for source in sources for line in table_violations(source)] == []


def test_outside_imports_are_runtime_needs_and_extras_are_lazy(sources, runtime) -> None:
    assert [line for source in sources for line in third_party_violations(source, runtime)] == []


def test_the_round_imports_only_torch_errors_and_the_standard_library(sources) -> None:
    rounds = [source for source in sources if source.module == "gravityocr.decoding.round"]
    assert len(rounds) == 1, "decoding/round.py is missing"
    assert round_violations(rounds[0]) == []


def test_light_parts_import_without_torch_or_opencv(repo_root) -> None:
    """Hold at run time what the table says of the text: metrics and the base never pull torch in."""
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]);"
        "import gravityocr.config, gravityocr.document, gravityocr.errors, gravityocr.metrics.edit;"
        "sys.exit(', '.join(sorted({'torch', 'cv2', 'transformers'} & sys.modules.keys())) or 0)"
    )
    command = [sys.executable, "-c", script, str(repo_root / "src")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("path", "text", "n_violations"),
    [
        ("gravityocr/model/text.py", "from gravityocr.decoding.round import run_round", 1),
        ("gravityocr/model/text.py", "from gravityocr import decoding", 1),
        ("gravityocr/model/text.py", "from ..decoding import round", 1),
        ("gravityocr/model/text.py", "def f():\n    import gravityocr.engine.engine", 1),
        ("gravityocr/model/text.py", "from .rope import x\nfrom gravityocr.errors import InputError", 0),
        ("gravityocr/training/sources.py", "from gravityocr.pipeline.crops import crop", 0),
        ("gravityocr/training/sources.py", "from gravityocr.pipeline import crops", 0),
        ("gravityocr/training/sources.py", "from gravityocr.pipeline.layout_cdla import CdlaLayout", 0),
        ("gravityocr/training/sources.py", "from gravityocr.pipeline.markdown import render", 1),
        ("gravityocr/engine/engine.py", "from gravityocr.cli import main", 1),
        ("gravityocr/helpers/strings.py", "", 1),
        ("gravityocr/errors.py", "from gravityocr.document import Crop", 0),
    ],
)
def test_the_table_catches(parse, path: str, text: str, n_violations: int) -> None:
    assert len(table_violations(parse(path, text))) == n_violations


@pytest.mark.parametrize(
    ("path", "text", "n_violations"),
    [
        ("gravityocr/pipeline/layout.py", "import cv2", 1),
        ("gravityocr/pipeline/layout.py", "def f():\n    import rapid_layout", 1),
        ("gravityocr/pipeline/layout.py", "import requests", 1),
        ("gravityocr/pipeline/layout.py", "import transformers", 1),
        ("gravityocr/pipeline/layout.py", "def f():\n    import transformers", 0),
        ("gravityocr/pipeline/layout.py", "if TYPE_CHECKING:\n    import transformers", 0),
        ("gravityocr/pipeline/layout.py", "import json, torch, PIL.Image", 0),
        ("gravityocr/metrics/teds.py", "def f():\n    import torch", 1),
    ],
)
def test_the_outside_rule_catches(parse, runtime, path: str, text: str, n_violations: int) -> None:
    assert len(third_party_violations(parse(path, text), runtime)) == n_violations


def test_the_round_rule_catches(parse) -> None:
    text = "import math\nimport torch\nimport numpy\n"
    text += "from gravityocr.errors import InputError\nfrom . import trace\n"
    assert len(round_violations(parse("gravityocr/decoding/round.py", text))) == 2
