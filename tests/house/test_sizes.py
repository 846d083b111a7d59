"""Files, functions and the decode round stay small enough to read at one sitting."""

from __future__ import annotations

import ast

FILE_LINES = 400
FUNCTION_LINES = 60
ROUND_LINES = 180


def long_functions(source) -> list[str]:
    """List the functions of a file over the limit; docstrings do not count: explaining costs nothing."""
    found = []
    for node in ast.walk(source.tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            n_lines = node.end_lineno - node.lineno + 1
            if ast.get_docstring(node) is not None:
                n_lines -= node.body[0].end_lineno - node.body[0].lineno + 1
            if n_lines > FUNCTION_LINES:
                found.append(f"{source.path}:{node.lineno}: {node.name} has {n_lines} lines")
    return found


def test_files_are_short(sources) -> None:
    counts = {source.path: len(source.text.splitlines()) for source in sources}
    assert {path: n for path, n in counts.items() if n > FILE_LINES} == {}


def test_functions_are_short(sources) -> None:
    assert [line for source in sources for line in long_functions(source)] == []


def test_the_round_fits_on_a_few_screens(sources) -> None:
    (text,) = [source.text for source in sources if source.module == "gravityocr.decoding.round"]
    assert len(text.splitlines()) <= ROUND_LINES


def test_the_function_rule_catches(parse) -> None:
    def function(n_lines: int, docstring: str = "") -> str:
        return f"def f():\n{docstring}" + "    x = 1\n" * (n_lines - 1)

    assert long_functions(parse("gravityocr/a.py", function(FUNCTION_LINES))) == []
    assert len(long_functions(parse("gravityocr/a.py", function(FUNCTION_LINES + 1)))) == 1
    explained = function(FUNCTION_LINES, '    """One.\n\n    Two.\n    """\n')
    assert long_functions(parse("gravityocr/a.py", explained)) == []
