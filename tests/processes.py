"""Running parts of a test in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]


def start(module: str, *arguments: str | Path, options: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    """A module of the tests as a process, this source tree first on its path."""
    command = [sys.executable, *options, "-m", module, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def finish(process: subprocess.Popen[str], timeout: float = 50.0) -> tuple[str, str]:
    """What it wrote, when it ended well by itself within `timeout` seconds."""
    try:
        out, err = process.communicate(timeout=timeout)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    assert process.returncode == 0, err
    return out, err
