"""The load tests run, lose nothing (they check it themselves) and write what they found. No time is judged here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMES = sorted(
    path.stem for path in (ROOT / "load_tests").glob("*.py") if '__name__ == "__main__"' in path.read_text("utf-8")
)


def test_there_is_a_script_per_question() -> None:
    assert {"appends", "growth", "idle", "mailbox", "snapshot"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_load_test_runs(name: str, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    command = [
        sys.executable,
        "-m",
        f"load_tests.{name}",
        "--quick",
        "--json",
        str(out),
        "--directory",
        str(tmp_path),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text("utf-8"))
    assert found["machine"]["python"] in sys.version
    assert found["settings"]["quick"] is True
    assert found["tables"]
    assert all(len(row) == len(table["columns"]) for table in found["tables"] for row in table["rows"])
    assert found["targets"]
