"""Each Python snippet of README and docs runs as it stands, and prints what its comments say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[2]


def snippets() -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for token in MarkdownIt().parse(page.read_text(encoding="utf-8")):
            if token.type == "fence" and token.info.strip() == "python":
                line = (token.map or [0])[0] + 1
                found.append((f"{page.relative_to(ROOT)}:{line}", token.content))
    return found


SNIPPETS = snippets()


def test_there_are_snippets() -> None:
    """The README has one, and the docs have some."""
    assert any(where.startswith("README.md") for where, _ in SNIPPETS)
    assert len(SNIPPETS) >= 4


@pytest.mark.parametrize(("where", "code"), SNIPPETS, ids=[where for where, _ in SNIPPETS])
def test_a_snippet_runs(where: str, code: str, tmp_path: Path) -> None:
    """In an empty folder, with warnings as errors."""
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, f"{where}\n{done.stderr}"
    wanted = [line.partition("# prints ")[2].strip() for line in code.splitlines() if "# prints " in line]
    assert all(text in done.stdout for text in wanted), f"{where}: {wanted} not in {done.stdout!r}"
