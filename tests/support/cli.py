"""Running the command line, in this process and in one of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from diarist.adapters.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "tests" / "data" / "chats.jsonl"


class Done:
    """What a command gave."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    def __repr__(self) -> str:
        return f"exit code {self.code}\n{self.out}\n{self.err}"

    @property
    def objects(self) -> list[Any]:
        """Its output as JSON, one object a line."""
        return [json.loads(line) for line in self.out.splitlines()]


def diarist(*arguments: object) -> Done:
    """A command in this process. An error that it lets through is raised."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    return Done(result.exit_code, result.stdout, result.stderr)


def start(*arguments: object, options: Iterable[str] = ("-W", "error")) -> subprocess.Popen[str]:
    """A command in a process of its own, its output unbuffered and in pipes."""
    command = [sys.executable, "-u", *options, "-m", "diarist", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def finish(process: subprocess.Popen[str], seconds: float = 50.0) -> Done:
    """Wait for a command's end."""
    try:
        out, err = process.communicate(timeout=seconds)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    return Done(process.returncode, out, err)


def wait_for(process: subprocess.Popen[str], text: str) -> str:
    """Read what the command prints until `text` is in it."""
    assert process.stdout is not None
    seen = ""
    while text not in seen:
        character = process.stdout.read(1)
        assert character, f"{text!r} never came: {seen}"
        seen += character
    return seen
