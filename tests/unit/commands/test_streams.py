"""The command line's streams: closed or full ones stop no work, and what is printed cannot act on the terminal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gravityocr import cli
from gravityocr.commands.streams import visible, visible_lines


def shell(repo_root: Path, folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    """Run a line of shell in which `$G` is the command line."""
    environment = os.environ | {"PYTHONPATH": str(repo_root / "src"), "G": f"{sys.executable} -m gravityocr"}
    return subprocess.run(["sh", "-c", command], cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("lost", ["2>&-", "2>/dev/full", "0<&- 2>&-"])
def test_a_lost_stderr_costs_the_progress_only(repo_root: Path, tmp_path: Path, lost: str) -> None:
    result = shell(repo_root, tmp_path, f"$G parse gone.png -o out --json {lost}")
    assert result.returncode == 1 and result.stderr == ""
    assert json.loads(result.stdout)["files"][0]["status"] == "failed"


@pytest.mark.parametrize(("lost", "why"), [(">&-", "is closed"), (">/dev/full", "No space left")])
def test_a_lost_stdout_is_told_where_it_was_wanted(repo_root: Path, tmp_path: Path, lost: str, why: str) -> None:
    result = shell(repo_root, tmp_path, f"$G parse gone.png -o out --json {lost}")
    assert result.returncode == 1 and "stdout: cannot be written (" in result.stderr and why in result.stderr
    assert "1 input: 1 failed" in result.stderr and "internal" not in result.stderr
    result = shell(repo_root, tmp_path, f"$G parse gone.png -o out {lost}")
    assert result.returncode == 1 and "stdout" not in result.stderr


def test_control_characters_are_shown() -> None:
    assert visible("a\x1b]0;x\x07\n\x9b\u202e\u2028\x7fé文") == r"a\x1b]0;x\x07\n\x9b\u202e\u2028\x7fé文"
    assert visible_lines("a\rb\nc") == "a\\rb\nc"


def test_errors_name_files_with_their_control_characters_shown(repo_root: Path, tmp_path: Path) -> None:
    result = shell(repo_root, tmp_path, r"""$G parse a.png -o out --config "$(printf 'x\033[2J.toml')" """)
    assert result.returncode == 2 and r"x\x1b[2J.toml: cannot be read" in result.stderr


def test_help_and_unknown_commands_import_no_command(repo_root: Path, tmp_path: Path) -> None:
    script = (
        "import sys\nfrom gravityocr import cli\nsys.argv = ['gravityocr', *sys.argv[1:]]\n"
        "try:\n    cli.main()\nexcept SystemExit:\n    pass\n"
        "print([name for name in ('torch', 'transformers', 'PIL') if name in sys.modules])\n"
    )
    for arguments, told in (
        (["--help"], "recognize"),
        (["prase"], "Did you mean 'parse'?"),
        (["xyz"], "Choose one of"),
    ):
        environment = os.environ | {"PYTHONPATH": str(repo_root / "src")}
        command = [sys.executable, "-c", script, *arguments]
        result = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert told in result.stdout + result.stderr and result.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_help_says_what_the_commands_say_of_themselves(name: str) -> None:
    assert cli._import_command(name).get_short_help_str(500).startswith(cli.COMMANDS[name].removesuffix("."))
