"""Other rules of the house: no environment, no swallowed errors, everything public explained."""

from __future__ import annotations

import ast
import re

import pytest

# Where one crop, region or file may fail without taking the rest down, and the command line's end: `except Exception`
# there must put the error into the result's status, or into the line on stderr.
FAILURES_BECOME_STATUS = {
    "gravityocr/pipeline/convert.py",
    "gravityocr/cli.py",
}
BROAD = {"Exception", "BaseException"}
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|NotImplementedError")
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|root|opt|home/\w+|Users/\w+)/")


def environment_reads(source) -> list[str]:
    """List where a file reads or writes environment variables."""
    found = []
    for node in ast.walk(source.tree):
        named = isinstance(node, ast.Attribute) and node.attr in {"environ", "environb", "getenv", "putenv"}
        imported = isinstance(node, ast.ImportFrom) and node.module == "os"
        if named or (imported and {alias.name for alias in node.names} & {"environ", "getenv", "putenv"}):
            found.append(
                f"{source.path}:{node.lineno}: settings come from arguments and TOML, not the environment"
            )
    return found


def broad_excepts(source) -> list[str]:
    """List the handlers that catch everything, but for those that turn a failure into a status."""
    found = []
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.ExceptHandler):
            continue
        caught = (
            {name.id for name in ast.walk(node.type) if isinstance(name, ast.Name)} if node.type else BROAD
        )
        if not caught & BROAD:
            continue
        used = {
            name.id for statement in node.body for name in ast.walk(statement) if isinstance(name, ast.Name)
        }
        if source.path not in FAILURES_BECOME_STATUS:
            found.append(f"{source.path}:{node.lineno}: catches everything; name the errors")
        elif node.name not in used or "BaseException" in caught:
            found.append(f"{source.path}:{node.lineno}: swallows the error instead of reporting it")
    return found


def undocumented(source) -> list[str]:
    """List the public modules, classes, functions and methods without a docstring.

    `forward` of a network needs none of its own where its class has said it all.
    """
    found = [] if ast.get_docstring(source.tree) else [f"{source.path}:1: module"]
    for node in source.tree.body:
        inner = node.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_") else []
        for item in [node, *inner]:
            if not isinstance(item, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            if item.name.startswith("_") or item.name == "forward" or ast.get_docstring(item):
                continue
            if {"overload", "override"} & {
                ast.unparse(decorator).split(".")[-1] for decorator in item.decorator_list
            }:
                continue
            found.append(f"{source.path}:{item.lineno}: {item.name}")
    return found


def test_settings_never_come_from_the_environment(sources) -> None:
    assert [line for source in sources for line in environment_reads(source)] == []


def test_no_error_is_swallowed(sources) -> None:
    assert [line for source in sources for line in broad_excepts(source)] == []


def test_everything_public_is_explained(sources) -> None:
    assert [line for source in sources for line in undocumented(source)] == []


def test_no_module_is_a_drawer(sources) -> None:
    drawers = {"utils", "util", "helpers", "helper", "common", "misc"}
    assert [source.path for source in sources if drawers & set(source.module.split("."))] == []


def test_nothing_is_left_unfinished(sources) -> None:
    assert [source.path for source in sources if UNFINISHED.search(source.text)] == []


def test_no_path_of_one_machine(repo_root) -> None:
    folders = [repo_root / name for name in ("src", "scripts", "benchmarks", ".ci")]
    kinds = {".py", ".sh", ".toml", ".md", ""}
    files = [path for folder in folders for path in folder.rglob("*") if path.suffix in kinds]
    files += [repo_root / name for name in ("README.md", "Makefile", "pyproject.toml", "constraints.txt")]
    texts = {path: path.read_text(encoding="utf-8") for path in files if path.is_file()}
    assert [str(path) for path, text in texts.items() if MACHINE_PATH.search(text)] == []


@pytest.mark.parametrize(
    ("text", "n_found"),
    [
        ("import os\nos.environ['A']", 1),
        ("from os import getenv", 1),
        ("import os\nos.getenv('A')", 1),
        ("import os\nos.replace('a', 'b')", 0),
    ],
)
def test_the_environment_rule_catches(parse, text: str, n_found: int) -> None:
    assert len(environment_reads(parse("gravityocr/a.py", text))) == n_found


@pytest.mark.parametrize(
    ("path", "handler", "n_found"),
    [
        ("gravityocr/a.py", "except:\n    pass", 1),
        ("gravityocr/a.py", "except Exception as error:\n    print(error)", 1),
        ("gravityocr/a.py", "except (OSError, Exception):\n    pass", 1),
        ("gravityocr/a.py", "except (OSError, ValueError):\n    pass", 0),
        ("gravityocr/pipeline/convert.py", "except Exception as error:\n    status = str(error)", 0),
        ("gravityocr/pipeline/convert.py", "except Exception as error:\n    pass", 1),
        ("gravityocr/pipeline/convert.py", "except BaseException as error:\n    status = str(error)", 1),
    ],
)
def test_the_except_rule_catches(parse, path: str, handler: str, n_found: int) -> None:
    assert len(broad_excepts(parse(path, f"try:\n    f()\n{handler}\n"))) == n_found


def test_the_docstring_rule_catches(parse) -> None:
    text = "class A:\n    def f(self): ...\n    def _g(self): ...\n    def forward(self): ...\n"
    text += "def h(): ...\nclass _B:\n    def f(self): ...\n"
    assert len(undocumented(parse("gravityocr/a.py", text))) == 4  # the module, A, A.f, h
