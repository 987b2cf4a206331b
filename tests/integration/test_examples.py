"""Each example runs from its line in the README."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINES = re.findall(r"^\$ python (examples/.*)$", (ROOT / "examples" / "README.md").read_text("utf-8"), re.MULTILINE)
SCRIPTS = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "examples").glob("*.py"))


def test_the_readme_has_them_all() -> None:
    """Each once."""
    assert sorted(shlex.split(line)[0] for line in LINES) == SCRIPTS


def run(line: str, folder: Path, typed: str) -> str:
    path, *arguments = shlex.split(line)
    command = [sys.executable, "-W", "error", str(ROOT / path), *arguments]
    done = subprocess.run(command, cwd=folder, input=typed, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("line", [line for line in LINES if "console_agent" in line])
def test_the_console_agent(line: str, tmp_path: Path) -> None:
    """Two tools are used, and a second run goes on with what was said in the first."""
    out = run(line, tmp_path, "what time is it in UTC+2?\nnote: buy bread\n")
    assert re.search(r"\[time_in: \d\d:\d\d\]\ntime_in says: \d\d:\d\d", out)
    assert "take_note says: 1 notes so far, the last one: buy bread" in out
    assert "I know 3 of your messages" in run(line, tmp_path, "hello\n")
